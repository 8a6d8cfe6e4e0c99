"""Sums in one fixed tree, also of rows that lie on several ranks.

Neighbours are added, then neighbouring sums, on any machine. The device of a rank adds up the
blocks that lie within its part of a row, and only their sums travel, with the numbers of blocks
that are cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.kernels.particles.weights import BLOCK, in_blocks


def fixed_sums(values: FloatArray) -> FloatArray:
    """Sums of rows by halves, of as many numbers as there are, and zeros up to a power of two."""
    groups, length = values.shape
    if not length:
        return np.zeros(groups)
    while values.shape[1] > 1:
        values = _neighbours(values)
    return np.array(values[:, 0])


def fixed_sum(values: FloatArray) -> float:
    """The sum of one row as `fixed_sums` makes it."""
    return float(fixed_sums(values[None])[0])


def _neighbours(values: FloatArray) -> FloatArray:
    """Sums of columns 0 and 1, 2 and 3, ...; 0 is added to one that is left."""
    half = values.shape[1] // 2
    result = np.empty((len(values), values.shape[1] - half))
    np.add(values[:, 0 : 2 * half : 2], values[:, 1::2], out=result[:, :half])
    if values.shape[1] % 2:
        result[:, half] = values[:, -1] + 0.0
    return result


def sums_of_parts(pieces: FloatArray, parts: Sequence[slice]) -> FloatArray:
    """Sums ``[quantity]`` of a row whose parts other devices have added up in blocks.

    Parameters
    ----------
    pieces
        ``[piece, quantity]``: of all parts in order, what `PartWeights` gives.
    parts
        Places of the parts in the row, in order.
    """
    length = parts[-1].stop
    if length < BLOCK:
        return fixed_sums(pieces.T)
    blocks = np.zeros((pieces.shape[1], -(-length // BLOCK)))
    numbers = np.zeros((pieces.shape[1], 2 * len(parts), BLOCK))  # of blocks that are cut
    cut, at = dict[int, int](), 0
    for part in parts:
        for own, in_block in in_blocks(part.start, part.stop):
            place = (part.start + own.start) // BLOCK
            size = own.stop - own.start
            if in_block:
                size //= BLOCK
                blocks[:, place : place + size] = pieces[at : at + size].T
            else:
                begin = (part.start + own.start) % BLOCK
                number = cut.setdefault(place, len(cut))
                numbers[:, number, begin : begin + size] = pieces[at : at + size].T
            at += size
    for place, number in cut.items():
        blocks[:, place] = fixed_sums(numbers[:, number])
    return fixed_sums(blocks)


def size_in_pieces(part: slice) -> int:
    """How many pieces a part of a row has in `sums_of_parts`."""
    places = in_blocks(part.start, part.stop)
    return sum((own.stop - own.start) // (BLOCK if in_block else 1) for own, in_block in places)
