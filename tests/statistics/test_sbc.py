"""Ranks of parameters among draws of their posteriors are uniform: scripts/validate.py sbc.

A row of a right program fails once in 1,000 by its ranks, and once in 16,000 by its intervals.
"""

from __future__ import annotations

import pytest
import validate_sbc

CASES = [str(one) for one in validate_sbc.cases()]


def _require_uniform_ranks(name, data_sets):
    for row in validate_sbc.table([CASES.index(name)], data_sets, 1, "cpu"):
        line = validate_sbc.line(*row)
        assert line[-1] == "pass", line


def test_ranks_of_a_few_data_sets_are_uniform():
    _require_uniform_ranks("smc2: gene, making", 25)


# The last place of each of many short chains is a draw, whether or not they are long enough alone.
@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:the chains ended with an effective size")
@pytest.mark.parametrize("name", CASES)
def test_ranks_are_uniform(name):
    _require_uniform_ranks(name, 100)


@pytest.mark.parametrize("counts", [[20] + [8] * 18 + [36], [0] * 5 + [20] * 10 + [0] * 5])
def test_ranks_that_are_not_uniform_fail(counts):
    line = validate_sbc.line(next(validate_sbc.cases()), "birth", counts, 0.9)
    assert line[-1] == "FAIL"
    assert validate_sbc.line(next(validate_sbc.cases()), "birth", [10] * 20, 0.78)[-1] == "FAIL"
    assert validate_sbc.line(next(validate_sbc.cases()), "birth", [10] * 20, 0.9)[-1] == "pass"
