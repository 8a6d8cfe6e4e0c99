"""Networks as arrays, for kernels that are not unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Array, Backend
from tauslab.kernels.lowering import Constant, LoweredNetwork, LoweredReaction

LANES = 32  # fan-out of the sum tree; the canonical reduction has 32 virtual lanes
_GENERAL = -1  # in `constant_source`: the law is code, not mass action
_LITERAL = -2  # in `constant_source`: the constant stands in `literal`


def tree_nodes(n_reactions: int) -> int:
    """Nodes of a trajectory's sum tree: every level padded to groups of 32, and the root.

    >>> tree_nodes(33)  # 64 leaves, 32 sums of which 2 are used, the root
    97
    """
    nodes, size = 0, max(1, n_reactions)
    while size > 1 or nodes == 0:
        groups = -(-size // LANES)
        nodes, size = nodes + groups * LANES, groups
    return nodes + 1


class NetworkTables:
    """A network on the device: compressed rows of reactants, changes and readers.

    `reader` rows list, for each species, the reactions whose propensity reads it, in order; so the
    reactions to update after an event are found by walking the changed species, and no pairs of
    reactions are stored.
    """

    def __init__(self, backend: Backend, network: LoweredNetwork) -> None:
        self._backend = backend
        self._n_species = len(network.species)
        self._nodes = tree_nodes(len(network.reactions))
        reactions = network.reactions
        order_rows = [r.orders for r in reactions]
        change_rows = [r.change for r in reactions]
        need_rows = [r.needs for r in reactions]
        readers: list[list[int]] = [[] for _ in network.species]
        for j, reaction in enumerate(reactions):
            for index in sorted(reaction.depends_on()):
                readers[index].append(j)
        sources = np.array([_constant_source(r) for r in reactions], np.int32)
        literals = np.array([_literal(r) for r in reactions], np.float64)
        up = backend.upload
        self._arrays = [
            up(array)
            for array in (
                sources, literals, *_pairs(order_rows), *_pairs(change_rows), *_pairs(need_rows),
                *_singles(readers),
            )
        ]  # fmt: skip

    def bytes_per_trajectory(self) -> int:
        """Device memory that one trajectory in flight takes."""
        return 4 * self._n_species + 8 * self._nodes

    def scratch(self, items: int) -> tuple[Any, Any]:
        """State of `items` trajectories in flight: counts and the nodes of their sum trees."""
        counts = self._backend.empty((items, self._n_species), np.int32)
        return counts, self._backend.empty((items, self._nodes), np.float64)

    def arguments(self, scratch: tuple[Any, Any]) -> list[Any]:
        """Kernel arguments after the common ones."""
        return [*self._arrays, *scratch, self._nodes]


def _constant_source(reaction: LoweredReaction) -> int:
    if reaction.law is not None:
        return _GENERAL
    return reaction.constant.index if isinstance(reaction.constant, Constant) else _LITERAL


def _literal(reaction: LoweredReaction) -> float:
    if reaction.constant is None or isinstance(reaction.constant, Constant):
        return 0.0
    return reaction.constant.value


def _pairs(rows: list[tuple[tuple[int, int], ...]]) -> tuple[Array, Array, Array]:
    """Compressed rows of (index, value): offsets, indices, values."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    flat = [pair for row in rows for pair in row]
    return (
        offsets,
        np.array([index for index, _ in flat], np.int32),
        np.array([value for _, value in flat], np.int32),
    )


def _singles(rows: list[list[int]]) -> tuple[Array, Array]:
    """Compressed rows of indices: offsets, indices."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return offsets, np.array([index for row in rows for index in row], np.int32)
