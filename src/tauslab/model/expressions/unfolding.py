"""Expressions that use each other by name: their order, and each without the names of others."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, draws_in, substitute, symbols


def unfold(trees: Mapping[str, Expression], what: str) -> dict[str, Expression]:
    """Replace names of `trees` inside each other until none is left."""
    done: dict[str, Expression] = {}
    for name in dependency_order(trees, what):
        done[name] = substitute(trees[name], done)
    return {name: done[name] for name in trees}


def drawn_values(
    trees: Mapping[str, Expression], rules: Mapping[str, Expression], what: str
) -> dict[str, Expression]:
    """Select the trees that draw random numbers or use one that does, each after its own.

    What another reads is the number that was drawn, not a second draw. `rules` are unfolded.
    """
    if not any(draws_in(tree) for tree in trees.values()):
        return {}
    whole = {name: substitute(tree, rules) for name, tree in trees.items()}
    result: dict[str, Expression] = {}
    for name in dependency_order(whole, what):
        if draws_in(whole[name]) or symbols(whole[name]) & result.keys():
            result[name] = whole[name]
    return result


def dependency_order(trees: Mapping[str, Expression], what: str) -> list[str]:
    """Names of `trees`, each after those that its tree uses."""
    uses = {name: sorted(symbols(tree) & trees.keys()) for name, tree in trees.items()}
    if not any(uses.values()):
        return list(trees)
    try:
        return list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ModelError(f"{what} {error.args[1][0]} depends on itself ({circle})") from None
