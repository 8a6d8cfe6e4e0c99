"""How a network looks in a terminal and in a notebook: its reactions as equations, its numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from tauslab.model.expressions.expression import Call, Expression, Number, call, to_text
from tauslab.model.expressions.mass_action import recognise
from tauslab.model.expressions.trees import written_size
from tauslab.model.network.data import NetworkData
from tauslab.model.network.parts import Reaction, Species, TimedEvent
from tauslab.model.pictures.html import card, folded, table

_MOST_LINES = 20  # of each kind, in a terminal
_MOST_ROWS = 50  # and in a notebook
_LONGEST_LAW = 100
_LARGEST_LAW = 400  # operations that are written at all
_LONGEST_EQUATION = 36  # that others line up with
T = TypeVar("T")


def equation_text(reaction: Reaction) -> str:
    """The equation as `Network.add_reaction` takes it; an empty side is 0."""
    return f"{_side(reaction.reactants)} -> {_side(reaction.products)}"


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


def reaction_lines(network: NetworkData, most: int = _MOST_LINES) -> list[str]:
    """A line for each reaction with its equation and its rate, and how many more there are."""
    rows = list(_reaction_rows(network, most))
    names, equations = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    equations = min(equations, _LONGEST_EQUATION)
    lines = [f"  {name + ':':{names + 1}} {text:{equations}}  {law}" for name, text, law in rows]
    more = len(network.reactions) - len(rows)
    return lines + ([f"  and {more} more"] if more > 0 else [])


def network_text(network: NetworkData) -> str:
    """What `print` shows."""
    lines = [f"network {network.name}"]
    for title, texts in (
        ("species", _amounts(network.species)),
        ("parameters", _expressions(network.parameters)),
        ("rules", _expressions({k: rule.expression for k, rule in network.rules.items()})),
        ("equations d/dt", _expressions(network.rates)),
    ):
        shown = [f"  {name} = {value}" for name, value in _some(texts.items(), _MOST_LINES)]
        more = len(texts) - len(shown)
        lines += [f"{title}:", *shown] if shown else []
        lines += [f"  and {more} more"] if more > 0 else []
    lines += ["reactions:", *reaction_lines(network)] if network.reactions else []
    for event in network.events:
        if isinstance(event, TimedEvent):
            lines.append(f"event {event.name} at {short_text(event.time)}")
        else:
            lines.append(f"event {event.name} when {short_text(event.trigger)}")
    return "\n".join(lines)


def network_html(network: NetworkData) -> str:
    """What a notebook shows; every name and note is escaped."""
    count = len(network.species), len(network.reactions), len(network.parameters)
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
        _part("species and initial amounts", _amounts(network.species), network.labels),
        _part("parameters", _expressions(network.parameters)),
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
    for reaction in network.reactions[:most]:
        law = rate_text(reaction, network.species)
        if reaction.delay is not None:
            kind = "" if reaction.consuming else ", all at its end"
            law = f"{law}, complete after {short_text(reaction.delay)}{kind}"
        yield reaction.name, equation_text(reaction), law


def _side(amounts: Mapping[str, int]) -> str:
    terms = [name if count == 1 else f"{count} {name}" for name, count in amounts.items() if count]
    return " + ".join(terms) or "0"


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
