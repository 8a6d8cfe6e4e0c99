"""Which names decide how a variable changes: the graph of a dynamic Bayesian network."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tauslab.model.errors import ConfigError
from tauslab.model.expression import Expression, substitute, symbols
from tauslab.model.network import Network, unfold


def right_sides(network: Network) -> dict[str, frozenset[str]]:
    """Names in the right-hand side of every variable's equation.

    A variable is a species that reactions may change. Rules are written out, and so are
    parameters that are given by others: names are species and parameters that stand for themselves
    alone, or both for themselves and for what gives them their value.
    """
    rules = network.rule_expressions()
    given = {name: tree for name, tree in network.parameters.items() if symbols(tree)}
    derived = unfold(given, "parameter")
    read: dict[str, set[str]] = {
        name: set() for name, species in network.species.items() if not species.fixed
    }
    for reaction in network.reactions:
        names = symbols(substitute(reaction.law, rules))
        for name in sorted(names & derived.keys()):
            names = names | symbols(derived[name])
        for changed in reaction.net_change():
            if changed in read:
                read[changed] |= names
    return {name: frozenset(names) for name, names in read.items()}


def names_in(equations: Mapping[str, Expression]) -> dict[str, frozenset[str]]:
    """Names in the right-hand side of every equation, for equations that are written out."""
    return {name: frozenset(symbols(tree)) for name, tree in equations.items()}


def parents(
    sides: Mapping[str, Collection[str]], unknown: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Parents of every variable: those that its equation reads, and itself.

    Variables stand in the order of `sides`, unknown parameters after them in their own; so a node
    of a time point is decided by the nodes before the step (Liu, Hsu and Thiagarajan 2009; 2011).

    >>> parents({"X": {"k", "X", "E"}, "E": set()}, ["k"])
    {'X': ('X', 'E', 'k'), 'E': ('E',)}

    Raises
    ------
    ConfigError
        An unknown parameter that no equation reads.
    """
    found = {}
    for name, read in sides.items():
        own = tuple(other for other in sides if other == name or other in read)
        found[name] = own + tuple(other for other in unknown if other in read)
    used = {name for own in found.values() for name in own}
    for name in unknown:
        if name not in used:
            raise ConfigError(
                f"--unknown {name}: no equation reads it, so nothing would be learnt about it"
            )
    return found
