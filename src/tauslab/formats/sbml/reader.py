"""Read SBML Level 2 and Level 3 core models.

A species symbol in the network always means molecules.  Where SBML means a concentration by it
(``hasOnlySubstanceUnits="false"``), the reader writes count / size of the compartment.  A kinetic
law is extent per time, so it is the propensity as it stands, whatever the volume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.base.option_names import opt
from tauslab.formats.sbml.algebraic import open_variables, solve
from tauslab.formats.sbml.document import (
    default_unit,
    end_time,
    open_document,
    package_features,
    substance_features,
)
from tauslab.formats.sbml.dynamics import add_dynamics, moved_values
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.reactions import Sides, add_reactions, rate_of
from tauslab.formats.sbml.text import each, import_libsbml, own_annotation, read_text, shorten
from tauslab.formats.sbml.unit_names import unit_of_species, unit_of_time
from tauslab.model.expressions.expression import (
    PAST,
    Expression,
    Number,
    Symbol,
    call,
    draws_in,
    substitute,
    symbols,
)
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.molecules import NO_UNIT, unit_of_amount
from tauslab.model.network.network import Feature, Network, Rule, Species

_DELAY = "http://www.sbml.org/sbml/symbols/delay"
# Where formulas stand that hold at all times, in which no draw has a meaning.
_AT_ALL_TIMES = ("reaction ", "rule ", "rate rule ", "algebraic rule", "stoichiometry ")


def read_sbml(path: str | Path) -> Network:
    """Read an SBML file.

    What no engine may silently ignore (events, delays, ...) is listed in ``Network.features``.

    Raises
    ------
    ModelError
        The file is missing or not valid SBML (libsbml's message, file and line), uses an
        undefined name, or has a reaction without a kinetic law.
    ConfigError
        python-libsbml is not installed.
    """
    path = Path(path)
    return read_sbml_text(read_text(path), path)


def read_sbml_text(text: str, path: Path) -> Network:
    """Read SBML that is already in memory; `path` names it in messages and may not exist."""
    libsbml = import_libsbml()
    document, text = open_document(libsbml, text, path)
    try:
        network = _SbmlReader(libsbml, document, path.stem, back=_DELAY in text).read()
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    network.source_path, network.source_text = path, text
    return network


class _SbmlReader:
    """One pass over a libsbml model."""

    def __init__(self, libsbml: Any, document: Any, stem: str, *, back: bool) -> None:
        self._back = back  # whether formulas look back
        self._document = document
        self._model = document.getModel()
        self._libsbml = libsbml
        model = self._model
        name = own_annotation(model).get("name")
        self._network = Network(name or model.getId() or stem)
        self._compartments = {
            c.getId(): c
            for c in each(model.getListOfCompartments())
            if own_annotation(c).get("compartment") != "none"
        }
        self._species = {s.getId(): s for s in each(model.getListOfSpecies())}
        self._parameters = {p.getId(): p for p in each(model.getListOfParameters())}
        self._reactions = {r.getId(): r for r in each(model.getListOfReactions())}
        self._assignments = {
            a.getSymbol(): a for a in each(model.getListOfInitialAssignments()) if a.isSetMath()
        }
        rules = [rule for rule in each(model.getListOfRules()) if rule.isSetMath()]
        self._ruled = {rule.getVariable(): rule for rule in rules if rule.isAssignment()}
        self._rated = {rule.getVariable(): rule for rule in rules if rule.isRate()}
        self._algebraic = [rule for rule in rules if rule.isAlgebraic()]
        self._solved: dict[str, Expression] = {}
        self._moved = moved_values(model)
        self._references = {
            reference.getId(): reference
            for reaction in self._reactions.values()
            for side in (reaction.getListOfReactants(), reaction.getListOfProducts())
            for reference in each(side)
            if reference.getId()
        }
        # Stoichiometries that are not one number stand in the network under their own name.
        self._computed = {
            name: reference
            for name, reference in self._references.items()
            if name in self._ruled or name in self._moved or name in self._assignments
        }
        functions = {f.getId(): f.getMath() for f in each(model.getListOfFunctionDefinitions())}
        self._math = MathReader(
            libsbml, functions, self._resolve, self._refuse, self._rate_of, self._delayed
        )
        self._sides = Sides(model, self._network, self._math, self._refuse, self._computed)
        self._laws: dict[str, Expression] = {}
        self._reading: set[str] = set()
        self._rating: set[str] = set()
        self._past: set[str] = set()
        self._used: set[str] = set()
        self._refused: set[Feature] = set()

    def read(self) -> Network:
        network = self._network
        self._list_features()
        self._solve_rules()
        given_by_rule = {**self._ruled, **self._solved}
        for name, compartment in self._compartments.items():
            if name not in given_by_rule:
                given = compartment.getSize() if compartment.isSetSize() else math.nan
                self._add_value(name, f"compartment {name}", given)
        for name, parameter in self._parameters.items():
            if name not in given_by_rule:
                given = parameter.getValue() if parameter.isSetValue() else math.nan
                self._add_value(name, f"parameter {name}", given)
        for name, reference in self._computed.items():
            if name not in given_by_rule:
                given = reference.getStoichiometry() if reference.isSetStoichiometry() else math.nan
                self._add_value(name, f"stoichiometry {name}", given)
        for name, species in self._species.items():
            if name not in given_by_rule:
                self._add_species(name, species)
        for name, rule in self._ruled.items():
            self._add_rule(name, rule)
        network.rules.update((name, Rule(name, tree)) for name, tree in self._solved.items())
        add_dynamics(self._model, network, self._math, self.size)
        laws = {name: self.law(name) for name in self._reactions}
        self._settle_values()
        add_reactions(self._model, network, laws, self._math, self._refuse, self._computed)
        network.t_end = end_time(self._model)
        if not network.features:
            network.validate()
        return network

    # ---------------------------------------------------------------- names

    def _resolve(self, name: str, where: str) -> Expression:
        """Meaning of a name in the model's math, in molecules."""
        self._used.add(name)
        if name in self._species:
            volume = self._volume(name)
            return Symbol(name) if volume is None else call("div", Symbol(name), volume)
        if name in self._parameters or name in self._compartments:
            return Symbol(name)
        if name in self._reactions:
            return self.law(name)
        if name in self._computed:
            return Symbol(name)
        if name in self._references:
            return Number(float(self._references[name].getStoichiometry()))
        raise ModelError(f"{where}: {name!r} is not defined in the model")

    def _volume(self, name: str) -> Expression | None:
        """Compartment size if the symbol of species `name` is a concentration, else None."""
        species = self._species[name]
        compartment = self._compartments.get(species.getCompartment())
        if species.getHasOnlySubstanceUnits() or compartment is None:
            return None
        if compartment.getSpatialDimensionsAsDouble() == 0.0:  # then there is no concentration
            return None
        self._used.add(compartment.getId())
        return Symbol(compartment.getId())

    def size(self, name: str) -> Expression | None:
        """Volume as of `_volume`; None for a name that is no species of the model."""
        return self._volume(name) if name in self._species else None

    def _refuse(self, kind: str, element: str, detail: str) -> None:
        if kind == "draw" and element.startswith(_AT_ALL_TIMES):
            kind, detail = "function", f"{detail} at all times"
        feature = Feature(kind, element, detail)
        if feature not in self._refused:
            self._refused.add(feature)
            self._network.features.append(feature)
        if kind == "time" and self._model.getElementBySId("time") is not None:
            self._refuse("name", element, "it uses the time, and the model calls something 'time'")

    # ---------------------------------------------------------------- elements

    def _list_features(self) -> None:
        model, network = self._model, self._network
        network.features += package_features(self._document)
        empty = [
            self._libsbml.SBMLTypeCode_toString(element.getTypeCode(), "core")
            for elements in (model.getListOfInitialAssignments(), model.getListOfRules())
            for element in each(elements)
            if not element.isSetMath()
        ]
        if empty:  # Level 3 Version 2 allows it
            network.notes.append(f"without math, and so ignored: {shorten(empty)}")
        network.features += substance_features(self._libsbml, model)
        network.molecules_per_unit = unit_of_amount(self._libsbml, model)
        network.amount_unit = unit_of_species(self._libsbml, model)
        network.time_unit = unit_of_time(self._libsbml, model)
        if not default_unit(model) and not all(
            s.isSetSubstanceUnits() for s in self._species.values()
        ):
            moles = f"; Level 2 means moles, which {opt('molecules')} converts"
            network.notes.append(NO_UNIT + (moles if model.getLevel() == 2 else ""))
        if model.getNumConstraints():
            network.notes.append(f"{model.getNumConstraints()} constraints are ignored")

    def _add_value(self, name: str, where: str, given: float) -> None:
        """Add a compartment or a parameter; NaN stands for no value until `_settle_values`."""
        tree: Expression = Number(float(given))
        if name in self._assignments:
            tree = self._math.read(self._assignments[name].getMath(), where)
        if name in self._moved or draws_in(tree):
            self._network.species[name] = Species(name, tree, fixed=True)
        else:
            self._network.parameters[name] = tree

    def _add_species(self, name: str, species: Any) -> None:
        where = f"species {name}"
        compartment = species.getCompartment() or None
        if compartment is not None and compartment not in self._compartments:
            compartment = None  # one that `tauslab.formats.sbml.writer` writes where there is none
        volume = Symbol(compartment) if compartment is not None else Number(1.0)
        if name in self._assignments:
            initial = self._math.read(self._assignments[name].getMath(), where)
            size = self._volume(name)
            initial = initial if size is None else call("mul", initial, size)
        elif species.isSetInitialAmount():
            initial = Number(float(species.getInitialAmount()))
        elif species.isSetInitialConcentration():
            initial = Number(float(species.getInitialConcentration()))
            if initial.value != 0:
                initial = call("mul", initial, volume)
                self._used |= symbols(volume)
        else:
            initial = Number(math.nan)
            self._refuse("missing value", where, "it has no initial amount or concentration")
        if label := own_annotation(species).get("label"):
            self._network.labels[name] = label
        fixed = bool(species.getBoundaryCondition() or species.getConstant())
        self._network.species[name] = Species(name, initial, fixed, compartment)

    def _add_rule(self, name: str, rule: Any) -> None:
        recorded = own_annotation(rule).get("recorded") != "false"
        self._network.rules[name] = Rule(name, self._rule_amount(name, rule), recorded)

    def _rule_amount(self, name: str, rule: Any) -> Expression:
        """Value of an assignment rule, in molecules for a species."""
        tree = self._math.read(rule.getMath(), f"rule for {name}")
        size = self.size(name)
        return tree if size is None else call("mul", tree, size)

    def _solve_rules(self) -> None:
        """Make assignments of algebraic rules."""
        if not self._algebraic:
            return
        where = "algebraic rule"
        unknown = open_variables(self._model, self._references)
        given = {name: self._rule_amount(name, rule) for name, rule in self._ruled.items()}
        whole = unfold(given, "rule")
        given = {name: tree for name, tree in whole.items() if symbols(tree) & set(unknown)}
        demands = []
        for rule in self._algebraic:
            text = self._libsbml.formulaToL3String(rule.getMath())
            demands.append((text, substitute(self._math.read(rule.getMath(), where), given)))
        self._solved = solve(demands, unknown, set(filter(self._is_empty, unknown)), self._refuse)
        references = self._solved.keys() & self._references.keys()
        self._computed |= {name: self._references[name] for name in references}

    def _is_empty(self, name: str) -> bool:
        """Return whether a quantity has no value in the file."""
        element = self._model.getElementBySId(name)
        tests = (
            *("isSetValue", "isSetSize", "isSetInitialAmount", "isSetInitialConcentration"),
            "isSetStoichiometry",
        )
        return name not in self._assignments and not any(
            getattr(element, test)() for test in tests if hasattr(element, test)
        )

    # ---------------------------------------------------------------- rates of change

    def _rate_of(self, name: str, where: str) -> Expression:
        """Rate of change of what `name` means; ``rateOf`` of a rule is not allowed in SBML."""
        volume = self.size(name)
        given = {*self._ruled, *self._solved}
        if name in given or (volume is not None and symbols(volume) & given):
            self._refuse("function", where, f"its math uses 'rateOf' of {name}, which a rule gives")
            return Number(math.nan)
        if name in self._rating:
            return self._refuse_circle(where, name)
        self._rating.add(name)
        before = len(self._refused)
        tree = rate_of(self._model, self, name)
        self._rating.discard(name)
        if tree != Number(0.0) and len(self._refused) == before:
            self._refuse("rate of change", where, f"its math uses the rate of change of {name}")
        return self._since_start(tree, where, name) if self._back else tree

    def _since_start(self, tree: Expression, where: str, name: str) -> Expression:
        """A rate of change that is 0 before the start, as that of an initial value that stands."""
        if tree == Number(0.0):
            return tree
        given = self._assignments.get(name)
        if given is not None and "time" in symbols(self._math.read(given.getMath(), where)):
            what = f"its math uses 'rateOf' of {name}, whose initial assignment follows the time"
            self._refuse("function", where, what)
        self._refuse("time", where, "it depends on the rate of change before time 0")
        return call("if", call("ge", Symbol("time"), 0.0), tree, 0.0)

    def _refuse_circle(self, where: str, name: str) -> Expression:
        """Refuse a rate of change that is needed to know itself."""
        self._refuse("function", where, f"its math uses 'rateOf' of {name}, which depends on it")
        return Number(math.nan)

    def rate_rule(self, name: str) -> Expression | None:
        """Right side of the rate rule of a quantity, as the file has it."""
        rule = self._rated.get(name)
        return rule and self._math.read(rule.getMath(), f"rate rule for {name}")

    def stoichiometry(self, reference: Any, where: str) -> Expression:
        """Stoichiometry of a species reference."""
        return self._sides.stoichiometry(reference, where)

    def _delayed(self, tree: Expression, delay: Expression) -> Expression:
        """Value of a formula a delay ago."""
        result = self._of_the_time(tree, delay)
        if result is not None:
            return result
        # An initial assignment says what was before the start, and may follow the time.
        past: dict[str, Expression] = {}
        for name in symbols(tree) & self._assignments.keys() & self._network.parameters.keys():
            meant = self._math.read(self._assignments[name].getMath(), f"parameter {name}")
            if "time" in symbols(meant):
                started = call("ge", Symbol("time"), 0.0)
                past[name] = call("if", started, Symbol(name), meant)
        return call(PAST, substitute(tree, past), delay)

    def _of_the_time(self, tree: Expression, delay: Expression) -> Expression | None:
        """A formula of the time and of constants, by a delay earlier; None for any other."""
        if self._model.getElementBySId("time") is not None:
            return None
        while ruled := symbols(tree) & self._ruled.keys():
            name = min(ruled)
            if name in self._past:
                return None
            self._past.add(name)
            before = set(self._refused)
            meant = self._rule_amount(name, self._ruled[name])
            self._past.discard(name)
            if any(feature.kind != "time" for feature in self._refused - before):
                return None
            tree = substitute(tree, {name: meant})
        # An initial assignment says what was before the start, and may follow the time.
        constants = {*self._parameters, *self._compartments} - self._moved
        constants -= self._assignments.keys()
        if self._algebraic or not symbols(tree) <= {"time", *constants}:
            return None
        if "time" not in symbols(tree):
            return tree
        return substitute(tree, {"time": call("sub", Symbol("time"), delay)})

    # ---------------------------------------------------------------- what is left

    def _settle_values(self) -> None:
        """Say what became of values that are not given, and clear parameters of species."""
        self._settle_draws()
        network = self._network
        trees = {name: species.initial for name, species in network.species.items()}
        trees |= {name: rule.expression for name, rule in network.rules.items()}
        rules = network.rule_expressions()
        unused, unit_size = [], []
        for name, tree in list(network.parameters.items()):
            missing = isinstance(tree, Number) and math.isnan(tree.value)
            if missing and name in self._used:
                kind = "compartment" if name in self._compartments else "parameter"
                self._refuse("missing value", f"{kind} {name}", "it is used but has no value")
            elif missing and name in self._compartments:
                network.parameters[name] = Number(1.0)
                unit_size.append(name)
            elif missing and name not in self._assignments:
                del network.parameters[name]
                unused.append(name)
            elif name in self._assignments:
                network.parameters[name] = _without(tree, {"time": Number(0.0), **trees}, name)
                if used := symbols(substitute(tree, rules)) & network.species.keys():
                    network.read_at_start[name] = used
        if unit_size:
            network.notes.append(f"no size is given, 1 is taken: compartment {shorten(unit_size)}")
        if unused:
            network.notes.append(f"no value and no use, left out: parameter {shorten(unused)}")

    def _settle_draws(self) -> None:
        """Make species of parameters whose initial assignment reads what is drawn."""
        network = self._network
        drawn = {name for name, one in network.species.items() if draws_in(one.initial)}
        rules = network.rule_expressions() if drawn else {}
        result = drawn
        while result:
            result = {
                name
                for name in self._assignments.keys() & network.parameters.keys()
                if symbols(substitute(network.parameters[name], rules)) & drawn
            }
            drawn |= result
            for name in [name for name in network.parameters if name in result]:
                network.species[name] = Species(name, network.parameters.pop(name), fixed=True)

    def law(self, name: str) -> Expression:
        """Kinetic law of a reaction; its local parameters are added to the network once."""
        if name in self._laws:
            return self._laws[name]
        where, law = f"reaction {name}", self._reactions[name].getKineticLaw()
        if law is None or law.getMath() is None:
            raise ModelError(f"{where} has no kinetic law; stochastic simulation needs one")
        if name in self._reading:
            if self._rating:
                return self._refuse_circle(where, min(self._rating))
            raise ModelError(f"{where}: its kinetic law depends on itself")
        self._reading.add(name)
        # Level 3 calls them local parameters; Level 2 lists them as parameters of the law.
        level3 = self._model.getLevel() == 3
        local = law.getListOfLocalParameters() if level3 else law.getListOfParameters()
        bound: dict[str, Expression] = {}
        for parameter in each(local):
            full = self._free_name(f"{name}_{parameter.getId()}")
            given = parameter.getValue() if parameter.isSetValue() else math.nan
            self._network.parameters[full] = Number(float(given))
            if math.isnan(given):
                self._used.add(full)
            bound[parameter.getId()] = Symbol(full)
        self._laws[name] = self._math.read(law.getMath(), where, bound)
        self._reading.discard(name)
        return self._laws[name]

    def _free_name(self, name: str) -> str:
        network = self._network
        while (
            name in network.parameters
            or name in self._species
            or name in self._parameters
            or name in self._compartments
        ):
            name += "_"
        return name


def _without(tree: Expression, trees: Mapping[str, Expression], parameter: str) -> Expression:
    """Replace species and rules by what they are at the start, until none is left."""
    for _ in range(len(trees) + 1):
        inner = symbols(tree) & trees.keys()
        if not inner:
            return tree
        tree = substitute(tree, {name: trees[name] for name in inner})
    raise ModelError(f"parameter {parameter}: its initial assignment depends on itself")
