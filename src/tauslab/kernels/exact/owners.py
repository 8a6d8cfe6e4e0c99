"""Owners of reactions among the species, and the terms that they sum: the selector `pdm`.

A mass-action reaction of one or two molecules is owned by one of its species; owner, rate constant
and kind make a *term*, see tables/forest.h. Of two species the one that changes more often owns,
because a change of the owner costs nothing: the terms hold the counts of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.network.lowering import Constant, LoweredNetwork, LoweredReaction
from tauslab.kernels.network.tables import LANES

PARTNERS, SAME_SPECIES, FIXED = 0, 1, 2  # as in csrc/tables/forest.h
LITERAL_CONSTANT = -2
GENERAL_LAW = -1
QUANTITY_CONSTANT = -3  # less the number of a quantity that the constant is multiplied by


@dataclass(frozen=True)
class Terms:
    """Terms by owner, each with its members in order.

    `owner`, `kind`, `source`, `literal`: one entry a term, terms of an owner together, owners in
    order. `start` cuts `reaction` and `partner` (-1: none) into the terms' members. `owners` are
    the species, most frequently changed first.
    """

    owners: IntArray
    owner: IntArray
    kind: IntArray
    source: IntArray
    literal: FloatArray
    start: IntArray
    reaction: IntArray
    partner: IntArray

    @property
    def sizes(self) -> IntArray:
        """Members of every term."""
        return np.diff(self.start)


def can_be_owned(reaction: LoweredReaction) -> bool:
    """Return whether the propensity is a constant times one or two counts."""
    if reaction.law is not None or reaction.needs or reaction.quantity is not None:
        return False
    return 1 <= sum(order for _, order in reaction.orders) <= 2


def constant_source(reaction: LoweredReaction) -> int:
    """Index of the row's constant, or what stands in its place."""
    if reaction.law is not None:
        return GENERAL_LAW
    if reaction.quantity is not None:
        return QUANTITY_CONSTANT - reaction.quantity
    return reaction.constant.index if isinstance(reaction.constant, Constant) else LITERAL_CONSTANT


def literal_of(reaction: LoweredReaction) -> float:
    """The rate constant, where it is the same for all trajectories."""
    if reaction.constant is None or isinstance(reaction.constant, Constant):
        return 0.0
    return reaction.constant.value


def change_weights(network: LoweredNetwork, firings: FloatArray | None = None) -> FloatArray:
    """Number of changes of each species, f64 ``[species]``, by the reactions that change it.

    `firings`, f64 ``[reaction]``, are how often each fires in a pilot; without them each counts
    once, which is a guess from the network alone.
    """
    changed = np.fromiter((i for r in network.reactions for i, _ in r.change), np.int64)
    times = None
    if firings is not None:
        times = np.repeat(firings, np.array([len(r.change) for r in network.reactions], np.int64))
    result = np.bincount(changed, weights=times, minlength=len(network.species))
    return result.astype(np.float64)


def build_terms(network: LoweredNetwork, chosen: IntArray, weights: FloatArray) -> Terms:
    """Terms of the reactions `chosen`, all of which can be owned."""
    reactions = [network.reactions[j] for j in chosen.tolist()]
    pairs = [[i for i, order in r.orders for _ in range(order)] for r in reactions]
    first = np.array([pair[0] for pair in pairs], np.int64)
    second = np.array([pair[-1] if len(pair) == 2 else -1 for pair in pairs], np.int64)
    kind = np.where(second < 0, FIXED, np.where(second == first, SAME_SPECIES, PARTNERS))
    swap = (kind == PARTNERS) & (weights[second] > weights[first])
    owner = np.where(swap, second, first)
    partner = np.where(kind == SAME_SPECIES, first, np.where(swap, first, second))

    # Owners in the order of how often they change: what changes often lies together.
    ranking = np.argsort(-weights, kind="stable")
    rank = np.empty(len(weights), np.int64)
    rank[ranking] = np.arange(len(weights))
    source = np.array([constant_source(r) for r in reactions], np.int64)
    literal = np.array([literal_of(r) for r in reactions])
    apart = np.where(kind == SAME_SPECIES, chosen, -1)  # two of these never share a term
    order = np.lexsort(
        (
            chosen, np.where(partner >= 0, rank[partner], 0), apart, literal, source, kind,
            rank[owner],
        )
    )  # fmt: skip
    keys = np.stack([rank[owner], kind, source, literal.view(np.int64), apart])[:, order]
    new = np.ones(len(order), bool)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    start = np.append(np.flatnonzero(new), len(order))
    heads = order[start[:-1]]
    owners, index = np.unique(rank[owner[heads]], return_inverse=True)
    return Terms(
        ranking[owners], index, kind[heads], source[heads], literal[heads], start,
        chosen[order], partner[order],
    )  # fmt: skip


def narrowest(counts: IntArray) -> int:
    """Smallest width of a chunk: most owners' numbers of terms fit, so one width does for most."""
    if not len(counts):
        return 1
    usual = int(np.quantile(counts, 0.75, method="higher"))
    return min(8, width_of(usual))


def width_of(count: int) -> int:
    """The power of two that holds `count` lanes, at most 32."""
    return min(LANES, 1 << max(0, count - 1).bit_length())
