"""Sums of rows that are cut by ranks have the bits of rows that are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sample_job import Shared, ThreadComm

from tauslab.analysis.particles.shares import Shares
from tauslab.analysis.particles.sums import CutRows, fixed_sums


class JoiningComm(ThreadComm):
    """A rank that is a thread, with arrays of all."""

    def join(self, part, lengths):
        parts = self.allgather(part)
        assert [len(one) for one in parts] == list(lengths)
        return np.concatenate(parts)


def on_ranks(size, work):
    """What each rank finds."""
    shared = Shared(size)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: work(JoiningComm(shared, rank)), range(size)))


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


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("count", "n"), [(1, 1), (1, 2), (1, 3), (1, 129), (2, 7), (3, 64), (9, 5), (4, 100)]
)
def test_ranks_do_not_matter(size, count, n):
    rng = np.random.default_rng(n)
    values = awkward(rng, (2, count * n))
    held = rng.random(count * n) < 0.6
    held[:n] = n == 2  # a row without any, but for one case
    held[-n:] |= n == 5  # and a full one
    rows, kept = values.reshape(2, count, n), held.reshape(count, n)
    expected = np.stack([plain(part) for part in rows])
    closed = np.zeros((2, count))
    for quantity, row in np.ndindex(2, count):
        if kept[row].any():
            closed[quantity, row] = plain(rows[quantity, row, kept[row]][None])[0]

    def work(comm):
        shares = Shares(count * n, comm)
        cut, own = CutRows(count, n, shares), shares.own
        chosen = np.arange(count) % 2 == 0
        return (
            cut.sums(values[:, own]), cut.sums(values[:, own], held[own]),
            cut.largest(values[0, own]), cut.cut(values[0, own], chosen),
            cut.spread(np.arange(count)) + np.zeros(own.stop - own.start, int),
        )  # fmt: skip

    found = on_ranks(size, work)
    for sums, of_held, largest, _, _ in found:
        assert sums.tobytes() == expected.tobytes()
        assert of_held.tobytes() == closed.tobytes()
        assert largest.tolist() == rows[0].max(axis=1).tolist()
    assert (
        np.concatenate([one[-1] for one in found]).tolist()
        == np.repeat(np.arange(count), n).tolist()
    )
    for cut in (one[3] for one in found):
        assert [row % 2 for row, _ in cut] == [0] * len(cut)
        for row, whole in cut:
            assert whole.tolist() == rows[0, row].tolist()


def test_one_that_is_no_number_is_the_largest():
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])
    for size in (1, 2, 3):
        for largest in on_ranks(size, lambda comm: CutRows(2, 3, Shares(6, comm)).largest(
            values[Shares(6, comm).own]
        )):  # fmt: skip
            assert np.isnan(largest[0])
            assert largest[1] == 6


def test_only_few_numbers_travel():
    """Two nodes for each level of the tree at most."""
    sent = []

    class Counting(JoiningComm):
        def join(self, part, lengths):
            sent.append(len(part))
            return super().join(part, lengths)

    shared, n = Shared(3), 100_000
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(
            lambda rank: CutRows(1, n, Shares(n, Counting(shared, rank))).sums(
                np.ones((1, Shares(n, Counting(shared, rank)).own.stop - n * rank // 3))
            ),
            range(3),
        ))  # fmt: skip
    assert 0 < max(sent) <= 2 * 17
