"""What moves an SBML model besides reactions: rate rules, and events at given times.

A parameter or a compartment that such a rule or event changes becomes a species of the network,
fixed for reactions, so that it is part of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tauslab.model.expression import Call, Expression, Number, Symbol, call, symbols
from tauslab.model.network import Feature, Network
from tauslab.model.sbml_document import each
from tauslab.model.sbml_math import MathReader

_EARLIER = ("le", "lt")  # of (value, time): the trigger turns true when the time passes the value
_LATER = ("ge", "gt")  # of (time, value)

Size = Callable[[str], Expression | None]


def moved_values(model: Any) -> set[str]:
    """Names of all that rate rules and events change."""
    rules = (rule for rule in each(model.getListOfRules()) if rule.isRate())
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
    for rule in each(model.getListOfRules()):
        if rule.isRate() and rule.getVariable() in network.species:
            name = rule.getVariable()
            tree = maths.read(rule.getMath(), f"rate rule for {name}")
            network.add_rate(name, _amount(tree, network, name, size))
    for number, event in enumerate(each(model.getListOfEvents()), start=1):
        _add_event(network, event, event.getId() or str(number), maths, size)


def _add_event(network: Network, event: Any, name: str, maths: MathReader, size: Size) -> None:
    where = f"event {name}"
    if event.isSetDelay():
        network.add_feature(Feature("delay", where, "it has a delay"))
        return
    before = list(network.features)
    trigger = maths.read(event.getTrigger().getMath(), where)
    network.features[:] = before  # the time in a trigger is no feature of its own
    time = _time_of(trigger, network)
    # A trigger that counts as false before the start may come at the start.
    trigger_element = event.getTrigger()
    starts_false = trigger_element.isSetInitialValue() and not trigger_element.getInitialValue()
    later = isinstance(time, Number) and time.value > 0
    if time is None or (starts_false and not later):
        network.add_feature(Feature("event", where, "it changes the state"))
        return
    trees = {}
    for assignment in each(event.getListOfEventAssignments()):
        target = assignment.getVariable()
        if target not in network.species:
            network.add_feature(Feature("event", where, f"it changes {target}"))
            return
        tree = maths.read(assignment.getMath(), where)
        trees[target] = _amount(tree, network, target, size)
    network.add_event(name, time, trees)


def _time_of(trigger: Expression, network: Network) -> Expression | None:
    """When a trigger turns true and stays so; None if that is not one time known in advance."""
    if not isinstance(trigger, Call) or trigger.function not in (*_EARLIER, *_LATER):
        return None
    left, right = trigger.arguments
    time, value = (left, right) if trigger.function in _LATER else (right, left)
    known = symbols(value) <= network.parameters.keys()
    return value if time == Symbol("time") and known else None


def _amount(tree: Expression, network: Network, name: str, size: Size) -> Expression:
    """An amount, or an amount per time, from what the model states of a concentration."""
    volume = size(name) if network.species[name].compartment is not None else None
    return tree if volume is None else call("mul", tree, volume)
