"""The parts of a `Network`: species, reactions, rules, events, and features that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, Number, Symbol, call, draws_in
from tauslab.model.expressions.infix import as_expression
from tauslab.model.names import require_mapping
from tauslab.model.network.counts import meant
from tauslab.model.network.equations import LARGEST_COUNT, checked_count

Part = TypeVar("Part")

# Messages of the features "draw", "delay" and "delayed reaction".
DRAWN = "its math draws random numbers"
LOOKS_BACK = "its math uses a delay"
DELAYED = "it completes after a delay"
_AFTER_ALL = -1e300  # a priority below all that models have
_UNIT = re.compile(r"its (?:substance|extent) unit is '(\w+)'(?: \((.*)\))?\Z", re.DOTALL)


@dataclass(frozen=True)
class Species:
    """A kind of molecule.

    `initial` is an amount (molecules), an expression of parameters.  A `fixed` species keeps its
    initial amount whatever reactions do (SBML: constant, or boundaryCondition without a rule).
    """

    name: str
    initial: Expression
    fixed: bool = False
    compartment: str | None = None


@dataclass(frozen=True)
class Reaction:
    """One irreversible reaction.

    `reactants` and `products` map species to whole stoichiometries, 2147483647 at most.  `law` is
    the propensity (events per unit time) as an expression of species counts, parameters and rules;
    `limit` its limit for large counts, which ordinary differential equations use, where that
    differs.

    A reaction with a `delay` completes so much later than it begins; the delay is computed when it
    begins. If it is `consuming`, what it takes on balance leaves when it begins, and what it
    makes on balance comes when it completes. Else all changes come at the end, and a completion
    that finds fewer molecules than it takes changes nothing. (Barrio et al. 2006)
    """

    name: str
    reactants: Mapping[str, int]
    products: Mapping[str, int]
    law: Expression
    limit: Expression | None = None
    delay: Expression | None = None
    consuming: bool = True

    def __post_init__(self) -> None:
        """Refuse a coefficient that no count can change by."""
        for side in (self.reactants, self.products):
            for name, count in side.items():
                if not 0 <= count <= LARGEST_COUNT:
                    checked_count(count, name, f"reaction {self.name}")

    def begins_with(self) -> dict[str, int]:
        """Change of each count when the reaction begins; all of it without a delay."""
        change = self.net_change()
        if self.delay is None:
            return change
        return {name: by for name, by in change.items() if self.consuming and by < 0}

    def ends_with(self) -> dict[str, int]:
        """Change of each count when a delayed reaction completes."""
        begun = self.begins_with()
        return {name: by for name, by in self.net_change().items() if name not in begun}

    def net_change(self) -> dict[str, int]:
        """Change of each count when the reaction fires once; zero changes are left out."""
        change = {name: -count for name, count in self.reactants.items()}
        for name, count in self.products.items():
            change[name] = change.get(name, 0) + count
        return {name: count for name, count in change.items() if count}


@dataclass(frozen=True)
class Rule:
    """A quantity given at all times by an expression (SBML assignment rule, .net group, function).

    `recorded` rules are written to the file as observables.
    """

    name: str
    expression: Expression
    recorded: bool = True


@dataclass(frozen=True)
class TimedEvent:
    """At `time`, an expression of parameters, the named species get new amounts, all at once.

    A time of 0 or before never comes. One that a reader computed from a trigger is `switched`:
    there it means so.
    """

    name: str
    time: Expression
    assignments: Mapping[str, Expression]
    switched: bool = field(default=False, compare=False)

    def expressions(self) -> tuple[Expression, ...]:
        """All that it computes."""
        return (self.time, *self.assignments.values())

    def mapped(self, change: Callable[[Expression], Expression]) -> TimedEvent:
        """The event with every expression replaced by what `change` makes of it."""
        values = {name: change(tree) for name, tree in self.assignments.items()}
        return replace(self, time=change(self.time), assignments=values)


class Doubt(str):
    """A note of which a run warns: the model as it stands is likely not the one that was meant."""

    __slots__ = ()


@dataclass(frozen=True)
class Event:
    """New amounts of species, set all at once when `trigger` turns from false to true.

    The meaning is that of SBML Level 3 Version 2, section 4.11.

    Parameters
    ----------
    trigger
        A condition on species, parameters, rules and ``time``.
    delay
        Time from the trigger to the assignments, computed at the trigger; None for none.
    priority
        Of events at one time the one with the highest is executed first, one without a priority
        last, and equal ones in random order. Computed anew before each is chosen.
    persistent
        Whether it is executed even if the trigger turns false before; otherwise it is taken back.
    initial
        What the trigger counts as before time 0: if it is true at 0 and this is False, the event
        comes at 0.
    early
        Whether the values assigned are computed when the trigger turns true, not when they are set.
    """

    name: str
    trigger: Expression
    assignments: Mapping[str, Expression]
    delay: Expression | None = None
    priority: Expression | None = None
    persistent: bool = True
    initial: bool = True
    early: bool = True

    def expressions(self) -> tuple[Expression, ...]:
        """All that it computes."""
        optional = (part for part in (self.delay, self.priority) if part is not None)
        return (self.trigger, *optional, *self.assignments.values())

    def mapped(self, change: Callable[[Expression], Expression]) -> Event:
        """The event with every expression replaced by what `change` makes of it."""
        return replace(
            self,
            trigger=change(self.trigger),
            assignments={name: change(tree) for name, tree in self.assignments.items()},
            delay=None if self.delay is None else change(self.delay),
            priority=None if self.priority is None else change(self.priority),
        )


def as_events(events: Sequence[TimedEvent | Event]) -> Iterator[Event]:
    """Events, of which those at times have triggers and find their values when they are executed.

    These come in the order in which they are listed, after all events that have a priority.
    """
    only_times = all(isinstance(event, TimedEvent) for event in events)
    for place, event in enumerate(events):
        if isinstance(event, TimedEvent):
            order = -float(place) if only_times else _AFTER_ALL * (1.0 + place * 2.0**-20)
            trigger = call("ge", Symbol("time"), event.time)
            priority = Number(order)
            yield Event(event.name, trigger, event.assignments, priority=priority, early=False)
        else:
            yield event


@dataclass(frozen=True)
class Feature:
    """Something in the model file that not every engine can honour, named for the error message.

    `kind` is one of ``event``, ``rate rule``, ``algebraic rule``, ``delay``, ``time``, ``mole``,
    ``reversible``, ...; `element` says where it stands, for instance ``reaction R7``.
    """

    kind: str
    element: str
    message: str


def unit_message(what: str, unit: str, title: str = "") -> str:
    """Message of a feature: amounts have a unit of the file, which may have a title.

    A canonical text stores features by their messages, and `unit_in` takes the unit from there.

    >>> unit_message("substance", "nM", "nano"), unit_in(unit_message("extent", "nM", "nano"))
    ("its substance unit is 'nM' (nano)", ('nM', 'nano'))
    """
    return f"its {what} unit is {unit!r}" + (f" ({title})" if title and title != unit else "")


def unit_in(message: str) -> tuple[str, str] | None:
    """Unit and title that `unit_message` was given; None of other messages."""
    result = _UNIT.match(message)
    return None if result is None else (result[1], result[2] or "")


def draw_refused(tree: Expression) -> str:
    """Return the message on a formula that draws although it holds at all times."""
    return (
        f"its math draws {min(draws_in(tree))!r}; assignments, delays and priorities of events, "
        "delays of reactions and initial values may"
    )


class _Parts(dict[str, Part]):
    """Parts by name: all that is put in goes through ``[...] =``."""

    @classmethod
    def anew(cls, what: str, values: Any, before: Self) -> Self:
        """The parts of a whole mapping, in which a number is a new value of a part `before`.

        Raises
        ------
        ModelError
            `what` is given something else, or a number for a name that is not there.
        """
        if not isinstance(values, Mapping):
            raise ModelError(f"{what}: give a mapping by name, not {type(values).__name__}")
        numbers = {name: value for name, value in values.items() if not cls.is_part(value)}
        if not numbers:
            return cls(values)
        changed = cls(before)
        changed.update(numbers)
        return cls({name: changed[name] if name in numbers else values[name] for name in values})

    @staticmethod
    def is_part(value: Any) -> bool:
        """Return whether it is what the mapping holds, not a number that stands for one."""
        return isinstance(value, Expression)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        """Set several."""
        self.update(other)
        return self


class Parameters(_Parts[Expression]):
    """Parameters by name: ``parameters["k"] = 2.0`` replaces the value of one."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Set an `Expression`, or the value of a parameter that exists: a number.

        Raises
        ------
        ModelError
            It is not a number, or the parameter does not exist.
        """
        if not self.is_part(value):
            value = _replacement(name, value, self, "parameter")
        super().__setitem__(name, value)


class SpeciesByName(_Parts[Species]):
    """Species by name: ``species["X"] = 10`` replaces the initial amount of one."""

    @staticmethod
    def is_part(value: Any) -> bool:
        """Return whether it is a species."""
        return hasattr(value, "initial")

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a `Species`, or the initial amount of one that exists: a number (molecules).

        Raises
        ------
        ModelError
            It is not a number, or the species does not exist.
        """
        if not self.is_part(value):
            initial = _replacement(name, value, self, "species")
            value = replace(self[name], initial=initial)
        super().__setitem__(name, value)


class Rules(_Parts[Rule]):
    """Rules by name, which `Network.add_rule` adds."""

    _ADDS = "rule"

    @staticmethod
    def is_part(value: Any) -> bool:
        """Return whether it is a rule."""
        return hasattr(value, "expression")

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a part.

        Raises
        ------
        ModelError
            It is a number or a text.
        """
        if not self.is_part(value):
            first = f"del {self._ADDS}s[{name!r}], then " if name in self else ""
            raise ModelError(
                f"{self._ADDS}s[{name!r}] = {value!r:.60} is not allowed: "
                f"{first}call add_{self._ADDS}({name!r}, {value!r:.60})"
            )
        super().__setitem__(name, value)


class Rates(Rules):
    """Expressions of rate rules by species, which `Network.add_rate` adds."""

    _ADDS = "rate"
    is_part = staticmethod(_Parts.is_part)


def _replacement(name: str, value: Any, known: dict[str, Any], kind: str) -> Expression:
    """The value of a part that exists: `add_species` and `add_parameter` note what formulas use."""
    if name not in known:
        word = "a species" if kind == "species" else "a parameter"
        raise ModelError(f"{name!r} is not {word}{meant(name, known)}; add_{kind} adds one")
    if isinstance(value, str):
        raise ModelError(f"{kind} {name}: assign a number; add_{kind} takes formulas")
    try:
        return as_expression(value)
    except ModelError as error:
        raise ModelError(f"{kind} {name}: {error}") from None


_SETTABLE: dict[str, Any] = {
    "species": SpeciesByName, "parameters": Parameters, "rules": Rules, "rates": Rates,
}  # fmt: skip


@dataclass(repr=False)
class NetworkData:
    """The fields of a network, without the methods that build and check it.

    `Network`, the class that users see, adds the methods and says what each field means.
    """

    name: str = "network"
    species: dict[str, Species] = field(default_factory=dict)
    parameters: dict[str, Expression] = field(default_factory=dict)
    reactions: list[Reaction] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)
    rates: dict[str, Expression] = field(default_factory=dict)
    events: list[TimedEvent | Event] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    t_end: float | None = None
    source_path: Path | None = field(default=None, compare=False)
    source_text: str | None = field(default=None, compare=False, repr=False)
    source_digest: str | None = field(default=None, compare=False)
    notes: list[str] = field(default_factory=list, compare=False)
    labels: dict[str, str] = field(default_factory=dict)
    molecules_per_unit: float | None = field(default=None, compare=False)
    amount_unit: str = field(default="molecules", compare=False)
    time_unit: str = field(default="", compare=False)
    count_unit: str = field(default="molecules", compare=False)
    read_at_start: dict[str, set[str]] = field(default_factory=dict, compare=False)
    _reaction_names: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _unnamed: dict[object, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    _local: dict[str, list[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # parameters of each reaction alone
    _set_by_events: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def set_by_events(self) -> list[str]:
        """Parameters that events change: fixed species without compartment that an event sets."""
        assigned = {name for event in self.events for name in event.assignments}
        return [
            name
            for name, one in self.species.items()
            if name in assigned and one.fixed and one.compartment is None
        ]

    def with_parameters(self, values: Mapping[str, float | Expression]) -> Self:
        """A network with other values of some parameters.

        Raises
        ------
        ModelError
            A name is not a parameter, or a value is not a number.
        """
        require_mapping(values, "values of parameters", '{"k": 2.0}')
        result = object.__new__(type(self))
        vars(result).update(vars(self))
        merged: dict[str, Any] = {**self.parameters, **values}
        result.parameters = merged
        return result

    def __copy__(self) -> Self:
        """Return a copy with parts of its own, which can be set apart."""
        result = object.__new__(type(self))
        for name, value in vars(self).items():
            apart = isinstance(value, dict | list | set)
            setattr(result, name, type(value)(value) if apart else value)
        return result

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; species and parameters take numbers, also in a mapping that is assigned."""
        if name in _SETTABLE:
            value = _SETTABLE[name].anew(name, value, vars(self).get(name, {}))
        super().__setattr__(name, value)
