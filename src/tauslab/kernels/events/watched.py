"""Relations in triggers, as differences whose sign decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tauslab.kernels.network.codegen import law_text
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
_JUMPS = frozenset(("floor", "ceil"))  # functions whose differences do not show where they change


@dataclass(frozen=True)
class Margin:
    """The difference of two sides, which has the sign 0 where a relation changes.

    `guard` is a condition in C++; where it is false, the relation cannot decide its trigger before
    the next stop. `moves` says whether the difference changes between reactions, and `at_time`
    whether it is the time until a switch that reactions move. `law` is None where no difference
    shows how far a change is.
    """

    law: Law | None
    guard: str
    moves: bool
    at_time: bool = False


class Watched:
    """Finds what triggers, and times of switches, depend on."""

    def __init__(self, network: LoweredNetwork) -> None:
        assert network.dynamics is not None
        self.dynamics = network.dynamics
        self.time = len(network.species)
        self.reacting = {i for reaction in network.reactions for i, _ in reaction.change}
        self.flowing = {number for number, _ in self.dynamics.flows}

    def margins(self) -> Iterator[Margin]:
        """Margins of every relation that may change between stops."""
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

    def _changes_by_jumps_only(self, law: Law) -> bool:
        """Return whether a law changes at stops alone."""
        reads = counts_in(law)
        if reads & (self.reacting | self.flowing):
            return False
        if self.time not in reads:
            return True
        if isinstance(law, Operation) and law.function in (*_LOGIC, "if"):
            return all(self._changes_by_jumps_only(part) for part in law.arguments)
        return self._is_switch(law)

    def _is_switch(self, law: Law) -> bool:
        if not (isinstance(law, Operation) and law.function in _RELATIONS):
            return False
        left, right = law.arguments
        return left == Count(self.time) and right in self.dynamics.switches

    def _possible(self, law: Law) -> tuple[str, str]:
        """Conditions under which a trigger can hold, and can fail, before the next stop."""
        if self._changes_by_jumps_only(law):
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
            if self._changes_by_jumps_only(part):
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

    def is_affine(self, law: Law) -> bool:
        """Return whether what moves by itself enters a law with constant slopes."""
        moving = self.flowing | {self.time}
        affine: dict[int, bool] = {}
        for part in operations_first(law):
            affine[id(part)] = (
                not isinstance(part, Operation)
                or not counts_in(part) & moving
                or self._is_affine_operation(part, affine)
            )
        return affine[id(law)]

    def _is_affine_operation(self, part: Operation, affine: dict[int, bool]) -> bool:
        if part.function not in ("add", "sub", "neg", "mul", "div"):
            return False
        moved = [bool(counts_in(a) & (self.flowing | {self.time})) for a in part.arguments]
        if part.function == "div" and moved[1]:
            return False
        if part.function == "mul" and all(moved):
            return False
        return all(affine[id(argument)] for argument in part.arguments)
