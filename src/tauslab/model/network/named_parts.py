"""Networks in which parts that expressions share have names, so that no expression is long.

An expression in memory is a graph: a part that it uses a million times is one object. As text it
would be written a million times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tauslab.model.expressions.expression import Call, Expression, Symbol, arguments_first
from tauslab.model.network.data import NetworkData
from tauslab.model.network.parts import Rule

_PREFIX = "shared_"


def with_named_parts(network: NetworkData, trees: Iterable[Expression]) -> NetworkData:
    """The same process, with a name for every operation that `trees` use more than once.

    Those of parameters alone become parameters, others rules that are not recorded. The order of
    operations stays, and so do all values, bit for bit.

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
