"""Ranks of parameters among draws of their posteriors are uniform: scripts/validate.py sbc.

A row of a right program fails once in 1,000 by its ranks, and once in 16,000 by its intervals.
"""

from __future__ import annotations

import inference_models
import numpy as np
import pytest
import validate_sbc

import tauslab as ts

CASES = [str(one) for one in validate_sbc.cases()]
PUBLISHED = {
    str(one): one
    for one in validate_sbc.cases()
    if one.model.model in inference_models.PUBLISHED and one.method == "pmmh"
}
SMALL = [
    str(one) for one in validate_sbc.cases() if one.model.model not in inference_models.PUBLISHED
]


def _require_uniform_ranks(name, data_sets):
    ranks = validate_sbc.answered([CASES.index(name)], data_sets, 1, "cpu")
    for row in validate_sbc.table(ranks):
        line = validate_sbc.line(*row)
        assert line[-1] == "pass", line


def test_ranks_of_a_few_data_sets_are_uniform():
    _require_uniform_ranks("smc2: gene, making", 25)


# The last place of each of many short chains is a draw, whether or not they are long enough alone.
@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:the chains ended with an effective size")
@pytest.mark.parametrize("name", SMALL)
def test_ranks_are_uniform(name):
    _require_uniform_ranks(name, 100)


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:the chains ended with an effective size")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_are_recovered(name):
    """One data set of a fixed seed, of which the true values are one more draw of the posterior.

    A right program fails in one of 1,000 data sets if posteriors of logarithms are normal, and in
    fewer since the true values are the medians of the priors.
    """
    rows = validate_sbc.recovered(name, "cpu")
    assert float(rows[0][-1]) > 0.001, rows


def test_true_values_far_from_draws_are_told_from_one_more_draw():
    """p-values of one more draw are uniform: their mean is 5 deviations off in 1 of a million."""
    draws = np.random.default_rng(1)
    cloud = draws.standard_normal((600, 19, 4)) @ np.triu(np.ones((4, 4)))
    more = draws.standard_normal((600, 4)) @ np.triu(np.ones((4, 4)))
    found = [validate_sbc.distance(*each) for each in zip(cloud, more, strict=True)]
    assert abs(np.mean(found) - 0.5) < 5 / np.sqrt(12 * 600)
    far = [validate_sbc.distance(one / 6, other) for one, other in zip(cloud, more, strict=True)]
    assert np.mean(np.array(far) < 0.001) > 0.8


def test_data_tell_published_values_from_others():
    """Likelihoods of a data set of a fixed seed at rates three times too large or too small."""
    case = next(one for one in PUBLISHED.values() if str(one.model) == "proofreading")
    net, data = validate_sbc.data_set(case, case.medians(), 1, "cpu")
    rates = {name: np.full(9, value) for name, value in case.medians().items()}
    for place, values in enumerate(rates.values()):
        values[1 + 2 * place : 3 + 2 * place] *= 3.0, 1 / 3
    found = ts.particle_filters(
        net, data, observe=case.noises(), n=50, set=rates, seed=1, device="cpu", quiet=True
    )
    assert (found.log_likelihood[1:] < found.log_likelihood[0] - 2).all()


@pytest.mark.parametrize("counts", [[20] + [8] * 18 + [36], [0] * 5 + [20] * 10 + [0] * 5])
def test_ranks_that_are_not_uniform_fail(counts):
    line = validate_sbc.line(next(validate_sbc.cases()), "birth", counts, 0.9)
    assert line[-1] == "FAIL"
    assert validate_sbc.line(next(validate_sbc.cases()), "birth", [10] * 20, 0.78)[-1] == "FAIL"
    assert validate_sbc.line(next(validate_sbc.cases()), "birth", [10] * 20, 0.9)[-1] == "pass"
