"""Narrow pulses of quantities that equations move, which steps must not pass over.

A window between two relations, as ``V > a && V < b``, is seen: steps are made again, shorter, where
both have changed. So is a smooth pulse by the relations of V to its begin, top and end, also where
V is a sum of quantities or of their products, as ``A + B``. Clocks are the time, whose pulses are
known (`time_breaks`); those of a clock that events set are known from its value.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

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
from tauslab.model.network.diagnosis.moving_pulses import centres, line_between, times_of_pulses
from tauslab.model.network.diagnosis.time_breaks import (
    ARITHMETIC,
    laws_and_triggers,
    smooth_parts,
    unchanged_species,
    with_clocks,
)
from tauslab.model.network.network import Network

_NARROW = 0.2  # of the way from the initial value
_LEVEL = 1e-3  # of the height of the largest pulse
_ROUNDING = 1e-13  # of values: more than the errors of a clock that steps have moved to a value
_POLYNOMIAL = ARITHMETIC - {"div"}
_ALGEBRAIC = ARITHMETIC | {"pow", "sqrt", "cbrt"}
_MOST, _WAYS = 50, 8  # parts of several quantities that are looked at, and values of the others
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
    found = _windows(network, values, flowing)
    result = {
        name: [part for part in parts if not known(network, name, part, values, varying)]
        for name, parts in found.windows.items()
    }
    for name, part in found.joint:
        result.setdefault(name, []).append(part)
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
    windows = _windows(network, values, ()).windows
    return list(dict.fromkeys(
        end
        for name, parts in windows.items()
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
    found = _windows(network, values, flowing)
    return list(dict.fromkeys(
        call("lt", found.sums.get(name, Symbol(name)), level)
        for name, parts in found.windows.items()
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
    still = {one: amounts[one] for one in unchanged_species(network)}
    counts = {one: float(round(amounts[one])) for one in still.keys() - network.constant_species()}
    function, levels = substitute(part, {name: _TIME}), list[Expression]()
    for rounded in ({}, counts):  # of methods that simulate amounts, and of those with counts
        whole = {**values, **still, **rounded}
        known = {one: value for one, value in whole.items() if one not in varying}
        levels += times_of_pulses(function, {"time", *varying}, known)
    return tuple(dict.fromkeys(levels))


def _ends(
    network: Network,
    name: str,
    part: Expression,
    values: Mapping[str, float],
    varying: Collection[str],
) -> list[Expression]:
    """Times at which a part of a clock changes; none of a quantity that is no clock.

    A clock V of the rate r has the value u at the time + (u - V) / r, until an event sets it.
    Where u - V is as small as its rounding errors the value is reached: -1, which is no time.
    """
    rate = network.rates.get(name)
    still = {*network.parameters, *network.constant_species()}
    if rate is None or symbols(rate) - still or draws_in(rate) or looks_back(rate):
        return []
    result: list[Expression] = []
    for end in _levels(network, name, part, values, varying):
        left = call("sub", end, Symbol(name))
        size = call("add", call("abs", end), call("abs", Symbol(name)))
        far = call("gt", call("abs", left), call("mul", Number(_ROUNDING), size))
        result.append(call("if", far, call("add", _TIME, call("div", left, rate)), Number(-1.0)))
    return result


class _Found(NamedTuple):
    """Parts of laws and triggers that have narrow pulses.

    `windows` are by the quantity of which they are; a sum of several quantities counts as one,
    whose name is its text in `sums`. `joint` are of several quantities, with one of these.
    """

    windows: dict[str, list[Expression]]
    sums: dict[str, Expression]
    joint: list[tuple[str, Expression]]


def _windows(network: Network, values: Mapping[str, float], flowing: Collection[str]) -> _Found:
    """Parts of laws and triggers with narrow pulses of quantities that equations move."""
    if not (network.rates or flowing):
        return _Found({}, {}, [])
    # A search by the time does not know species that are not fixed, although nothing changes them.
    loose = unchanged_species(network) - {*network.constant_species()}
    laws = [
        law if symbols(law) & loose else by_time
        for law, by_time in zip(
            laws_and_triggers(network), laws_and_triggers(with_clocks(network)), strict=True
        )
    ]
    amounts = network.initial_amounts(values, negative=True)
    moved = network.rates.keys() | {n for event in network.events for n in event.assignments}
    whole = {**values, **{name: amounts[name] for name in unchanged_species(network)}}
    known = {name: Number(value) for name, value in whole.items() if name not in moved}
    result = _Found({}, {}, [])
    joint: list[Expression] = []
    for law in itertools.filterfalse(_is_polynomial, laws):
        # A fraction of polynomials has wide tails, which steps see.
        inside = {} if _has_only(law, ARITHMETIC) else _polynomials(
            law, {*network.rates, *flowing}, known.keys(), result.sums
        )  # fmt: skip
        tree = _with_names(law, inside)
        starts = amounts | {
            name: evaluate(one, {**whole, **amounts}) for name, one in result.sums.items()
        }
        for name in sorted(symbols(tree) & {*network.rates, *flowing, *result.sums}):
            amount = name not in network.rates and name not in result.sums
            for part in outermost(tree, partial(_is_of, name, known.keys())):
                for one in _alone(part, name):
                    if not _is_polynomial(one) and _is_narrow(
                        substitute(one, {**known, name: _TIME}), starts[name], amount
                    ):
                        result.windows.setdefault(name, []).append(one)
                if len(_signs_of_steps(part, name)) > 1:  # steps see changes that last
                    result.windows.setdefault(name, []).append(part)
        seen = {node for parts in result.windows.values() for one in parts for node in walk(one)}
        joint += [one for one in _joint(law, known.keys()) if _with_names(one, inside) not in seen]
    for part in itertools.islice(dict.fromkeys(joint), _MOST):
        function = substitute(part, known)
        for name in sorted(symbols(function) & {*network.rates, *flowing}):
            ways = _ways(function, name, {_TIME.name: 1.0, **values, **amounts})
            if any(_is_narrow(one, amounts[name], name not in network.rates) for one in ways):
                result.joint.append((name, part))
                break
    return result


def _joint(law: Expression, known: Collection[str]) -> Iterator[Expression]:
    """Largest parts of several quantities, but no sums and products of parts.

    Powers have wide tails, as fractions do, which steps see.
    """
    for part in outermost(
        law, lambda one: isinstance(one, Call) and one.function not in ARITHMETIC
    ):
        names = symbols(part) - {*known}
        if (
            len(names) > 1 and not draws_in(part) and not looks_back(part)
            and not _has_only(part, _ALGEBRAIC)
        ):  # fmt: skip
            yield part


def _ways(function: Expression, name: str, amounts: Mapping[str, float]) -> Iterator[Expression]:
    """A function of several quantities as one of `name`, here the time.

    The others are as at the begin, the time is 1; or they are where parts of them alone are 0 or
    extremal.
    """
    others = sorted(symbols(function) - {name})
    places = [
        [amounts[other], *(
            at
            for part in outermost(function, partial(_is_of, other, ()))
            for at in centres(substitute(part, {other: _TIME}))
        )]
        for other in others
    ]  # fmt: skip
    for chosen in itertools.islice(itertools.product(*places), _WAYS):
        numbers = {other: Number(at) for other, at in zip(others, chosen, strict=True)}
        yield substitute(function, {**numbers, name: _TIME})


def _polynomials(
    tree: Expression,
    moved: AbstractSet[str],
    known: Collection[str],
    sums: dict[str, Expression],
) -> dict[Expression, Expression]:
    """Largest sums of several quantities, and of their products, as their names in `sums`.

    Of quantities one at least has `moved`. Sums that differ by a factor and a summand have one
    name.
    """

    def chosen(node: Expression) -> bool:
        used = symbols(node)
        return (
            isinstance(node, Call) and node.function in ("add", "sub")
            and used <= {*moved, *known} and len(used & {*moved}) > 1
            and _is_polynomial(node, moved)
        )  # fmt: skip

    result: dict[Expression, Expression] = {}
    names: list[str] = []
    for one in dict.fromkeys(outermost(tree, chosen)):
        for name in names:
            line = line_between(sums[name], one)
            if line is not None:
                result[one] = call("add", call("mul", line[0], Symbol(name)), line[1])
                break
        else:
            name = f"({to_text(one)})"
            names.append(name)
            sums[name], result[one] = one, Symbol(name)
    return result


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


def _with_names(tree: Expression, names: Mapping[Expression, Expression]) -> Expression:
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


def _signs_of_steps(part: Expression, name: str) -> set[int]:
    """Signs with which functions that round a quantity enter sums and multiples.

    Differences have pulses of any width.
    """
    signs: dict[Expression, set[int]] = {Symbol(name): set()}  # of nodes that read the quantity
    for node in arguments_first(part):
        if not isinstance(node, Call) or signs.keys().isdisjoint(node.arguments):
            continue
        own = set[int]()
        if node.function in ("floor", "ceil"):
            own = {1}
        elif node.function in ("add", "sub", "neg", "mul", "div"):
            product = node.function in ("mul", "div")
            numbers = [one.value for one in node.arguments if isinstance(one, Number)]
            flips = node.function == "neg" or (product and any(value < 0 for value in numbers))
            for place, one in enumerate(node.arguments):
                sign = -1 if flips or (node.function == "sub" and place == 1) else 1
                own |= {sign * other for other in signs.get(one, ())}
        signs[node] = own
    return signs.get(part, set())


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

    def changes(pulse: list[float]) -> bool:
        """Return whether the function leaves its level at these places or between two of them."""
        between = [(one + other) / 2 for one, other in itertools.pairwise(pulse)]
        heights = [evaluate(function, {_TIME.name: one}) - values[0] for one in pulse + between]
        return any(abs(height) > least for height in heights)

    pulse: list[float] = []
    rests = False  # at the last of them
    for one, value in zip(at, values, strict=True):
        still = abs(value - values[0]) <= least
        if rests and still and len(pulse) > 1:
            if changes(pulse):
                yield pulse
            pulse = []
        pulse.append(one)
        rests = still
    if changes(pulse):
        yield pulse


def _shown(part: Expression) -> str:
    text = to_text(part)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
