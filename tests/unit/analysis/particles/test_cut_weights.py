"""Weights of a row on several ranks have the bits of those on one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sample_job import Shared, ThreadComm
from sampling import ordinary

from tauslab.analysis.particles.cut import CutWeights
from tauslab.analysis.particles.shares import Shares
from tauslab.analysis.particles.weights import SCHEMES, ancestors_of
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.particles.weights import DeviceWeights

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))


class JoiningComm(ThreadComm):
    """A rank that is a thread, with arrays of all; counts what it sends."""

    sent = 0

    def join(self, part, lengths):
        type(self).sent += part.size
        parts = self.allgather(part)
        assert [len(one) for one in parts] == list(lengths)
        return np.concatenate(parts)


def on_ranks(size, work):
    """What each rank finds."""
    shared = Shared(size)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: work(JoiningComm(shared, rank)), range(size)))


def logs_of(n, kind):
    draw = np.random.default_rng(n)
    logs = -30.0 * draw.random(n) ** 3
    if kind == "lost":
        logs[draw.random(n) < 0.6] = -np.inf
    if kind == "one":
        logs[: n // 2] = -800.0
        logs[n // 2 + 1 :] = -np.inf
    if kind == "behind":  # the last ranks have no weight
        logs[n // 3 + 1 :] = -np.inf
    return logs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["all", "lost", "one", "behind"])
@pytest.mark.parametrize("n", ordinary([1, 2, 7, 1024, 5001, 150_000], 1, 7, 5001))
def test_ranks_do_not_matter(device, size, kind, n):
    logs = logs_of(n, kind)
    counts = np.random.default_rng(1).poisson(20, (n, 2)).astype(np.int32)
    backend = get_backend(device, BackendOptions(threads=1))
    whole = DeviceWeights(backend, 1, n)
    whole.put(logs)
    moments = whole.moments(backend.upload(counts))()()
    expected = [whole.largest, whole.totals, whole.squares, *moments]
    expected += [whole.quantiles(backend.upload(counts), (0.1, 0.95))]
    shares = whole.shares()
    backend.close()

    def work(comm):
        backend, own = get_backend(device, BackendOptions(threads=1)), Shares(n, comm)
        parts = [own.of(rank) for rank in range(size)]
        cut = CutWeights(backend, parts, own)
        cut.put(logs[own.own])
        assert cut.logs().tobytes() == logs[own.own].tobytes()
        actual = [cut.largest, cut.totals, cut.squares]
        actual += cut.moments(backend.upload(counts[own.own]))()()
        actual += [cut.quantiles(backend.upload(counts[own.own]), (0.1, 0.95))]
        index = {}
        for in_pieces in (False, True):
            if cut._part:
                cut._part._pieces = in_pieces
            for scheme in SCHEMES:
                rows, sizes = cut.ancestors(scheme, seed=2**64 - 5, number=3, group=7, base=0)
                assert comm.allgather(len(rows)) == sizes
                rows = rows if isinstance(rows, np.ndarray) else rows.get()
                index[in_pieces, scheme] = rows + own.own.start
        cut.level(np.ones(1, bool))
        assert cut.totals.tolist() == cut.squares.tolist() == [float(n)]
        rows, _ = cut.ancestors("systematic", seed=1, number=3, group=7, base=0)
        stay = rows if isinstance(rows, np.ndarray) else rows.get()
        backend.close()
        return actual, index, stay + own.own.start

    actual = on_ranks(size, work)
    for numbers, _, _ in actual:
        for one, other in zip(numbers, expected, strict=True):
            assert one.tobytes() == other.tobytes()
    for in_pieces in (False, True):
        for scheme in SCHEMES:
            index = np.concatenate([each[in_pieces, scheme] for _, each, _ in actual])
            again = ancestors_of(shares, scheme, 2**64 - 5, 3, 7)
            assert index.tolist() == again.tolist()
    stay = np.concatenate([stay for _, _, stay in actual])
    assert stay.tolist() == ancestors_of(np.ones(n), "systematic", 1, 3, 7).tolist()


def test_only_few_numbers_travel():
    n = 1_000_000
    JoiningComm.sent = 0

    def work(comm):
        backend, own = get_backend("cpu", BackendOptions(threads=1)), Shares(n, comm)
        cut = CutWeights(backend, [own.of(rank) for rank in range(3)], own)
        cut.put(logs_of(n, "all")[own.own])
        cut.ancestors("systematic", seed=1, number=0, group=0, base=0)
        backend.close()

    on_ranks(3, work)
    assert 0 < JoiningComm.sent < 3 * (n % 1024 + 300)
