"""Random walks on parameters: what their proposal becomes, and how far chains agree."""

from __future__ import annotations

import importlib.util
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
    for size in mixing.SIZES.values():
        assert math.isnan(size(rows))
    assert math.isnan(mixing.rhat(rows))
    rows[3] = 2.5
    for size in mixing.SIZES.values():
        assert math.isnan(size(rows))
    assert mixing.rhat(rows) == math.inf
    rows[:, 25:] += 1.0
    assert mixing.rhat(rows) == math.inf


def some_chains(kind):
    draws = np.random.Generator(np.random.Philox(key=7))
    noise = draws.standard_normal((4, 91))
    rows = np.zeros_like(noise)
    for step in range(1, 91):
        rows[:, step] = 0.6 * rows[:, step - 1] + noise[:, step]
    if kind == "shifted":
        rows[0] += 2
    elif kind == "wide":
        rows[0] *= 4
    elif kind == "ties":
        rows = np.round(rows)
    return {"one": rows[:1], "against": np.diff(noise, axis=1), "heavy": noise**3}.get(kind, rows)


# R-hat and effective sizes of bulk, tail and mean, of ArviZ 0.23.4.
ARVIZ = {
    "plain": (1.069622493309921, 86.08303403156246, 160.8914280295847, 99.7031918824048),
    "shifted": (1.3845474118602967, 9.948262475905505, 38.71626455450567, 9.485807613023171),
    "wide": (1.2276786832062376, 79.26871565782784, 30.440615259486655, 56.80433794078855),
    "heavy": (1.0097216690178448, 342.19330583964984, 336.54899278951484, 330.51135088360394),
    "ties": (1.0615709326205085, 105.02764988286978, 151.47308037072844, 104.67199667285652),
    "one": (math.nan, 5.5086190780495325, 43.92047321721978, 5.198772525271645),
    "against": (1.0035999565837472, 920.2689002762235, 418.93309908380814, 920.2689002762235),
}


@pytest.mark.parametrize("kind", ARVIZ)
def test_sizes_and_rhat_are_those_of_arviz(kind):
    """Of one chain ArviZ gives no R-hat."""
    rows = some_chains(kind)
    own = (mixing.rhat(rows), *(size(rows) for size in mixing.SIZES.values()))
    first = int(kind == "one")
    known = ARVIZ[kind]
    if importlib.util.find_spec("arviz") is not None:
        arviz = importlib.import_module("arviz")
        sizes = (arviz.ess(rows, method=of) for of in mixing.SIZES)
        known = (arviz.rhat(rows), *map(float, sizes))
    np.testing.assert_allclose(own[first:], known[first:], rtol=1e-10)
