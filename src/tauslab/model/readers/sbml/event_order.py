"""Events at given times, several of them at one: what SBML says about their order.

Events that come at the same time are executed one after another, by priority. Each sets values
that were computed when its trigger turned true, which is before any of them is executed, unless it
says ``useValuesFromTriggerTime="false"``. A `Network` executes its events in the order in which
they are listed, each with the values that it then finds: so events at one time become one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tauslab.model.errors import ModelError
from tauslab.model.expressions.expression import Expression, Number, substitute, symbols
from tauslab.model.network.network import Feature, Network
from tauslab.model.portable.host_math import evaluate


@dataclass(frozen=True)
class TimedAssignments:
    """An event at a time, an expression of parameters.

    `early` says whether its values are computed before any other event at this time; `priority`
    is None where none is stated.
    """

    name: str
    time: Expression
    values: Mapping[str, Expression]
    early: bool = True
    priority: Expression | None = None


def add_timed_events(network: Network, events: Sequence[TimedAssignments]) -> None:
    """Add events to `network`; those whose order decides and is not known are refused as features.

    Events are simultaneous where their times are the same expression. Others may still come at the
    same time: they are refused if that is so with the parameters' values, and one reads or sets
    what another sets.
    """
    groups: dict[Expression, list[TimedAssignments]] = {}
    for event in events:
        groups.setdefault(event.time, []).append(event)
    merged = [found for group in groups.values() for found in _executed(network, group)]
    _refuse_chances(network, merged)
    for event in merged:
        network.add_event(event.name, event.time, event.values)


def _executed(network: Network, group: list[TimedAssignments]) -> list[TimedAssignments]:
    """Events of one time as the network is to have them."""
    rules = network.rule_expressions()
    if not any(_disturbs(a, b, rules) for a, b in itertools.combinations(group, 2)):
        return group
    sizes = {species.compartment for species in network.species.values()}
    moved = [event for event in group if event.values.keys() & sizes]
    if moved:  # then what a concentration is depends on which comes first
        _refuse(network, moved[0], "it changes the size of a compartment beside another event")
        return []
    ordered = _by_priority(network, group)
    late = [event for event in ordered if not event.early]
    if not ordered or len(late) == len(ordered):
        return ordered
    if late:
        _refuse(network, late[0], f"whether it finds what event {ordered[0].name} sets is mixed")
        return []
    values: dict[str, Expression] = {}
    for event in ordered:
        values.update(event.values)
    return [TimedAssignments(ordered[0].name, ordered[0].time, values)]


def _by_priority(network: Network, group: list[TimedAssignments]) -> list[TimedAssignments]:
    """Events in the order of execution: equal priorities as listed; none if it is not known."""
    keys = []
    for event in group:
        if isinstance(event.priority, Number) or event.priority is None:
            keys.append(0.0 if event.priority is None else -event.priority.value)
        else:
            _refuse(network, event, "its priority is computed")
            return []
    return [group[i] for i in sorted(range(len(group)), key=lambda i: keys[i])]


def _refuse_chances(network: Network, events: Sequence[TimedAssignments]) -> None:
    """Refuse events of unlike times that come at the same time and disturb each other."""
    values, rules = _parameter_values(network), network.rule_expressions()
    found: dict[float, list[TimedAssignments]] = {}
    for event in events:
        if symbols(event.time) <= values.keys() and (time := evaluate(event.time, values)) > 0:
            found.setdefault(time, []).append(event)
    for together in found.values():
        for one, other in itertools.combinations(together, 2):
            if one.time != other.time and _disturbs(one, other, rules):
                _refuse(network, other, f"it comes at the same time as event {one.name}")


def _parameter_values(network: Network) -> dict[str, float]:
    try:
        return network.parameter_values()
    except ModelError:  # what is missing is refused by name elsewhere
        return {}


def _refuse(network: Network, event: TimedAssignments, why: str) -> None:
    network.add_feature(Feature("event", f"event {event.name}", why))


def _disturbs(
    one: TimedAssignments, other: TimedAssignments, rules: Mapping[str, Expression]
) -> bool:
    """Whether the order of two events decides: one sets what the other sets or reads."""
    sets = one.values.keys(), other.values.keys()
    reads = [
        {name for tree in event.values.values() for name in symbols(substitute(tree, rules))}
        for event in (one, other)
    ]
    return bool(sets[0] & sets[1] or sets[0] & reads[1] or sets[1] & reads[0])
