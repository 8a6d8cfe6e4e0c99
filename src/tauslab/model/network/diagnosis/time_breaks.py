"""Times at which what depends on the time alone jumps, bends, or has a short pulse.

Steps that adapt grow while nothing changes, and then may pass over a pulse such as
``time - 24 * floor(time / 24) < 0.1``: none of their points lies in it, and so no error is seen. A
step that ends where the pulse begins, and one where it ends, have it exactly. What is linear in
pieces is split without rounding (`time_pieces`); changes of the rest are looked for on a grid.

What holds at single times only, ``time / 24 == floor(time / 24)``, no step need meet, and rounding
may make it hold nowhere: triggers take its instants from a table, and rates, whose integral they do
not change, do without.

Relations that the time enters linearly are not looked for: their times are known otherwise
(`time_relations`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import nextafter

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
    draws_in,
    looks_back,
    outermost,
    substitute,
    symbols,
    with_arguments,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_pieces import Pieces, pieces_of
from tauslab.model.expressions.time_relations import STEPS, TURNED, is_step_of_time, relation_of
from tauslab.model.expressions.time_tables import (
    Change,
    Instants,
    changes_of,
    just_after,
    not_before,
    open_changes,
    table_of,
)
from tauslab.model.network.diagnosis.hidden_pulses import (
    hidden_crossings,
    hidden_pulses,
    values_of,
)
from tauslab.model.network.network import Event, Network
from tauslab.model.network.parts import Feature

_TIME = Symbol("time")
GRID = 1 << 16  # parts of the run that are looked at; what is shorter may be missed
MOST_BREAKS = 1000
ARITHMETIC = frozenset(("mul", "div", "add", "sub", "neg"))

_QUIET = 4  # parts without change, after which steps may have grown long
_GROWTH = 5  # a step is at most so many times longer than the one before
_LEVEL = 1e-9  # of the range of a quantity: no change
_SAME = 1e-6  # of the range: back at the level from before a pulse


@dataclass(frozen=True)
class TimeBreaks:
    """Jumps, bends and pulses of laws, equations and triggers by the time alone.

    `times` are those at which steps must end, in order. `unknown` are the parts that jump at times
    which differ between trajectories, or are too many. `missed` are names of events, and equalities
    in their triggers, whose instants are not known.

    `hiding` are relations that may hold for times too short to be found.

    `tables` has what steps by the time alone as tables, `instants` only what needs one: it holds at
    single times, or rounding makes it flicker beside its changes. `rates` has the latter without
    these times.
    """

    times: tuple[float, ...] = ()
    unknown: tuple[Expression, ...] = ()
    missed: tuple[tuple[str, Expression], ...] = ()
    tables: Mapping[Expression, Expression] = field(default_factory=dict)
    instants: Mapping[Expression, Expression] = field(default_factory=dict)
    rates: Mapping[Expression, Expression] = field(default_factory=dict)
    known: Mapping[str, Number] = field(default_factory=dict)
    hiding: tuple[Expression, ...] = ()

    def applied(self, network: Network, *, all_tables: bool) -> Network:
        """The network with triggers and rates that use the tables."""
        tables = self.tables if all_tables else self.instants
        if not tables:
            return network
        rules = network.rule_expressions()

        def own(tree: Expression, found: Mapping[Expression, Expression]) -> Expression:
            return _with_tables(tree, rules, self.known, found)

        return replace(
            network,
            reactions=[
                replace(
                    reaction,
                    law=own(reaction.law, self.rates),
                    limit=None if reaction.limit is None else own(reaction.limit, self.rates),
                )
                for reaction in network.reactions
            ],
            rates={name: own(tree, self.rates) for name, tree in network.rates.items()},
            events=[
                replace(event, trigger=own(event.trigger, tables))
                if isinstance(event, Event)
                else event
                for event in network.events
            ],
        )


def time_breaks(
    network: Network, known: Mapping[str, float], end: float, most: int = MOST_BREAKS
) -> TimeBreaks:
    """Find the breaks of a network from 0 to `end`; `known` are the values that never change."""
    result: set[float] = set()
    unknown = [one for one in steps_of_time(network) if symbols(one) - known.keys() - {"time"}]
    numbers = {name: Number(value) for name, value in known.items()}
    tables: dict[Expression, Expression] = {}
    instants: dict[Expression, Expression] = {}
    rates: dict[Expression, Expression] = {}
    hiding: list[Expression] = []
    parts = {part: _with_numbers(part, numbers) for part in _of_the_time(network, known.keys())}
    seen = Instants(change for tree in parts.values() for change in _linear_changes(tree))
    for part, tree in parts.items():
        function = _TimeFunction(tree, end, seen)
        own = function.breaks(most)
        hiding += function.hiding
        if own is None or len(result | own) > most:
            unknown.append(part)
            continue
        result |= own
        for node, steps in function.steps.items():
            if len(steps.changes) > 2 * most:
                continue
            tables[node] = steps.table()
            if steps.needs_table:
                instants[node], rates[node] = tables[node], steps.open_table()
    missed = _missed(network, numbers, tables) if uses_time(network) else ()
    return TimeBreaks(
        tuple(sorted(result)),
        tuple(unknown),
        tuple(missed),
        tables,
        instants,
        rates,
        numbers,
        tuple(dict.fromkeys(hiding)),
    )


def unchanged_species(network: Network) -> set[str]:
    """Species that neither reactions, equations, events nor draws change, fixed or not."""
    changed = {name for one in network.reactions for name in one.net_change()}
    changed -= {name for name, one in network.species.items() if one.fixed}
    changed |= {name for event in network.events for name in event.assignments}
    return network.species.keys() - changed - network.rates.keys() - network.drawn_amounts().keys()


def linear_changes(network: Network, known: Mapping[str, float]) -> set[float]:
    """Times at which relations change that the time enters linearly, by values that are `known`."""
    numbers = {name: Number(value) for name, value in known.items()}
    parts = _of_the_time(network, known.keys())
    return {t for part in parts for t in _linear_changes(_with_numbers(part, numbers))}


def with_clocks(network: Network, lost: Collection[str] = ()) -> Network:
    """The network in which laws read the time in place of clocks; itself where there are none.

    A clock is a quantity that an equation alone changes, at a rate that stands still: V' = 1. A
    pulse of its values is one of the time. Values that are `lost` are not known here.
    """
    if not network.rates or "time" in {**network.species, **network.parameters, **network.rules}:
        return network
    assigned = {name for event in network.events for name in event.assignments}
    still = {*network.parameters, *network.constant_species()} - assigned
    clocks = {
        name: call("add", start, call("mul", rate, _TIME))
        for name, rate in network.rates.items()
        if not (symbols(rate) | symbols(start := network.species[name].initial)) - still
        and not (draws_in(rate) or draws_in(start) or looks_back(rate))
        and name not in assigned | {*lost}
    }
    if not clocks:
        return network

    def read(tree: Expression) -> Expression:
        return substitute(tree, clocks) if symbols(tree) & clocks.keys() else tree

    made = replace(
        network,
        reactions=[replace(one, law=read(one.law)) for one in network.reactions],
        rules={
            name: replace(one, expression=read(one.expression))
            for name, one in network.rules.items()
        },
        rates={name: read(tree) for name, tree in network.rates.items()},
        events=[
            replace(one, trigger=read(one.trigger)) if isinstance(one, Event) else one
            for one in network.events
        ],
        features=[*network.features, Feature("time", "clocks", "they are the time")],
    )
    trees = [(*laws_and_triggers(one), *one.rule_expressions().values()) for one in (network, made)]
    return network if trees[0] == trees[1] else made


def _linear_changes(part: Expression) -> Iterator[float]:
    """Times at which relations change that the time enters linearly."""
    for node in arguments_first(part):
        relation = relation_of(node)
        if relation is not None and isinstance(relation.change, Number):
            yield relation.change.value


def _with_numbers(tree: Expression, numbers: Mapping[str, Number]) -> Expression:
    return substitute(tree, {name: numbers[name] for name in symbols(tree) & numbers.keys()})


def _with_tables(
    tree: Expression,
    rules: Mapping[str, Expression],
    known: Mapping[str, Number],
    tables: Mapping[Expression, Expression],
) -> Expression:
    """A tree, with rules written out if that finds a part which has a table."""
    whole = substitute(tree, rules)

    def part(node: Expression, arguments: list[Expression]) -> Expression:
        table = tables.get(_with_numbers(node, known)) if is_step_of_time(node) else None
        return with_arguments(node, arguments) if table is None else table

    made = bottom_up(whole, part)
    return tree if made is whole else made


def _missed(
    network: Network, known: Mapping[str, Number], tables: Mapping[Expression, Expression]
) -> Iterator[tuple[str, Expression]]:
    """Equalities in triggers that hold at single times which are not known."""
    rules = network.rule_expressions()
    for event in network.events:
        if not isinstance(event, Event):
            continue
        for node in arguments_first(substitute(event.trigger, rules)):
            if not (isinstance(node, Call) and node.function in ("eq", "ne")):
                continue
            known_when = _with_numbers(node, known) in tables
            if is_step_of_time(node) and not known_when and _slides(node):
                yield event.name, node


def _slides(node: Call) -> bool:
    """Return whether the time is in a relation outside of all that steps."""
    return any(
        part == _TIME
        for side in node.arguments
        for part in outermost(side, lambda one: one == _TIME or is_step_of_time(one))
    )


def steps_of_time(network: Network) -> list[Expression]:
    """Parts that jump at times which what stands still decides, but not linearly."""
    still = {*network.parameters, *unchanged_species(network)}
    parts = _of_the_time(network, still, set_or_drawn(network))
    return list(
        dict.fromkeys(n for part in parts for n in arguments_first(part) if is_step_of_time(n))
    )


def names_beside_time(network: Network) -> tuple[set[str], set[str]]:
    """Names in expressions of the time and of what stands still, with ``time``; none without any.

    First those on which times of jumps and pulses depend, then those that only scale or shift.
    """
    still = {*network.parameters, *unchanged_species(network)}
    parts = list(_of_the_time(network, still, set_or_drawn(network)))
    names = {name for part in parts for name in symbols(part)}
    moving = {name for name in names if any(moves(part, {name}) for part in parts)}
    return moving | (names & {"time"}), names - moving - {"time"}


def set_or_drawn(network: Network) -> set[str]:
    """Names that draws or events alone set, which stand still between events."""
    names = {*network.drawn_amounts(), *(n for one in network.events for n in one.assignments)}
    if not names:
        return names
    moved = {n for one in network.reactions for n in one.net_change()}
    moved -= {name for name, one in network.species.items() if one.fixed}
    return names - moved - network.rates.keys()


def pulses_that_vary(
    network: Network, varying: Collection[str]
) -> dict[Expression, list[Expression]]:
    """Parts that begin and end at times which differ between trajectories, by linear relations.

    With these times, as formulas. `varying` holds what is computed of what varies too, and may hold
    what draws or events alone set.
    """
    result = {}
    still = {*network.parameters, *unchanged_species(network)}
    for part in _of_the_time(network, still, set_or_drawn(network) & {*varying}):
        relations = filter(None, map(relation_of, arguments_first(part)))
        changes = dict.fromkeys(one.change for one in relations)
        moving = [change for change in changes if not symbols(change).isdisjoint(varying)]
        if len(moving) > 1:
            result[part] = moving
    return result


def smooth_parts_that_move(
    network: Network, names: Collection[str], varying: Collection[str]
) -> list[Expression]:
    """Parts without jumps that differ between trajectories by more than a factor or a summand.

    Parts are of the time and `names`, of which some are `varying`, as may be what events change.
    """
    return [
        node
        for part in _of_the_time(network, names, set_or_drawn(network) & {*varying})
        for node in smooth_parts(arguments_first(part))
        if moves(node, varying)
    ]


def has_pulse(part: Expression, values: Sequence[Mapping[str, float]], end: float) -> bool:
    """Return whether a part without jumps has a pulse by any of the values of all its names."""
    numbers = [{name: Number(value) for name, value in one.items()} for one in values]
    trees = dict.fromkeys(_with_numbers(part, one) for one in numbers)
    return any(_TimeFunction(tree, end, Instants(())).has_pulse() for tree in trees)


def moves(tree: Expression, varying: Collection[str]) -> bool:
    """Return whether what varies is more than a factor or a summand of an expression."""
    seen: set[int] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, Call) or id(node) in seen:
            continue
        seen.add(id(node))
        names = symbols(node)
        if "time" not in names:
            continue
        if node.function in ARITHMETIC:
            stack.extend(node.arguments)
        elif not names.isdisjoint(varying):
            return True
    return False


def uses_time(network: Network) -> bool:
    """Return whether the time is in any law, equation, trigger, or rule that they may use."""
    if "time" in network.parameters or "time" in network.species:
        return False  # a name like any other
    trees = [rule.expression for rule in network.rules.values()] + list(network.rates.values())
    trees += [event.trigger for event in network.events if isinstance(event, Event)]
    return any(feature.kind == "time" for feature in network.features) or any(
        "time" in symbols(tree) for tree in trees
    )


def has_times(network: Network) -> bool:
    """Return whether the model has events, or uses the time."""
    return bool(network.events) or uses_time(network)


def steps_of(network: Network) -> list[Expression]:
    """Laws and triggers with rules written out: where they move, ``ssa`` has to integrate."""
    rules = network.rule_expressions()
    triggers = [event.trigger for event in network.events if isinstance(event, Event)]
    laws = [reaction.law for reaction in network.reactions]
    return [substitute(tree, rules) for tree in (*laws, *triggers)]


def laws_and_triggers(network: Network) -> list[Expression]:
    """Return `steps_of`, and equations, with rules written out."""
    rules = network.rule_expressions()
    return [*steps_of(network), *(substitute(tree, rules) for tree in network.rates.values())]


def _of_the_time(
    network: Network, still: Collection[str], held: Collection[str] = ()
) -> Iterator[Expression]:
    """The largest parts of laws, equations and triggers that depend on the time and these alone.

    Of `still`, without what events change, and of what is `held` between events.
    """
    if not uses_time(network):
        return
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    still = {*still, "time"} - moved | {*held}

    def alone(node: Expression) -> bool:
        return not (symbols(node) - still or draws_in(node) or looks_back(node))

    def earlier(node: Expression, arguments: list[Expression]) -> Expression:
        """A delayed function of the time alone, as a function of the present time."""
        if not (isinstance(node, Call) and node.function == "delay"):
            return with_arguments(node, arguments)
        value, ago = arguments
        if "time" in symbols(ago) or not (alone(value) and alone(ago)):
            return with_arguments(node, arguments)
        return substitute(value, {"time": call("sub", _TIME, ago)})

    for whole in laws_and_triggers(network):
        tree = bottom_up(whole, earlier) if looks_back(whole) else whole
        for node in outermost(tree, lambda one: "time" not in symbols(one) or alone(one)):
            if "time" in symbols(node):
                yield node


@dataclass(frozen=True)
class _Steps:
    """A function that stands still between changes: its value at 0, and the changes."""

    first: float
    changes: list[Change]
    opened: list[Change]
    opens_with: float
    flickers: bool = False  # whether rounding gives it other values beside changes

    @property
    def needs_table(self) -> bool:
        """Return whether it flickers, or has a value at a single time behind 0."""
        single = sum(one.last > 0 for one in self.changes) > sum(c.last > 0 for c in self.opened)
        return single or self.flickers

    def at(self, t: float) -> float:
        """Return the value at a time."""
        k = bisect_left(self.changes, t, key=lambda change: change.last)
        return self.changes[k - 1].value if k else self.first

    def table(self) -> Expression:
        return table_of(self.first, self.changes)

    def open_table(self) -> Expression:
        return table_of(self.opens_with, self.opened)


class _TimeFunction:
    """A part that depends on the time alone, from 0 to `end`.

    `steps` are the parts in it that stand still between changes, as far as these are known, and
    `hiding` relations that may hold for times too short to be found.
    """

    def __init__(self, tree: Expression, end: float, instants: Instants) -> None:
        self._order = arguments_first(tree)
        self._end = end
        self._pieces = pieces_of(tree, end)
        self._times: FloatArray = np.arange(GRID + 1, dtype=np.float64) * (end / GRID)
        self._values: dict[int, FloatArray] = {}
        self._doubles: dict[Fraction, float] = {}  # for times of changes
        self._instants = instants
        self.steps: dict[Expression, _Steps] = {}
        self.hiding: list[Expression] = []
        if any(self._pieces[id(n)] is None for n in self._order):
            self._values = values_of(self._order, self._times)
        tabled: set[int] = set()  # what uses a table: its own steps then need one too
        for node in self._order:
            if not isinstance(node, Call):
                continue
            pieces = self._pieces[id(node)]
            inside = any(id(part) in tabled for part in node.arguments)
            if is_step_of_time(node) and pieces is not None and len(pieces.times) > MOST_BREAKS + 2:
                continue  # too many, wherever they are
            if is_step_of_time(node) and pieces is not None:
                steps = self._steps_of(node, pieces)
                self.steps[node] = replace(steps, flickers=inside or steps.flickers)
            elif is_step_of_time(node) and node.function in ("eq", "ne"):
                self._find_instants(node)
            if inside or (node in self.steps and self.steps[node].needs_table):
                tabled.add(id(node))

    def _steps_of(self, node: Expression, pieces: Pieces) -> _Steps:
        changes = changes_of(node, pieces, self._doubles, self._instants)
        changes = [change for change in changes if change.last <= self._end]
        opened = open_changes(pieces, changes)
        result = _Steps(float(pieces.at[0]), changes, opened, float(pieces.lines[0][1]))
        near = [t for one in {*self._doubles.values()} for t in _around(one)]
        flickers = any(evaluate(node, {"time": t}) != result.at(t) for t in near)
        return replace(result, flickers=flickers)

    def _find_instants(self, node: Call) -> None:
        """Times at which two sides that are not linear cross, where that is all that they do."""
        left, right = node.arguments
        with np.errstate(all="ignore"):
            apart = self._values[id(left)] - self._values[id(right)]
            size = float(np.ptp(apart))
        if not (0 < size < np.inf) or _touches(apart, size):
            return
        sign = np.sign(apart)
        instants = self._times[sign == 0].tolist()
        for k in np.flatnonzero(sign[:-1] * sign[1:] < 0).tolist():
            between = float(self._times[k]), float(self._times[k + 1])
            last = _last_before(call("lt", left, right), *between)
            after = nextafter(last, np.inf)
            if abs(_apart(node, after) - _apart(node, last)) > _SAME * size:
                return  # a jump: no sides that meet
            instants.append(self._instants.near(last if _apart(node, last) == 0 else after))
        holds = float(node.function == "eq")
        changes = [
            change
            for t in sorted(instants)
            for change in (Change(nextafter(t, 0.0), holds), Change(t, 1 - holds))
            if t > 0 or change.last == t
        ]
        first = holds if 0.0 in instants else 1 - holds
        self.steps[node] = _Steps(first, changes, [], 1 - holds)

    def has_pulse(self) -> bool:
        """Return whether a function without jumps leaves a level for a short time."""
        node = self._order[-1]
        values = values_of(self._order, self._times)[id(node)]
        return any(True for _ in self._pulses(values)) or bool(
            hidden_pulses(node, self._times, values)
        )

    def breaks(self, most: int) -> set[float] | None:
        """The last times before jumps and bends, and those that enclose pulses; None for more."""
        result: set[float] = set()
        outer = list(outermost(self._order[-1], is_step_of_time))
        inner = [
            n for n in self._order if is_step_of_time(n) and id(n) not in {id(o) for o in outer}
        ]
        for node in (*outer, *inner):
            own = self._jumps(node, most - len(result))
            if own is not None:
                result |= own
            elif any(node is one for one in outer):
                return None
        bends = self._bends()
        if len(result | bends) > most:
            return None
        result |= bends
        for node in smooth_parts(self._order):
            if self._pieces[id(node)] is None:
                values = self._values[id(node)]
                if _stretches(values) > most:
                    return None
                result |= {*self._pulses(values)} or hidden_pulses(node, self._times, values)
        return {t for t in result if 0 <= t < self._end}

    def _jumps(self, node: Expression, most: int) -> set[float] | None:
        """The last times before jumps of one part; None for more than `most`."""
        steps = self.steps.get(node)
        if steps is not None:
            start = {0.0} if steps.first != steps.opens_with and not steps.needs_table else set()
            result = start | {one.last for one in steps.opened}
            return result if len(result) <= most else None
        if self._pieces[id(node)] is not None:
            return None
        with np.errstate(invalid="ignore"):
            changes = np.flatnonzero(np.diff(self._values[id(node)]) != 0)
        between = [(float(self._times[k]), float(self._times[k + 1])) for k in changes.tolist()]
        if isinstance(node, Call) and node.function in TURNED:
            hidden, more = hidden_crossings(node, self._times)
            between += hidden
            if more:
                self.hiding.append(node)
        return {_last_before(node, *one) for one in between} if len(between) <= most else None

    def _bends(self) -> set[float]:
        """Times at which parts that are linear in pieces bend, where nothing else finds them."""
        linear = {
            t
            for node in self._order
            if relation_of(node) is not None
            for t in _times_of(self._pieces[id(node)])
        }
        result: set[float] = set()
        for node in outermost(self._order[-1], lambda one: self._pieces[id(one)] is not None):
            times = {*_times_of(self._pieces[id(node)])} - self._doubles.keys() - linear
            result |= {nextafter(not_before(t), 0.0) for t in times if t > 0}
        return result

    def _pulses(self, values: FloatArray) -> Iterator[float]:
        """Begin and top of what leaves a level for a short time, after long without change."""
        size = _range(values)
        if size == 0:
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


def smooth_parts(order: Sequence[Expression]) -> list[Expression]:
    """The largest time-dependent parts without jumps; `order` has arguments first."""
    jumps: set[int] = set()
    for node in order:
        inside = node.arguments if isinstance(node, Call) else ()
        if isinstance(node, Call) and (
            node.function in STEPS or node.function == "if"
            or any(id(part) in jumps for part in inside)
        ):  # fmt: skip
            jumps.add(id(node))
    below = {
        id(part)
        for node in order
        if id(node) not in jumps and isinstance(node, Call)
        for part in node.arguments
    }
    return [
        node
        for node in order
        if isinstance(node, Call)
        and "time" in symbols(node)
        and id(node) not in jumps
        and id(node) not in below
    ]


def _range(values: FloatArray) -> float:
    """Largest difference; 0 where it is not finite."""
    size = float(np.ptp(values)) if np.isfinite(values).all() else 0.0
    return size if size < np.inf else 0.0


def _stretches(values: FloatArray) -> int:
    """Count how often a quantity stands still; pulses between may be too short for the grid."""
    size = _range(values)
    if size == 0:
        return 0
    still = np.abs(np.diff(values)) <= _LEVEL * size
    level = np.minimum(values - values.min(), values.max() - values) <= _LEVEL * size
    return max(int(np.count_nonzero(one[1:] & ~one[:-1])) for one in (still, level))


def _last_before(node: Expression, low: float, high: float) -> float:
    """The last time between two before a jump, where the value is the one at the first."""
    before = evaluate(node, {"time": low})
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return low if low > just_after(0.0) else 0.0
        if evaluate(node, {"time": middle}) == before:
            low = middle
        else:
            high = middle


def _around(t: float) -> tuple[float, float, float]:
    """Times near a change at which a kernel may compute."""
    return nextafter(t, 0.0), t, nextafter(t, np.inf)


def _apart(node: Call, t: float) -> float:
    left, right = (evaluate(side, {"time": t}) for side in node.arguments)
    return left - right


def _touches(apart: FloatArray, size: float) -> bool:
    """Return whether a difference stays 0, or comes so near to 0 that it may touch it."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(apart)
        turns = (distance[1:-1] <= distance[:-2]) & (distance[1:-1] <= distance[2:])
        beside = (apart[:-2] * apart[2:] > 0) | (apart[1:-1] == 0) & (apart[2:] == 0)
        near = distance[1:-1] <= np.abs(apart[2:] - apart[:-2]) + _SAME * size
    return bool(np.any(turns & beside & near))


def _times_of(pieces: Pieces | None) -> tuple[Fraction, ...]:
    return () if pieces is None else pieces.times
