"""One text per model: the normal form that is stored in results and hashed.

It is TOML that `tauslab.formats.toml.network` reads back to a network with the same
propensities, bit for bit: laws keep their brackets and so the order of evaluation, numbers are
written so that they read back to the same double, and everything keeps its
order, which the random draws depend on.  The
model's name and path are not part of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import write_whole
from tauslab.base.files.opening import at_home
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    to_text,
    written_size,
)
from tauslab.model.network.equations import equation_text
from tauslab.model.network.parts import Event, NetworkData, Reaction, Rule, TimedEvent

# Numbers, names and operations in a normal form. Expressions that use parts many times over may be
# more than any file holds: then these parts get names.
_MOST_WRITTEN = 4_000_000
_SPECIES = "\n[species]\n"
_PREFIX = "shared_"  # of the names that parts of expressions get
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def canonical_text(network: NetworkData, *, limits: bool = True) -> str:
    """Normal form of `network`, as TOML.

    Two networks with the same normal form are the same process.  Where the network cannot say all
    that its source says (it has `features`), a digest of the source stands for the rest.

    Parameters
    ----------
    limits
        Whether to write the limits of laws for large counts, which only ``ode`` uses.
    """
    return "\n".join(_lines(network, limits=limits)) + "\n"


def with_numbers_of(network: NetworkData, text: str) -> str:
    """`canonical_text` of a network, from the `text` of one with other numbers as parameters."""
    return "\n".join(_to_parameters(network)) + text[text.index(_SPECIES) :]


def write_network(network: NetworkData, path: str | Path) -> Path:
    """Write a network as TOML that `tauslab.read` reads as an equal one.

    Raises
    ------
    ConfigError
        It is no path, or does not end in ``.toml``.
    OutputError
        The file cannot be written.
    """
    path = at_home(path)
    if path.suffix.lower() != ".toml":
        raise ConfigError(f"{path}: a network is written as .toml, or by to_sbml()")
    write_whole(path, f"name = {quoted(network.name)}\n{canonical_text(network)}")
    return path


def model_sha256(network: NetworkData) -> str:
    """SHA-256 of `canonical_text` without limits, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_text(network, limits=False).encode()).hexdigest()


def _lines(network: NetworkData, *, limits: bool) -> Iterator[str]:
    trees = list(_expressions(network, limits=limits))
    if sum(map(written_size, trees)) > _MOST_WRITTEN:
        network = with_named_parts(network, trees)
    yield from _to_parameters(network)
    yield _SPECIES.strip()
    for name in network.species:
        yield f"{name} = {_species(network, name)}"
    yield "[rules]"
    for name, rule in network.rules.items():
        text = expression_toml(rule.expression)
        yield f"{name} = {text if rule.recorded else f'{{expression = {text}, recorded = false}}'}"
    for name, tree in network.rates.items():
        yield f"{name} = {expression_toml(tree)}"
    for reaction in network.reactions:
        yield from _reaction(reaction, limits=limits)
    for event in network.events:
        yield "[[events]]"
        yield f"name = {quoted(event.name)}"
        yield from _event_keys(event)
        pairs = (f"{name} = {expression_toml(tree)}" for name, tree in event.assignments.items())
        yield f"assignments = {{{', '.join(pairs)}}}"
    for feature in network.features:
        yield "[[features]]"
        yield f"kind = {quoted(feature.kind)}"
        yield f"element = {quoted(feature.element)}"
        yield f"message = {quoted(feature.message)}"


def _to_parameters(network: NetworkData) -> Iterator[str]:
    """Lines before those of species."""
    if network.t_end is not None:
        yield f"t_end = {float(network.t_end)!r}"
    if network.features:
        yield f"source_digest = {quoted(_source_digest(network))}"
    yield "[parameters]"
    for name, value in network.parameters.items():
        yield f"{name} = {expression_toml(value)}"


def _expressions(network: NetworkData, *, limits: bool) -> Iterator[Expression]:
    """Every expression of a network."""
    yield from network.parameters.values()
    yield from (species.initial for species in network.species.values())
    yield from (rule.expression for rule in network.rules.values())
    yield from network.rates.values()
    for reaction in network.reactions:
        yield reaction.law
        if limits and reaction.limit is not None:
            yield reaction.limit
    for event in network.events:
        yield from event.expressions()


def _reaction(reaction: Reaction, *, limits: bool) -> Iterator[str]:
    yield "[[reactions]]"
    yield f"name = {quoted(reaction.name)}"
    yield f'equation = "{equation_text(reaction.reactants, reaction.products)}"'
    yield f"law = {expression_toml(reaction.law)}"
    if limits and reaction.limit is not None:
        yield f"limit = {expression_toml(reaction.limit)}"
    if reaction.delay is not None:
        yield f"delay = {expression_toml(reaction.delay)}"
    if not reaction.consuming:
        yield "consuming = false"


def _event_keys(event: TimedEvent | Event) -> Iterator[str]:
    """Yield the keys of an event's time or trigger; defaults are left out."""
    if isinstance(event, TimedEvent):
        yield f"time = {expression_toml(event.time)}"
        return
    yield f"trigger = {expression_toml(event.trigger)}"
    if event.delay is not None:
        yield f"delay = {expression_toml(event.delay)}"
    if event.priority is not None:
        yield f"priority = {expression_toml(event.priority)}"
    for key, value in (
        ("persistent", event.persistent),
        ("initial", event.initial),
        ("early", event.early),
    ):
        if not value:
            yield f"{key} = false"


def _species(network: NetworkData, name: str) -> str:
    species = network.species[name]
    keys = [f"initial = {expression_toml(species.initial)}"]
    if species.fixed:
        keys.append("fixed = true")
    if species.compartment is not None:
        keys.append(f"compartment = {quoted(species.compartment)}")
    if name in network.labels:
        keys.append(f"label = {quoted(network.labels[name])}")
    return f"{{{', '.join(keys)}}}"


def expression_toml(tree: Expression) -> str:
    """A number as TOML writes it, everything else as text in quotes."""
    return repr(tree.value) if isinstance(tree, Number) else f'"{to_text(tree)}"'


def quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's too, except that DEL has to be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _source_digest(network: NetworkData) -> str:
    """Digest of the source; comments of XML and the amount of white space do not count."""
    if network.source_digest is not None:
        return network.source_digest
    text = " ".join(_COMMENT.sub(" ", network.source_text or "").split())
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def with_named_parts(network: NetworkData, trees: Iterable[Expression]) -> NetworkData:
    """Return the same process, with a name for each operation that `trees` use more than once.

    Operations on parameters alone become parameters, others rules that are not recorded. The
    order of operations stays, and so do all values, bit for bit.

    Parameters
    ----------
    trees
        Expressions of `network` that are to become short; others stay as they are.
    """
    naming = _Naming(network, trees)
    result = replace(network)
    result.parameters = {
        **{name: naming.short(tree) for name, tree in network.parameters.items()},
        **naming.parameters,
    }
    result.species = {
        name: replace(species, initial=naming.short(species.initial))
        for name, species in network.species.items()
    }
    result.rules = {name: Rule(name, tree, False) for name, tree in naming.rules.items()} | {
        name: replace(rule, expression=naming.short(rule.expression))
        for name, rule in network.rules.items()
    }
    result.rates = {name: naming.short(tree) for name, tree in network.rates.items()}
    result.reactions = [
        replace(
            reaction,
            law=naming.short(reaction.law),
            limit=None if reaction.limit is None else naming.short(reaction.limit),
        )
        for reaction in network.reactions
    ]
    result.events = [event.mapped(naming.short) for event in network.events]
    return result


class _Naming:
    """Names of the parts that occur more than once, by identity, and what they stand for."""

    def __init__(self, network: NetworkData, trees: Iterable[Expression]) -> None:
        self.parameters: dict[str, Expression] = {}
        self.rules: dict[str, Expression] = {}
        self._short: dict[int, Expression] = {}
        taken = network.species.keys() | network.parameters.keys() | network.rules.keys()
        order: dict[int, Expression] = {}
        uses: Counter[int] = Counter()
        for tree in trees:
            uses[id(tree)] += 1
            for node in arguments_first(tree, order):
                order[id(node)] = node
                uses.update(id(part) for part in _arguments(node))
        constant: set[int] = set()  # of parameters alone
        number = 0
        for key, node in order.items():
            parts = _arguments(node)
            if isinstance(node, Symbol):
                of_parameters = node.name in network.parameters
            else:
                of_parameters = all(id(part) in constant for part in parts)
            if of_parameters:
                constant.add(key)
            short = node
            if isinstance(node, Call):
                short = Call(node.function, tuple(self._short[id(part)] for part in parts))
            if uses[key] > 1 and parts:
                number += 1
                while f"{_PREFIX}{number}" in taken:
                    number += 1
                name = f"{_PREFIX}{number}"
                (self.parameters if of_parameters else self.rules)[name] = short
                short = Symbol(name)
            self._short[key] = short

    def short(self, tree: Expression) -> Expression:
        """The expression with names in place of what has one."""
        return self._short.get(id(tree), tree)


def _arguments(tree: Expression) -> tuple[Expression, ...]:
    return tree.arguments if isinstance(tree, Call) else ()
