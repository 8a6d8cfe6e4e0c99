"""Writes `model.h` for leaps of networks with events: how far they may go before a trigger changes.

A leap ends at times that are known before. Relations that reactions or equations can change, in
triggers and in times at which relations change, bound it: `bound` of csrc/leaping/crossing.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tauslab.kernels.events.codegen import events_header
from tauslab.kernels.leaping.codegen import channels, leap_parts
from tauslab.kernels.network.codegen import LawWriter, law_text
from tauslab.kernels.network.lowering import (
    Count,
    Law,
    LoweredNetwork,
    Operation,
    counts_in,
    operations_first,
)

_RELATIONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_LOGIC = frozenset(("and", "or", "xor", "not"))
_JUMPS = frozenset(("floor", "ceil"))  # functions whose differences do not tell where they change


@dataclass(frozen=True)
class Margin:
    """The difference of two sides, which has the sign 0 where a relation changes.

    `guard` is a condition in C++ under which the relation can matter; `moves` says whether it
    changes between reactions, and `at_time` whether it is the time until a switch that reactions
    move. `law` is None where no difference tells how far a change is.
    """

    law: Law | None
    guard: str
    moves: bool
    at_time: bool = False


def event_leap_header(network: LoweredNetwork) -> str:
    """`model.h` for `tau_events` and `tau_flow`: that of exact simulation, and leaps."""
    assert network.dynamics is not None
    margins = list(_Watched(network).margins())
    moves = str(network.dynamics.moves).lower()
    return "\n".join(
        [
            events_header(network),
            f"// Whether anything moves between events.\nconstexpr bool MOVES = {moves};\n",
            _margin_functions(network, margins),
            *leap_parts(network, "double", _bounds(network, margins)),
            _channel_propensities(network),
            _relations_stay(margins),
        ]
    )


class _Watched:
    """Finds what triggers, and times of switches, depend on."""

    def __init__(self, network: LoweredNetwork) -> None:
        assert network.dynamics is not None
        self.dynamics = network.dynamics
        self.time = len(network.species)
        self.reacting = {i for reaction in network.reactions for i, _ in reaction.change}
        self.flowing = {number for number, _ in self.dynamics.flows}

    def margins(self) -> Iterator[Margin]:
        """Of every relation that may change between stops."""
        for event in self.dynamics.events:
            can_hold, can_fail = self._possible(event.trigger)
            guard = f"{can_hold} && {can_fail}"
            for law in self._relations(event.trigger):
                yield self._margin(law, guard)
        for switch in self.dynamics.switches:
            if counts_in(switch) & (self.reacting | self.flowing):
                until = self._margin(Operation("sub", (Count(self.time), switch)), "true")
                yield replace(until, moves=False, at_time=True)

    def _margin(self, law: Law, guard: str) -> Margin:
        jumps = any(
            isinstance(part, Operation)
            and part.function in _JUMPS
            and counts_in(part) & (self.reacting | self.flowing | {self.time})
            for part in operations_first(law)
        )
        moves = bool(counts_in(law) & (self.flowing | {self.time}))
        return Margin(None if jumps else law, guard, moves)

    def _stands_still(self, law: Law) -> bool:
        """Whether a law changes at stops alone."""
        reads = counts_in(law)
        if reads & (self.reacting | self.flowing):
            return False
        if self.time not in reads:
            return True
        if isinstance(law, Operation) and law.function in _LOGIC:
            return all(self._stands_still(part) for part in law.arguments)
        return self._is_switch(law)

    def _is_switch(self, law: Law) -> bool:
        if not (isinstance(law, Operation) and law.function in _RELATIONS):
            return False
        left, right = law.arguments
        return left == Count(self.time) and right in self.dynamics.switches

    def _possible(self, law: Law) -> tuple[str, str]:
        """Conditions under which a trigger can hold, and can fail, before the next stop."""
        if self._stands_still(law):
            text = law_text(law, "x")
            return f"({text} != 0.0)", f"({text} == 0.0)"
        if not isinstance(law, Operation) or law.function not in ("and", "or", "not"):
            return "true", "true"
        parts = [self._possible(part) for part in law.arguments]
        if law.function == "not":
            return parts[0][1], parts[0][0]
        (hold, fail), (other_hold, other_fail) = parts
        if law.function == "and":
            return f"({hold} && {other_hold})", f"({fail} || {other_fail})"
        return f"({hold} || {other_hold})", f"({fail} && {other_fail})"

    def _relations(self, trigger: Law) -> Iterator[Law]:
        """Differences whose sign decides; a trigger that is a number is compared with 0."""
        conditions = {id(trigger)}
        for part in reversed(operations_first(trigger)):
            if self._stands_still(part):
                continue
            operation = part if isinstance(part, Operation) else None
            if operation is not None and operation.function in _RELATIONS:
                yield Operation("sub", operation.arguments)
            elif operation is not None and operation.function in _LOGIC:
                conditions.update(id(inside) for inside in operation.arguments)
            else:
                if id(part) in conditions:
                    yield part
                if operation is not None and operation.function == "if":
                    conditions.add(id(operation.arguments[0]))


def _margin_functions(network: LoweredNetwork, margins: list[Margin]) -> str:
    names = {id(law): f"shared_{k}(x, c)" for k, law in enumerate(network.shared)}
    writer = LawWriter("x", names)
    text = ""
    for k, margin in enumerate(margins):
        if margin.law is None:
            continue
        statements, value = writer.read(margin.law)
        text += (
            f"DEVICE_SHARED double margin_{k}([[maybe_unused]] const double *x,\n"
            f"    [[maybe_unused]] const double *c) {{\n{statements}    return {value};\n}}\n"
        )
    return "// Differences that are 0 where a trigger may change.\n" + text


def _bounds(network: LoweredNetwork, margins: list[Margin]) -> str:
    """Statements that end a leap before a trigger changes."""
    text = ""
    for k, margin in enumerate(margins):
        if margin.law is None:
            text += f"    if ({margin.guard}) plan.limit.bound(0.0, 1.0);\n"
            continue
        part = 0.5 if margin.moves or margin.at_time else 1.0
        text += (
            f"    if ({margin.guard}) {{\n"
            f"        const double margin = margin_{k}(x, c);\n"
            f"        Crossing crossing = crossing_of(margin, {part});\n"
        )
        reads = counts_in(margin.law)
        for channel, reactions in enumerate(channels(network)):
            change = network.reactions[reactions[0]].change
            if not reads & {index for index, _ in change}:
                continue
            there = "".join(f"x[{i}] += {by}; " for i, by in change)
            back = "".join(f"x[{i}] -= {by}; " for i, by in change)
            text += (
                f"        {there.rstrip()}\n"
                f"        const double change_{channel} = margin_{k}(x, c) - margin;\n"
                f"        {back.rstrip()}\n"
                f"        crossing.add(leaping[{channel}], change_{channel});\n"
            )
        if margin.at_time:
            text += "        plan.limit.bound(0.5 * magnitude(margin), 1.0);\n"
        text += "        crossing.bound(plan.limit);\n    }\n"
    return text


def _channel_propensities(network: LoweredNetwork) -> str:
    lines = ""
    for i, reactions in enumerate(channels(network)):
        terms = [f"(critical_{j}(x) ? 0.0 : propensity_{j}(x, c))" for j in reactions]
        lines += f"    all[{i}] = {' + '.join(terms)};\n"
    return (
        "// Propensities to leap with.\n"
        "DEVICE_SHARED void channel_propensities([[maybe_unused]] const double *x,\n"
        f"    [[maybe_unused]] const double *c, double *all) {{\n{lines}}}\n"
    )


def _relations_stay(margins: list[Margin]) -> str:
    """Whether what moves by itself keeps clear of changes of triggers, from x to y."""
    lines = ""
    for k, margin in enumerate(margins):
        if margin.law is not None and margin.moves:
            lines += (
                f"    if ({margin.guard} && !(magnitude(margin_{k}(y, c) - margin_{k}(x, c)) <=\n"
                f"        0.5 * magnitude(margin_{k}(x, c)))) return false;\n"
            )
    return (
        "// Whether relations are at most half-way to a change after what moves by itself went "
        "from x to y.\n"
        "DEVICE_SHARED bool relations_stay([[maybe_unused]] const double *x,\n"
        "    [[maybe_unused]] const double *y, [[maybe_unused]] const double *c) {\n"
        f"{lines}    return true;\n}}\n"
    )
