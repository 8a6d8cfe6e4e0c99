"""Small models with events, drawn from a seed, as SBML and as `plain_events` has them.

A `Part` is a model of a few variables and events that nothing else touches; its constants have names, so
that a kernel that is compiled once takes many values of them. `document` puts many parts into one file: a
choice among equal priorities is equally likely within a part, whatever the other parts do.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from plain_events import Formula, PlainEvent, PlainModel, PlainReaction, names_in

libsbml = importlib.import_module("libsbml")

END = Fraction(6)
TIMES = tuple(Fraction(k, 4) for k in range(int(4 * END) + 1))
# What a constant may be, by what it is used for. Sample times, 0 and the end are among the times.
VALUES: Mapping[str, Callable[[random.Random], Fraction]] = {
    "time": lambda dice: dice.choice((*TIMES, Fraction(0), END, Fraction(-1), Fraction(13, 8))),
    "small": lambda dice: Fraction(dice.randint(0, 4)),
    "half": lambda dice: Fraction(dice.randint(0, 8), 2),
    "delay": lambda dice: Fraction(dice.choice((0, 0, 1, 2, 3, 4, 6, 8, 9, -2)), 4),
    "priority": lambda dice: Fraction(dice.randint(-1, 2)),
    "slope": lambda dice: Fraction(dice.choice((-16, -8, -4, 0, 3, 4, 5, 8, 16)), 8),
    "period": lambda dice: Fraction(dice.choice((2, 3, 4, 6, 8, 10)), 4),
    "rate": lambda dice: Fraction(dice.choice((1, 2, 3, 4, 6)), 4),
    "many": lambda dice: Fraction(dice.randint(2, 14)),
}
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&&", "or": "||", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


def infix(tree: Formula) -> str:
    """A formula as libsbml reads it."""
    if isinstance(tree, bool):
        return str(tree).lower()
    if isinstance(tree, str):
        return tree
    if not isinstance(tree, tuple):
        return repr(float(tree)) if tree >= 0 else f"({float(tree)!r})"
    parts = [infix(part) for part in tree[1:]]
    if tree[0] in _INFIX:
        return f"({_INFIX[tree[0]].join(f' {part} ' for part in parts)})"
    if tree[0] in ("not", "neg"):
        return f"({'!' if tree[0] == 'not' else '-'}{parts[0]})"
    return f"{tree[0]}({', '.join(parts)})"


@dataclass
class SpeciesFacts:
    """How a species stands in the file."""

    compartment: str
    amounts: bool
    boundary: bool


@dataclass
class Part:
    """A drawn model. `roles` tells what each constant is used for; `start` holds numbers or names of constants."""

    roles: dict[str, str] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)
    species: dict[str, SpeciesFacts] = field(default_factory=dict)
    compartments: dict[str, Fraction] = field(default_factory=dict)
    moved_compartments: set[str] = field(default_factory=set)
    rules: dict[str, Formula] = field(default_factory=dict)
    rates: dict[str, Formula] = field(default_factory=dict)
    events: list[PlainEvent] = field(default_factory=list)
    reactions: list[PlainReaction] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """All that is compared: what something changes, and what follows from it."""
        moved = {name for event in self.events for name, _ in event.assignments}
        moved |= self.rates.keys() | {n for one in self.reactions for n, _ in one.change}
        follow = [n for n, tree in self.rules.items() if {*names_in(tree)} & {*moved, "time"}]
        return [n for n in (*self.start, *self.compartments) if n in moved] + follow

    def values(self, dice: random.Random) -> dict[str, Fraction]:
        """Values of its constants."""
        return {name: VALUES[role](dice) for name, role in self.roles.items()}

    def plain(self, values: Mapping[str, Fraction], number: Callable[[Any], Any]) -> PlainModel:
        """The model with these values; `number` makes the numbers that are computed with."""

        def made(tree: Formula) -> Formula:
            if isinstance(tree, str | bool):
                return tree
            if isinstance(tree, tuple):
                return (tree[0], *(made(part) for part in tree[1:]))
            return number(tree)

        constants = {name: number(value) for name, value in values.items()}
        start = {}
        for name, given in self.start.items():
            start[name] = constants[given] if isinstance(given, str) else number(given)
            if name in self.species and not self.species[name].amounts:
                start[name] *= number(self.compartments[self.species[name].compartment])
        for name, size in self.compartments.items():
            (start if name in self.moved_compartments else constants)[name] = number(size)
        events = [
            PlainEvent(
                e.name, made(e.trigger), tuple((n, made(tree)) for n, tree in e.assignments),
                None if e.delay is None else made(e.delay),
                None if e.priority is None else made(e.priority),
                e.persistent, e.initial, e.early,
            )
            for e in self.events
        ]  # fmt: skip
        return PlainModel(
            constants, start, events,
            {name: made(tree) for name, tree in self.rules.items()},
            {name: made(tree) for name, tree in self.rates.items()},
            {n: s.compartment for n, s in self.species.items() if not s.amounts},
            frozenset(self.species) - self.rates.keys(),
            [PlainReaction(r.name, r.change, made(r.law)) for r in self.reactions],
        )  # fmt: skip


class Drawing:
    """Draws a part.

    Parameters
    ----------
    kind
        ``"state"``; ``"flow"``, with what moves between events; ``"ties"``, where equal priorities
        are usual; ``"timed"``, where triggers read the time and constants alone; ``"reactions"``.
    """

    def __init__(self, dice: random.Random, prefix: str, kind: str) -> None:
        self.dice, self.prefix, self.kind = dice, prefix, kind
        self.part = Part()

    def chance(self, probability: float) -> bool:
        """Whether something with this probability happens."""
        return self.dice.random() < probability

    def name(self, letter: str) -> str:
        """A new name."""
        used = (*self.part.roles, *self.part.start, *self.part.compartments, *self.part.rules)
        return f"{self.prefix}{letter}{sum(n.startswith(self.prefix + letter) for n in used)}"

    def constant(self, role: str) -> Formula:
        """A constant: a number, one with a name, or one that is used already."""
        known = [name for name, its in self.part.roles.items() if its == role]
        again = 0.85 if self.kind == "ties" and role == "time" else 0.3
        if known and self.chance(again):
            return self.dice.choice(known)
        if self.chance(0.25):
            return VALUES[role](self.dice)
        name = self.name("k")
        self.part.roles[name] = role
        return name

    # -- variables --------------------------------------------------------------------------

    def draw(self) -> Part:
        """Draw all."""
        dice, part, kind = self.dice, self.part, self.kind
        for _ in range(dice.randint(1, 2)):
            part.start[self.name("v")] = self.constant("half")
        self.reals = list(part.start)
        for _ in range(dice.randint(1 if kind == "reactions" else 0, 2)):
            self.add_species()
        self.counted = list(part.species)
        self.flows: list[str] = []
        if kind == "flow":
            for _ in range(dice.randint(1, 2)):
                self.add_flow()
        self.switch = self.last = ""
        if kind != "timed" and self.chance(0.3):
            self.last = self.name("v")
            part.start[self.last] = Fraction(0)
        if self.chance(0.3):
            sides = [dice.choice(self.variables()), self.constant("half")]
            if kind != "timed" and self.chance(0.3):
                sides[1] = "time"
            part.rules[self.name("a")] = (dice.choice(("add", "sub", "min", "max")), *sides)
        if kind == "reactions":
            self.add_reactions()
        for _ in range(dice.randint(2, 5)):
            part.events.append(self.event())
        return part

    def add_species(self) -> None:
        """A species, and perhaps a compartment for it."""
        part, dice = self.part, self.dice
        if not part.compartments or self.chance(0.3):
            name = self.name("c")
            part.compartments[name] = Fraction(dice.choice((4, 4, 8, 2)), 4)
            if self.kind in ("state", "ties") and self.chance(0.25):
                part.moved_compartments.add(name)
        compartment = dice.choice(list(part.compartments))
        name = self.name("s")
        amounts = self.chance(0.5)
        role = "many" if self.kind == "reactions" else "small"
        if not amounts and part.compartments[compartment] < 1:
            amounts = True
        part.start[name] = self.constant(role)
        reacts = self.kind == "reactions"
        part.species[name] = SpeciesFacts(compartment, amounts, not reacts and self.chance(0.4))

    def add_flow(self) -> None:
        """A quantity that moves at a rate that is constant between events."""
        part, dice = self.part, self.dice
        name = self.name("r")
        slope = self.constant("slope")
        pick = dice.random()
        if pick < 0.4:
            driver = self.name("v")
            part.start[driver] = slope
            self.reals.append(driver)
            slope = driver
        elif pick < 0.6:
            slope = ("piecewise", slope, self.time_relation(), self.constant("slope"))
        part.start[name] = self.constant("half")
        part.rates[name] = slope
        self.flows.append(name)

    def add_reactions(self) -> None:
        """Births, deaths and conversions, at rates that events and the time change."""
        dice, part = self.dice, self.part
        for name in self.counted:
            pick = dice.random()
            birth: Formula = self.constant("many")
            if pick < 0.3:
                birth = ("mul", self.constant("rate"), ("abs", dice.choice(self.reals)))
            elif pick < 0.5:
                birth = ("piecewise", birth, self.time_relation(), self.constant("many"))
            elif pick < 0.65:
                birth = ("mul", self.constant("rate"), "time")
            death: Formula = ("mul", self.constant("rate"), name)
            if self.chance(0.25):
                death = ("mul", ("piecewise", self.constant("rate"), self.time_relation(), 0), name)
            part.reactions += [
                PlainReaction(self.reaction(), ((name, 1),), birth),
                PlainReaction(f"{self.reaction()}d", ((name, -1),), death),
            ]
        if len(self.counted) > 1:
            one, other = self.counted[:2]
            law = ("mul", self.constant("rate"), one)
            part.reactions.append(PlainReaction(self.reaction(), ((one, -1), (other, 1)), law))

    def reaction(self) -> str:
        """The name of the next reaction."""
        return f"{self.prefix}j{len(self.part.reactions)}"

    def variables(self) -> list[str]:
        """All that events may set."""
        return [*self.reals, *self.counted, *self.flows]

    # -- formulas ---------------------------------------------------------------------------

    def time_relation(self) -> Formula:
        """A relation of the time and a constant."""
        op = self.dice.choice(("ge", "ge", "ge", "gt", "lt", "le"))
        if self.kind == "ties":
            op = self.dice.choice(("ge", "ge", "ge", "ge", "gt", "lt"))
        sides = ["time", self.constant("time")]
        if self.chance(0.15):
            sides.reverse()
            op = {"ge": "le", "gt": "lt", "lt": "gt", "le": "ge"}[op]
        if self.chance(0.06) and self.kind != "reactions":
            op = self.dice.choice(("eq", "ne"))
        return (op, *sides)

    def state_relation(self) -> Formula:
        """A relation that reads what changes."""
        dice = self.dice
        known = [*self.variables(), *self.part.rules]
        name = dice.choice(known)
        other: Formula = self.constant("half")
        if self.last and self.chance(0.35):
            return (dice.choice(("ge", "gt")), ("sub", "time", self.last), self.constant("period"))
        if self.chance(0.2):
            other = dice.choice(known)
        if self.chance(0.15):
            other = ("add", other, dice.choice(known))
        if self.chance(0.1):
            other = ("sub", "time", other)
        op = dice.choice(("ge", "gt", "lt", "le", "ge", "gt", "eq", "ne"))
        return (op, name, other)

    def condition(self, depth: int = 0) -> Formula:
        """A trigger, or a part of one."""
        dice = self.dice
        pick = dice.random()
        if self.kind == "ties":
            pick = 0.5 + pick / 4  # one time for many events
        if depth < 2 and pick < 0.3:
            word = dice.choice(("and", "and", "or", "xor", "not"))
            parts = [self.condition(depth + 1) for _ in range(1 if word == "not" else 2)]
            return (word, *parts)
        if depth < 2 and pick < 0.36 and self.kind != "timed":
            first, second = (self.condition(depth + 1) for _ in range(2))
            return ("piecewise", dice.choice((True, False, second)), first,
                    dice.choice((True, False, self.condition(depth + 1))))  # fmt: skip
        if self.kind == "timed" or pick < 0.68:
            return self.time_relation()
        return self.state_relation()

    def value(self, target: str) -> Formula:
        """What is assigned; counts stay small and are not negative."""
        dice, variables = self.dice, self.variables()
        other = dice.choice(variables)
        pick = dice.randrange(10)
        tree: Formula = self.constant("half")
        if pick in (1, 2):
            tree = ("piecewise", ("add", target, 1), ("lt", target, 6), 0)
        elif pick == 3:
            tree = ("min", ("add", target, other), 9)
        elif pick == 4:
            tree = ("sub", 1, target)
        elif pick == 5:
            tree = other
        elif pick == 6:
            tree = ("div", ("add", ("mul", 3, other), 1), 2)
            tree = ("min", tree, 8)
        elif pick == 7:
            tree = ("piecewise", self.constant("half"), self.condition(1), other)
        elif pick == 8:
            tree = ("sub", dice.choice(variables), other)
        elif pick == 9 and self.kind != "reactions":
            tree = ("abs", ("sub", "time", self.constant("half")))
        if target in self.counted or self.chance(0.5):
            tree = ("max", ("min", tree, 12 if target in self.counted else 7), 0)
        return tree

    def event(self) -> PlainEvent:
        """An event."""
        dice, part = self.dice, self.part
        targets = [*self.reals, *self.counted, *self.flows]
        chosen = dice.sample(targets, min(len(targets), dice.choice((1, 1, 1, 2, 2, 3))))
        assignments = [(name, self.value(name)) for name in chosen]
        if self.last and self.chance(0.5):
            assignments.append((self.last, "time"))
        moved = sorted(part.moved_compartments)
        if moved and self.chance(0.3):
            assignments.append((dice.choice(moved), Fraction(dice.choice((2, 4, 8)), 2)))
        delay = priority = None
        pick = dice.random()
        if pick < 0.25 or (self.kind == "ties" and pick < 0.1):
            delay = self.constant("delay")
        elif pick < 0.4 and self.kind != "timed":
            name = dice.choice([*self.reals, *self.counted])
            delay = dice.choice((
                ("div", ("abs", name), 4), ("min", name, 2), ("piecewise", 0, self.condition(1), 1),
                ("mul", self.constant("delay"), name),
            ))  # fmt: skip
            delay = ("min", delay, 3)
        pick = dice.random()
        if pick < 0.4 or (self.kind == "ties" and pick < 0.6):
            priority = 1 if self.kind == "ties" else self.constant("priority")
        elif pick < 0.6:
            priority = dice.choice(
                (("sub", 0, dice.choice(self.reals)), dice.choice(self.variables()))
            )
            if self.chance(0.3):
                priority = ("piecewise", 1, self.condition(1), self.constant("priority"))
        concentrations = {n for n, s in part.species.items() if not s.amounts}
        early = self.chance(0.5) and not (self.kind == "timed" and delay is not None)
        if moved and concentrations & {name for name, _ in assignments}:
            early = False  # tauslab refuses by name to keep a concentration where a size moves
        return PlainEvent(
            f"{self.prefix}e{len(part.events)}", self.condition(), tuple(assignments), delay,
            priority, self.chance(0.9 if self.kind == "timed" else 0.6), self.chance(0.6), early,
        )  # fmt: skip


def document(
    parts: Sequence[Part], values: Sequence[Mapping[str, Fraction]], dice: random.Random,
    background: float | None,
) -> str:  # fmt: skip
    """One file of all parts.

    Parameters
    ----------
    values
        Of the constants of each part.
    background
        The rate at which molecules that nothing reads are made and lost; None: no reaction at all.
    """
    root = libsbml.SBMLDocument(3, 2)
    model = root.createModel()
    model.setId("drawn")
    for what in ("Substance", "Extent"):
        getattr(model, f"set{what}Units")("item")
    model.setTimeUnits("second")
    for part, given in zip(parts, values, strict=True):
        _add_values(model, part, given)
    events = [(part, event) for part in parts for event in part.events]
    dice.shuffle(events)
    for _, event in events:
        _add_event(model, event)
    for part in parts:
        for reaction in part.reactions:
            _add_reaction(model, reaction)
    if background is not None:
        _add_compartment(model, "around", Fraction(1), constant=True)
        _add_species(model, "B", SpeciesFacts("around", True, False), Fraction(10))
        _add_reaction(model, PlainReaction("made", (("B", 1),), Fraction(background)))
        _add_reaction(model, PlainReaction("lost", (("B", -1),), ("div", "B", 2)))
    return str(libsbml.writeSBMLToString(root))


def _math(tree: Formula) -> Any:
    actual = libsbml.parseL3Formula(infix(tree))
    assert actual is not None, libsbml.getLastParseL3Error()
    return actual


def _add_compartment(model: Any, name: str, size: Fraction, *, constant: bool) -> None:
    compartment = model.createCompartment()
    compartment.setId(name)
    compartment.setSize(float(size))
    compartment.setSpatialDimensions(3)
    compartment.setConstant(constant)


def _add_species(model: Any, name: str, facts: SpeciesFacts, start: Any) -> None:
    species = model.createSpecies()
    species.setId(name)
    species.setCompartment(facts.compartment)
    species.setHasOnlySubstanceUnits(facts.amounts)
    species.setBoundaryCondition(facts.boundary)
    species.setConstant(False)
    if isinstance(start, str):
        _start_with(model, name, start)
    elif facts.amounts:
        species.setInitialAmount(float(start))
    else:
        species.setInitialConcentration(float(start))


def _start_with(model: Any, name: str, tree: Formula) -> None:
    assignment = model.createInitialAssignment()
    assignment.setSymbol(name)
    assignment.setMath(_math(tree))


def _add_values(model: Any, part: Part, given: Mapping[str, Fraction]) -> None:
    for name, size in part.compartments.items():
        _add_compartment(model, name, size, constant=name not in part.moved_compartments)
    for name, value in given.items():
        parameter = model.createParameter()
        parameter.setId(name)
        parameter.setValue(float(value))
        parameter.setConstant(True)
    for name, start in part.start.items():
        if name in part.species:
            _add_species(model, name, part.species[name], start)
            continue
        parameter = model.createParameter()
        parameter.setId(name)
        parameter.setConstant(False)
        if isinstance(start, str):
            _start_with(model, name, start)
        else:
            parameter.setValue(float(start))
    for name, tree in part.rules.items():
        parameter = model.createParameter()
        parameter.setId(name)
        parameter.setConstant(False)
        rule = model.createAssignmentRule()
        rule.setVariable(name)
        rule.setMath(_math(tree))
    for name, tree in part.rates.items():
        rule = model.createRateRule()
        rule.setVariable(name)
        rule.setMath(_math(tree))


def _add_event(model: Any, event: PlainEvent) -> None:
    made = model.createEvent()
    made.setId(event.name)
    made.setUseValuesFromTriggerTime(event.early)
    trigger = made.createTrigger()
    trigger.setMath(_math(event.trigger))
    trigger.setPersistent(event.persistent)
    trigger.setInitialValue(event.initial)
    if event.delay is not None:
        made.createDelay().setMath(_math(event.delay))
    if event.priority is not None:
        made.createPriority().setMath(_math(event.priority))
    for name, tree in event.assignments:
        assignment = made.createEventAssignment()
        assignment.setVariable(name)
        assignment.setMath(_math(tree))


def _add_reaction(model: Any, reaction: PlainReaction) -> None:
    made = model.createReaction()
    made.setId(reaction.name)
    made.setReversible(False)
    for name, by in reaction.change:
        reference = made.createReactant() if by < 0 else made.createProduct()
        reference.setSpecies(name)
        reference.setStoichiometry(abs(by))
        reference.setConstant(True)
    made.createKineticLaw().setMath(_math(reaction.law))
