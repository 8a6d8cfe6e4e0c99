"""The exact engine on the CPU device: against exact solutions, and equal bits where due."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import recording
from places import TESTS

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.kernels.network.lowering import lower
from tauslab.model.network.network import Network

DATA = TESTS / "data"


def simulate(network, times, n, seed, threads=2, max_steps=MAX_STEPS, selector=None):
    """Counts [n, time, species] and status [n]."""
    backend = get_backend("cpu", BackendOptions(threads=threads))
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    lowered = lower(network, parameters=values, counts=counts)
    engine = exact_engine(backend, lowered, times, selector=selector)
    buffers = recording(backend, engine, lowered, len(times), n)
    initial = backend.upload(np.array([[counts[s] for s in lowered.species]], np.int32))
    constants = backend.upload(np.zeros((1, 1)))
    launch = Launch(0, n, initial, constants, seed=seed, max_steps=max_steps)
    stream = backend.stream()
    engine.start(launch, buffers, stream)
    stream.record().wait()
    backend.close()
    return buffers.counts, buffers.status


def schlogl() -> Network:
    return read_sbml(next(DATA.rglob("schlogl.xml")))


def test_birth_death_against_the_exact_mean_and_variance():
    """Immigration 1, death 0.1 from 0: Poisson with mean 10 (1 - exp(-t / 10)).

    Mean and variance of 20,000 trajectories within 5 standard errors: false alarms 1e-6.
    """
    net = Network("immigration_death")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=1.0)
    net.add_reaction("X ->", rate=0.1)
    times, n = np.linspace(0, 50, 6), 20_000
    counts, status = simulate(net, times, n, seed=4)
    x = counts[:, 1:, 0].astype(float)
    mean = 10 * (1 - np.exp(-times[1:] / 10))
    assert (counts[:, 0, 0] == 0).all()
    assert (status == 0).all()
    assert np.all(np.abs(x.mean(0) - mean) < 5 * np.sqrt(mean / n))
    spread = np.sqrt((2 * mean**2 + mean) / n)
    assert np.all(np.abs(x.var(0, ddof=1) - mean) < 5 * spread)


def test_homodimers_have_half_of_n_n_minus_1():
    """2 X -> with rate 2 from X = 3: one event that waits Exp(6), P(none by t) = exp(-6 t)."""
    net = Network("pair")
    net.add_species("X", 3)
    net.add_reaction("2 X ->", rate=2.0)
    n = 20_000
    counts, status = simulate(net, [0.1, 100.0], n, seed=9)
    p = np.exp(-0.6)
    assert abs((counts[:, 0, 0] == 3).mean() - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert (counts[:, 1, 0] == 1).all()
    assert (status == 1).all()


def test_threads_draw_the_same_trajectories():
    times = np.linspace(0, 1, 11)
    first, _ = simulate(schlogl(), times, 200, seed=1, threads=1)
    second, _ = simulate(schlogl(), times, 200, seed=1, threads=3)
    assert np.array_equal(first, second)
    other, _ = simulate(schlogl(), times, 200, seed=2)
    assert not np.array_equal(first, other)
    tree, _ = simulate(schlogl(), times, 200, seed=1, threads=1, selector="tree")
    tree3, _ = simulate(schlogl(), times, 200, seed=1, threads=3, selector="tree")
    assert np.array_equal(tree, tree3)


@pytest.mark.validate
def test_schlogl_against_the_master_equation():
    """P(X < 300) = 0.51347 at t = 10; 4,000 trajectories, 4 standard errors: 6e-5 false alarms."""
    net = schlogl()
    counts, _ = simulate(net, [10.0], 4000, seed=3)
    x = counts[:, 0, list(net.species).index("X")]
    assert abs((x < 300).mean() - 0.51347) < 4 * np.sqrt(0.25 / 4000)
    assert abs(x.mean() - 316.592) < 4 * 238.07 / np.sqrt(4000)


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_count_that_overflows_ends_its_trajectory_alone(selector):
    net = Network("burst")
    net.add_species("X", 2**31 - 2)
    net.add_reaction("-> X", rate=1.0)
    counts, status = simulate(net, [0.0, 1e3], 8, seed=1, selector=selector)
    assert (status == 2).all()
    assert (counts[:, 0, 0] == 2**31 - 2).all()
    assert (counts[:, 1, 0] == -1).all()


@pytest.mark.parametrize("selector", SELECTORS)
def test_step_limit(selector):
    net = Network("clock")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=1.0)
    counts, status = simulate(net, [0.0, 1000.0], 4, seed=1, max_steps=10, selector=selector)
    assert (status == 3).all()
    assert (counts[:, 1, 0] == -1).all()
