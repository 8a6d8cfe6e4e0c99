"""Names that decide how a variable changes: the graph of a dynamic Bayesian network."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.expressions.expression import Expression, substitute, symbols
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.network import Network


def right_sides(network: Network) -> dict[str, frozenset[str]]:
    """Names in the right-hand side of every variable's equation.

    A variable is a species that reactions, a rate rule or an event may change. Rules are replaced
    by their expressions. Names in the assignment of an event are included.
    """
    rules = network.rule_expressions()
    assigned = {name for event in network.events for name in event.assignments}
    changed = {name for reaction in network.reactions for name in reaction.net_change()}
    moving = {
        name: species
        for name, species in network.species.items()
        if name in network.rates or name in assigned or (name in changed and not species.fixed)
    }
    given = {n: s.initial for n, s in network.species.items() if n not in moving}
    given = {n: substitute(tree, rules) for n, tree in (network.parameters | given).items()}
    derived = unfold({n: tree for n, tree in given.items() if symbols(tree)}, "value")

    def names_of(tree: Expression) -> set[str]:
        names = set(symbols(substitute(tree, rules)))
        return names.union(*(symbols(derived[name]) for name in names & derived.keys()))

    read: dict[str, set[str]] = {name: set() for name in moving}
    for reaction in network.reactions:
        for name in reaction.net_change():
            if name in read and name not in network.rates and not moving[name].fixed:
                read[name] |= names_of(reaction.law)
    for name, tree in network.rates.items():
        read[name] |= names_of(tree)
    for event in network.events:
        for name, tree in event.assignments.items():
            read[name] |= names_of(tree)
    return {name: frozenset(names) for name, names in read.items()}


def parents(
    sides: Mapping[str, Collection[str]], unknown: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Parents of every variable: the variables that its equation reads, and itself.

    Variables are in the order of `sides`, followed by unknown parameters in their order (Liu, Hsu
    and Thiagarajan 2009; 2011).

    Examples
    --------
    >>> parents({"X": {"k", "X", "E"}, "E": set()}, ["k"])
    {'X': ('X', 'E', 'k'), 'E': ('E',)}

    Raises
    ------
    ConfigError
        An unknown parameter that no equation reads.
    """
    result = {}
    for name, read in sides.items():
        own = tuple(other for other in sides if other == name or other in read)
        result[name] = own + tuple(other for other in unknown if other in read)
    used = {name for own in result.values() for name in own}
    for name in unknown:
        if name not in used:
            raise ConfigError(
                f"{opt('unknown', name)}: no equation reads it, so nothing would be learnt about it"
            )
    return result
