"""A plain Gillespie loop for SBML in Python, with python-libsbml alone: a witness beside tauslab.

It shares no line with tauslab: it reads the file itself, makes Python of its formulas, looks at all laws
after each reaction, and draws by Python's `random`. It takes species, compartments of constant size,
assignment rules, initial assignments, and events without delays and priorities. Laws that depend on the
time are integrated by the trapezoid rule, in `STEPS` steps of the horizon.

The rules of docs/sbml.md hold: a unit is `factor` counts, rounded half to even at the start and after events;
a law reads counts / factor / size, and its value times `factor` is the propensity; a reversible law is split
at its minus signs; a reaction that lacks molecules does not happen. A law below 0 ends the trajectory.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import libsbml

STEPS = 20_000
Node = Any  # libsbml has no types

_BETWEEN = {
    libsbml.AST_PLUS: "+", libsbml.AST_TIMES: "*", libsbml.AST_DIVIDE: "/",
    libsbml.AST_POWER: "**", libsbml.AST_FUNCTION_POWER: "**",
    libsbml.AST_RELATIONAL_EQ: "==", libsbml.AST_RELATIONAL_NEQ: "!=",
    libsbml.AST_RELATIONAL_LT: "<", libsbml.AST_RELATIONAL_LEQ: "<=",
    libsbml.AST_RELATIONAL_GT: ">", libsbml.AST_RELATIONAL_GEQ: ">=",
    libsbml.AST_LOGICAL_AND: " and ", libsbml.AST_LOGICAL_OR: " or ",
}  # fmt: skip
_CALLED = {
    libsbml.AST_FUNCTION_EXP: "math.exp", libsbml.AST_FUNCTION_LN: "math.log",
    libsbml.AST_FUNCTION_TANH: "math.tanh", libsbml.AST_FUNCTION_FLOOR: "math.floor",
    libsbml.AST_FUNCTION_ABS: "abs", libsbml.AST_LOGICAL_NOT: "not ",
}  # fmt: skip


class NegativeLawError(Exception):
    """The law of a reaction is below 0."""


def children(node: Node) -> list[Node]:
    """What stands below a node."""
    return [node.getChild(k) for k in range(node.getNumChildren())]


class PlainModel:
    """An SBML file as Python functions of a dictionary of values.

    Parameters
    ----------
    path
        The file.
    factor
        Counts to a unit of amount.
    """

    def __init__(self, path: Path, factor: float) -> None:
        self._document = libsbml.readSBMLFromFile(str(path))
        model = self._document.getModel()
        self.factor = factor
        self.round_fixed = False
        self._functions = {f.getId(): f for f in model.getListOfFunctionDefinitions()}
        self.rules = {r.getVariable(): r.getMath() for r in model.getListOfRules()}
        self._sizes = {c.getId() for c in model.getListOfCompartments()}
        self.species = {s.getId(): s for s in model.getListOfSpecies()}
        self._local: dict[str, float] = {}
        self._stops: set[float] = set()
        self.timed = False
        self._values(model)
        self.moved = [
            name for name, s in self.species.items()
            if name not in self.rules and not s.getBoundaryCondition() and not s.getConstant()
        ]  # fmt: skip
        self._reactions(model)
        self._events(model)

    # -- formulas as Python -------------------------------------------------------------------

    def _text(self, node: Node, bound: dict[str, str]) -> str:
        """Python of a formula; `bound` are the arguments of a function definition."""
        kind = node.getType()
        below = [self._text(child, bound) for child in children(node)]
        if node.isNumber():
            return repr(float(node.getValue()))
        if kind == libsbml.AST_NAME_TIME:
            self.timed = True
            return "v['time']"
        if kind == libsbml.AST_FUNCTION:
            return self._called(node, below)
        if node.isName():
            return self._name(node.getName(), bound)
        if kind in _BETWEEN:
            neutral = {libsbml.AST_PLUS: "0.0", libsbml.AST_TIMES: "1.0"}.get(kind, "")
            return "(" + _BETWEEN[kind].join(below or [neutral]) + ")"
        if kind == libsbml.AST_MINUS:
            return f"(-{below[0]})" if len(below) == 1 else f"({below[0]}-{below[1]})"
        if kind in _CALLED:
            return f"({_CALLED[kind]}({below[0]}))"
        if kind == libsbml.AST_FUNCTION_ROOT:
            return f"({below[-1]}**(1/{below[0] if len(below) == 2 else 2.0}))"
        if kind == libsbml.AST_FUNCTION_PIECEWISE:
            return self._piecewise(below)
        raise ValueError(f"no Python for {libsbml.formulaToL3String(node)}")

    def _called(self, node: Node, arguments: list[str]) -> str:
        function = self._functions[node.getName()]
        names = [function.getArgument(k).getName() for k in range(function.getNumArguments())]
        return self._text(function.getBody(), dict(zip(names, arguments, strict=True)))

    def _piecewise(self, below: list[str]) -> str:
        text = below[-1] if len(below) % 2 else "math.nan"
        for value, condition in reversed(list(zip(below[0::2], below[1::2], strict=False))):
            text = f"({value} if {condition} else {text})"
        return text

    def _name(self, name: str, bound: dict[str, str]) -> str:
        if name in bound:
            return bound[name]
        if name in self._local:
            return repr(self._local[name])
        if name in self.rules:
            return self._text(self.rules[name], {})
        if name in self.species:
            return self._concentration(name)
        return f"v[{name!r}]"

    def _concentration(self, name: str) -> str:
        species = self.species[name]
        if species.getHasOnlySubstanceUnits():
            return f"v[{name!r}]"
        return f"(v[{name!r}]/{self._name(species.getCompartment(), {})})"

    def _function(self, text: str) -> Any:
        return eval(f"lambda v: {text}", {"math": math})  # noqa: S307

    def _parts(self, node: Node, bound: dict[str, str]) -> tuple[str, str]:
        """The two parts of a law, before and after its minus signs; ``""`` is none."""
        kind, below = node.getType(), children(node)
        if kind == libsbml.AST_FUNCTION:
            function = self._functions[node.getName()]
            names = [function.getArgument(k).getName() for k in range(function.getNumArguments())]
            arguments = [self._text(child, bound) for child in below]
            return self._parts(function.getBody(), dict(zip(names, arguments, strict=True)))
        if kind == libsbml.AST_MINUS and len(below) == 2:
            (a, b), (c, d) = (self._parts(child, bound) for child in below)
            return "+".join(x for x in (a, d) if x), "+".join(x for x in (b, c) if x)
        if kind == libsbml.AST_PLUS:
            found = [self._parts(child, bound) for child in below]
            return "+".join(x for x, _ in found if x), "+".join(y for _, y in found if y)
        if kind == libsbml.AST_DIVIDE:
            (a, b), divisor = self._parts(below[0], bound), self._text(below[1], bound)
            return (f"({a})/{divisor}" if a else ""), (f"({b})/{divisor}" if b else "")
        if kind == libsbml.AST_TIMES:
            found = [self._parts(child, bound) for child in below]
            split = [k for k, (_, y) in enumerate(found) if y]
            if len(split) == 1:
                others = "*".join(f"({x})" for k, (x, _) in enumerate(found) if k != split[0])
                both = found[split[0]]
                return tuple(f"{others}*({x})" if x else "" for x in both)  # type: ignore[return-value]
        return self._text(node, bound), ""

    # -- the model ----------------------------------------------------------------------------

    def _values(self, model: Node) -> None:
        self.start: dict[str, float] = {"time": 0.0}
        self.start |= {c.getId(): c.getSize() for c in model.getListOfCompartments()}
        self.start |= {p.getId(): p.getValue() for p in model.getListOfParameters()}
        for name, species in self.species.items():
            size = 1.0 if species.isSetInitialAmount() else self.start[species.getCompartment()]
            amount = (
                species.getInitialAmount()
                if size == 1.0 and species.isSetInitialAmount()
                else species.getInitialConcentration() * size
            )
            self.start[name] = 0.0 if math.isnan(amount) else amount
        for assignment in model.getListOfInitialAssignments():
            name = assignment.getSymbol()
            value = self._function(self._text(assignment.getMath(), {}))(self.start)
            species = self.species.get(name)
            if species is not None and not species.getHasOnlySubstanceUnits():
                value *= self.start[species.getCompartment()]
            self.start[name] = value

    def _reactions(self, model: Node) -> None:
        self.channels: list[tuple[str, Any, dict[str, int], dict[str, int]]] = []
        self.timed = False
        for reaction in model.getListOfReactions():
            law = reaction.getKineticLaw()
            self._local = {p.getId(): p.getValue() for p in law.getListOfParameters()}
            sides = []
            for references in (reaction.getListOfReactants(), reaction.getListOfProducts()):
                side: dict[str, int] = {}
                for reference in references:
                    name = reference.getSpecies()
                    side[name] = side.get(name, 0) + int(reference.getStoichiometry())
                sides.append({n: k for n, k in side.items() if n in self.moved})
            one, other = (
                self._parts(law.getMath(), {})
                if reaction.getReversible()
                else (self._text(law.getMath(), {}), "")
            )
            for name, text, (taken, made) in (
                (reaction.getId(), one, sides), (reaction.getId() + " backwards", other, sides[::-1])
            ):  # fmt: skip
                if text:
                    change = {n: made.get(n, 0) - taken.get(n, 0) for n in taken | made}
                    self.channels.append((name, self._function(text), change, taken))
            self._local = {}

    def _events(self, model: Node) -> None:
        laws_timed = self.timed
        self.events = []
        for event in model.getListOfEvents():
            trigger = event.getTrigger()
            self._times_of(trigger.getMath())
            actions = []
            for assignment in event.getListOfEventAssignments():
                name, text = assignment.getVariable(), self._text(assignment.getMath(), {})
                species = self.species.get(name)
                if species is not None and not species.getHasOnlySubstanceUnits():
                    text = f"({text})*v[{species.getCompartment()!r}]"
                actions.append((name, self._function(text)))
            self.events.append(
                (
                    self._function(self._text(trigger.getMath(), {})),
                    trigger.getInitialValue(),
                    actions,
                )
            )
        self.timed = laws_timed
        self.stops = sorted(self._stops)

    def _times_of(self, node: Node) -> None:
        """Numbers that a trigger compares the time with."""
        below = children(node)
        if node.isRelational() and any(c.getType() == libsbml.AST_NAME_TIME for c in below):
            self._stops |= {float(c.getValue()) for c in below if c.isNumber()}
        for child in below:
            self._times_of(child)

    # -- a trajectory -------------------------------------------------------------------------

    def run(self, times: Sequence[float], seed: int, largest: int = 2_000_000) -> list[list[int]]:
        """Counts of `moved` at `times`, which begin with 0.

        Raises
        ------
        NegativeLawError
            If a law is below 0.
        RuntimeError
            After `largest` reactions.
        """
        return Trajectory(self, times, seed).course(largest)


class Trajectory:
    """One trajectory of a model."""

    def __init__(self, model: PlainModel, times: Sequence[float], seed: int) -> None:
        self.model, self.times, self.random = model, list(times), random.Random(seed)  # noqa: S311
        self.values = dict(model.start)
        self.counts: dict[str, int] = {}
        for name in model.species if model.round_fixed else model.moved:
            if name not in model.rules:
                self._set(name, self.values[name])
        self.was = [initial for _, initial, _ in model.events]
        self.hazards = [0.0] * len(model.channels)

    def _set(self, name: str, amount: float) -> None:
        self.counts[name] = round(amount * self.model.factor)
        self.values[name] = self.counts[name] / self.model.factor

    def _total(self) -> float:
        """The sum of all propensities, which are kept."""
        values, counts, total = self.values, self.counts, 0.0
        for k, (name, law, _, needs) in enumerate(self.model.channels):
            enough = all(counts[n] >= c for n, c in needs.items())
            hazard = law(values) * self.model.factor if enough else 0.0
            if not hazard >= 0:
                raise NegativeLawError(f"{name} is {hazard:.3g} at t = {values['time']:.6g}")
            self.hazards[k] = hazard
            total += hazard
        return total

    def _fire(self, total: float) -> None:
        left = self.random.random() * total
        chosen = max(k for k, hazard in enumerate(self.hazards) if hazard > 0)
        for k, hazard in enumerate(self.hazards):
            left -= hazard
            if left < 0:
                chosen = k
                break
        for name, change in self.model.channels[chosen][2].items():
            self.counts[name] += change
            self.values[name] = self.counts[name] / self.model.factor

    def _look(self) -> None:
        """Execute events whose triggers turn true, until none does."""
        while True:
            now = [bool(trigger(self.values)) for trigger, _, _ in self.model.events]
            rising = [k for k, true in enumerate(now) if true and not self.was[k]]
            self.was = now
            if not rising:
                return
            for k in rising:
                found = [(name, value(self.values)) for name, value in self.model.events[k][2]]
                for name, amount in found:
                    if name in self.counts:
                        self._set(name, amount)
                    else:
                        self.values[name] = amount

    def course(self, largest: int) -> list[list[int]]:
        """Counts at all times."""
        rows: list[list[int]] = []
        self._look()
        stops = sorted({*self.times, *(s for s in self.model.stops if s <= self.times[-1])})
        reactions = 0
        for stop in stops:
            while self._next(stop):
                reactions += 1
                if reactions > largest:
                    raise RuntimeError("too many reactions")
                self._look()
            # a trigger such as time > 5 turns true just after its time
            for moment in (stop, math.nextafter(stop, math.inf)):
                self.values["time"] = moment
                self._look()
            if stop in self.times:
                rows.append([self.counts[name] for name in self.model.moved])
        return rows

    def _next(self, stop: float) -> bool:
        """Go to the next reaction, or to the stop: whether a reaction happened."""
        total, left = self._total(), self.random.expovariate(1.0)
        step = stop if not self.model.timed else self.times[-1] / STEPS
        while self.values["time"] < stop:
            before, start = total, self.values["time"]
            end = min(stop, start + step)
            if self.model.timed:
                self.values["time"] = end
                total = self._total()
            area = (before + total) / 2 * (end - start)
            if area > left:
                self.values["time"] = start + (end - start) * left / area
                self._fire(self._total())
                return True
            left -= area
            self.values["time"] = end
        return False
