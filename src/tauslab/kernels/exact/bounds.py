"""Bounds of what the large networks' kernels store, proved before they are compiled.

Masses: whole numbers m >= 1 of all species such that no reaction makes mass. Then the sum of all
counts is at most the mass, which is at most that of the start, in every state that can be reached.
"""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.kernels.exact.owners import FIXED, Terms
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import Pairs

# Sums of counts of which twice as much, a sum and a change of it, fit into 32 bits.
MOST_NARROW = 2**30 - 1
_TURNS = 100  # complexes are built of others: some turns do, if any number does
_HEAVIEST = 1 << 20


def masses(network: LoweredNetwork) -> IntArray | None:
    """Masses that no reaction adds to, int64 ``[species]``; None where none were found.

    They begin at 1. What falls apart gets the mass of its parts, until nothing that falls apart
    makes mass; then no other reaction may either.
    """
    pairs = Pairs.of(reaction.change for reaction in network.reactions)
    n = len(network.reactions)
    lost = pairs.number < 0
    losing = np.bincount(pairs.row[lost], minlength=n)
    species, amount = np.zeros(n, np.int64), np.ones(n, np.int64)
    species[pairs.row[lost]], amount[pairs.row[lost]] = pairs.species[lost], -pairs.number[lost]
    mass = np.ones(len(network.species), np.int64)
    for _ in range(_TURNS):
        made = _sums(pairs, mass, n)
        making = made > 0
        if not making.any():
            return mass
        apart = making & (losing == 1)
        if not apart.any():
            return None
        needed = mass[species[apart]] + -(-made[apart] // amount[apart])
        np.maximum.at(mass, species[apart], needed)
        if mass.max() > _HEAVIEST:
            return None
    return None


def narrow(network: LoweredNetwork, terms: Terms, highest: IntArray | None) -> bool:
    """Whether 32 bits do for the whole numbers of all terms, whatever happens.

    `highest` int ``[species]``: initial counts that no trajectory exceeds; None: not known.
    """
    if highest is None:
        return False
    mass = masses(network)
    if mass is None:
        return False
    total = sum(m * x for m, x in zip(mass.tolist(), highest.tolist(), strict=True))
    term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
    counted = terms.kind[term] != FIXED
    key = (term * (len(mass) + 1) + terms.partner)[counted]
    _, times = np.unique(key, return_counts=True)
    return bool(total * int(times.max(initial=1)) <= MOST_NARROW)


def _sums(pairs: Pairs, mass: IntArray, n: int) -> IntArray:
    """Mass that every reaction makes."""
    start = np.searchsorted(pairs.row, np.arange(n + 1))
    running = np.concatenate([[0], np.cumsum(pairs.number * mass[pairs.species])])
    made: IntArray = running[start[1:]] - running[start[:-1]]
    return made
