"""Sums of rows that are cut by ranks have the bits of rows that are not."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.analysis.particles.sums import fixed_sums, size_in_pieces, sums_of_parts
from tauslab.kernels.particles.weights import BLOCK, IN_BLOCK, in_levels


def plain(values):
    """The tree as it is told: zeros up to a power of two, then halves."""
    rows = np.zeros((len(values), 1 << (values.shape[1] - 1).bit_length()))
    rows[:, : values.shape[1]] = values
    while rows.shape[1] > 1:
        rows = rows[:, 0::2] + rows[:, 1::2]
    return rows[:, 0]


def awkward(rng, shape):
    """Numbers whose sums depend on the order."""
    return rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20, shape)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 1000])
def test_a_tree_of_halves(length):
    values = awkward(np.random.default_rng(length), (3, length))
    assert fixed_sums(values).tobytes() == plain(values).tobytes()


@pytest.mark.parametrize("length", [1, 2, 500, 1023, 1024, 1025, 5000, 10_000, 32_768, 99_999])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_sums_of_blocks_of_parts(size, length):
    values = awkward(np.random.default_rng(length), (2, length))
    cuts = np.sort(np.random.default_rng(size).integers(0, length + 1, size - 1)).tolist()
    parts = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]
    pieces = []
    for part in parts:
        own, before, each = values[:, part], len(pieces), BLOCK
        for start, ahead, whole, behind in in_levels(part.start, part.stop):
            assert own.shape[1] == behind.stop
            assert max(ahead.stop, behind.stop - behind.start) < each
            pieces += [*own[:, ahead].T, *own[:, behind].T]
            assert whole.start == whole.stop or (start + whole.start) % each == 0
            blocks = own[:, whole].reshape(2, -1, each)
            own = np.stack([plain(block) for block in blocks]) if blocks.size else blocks
            each = IN_BLOCK
        assert len(pieces) - before == size_in_pieces(part)
    assert sums_of_parts(np.array(pieces), parts).tobytes() == plain(values).tobytes()
