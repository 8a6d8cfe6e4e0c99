"""Sums in one fixed tree, also of rows that lie on several ranks.

Neighbours are added, then neighbouring sums, on any machine. The device of a rank adds the
blocks that lie within its part of a row, then blocks of these sums, and so on. Ranks exchange only
the sums that belong to no complete larger block: the largest ones, and a few of each size beside
the cuts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import count, pairwise

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.particles.weights import BLOCK, IN_BLOCK, in_levels


def fixed_sums(values: FloatArray) -> FloatArray:
    """Sums of rows by halves, of as many numbers as there are, and zeros up to a power of two."""
    groups, length = values.shape
    if not length:
        return np.zeros(groups)
    while values.shape[1] > 1:
        if values.shape[1] % 2:
            values = np.hstack([values, np.zeros((groups, 1))])
        values = values[:, 0::2] + values[:, 1::2]
    return np.array(values[:, 0])


def fixed_sum(values: FloatArray) -> float:
    """The sum of one row as `fixed_sums` makes it."""
    return float(fixed_sums(values[None])[0])


def sums_of_parts(pieces: FloatArray, parts: Sequence[slice]) -> FloatArray:
    """Sums ``[quantity]`` of a row whose parts other devices have added up in blocks.

    Parameters
    ----------
    pieces
        ``[piece, quantity]``: of all parts in order, what `PartWeights` gives.
    parts
        Places of the parts in the row, in order.
    """
    sums = np.zeros((pieces.shape[1], 0))
    for own, places, shape in _levels_of((0, *(part.stop for part in parts))):
        table = np.zeros((len(sums), shape[0] * shape[1]))
        table[:, places] = np.hstack([pieces[own].T, sums])
        sums = fixed_sums(table.reshape(-1, shape[1])).reshape(len(sums), shape[0])
    return sums[:, 0]


@lru_cache(8)
def _levels_of(bounds: tuple[int, ...]) -> list[tuple[IntArray, IntArray, tuple[int, int]]]:
    """How the levels of the tree are added, the lowest first, of parts between `bounds`.

    Of each level: numbers of its pieces; the places of these, and then of the sums of the level
    below, in a table of this shape. The sums of the rows of the table are those of the level.
    """
    found, at = defaultdict[int, list[IntArray]](list), 0
    for start, stop in pairwise(bounds):
        for level, (first, before, _, behind) in enumerate(in_levels(start, stop)):
            for own in (before, behind):
                numbers = np.arange(own.stop - own.start)
                found[level].append(np.stack([at + numbers, first + own.start + numbers]))
                at += len(numbers)
    result, blocks = [], np.zeros(0, np.int64)
    length, each = bounds[-1], BLOCK
    for level in count():
        each = min(each, length)
        own, places = np.hstack([np.zeros((2, 0), np.int64), *found[level]])
        places = np.concatenate([places, blocks])
        blocks, rows = np.unique(places // each, return_inverse=True)
        result.append((own, rows * each + places % each, (len(blocks), each)))
        if length == 1:
            break
        length, each = -(-length // each), IN_BLOCK
    return result


def size_in_pieces(part: slice) -> int:
    """How many pieces a part of a row has in `sums_of_parts`."""
    levels = in_levels(part.start, part.stop)
    return sum(own.stop - own.start for _, *ranges in levels for own in ranges[::2])
