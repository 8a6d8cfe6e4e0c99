"""What moves an SBML model besides reactions: rate rules, and events at given times.

A parameter or a compartment that such a rule or event changes becomes a species of the network,
fixed for reactions, so that it is part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tauslab.model.expressions.expression import Expression, Number, Symbol, call, symbols
from tauslab.model.network.network import Feature, Network
from tauslab.model.readers.sbml.event_order import TimedAssignments, add_timed_events
from tauslab.model.readers.sbml.mathml import MathReader
from tauslab.model.readers.sbml.text import each
from tauslab.model.readers.sbml.triggers import folded, holds_at_start, switch_times

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
    timed = []
    for number, event in enumerate(each(model.getListOfEvents()), start=1):
        timed += _read_event(network, event, event.getId() or str(number), maths, size)
    add_timed_events(network, timed)


def _read_event(
    network: Network, event: Any, name: str, maths: MathReader, size: Size
) -> list[TimedAssignments]:
    """An event, as often as it comes; nothing, and a feature, where it cannot be honoured."""

    def refused(kind: str, why: str) -> list[TimedAssignments]:
        network.add_feature(Feature(kind, where, why))
        return []

    where = f"event {name}"
    starts = event.getTrigger()
    if starts is None or not starts.isSetMath():  # Level 3 Version 2 allows both
        network.notes.append(f"{where} has no trigger: it never comes")
        return []
    before = list(network.features)
    trigger = maths.read(starts.getMath(), where)
    delay = maths.read(event.getDelay().getMath(), where) if event.isSetDelay() else Number(0.0)
    priority = _priority(event, maths, where)
    network.features[:] = (
        before
        + [  # the time in a trigger is no feature of its own
            feature for feature in network.features[len(before) :] if feature.kind != "time"
        ]
    )
    times = switch_times(trigger, network.parameters)
    if times is None or ("time" in symbols(trigger) and _is_called_time(network)):
        return refused("event", "its trigger depends on what the model computes")
    if starts.isSetInitialValue() and not starts.getInitialValue():
        at_start = holds_at_start(trigger)
        if not (isinstance(at_start, Number) and at_start.value == 0):
            return refused("event", "its trigger counts as false before time 0: it may come at 0")
    trees = _new_amounts(network, event, where, maths, size)
    missing = [target for target in trees if target not in network.species]
    if missing:
        return refused("event", f"it changes {missing[0]}")
    early = event.getUseValuesFromTriggerTime()
    if not (isinstance(delay, Number) and delay.value == 0):
        if not symbols(delay) <= network.parameters.keys():
            return refused("delay", "its delay depends on what the model computes")
        if early and not all(symbols(tree) <= network.parameters.keys() for tree in trees.values()):
            return refused("delay", "it has a delay, and keeps values from before it")
        if starts.isSetPersistent() and not starts.getPersistent():
            return refused("delay", "it has a delay, in which its trigger may take it back")
        times = [_delayed(time, delay) for time in times]
    return [
        TimedAssignments(name if i == 0 else f"{name}_{i + 1}", time, trees, early, priority)
        for i, time in enumerate(times)
    ]


def _new_amounts(
    network: Network, event: Any, where: str, maths: MathReader, size: Size
) -> dict[str, Expression]:
    """What an event sets; an assignment without math, which Level 3 Version 2 allows, is none."""
    trees = {}
    for assignment in each(event.getListOfEventAssignments()):
        if assignment.isSetMath():
            target, tree = assignment.getVariable(), maths.read(assignment.getMath(), where)
            known = target in network.species
            trees[target] = _amount(tree, network, target, size) if known else tree
    return trees


def _is_called_time(network: Network) -> bool:
    """Whether the model calls something ``time``: then a trigger does not tell it from the time."""
    return any("time" in group for group in (network.species, network.parameters, network.rules))


def _priority(event: Any, maths: MathReader, where: str) -> Expression | None:
    if not event.isSetPriority() or not event.getPriority().isSetMath():
        return None
    return folded(maths.read(event.getPriority().getMath(), where))


def _delayed(time: Expression, delay: Expression) -> Expression:
    """A delayed time; one that never comes (0 or less) stays so."""
    late = folded(call("add", time, delay))
    if isinstance(time, Number):
        return late if time.value > 0 else time
    return call("if", call("gt", time, 0.0), late, 0.0)


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
