"""Leaps of many threads: the bits of one thread, of warps, and of blocks that wait for others."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from emulation import EmulatedBackend

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.fine_tau import FineTau
from tauslab.kernels.lowering import LoweredNetwork, lower
from tauslab.kernels.ssa import MAX_STEPS, Launch, SampleBuffers
from tauslab.model.network import Network

compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="no host compiler"
)


def lowered(network: Network) -> tuple[LoweredNetwork, np.ndarray]:
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    found = lower(network, parameters=values, counts=counts)
    return found, np.array([[counts[s] for s in found.species]], np.int32)


def simulate(backend, network, times, n, *, engine=FineTau, epsilon=0.03, max_steps=MAX_STEPS,
             **options):  # fmt: skip
    """Counts [n, time, species], observables, final, status and work."""
    model, initial = lowered(network)
    simulator = engine(backend, model, times, epsilon, **options)
    empty, species = backend.empty, len(model.species)
    buffers = SampleBuffers(
        empty((n, len(times), species), np.int32),
        empty((n, len(times), len(model.observables)), np.float64),
        empty((n, species), np.int32), empty((n,), np.uint8), empty((1,), np.uint64),
        empty((4,), np.uint64), simulator.scratch(n),
    )  # fmt: skip
    stream = backend.stream()
    launch = Launch(3, n, backend.upload(initial), backend.upload(np.zeros((1, 1))))
    simulator.start(launch, buffers, stream, seed=11, max_steps=max_steps)
    stream.record().wait()
    found = [buffers.counts, buffers.observables, buffers.final, buffers.status, buffers.work]
    found = [array.get() if hasattr(array, "get") else array.copy() for array in found]
    backend.close()
    return found


def cpu(threads=1):
    return get_backend("cpu", BackendOptions(threads=threads))


def busy(seed=1) -> Network:
    """Many molecules and few: leaps, critical reactions, exact events; rows of more than 32."""
    net = ts.random_network(species=40, reactions=70, rates=(1e-4, 1e-2), initial=600, seed=seed)
    for i in range(40):
        net.add_species(f"T{i}", 300 if i % 2 else 12)
        net.add_reaction(f"S1 + T{i} -> S1 + T{(i + 1) % 40}", rate=2e-4)
        net.add_reaction(f"T{i} -> S2", rate=0.2)
        net.add_reaction(f"2 S2 -> S2 + T{i}", rate=1e-6)
    net.add_reaction("S3 -> S4", law="40 * S3 / (50 + S3)")
    net.add_reaction("3 S4 -> 2 S4 + S3", rate=1e-8)
    net.add_rule("all", " + ".join(net.species))
    return net


TIMES = [0.0, 0.2, 0.5]


@pytest.fixture(scope="module")
def expected():
    found = simulate(cpu(), busy(), TIMES, 4)
    assert all(found[4][i] > 20 for i in range(3)), "leaps and exact events"
    return found


@compiler
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("threads", "blocks", "crew"), [(32, 1, 1), (64, 1, 1), (32, 3, 3), (64, 4, 2)]
)
def test_crews_give_the_bits_of_a_thread(tmp_path, expected, threads, blocks, crew, order):
    device = EmulatedBackend(tmp_path, threads, order, blocks)
    found = simulate(device, busy(), TIMES, 4, blocks=crew, layout=(threads, 1))
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other)
