"""Text and HTML of a network for terminals and notebooks: equations of reactions, numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from tauslab.base.html import card, folded, table
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    call,
    to_text,
    written_size,
)
from tauslab.model.expressions.mass_action import recognise
from tauslab.model.network.equations import equation_text
from tauslab.model.network.parts import Event, NetworkData, Reaction, Species, TimedEvent

_MOST_LINES = 20  # of each kind, in a terminal
_MOST_ROWS = 50  # and in a notebook
_LONGEST_LAW = 100
_LARGEST_LAW = 400  # operations that are written at all
_LONGEST_EQUATION = 36  # that others line up with
T = TypeVar("T")


def rate_text(reaction: Reaction, species: Collection[str]) -> str:
    """``rate k`` of mass action with the reactants of the equation, else ``law ...``."""
    form = recognise(reaction.law, species)
    if form is not None and form.orders == {k: n for k, n in reaction.reactants.items() if n}:
        combinations = math.prod(math.factorial(order) for order in form.orders.values())
        return f"rate {short_text(_times(form.constant, combinations))}"
    return f"law {short_text(reaction.law)}"


def short_text(expression: Expression) -> str:
    """An expression as a text without its end where it is long."""
    size = written_size(expression)
    if size > _LARGEST_LAW:
        return f"(an expression of {size} operations)"
    if isinstance(expression, Number):
        return f"{expression.value:g}"
    text = to_text(expression)
    return text if len(text) <= _LONGEST_LAW else f"{text[: _LONGEST_LAW - 4]} ..."


def shortened(texts: Sequence[str], most: int = 12) -> str:
    """The first few of many texts, and how many more there are.

    >>> shortened(["A", "B", "C"], most=2)
    'A, B, and 1 more'
    """
    more = len(texts) - most
    return ", ".join([*texts[:most], *([f"and {more} more"] if more > 0 else [])])


def reaction_lines(network: NetworkData, most: int = _MOST_LINES) -> list[str]:
    """A line for each reaction with its equation and its rate, and how many more there are."""
    rows = list(_reaction_rows(network, most))
    names, equations = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    equations = min(equations, _LONGEST_EQUATION)
    lines = [f"  {name + ':':{names + 1}} {text:{equations}}  {law}" for name, text, law in rows]
    more = len(network.reactions) - len(rows)
    return lines + ([f"  and {more} more"] if more > 0 else [])


def rule_lines(network: NetworkData, most: int) -> list[str]:
    """Lines for what rules give at all times, and for what equations move."""
    rules = {name: rule.expression for name, rule in network.rules.items()}
    moved = _listed("equations d/dt", _expressions(network.rates), most)
    return _listed("rules", _expressions(rules), most) + moved


def event_lines(network: NetworkData, most: int) -> list[str]:
    """A line for each event: when it comes, what it sets, and how."""
    lines = [_event_line(event) for event in network.events[:most]]
    more = len(network.events) - len(lines)
    return lines + ([f"and {more} more events"] if more > 0 else [])


def event_facts(event: TimedEvent | Event) -> dict[str, object]:
    """Return the facts of `event_lines` on an event, for programs."""
    sets = {name: short_text(tree) for name, tree in event.assignments.items()}
    if isinstance(event, TimedEvent):
        return {"name": event.name, "time": short_text(event.time), "assignments": sets}
    return {
        "name": event.name,
        "trigger": short_text(event.trigger),
        "assignments": sets,
        "delay": None if event.delay is None else short_text(event.delay),
        "priority": None if event.priority is None else short_text(event.priority),
        "persistent": event.persistent,
        "initial": event.initial,
        "early": event.early,
    }


def _event_line(event: TimedEvent | Event) -> str:
    sets = ", ".join(f"{name} = {short_text(t)}" for name, t in event.assignments.items())
    if isinstance(event, TimedEvent):
        return f"event {event.name} at {short_text(event.time)}: {sets}"
    how = [
        f"{word} {short_text(tree)}"
        for word, tree in (("after", event.delay), ("priority", event.priority))
        if tree is not None
    ]
    how += [] if event.persistent else ["taken back if its trigger turns false"]
    how += [] if event.initial else ["comes at 0 if its trigger is true there"]
    how += [] if event.early or event.delay is None else ["values of when it is executed"]
    return "; ".join([f"event {event.name} when {short_text(event.trigger)}: {sets}", *how])


def _listed(title: str, texts: Mapping[str, str], most: int) -> list[str]:
    lines = [f"  {name} = {value}" for name, value in _some(texts.items(), most)]
    more = len(texts) - len(lines)
    lines += [f"  and {more} more"] if more > 0 else []
    return [f"{title}:", *lines] if lines else []


def network_text(network: NetworkData) -> str:
    """Return the text that `print` shows."""
    lines = [f"network {network.name}"]
    species, parameters = _species_and_parameters(network)
    lines += _listed("species", species, _MOST_LINES)
    lines += _listed("parameters", parameters, _MOST_LINES)
    lines += rule_lines(network, _MOST_LINES)
    lines += ["reactions:", *reaction_lines(network)] if network.reactions else []
    return "\n".join(lines + event_lines(network, _MOST_LINES))


def network_html(network: NetworkData) -> str:
    """Return the HTML that a notebook shows; every name and note is escaped."""
    species, parameters = _species_and_parameters(network)
    count = len(species), len(network.reactions), len(parameters)
    facts = {
        "size": "{} species, {} reactions, {} parameters".format(*count),
        "file": "" if network.source_path is None else network.source_path,
        "end time": "" if network.t_end is None else f"{network.t_end:g}",
        "events": ", ".join(event.name for event in _some(network.events, _MOST_ROWS)),
    }
    parts = [
        table(
            ("reaction", "equation", "rate"),
            list(_reaction_rows(network, _MOST_ROWS)),
            more=len(network.reactions) - _MOST_ROWS,
        ),
        _part("species and initial amounts", species, network.labels),
        _part("parameters", parameters),
        _part("rules", _expressions({k: r.expression for k, r in network.rules.items()})),
        _part("equations d/dt", _expressions(network.rates)),
        folded("notes", table(("note",), [(note,) for note in network.notes])),
    ]
    return card(f"Network {network.name}", facts, parts)


def _part(title: str, values: Mapping[str, str], labels: Mapping[str, str] | None = None) -> str:
    labels = labels or {}
    rows = [
        (name, value, *((labels.get(name, ""),) if labels else ()))
        for name, value in _some(values.items(), _MOST_ROWS)
    ]
    header = ("name", "value", *(("pattern",) if labels else ()))
    return folded(f"{title} ({len(values)})", table(header, rows, more=len(values) - _MOST_ROWS))


def _reaction_rows(network: NetworkData, most: int) -> Iterator[tuple[str, str, str]]:
    counted = network.species.keys() - set(network.set_by_events())
    for reaction in network.reactions[:most]:
        law = rate_text(reaction, counted)
        if reaction.delay is not None:
            kind = "" if reaction.consuming else ", all at its end"
            law = f"{law}, complete after {short_text(reaction.delay)}{kind}"
        sides = reaction.reactants, reaction.products
        used = ({name: count for name, count in side.items() if count} for side in sides)
        yield reaction.name, equation_text(*used), law


def _times(constant: Expression, factor: int) -> Expression:
    """A constant times a whole number; what the builder divided by it is as it was given."""
    if factor == 1:
        return constant
    if isinstance(constant, Call) and constant.function == "div":
        first, second = constant.arguments
        if second == Number(float(factor)):
            return first
    if isinstance(constant, Number):
        return Number(constant.value * factor)
    return call("mul", float(factor), constant)


def _species_and_parameters(network: NetworkData) -> tuple[dict[str, str], dict[str, str]]:
    """Texts of amounts and values; what events set is a parameter."""
    moved = network.set_by_events()
    species = {name: one for name, one in network.species.items() if name not in moved}
    changed = {n: f"{short_text(network.species[n].initial)} (events change it)" for n in moved}
    return _amounts(species), _expressions(network.parameters) | changed


def _amounts(species: Mapping[str, Species]) -> dict[str, str]:
    return {
        name: short_text(one.initial) + (" (fixed)" if one.fixed else "")
        for name, one in _some(species.items(), _MOST_ROWS)
    } | dict.fromkeys(list(species)[_MOST_ROWS:], "")


def _expressions(trees: Mapping[str, Expression]) -> dict[str, str]:
    return {name: short_text(tree) for name, tree in _some(trees.items(), _MOST_ROWS)} | (
        dict.fromkeys(list(trees)[_MOST_ROWS:], "")
    )


def _some(values: Iterable[T], most: int) -> list[T]:
    return list(islice(values, most))
