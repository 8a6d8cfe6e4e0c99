"""Leaps of many threads: the bits of one thread, of warps, and of blocks that wait for others."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler
from engine_runs import leap as simulate
from generated_networks import random_network

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.leaping.fine_tau import FineTau
from tauslab.kernels.leaping.tau_leap import TauLeap
from tauslab.model.network.network import Network


def cpu(threads=1):
    return get_backend("cpu", BackendOptions(threads=threads))


def busy(seed=1) -> Network:
    """Many molecules and few: leaps, critical reactions, exact events; rows of more than 32."""
    net = random_network(species=40, reactions=70, rates=(1e-4, 1e-2), initial=600, seed=seed)
    for i in range(40):
        net.add_species(f"T{i}", 300 if i % 2 else 12)
        net.add_reaction(f"S1 + T{i} -> S1 + T{(i + 1) % 40}", rate=2e-4)
        net.add_reaction(f"T{i} -> S2", rate=0.2)
        net.add_reaction(f"2 S2 -> S2 + T{i}", rate=1e-6)
    net.add_reaction("S3 -> S4", law="40 * S3 / (50 + S3)")
    net.add_reaction("3 S4 -> 2 S4 + S3", rate=1e-8)
    net.add_species("U", 0)  # its first molecules are a quarter of all events
    net.add_reaction("S5 -> S5 + U", rate=10.0)
    net.add_reaction("U ->", rate=1.0)
    net.add_rule("all", " + ".join(net.species))
    return net


TIMES = [0.0, 0.1, 0.2]


@pytest.fixture(scope="module")
def expected():
    actual = simulate(cpu(), busy(), TIMES, 4)
    assert all(actual[4][i] > 20 for i in range(3)), "leaps and exact events"
    return actual


@compiler
@pytest.mark.parametrize("order", [1, pytest.param(-1, marks=pytest.mark.validate)])
@pytest.mark.parametrize(
    ("threads", "blocks", "crew"),
    [
        pytest.param(32, 1, 1, marks=pytest.mark.validate),
        pytest.param(64, 1, 1, marks=pytest.mark.validate),
        pytest.param(32, 3, 3, marks=pytest.mark.validate),
        pytest.param(64, 4, 2, marks=pytest.mark.validate),
        (32, 2, 2),
    ],
)
def test_crews_give_the_bits_of_a_thread(tmp_path, expected, threads, blocks, crew, order):
    device = EmulatedBackend(tmp_path, threads, order, blocks)
    actual = simulate(device, busy(), TIMES, 4, blocks=crew, layout=(threads, 1))
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


def test_threads_take_trajectories_in_any_order(expected):
    actual = simulate(cpu(threads=3), busy(), TIMES, 4)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.validate
def test_a_network_of_two_reactions_gives_the_bits_of_the_generated_code():
    """Where a sum has one order and every reaction draws for itself, both engines agree."""
    net = ts.Network("chain")
    for name, count in (("A", 5000), ("B", 0), ("C", 0)):
        net.add_species(name, count)
    net.add_reaction("A -> B", rate=1.0)
    net.add_reaction("B -> C", rate=2.0)
    actual = [
        simulate(cpu(), net, [0.5, 2.0, 9.0], 20, engine=engine) for engine in (FineTau, TauLeap)
    ]
    for one, other in zip(*actual, strict=True):
        assert np.array_equal(one, other)


def test_large_changes_by_laws():
    """Changes by 9 have a table of their own; B(t) = 200,000 - 160,000 exp(-0.09 t) on average.

    The mean of 50 has a standard error of 44: within 5, and half of epsilon.
    """
    net = ts.Network("large changes")
    net.add_species("A", 2_000_000)
    net.add_species("B", 40_000)
    net.add_reaction("A -> A + 9 B", rate=1e-3)
    net.add_reaction("9 B ->", law="0.01 * B")
    net.add_reaction("4000 B -> A", law="1e-12 * B")
    counts, _, _, status, work = simulate(cpu(), net, [0.1, 0.5], 50)
    assert (status == 0).all()
    assert work[1] > 50 * 2
    assert abs(counts[:, 1, 1].mean() - (200_000 - 160_000 * np.exp(-0.045))) < 5 * 44 + 700


@pytest.mark.parametrize("rows", [1, 5, 1000])
@pytest.mark.parametrize("items", [10, 5000, 10**6])
def test_crews_share_a_device(items, rows):
    """Crews times blocks never pass what the device runs at the same time, and none is idle."""
    from types import SimpleNamespace

    engine = FineTau.__new__(FineTau)
    engine._block_threads, engine._given_blocks, engine._items_of_network = 512, 0, items
    engine.entry, engine._sizes = "fine_tau", (items, items, items)
    engine.program = SimpleNamespace(resident_blocks=lambda entry, threads: 264)
    engine.backend = SimpleNamespace(style=CudaBackend.style, free_memory=lambda: 1 << 37)
    grids = engine._in_flight(rows)
    assert 1 <= grids <= rows
    assert grids * engine.blocks(grids) <= 264
    most = -(-items // 512)
    assert engine.blocks(grids) <= most
    if rows > grids:
        assert grids * engine.blocks(grids) > 264 // 2


@pytest.mark.gpu
@pytest.mark.parametrize(("crew", "n"), [(0, 300), (1, 40), (7, 40), (0, 1)])
def test_crews_of_a_gpu_give_the_bits_of_the_cpu(crew, n):
    expected = simulate(cpu(2), busy(), TIMES, n)
    actual = simulate(get_backend("cuda", BackendOptions()), busy(), TIMES, n, blocks=crew)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.gpu
def test_a_whole_gpu_gives_the_bits_of_the_cpu():
    """A network that fills the device: leaps, and exact events of a sum tree of four levels."""
    net = random_network(species=30_000, reactions=40_000, rates=(1e-5, 1e-3), seed=2)
    actual = [
        simulate(get_backend(name, BackendOptions()), net, [1e-3, 5e-3], 3, max_steps=400)
        for name in ("cpu", "cuda")
    ]
    for one, other in zip(*actual, strict=True):
        assert np.array_equal(one, other)
