"""Valid SBML documents that mix what the language offers, drawn from a seed.

`document(seed)` is one file's text: Level 2 or 3, one to three compartments (constant, or moved by
rules), species in amounts and concentrations, initial assignments, function definitions, local
parameters that hide global ones, assignment and rate rules, stoichiometries that are not whole or
are computed, conversion factors, events at given times, the time in laws, piecewise laws.
`document(seed, exact=True)` has only what an exact stochastic simulation can honour.
"""

from __future__ import annotations

import importlib
import random
from typing import Any

libsbml = importlib.import_module("libsbml")

_VERSIONS = ((2, 1), (2, 3), (2, 4), (2, 5), (3, 1), (3, 2))
_TRIES = 50


def document(seed: int, *, exact: bool = False) -> str:
    """Text of a valid document; the same for the same seed."""
    for attempt in range(_TRIES):
        text: str = _Document(seed * _TRIES + attempt, exact=exact).text()
        read = libsbml.readSBMLFromString(text)
        read.setConsistencyChecks(libsbml.LIBSBML_CAT_UNITS_CONSISTENCY, False)
        read.checkConsistency()
        if not read.getNumErrors(libsbml.LIBSBML_SEV_ERROR):
            return text
    raise RuntimeError(f"seed {seed}: no valid document in {_TRIES} tries")


class _Document:
    """Builds one document, part by part; each part knows the names that stand before it."""

    def __init__(self, seed: int, *, exact: bool) -> None:
        self.draw = draw = random.Random(seed)
        self.exact = exact
        self.level, self.version = draw.choice(_VERSIONS)
        self.root = libsbml.SBMLDocument(self.level, self.version)
        self.model = self.root.createModel()
        self.model.setId("m")
        self.compartments: list[str] = []
        self.constants: list[str] = []  # parameters that do not move
        self.moving: list[str] = []  # parameters that a rule moves
        self.species: list[str] = []
        self.free: list[str] = []  # species that reactions may move
        self.resettable: list[str] = []  # values that events alone may change
        self.functions: list[tuple[str, int]] = []

    def text(self) -> str:
        if self.level == 3:
            self.model.setSubstanceUnits("item")
            self.model.setExtentUnits("item")
            self.model.setTimeUnits("second")
        self.add_functions()
        self.add_parameters()
        self.add_compartments()
        self.add_species()
        if not self.exact:
            self.move_parameters()
            self.add_conversion_factors()
        for number in range(self.draw.randint(2, 6)):
            self.add_reaction(number)
        if not self.exact:
            self.rule_species()
            self.add_events()
        if self.draw.random() < 0.5:
            self.assign_initially()
        return str(libsbml.writeSBMLToString(self.root))

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def number(self, low: float = 0.2, high: float = 2.0) -> float:
        return round(self.draw.uniform(low, high), 3)

    def math(self, formula: str) -> Any:
        tree = libsbml.parseL3Formula(formula)
        assert tree is not None, libsbml.getLastParseL3Error()
        return tree

    # ---------------------------------------------------------------- values

    def add_functions(self) -> None:
        bodies = [
            ("f_mm", "lambda(v, s, k, v * s / (k + s))", 3),
            ("f_hill", "lambda(s, k, 1 / (1 + pow(s / k, 2)))", 2),
            ("f_nest", "lambda(a, b, f_hill(a + b, 1.5) + f_mm(a, b, 2))", 2),
            ("f_const", "lambda(0.75)", 0),
        ]
        for name, body, count in bodies[: self.draw.randint(0, len(bodies))]:
            function = self.model.createFunctionDefinition()
            function.setId(name)
            function.setMath(self.math(body))
            self.functions.append((name, count))

    def add_parameters(self) -> None:
        for number in range(self.draw.randint(2, 4)):
            self.parameter(f"k{number}", self.number())
            self.constants.append(f"k{number}")

    def parameter(self, name: str, value: float | None, *, constant: bool = True) -> Any:
        parameter = self.model.createParameter()
        parameter.setId(name)
        if value is not None:
            parameter.setValue(value)
        parameter.setConstant(constant)
        return parameter

    def add_compartments(self) -> None:
        for number in range(self.draw.randint(1, 3)):
            compartment = self.model.createCompartment()
            name = f"c{number}"
            compartment.setId(name)
            dimensions = self.draw.choice((3, 3, 3, 2, 1))
            compartment.setSpatialDimensions(dimensions)
            compartment.setSize(self.number(0.3, 3.0))
            compartment.setConstant(True)
            self.compartments.append(name)
            if not self.exact and self.chance(0.2):
                compartment.setConstant(False)
                self.rule("rate", name, f"0.1 * {self.number()}")
            elif not self.exact and self.chance(0.1):
                compartment.setConstant(False)
                self.rule("assignment", name, f"{self.draw.choice(self.constants)} + 1")
            elif not self.exact and self.chance(0.1):
                compartment.setConstant(False)
                self.resettable.append(name)

    def add_species(self) -> None:
        for number in range(self.draw.randint(2, 6)):
            species = self.model.createSpecies()
            name = f"S{number}"
            species.setId(name)
            species.setCompartment(self.draw.choice(self.compartments))
            species.setHasOnlySubstanceUnits(self.chance(0.5))
            species.setBoundaryCondition(self.chance(0.15))
            species.setConstant(species.getBoundaryCondition() and self.chance(0.5))
            amount = self.draw.randint(5, 60) if self.exact else self.number(1.0, 10.0)
            if self.exact or self.chance(0.5):
                species.setInitialAmount(amount)
            else:
                species.setInitialConcentration(amount)
            self.species.append(name)
            if not species.getConstant():
                self.free.append(name)

    # ---------------------------------------------------------------- formulas

    def term(self) -> str:
        """Something that is never negative and grows no faster than a species."""
        name = self.draw.choice(self.species)
        k = self.draw.choice(self.constants + self.moving)
        forms = [
            f"{k} * {name}",
            f"{self.number()} * {name} / ({self.number()} + {name})",
            f"{k}",
            f"{k} * exp(-{name} / 10)",
            f"pow({name}, 2) / (4 + {name}^2)",
            f"{name} * {self.draw.choice(self.species)} / 20",
            f"max({k}, {name}) / 2",
            f"piecewise({k}, {name} > 3, {self.number()})",
            f"{k} * abs(sin({name}))",
            f"root(3, {name}) * {k}",
            f"{k} * ln(1 + {name})",
        ]
        if self.level == 2 or self.version == 1:  # there max came with Version 2
            forms = [form for form in forms if not form.startswith("max")]
        forms += [self.call(k, name)] * 3
        if not self.exact:
            forms += [f"{k} * (1 + sin(time))", f"piecewise(0, time < 1.3, {k})"]
        return self.draw.choice(forms)

    def call(self, k: str, name: str) -> str:
        calls = {
            "f_mm": f"f_mm({k}, {name}, {self.number()})",
            "f_hill": f"f_hill({name}, {self.number()})",
            "f_nest": f"f_nest({name}, {k})",
            "f_const": f"f_const() * {k}",
        }
        if not self.functions:
            return f"{k} * {name}"
        return calls[self.draw.choice(self.functions)[0]]

    def rule(self, kind: str, name: str, formula: str) -> None:
        make = self.model.createRateRule if kind == "rate" else self.model.createAssignmentRule
        rule = make()
        rule.setVariable(name)
        rule.setMath(self.math(formula))

    def move_parameters(self) -> None:
        for number in range(self.draw.randint(0, 3)):
            name = f"p{number}"
            kind = self.draw.choice(("rate", "assignment"))
            self.parameter(name, self.number() if kind == "rate" else None, constant=False)
            formula = self.term()
            self.rule(kind, name, f"0.3 * ({formula})" if kind == "rate" else formula)
            self.moving.append(name)
        if self.chance(0.3):
            self.parameter("q", self.number(), constant=False)
            self.moving.append("q")
            self.resettable.append("q")

    def add_conversion_factors(self) -> None:
        if self.level == 2 or not self.chance(0.3):
            return
        if self.chance(0.5):
            self.model.setConversionFactor(self.draw.choice(self.constants))
        else:
            species = self.model.getSpecies(self.draw.choice(self.species))
            species.setConversionFactor(self.draw.choice(self.constants))

    # ---------------------------------------------------------------- reactions

    def add_reaction(self, number: int) -> None:
        name = f"R{number}"
        reaction = self.model.createReaction()
        reaction.setId(name)
        reaction.setFast(False)
        reversible = self.chance(0.2) and not self.exact
        reaction.setReversible(reversible)
        left = self.draw.sample(self.free, min(self.draw.randint(0, 2), len(self.free)))
        right = self.draw.sample(self.free, min(self.draw.randint(0, 2), len(self.free)))
        if not left and not right:
            right = self.free[:1]
        for side, species in (("left", left), ("right", right)):
            for one in species:
                # Of one on both sides with a computed stoichiometry, peers lose a part.
                self.add_reference(
                    reaction, name, side, one, alone=not (one in left and one in right)
                )
        law = reaction.createKineticLaw()
        formula = self.flux(left)
        if reversible:
            formula = f"{formula} - {self.flux(right)}"
        for used in self.species:
            if used in formula and used not in left + right:
                reaction.createModifier().setSpecies(used)
        if self.chance(0.3):  # a local parameter, which hides a global one of that name
            hidden = self.draw.choice(self.constants)
            local = law.createLocalParameter() if self.level == 3 else law.createParameter()
            local.setId(hidden)
            local.setValue(self.number())
            formula = f"{hidden} * ({formula})"
        law.setMath(self.math(formula))

    def flux(self, consumed: list[str]) -> str:
        """A law; one that is 0 where what it consumes is used up."""
        factor = self.draw.choice((*self.compartments, "1", self.draw.choice(self.constants)))
        if not consumed:
            return f"{factor} * ({self.term()})"
        gates = " * ".join(f"{name} / (1 + {name})" for name in consumed)
        if self.exact:  # too few molecules must not react
            kept = " * ".join(consumed)
            return f"{self.draw.choice(self.constants)} * {kept} / {5 ** (len(consumed) - 1)}"
        return f"{factor} * ({self.term()}) * {gates}"

    def add_reference(
        self, reaction: Any, name: str, side: str, species: str, *, alone: bool
    ) -> None:
        reference = reaction.createReactant() if side == "left" else reaction.createProduct()
        reference.setSpecies(species)
        stoichiometry = 1.0 if self.exact else self.draw.choice((1.0, 1.0, 1.0, 2.0, 0.5))
        if self.level == 3:
            reference.setConstant(True)
        reference.setStoichiometry(stoichiometry)
        if self.exact or not (alone and self.chance(0.15)):
            return
        if self.level == 3:
            self.compute_stoichiometry(reference, f"{side}_{name}_{species}")
        elif self.version > 1 or self.chance(0.5):
            reference.unsetStoichiometry()
            math = reference.createStoichiometryMath()
            math.setMath(self.math(self.draw.choice((*self.constants, "3 / 2", "2"))))

    def compute_stoichiometry(self, reference: Any, identifier: str) -> None:
        reference.setId(identifier)
        kind = self.draw.choice(("initial", "assignment", "rate"))
        if kind == "initial":
            assignment = self.model.createInitialAssignment()
            assignment.setSymbol(identifier)
            assignment.setMath(self.math(f"{self.draw.choice(self.constants)} * 2"))
            return
        reference.setConstant(False)
        self.rule(kind, identifier, "1 + time / 5" if kind == "assignment" else "0.1")

    # ---------------------------------------------------------------- rules, events, starts

    def rule_species(self) -> None:
        """A species by a rule: one that reactions leave alone, or a boundary species."""
        touched = set()
        for i in range(self.model.getNumReactions()):
            reaction = self.model.getReaction(i)
            for references in (reaction.getListOfReactants(), reaction.getListOfProducts()):
                touched |= {references.get(j).getSpecies() for j in range(references.size())}
        for name in self.free:
            boundary = self.model.getSpecies(name).getBoundaryCondition()
            if (boundary or name not in touched) and self.chance(0.7):
                kind = self.draw.choice(("rate", "assignment"))
                others = self.constants + self.compartments[:0]
                formula = f"{self.draw.choice(others)} * (1 + time / 3)"
                self.rule(kind, name, formula if kind == "assignment" else f"0.4 * {formula}")

    def add_events(self) -> None:
        ruled = {self.model.getRule(i).getVariable() for i in range(self.model.getNumRules())}
        targets = [name for name in self.free if name not in ruled] + self.resettable
        for number in range(self.draw.choice((0, 0, 1, 2))):
            if not targets:  # no two events set the same: without priorities either may be last
                return
            event = self.model.createEvent()
            event.setId(f"E{number}")
            if self.level == 3:
                event.setUseValuesFromTriggerTime(True)
            when = self.draw.choice((f"{1 + self.number(0, 2)}", "2.75"))
            trigger = event.createTrigger()
            forms = (
                f"time >= {when}",
                f"{when} < time",
                f"time > {when} && time <= 4.2",
                f"{when} - time <= 0",
            )
            shared = when == "2.75"  # simultaneous events have one trigger
            trigger.setMath(self.math(forms[0] if shared else self.draw.choice(forms)))
            if self.level == 3:
                trigger.setInitialValue(True)
                trigger.setPersistent(True)
            delayed = self.chance(0.3)
            if delayed:
                event.createDelay().setMath(self.math(f"{self.number(0.1, 0.9)}"))
            chosen = self.draw.sample(targets, min(len(targets), self.draw.randint(1, 2)))
            sizes = [name for name in chosen if name in self.compartments]
            for target in sizes[:1] or chosen:  # a size alone, or what else it moves is disputed
                targets.remove(target)
                assignment = event.createEventAssignment()
                assignment.setVariable(target)
                formula = f"{self.number()} * 3"
                if not delayed and self.chance(0.5):
                    formula = f"{target} + {self.draw.choice(self.species)} / 4"
                assignment.setMath(self.math(formula))

    def assign_initially(self) -> None:
        if (self.level, self.version) == (2, 1):
            return
        ruled = {self.model.getRule(i).getVariable() for i in range(self.model.getNumRules())}
        target = self.draw.choice([*self.species, self.constants[-1], *self.compartments])
        rule = self.model.getRule(target)
        if target in ruled and rule is not None and rule.isAssignment():
            return
        assignment = self.model.createInitialAssignment()
        assignment.setSymbol(target)
        if self.exact and target in self.species:
            assignment.setMath(self.math(f"{self.draw.randint(5, 40)} * 1"))
        else:
            used = [name for name in self.constants if name != target]
            assignment.setMath(self.math(f"{self.number()} + {self.draw.choice(used)}"))
