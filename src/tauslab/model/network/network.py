"""A well-stirred reaction network: what every reader builds and every ensemble engine runs."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tauslab.base.arrays import is_number
from tauslab.base.door import behind_door
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.html import Listing
from tauslab.base.option_names import opt, warn
from tauslab.base.unknown import Hinting, checks_keywords
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    check_depth,
    check_exponents,
    depth,
    draws_in,
    looks_back,
    substitute,
    symbols,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import as_expression
from tauslab.model.expressions.unfolding import dependency_order, drawn_values, unfold
from tauslab.model.names import (
    IDENTIFIER,
    LONGEST_NAME,
    brief,
    check_name,
    require_mapping,
    require_text,
)
from tauslab.model.network.counts import meant, some
from tauslab.model.network.equations import (
    REVERSIBLE,
    both_ways,
    continuous_law,
    mass_action_law,
    pair_of,
    parse_equation,
    plain_equation,
)
from tauslab.model.network.parts import (
    DELAYED,
    DRAWN,
    LOOKS_BACK,
    Doubt,
    Event,
    Feature,
    NetworkData,
    Reaction,
    Rule,
    Species,
    TimedEvent,
    draw_refused,
)

__all__ = ["Event", "Feature", "Network", "Reaction", "Rule", "Species", "TimedEvent"]

Value = float | str | Expression


def _require_flag(what: str, value: object) -> None:
    """Refuse texts and numbers, of which most would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ModelError(f"{what}={value!r} is not allowed: True or False")


_FIELDS = {one.name for one in fields(NetworkData)}
_MEANT = {
    **{name: f": the constant is {name}()" for name in ("pi", "inf", "nan")},
    **dict.fromkeys(("e", "E"), ": write exp(x) for e^x"),
}


class Network(Hinting, NetworkData):
    """A well-stirred model: species, parameters, rules, reactions and events.

    Expressions are numbers or texts such as ``"vmax * X / (km + X)"`` (docs/model-toml.md), in
    which the name of a species is its number of molecules. Two networks are equal if they describe
    the same process.

    Parameters
    ----------
    name
        Name of the model in messages and results.
    t_end
        End time of a run without `t_end`.

    Attributes
    ----------
    species, parameters, reactions, rules
        Mappings by name, in the order in which they were added; `reactions` is a list. Values can
        be assigned: ``net.parameters["k"] = 2.0``, ``net.species["X"] = 10``.
    rates
        Rate rules dx/dt of species that reactions do not change.
    events
        Events at given times or with triggers.
    features
        Elements that some methods do not support.
    source_path, source_text, notes
        The model's file, its text, and assumptions of the reader.
    labels
        Descriptions of species, such as patterns of a .net file.
    molecules_per_unit
        Molecules in the file's unit of amount, if known (see `tauslab.in_molecules`).
    amount_unit, time_unit
        Units for pictures, such as ``nmol`` and ``min``; empty if unknown.
    count_unit
        Meaning of a count, ``molecules`` unless chosen otherwise (`tauslab.in_molecules`).
    read_at_start
        Species from whose initial amounts a file computes a parameter, by parameter.
    source_digest
        SHA-256 of the original file, in a network that was read from a result.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("enzyme")
    >>> net.add_species("S", 250)
    >>> net.add_species("P")
    >>> net.add_parameter("km", 10)
    >>> net.add_reaction("S -> P", law="vmax * S / (km + S)", parameters={"vmax": 5})
    >>> net.add_reaction("2 P ->", rate=0.01)
    >>> net.reactions[1].net_change()
    {'P': -2}
    >>> net
    <Network enzyme: 2 species, 2 reactions, 2 parameters>
    """

    _ELSEWHERE: ClassVar = {
        "run": "ts.run(network, ...)", "simulate": "ts.run(network, ...)",
        "solve": "ts.run(network, ...), or ts.cme for the master equation",
    }  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a name that is no attribute, such as that of a parameter, but in subclasses."""
        own = type(self) is Network and not hasattr(Network, name) and name not in _FIELDS
        if own and not name.startswith("_"):
            kind = "species" if name in self.species else "parameters"
            known = name in self.species or name in self.parameters
            raise AttributeError(
                f"a network has no attribute {name!r}"
                + f': network.{kind}["{name}"] = {value!r:.40} sets its value' * known
            )
        super().__setattr__(name, value)

    # ---------------------------------------------------------------- building

    @checks_keywords
    def add_species(
        self, name: str, initial: float | str | Expression = 0, *, fixed: bool = False,
        compartment: str | None = None,
    ) -> None:  # fmt: skip
        """Add a species with its initial amount (molecules).

        Parameters
        ----------
        name
            Letters, digits and underscores, no digit first, at most 1000; unique among species,
            parameters and rules.
        initial
            Initial amount, not negative; may use parameters and other species. Rounded (0.5 to
            even), unless the species is `fixed` or rate equations or a rate rule change it. From a
            distribution, such as ``"poisson(20)"``, a value is drawn for each trajectory (not for
            ``ode`` and ``cle``). An expression of ``time`` also gives the amounts before t = 0,
            which delays use (``ode``).
        fixed
            If True, reactions do not change the amount.
        compartment
            Parameter with the size of its compartment, as in SBML.

        Raises
        ------
        ModelError
            The name is invalid or taken.
        """
        self._claim(name)
        _require_flag(f"species {name}: fixed", fixed)
        if compartment is not None:
            require_text(compartment, f"species {name}: its compartment")
        self.species[name] = Species(
            name, as_expression(initial, f"species {name}"), fixed, compartment
        )
        if draws_in(self.species[name].initial):
            self.add_feature(Feature("draw", f"species {name}", DRAWN))
        self._note_time(self.species[name].initial, f"species {name}")
        self._note_past(self.species[name].initial, f"species {name}")

    @checks_keywords
    def add_parameter(self, name: str, value: float | str | Expression) -> None:
        """Add a parameter; `value` may be an expression of other parameters.

        With a distribution, such as ``"lognormal(0, 0.3)"``, it becomes a fixed species whose
        value is drawn for each trajectory (not for ``ode`` and ``cle``).

        Raises
        ------
        ModelError
            The name is malformed or defined twice, or the expression cannot be read.
        """
        tree = as_expression(value, f"parameter {name}")
        if draws_in(tree):
            self.add_species(name, value, fixed=True)
            return
        self._claim(name)
        self.parameters[name] = tree

    @checks_keywords
    def add_rule(
        self, name: str, expression: float | str | Expression, *, recorded: bool = True
    ) -> None:
        """Add a quantity defined at all times by an expression of species, parameters and rules.

        `recorded` makes it an observable of results.

        Raises
        ------
        ModelError
            The name is malformed or defined twice, or the expression cannot be read.
        """
        self._claim(name)
        self.rules[name] = Rule(name, as_expression(expression, f"rule {name}"), recorded)
        self._note_time(self.rules[name].expression, f"rule for {name}")
        self._note_past(self.rules[name].expression, f"rule for {name}")

    @checks_keywords
    def add_rate(self, name: str, expression: float | str | Expression) -> None:
        """Give a species the rate rule dx/dt = `expression`, instead of reactions.

        Not for ``cle``, and for ``hybrid`` only with jumps and equations. May use ``time``.

        Raises
        ------
        ModelError
            The species does not exist or already has a rate rule.
        """
        require_text(name, "the species of a rate rule")
        if name not in self.species:
            raise ModelError(f"rate of {name}: {name!r} is not a species of {self.name}")
        if name in self.rates:
            raise ModelError(f"rate of {name!r} is defined twice")
        self.rates[name] = as_expression(expression, f"rate of {name}")
        self.add_feature(Feature("rate rule", f"rate rule for {name}", f"it moves {name} in time"))
        self._note_time(self.rates[name], f"rate rule for {name}")
        self._note_past(self.rates[name], f"rate rule for {name}")

    @checks_keywords
    def add_event(  # noqa: PLR0913 - all that SBML says of an event
        self,
        name: str,
        time: float | str | Expression | None = None,
        assignments: Mapping[str, float | str | Expression] | None = None,
        *,
        trigger: str | Expression | None = None,
        delay: float | str | Expression | None = None,
        priority: float | str | Expression | None = None,
        persistent: bool = True,
        initial: bool = True,
        early: bool = True,
    ) -> None:
        """Add an event: species get new amounts at a time, or when a condition becomes true.

        Not for ``cle``, and for ``hybrid`` only with jumps and equations. A `fixed` species without
        compartment that an event sets is a real number, such as a rate constant; other species are
        counts under ``ssa`` and ``tau``, and their new amounts are rounded (0.5 to even).

        Parameters
        ----------
        name
            Name of the event in messages.
        time
            An expression of parameters, in the model's unit; at 0 or before the event never
            fires, and a run warns.
        assignments
            New amount of each species, as an expression; all are computed before any is set. A
            parameter that is set becomes a `fixed` species.
        trigger
            Instead of `time`, a condition such as ``"X >= 100 && time > 5"``: the event fires
            whenever it changes from false to true.
        delay
            Time from the trigger to the assignments, computed at the trigger. This argument and
            the following ones require `trigger`.
        priority
            Of several events at one time, the event with the highest priority executes first,
            equal ones in random order, then events with `time` in the order of the list, and last
            events without a priority. Computed again before each execution.
        persistent
            Whether the event executes even if the trigger becomes false during the delay.
        initial
            Value of the trigger before time 0. If it is False and the trigger is true at 0, the
            event fires at 0.
        early
            Whether assigned values are computed at the trigger (True) or at the execution.

        Raises
        ------
        ModelError
            Neither or both of `time` and `trigger` are given, or a trigger's argument with `time`.
        """
        check_name(name, "the name of an event")
        if (time is None) == (trigger is None):
            raise ModelError(f"event {name}: give either time or trigger, not both or neither")
        where = f"event {name}"
        require_mapping(assignments or {}, f"{where}: assignments", '{"X": "X + 100"}')
        for flag, value in {"persistent": persistent, "initial": initial, "early": early}.items():
            _require_flag(f"{where}: {flag}", value)
        if isinstance(time, float) and math.isnan(time):
            raise ModelError(f"{where}: its time is not a number")
        trees = {
            target: as_expression(value, f"{where}: assignment to {target}")
            for target, value in (assignments or {}).items()
        }
        if time is not None:
            if (delay, priority, persistent, initial, early) != (None, None, True, True, True):
                raise ModelError(
                    f"{where}: delay, priority, persistent, initial and early need a trigger"
                )
            self.events.append(TimedEvent(name, as_expression(time, f"{where}: time"), trees))
            self.add_feature(Feature("timed event", where, "it changes the state"))
        else:
            assert trigger is not None
            event = Event(
                name, as_expression(trigger, f"{where}: trigger"), trees,
                None if delay is None else as_expression(delay, f"{where}: delay"),
                None if priority is None else as_expression(priority, f"{where}: priority"),
                persistent, initial, early,
            )  # fmt: skip
            self.events.append(event)
            self.add_feature(Feature("state event", where, "it changes the state"))
        for target in trees:
            if target in self.parameters:
                self.species[target] = Species(target, self.parameters.pop(target), fixed=True)
                self._set_by_events.add(target)
        for tree in trees.values():
            self._note_time(tree, where)
        for tree in self.events[-1].expressions():
            self._note_past(tree, where)
        if any(draws_in(tree) for tree in self.events[-1].expressions()):
            self.add_feature(Feature("draw", where, DRAWN))

    def add_feature(self, feature: Feature) -> None:
        """List an element that some methods do not support; used by readers of model files."""
        if feature not in self.features:
            self.features.append(feature)

    def _note_time(self, tree: Expression, where: str) -> None:
        if "time" in symbols(tree) and "time" not in {**self.species, **self.parameters}:
            self.add_feature(Feature("time", where, "it uses the time"))

    def _note_past(self, tree: Expression, where: str) -> None:
        if looks_back(tree):
            self.add_feature(Feature("delay", where, LOOKS_BACK))

    @checks_keywords
    def add_reaction(
        self, equation: str, *, rate: Value | tuple[Value, Value] | None = None,
        law: Value | tuple[Value, Value] | None = None,
        limit: Value | tuple[Value, Value] | None = None,
        parameters: Mapping[str, float | str | Expression] | None = None, name: str | None = None,
        delay: float | str | Expression | None = None, consuming: bool = True,
    ) -> None:  # fmt: skip
        """Add a reaction written as ``"A + 2 B -> C"``; a side may be empty, ``0`` or ``∅``.

        ``"A + B <-> C"`` adds two reactions, `name` and ``<name>_reverse``; `rate`, `law` and
        `limit` are then pairs, forward first.

        Parameters
        ----------
        equation
            Species with optional integer coefficients.
        rate
            Stochastic rate constant: the propensity is `rate` times the number of distinct
            combinations of reactant molecules (Gillespie 1977), x (x - 1) / 2 for ``2 X``. A
            number or an expression, which may use ``time``.
        law
            Instead of `rate`, the propensity itself, any expression of counts and parameters.
        limit
            With `law`: the limit of the propensity for many molecules, for ``ode``.
        parameters
            Local parameters; added to the network as ``<reaction>_<parameter>``.
        name
            ``R1``, ``R2``, ... by position if not given.
        delay
            Time from the start of the reaction to its completion, 0 or more: a number or an
            expression of counts, parameters, ``time`` and distributions such as
            ``"gamma(7, 0.5)"``, evaluated when the reaction starts.
        consuming
            For delayed reactions: whether reactants are removed at the start (True) or at
            completion (Barrio et al. 2006).

        Raises
        ------
        ModelError
            The equation is invalid, the name is taken, or neither or both of `rate` and `law` are
            given. `validate` and the start of a run reject unknown names.
        """
        named, name = bool(name), name or self._free_name()
        check_name(name, "the name of a reaction")
        where = f"reaction {name}"
        require_text(equation, f"{where}: its equation")
        equation = plain_equation(equation)
        if REVERSIBLE in equation:
            given = {"rate": rate, "law": law, "limit": limit}
            more = {"parameters": parameters, "delay": delay, "consuming": consuming}
            self._add_both_ways(equation, name, given, more)
            self._warn_of_repeat(self.reactions[-2], equation, named=named)
            return
        self._check_forms(name, equation, rate, law, limit)
        if name in self._names_of_reactions():
            raise ModelError(f"reaction {name!r} is defined twice")
        _require_flag(f"{where}: consuming", consuming)
        if delay is None and not consuming:
            raise ModelError(f"{where}: consuming=False needs delay=")
        reactants, products = parse_equation(equation, where)
        if rate is not None:
            constant = as_expression(rate, f"{where}: rate")  # type: ignore[arg-type]
            self._note_own_reactant(name, constant, reactants)
            try:
                tree = mass_action_law(constant, reactants)
                limit = continuous_law(constant, reactants)
            except ModelError as error:
                raise ModelError(f"{where}: {error}") from None
        else:
            assert law is not None
            tree = as_expression(law, f"{where}: law")  # type: ignore[arg-type]
            own: Any = limit
            limit = None if own is None else as_expression(own, f"{where}: limit")
        require_mapping(parameters or {}, f"{where}: parameters", '{"vmax": 900.0}')
        local = {key: f"{name}_{key}" for key in parameters or {}}
        for key, value in (parameters or {}).items():
            self.add_parameter(local[key], value)
            self._local.setdefault(name, []).append(local[key])
        full_names = {key: Symbol(full) for key, full in local.items()}
        tree = substitute(tree, full_names)
        limit = None if limit is None else substitute(limit, full_names)
        if isinstance(delay, int | float) and not delay >= 0:
            raise ModelError(f"{where}: delay {delay:g} is not 0 or more")
        tree_of_delay = as_expression(0 if delay is None else delay, f"{where}: delay")
        wait = None if delay is None else substitute(tree_of_delay, full_names)
        self.reactions.append(Reaction(name, reactants, products, tree, limit, wait, consuming))
        if wait is not None:
            self.add_feature(Feature("delayed reaction", where, DELAYED))
        if isinstance(law, str) or isinstance(rate, str):
            self._note_time(tree, where)
        for part in (tree, *(one for one in (limit, wait) if one is not None)):
            self._note_past(part, where)
        self._reaction_names.add(name)
        self._warn_of_repeat(self.reactions[-1], equation, named=named)

    def _free_name(self) -> str:
        """The name of a reaction by its position, or the next that no other has."""
        names, number = self._names_of_reactions(), len(self.reactions) + 1
        while f"R{number}" in names:
            number += 1
        return f"R{number}"

    def _names_of_reactions(self) -> set[str]:
        if len(self._reaction_names) != len(self.reactions):  # the list was changed by hand
            self._require_parts()
            self._reaction_names = {reaction.name for reaction in self.reactions}
            self._unnamed.clear()
        return self._reaction_names

    def _warn_of_repeat(self, last: Reaction, equation: str, *, named: bool) -> None:
        """Warn in IPython of an unnamed reaction that was there before: of a cell run twice."""
        if named or not hasattr(builtins, "__IPYTHON__"):
            return
        sides = tuple(last.reactants.items()), tuple(last.products.items())
        first = self._unnamed.setdefault((*sides, last.law, last.delay), last.name)
        if first != last.name:
            warn(
                f"reaction {last.name} repeats {first}: {equation!r} now happens twice as often; a "
                "name= for it says that this is meant"
            )

    def remove_reaction(self, name: str) -> None:
        """Remove a reaction and its local parameters.

        The reverse reaction of ``"A <-> B"``, ``<name>_reverse``, is another reaction.

        Raises
        ------
        ModelError
            No reaction has this name.
        """
        self._remove(self.reactions, name, "reaction")
        self._reaction_names.discard(name)
        self._unnamed.clear()
        for own in self._local.pop(name, ()):
            self.parameters.pop(own, None)
            self.species.pop(own, None)

    def remove_event(self, name: str) -> None:
        """Remove the events with this name.

        Raises
        ------
        ModelError
            No event has this name.
        """
        self._remove(self.events, name, "event")
        left = {*self.rates}.union(*(event.assignments for event in self.events))
        for one in [n for n in self.species if n in self._set_by_events - left]:
            self.parameters[one] = self.species.pop(one).initial
            self._set_by_events.discard(one)

    def _remove(self, parts: list[Any], name: str, kind: str) -> None:
        """Remove parts by name, and what was noted of them."""
        kept = [one for one in parts if one.name != name]
        if len(kept) == len(parts):
            names = [one.name for one in parts]
            raise ModelError(f"{name!r:.60} is not a {kind} of {self.name}{meant(name, names)}")
        parts[:] = kept
        self.features[:] = [one for one in self.features if one.element != f"{kind} {name}"]

    @staticmethod
    def _check_forms(name: str, equation: str, rate: Any, law: Any, limit: Any) -> None:
        """Refuse pairs for one reaction, no number, and anything but one of `rate` and `law`."""
        for key, value in (("rate", rate), ("law", law), ("limit", limit)):
            if isinstance(value, tuple | list):
                kind = "pair" if len(value) == 2 else type(value).__name__
                raise ModelError(
                    f"reaction {name}: {key} is a {kind}, and {equation!r} has no '<->'"
                )
        if (rate is None) == (law is None):
            raise ModelError(f"reaction {name}: give either rate= or law=, not both or neither")
        if rate is not None and limit is not None:
            raise ModelError(f"reaction {name}: limit= needs law=")
        if isinstance(rate, builtins.float) and math.isnan(rate):
            raise ModelError(f"reaction {name}: rate=nan is not allowed: a number of 0 or more")

    def _note_own_reactant(self, name: str, rate: Expression, reactants: Mapping[str, int]) -> None:
        """Note a rate such as ``k * X`` of ``X ->``, which most often was meant as a law."""
        factors = [rate]
        while isinstance(last := factors[-1], Call) and last.function == "mul":
            left, right = last.arguments
            factors[-1:] = [right, left]
        twice = [one.name for one in factors if isinstance(one, Symbol) and one.name in reactants]
        if twice:
            self.notes.append(
                Doubt(
                    f"reaction {name}: its rate holds the factor {twice[0]}, and is multiplied by "
                    f"the count of {twice[0]} once more; law= takes the propensity itself"
                )
            )

    def _add_both_ways(
        self, equation: str, name: str, given: Mapping[str, Any], more: Mapping[str, Any]
    ) -> None:
        """Add the two reactions of an equation with ``<->``; `given` holds pairs."""
        there, back = both_ways(equation, f"reaction {name}")
        pairs = {key: pair_of(value, key, f"reaction {name}") for key, value in given.items()}
        for index, (one, called) in enumerate(((there, name), (back, f"{name}_reverse"))):
            chosen: Any = {key: pair[index] for key, pair in pairs.items()}
            self.add_reaction(one, **chosen, **more, name=called)

    def _claim(self, name: str) -> None:
        require_text(name, "a name")
        if not IDENTIFIER.match(name) or len(name) > LONGEST_NAME:
            raise ModelError(
                f"{brief(name)} is not a name: letters A-Z and a-z, digits and underscores, no "
                f"digit first, {LONGEST_NAME} at most"
            )
        if name in self.species or name in self.parameters or name in self.rules:
            raise ModelError(f"{name!r} is defined twice")

    # ---------------------------------------------------------------- asking

    def __repr__(self) -> str:
        """One line, whatever the size."""
        moved = len(self.set_by_events())
        sizes = f"{len(self.species) - moved} species, {len(self.reactions)} reactions"
        return f"<Network {self.name}: {sizes}, {len(self.parameters) + moved} parameters>"

    def __str__(self) -> str:
        """The reactions as equations, with species and parameters; of many the first."""
        from tauslab.model.network.text import network_text

        return network_text(self)

    def _repr_html_(self) -> str:
        from tauslab.model.network.text import network_html

        return network_html(self)

    def check(self) -> Listing:
        """Return the report of ``tauslab check``: elements, and which methods can run them."""
        lines: list[str] = behind_door("Network.check")(self)
        return Listing("\n".join(lines))

    def write(self, path: str | Path) -> Path:
        """Write the model as TOML (``.toml``), for ``tauslab run`` and `tauslab.read`.

        Raises
        ------
        ConfigError
            The file is not named ``.toml``.
        OutputError
            The file cannot be written.
        """
        from tauslab.model.network.canonical import write_network

        return write_network(self, path)

    def to_sbml(self, path: str | Path | None = None) -> str:
        """SBML Level 3 Version 2 of the model, which `tauslab.read` reads as the same network.

        Species are amounts, and rate laws are propensities. Annotations, which other programs
        ignore, contain elements that SBML cannot express, such as limits of rate laws for ``ode``:
        for ``2 X ->`` with ``rate=k`` other programs integrate k x (x - 1) / 2.

        Parameters
        ----------
        path
            File to write as well, ``.xml`` or ``.sbml``.

        Returns
        -------
        The text, checked by libsbml.

        Raises
        ------
        ModelError
            The network lacks an element of its source.
        ConfigError
            python-libsbml is not installed, or the path ends otherwise.
        OutputError
            The file cannot be written.
        """
        text: str = behind_door("Network.to_sbml")(self, path)
        return text

    def to_antimony(self, path: str | Path | None = None) -> str:
        """Antimony text of the model; needs the package `antimony`. Arguments as for `to_sbml`.

        Antimony has no annotations; a warning names elements that only SBML can store.
        """
        text: str = behind_door("Network.to_antimony")(self, path)
        return text

    def validate(self) -> None:
        """Check that every name is defined, rules have no cycle and no expression is too deep.

        Raises
        ------
        ModelError
            One sentence that names the element.
        """
        self._require_parts()
        if any(isinstance(event, TimedEvent) for event in self.events):
            self.require_the_time()
        deep = self._rule_depths()
        for reaction in self.reactions:
            where = f"reaction {reaction.name}"
            for species in (*reaction.reactants, *reaction.products):
                if species not in self.species:
                    raise ModelError(
                        f"{where}: {species!r} is not a species of {self.name}"
                        + meant(species, self.species)
                    )
            self._check_expression(reaction.law, where, deep)
            if reaction.limit is not None:
                self._check_expression(reaction.limit, where, deep)
            if reaction.delay is not None:
                self._check_expression(reaction.delay, where, deep, time=True, draws=True)
        for name, tree in self.rates.items():
            self._check_expression(tree, f"rate rule for {name}", deep)
        for event in self.events:
            self._check_event(event, deep)
        for species_ in self.species.values():
            where = f"initial amount of {species_.name}"
            self._check_expression(species_.initial, where, deep, draws=True)
        self.parameter_values()

    def require_the_time(self) -> None:
        """Reject a quantity named ``time``: kernels and timed events take it for the time."""
        kinds = ("species", *self.species), ("parameter", *self.parameters), ("rule", *self.rules)
        for kind in (kind for kind, *names in kinds if "time" in names):
            raise ModelError(
                f"{kind} time: with events, rate rules, delays, random initial values, and the "
                "methods hybrid and cle, this name is that of the time; give it another"
            )

    def _require_parts(self) -> None:
        """Refuse what is no reaction or event in lists that were changed by hand."""
        for part in self.reactions:
            if not isinstance(part, Reaction):
                raise ModelError(f"reactions: {part!r:.60} is not a reaction: call add_reaction")
        for event in self.events:
            if not isinstance(event, TimedEvent | Event):
                raise ModelError(f"events: {event!r:.60} is not an event: call add_event")

    def _check_event(self, event: TimedEvent | Event, deep: Mapping[str, int]) -> None:
        where = f"event {event.name}"
        for name, tree in event.assignments.items():
            if name not in self.species:
                why = meant(name, [*self.species, *self.parameters])
                if name in self.parameters:
                    why = ": add the parameter before the event"
                raise ModelError(
                    f"{where}: {name!r} is not a species or parameter of {self.name}{why}"
                )
            self._check_expression(tree, where, deep, draws=True)
        if isinstance(event, TimedEvent):
            if draws_in(event.time):
                raise ModelError(f"time of {where}: {draw_refused(event.time)}")
            for name in sorted(symbols(event.time) - self.parameters.keys()):
                if name in self._names():
                    raise ModelError(f"{where}: its time may use parameters only, not {name!r}")
                near = meant(name, self.parameters)
                raise ModelError(f"time of {where}: {name!r} is not defined in {self.name}{near}")
            return
        self._check_expression(event.trigger, f"trigger of {where}", deep, time=True)
        for optional in (event.delay, event.priority):
            if optional is not None:
                self._check_expression(optional, where, deep, time=True, draws=True)

    def _check_expression(
        self, tree: Expression, where: str, deep: Mapping[str, int], *, time: bool = False,
        draws: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(tree, Number):
            return
        if not draws and draws_in(tree):
            raise ModelError(f"{where}: {draw_refused(tree)}")
        if not any(feature.kind == "delay" for feature in self.features) and looks_back(tree):
            raise ModelError(f"{where}: the function 'delay' is not for this format")
        unknown = [
            name
            for name in symbols(tree)
            if name not in self.species and name not in self.parameters and name not in self.rules
        ]
        if time or any(feature.kind == "time" for feature in self.features):
            unknown = [name for name in unknown if name != "time"]
        if unknown:
            name = min(unknown)
            raise ModelError(
                f"{where}: {name!r} is not defined in {self.name}"
                f"{_MEANT.get(name) or meant(name, self._names())}"
            )
        check_depth(tree, where, deep)
        check_exponents(tree, where)

    def _names(self) -> list[str]:
        """Return the names that an expression may use, the time among them."""
        return [*self.species, *self.parameters, *self.rules, "time"]

    def _rule_depths(self) -> dict[str, int]:
        """Depth of every rule with the rules in it; checks them on the way."""
        trees = {name: rule.expression for name, rule in self.rules.items()}
        deep: dict[str, int] = {}
        for name in dependency_order(trees, "rule"):
            self._check_expression(trees[name], f"rule for {name}", deep)
            deep[name] = depth(trees[name], deep)
        return deep

    def rule_expressions(self) -> dict[str, Expression]:
        """Every rule in terms of species and parameters alone (rules of rules are unfolded)."""
        return unfold({name: rule.expression for name, rule in self.rules.items()}, "rule")

    def counts_nothing(self) -> bool:
        """Return whether all species are quantities of equations: nothing reacts, nor is drawn."""
        drawn = any(feature.kind == "draw" for feature in self.features)
        return bool(self.rates) and not self.reactions and not drawn

    def constant_species(self) -> list[str]:
        """Fixed species that nothing changes: neither events, nor equations, nor draws.

        They are real numbers in rate laws and need not be whole.
        """
        changed = {*self.rates, *self.drawn_amounts()}
        changed.update(*(event.assignments for event in self.events))
        return [n for n, one in self.species.items() if one.fixed and n not in changed]

    def real_species(self) -> list[str]:
        """Species whose values are real numbers, not counts.

        They have a rate rule; or they are parameters that events change; or a random draw sets them
        and no reaction changes them. With rate rules and no reactions they are all species.
        """
        if self.counts_nothing():
            return list(self.species)
        real = {*self.rates, *self._unmoved_draws(), *self.set_by_events()}
        return [name for name in self.species if name in real]

    def _unmoved_draws(self) -> set[str]:
        """Species that draws set and no reaction changes."""
        names = set(self.drawn_amounts())
        for event in self.events:
            names |= {name for name, tree in event.assignments.items() if draws_in(tree)}
        if not names:
            return names
        changed = {name for reaction in self.reactions for name in reaction.net_change()}
        return names - {name for name in changed if not self.species[name].fixed}

    def drawn_amounts(self) -> dict[str, Expression]:
        """Initial values that each trajectory draws, or computes of such, in the order of use."""
        trees = {name: species.initial for name, species in self.species.items()}
        if not any(draws_in(tree) for tree in trees.values()):
            return {}
        return drawn_values(trees, self.rule_expressions(), "initial amount")

    def parameter_values(self, overrides: Mapping[str, float] | None = None) -> dict[str, float]:
        """Value of every parameter; expressions are evaluated.

        Raises
        ------
        ConfigError
            `overrides` names something that is not a parameter, or gives a value that is not
            finite.
        ModelError
            A parameter's expression uses a species, or is circular.
        """
        require_mapping(overrides or {}, "values of parameters", '{"k": 2.0}')
        for name, value in (overrides or {}).items():
            if name not in self.parameters:
                raise ConfigError(
                    f"{name!r} is not a parameter of {self.name}; "
                    f"parameters: {some(self.parameters)}"
                )
            if not (is_number(value) and math.isfinite(value)):
                raise ConfigError(f"parameter {name} cannot be {value}: it must be a finite number")
        trees = {**self.parameters, **{k: Number(float(v)) for k, v in (overrides or {}).items()}}
        values: dict[str, float] = {}
        for name in dependency_order(trees, "parameter"):
            left = [one for one in symbols(trees[name]) if one not in values]  # sets go through all
            if left:
                why = "; a rule takes species (add_rule)" if min(left) in self.species else ""
                raise ModelError(f"parameter {name}: {min(left)!r} is not a parameter{why}")
            values[name] = evaluate(trees[name], values)
        return {name: values[name] for name in trees}

    def initial_amounts(
        self,
        parameters: Mapping[str, float] | None = None,
        overrides: Mapping[str, float] | None = None,
        *,
        negative: bool = False,
    ) -> dict[str, float]:
        """Initial amount of every species (molecules, not rounded); 0 for random ones.

        Parameters
        ----------
        parameters
            Values of all parameters; the model's own if not given.
        overrides
            Other amounts of some species.
        negative
            Allow negative amounts, which equations may have; counts must round to 0 or more.

        Raises
        ------
        ConfigError
            `overrides` names something that is not a species.
        ModelError
            An amount is negative or not finite.
        """
        for given, example in ((parameters, '{"k": 2.0}'), (overrides, '{"X": 10}')):
            require_mapping({} if given is None else given, "values by name", example)
        values = dict(parameters) if parameters is not None else self.parameter_values()
        for name, value in (overrides or {}).items():
            if name not in self.species:
                raise ConfigError(
                    f"{name!r} is not a species of {self.name}; species: {some(self.species)}"
                )
            if not is_number(value):
                raise ConfigError(f"species {name} cannot be {value!r:.60}: it must be a number")
        drawn = self.drawn_amounts()
        trees = {name: species.initial for name, species in self.species.items()}
        trees |= {name: Number(float(value)) for name, value in (overrides or {}).items()}
        trees = {n: t for n, t in trees.items() if n not in drawn or n in (overrides or {})}
        rules = self.rule_expressions()
        unfolded = unfold({n: substitute(t, rules) for n, t in trees.items()}, "initial amount")
        at_start = {"time": 0.0, **values}
        amounts = {name: evaluate(tree, at_start) for name, tree in unfolded.items()}
        signed = set(self.rates).union(*(event.assignments for event in self.events))
        if self.counts_nothing():
            signed = set(self.species)
        for name, amount in amounts.items():
            if not (math.isfinite(amount) and (amount >= -0.5 or negative or name in signed)):
                hint = f"; {opt('method', 'ode')} can run it" if math.isfinite(amount) else ""
                raise ModelError(
                    f"species {name}: initial amount {amount:g} is not allowed, "
                    f"it must be 0 or more{hint}"
                )
        return {name: amounts.get(name, 0.0) for name in self.species}


def require_network(network: object, function: str) -> None:
    """Refuse what is no network, such as the path of a model, as an argument of a function."""
    if not isinstance(network, Network):
        raise ConfigError(
            f"{function} takes a network, not {network!r:.80}; ts.read reads one from a file"
        )
