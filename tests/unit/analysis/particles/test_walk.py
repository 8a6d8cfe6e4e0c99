"""Random walks on parameters: what their proposal becomes, and how far chains agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tauslab.analysis.filters import mixing
from tauslab.analysis.filters.walk import Walk
from tauslab.options.values.priors import Prior


def walk(width, chains=8, **given):
    """Chains in three normal distributions within priors of deviation 1."""
    priors = {name: Prior.parse(name, "normal(0,1)") for name in "abc"}
    given = {"steps": 200, "warm_up": 200, "seed": 1, "start": {}, "proposal": None} | given

    def log_likelihood(values, step):
        return sum(-0.5 * (x / width) ** 2 for x in values.values())

    made = Walk(priors, log_likelihood, chains=chains, **given)
    made.begin()
    return made


@pytest.mark.parametrize(
    ("width", "start"), [(0.002, 0.01), (0.02, 0.01), (0.02, np.linspace(-0.9, 0.9, 8)), (0.3, 0.3)]
)
def test_a_proposal_becomes_as_wide_as_the_posterior(width, start):
    """Also where first proposals are much too wide, so that hardly a step moves."""
    made = walk(width, start=dict.fromkeys("abc", start))
    made.run()
    values, _, moved = made.result()
    spread = np.sqrt(np.diag(made.root @ made.root.T)) / width
    assert (spread > 0.6).all()
    assert (spread < 3).all()
    assert 0.15 < moved.mean() < 0.5
    np.testing.assert_allclose(values.reshape(-1, 3).std(axis=0), width, rtol=0.4)


def test_a_proposal_stays_after_the_warm_up():
    made, roots = walk(0.1), []
    made.run(lambda: roots.append(made.root))
    assert len({root.tobytes() for root in roots[:200]}) > 10
    assert all((root == roots[199]).all() for root in roots[199:])


@pytest.mark.parametrize("value", [0.1, 0.7, 1.1, math.log(0.3)])
def test_chains_that_stay_have_no_size(value):
    """Variances of equal numbers are not 0 where their mean is rounded."""
    rows = np.full((8, 50), value)
    assert math.isnan(mixing.effective_size(rows))
    assert math.isnan(mixing.rhat(rows))
    rows[3] = 2.5
    assert math.isnan(mixing.effective_size(rows))
    assert mixing.rhat(rows) == math.inf
    rows[:, 25:] += 1.0
    assert mixing.rhat(rows) == math.inf
