"""Times at which what depends on the time alone jumps, or has a short pulse.

Steps that adapt grow while nothing changes, and then may pass over a pulse such as
``time - 24 * floor(time / 24) < 0.1``: none of their points lies in it, and so no error is seen. A
step that ends where the pulse begins, and one where it ends, have it exactly.

Relations that the time enters linearly are not looked for: their times are known otherwise
(`time_relations`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tauslab.model.arrays import FloatArray
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    arguments_first,
    draws_in,
    looks_back,
    substitute,
    symbols,
)
from tauslab.model.expressions.time_relations import TURNED, relation_of
from tauslab.model.network.check import steps_of
from tauslab.model.network.network import Event, Network
from tauslab.model.portable.array_math import apply
from tauslab.model.portable.host_math import evaluate

GRID = 1 << 16  # parts of the run that are looked at; what is shorter may be missed
MOST_BREAKS = 1000

_STEPS = frozenset((*TURNED, "floor", "ceil"))  # jump, where what they are made of does not
_QUIET = 64  # parts without change after which steps have grown long
_GROWTH = 5  # a step is at most so many times longer than the one before
_LEVEL = 1e-9  # of the range of a quantity: no change
_SAME = 1e-6  # of the range: back at the level from before a pulse


@dataclass(frozen=True)
class TimeBreaks:
    """What laws, equations and triggers do by the time alone.

    `times` are those at which steps must end, in order. `unknown` are the parts that jump at times
    which differ between trajectories, or are too many.
    """

    times: tuple[float, ...] = ()
    unknown: tuple[Expression, ...] = ()


def time_breaks(
    network: Network, known: Mapping[str, float], end: float, most: int = MOST_BREAKS
) -> TimeBreaks:
    """Find them from 0 to `end`; `known` are the values that stand still, the same always."""
    found: set[float] = set()
    unknown = [one for one in steps_of_time(network) if symbols(one) - known.keys() - {"time"}]
    for part in dict.fromkeys(_of_the_time(network, known.keys())):
        course = _Course(
            substitute(part, {n: Number(known[n]) for n in symbols(part) - {"time"}}), end
        )
        own = course.breaks(most)
        if own is None or len(found | own) > most:
            unknown.append(part)
        else:
            found |= own
    return TimeBreaks(tuple(sorted(found)), tuple(unknown))


def steps_of_time(network: Network) -> list[Expression]:
    """Parts that jump at times which what stands still decides, but not linearly."""
    still = {*network.parameters, *network.constant_species()}
    parts = _of_the_time(network, still)
    return list(dict.fromkeys(n for part in parts for n in arguments_first(part) if _is_step(n)))


def pulses_that_vary(network: Network, varying: Collection[str]) -> list[Expression]:
    """Parts that begin and end at times which differ between trajectories, by linear relations.

    `varying` holds what is computed of what varies too.
    """
    found = []
    for part in _of_the_time(network, {*network.parameters, *network.constant_species()}):
        changes = {one.change for one in map(relation_of, arguments_first(part)) if one}
        if sum(bool(symbols(change) & {*varying}) for change in changes) > 1:
            found.append(part)
    return list(dict.fromkeys(found))


def uses_time(network: Network) -> bool:
    """Whether the time is in any law, equation or trigger, or in a rule that they may use."""
    if "time" in network.parameters or "time" in network.species:
        return False  # a name like any other
    trees = [rule.expression for rule in network.rules.values()] + list(network.rates.values())
    trees += [event.trigger for event in network.events if isinstance(event, Event)]
    return any(feature.kind == "time" for feature in network.features) or any(
        "time" in symbols(tree) for tree in trees
    )


def _trees(network: Network) -> list[Expression]:
    rules = network.rule_expressions()
    return [*steps_of(network), *(substitute(tree, rules) for tree in network.rates.values())]


def _of_the_time(network: Network, still: Collection[str]) -> Iterator[Expression]:
    """The largest parts of laws, equations and triggers that depend on the time and these alone."""
    if not uses_time(network):
        return
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    still = {*still, "time"} - moved
    for tree in _trees(network):
        whole = {id(tree)}
        for node in reversed(arguments_first(tree)):
            if id(node) not in whole or "time" not in symbols(node):
                continue
            if not (symbols(node) - still or draws_in(node) or looks_back(node)):
                yield node
            elif isinstance(node, Call):
                whole.update(id(inside) for inside in node.arguments)


def _is_step(node: Expression) -> bool:
    """Whether it jumps at times that nothing else finds."""
    return (
        isinstance(node, Call)
        and node.function in _STEPS
        and "time" in symbols(node)
        and relation_of(node) is None
    )


class _Course:
    """A part that depends on the time alone, from 0 to `end`."""

    def __init__(self, tree: Expression, end: float) -> None:
        self._order = arguments_first(tree)
        self._times: FloatArray = np.arange(GRID + 1, dtype=np.float64) * (end / GRID)
        self._values: dict[int, FloatArray] = {}
        if any(_is_step(node) for node in self._order) or self._smooth():
            self._fill()

    def _smooth(self) -> list[Expression]:
        """The largest parts without jumps; those that are linear in the time have no pulse."""
        jumps: set[int] = set()
        for node in self._order:
            inside = node.arguments if isinstance(node, Call) else ()
            if isinstance(node, Call) and (
                node.function in _STEPS or node.function == "if"
                or any(id(part) in jumps for part in inside)
            ):  # fmt: skip
                jumps.add(id(node))
        below = {
            id(part)
            for node in self._order
            if id(node) not in jumps and isinstance(node, Call)
            for part in node.arguments
        }
        return [
            node
            for node in self._order
            if isinstance(node, Call)
            and "time" in symbols(node)
            and id(node) not in jumps
            and id(node) not in below
        ]

    def _fill(self) -> None:
        for node in self._order:
            if isinstance(node, Number):
                value = np.full(GRID + 1, node.value)
            elif isinstance(node, Call):
                value = _quickly(node.function, [self._values[id(a)] for a in node.arguments])
            else:
                value = self._times
            self._values[id(node)] = value

    def breaks(self, most: int) -> set[float] | None:
        """The last times before jumps, and those that enclose pulses; None for more than `most`."""
        found: set[float] = set()
        outer = self._outermost_steps()
        inner = [n for n in self._order if _is_step(n) and id(n) not in {id(o) for o in outer}]
        for node in (*outer, *inner):
            with np.errstate(invalid="ignore"):
                changes = np.flatnonzero(np.diff(self._values[id(node)]) != 0)
            if len(changes) + len(found) <= most:
                found.update(self._jump(node, int(k)) for k in changes)
            elif any(node is one for one in outer):
                return None
        for node in self._smooth():
            found.update(self._pulses(self._values[id(node)]))
        return {t for t in found if 0 < t < self._times[-1]}

    def _outermost_steps(self) -> list[Expression]:
        """Parts that jump and are in no other such part, which alone are seen from outside."""
        found, whole = [], {id(self._order[-1])}
        for node in reversed(self._order):
            if id(node) in whole and _is_step(node):
                found.append(node)
            elif id(node) in whole and isinstance(node, Call):
                whole.update(id(inside) for inside in node.arguments)
        return found

    def _jump(self, node: Expression, k: int) -> float:
        """The last time before a jump after time number k, where the value is the one of before."""
        low, high = float(self._times[k]), float(self._times[k + 1])
        before = evaluate(node, {"time": low})
        while True:
            middle = low + (high - low) / 2
            if not low < middle < high:
                return low
            if evaluate(node, {"time": middle}) == before:
                low = middle
            else:
                high = middle

    def _pulses(self, values: FloatArray) -> Iterator[float]:
        """Begin and top of what leaves a level for a short time, after long without change."""
        size = float(np.ptp(values)) if np.isfinite(values).all() else 0.0
        if not (0 < size < np.inf):
            return
        moves = np.flatnonzero(np.abs(np.diff(values)) > _LEVEL * size)
        gaps = np.flatnonzero(np.diff(moves) > _QUIET)
        first = moves[np.concatenate([[0], gaps + 1])]
        last = moves[np.concatenate([gaps, [len(moves) - 1]])] + 1
        quiet_since = 0
        for begin, end in zip(first.tolist(), last.tolist(), strict=True):
            quiet, long = begin - quiet_since, end - begin
            quiet_since = end
            returns = abs(values[end] - values[begin]) <= _SAME * size
            if quiet >= _QUIET and long < _GROWTH * quiet and returns:
                top = begin + int(np.argmax(np.abs(values[begin : end + 1] - values[begin])))
                yield float(self._times[begin])
                yield float(self._times[top])


def _quickly(function: str, arguments: list[FloatArray]) -> FloatArray:
    """As `apply`, but by NumPy's own functions, whose last bits do not matter here."""
    quick = _QUICK.get(function)
    if quick is None:
        return apply(function, *arguments)
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, quick)(*arguments), np.float64)


_QUICK = {
    "exp": "exp", "log": "log", "log10": "log10", "cbrt": "cbrt", "pow": "power", "sin": "sin",
    "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan",
}  # fmt: skip
