"""How much of a long row of cases an ordinary run takes; ``-m validate`` takes all of them."""

from __future__ import annotations

import pytest


def strides(ordinary: int) -> pytest.MarkDecorator:
    """Parametrise `stride`: every so many cases in an ordinary run, each one with `validate`."""
    every = pytest.param(1, id="every", marks=pytest.mark.validate)
    return pytest.mark.parametrize("stride", [pytest.param(ordinary, id="spread"), every])


def spread(first: int, end: int, stride: int) -> list[int]:
    """Numbers from `first` to before `end`, `stride` apart, and the last one."""
    return sorted({*range(first, end, stride), end - 1})
