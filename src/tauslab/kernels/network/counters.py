"""Counters of firings: hidden species behind all others, which nothing reads.

A kernel adds 1 to such a count with the other changes of a reaction. No propensity depends on it,
so it wakes no other reaction, limits no leap and moves no draw: a draw knows no species. Only
reactions that change the same counts draw one Poisson number together in a leap of generated code
(`tauslab.kernels.leaping.codegen.channels`), and with counters of their own each draws its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.expressions.expression import Number
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Species


def counter_of(reaction: str) -> str:
    """The name of the counter of a reaction: no name of a model has a bracket."""
    return f"fired[{reaction}]"


def with_counters(network: Network, reactions: Sequence[str]) -> Network:
    """The network with a counter for each of the reactions, behind its species."""
    if not reactions:
        return network
    hidden = {name: Species(name, Number(0.0)) for name in map(counter_of, reactions)}
    return replace(network, species={**network.species, **hidden})


def counting(network: LoweredNetwork, reactions: Sequence[str]) -> LoweredNetwork:
    """The lowered network of `with_counters`: each reaction adds 1 to its counter."""
    if not reactions:
        return network
    place = {name: network.species.index(counter_of(name)) for name in reactions}
    counted = tuple(
        replace(one, change=(*one.change, (place[one.name], 1))) if one.name in place else one
        for one in network.reactions
    )
    return replace(network, reactions=counted)


def apart(network: LoweredNetwork, reactions: Sequence[str]) -> list[str]:
    """Counted reactions of `counting` that change the same species as another reaction."""
    hidden = set(map(counter_of, reactions))
    changes = [
        tuple(change for change in one.change if network.species[change[0]] not in hidden)
        for one in network.reactions
    ]
    same = Counter(changes)
    pairs = zip(network.reactions, changes, strict=True)
    return [one.name for one, change in pairs if one.name in reactions and same[change] > 1]
