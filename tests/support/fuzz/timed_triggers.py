"""Events whose triggers are functions of the time that jump, held against a plain interpreter.

A model has some events with a counter each, which do not read each other's, and a quantity that some of them set and
others read. Triggers are made of floor, ceil, the rest of a division, abs, min, max and equalities of the time,
nested in relations, logic and choices. All that they hold is a multiple of 1 / `Drawing.parts`, so that everything
happens at such times: the interpreter looks at each, and at a time between each two, with fractions. It shares
no line with tauslab. Numbers of executions must be the same at every sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.model.expressions.expression import symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.diagnosis.time_breaks import time_breaks
from tauslab.model.network.network import Event

Formula = Any  # a fraction, "time", a name, or a tuple of a function and its arguments
METHODS: tuple[Any, ...] = ("ssa", "tau", ts.ODE(solver="dopri5"), ts.ODE(solver="rosenbrock"))
READERS = 4  # events that read what others set
EXACT = (4, 8)  # units with which all numbers are doubles: samples may lie on changes
_RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_INFIX = {**_RELATIONS, "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&&", "or": "||"}


@dataclass(frozen=True)
class PlainEvent:
    """An event: its counter goes up by one, and `Y` gets `adds` more."""

    trigger: Formula
    adds: int = 0
    delay: Fraction | None = None
    priority: int | None = None
    persistent: bool = True
    initial: bool = True


@dataclass
class Drawing:
    """Draws formulas in which all numbers are multiples of 1 / `unit`."""

    dice: random.Random
    unit: int
    parts: int = field(init=False)

    def __post_init__(self) -> None:
        """Slopes, and differences of two, are 1, 2 and 3."""
        self.parts = self.unit * 6

    def number(self, low: int, high: int) -> Fraction:
        """A multiple of the unit."""
        return Fraction(self.dice.randint(low, high), self.unit)

    def linear(self) -> Formula:
        """The time, with a slope and a phase."""
        kind = self.dice.randrange(4)
        if kind == 0:
            return ("mul", Fraction(self.dice.choice((2, 3))), "time")
        if kind == 1:
            return (self.dice.choice(("add", "sub")), "time", self.number(1, 3 * self.unit))
        return "time"

    def stepping(self) -> Formula:
        """Something that stands still between jumps."""
        period = self.number(self.unit // 2, 2 * self.unit)
        whole = (self.dice.choice(("floor", "ceil")), ("div", self.linear(), period))
        if self.dice.randrange(3) == 0:  # every second or third
            among = Fraction(self.dice.choice((2, 3)))
            return ("sub", whole, ("mul", among, ("floor", ("div", whole, among))))
        return whole

    def sawtooth(self) -> tuple[Formula, Fraction]:
        """The rest of a division of the time, and its period."""
        period = self.number(self.unit // 2, 2 * self.unit)
        line = self.linear()
        return ("sub", line, ("mul", period, ("floor", ("div", line, period)))), period

    def bent(self) -> Formula:
        """Something with bends, and a slope of at most 2 between them."""
        middle = self.number(0, 6 * self.unit)
        if self.dice.randrange(2):
            return ("abs", ("sub", "time", middle))
        line = ("mul", Fraction(2), "time")
        return (self.dice.choice(("min", "max")), line, ("add", "time", middle))

    def relation(self) -> Formula:
        """A relation of the time."""
        kind = self.dice.randrange(8)
        name = self.dice.choice((*_RELATIONS, "eq", "ge"))
        if kind == 0:
            return (name, "time", self.number(0, 6 * self.unit))
        if kind == 1:
            return (name, self.bent(), self.number(0, 3 * self.unit))
        if kind in (2, 3):
            return (name, self.stepping(), Fraction(self.dice.randint(0, 4)))
        if kind == 4:
            line, period = self.linear(), self.number(self.unit // 2, 2 * self.unit)
            return ("eq", ("div", line, period), ("floor", ("div", line, period)))
        tooth, period = self.sawtooth()
        value = Fraction(self.dice.randrange(int(period * self.unit)), self.unit)
        return (name, tooth, value if self.dice.randrange(3) else Fraction(0))

    def trigger(self, depth: int = 2) -> Formula:
        """Relations in logic and choices."""
        if depth == 0 or self.dice.randrange(2):
            return self.relation()
        kind = self.dice.choice(("and", "or", "not", "if", "xor"))
        some = [self.trigger(depth - 1) for _ in range(3)]
        if kind == "not":
            return ("not", some[0])
        return ("if", *some) if kind == "if" else (kind, *some[:2])

    def delay(self) -> Fraction | None:
        """None where samples lie on changes: rounding may add up to one what is just after it."""
        delayed = self.dice.randrange(3) == 0 and self.unit not in EXACT
        return self.number(0, 2 * self.unit) if delayed else None

    def events(self, count: int) -> list[PlainEvent]:
        """Some events; the last read the quantity `Y`, which others set."""
        actual = []
        for number in range(count):
            trigger = self.trigger()
            if number >= count - READERS:
                reads = (self.dice.choice(("lt", "ge")), "Y", Fraction(self.dice.randint(1, 6)))
                trigger = (self.dice.choice(("and", "or")), trigger, reads)
            actual.append(
                PlainEvent(
                    trigger,
                    self.dice.randint(0, 1) if number < count - READERS else 0,
                    self.delay(),
                    self.dice.randint(1, 3) if self.dice.randrange(3) == 0 else None,
                    bool(self.dice.randrange(3)),
                    bool(self.dice.randrange(3)),
                )
            )
        return actual


def infix(tree: Formula) -> str:
    """A formula as tauslab reads it; fractions as short decimals where they are such."""
    if isinstance(tree, Fraction):
        text = repr(float(tree))
        return text if Fraction(text) == tree else f"({tree.numerator} / {tree.denominator})"
    if isinstance(tree, str):
        return tree
    name, *parts = tree
    texts = [infix(part) for part in parts]
    if name in _INFIX:
        return f"({texts[0]} {_INFIX[name]} {texts[1]})"
    return f"{name}({', '.join(texts)})"


def value_of(tree: Formula, values: Mapping[str, Fraction]) -> Fraction:
    """Value of a formula, without rounding."""
    if isinstance(tree, Fraction):
        return tree
    if isinstance(tree, str):
        return values[tree]
    name, *parts = tree
    if name == "if":
        return value_of(parts[1] if value_of(parts[0], values) else parts[2], values)
    return Fraction(_PLAIN[name](*(value_of(part, values) for part in parts)))


_PLAIN: Mapping[str, Any] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y, "floor": lambda x: x.__floor__(), "ceil": lambda x: x.__ceil__(),
    "abs": abs, "min": min, "max": max, "not": lambda x: not x,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "and": lambda x, y: bool(x) and bool(y), "or": lambda x, y: bool(x) or bool(y),
    "xor": lambda x, y: bool(x) != bool(y),
}  # fmt: skip


class Interpreter:
    """Looks at every time at which something can happen, and at one after it."""

    def __init__(self, events: Sequence[PlainEvent], parts: int) -> None:
        self.events, self.parts = events, parts
        self.counts = [0] * len(events)
        self.y = 0
        self.held = [event.initial for event in events]
        self.waiting: list[tuple[tuple[Fraction, int], int, int]] = []
        self._order = count()

    def course(self, end: Fraction) -> Iterator[tuple[Fraction, list[int], list[int]]]:
        """Each time, with counts at it and counts after it."""
        for k in range(int(end * self.parts) + 1):
            t = Fraction(k, self.parts)
            self._settle((t, 0), t)
            at = [*self.counts]
            self._settle((t, 1), t + Fraction(1, 2 * self.parts))
            yield t, at, [*self.counts]

    def _settle(self, now: tuple[Fraction, int], time: Fraction) -> None:
        while True:
            values = {"time": time, "Y": Fraction(self.y)}
            for e, event in enumerate(self.events):
                holds = bool(value_of(event.trigger, values))
                if not holds and self.held[e] and not event.persistent:
                    self.waiting = [one for one in self.waiting if one[1] != e]
                if holds and not self.held[e]:
                    due = (now[0] + (event.delay or 0), now[1])
                    self.waiting.append((due, e, next(self._order)))
                self.held[e] = holds
            ready = [one for one in self.waiting if one[0] <= now]
            if not ready:
                return
            chosen = max(ready, key=lambda one: self.events[one[1]].priority or 0)
            self.waiting.remove(chosen)
            self.counts[chosen[1]] += 1
            self.y += self.events[chosen[1]].adds


@dataclass(frozen=True)
class Case:
    """A drawn model: events, the time at which it ends, its samples and what they have to be."""

    events: list[PlainEvent]
    times: list[float]
    expected: list[list[int]]
    parts: int


def drawn(dice: random.Random, number: int) -> Case:
    """A model with `number` events."""
    unit = dice.choice((8, 4, 10, 3, 24))
    drawing = Drawing(dice, unit)
    events = drawing.events(number)
    end = Fraction(dice.randint(3, 5))
    solution = list(Interpreter(events, drawing.parts).course(end))
    exact = unit in EXACT
    chosen: dict[float, list[int]] = {}
    for t, at, after in dice.sample(solution[:-1], 6):
        if exact and t.denominator <= unit:
            chosen[float(t)] = at
        chosen[float(t + Fraction(1, 2 * drawing.parts))] = after
    times = sorted(chosen)
    return Case(events, times, [chosen[t] for t in times], drawing.parts)


def network_of(case: Case) -> ts.Network:
    """The case as a model."""
    net = ts.Network("timed")
    net.add_species("X", 5)
    net.add_reaction("X ->", rate=0.5)
    net.add_species("Y", 0)
    for e, event in enumerate(case.events):
        net.add_species(f"d{e}", 0)
        net.add_event(
            f"e{e}",
            trigger=infix(event.trigger),
            assignments={
                f"d{e}": f"d{e} + 1",
                **({"Y": f"Y + {event.adds}"} if event.adds else {}),
            },
            delay=None if event.delay is None else infix(event.delay),
            priority=event.priority if event.priority is None else float(event.priority),
            persistent=event.persistent,
            initial=event.initial,
            early=False,
        )
    return net


def differences(case: Case, methods: Sequence[Any] = METHODS) -> list[str]:
    """Where a method counts otherwise than the interpreter."""
    net = network_of(case)
    actual = []
    for method in methods:
        result = ts.run(net, n=1, times=case.times, method=method, seed=1, device="cpu")
        for e, event in enumerate(case.events):
            got = result.mean(f"d{e}")
            want = [row[e] for row in case.expected]
            if not np.array_equal(got, want):
                actual.append(f"{method} {infix(event.trigger)} {event}: {got} for {want}")
    return actual


def table_differences(case: Case) -> list[str]:
    """Where what is found of a trigger differs from its value, without a kernel."""
    net = network_of(case)
    end = case.times[-1]
    breaks = time_breaks(net, net.parameter_values(), end)
    applied = breaks.applied(net, all_tables=True)
    actual = []
    for event, plain in zip(applied.events, case.events, strict=True):
        if not isinstance(event, Event) or "Y" in symbols(event.trigger):
            continue
        for k in range(int(end * case.parts)):
            t = Fraction(2 * k + 1, 2 * case.parts)
            got = bool(evaluate(event.trigger, {"time": float(t)}))
            if got != bool(value_of(plain.trigger, {"time": t})):
                actual.append(f"{infix(plain.trigger)} at {float(t)}: {got}")
                break
    return actual
