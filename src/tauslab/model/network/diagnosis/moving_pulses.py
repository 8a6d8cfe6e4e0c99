"""Smooth pulses at times that differ between trajectories, as formulas of these times.

A part such as ``exp(-((time - p) / w)^2)`` is a function f(u) of one line u = slope time + rest, of
which f has no names: f is looked at once, for all trajectories. Where it leaves a level and comes
back to it, ends of its changes at u are times (u - rest) / slope, which a kernel computes from the
values of each trajectory. Neither other trajectories nor the end of the run change them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    bottom_up,
    call,
    looks_back,
    outermost,
    substitute,
    symbols,
    with_arguments,
)
from tauslab.model.expressions.time_relations import folded
from tauslab.model.network.diagnosis.hidden_pulses import values_of
from tauslab.model.network.diagnosis.time_breaks import ARITHMETIC, moves

_TIME, _ZERO = Symbol("time"), Number(0.0)
_LEVEL = 1e-6  # of the range: at the level from before the pulse
_QUIET = 4  # values at both ends of the grid that stand on the level
_MOST = 32  # stretches in which a part changes: more are no single pulses
_POWERS, _PARTS = 30, 512  # of two on the grid of u, below 1 and above; values of each
_TOP = 1 - 1e-6  # of the largest change: as good as at the top, whatever the last bits
_Line = tuple[Expression, Expression]  # slope, rest


def times_of_pulses(
    part: Expression, varying: Collection[str], known: Mapping[str, float]
) -> tuple[Expression, ...]:
    """Ends of the changes of all pulses of a part without jumps; none where one is not found."""
    numbers = {name: Number(known[name]) for name in symbols(part) & known.keys()}
    return _times(substitute(part, numbers), varying) or ()


def _times(tree: Expression, varying: Collection[str]) -> tuple[Expression, ...] | None:
    """Times of the pulses of a tree; None where some are not known."""
    if not moves(tree, varying):
        return ()
    result = _times_of_one(tree)
    if result is None and isinstance(tree, Call) and tree.function in ARITHMETIC:
        parts = [_times(part, varying) for part in tree.arguments]
        if all(times is not None for times in parts):
            result = tuple(dict.fromkeys(t for times in parts for t in times or ()))
    return result


def _times_of_one(tree: Expression) -> tuple[Expression, ...] | None:
    """Times of a pulse of a function of one line; None for all other functions."""
    lines = {*outermost(tree, lambda one: "time" in symbols(one) and _line_of(one) is not None)}
    if len(lines) != 1 or looks_back(tree):
        return None
    line = lines.pop()
    function = bottom_up(
        tree, lambda node, parts: _TIME if node == line else with_arguments(node, parts)
    )
    if symbols(function) - {"time"}:
        return None
    slope, rest = _line_of(line) or (_ZERO, _ZERO)
    return tuple(
        folded(call("div", folded(call("sub", Number(u), rest)), slope)) for u in _ends(function)
    ) or None  # fmt: skip


def _ends(function: Expression) -> list[float]:
    """Ends of the changes of a function that is the same far below and far above 0."""
    positive = np.ldexp(
        np.tile(1 + np.arange(_PARTS) / _PARTS, 2 * _POWERS),
        np.repeat(np.arange(-_POWERS, _POWERS), _PARTS),
    )
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    order = arguments_first(function)
    values = values_of(order, grid)[id(order[-1])]
    if not np.isfinite(values).all():
        return []
    size = float(np.ptp(values))
    away = np.abs(np.diff(values)) > _LEVEL * size / _QUIET
    changes = np.flatnonzero(away)
    if not len(changes) or changes[0] < _QUIET or changes[-1] >= len(away) - _QUIET:
        return []
    if abs(values[-1] - values[0]) > _LEVEL * size:
        return []
    gaps = np.flatnonzero(np.diff(changes) > 1)
    first = changes[np.concatenate([[0], gaps + 1])]
    last = changes[np.concatenate([gaps, [len(changes) - 1]])] + 1
    if len(first) > _MOST:
        return []
    tops = []
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        height = np.abs(values[begin : end + 1] - values[0])
        near = np.flatnonzero(height >= _TOP * height.max())
        tops.append(begin + int(near[len(near) // 2]))
    return sorted({*grid[first].tolist(), *grid[last].tolist(), *grid[tops].tolist()})


def _line_of(tree: Expression) -> _Line | None:
    return bottom_up(tree, _line)


def _line(tree: Expression, parts: list[_Line | None]) -> _Line | None:
    """Slope and rest of a tree, where its arguments are lines of the time."""
    if tree == _TIME:
        return Number(1.0), _ZERO
    if "time" not in symbols(tree):
        return _ZERO, tree
    if not isinstance(tree, Call) or tree.function not in ARITHMETIC or None in parts:
        return None
    lines = [part for part in parts if part is not None]
    flat = [slope == _ZERO for slope, _ in lines]
    if tree.function in ("add", "sub", "neg"):
        slope, rest = (folded(call(tree.function, *both)) for both in zip(*lines, strict=True))
        return slope, rest
    (a, x), (b, y) = lines
    if flat[1]:
        return folded(call(tree.function, a, y)), folded(call(tree.function, x, y))
    if flat[0] and tree.function == "mul":
        return folded(call("mul", x, b)), folded(call("mul", x, y))
    return None
