"""Logarithms of arrays against logarithms one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.model import portable
from tauslab.model.expressions.host_math import value_of
from tauslab.model.portable import rounded_log


def numbers() -> np.ndarray:
    """All magnitudes, both sides of 1 and of the places where the way changes."""
    rng = np.random.default_rng(1)
    near = np.sqrt(0.5)
    return np.concatenate(
        [
            rng.random(1000),
            1 + rng.normal(size=500) * 1e-3,
            1 + np.arange(-100, 100) * 2.0**-52,
            np.exp(rng.uniform(-700, 700, 500)),
            2.0 ** np.arange(-1074.0, 1024.0, 7.0),
            [near, np.nextafter(near, 0), np.nextafter(near, 1), 5e-324, 1e-310, 1.7e308],
        ]
    )


def test_each_is_the_nearest_double() -> None:
    x = numbers()
    expected = np.array([value_of("log", one) for one in x.tolist()])
    np.testing.assert_array_equal(rounded_log(x).view(np.int64), expected.view(np.int64))


def test_shapes_and_few_numbers() -> None:
    x = numbers()[:24]
    assert rounded_log(x.reshape(2, 3, 4)).shape == (2, 3, 4)
    assert rounded_log(x.reshape(4, 6))[1, 2] == rounded_log(x[8:9])[0]
    assert rounded_log(np.array([])).shape == (0,)


def test_few_are_computed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[float] = []
    monkeypatch.setattr(portable, "value_of", lambda name, one: requested.append(one) or 0.0)
    rounded_log(np.random.default_rng(2).random(20_000))
    assert len(requested) <= 5
