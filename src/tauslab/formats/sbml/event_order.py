"""Events whose times are known before a run, as a list of times and what is set at each.

Such events need no root finding, and every integrator can take them. Events that come at the same
time are executed one after another, by priority. Each sets values that were computed when its
trigger turned true, which is before any of them is executed, unless it says
``useValuesFromTriggerTime="false"``. A `Network` executes events at times in the order in which
they are listed, each with the values that it then finds: so events at one time become one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    symbols,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_relations import Relation, folded, relation_of
from tauslab.model.network.diagnosis.events import disturbs, trigger_holds
from tauslab.model.network.network import Event, Network, TimedEvent
from tauslab.model.network.parts import Doubt

# What a relation is to a point just before or after: time > T holds just after T, as T >= T does.
_BESIDE = {
    ("before", "gt"): "gt", ("before", "ge"): "gt", ("before", "lt"): "le", ("before", "le"): "le",
    ("after", "gt"): "ge", ("after", "ge"): "ge", ("after", "lt"): "lt", ("after", "le"): "lt",
    ("before", "eq"): "eq", ("before", "ne"): "ne", ("after", "eq"): "eq", ("after", "ne"): "ne",
}  # fmt: skip
_LOGIC = ("and", "or", "xor", "not")
# After a time T, and at no double between: what turns true after T does so at T (1 + 2^-52). After
# 0 there is no such factor; a change that soon is seen by no sample.
_AFTER = 1.0 + 2.0**-52
_SOON = 1e-30
_NEVER = Number(0.0)  # events at 0 or before never come


def _side_value(relation: Relation, moment: str, point: Expression) -> Expression:
    """Value of a relation ``at`` a point in time, just ``before`` or just ``after`` it."""
    function = relation.function if moment == "at" else _BESIDE[moment, relation.function]
    if function in ("eq", "ne") and moment != "at":
        return Number(float(function == "ne"))
    if point == relation.change:
        return Number(float(function in ("ge", "le", "eq")))
    return folded(call(function, point, relation.change))


def switch_times(trigger: Expression, parameters: Collection[str]) -> list[Expression] | None:
    """Times, expressions of `parameters`, at which `trigger` turns true; 0 or less for never.

    None where the trigger depends on anything but the time and `parameters`, or on the time in
    another way than by relations that it enters linearly.
    """
    changes: list[Expression] = []
    if not _relations(trigger, set(parameters), changes):
        return None
    times = []
    for i, change in enumerate(changes):
        before, at, after = (_value(trigger, which, change) for which in ("before", "at", "after"))
        once = [folded(call("ne", change, earlier)) for earlier in changes[:i]]
        now = _joined("and", [at, _not(before), *once]) if at != before else Number(0.0)
        soon = _joined("and", [after, _not(at), *once]) if after != at else Number(0.0)
        next_double = call("max", call("mul", change, _AFTER), _SOON)
        later = _if(folded(call("ge", change, 0.0)), folded(next_double), _NEVER)
        time = _if(now, change, _if(soon, later, _NEVER))
        if time != _NEVER:
            times.append(time)
    return times


def holds_at_start(trigger: Expression) -> Expression:
    """Return whether a trigger that `switch_times` can read is true at time 0."""
    return _value(trigger, "at", Number(0.0))


def _relations(tree: Expression, parameters: set[str], changes: list[Expression]) -> bool:
    """Collect when relations in `tree` change; False if it is not made of relations."""
    seen: set[int] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call) and node.function in _LOGIC:
            stack.extend(reversed(node.arguments))
            continue
        result = relation_of(node)
        names = symbols(node) - {"time"} if result is None else symbols(result.change)
        if not names <= parameters or (result is None and "time" in symbols(node)):
            return False
        if result is not None and result.change not in changes:
            changes.append(result.change)
    return True


def _value(tree: Expression, moment: str, point: Expression) -> Expression:
    """A trigger at, just before or just after `point`."""
    known: dict[int, Expression] = {}
    for node in arguments_first(tree):
        known[id(node)] = _part_value(node, moment, point, known)
    return known[id(tree)]


def _part_value(
    tree: Expression, moment: str, point: Expression, known: Mapping[int, Expression]
) -> Expression:
    """The same of a part, where that of its arguments is known."""
    result = relation_of(tree)
    if result is not None:
        return _side_value(result, moment, point)
    if isinstance(tree, Call) and tree.function in _LOGIC:
        parts = [known[id(part)] for part in tree.arguments]
        if tree.function == "not":
            return _not(parts[0])
        if tree.function in ("and", "or"):
            return _joined(tree.function, parts)
        return folded(call("xor", *parts))
    return folded(tree)


def _joined(function: str, trees: list[Expression]) -> Expression:
    """``and`` or ``or`` of what is not known; a part may decide it alone."""
    deciding = function == "or"
    numbers = [tree.value for tree in trees if isinstance(tree, Number)]
    if any(bool(number) == deciding for number in numbers):
        return Number(float(deciding))
    open_ = [tree for tree in trees if not isinstance(tree, Number)]
    whole: Expression = open_[0] if open_ else Number(float(not deciding))
    for tree in open_[1:]:
        whole = call(function, whole, tree)
    return whole


def _not(tree: Expression) -> Expression:
    return folded(call("not", tree))


def _if(condition: Expression, this: Expression, that: Expression) -> Expression:
    if isinstance(condition, Number):
        return this if condition.value else that
    return call("if", condition, this, that)


@dataclass(frozen=True)
class _Timed:
    """An event at a time, an expression of parameters.

    `early` says whether its values are computed before any other event at this time.
    """

    name: str
    time: Expression
    values: Mapping[str, Expression]
    early: bool
    priority: Expression | None


def timed_events(network: Network, events: Sequence[Event]) -> list[TimedEvent] | None:
    """The events as a list of times; None where that cannot say what they mean.

    It cannot where a trigger reads what the model computes, where a delay keeps values or may be
    taken back, and where events come at one time, disturb each other, and their order is left to
    chance or computed. Events are simultaneous where their times are the same expression, or are
    equal with the parameters' values.
    """
    groups: dict[Expression, list[_Timed]] = {}
    never: list[Doubt] = []
    for event in events:
        result = _times(network, event)
        if result is None:
            return None
        never += [] if result else [_never(event)]
        for timed in result:
            groups.setdefault(timed.time, []).append(timed)
    merged: list[_Timed] = []
    for group in groups.values():
        executed = _executed(network, group)
        if executed is None:
            return None
        merged += executed
    if _disturb_by_chance(network, merged):
        return None
    network.notes += never
    return [TimedEvent(event.name, event.time, event.values, switched=True) for event in merged]


def _never(event: Event) -> Doubt:
    """Return the reason for which an event has no times."""
    if holds_at_start(event.trigger) == Number(0.0):
        return Doubt(f"event {event.name} never fires: its trigger is never true after time 0")
    return Doubt(trigger_holds(event.name, "never fires"))


def _times(network: Network, event: Event) -> list[_Timed] | None:
    """An event, as often as it comes; None where that is not known."""
    times = switch_times(event.trigger, network.parameters)
    if times is None:
        return None
    if not event.initial:
        at_start = holds_at_start(event.trigger)
        if not (isinstance(at_start, Number) and at_start.value == 0):
            return None
    delay = event.delay
    if delay is not None and not (isinstance(delay, Number) and delay.value == 0):
        if not symbols(delay) <= network.parameters.keys() or not event.persistent:
            return None
        values = event.assignments.values()
        if event.early and not all(symbols(tree) <= network.parameters.keys() for tree in values):
            return None
        times = [_delayed(time, delay) for time in times]
    return [
        _Timed(
            event.name if i == 0 else f"{event.name}_{i + 1}",
            time,
            event.assignments,
            event.early,
            event.priority,
        )
        for i, time in enumerate(times)
    ]


def _delayed(time: Expression, delay: Expression) -> Expression:
    """A delayed time; one that never comes (0 or less) stays so."""
    late = folded(call("add", time, delay))
    if isinstance(time, Number):
        return late if time.value > 0 else time
    return call("if", call("gt", time, 0.0), late, 0.0)


def _executed(network: Network, group: list[_Timed]) -> list[_Timed] | None:
    """Events of one time as the network is to have them."""
    rules = network.rule_expressions()
    if not any(disturbs(a.values, b.values, rules) for a, b in itertools.combinations(group, 2)):
        return group
    homes = {species.compartment for species in network.species.values() if species.compartment}
    sizes = {name for home in homes for name in symbols(rules.get(home, Symbol(home)))}
    if any(event.values.keys() & sizes for event in group):
        return None  # then what a concentration is depends on which comes first
    apart = not any(a.values.keys() & b.values.keys() for a, b in itertools.combinations(group, 2))
    early = all(event.early for event in group)
    ordered = group if early and apart else _by_priority(group)
    if ordered is None:
        return None
    late = [event for event in ordered if not event.early]
    if len(late) == len(ordered):
        return ordered
    if late:
        return None
    values: dict[str, Expression] = {}
    for event in ordered:
        values.update(event.values)
    first = ordered[0]
    return [_Timed(first.name, first.time, values, first.early, first.priority)]


def _by_priority(group: list[_Timed]) -> list[_Timed] | None:
    """Events in the order of execution; None where it is computed or left to chance."""
    keys = []
    for event in group:
        if not (event.priority is None or isinstance(event.priority, Number)):
            return None
        keys.append(math.inf if event.priority is None else -event.priority.value)
    if len(set(keys)) < len(keys):
        return None
    return [group[i] for i in sorted(range(len(group)), key=lambda i: keys[i])]


def _disturb_by_chance(network: Network, events: Sequence[_Timed]) -> bool:
    """Return whether events of unlike times come at the same time and disturb each other."""
    values, rules = _parameter_values(network), network.rule_expressions()
    result: dict[float, list[_Timed]] = {}
    for event in events:
        if symbols(event.time) <= values.keys() and (time := evaluate(event.time, values)) > 0:
            result.setdefault(time, []).append(event)
    return any(
        one.time != other.time and disturbs(one.values, other.values, rules)
        for together in result.values()
        for one, other in itertools.combinations(together, 2)
    )


def _parameter_values(network: Network) -> dict[str, float]:
    try:
        return network.parameter_values()
    except ModelError:  # what is missing is refused by name elsewhere
        return {}
