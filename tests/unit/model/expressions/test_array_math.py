"""Functions of arrays have the bits of `host_math`, whichever way they are computed."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.model.expressions import array_math
from tauslab.model.expressions.host_math import value_of

N = 400
POSITIVE = np.concatenate([np.exp(np.random.default_rng(1).uniform(-40, 40, N)), np.arange(1, 9)])
POWERS = np.concatenate([np.random.default_rng(2).uniform(-9, 9, N), [1.5, 0.5, 2, -1, 3, 0, 1, 9]])
ARGUMENTS = {
    "exp": [POWERS * 9], "log": [POSITIVE], "log10": [np.append(POSITIVE, 1000.0)],
    "pow": [POSITIVE, POWERS], "cbrt": [-POSITIVE], "tanh": [POWERS[::9]],
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -745.0, 1e308, 1.5]


@pytest.mark.parametrize("function", ARGUMENTS)
def test_arrays_have_the_bits_of_single_values(function):
    arguments = ARGUMENTS[function]
    for_all = np.array(np.meshgrid(*[SPECIAL] * len(arguments))).reshape(len(arguments), -1)
    columns = [np.append(own, more) for own, more in zip(arguments, for_all, strict=True)]
    actual = array_math.apply(function, *columns)
    wanted = [value_of(function, *row) for row in np.array(columns).T.tolist()]
    assert (actual.view(np.int64) == np.array(wanted).view(np.int64)).all()


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="longdouble is no wider")
def test_few_values_are_computed_one_by_one(monkeypatch):
    requested = []
    monkeypatch.setattr(array_math, "value_of", lambda *given: requested.append(given) or 0.0)
    array_math.apply("pow", POSITIVE, POWERS)
    assert len(requested) < 0.1 * N
