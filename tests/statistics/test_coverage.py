"""Every stated uncertainty holds the exact value, or a warning says that it may not.

Cases are those of scripts/validate.py coverage. A row fails where more than 5 % and
four deviations are bad: a false alarm in one of 30,000 for each, were its coverage 95 %; of few
seeds in one of 900.
"""

from __future__ import annotations

import pytest
import validate_coverage

CASES = [str(one) for one in validate_coverage.cases()]
QUICK = (("share: n 20, p 0.3", 100), ("fit, drawn: small_prey, noise 2", 10))


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *QUICK,
        *(pytest.param(name, 200, marks=pytest.mark.validate) for name in CASES),
    ],
)
def test_what_is_stated_holds(name, seeds):
    for _, part, actual in validate_coverage.table([CASES.index(name)], seeds, 1, "cpu"):
        assert not actual.fails, (part, vars(actual))


def test_the_table_fails_where_too_few_hold():
    row = validate_coverage.Row(seeds=200, stated=200, held=170, warned=0, bad=30)
    assert row.fails
    assert not validate_coverage.Row(seeds=200, stated=200, held=190, warned=0, bad=10).fails
    assert not validate_coverage.Row(0.5, seeds=200, stated=200, held=75, bad=125).fails
    assert validate_coverage.Row(0.5, seeds=200, stated=200, held=70, bad=130).fails
    line = validate_coverage.line(next(validate_coverage.cases()), "", row)
    message = dict(zip(validate_coverage.COLUMNS, line, strict=True))
    assert (message["bad %"], message["verdict"]) == ("15.0", "FAIL")
