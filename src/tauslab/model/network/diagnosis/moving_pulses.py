"""Smooth pulses at times that differ between trajectories, as formulas of these times.

A part such as ``exp(-((time - p) / w)^2)`` is a function f(u) of one line u = slope time + rest, of
which f has no names: f is looked at once, for all trajectories. Where it leaves a level and comes
back to it, ends of its changes at u are times (u - rest) / slope, which a kernel computes from the
values of each trajectory. Neither other trajectories nor the end of the run change them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tauslab.base.arrays import FloatArray
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
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_relations import folded
from tauslab.model.network.diagnosis.hidden_pulses import values_of
from tauslab.model.network.diagnosis.time_breaks import ARITHMETIC, moves

_TIME, _ZERO = Symbol("time"), Number(0.0)
_LEVEL = 1e-6  # of the range: at the level from before the pulse
_QUIET = 4  # values at both ends of the grid that stand on the level
_MOST = 32  # stretches in which a part changes: more are no single pulses
_POWERS, _PARTS = 30, 512  # of two on the grid of u, below 1 and above; values of each
_ROUNDING = 1e-12
_FEWER = 64  # values of each around several centres
_CLOSER = 6  # times that a centre is looked at in the fewer parts
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
    if result is None and symbols(tree) == {_TIME.name} and not looks_back(tree):
        result = tuple(map(Number, _ends(tree, around=centres(tree)))) or None
    return result


def _times_of_one(tree: Expression) -> tuple[Expression, ...] | None:
    """Times of a pulse of a function of one line; None for all other functions.

    Lines that are a number times the first, plus a number, are functions of this one.
    """
    chosen = outermost(tree, lambda one: "time" in symbols(one) and _line_of(one) is not None)
    lines = dict.fromkeys(chosen)
    if not lines or looks_back(tree):
        return None
    first = next(iter(lines))
    between = {line: line_between(first, line) for line in lines if line != first}
    own: dict[Expression, Expression] = {first: _TIME}
    for line, numbers in between.items():
        if numbers is None:
            return None
        own[line] = call("add", call("mul", numbers[0], _TIME), numbers[1])
    function = bottom_up(tree, lambda node, parts: own.get(node) or with_arguments(node, parts))
    if symbols(function) - {"time"}:
        return None
    slope, rest = _line_of(first) or (_ZERO, _ZERO)
    return tuple(
        folded(call("div", folded(call("sub", Number(u), rest)), slope))
        for u in _ends(function, around=centres(function) if between else ())
    ) or None  # fmt: skip


def line_between(one: Expression, other: Expression) -> tuple[float, float] | None:
    """Numbers a, b by which `other` is a times `one` plus b, whatever the values of names are."""
    names = sorted(symbols(one) | symbols(other))
    points = np.random.default_rng(0).uniform(1, 2, (6, len(names)))
    rows = [dict(zip(names, point, strict=True)) for point in points.tolist()]
    x, y = (np.array([evaluate(tree, row) for row in rows]) for tree in (one, other))
    if not np.isfinite([x, y]).all() or x[1] == x[0]:
        return None
    slope = float((y[1] - y[0]) / (x[1] - x[0]))
    rest = float(y[0] - slope * x[0])
    near = np.abs(slope * x + rest - y) <= _ROUNDING * np.max(np.abs([x, y]))
    return (slope, rest) if slope and near.all() else None


def centres(tree: Expression) -> list[float]:
    """Where parts of a function of the time are 0 or extremal; its pulses are around these."""
    grid, order = _grid(_FEWER), arguments_first(tree)
    result = {0.0}
    for node, values in zip(order, _values(order, grid), strict=True):
        with np.errstate(invalid="ignore"):
            signs, slopes = np.sign(values), np.sign(np.diff(values))
            zero = (signs[1:-1] == 0) | (signs[:-2] * signs[2:] < 0)
            turn = slopes[:-1] * slopes[1:] < 0
        near = np.flatnonzero(zero | turn)
        if not isinstance(node, Call) or len(near) > _MOST:
            continue
        inside = arguments_first(node)
        for k in near.tolist():
            result.add(_centre(inside, grid[k], grid[k + 2], zero=bool(zero[k])))
    return sorted(result) if len(result) <= _MOST else [0.0]


def _centre(order: list[Expression], low: float, high: float, *, zero: bool) -> float:
    """Where a function is 0, or else extremal, between two times."""
    middle = low
    for _ in range(_CLOSER):
        times = np.linspace(low, high, _FEWER + 1)
        values = _values(order, times)[-1]
        away = np.abs(values) if zero else -np.abs(values - (values[0] + values[-1]) / 2)
        k = int(np.argmin(away))
        low, middle, high = times[max(k - 1, 0)], times[k], times[min(k + 1, _FEWER)]
    return float(middle)


def _values(order: list[Expression], times: FloatArray) -> list[FloatArray]:
    values = values_of(order, times)
    return [values[id(node)] for node in order]


def _grid(parts: int) -> FloatArray:
    """Numbers on both sides of 0, and 0, at equal distances between powers of two."""
    positive = np.ldexp(
        np.tile(1 + np.arange(parts) / parts, 2 * _POWERS),
        np.repeat(np.arange(-_POWERS, _POWERS), parts),
    )
    return np.concatenate([-positive[::-1], [0.0], positive])


def _ends(function: Expression, around: Sequence[float] = ()) -> list[float]:
    """Ends of the changes of a function that is the same far below and far above 0."""
    if around:
        middles = [-np.inf, *((a + b) / 2 for a, b in itertools.pairwise(around)), np.inf]
        own = [_grid(_FEWER) + centre for centre in around]
        cells = zip(own, itertools.pairwise(middles), strict=True)
        grid = np.concatenate([one[(a < one) & (one <= b)] for one, (a, b) in cells])
    else:
        grid = _grid(_PARTS)
    values = _values(arguments_first(function), grid)[-1]
    if around and not np.isfinite(values[grid < 0]).all():  # as of logarithms of amounts
        grid, values = grid[grid >= 0], values[grid >= 0]
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
