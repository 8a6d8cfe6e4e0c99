"""Run the engines of a network on any backend: what they leave in their arrays."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tauslab.kernels.ensemble.launch import CONTROL_WORDS, MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.kernels.exact.table_network import NOTHING_KNOWN
from tauslab.kernels.leaping.fine_tau import FineTau
from tauslab.kernels.network.lowering import LoweredNetwork, lower, real_species
from tauslab.model.network.network import Network
from tauslab.model.network.past import with_pasts

compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="no host compiler"
)


def simulate(backend, network, times, n, selector, team=0, expected=NOTHING_KNOWN):
    """Counts [n, time, species], observables, status and events."""
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    amounts = network.initial_amounts(values)
    reals = {name: amounts[name] for name in real_species(network)}
    forward, pasts = with_pasts(network)
    lowered = lower(forward, parameters=values, counts=counts, reals=reals, pasts=pasts)
    engine = exact_engine(backend, lowered, times, selector=selector, team=team, expected=expected)
    empty, species = backend.empty, len(lowered.recorded)
    buffers = SampleBuffers(
        empty((n, len(times), species), np.int32),
        empty((n, len(times), len(lowered.observables)), np.float64),
        empty((n, species), np.int32), empty((n,), np.uint8), empty((CONTROL_WORDS,), np.uint64),
        empty((4,), np.uint64), engine.scratch(n),
    )  # fmt: skip
    given = [counts.get(name, 0) for name in lowered.species]  # what is looked back at has none
    initial = backend.upload(np.array([given], np.int32))
    stream = backend.stream()
    launch = Launch(3, n, initial, backend.upload(np.zeros((1, 1))))
    engine.start(launch, buffers, stream, seed=11)
    stream.record().wait()
    backend.close()
    found = (buffers.counts, buffers.observables, buffers.final, buffers.status, buffers.work[:1])
    return [array.copy() for array in found]


def lowered(network: Network) -> tuple[LoweredNetwork, np.ndarray]:
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    found = lower(network, parameters=values, counts=counts)
    return found, np.array([[counts[s] for s in found.species]], np.int32)


def leap(backend, network, times, n, *, engine=FineTau, epsilon=0.03, max_steps=MAX_STEPS,
             **options):  # fmt: skip
    """Counts [n, time, species], observables, final, status and work."""
    model, initial = lowered(network)
    simulator = engine(backend, model, times, epsilon, **options)
    empty, species = backend.empty, len(model.species)
    buffers = SampleBuffers(
        empty((n, len(times), species), np.int32),
        empty((n, len(times), len(model.observables)), np.float64),
        empty((n, species), np.int32), empty((n,), np.uint8), empty((CONTROL_WORDS,), np.uint64),
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
