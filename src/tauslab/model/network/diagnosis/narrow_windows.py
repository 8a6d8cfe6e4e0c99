"""Narrow pulses of quantities that equations move, which steps must not pass over.

A window between two relations, as ``V > a && V < b``, is seen: steps are made again, shorter, where
both have changed. So is a smooth pulse by the relations of V to its begin, top and end, also where
V is a sum of quantities or of their products, as ``A + B``. Clocks are the time, whose pulses are
known (`time_breaks`); those of a clock that events set are known from its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

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
    to_text,
    walk,
    with_arguments,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_relations import TURNED, relation_of
from tauslab.model.network.diagnosis.moving_pulses import times_of_pulses
from tauslab.model.network.diagnosis.time_breaks import (
    ARITHMETIC,
    laws_and_triggers,
    smooth_parts,
    with_clocks,
)
from tauslab.model.network.network import Network

_NARROW = 0.2  # of the way from the initial value
_LEVEL = 1e-3  # of the height of the largest pulse
_POLYNOMIAL = ARITHMETIC - {"div"}
_LONGEST = 60  # characters of an expression that are shown
_TIME = Symbol("time")


def narrow_windows(
    network: Network,
    values: Mapping[str, float],
    varying: Collection[str] = (),
    *,
    flowing: Collection[str] = (),
    seen: bool = False,
) -> list[str]:
    """A sentence about each quantity of which a law or a trigger has a narrow pulse.

    Not about pulses of clocks at which steps end (`ends_of_windows`).

    Parameters
    ----------
    varying
        Names whose values differ between trajectories.
    flowing
        Amounts that reactions change as equations.
    seen
        Whether steps see `levels_of_pulses`: then about pulses without these.
    """
    known = _levels if seen else _ends
    result = {
        name: [part for part in parts if not known(network, name, part, values, varying)]
        for name, parts in _windows(network, values, flowing)[0].items()
    }
    return [
        f"{network.name}: {_shown(parts[0])} changes and changes back within a short way of {name}"
        ", which an equation moves, and steps may pass over that: use an event, or give sample "
        "times as dense as it is short"
        for name, parts in result.items()
        if parts
    ]


def ends_of_windows(
    network: Network, values: Mapping[str, float], varying: Collection[str]
) -> list[Expression]:
    """Times at which narrow pulses of clocks that events set begin and end.

    Parameters
    ----------
    varying
        Names whose values differ between trajectories.
    """
    result, _ = _windows(network, values, ())
    return list(dict.fromkeys(
        end
        for name, parts in result.items()
        for part in parts
        for end in _ends(network, name, part, values, varying)
    ))  # fmt: skip


def levels_of_pulses(
    network: Network,
    values: Mapping[str, float],
    varying: Collection[str],
    *,
    flowing: Collection[str] = (),
) -> list[Expression]:
    """Relations of quantities to where their narrow pulses begin, are at their tops and end.

    Not of clocks at whose pulses steps end (`ends_of_windows`). Parameters as of `narrow_windows`.
    """
    windows, polynomials = _windows(network, values, flowing)
    return list(dict.fromkeys(
        call("lt", polynomials.get(name, Symbol(name)), level)
        for name, parts in windows.items()
        for part in parts
        if not _ends(network, name, part, values, varying)
        for level in _levels(network, name, part, values, varying)
    ))  # fmt: skip


def _levels(
    network: Network,
    name: str,
    part: Expression,
    values: Mapping[str, float],
    varying: Collection[str],
) -> tuple[Expression, ...]:
    """Amounts of a quantity at which the pulses of a part of it begin, are at the top and end."""
    amounts = network.initial_amounts(values, negative=True)
    whole = {**values, **{name: amounts[name] for name in network.constant_species()}}
    known = {name: value for name, value in whole.items() if name not in varying}
    return times_of_pulses(substitute(part, {name: _TIME}), {"time", *varying}, known)


def _ends(
    network: Network,
    name: str,
    part: Expression,
    values: Mapping[str, float],
    varying: Collection[str],
) -> list[Expression]:
    """Times at which a part of a clock changes; none of a quantity that is no clock.

    A clock V of the rate r has the value u at the time + (u - V) / r, until an event sets it.
    """
    rate = network.rates.get(name)
    still = {*network.parameters, *network.constant_species()}
    if rate is None or symbols(rate) - still or draws_in(rate) or looks_back(rate):
        return []
    return [
        call("add", _TIME, call("div", call("sub", end, Symbol(name)), rate))
        for end in _levels(network, name, part, values, varying)
    ]


def _windows(
    network: Network, values: Mapping[str, float], flowing: Collection[str]
) -> tuple[dict[str, list[Expression]], dict[str, Expression]]:
    """Parts of laws and triggers that have narrow pulses, by the quantity of which they are.

    A sum of several quantities counts as one, whose name is its text; the second value has these
    sums.
    """
    if not (network.rates or flowing):
        return {}, {}
    network = with_clocks(network)
    amounts = network.initial_amounts(values, negative=True)
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    whole = {**values, **{name: amounts[name] for name in network.constant_species()}}
    known = {name: Number(value) for name, value in whole.items() if name not in moved}
    result: dict[str, list[Expression]] = {}
    polynomials: dict[str, Expression] = {}
    for law in laws_and_triggers(network):
        if _is_polynomial(law):
            continue
        # A fraction of polynomials has wide tails, which steps see.
        inside = {} if _has_only(law, ARITHMETIC) else _polynomials(
            law, {*network.rates, *flowing}, known.keys()
        )  # fmt: skip
        polynomials |= inside
        tree = _with_names(law, {one: Symbol(name) for name, one in inside.items()})
        for name in sorted(symbols(tree) & {*network.rates, *flowing, *inside}):
            start = (
                evaluate(inside[name], {**whole, **amounts}) if name in inside else amounts[name]
            )
            amount = name not in network.rates and name not in inside
            for part in outermost(tree, partial(_is_of, name, known.keys())):
                for one in _alone(part, name):
                    if not _is_polynomial(one) and _is_narrow(
                        substitute(one, {**known, name: _TIME}), start, amount
                    ):
                        result.setdefault(name, []).append(one)
    return result, polynomials


def _polynomials(
    tree: Expression, moved: AbstractSet[str], known: Collection[str]
) -> dict[str, Expression]:
    """Largest sums of several quantities that move, and of their products, by their texts."""

    def chosen(node: Expression) -> bool:
        used = symbols(node)
        return (
            isinstance(node, Call) and node.function in ("add", "sub")
            and used <= {*moved, *known} and len(used & {*moved}) > 1
            and _is_polynomial(node, moved)
        )  # fmt: skip

    return {f"({to_text(one)})": one for one in outermost(tree, chosen)}


def _has_only(tree: Expression, functions: Collection[str]) -> bool:
    return all(not isinstance(one, Call) or one.function in functions for one in walk(tree))


def _is_polynomial(tree: Expression, moved: AbstractSet[str] | None = None) -> bool:
    """Return whether an expression is a polynomial of `moved`, by default of all its names."""
    return all(
        not isinstance(one, Call)
        or one.function in _POLYNOMIAL
        or (one.function == "div" and moved is not None and not symbols(one.arguments[1]) & moved)
        for one in walk(tree)
    )


def _with_names(tree: Expression, names: Mapping[Expression, Symbol]) -> Expression:
    return bottom_up(tree, lambda one, parts: names.get(one) or with_arguments(one, parts))


def _is_of(name: str, known: Collection[str], tree: Expression) -> bool:
    used = symbols(tree)
    return name in used and used <= {name, *known}


def _alone(part: Expression, name: str) -> Iterator[Expression]:
    """Smooth parts, and relations that a quantity does not enter linearly."""
    order = arguments_first(substitute(part, {name: _TIME}))
    crooked = [
        node
        for node in order
        if isinstance(node, Call) and node.function in TURNED
        and "time" in symbols(node) and relation_of(node) is None
    ]  # fmt: skip
    for node in (*smooth_parts(order), *crooked):
        yield substitute(node, {_TIME.name: Symbol(name)})


def _is_narrow(function: Expression, start: float, amount: bool) -> bool:  # noqa: FBT001
    """Return whether a function of one quantity, here the time, has a narrow pulse on its way.

    An `amount` does not pass through a pulse at 0.
    """
    return any(
        pulse[-1] - pulse[0] < _NARROW * abs(pulse[0] - start)
        for pulse in _pulses(function)
        if pulse[0] > 0 or not amount
    )


def _pulses(function: Expression) -> Iterator[list[float]]:
    """Where each pulse begins, changes and ends: between two the function is at its level."""
    at = sorted(evaluate(one, {}) for one in times_of_pulses(function, {"time"}, {}))
    values = [evaluate(function, {_TIME.name: one}) for one in at]
    least = _LEVEL * max((abs(value - values[0]) for value in values), default=0.0)
    pulse: list[float] = []
    rests = False  # at the last of them
    for one, value in zip(at, values, strict=True):
        still = abs(value - values[0]) <= least
        if rests and still and len(pulse) > 1:
            yield pulse
            pulse = []
        pulse.append(one)
        rests = still
    if pulse:
        yield pulse


def _shown(part: Expression) -> str:
    text = to_text(part)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
