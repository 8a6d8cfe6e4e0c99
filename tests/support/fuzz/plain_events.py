"""The meaning of SBML's events in plain Python, from the specification alone: a witness beside tauslab.

It shares no line with tauslab. The rules are those of SBML Level 3 Version 2 Core, section 4.11, and where
that leaves a choice, of docs/events.md: events without a priority come after those with one, a delay below 0
counts as 0, a trigger such as ``time > 5`` turns true just after 5, a sample at 5 is the state before it.

Formulas are nested tuples: a number, a name, ``"time"``, or a function and its arguments, such as
``("ge", "time", 5)`` and ``("piecewise", value, condition, ..., otherwise)``. Numbers are fractions, and what
moves between events has constant rates, so that times and values have no error. Time is a pair (t, 0) or (t, 1),
the latter just after t; there a relation whose sides are equal is decided by their rates.

`courses` follows every choice among equal priorities and gives each course with its probability. Where two
things come at one time that rounding may part (the value of something that moves decides one of them), or
a number is no double, it raises `AmbiguousError`: nobody can say what a program with rounding has to do.
`one_solution` is a Gillespie loop with the same events: it draws reactions and choices.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Formula = Any  # a number, a name, or a tuple
NEVER = math.inf
MOST_AT_ONE_TIME, MOST_STOPS, MOST_WORLDS = 60, 400, 400
CLOSE = Fraction(1, 10**6)  # times and values that are closer may be parted or joined by rounding
LARGEST_COUNT = 2**31 - 1
_RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")
_LOGIC = ("and", "or", "xor", "not")


class AmbiguousError(Exception):
    """What has to come depends on rounding, or on a choice that this interpreter does not follow."""


@dataclass(frozen=True)
class PlainEvent:
    """An event. `assignments` are pairs of a name and a formula."""

    name: str
    trigger: Formula
    assignments: tuple[tuple[str, Formula], ...]
    delay: Formula = None
    priority: Formula = None
    persistent: bool = True
    initial: bool = True
    early: bool = True


@dataclass(frozen=True)
class PlainReaction:
    """A reaction: the change of counts, and the propensity."""

    name: str
    change: tuple[tuple[str, int], ...]
    law: Formula


@dataclass
class PlainModel:
    """A model.

    `start` holds initial values (of species: amounts) of all that may change; `constants` all that may
    not. `sizes` names the compartment of each species that is a concentration in formulas. `counts` are
    species that hold whole numbers where molecules are counted.
    """

    constants: dict[str, Any]
    start: dict[str, Any]
    events: list[PlainEvent]
    rules: dict[str, Formula] = field(default_factory=dict)
    rates: dict[str, Formula] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    counts: frozenset[str] = frozenset()
    reactions: list[PlainReaction] = field(default_factory=list)


@dataclass(frozen=True)
class Execution:
    """One that waits: its time, its event, values from the time of the trigger, and whether rounding enters."""

    time: tuple[Any, int]
    event: int
    values: tuple[tuple[Any, bool], ...]
    key: tuple[Any, ...]
    soft: bool


@dataclass(frozen=True)
class Stop:
    """A time at which something may happen, whether rounding enters it, and what crosses then."""

    time: Any
    soft: bool
    crossed: frozenset[Any]


@dataclass(frozen=True)
class World:
    """A state at a time. `soft` are names whose values may be rounded otherwise elsewhere."""

    time: tuple[Any, int]
    values: Mapping[str, Any]
    held: tuple[bool, ...]
    waiting: tuple[Execution, ...] = ()
    soft: frozenset[str] = frozenset()
    now_soft: bool = False  # whether rounding enters the time
    crossed: frozenset[Any] = frozenset()  # what crosses at this very time, and rounding enters it

    def key(self) -> tuple[Any, ...]:
        """Worlds with equal keys go on alike."""
        listed = tuple(sorted(self.values.items()))
        waiting = sorted((e.time, e.event, e.values, e.soft) for e in self.waiting)
        return (self.time, listed, self.held, tuple(waiting), self.soft)


class Look:
    """Looks at formulas in a world: values, rates, and when relations may change."""

    def __init__(self, model: PlainModel, world: World, *, strict: bool) -> None:
        self.model, self.world, self.strict = model, world, strict
        self.after = world.time[1] == 1
        self.crossings: dict[Any, tuple[Any, bool]] = {}
        self.slopes: dict[str, Any] = {}
        self.known: dict[str, tuple[Any, Any]] = {}
        for name, tree in model.rates.items():
            rate, bend = self.number(tree)
            if bend:
                raise AmbiguousError("a rate moves")
            self.slopes[name] = rate
        self.known.clear()  # rules may read what has a rate

    def soft(self, tree: Formula) -> bool:
        """Whether rounding enters the value of a formula."""
        if tree == "time":
            return self.world.now_soft or self.after
        if isinstance(tree, str):
            if tree in self.model.rules:
                return self.soft(self.model.rules[tree])
            size = self.model.sizes.get(tree)
            return tree in self.world.soft or (size is not None and size in self.world.soft)
        return isinstance(tree, tuple) and any(self.soft(part) for part in tree[1:])

    def _rounded_relation(self, tree: Formula) -> bool:
        """Whether rounding enters where a relation changes: time itself is exact."""
        if isinstance(tree, str):
            if tree in self.model.rules:
                return self._rounded_relation(self.model.rules[tree])
            return tree != "time" and (bool(self.slopes.get(tree)) or self.soft(tree))
        if isinstance(tree, tuple):
            return any(self._rounded_relation(part) for part in tree[1:])
        return False

    def symbol(self, name: str) -> tuple[Any, Any]:
        """Value and rate of a name."""
        if name == "time":
            return self.world.time[0], 1
        actual = self.known.get(name)
        if actual is None:
            actual = self.known[name] = self._symbol(name)
        return actual

    def _symbol(self, name: str) -> tuple[Any, Any]:
        model = self.model
        if name in model.constants:
            return model.constants[name], 0
        if name in model.rules:
            return self.number(model.rules[name])
        value, slope = self.world.values[name], self.slopes.get(name, 0)
        if name in model.sizes:
            size, bend = self.symbol(model.sizes[name])
            if bend:
                raise AmbiguousError("a compartment moves")
            return value / size, slope / size
        return value, slope

    def number(self, tree: Formula) -> tuple[Any, Any]:
        """Value and rate of a formula."""
        if isinstance(tree, str):
            return self.symbol(tree)
        if not isinstance(tree, tuple):
            return tree, 0
        name = tree[0]
        if name == "piecewise":
            return self._piecewise(tree[1:])
        if name in _RELATIONS or name in _LOGIC:
            return int(self.holds(tree)), 0
        parts = [self.number(part) for part in tree[1:]]
        if name in ("abs", "min", "max"):
            return self._least_or_most(tree, parts)
        return _combined(name, parts[0], parts[-1])

    def _least_or_most(self, tree: Formula, parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        (a, da), (b, db) = parts[0], parts[-1]
        if tree[0] == "abs":
            self._cross(tree, a, da)
            return (-a, -da) if (a, da) < (0, 0) else (a, da)
        self._cross(("sub", *tree[1:]), a - b, da - db)
        return min(parts) if tree[0] == "min" else max(parts)

    def _piecewise(self, parts: Sequence[Formula]) -> tuple[Any, Any]:
        actual = None
        for value, condition in zip(parts[0:-1:2], parts[1::2], strict=True):
            local = self.number(value)
            if self.holds(condition) and actual is None:
                actual = local
        otherwise = self.number(parts[-1])
        return otherwise if actual is None else actual

    def _cross(self, tree: Formula, value: Any, slope: Any) -> None:
        """Note when a difference comes to 0."""
        near = self.strict and -CLOSE < value < CLOSE and tree not in self.world.crossed
        if near and self._rounded_relation(tree):
            raise AmbiguousError("two sides that rounding enters are equal")
        if slope and (value < 0) == (slope > 0) and value:
            at = self.world.time[0] - value / slope
            self.crossings[tree] = (at, self.strict and self._rounded_relation(tree))

    def holds(self, tree: Formula) -> bool:
        """Whether a condition is true."""
        if isinstance(tree, bool):
            return tree
        if not isinstance(tree, tuple):
            return bool(self.number(tree)[0] != 0)
        name = tree[0]
        if name in _LOGIC:
            parts = [self.holds(part) for part in tree[1:]]
            if name == "not":
                return not parts[0]
            if name == "and":
                return all(parts)
            return any(parts) if name == "or" else sum(parts) % 2 == 1
        if name not in _RELATIONS:
            return bool(self.number(tree)[0] != 0)
        (a, da), (b, db) = (self.number(part) for part in tree[1:])
        value, slope = a - b, da - db
        difference = ("sub", tree[1], tree[2])
        if slope and name in ("eq", "ne") and self.strict and self._rounded_relation(difference):
            raise AmbiguousError("equal for an instant that rounding may miss")
        # Rounding may join what changes at a value and what changes just after it.
        self._cross(("after" if name in ("gt", "le") else "at", difference), value, slope)
        sign = value if value or not self.after else slope
        return bool(
            {"lt": sign < 0, "le": sign <= 0, "gt": sign > 0, "ge": sign >= 0,
             "eq": sign == 0, "ne": sign != 0}[name]
        )  # fmt: skip


def _combined(name: str, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """Value and rate of a function of one or two numbers."""
    (a, da), (b, db) = one, other
    if (name == "mul" and da and db) or (name == "div" and db) or (name == "floor" and da):
        raise AmbiguousError(f"{name} is not linear")
    if name == "mul":
        return a * b, a * db + b * da
    if name == "div":
        return a / b, da / b
    sign = {"add": 1, "sub": -1}.get(name)
    if sign is not None:
        return a + sign * b, da + sign * db
    return {"neg": (-a, -da), "floor": (math.floor(a), 0)}[name]


class Interpreter:
    """Follows a model in time.

    Parameters
    ----------
    model
        What is followed.
    counted
        Whether molecules are counted: what events set `counts` to is rounded half to even.
    dice
        Draws choices and reactions; None to follow all choices.
    """

    def __init__(
        self, model: PlainModel, *, counted: bool, dice: random.Random | None = None
    ) -> None:
        self.model, self.counted, self.dice = model, counted, dice
        self.strict = dice is None
        self.executed = 0

    def look(self, world: World) -> Look:
        """What formulas are in a world."""
        return Look(self.model, world, strict=self.strict)

    def begin(self) -> World:
        """The world before anything is looked at."""
        zero = Fraction(0) if self.strict else 0.0
        held = tuple(event.initial for event in self.model.events)
        return World((zero, 0), dict(self.model.start), held)

    # -- events at one time ---------------------------------------------------------------------

    def triggered(self, world: World) -> World:
        """Look at all triggers: executions that are queued, or taken back."""
        look = self.look(world)
        waiting, held = list(world.waiting), []
        for number, event in enumerate(self.model.events):
            holds = look.holds(event.trigger)
            held.append(holds)
            if holds and not world.held[number]:
                waiting.append(self.execution(world, look, number))
            if not holds and world.held[number] and not event.persistent:
                waiting = [one for one in waiting if one.event != number]
        return replace(world, held=tuple(held), waiting=tuple(waiting))

    def execution(self, world: World, look: Look, number: int) -> Execution:
        """What is queued when a trigger turns true."""
        event = self.model.events[number]
        t, after = world.time
        soft, time = world.now_soft, (t, after)
        key: tuple[Any, ...] = time
        if event.delay is not None:
            delay = look.number(event.delay)[0]
            soft = soft or look.soft(event.delay)
            if delay > 0:
                time, key = (t + delay, after), (t, after, delay)
                soft = soft or after == 1
            elif self.strict and soft and delay > -CLOSE:
                raise AmbiguousError("a delay that rounding enters is 0")
        values: tuple[tuple[Any, bool], ...] = ()
        if event.early:
            values = tuple(self.value(look, name, tree) for name, tree in event.assignments)
        return Execution(time, number, values, key, soft)

    def value(self, look: Look, name: str, tree: Formula) -> tuple[Any, bool]:
        """What an assignment sets, as an amount, and whether rounding enters it."""
        value, soft = look.number(tree)[0], look.soft(tree)
        if name in self.model.sizes:
            size = self.model.sizes[name]
            value, soft = value * look.symbol(size)[0], soft or look.soft(size)
        return value, soft

    def choices(self, world: World) -> list[int]:
        """Places of the executions of which one is next; all equally likely."""
        come = [k for k, one in enumerate(world.waiting) if one.time <= world.time]
        if len(come) < 2:
            return come
        look = self.look(world)
        priorities = []
        soft = False
        for k in come:
            tree = self.model.events[world.waiting[k].event].priority
            priorities.append(-NEVER if tree is None else look.number(tree)[0])
            soft = soft or (tree is not None and look.soft(tree))
        highest = max(priorities)
        for one in priorities if soft and self.strict else ():
            if one not in (-NEVER, highest) and abs(one - highest) < CLOSE:
                raise AmbiguousError("priorities that rounding enters are close")
        best = [k for k, one in zip(come, priorities, strict=True) if one == highest]
        if soft and self.strict and len(best) > 1 and highest != -NEVER:
            raise AmbiguousError("priorities that rounding enters are equal")
        return best

    def execute(self, world: World, place: int) -> World:
        """The world after an execution."""
        one = world.waiting[place]
        event = self.model.events[one.event]
        values = one.values
        if not event.early:
            look = self.look(world)
            values = tuple(self.value(look, name, tree) for name, tree in event.assignments)
        state, soft = dict(world.values), set(world.soft)
        for (name, _), (value, rounded) in zip(event.assignments, values, strict=True):
            counts = self.counted and name in self.model.counts
            state[name] = self.rounded(value, soft=rounded) if counts else value
            (soft.add if rounded and not counts else soft.discard)(name)
        left = world.waiting[:place] + world.waiting[place + 1 :]
        self.executed += 1
        return replace(world, values=state, soft=frozenset(soft), waiting=left)

    def rounded(self, value: Any, *, soft: bool) -> Any:
        """A count: the nearest whole number, half to even."""
        whole = round(value)
        if not -0.5 <= value <= LARGEST_COUNT:
            raise AmbiguousError("a count that is none")
        if self.strict and soft and abs(abs(value - math.floor(value)) - Fraction(1, 2)) < CLOSE:
            raise AmbiguousError("rounding decides a count")
        return Fraction(whole) if self.strict else float(whole)

    def settled(self, world: World) -> list[tuple[World, Fraction]]:
        """Worlds in which nothing is left to do at this time, with their probabilities."""
        done: dict[Any, tuple[World, Fraction]] = {}
        layer = {None: (self.triggered(world), Fraction(1))}
        for _ in range(MOST_AT_ONE_TIME):
            after: dict[Any, tuple[World, Fraction]] = {}
            for local, chance in layer.values():
                choices = self.choices(local)
                if self.dice is not None and len(choices) > 1:
                    choices = [self.dice.choice(choices)]
                for place in choices:
                    # What follows an execution is looked at in the state that it leaves.
                    there = self.triggered(self.execute(local, place))
                    _add(after, there, chance / len(choices))
                if not choices:
                    _add(done, local, chance)
            if not after:
                return list(done.values())
            if len(after) > MOST_WORLDS:
                raise AmbiguousError("too many orders")
            layer = after
        raise AmbiguousError("events without end")

    # -- time -----------------------------------------------------------------------------------

    def just_after(self, world: World) -> World:
        """The same world just after its time."""
        return replace(world, time=(world.time[0], 1), crossed=world.crossed)

    def next_stop(self, world: World, look: Look, samples: Sequence[Any]) -> Stop:
        """When something may happen next, or the last sample is taken.

        A time that rounding enters may not be that of a sample.
        """
        for event in self.model.events:
            look.holds(event.trigger)
        for tree in self.model.rates.values():
            look.number(tree)
        for reaction in self.model.reactions:
            look.number(reaction.law)
        t = world.time[0]
        actual: list[tuple[Any, bool, Any, Any]] = [(samples[-1], False, "sample", None)]
        actual += [(at, soft, ("cross", at if not soft else key), key)
                  for key, (at, soft) in look.crossings.items()]  # fmt: skip
        actual += [(e.time[0], e.soft, ("execution", e.key) if e.soft else "execution", None)
                  for e in world.waiting if e.time[0] > t]  # fmt: skip
        first = min(at for at, *_ in actual)
        if not self.strict:
            return Stop(first, soft=False, crossed=frozenset())
        near = [one for one in actual if one[0] - first < CLOSE]
        soft = any(rounded for _, rounded, _, _ in near)
        if soft and (
            len({name for _, _, name, _ in near}) > 1
            or any(abs(one - first) < CLOSE for one in samples)
        ):
            raise AmbiguousError("two things come at a time that rounding enters")
        if soft and first - t < CLOSE:
            raise AmbiguousError("a time that rounding enters is close to the last")
        _check_number(first, soft=soft)
        crossed = frozenset(key for _, rounded, _, key in near if rounded and key is not None)
        return Stop(first, soft, crossed)

    def moved(self, world: World, look: Look, to: Any) -> dict[str, Any]:
        """Values at a later time, if nothing happens before."""
        step = to - world.time[0]
        values = dict(world.values)
        for name, slope in look.slopes.items():
            if slope:
                values[name] = values[name] + slope * step
        return values

    def forward(self, world: World, samples: Sequence[Any]) -> tuple[World, list[World]]:
        """Go on from just after a time to where something may happen; and what samples see before."""
        look = self.look(world)
        stop = self.next_stop(world, look, samples)
        seen = [
            replace(world, time=(t, 0), values=self.moved(world, look, t))
            for t in samples if t < stop.time
        ]  # fmt: skip
        moving = frozenset(look.slopes)  # a rate that jumped a while ago leaves an error too
        ahead = replace(
            world, time=(stop.time, 0), values=self.moved(world, look, stop.time),
            soft=world.soft | moving, now_soft=stop.soft, crossed=stop.crossed,
        )  # fmt: skip
        return ahead, seen

    # -- a loop of reactions --------------------------------------------------------------------

    def hazards(self, look: Look) -> list[tuple[float, float]]:
        """Propensities and their rates."""
        return [look.number(reaction.law) for reaction in self.model.reactions]

    def jumped(self, world: World, until: float) -> World:
        """Go on to a reaction or to where something may happen: thinning by the largest total."""
        assert self.dice is not None
        while True:
            look = self.look(world)
            laws = self.hazards(look)
            to = self.next_stop(world, look, [until]).time
            t = world.time[0]
            ends = [(a, a + s * (to - t)) for a, s in laws]
            if any(min(pair) < 0 for pair in ends):
                raise AmbiguousError("a propensity is below 0")
            bound = sum(max(pair) for pair in ends)
            wait = self.dice.expovariate(bound) if bound > 0 else NEVER
            if t + wait >= to:
                values = self.moved(world, look, to)
                return replace(world, time=(to, 0), values=values)
            values = self.moved(world, look, t + wait)
            world = replace(world, time=(t + wait, 1), values=values)
            left = self.dice.random() * bound
            for reaction, (a, slope) in zip(self.model.reactions, laws, strict=True):
                left -= a + slope * wait
                if left < 0:
                    state = dict(world.values)
                    for name, by in reaction.change:
                        state[name] += by
                    return replace(world, values=state)


def _add(worlds: dict[Any, tuple[World, Fraction]], world: World, chance: Fraction) -> None:
    key = world.key()
    before = worlds.get(key)
    worlds[key] = (world, chance + (before[1] if before else 0))


def _check_number(value: Any, *, soft: bool) -> None:
    if not soft and Fraction(float(value)) != value:
        raise AmbiguousError("a number is no double")


Course = tuple[tuple[Any, ...], ...]


def courses(
    model: PlainModel, times: Sequence[Fraction], names: Sequence[str], *, counted: bool
) -> tuple[dict[Course, Fraction], int]:
    """Values of `names` at `times` (of species: amounts), each course with its probability.

    The second is the number of executions that were looked at.

    Raises
    ------
    AmbiguousError
        If rounding, or a choice that is not followed, decides.
    """
    interpreter = Interpreter(model, counted=counted)
    actual: dict[Course, Fraction] = {}
    open_: list[tuple[World, Fraction, Course, int]] = [(interpreter.begin(), Fraction(1), (), 0)]
    leaves = 0
    while open_:
        world, chance, solution, stops = open_.pop()
        if stops > MOST_STOPS:
            raise AmbiguousError("too many stops")
        for local, likely in interpreter.settled(world):
            rows = solution
            if len(rows) < len(times) and local.time == (times[len(rows)], 0):
                rows = (*rows, _recorded(interpreter, local, names))
            if len(rows) == len(times):
                actual[rows] = actual.get(rows, Fraction(0)) + chance * likely
                leaves += 1
                continue
            for there, unlikely in interpreter.settled(interpreter.just_after(local)):
                ahead, seen = interpreter.forward(there, times[len(rows) :])
                more = (*rows, *(_recorded(interpreter, one, names) for one in seen))
                open_.append((ahead, chance * likely * unlikely, more, stops + 1))
        if len(open_) + leaves > MOST_WORLDS:
            raise AmbiguousError("too many courses")
    return actual, interpreter.executed


def _recorded(interpreter: Interpreter, world: World, names: Sequence[str]) -> tuple[Any, ...]:
    look = Look(interpreter.model, world, strict=False)
    row = []
    for name in names:
        value = world.values[name] if name in world.values else look.symbol(name)[0]
        _check_number(value, soft=bool(world.soft))
        row.append(value)
    return tuple(row)


def one_solution(
    model: PlainModel, times: Sequence[float], names: Sequence[str], dice: random.Random
) -> list[list[float]]:
    """One trajectory of a model with reactions: values of `names` at `times`."""
    interpreter = Interpreter(model, counted=True, dice=dice)
    ((world, _),) = interpreter.settled(interpreter.begin())
    rows: list[list[float]] = []
    for _ in range(1_000_000):
        if world.time == (times[len(rows)], 0):
            look = interpreter.look(world)
            rows.append([float(world.values[n] if n in world.values else look.symbol(n)[0])
                         for n in names])  # fmt: skip
            if len(rows) == len(times):
                return rows
        if world.time[1] == 0:
            ((world, _),) = interpreter.settled(interpreter.just_after(world))
        world = interpreter.jumped(world, times[len(rows)])
        ((world, _),) = interpreter.settled(world)
    raise AmbiguousError("too many reactions")


def names_in(tree: Formula) -> Iterator[str]:
    """Names that a formula reads."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree[1:]:
            yield from names_in(part)
