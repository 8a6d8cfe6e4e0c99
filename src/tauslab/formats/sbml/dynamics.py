"""Rate rules and events of an SBML model.

A parameter or a compartment that such a rule or event changes becomes a species of the network,
fixed for reactions, so that it is part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tauslab.formats.sbml.event_order import timed_events
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.text import each
from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    call,
    draws_in,
    substitute,
    symbols,
)
from tauslab.model.expressions.time_relations import folded
from tauslab.model.network.network import Event, Feature, Network, TimedEvent
from tauslab.model.network.parts import Doubt, draw_refused

Size = Callable[[str], Expression | None]


def moved_values(model: Any) -> set[str]:
    """Names of all that rate rules and events change."""
    rules = (rule for rule in each(model.getListOfRules()) if rule.isRate() and rule.isSetMath())
    names = {rule.getVariable() for rule in rules}
    for event in each(model.getListOfEvents()):
        names |= {a.getVariable() for a in each(event.getListOfEventAssignments())}
    return names


def add_dynamics(model: Any, network: Network, maths: MathReader, size: Size) -> None:
    """Add rate rules and events to `network`, which holds all species and parameters.

    Parameters
    ----------
    size
        Size of the compartment where the name of a species means a concentration, else None.
    """
    rules = {
        rule.getVariable(): rule
        for rule in each(model.getListOfRules())
        if rule.isRate() and rule.isSetMath()
    }
    rates = {
        name: maths.read(rule.getMath(), f"rate rule for {name}")
        for name, rule in rules.items()
        if name in network.species
    }
    for name, tree in rates.items():
        network.add_rate(name, _amount_rate(tree, network, name, size, rates))
    listed = [
        (event, event.getId() or str(number))
        for number, event in enumerate(each(model.getListOfEvents()), start=1)
    ]
    read = [
        result
        for event, name in listed
        if (result := _read_event(network, event, name, maths, size)) is not None
    ]
    timed = timed_events(network, read)
    if timed is None:
        read = [event for event in read if not _keeps_a_concentration(network, event, read, size)]
    for event in read if timed is None else timed:
        _add_event(network, event)


def _keeps_a_concentration(
    network: Network, event: Event, events: Sequence[Event], size: Size
) -> bool:
    """Refuse an event that keeps a concentration while the size of the compartment may change.

    The amount follows from the size when it is set, which is not known when the value is computed.
    """
    moved = {name for other in events if other is not event for name in other.assignments}
    if event.delay is not None:
        moved |= {name for name, species in network.species.items() if not species.fixed}
        moved |= network.rates.keys() | event.assignments.keys() | {"time"}
    rules = network.rule_expressions()
    for name in event.assignments if event.early else ():
        volume = size(name) if network.species[name].compartment is not None else None
        if volume is not None and symbols(substitute(volume, rules)) & moved:
            why = f"it keeps a concentration of {name}, and the size of its compartment changes"
            network.add_feature(Feature("event", f"event {event.name}", why))
            return True
    return False


def _read_event(
    network: Network, event: Any, name: str, maths: MathReader, size: Size
) -> Event | None:
    """An event; None, and a feature or a note, for one that cannot be honoured or never comes."""
    where = f"event {name}"
    starts = event.getTrigger()
    if starts is None or not starts.isSetMath():  # Level 3 Version 2 allows both
        network.notes.append(Doubt(f"{where} has no trigger: it never fires"))
        return None
    before = list(network.features)
    trigger = maths.read(starts.getMath(), where)
    delay, priority = (
        maths.read(part.getMath(), where) if part is not None and part.isSetMath() else None
        for part in (event.getDelay(), event.getPriority())
    )
    if draws_in(trigger):
        detail = draw_refused(trigger)
        network.add_feature(Feature("function", f"trigger of {where}", detail))
    network.features[:] = (
        before
        + [  # the time in a trigger is no feature of its own
            feature for feature in network.features[len(before) :] if feature.kind != "time"
        ]
    )
    if _is_called_time(network) and any(
        "time" in symbols(tree) for tree in (trigger, delay, priority) if tree is not None
    ):
        why = "it depends on the time, and the model calls something 'time'"
        network.add_feature(Feature("event", where, why))
        return None
    trees = _new_amounts(network, event, where, maths, size)
    missing = [target for target in trees if target not in network.species]
    if missing:
        network.add_feature(Feature("event", where, f"it changes {missing[0]}"))
        return None
    return Event(
        name,
        trigger,
        trees,
        None if delay is None else folded(delay),
        None if priority is None else folded(priority),
        persistent=not starts.isSetPersistent() or bool(starts.getPersistent()),
        initial=not starts.isSetInitialValue() or bool(starts.getInitialValue()),
        early=bool(event.getUseValuesFromTriggerTime()),
    )


def _add_event(network: Network, event: Event | TimedEvent) -> None:
    if isinstance(event, TimedEvent):
        network.add_event(event.name, event.time, event.assignments)
        network.events[-1] = event
        return
    network.add_event(
        event.name, assignments=event.assignments, trigger=event.trigger, delay=event.delay,
        priority=event.priority, persistent=event.persistent, initial=event.initial,
        early=event.early,
    )  # fmt: skip


def _new_amounts(
    network: Network, event: Any, where: str, maths: MathReader, size: Size
) -> dict[str, Expression]:
    """Assignments of an event; one without math, which Level 3 Version 2 allows, is left out."""
    trees = {}
    for assignment in each(event.getListOfEventAssignments()):
        if assignment.isSetMath():
            target, tree = assignment.getVariable(), maths.read(assignment.getMath(), where)
            known = target in network.species
            trees[target] = _amount(tree, network, target, size) if known else tree
    return trees


def _is_called_time(network: Network) -> bool:
    """Return whether a name of the model is ``time``, which a trigger cannot tell from the time."""
    return any("time" in group for group in (network.species, network.parameters, network.rules))


def _amount(tree: Expression, network: Network, name: str, size: Size) -> Expression:
    """The amount of what the model states of a concentration.

    An event that sets a concentration and the size of its compartment sets the amount by the size
    before: all of its values are computed before any is set, and the amount is what is kept.
    """
    volume = size(name) if network.species[name].compartment is not None else None
    return tree if volume is None else call("mul", tree, volume)


def _amount_rate(
    tree: Expression, network: Network, name: str, size: Size, rates: Mapping[str, Expression]
) -> Expression:
    """An amount per time, from what the model states of a concentration.

    The amount is n = c V, so that dn/dt = V dc/dt + n / V dV/dt where the compartment moves.
    """
    volume = size(name) if network.species[name].compartment is not None else None
    if volume is None:
        return tree
    assert isinstance(volume, Symbol)
    scaled = call("mul", tree, volume)
    if volume.name in rates:
        concentration = call("div", Symbol(name), volume)
        return call("add", scaled, call("mul", concentration, rates[volume.name]))
    given = network.rule_expressions().get(volume.name, Number(0.0))
    if symbols(given) - network.parameters.keys():
        why = f"it moves a concentration, and a rule moves the size of {volume.name}"
        network.add_feature(Feature("compartment", f"rate rule for {name}", why))
    return scaled
