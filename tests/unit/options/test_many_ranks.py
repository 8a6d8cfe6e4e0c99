"""Work and memory that must not grow with the number of ranks, looked at without so many ranks."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace

import numpy as np
import pytest
from sample_job import Shared, ThreadComm

import tauslab as ts
from tauslab.analysis.dbn.parts import merged
from tauslab.decomposition.ranks.launcher import launched_rank
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import cache
from tauslab.kernels.dbn.entries import Entries
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.options.sweep import Sweep
from tauslab.runner.ensemble.run import layout_of, prepare_task


class Exchanging(ThreadComm):
    """Ranks that pass arrays to each other; notes how many entries come to each at a time."""

    def __init__(self, shared, rank, ways):
        super().__init__(shared, rank)
        self.ways, self.most = ways, 0

    def exchange(self, parcels):
        for parcel in parcels:
            if parcel.sent:
                self.ways[self.rank, parcel.other].put(parcel.array.copy())
                continue
            parcel.array[...] = self.ways[parcel.other, self.rank].get(timeout=20)
            self.most = max(self.most, len(parcel.array))


def entries_of(rank: int) -> Entries:
    """Keys that some other ranks have too."""
    low = np.arange(rank % 3, 40 + rank, 2, dtype=np.uint64)
    return Entries(np.full_like(low, rank % 2), low, np.full_like(low, 10**rank))


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_tables_are_added_by_pairs(size):
    """Rank 0 never has the tables of all ranks, which a thousand ranks would make too large."""
    ways = {(a, b): queue.SimpleQueue() for a in range(size) for b in range(size)}
    shared, actual = Shared(size), {}
    ranks = [Exchanging(shared, rank, ways) for rank in range(size)]

    def be(comm):
        actual[comm.rank] = merged(entries_of(comm.rank), comm)

    threads = [threading.Thread(target=be, args=(comm,)) for comm in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = Entries.merged([entries_of(rank) for rank in range(size)])
    for name in ("high", "low", "counts"):
        assert np.array_equal(getattr(actual[0], name), getattr(wanted, name))
    assert all(len(actual[rank].counts) == 0 for rank in range(1, size))
    assert max(comm.most for comm in ranks) <= len(wanted.counts)


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("record", ["trajectories", "statistics"])
def test_every_rank_gets_blocks(sweep, record):
    """And as many, or nearly; a job on few ranks is cut as ever."""
    net = ts.Network("decay")
    net.add_species("X", 50)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    options = Options(times=np.linspace(0, 1, 11), seed=1, n=10_000)
    options = replace(options, record=Record.parse(record))
    if sweep:
        points = np.linspace(0.5, 2.0, 10)[:, None]
        options = replace(options, n=1000, sweep=Sweep(("k",), points))
    task = prepare_task(net, options)
    cut = {}
    for ranks in (1, 8, 512):
        comm = Communicator()
        comm.size = ranks
        cut[ranks] = layout_of(task, comm).n_blocks
    assert cut[512] >= 4 * 512
    assert cut[8] == cut[1]


def test_a_user_without_home(tmp_path, monkeypatch):
    """As in a container whose list of users lacks the one who runs it."""
    for name in ("TAUSLAB_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.warns(UserWarning, match="on this machine alone"):
        assert cache.cache_directory().parent == tmp_path
    assert not cache.has_home()


@pytest.mark.parametrize(
    ("environment", "rank"),
    [({}, 0), ({"PMI_RANK": "3"}, 3), ({"SLURM_PROCID": "2"}, 2), ({"PMIX_RANK": "1"}, 1)],
)
def test_the_launcher_tells_who_speaks(environment, rank):
    assert launched_rank(environment) == rank
