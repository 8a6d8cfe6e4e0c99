"""How much of a long row of cases an ordinary run takes; ``-m validate`` takes all of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def strides(ordinary: int) -> pytest.MarkDecorator:
    """Parametrise `stride`: every so many cases in an ordinary run, each one with `validate`."""
    every = pytest.param(1, id="every", marks=pytest.mark.validate)
    return pytest.mark.parametrize("stride", [pytest.param(ordinary, id="spread"), every])


def spread(first: int, end: int, stride: int) -> list[int]:
    """Numbers from `first` to before `end`, `stride` apart, and the last one."""
    return sorted({*range(first, end, stride), end - 1})


def ordinary(cases: Iterable[object], *kept: object) -> list[object]:
    """Cases of `parametrize`; with `validate` all of them, in an ordinary run the kept ones alone.

    >>> [getattr(one, "values", one) for one in ordinary(["a", "b"], "b")]
    [('a',), 'b']
    """
    every = list(cases)
    unknown = [one for one in kept if one not in every]
    assert not unknown, f"no cases: {unknown}"
    return [
        one
        if one in kept
        else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.validate)
        for one in every
    ]
