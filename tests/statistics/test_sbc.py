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
    for row in validate_sbc.table([CASES.index(name)], data_sets, 1, "cpu"):
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
    """One data set of a fixed seed; each interval of a right program misses in one of ten.

    Of two or four independent ones more than half miss in one of 100 or 270 data sets.
    """
    rows = validate_sbc.recovered(name, "cpu")
    assert sum(row[-1] != "yes" for row in rows) <= len(rows) // 2, rows


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
