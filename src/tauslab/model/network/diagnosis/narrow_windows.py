"""Narrow windows of quantities with rate rules, which steps that adapt may pass over.

Steps end where a relation is found to have changed, which they compare at their ends: a window that
opens and closes within one is not seen. Clocks are the time, whose windows are known
(`time_breaks`), unless an event resets them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import pairwise

from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    arguments_first,
    outermost,
    substitute,
    symbols,
    to_text,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_relations import relation_of
from tauslab.model.network.diagnosis.moving_pulses import times_of_pulses
from tauslab.model.network.diagnosis.time_breaks import laws_and_triggers, with_clocks
from tauslab.model.network.network import Network

_NARROW = 0.2  # of the way from the initial value
_LONGEST = 60  # characters of an expression that are shown
_TIME = Symbol("time")


def narrow_windows(network: Network, values: Mapping[str, float]) -> list[str]:
    """A sentence about each quantity with a rate rule of which a law or a trigger has a window."""
    if not network.rates:
        return []
    network = with_clocks(network)
    amounts = network.initial_amounts(values, negative=True)
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    whole = {**values, **{name: amounts[name] for name in network.constant_species()}}
    known = {name: Number(value) for name, value in whole.items() if name not in moved}
    found: dict[str, Expression] = {}
    for tree in laws_and_triggers(network):
        for name in symbols(tree) & network.rates.keys():
            for part in outermost(tree, partial(_is_of, name, known.keys())):
                if _is_narrow(substitute(part, {**known, name: _TIME}), amounts[name]):
                    found.setdefault(name, part)
    return [
        f"{network.name}: {_shown(part)} changes and changes back within a short way of {name}, "
        "which a rate rule moves, and steps may pass over that: use an event, or give sample times "
        "as dense as it is short"
        for name, part in found.items()
    ]


def _is_of(name: str, known: Collection[str], tree: Expression) -> bool:
    used = symbols(tree)
    return name in used and used <= {name, *known}


def _is_narrow(function: Expression, start: float) -> bool:
    """Return whether a function of one quantity, here the time, has a narrow window or pulse."""
    relations = filter(None, map(relation_of, arguments_first(function)))
    changes = {evaluate(one.change, {}) for one in relations}
    pulse = [evaluate(one, {}) for one in times_of_pulses(function, {"time"}, {})]
    windows = [*pairwise(sorted(changes)), *([(min(pulse), max(pulse))] if pulse else [])]
    return any(high - low < _NARROW * abs(low - start) for low, high in windows)


def _shown(part: Expression) -> str:
    text = to_text(part)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
