"""Messages straight into a neighbour's memory, with threads for ranks.

The kernels that pack, wait and unpack, the turns that two messages take, recorded launches.
"""

from __future__ import annotations

import errno
import functools
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from halo_models import MODELS
from sampling import ordinary
from thread_ranks import (
    SharedBackend,
    on_threads,
)

from tauslab.base.errors import DecompositionError, DeviceError
from tauslab.decomposition.halo.peer import HostMemory
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import BackendOptions
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.lattice.engine import LatticeEngine

SEED, STEPS = 5, 60


@functools.cache
def whole(name):
    """The state after all steps without a cut."""
    backend = CpuBackend(BackendOptions(threads=1))
    engine = LatticeEngine(backend, MODELS[name](), seed=SEED)
    engine.load_start()
    engine.run_sampled([STEPS])
    state = engine.save()
    backend.close()
    return state


def advanced(comm, name, options, threads=1, closed=(), *, aside=False, slow=None):
    """The slab of a rank after all steps, in three batches; how often launches were recorded."""
    lattice = MODELS[name]()
    backend = SharedBackend(BackendOptions(threads=threads))
    backend.waiting_is_free = aside
    backend.memory_closed = comm.rank in closed
    bounds = cut_planes(lattice.shape[0], comm.size, least=options.depth)
    slab = SlabEngine(backend, lattice, comm, bounds, seed=SEED, options=options)
    if slow is not None:
        {"stream": slab.engine.stream, "edge_stream": slab.edge_stream}[slow].pause = 0.001
    slab.engine.load_start()
    for marks in ([3], [1, 20], [STEPS - 23]):
        slab.run_sampled(marks)
    state = slab.engine.save()
    slab.close()
    backend.close()
    return state, backend.recorded, slab.transports


def same(states, expected):
    assert np.array_equal(np.concatenate([s.particles for s in states]), expected.particles)
    assert np.array_equal(np.concatenate([s.waiting for s in states]), expected.waiting)
    assert np.array_equal(sum(s.fired for s in states), expected.fired)
    assert sum(s.spills for s in states) == expected.spills
    assert {s.step for s in states} == {STEPS}


CUTS = [("crowded", 2, 1, 2), ("crowded", 3, 3, 1), ("held", 3, 1, 1), ("typed periodic", 2, 2, 2),
        ("sparse", 4, 1, 1), ("sparse", 3, 2, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "size", "depth", "threads", "record", "early"),
    ordinary(
        [(*cut, record, early) for cut in CUTS
         for record in (False, True) for early in (False, True)],
        *((*cut, number % 2 == 0, number % 2 == 0) for number, cut in enumerate(CUTS[:4:3])),
        ("held", 3, 1, 1, False, True), ("sparse", 3, 2, 1, True, False),
    ),
)  # fmt: skip
def test_a_cut_changes_nothing(name, size, depth, threads, record, early):
    options = HaloOptions(transport="peer", depth=depth, record=record, early=early)
    actual = on_threads(size, lambda comm: advanced(comm, name, options, threads))
    same([state for state, _, _ in actual], whole(name))
    assert all((count > 0) == record for _, count, _ in actual)
    assert {way for *_, ways in actual for way in ways} <= {"peer", None}


@pytest.mark.parametrize(
    ("depth", "early", "slow"),
    ordinary(
        [(depth, early, slow) for depth, early in ((1, False), (1, True), (2, None))
         for slow in ("stream", "edge_stream")],
        (1, True, "edge_stream"),
    ),
)  # fmt: skip
def test_streams_may_be_as_slow_as_they_like(slow, depth, early):
    """What one stream needs of the other it waits for, however late that comes."""
    options = HaloOptions(transport="peer", depth=depth, record=False, early=early)
    actual = on_threads(2, lambda comm: advanced(comm, "crowded", options, slow=slow))
    same([state for state, _, _ in actual], whole("crowded"))


def test_each_neighbour_has_its_own_transport():
    """Rank 2's memory cannot be opened: the others reach it through the host, each other not."""
    actual = on_threads(3, lambda comm: advanced(comm, "crowded", HaloOptions(), closed=(2,)))
    same([state for state, _, _ in actual], whole("crowded"))
    assert [ways for *_, ways in actual] == [("host", "peer"), ("peer", "host"), ("host", "host")]
    assert not any(count for _, count, _ in actual)


def test_ranks_of_a_node_share_host_memory_where_devices_do_not_reach_each_other():
    """As above, but kernels may wait: no message takes the host's time; launches are recorded."""
    actual = on_threads(
        3, lambda comm: advanced(comm, "crowded", HaloOptions(), closed=(2,), aside=True)
    )
    same([state for state, _, _ in actual], whole("crowded"))
    ways = [ways for *_, ways in actual]
    assert ways == [("shared", "peer"), ("peer", "shared"), ("shared", "shared")]
    assert all(count for _, count, _ in actual)
    gc.collect()
    assert not [name for name in map(os.readlink, files_open()) if "memfd:tauslab" in name]


def files_open():
    return [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda handle: handle.replace(b"tauslab-", b"another-"), "is not the neighbour's memory"),
        (lambda handle: b"tauslab- /proc/0/fd/3", "cannot be opened: /proc/0/fd/3: No such file"),
    ],
)
def test_memory_of_another_process_is_not_taken_for_a_neighbours(change, reason):
    memory = HostMemory(CpuBackend(BackendOptions(threads=1)))
    mine = memory.make(100)
    handle = memory.offer(mine)
    mine[7] = 5
    assert memory.open(handle, 100)[7] == 5
    with pytest.raises(DeviceError, match=reason):
        memory.open(change(handle), 100)
    memory.drop(mine)


def test_a_host_without_memory_to_share_says_so(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = len(files_open())
    with pytest.raises(DeviceError, match="no memory to share: No space left"):
        HostMemory(CpuBackend(BackendOptions(threads=1))).make(100)
    assert len(files_open()) == before


def test_one_closed_memory_refuses_peers_on_all_ranks():
    def refused(comm):
        with pytest.raises(DecompositionError, match=r"rank [01] cannot .* rank 2: its memory is"):
            advanced(comm, "sparse", HaloOptions(transport="peer"), closed=(2,))

    on_threads(3, refused)


def test_full_lists_and_messages_change_nothing():
    """On some ranks only, so that the others must do the batch again for them."""
    options = HaloOptions(transport="auto", depth=2, capacity=40, room=3)
    actual = on_threads(3, lambda comm: advanced(comm, "crowded", options))
    same([state for state, _, _ in actual], whole("crowded"))


def test_changes_from_outside_reach_the_neighbours():
    """Particles that one rank puts at its edge between two batches, as hooks do."""
    lattice = MODELS["sparse"]()

    def work(comm):
        backend = SharedBackend(BackendOptions(threads=1))
        bounds = cut_planes(lattice.shape[0], comm.size)
        slab = SlabEngine(backend, lattice, comm if comm.size > 1 else None, bounds, seed=SEED)
        slab.engine.load_start()
        slab.run_sampled([4])
        slab.engine.synchronize()
        if slab.engine.slab.begin == 0:
            slab.engine.particles[slab.engine.slab.below, :, :, :4] = 1
            slab.engine.mark_all()
        slab.run_sampled([20])
        state = slab.engine.save()
        slab.close()
        backend.close()
        return state

    (expected,), states = on_threads(1, work), on_threads(2, work)
    assert np.array_equal(np.concatenate([s.particles for s in states]), expected.particles)
    assert (expected.particles > 0).sum() > 1000
