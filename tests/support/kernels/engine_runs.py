"""Run the engines of a network on any backend: what they leave in their arrays."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.kernels.exact.table_network import NOTHING_KNOWN
from tauslab.kernels.leaping.fine_tau import FineTau
from tauslab.kernels.network.lowering import LoweredNetwork, lower
from tauslab.model.network.network import Network
from tauslab.model.network.past import with_pasts

compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="no host compiler"
)


def recording(backend, engine, network, times, n) -> SampleBuffers:
    """Buffers that take all that an engine can record of `n` trajectories."""
    empty, species = backend.empty, len(network.recorded)
    return SampleBuffers.of(
        backend, n, counts=empty((n, times, species), np.int32),
        reals=empty((n, times, len(network.observables)), np.float64),
        final_counts=empty((n, species), np.int32), scratch=engine.scratch(n),
    )  # fmt: skip


def simulate(backend, network, times, n, selector, team=0, expected=NOTHING_KNOWN):
    """Counts [n, time, species], observables, status and events."""
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    amounts = network.initial_amounts(values)
    reals = {name: amounts[name] for name in network.real_species()}
    forward, pasts = with_pasts(network)
    lowered = lower(forward, parameters=values, counts=counts, reals=reals, pasts=pasts)
    engine = exact_engine(backend, lowered, times, selector=selector, team=team, expected=expected)
    buffers = recording(backend, engine, lowered, len(times), n)
    given = [counts.get(name, 0) for name in lowered.species]  # what is looked back at has none
    initial = backend.upload(np.array([given], np.int32))
    stream = backend.stream()
    launch = Launch(3, n, initial, backend.upload(np.zeros((1, 1))), seed=11)
    engine.start(launch, buffers, stream)
    stream.record().wait()
    backend.close()
    actual = (buffers.counts, buffers.reals, buffers.final_counts, buffers.status, buffers.work[:1])
    return [array.copy() for array in actual]


def lowered(network: Network) -> tuple[LoweredNetwork, np.ndarray]:
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    actual = lower(network, parameters=values, counts=counts)
    return actual, np.array([[counts[s] for s in actual.species]], np.int32)


def leap(backend, network, times, n, *, engine=FineTau, epsilon=0.03, max_steps=MAX_STEPS,
             **options):  # fmt: skip
    """Counts [n, time, species], observables, final, status and work."""
    model, initial = lowered(network)
    simulator = engine(backend, model, times, epsilon, **options)
    buffers = recording(backend, simulator, model, len(times), n)
    stream = backend.stream()
    constants = backend.upload(np.zeros((1, 1)))
    launch = Launch(3, n, backend.upload(initial), constants, seed=11, max_steps=max_steps)
    simulator.start(launch, buffers, stream)
    stream.record().wait()
    actual = [buffers.counts, buffers.reals, buffers.final_counts, buffers.status, buffers.work]
    actual = [array.get() if hasattr(array, "get") else array.copy() for array in actual]
    backend.close()
    return actual


def fast_at_the_end() -> Network:
    """Reactions that fire seldom, then two pairs that go back and forth: firings of three kinds."""
    net = Network("fast at the end")
    for name, count in (*((f"S{i}", 5) for i in range(12)), ("A", 40), ("B", 2), ("C", 60)):
        net.add_species(name, count)
    for i in range(12):
        net.add_reaction(f"S{i} ->", rate=0.1 * (i + 1))
    net.add_reaction("A -> B", rate=2.0)
    net.add_reaction("B -> A", rate=3.0)
    net.add_reaction("B -> C", rate=5.0)
    net.add_reaction("C -> B", rate=4.0)
    return net
