"""Narrow windows of quantities with rate rules, which steps that adapt may pass over.

Steps end where a relation is found to have changed, which they compare at their ends: a window that
opens and closes within one is not seen. Clocks are the time, whose windows are known
(`time_breaks`); those of a clock that events set are known from its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import pairwise

from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    draws_in,
    looks_back,
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
_ROUNDING = 2.0**-44  # of times, beyond that of a clock
_LONGEST = 60  # characters of an expression that are shown
_TIME = Symbol("time")


def narrow_windows(
    network: Network, values: Mapping[str, float], varying: Collection[str] = ()
) -> list[str]:
    """A sentence about each quantity with a rate rule of which a law or a trigger has a window.

    Not about windows of clocks at which steps end (`ends_of_windows`).
    """
    found = {
        name: [part for part in parts if not _ends(network, name, part, values, varying)]
        for name, parts in _windows(network, values).items()
    }
    return [
        f"{network.name}: {_shown(parts[0])} changes and changes back within a short way of {name}"
        ", which a rate rule moves, and steps may pass over that: use an event, or give sample "
        "times as dense as it is short"
        for name, parts in found.items()
        if parts
    ]


def ends_of_windows(
    network: Network, values: Mapping[str, float], varying: Collection[str]
) -> list[Expression]:
    """Times at which narrow windows of clocks that events set begin and end.

    Parameters
    ----------
    varying
        Names whose values differ between trajectories.
    """
    found = _windows(network, values)
    return list(dict.fromkeys(
        end
        for name, parts in found.items()
        for part in parts
        for end in _ends(network, name, part, values, varying)
    ))  # fmt: skip


def _ends(
    network: Network,
    name: str,
    part: Expression,
    values: Mapping[str, float],
    varying: Collection[str],
) -> Iterable[Expression]:
    """Times at which a part of a clock changes; none of a quantity that is no clock.

    A clock V of the rate r has the value u at the time + (u - V) / r, until an event sets it. Its
    own rounding may delay that: a second time is behind it.
    """
    if not _is_clock(network, name):
        return []
    rate, function = network.rates[name], substitute(part, {name: _TIME})
    amounts = network.initial_amounts(values, negative=True)
    whole = {**values, **{name: amounts[name] for name in network.constant_species()}}
    known = {name: value for name, value in whole.items() if name not in varying}
    ends = [one.change for node in arguments_first(function) if (one := relation_of(node))]
    found = []
    for end in (*ends, *times_of_pulses(function, {"time", *varying}, known)):
        way = call("div", call("sub", end, Symbol(name)), rate)
        there = call("add", _TIME, way)
        size = call("add", _TIME, call("abs", call("div", end, rate)))
        found += [there, call("add", there, call("mul", Number(_ROUNDING), size))]
    return found


def _is_clock(network: Network, name: str) -> bool:
    """Return whether a quantity has a rate that nothing changes."""
    rate = network.rates[name]
    still = {*network.parameters, *network.constant_species()}
    return not (symbols(rate) - still or draws_in(rate) or looks_back(rate))


def _windows(network: Network, values: Mapping[str, float]) -> dict[str, list[Expression]]:
    """Parts of laws and triggers that have narrow windows, by the quantity of which they are."""
    if not network.rates:
        return {}
    network = with_clocks(network)
    amounts = network.initial_amounts(values, negative=True)
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    whole = {**values, **{name: amounts[name] for name in network.constant_species()}}
    known = {name: Number(value) for name, value in whole.items() if name not in moved}
    found: dict[str, list[Expression]] = {}
    for tree in laws_and_triggers(network):
        for name in sorted(symbols(tree) & network.rates.keys()):
            for part in outermost(tree, partial(_is_of, name, known.keys())):
                if _is_narrow(substitute(part, {**known, name: _TIME}), amounts[name]):
                    found.setdefault(name, []).append(part)
    return found


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
