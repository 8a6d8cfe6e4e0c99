"""Random models of every engine: nothing is lost, and no cut of the work changes a bit.

``TAUSLAB_FUZZ_CASES`` is how many of each kind (scripts/sanitize.py address --fuzz N).
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from dirty_memory import Dirty
from emulation import EmulatedBackend, EmulatedLattices
from engine_runs import compiler, leap, simulate
from lattice_factory import digest, engine_on, state_of
from ode_probe import integrate, system_of
from quick_compiling import quick_flags
from random_models import random_lattice, random_network

from tauslab.kernels.backends import BackendOptions
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.lattice.codegen import (
    SECTION,
    SECTION_ROOM,
    in_warp_tiles,
    may_be_sparse,
    sparse_threads,
    tile_of,
)
from tauslab.kernels.leaping.tau_leap import TauLeap
from tauslab.kernels.ode.settings import SOLVERS, OdeSettings
from tauslab.model.lattice.placement import ParticleStart

CASES = os.environ.get("TAUSLAB_FUZZ_CASES")
QUICK = ((1,), (4,))  # of networks, of lattices
NETWORKS, LATTICES = (range(int(CASES)) if CASES else quick for quick in QUICK)
TIMES = [0.0, 0.1, 0.4]
ENDS = {0, 1, 2, 3}  # done, absorbed, overflow, step_limit: never nan


KERNELS = tuple(solver for solver in SOLVERS if solver != "auto")


@pytest.fixture(autouse=True)
def _compile_fast(monkeypatch):
    """The bits do not depend on how hard the compiler tries."""
    if "TAUSLAB_CXXFLAGS" not in os.environ:
        monkeypatch.setenv("TAUSLAB_CXXFLAGS", quick_flags())


def cpu(threads=1):
    kind = CpuBackend if threads == 1 else Dirty
    return kind(BackendOptions(threads=threads))


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def is_possible(found, masses):
    """Counts are whole, none is negative but after a trajectory's end, and masses stay."""
    counts, status = found[0], found[3]
    assert set(status.tolist()) <= ENDS
    sound = status <= 1
    assert (counts[sound] >= 0).all()
    assert (counts >= -1).all()
    if masses:
        assert (sound | (status == 3)).all()  # steps may have a limit
        weighed = counts[sound] @ np.array([masses[name] for name in masses])
        assert (weighed == weighed[:, :1]).all()


@compiler
@pytest.mark.parametrize("seed", NETWORKS)
def test_exact_trajectories_of_a_random_network(tmp_path, seed):
    dice = random.Random(f"network {seed}")
    net, masses = random_network(dice, dice.choice((1, 3, 20, 70)))
    selectors = (SELECTORS[seed % 2], SELECTORS[2 + seed // 2 % 3])
    for selector in selectors[len(net.reactions) > 30 and selectors[0] == "linear" :]:
        actual = simulate(cpu(), net, TIMES, 5, selector)
        is_possible(actual, masses)
        assert same(actual, simulate(cpu(3), net, TIMES, 5, selector))
        if selector != "linear":
            team, order = dice.choice((8, 32, 128)), dice.choice((1, -1))
            folder = tmp_path / selector
            folder.mkdir()
            device = EmulatedBackend(folder, max(32, team), order)
            assert same(actual, simulate(device, net, TIMES, 5, selector, team)), (selector, team)


@compiler
@pytest.mark.parametrize("seed", NETWORKS)
def test_leaps_of_a_random_network(tmp_path, seed):
    dice = random.Random(f"leaps {seed}")
    net, masses = random_network(dice, dice.choice((1, 3, 20)))
    epsilon, most = dice.choice((0.01, 0.3)), dice.choice((50, 5000))
    options = {"epsilon": epsilon, "max_steps": most}
    if seed % 2 or CASES:
        actual = leap(cpu(), net, TIMES, 5, engine=TauLeap, **options)
        is_possible(actual, masses)
        assert same(actual, leap(cpu(3), net, TIMES, 5, engine=TauLeap, **options))
    if seed % 2 == 0 or CASES:
        threads, blocks, crew = dice.choice(((32, 1, 1), (32, 3, 3), (64, 4, 2)))
        actual = leap(cpu(), net, TIMES, 5, **options)
        is_possible(actual, masses)
        assert same(actual, leap(cpu(3), net, TIMES, 5, **options))
        device = EmulatedBackend(tmp_path, threads, dice.choice((1, -1)), blocks)
        spread = {"blocks": crew, "layout": (threads, 1)}
        assert same(actual, leap(device, net, TIMES, 5, **options, **spread))


@pytest.mark.parametrize("seed", NETWORKS)
@pytest.mark.parametrize("solver", KERNELS if CASES else KERNELS[:1])
@pytest.mark.parametrize("precision", ["double", "single"] if CASES else ["single"])
def test_courses_of_a_random_network(seed, solver, precision):
    dice = random.Random(f"courses {seed}")
    net, _ = random_network(dice, dice.choice((1, 3, 20)))
    settings = OdeSettings(solver, substeps=20, precision=precision)
    actual = [
        integrate(cpu(threads), system_of(net), TIMES, settings, rows=5, max_steps=2000)
        for threads in (1, 3)
    ]
    for one, other in zip(*(solution.arrays for solution in actual), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.validate
@compiler
@pytest.mark.parametrize("seed", LATTICES)
def test_particles_on_a_random_lattice(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(ParticleStart, "crowding", 0.0)
    dice = random.Random(f"lattice {seed}")
    model = random_lattice(dice)
    marks = [1, 2, 5, 17]
    expected = started(cpu(), model, together=False)
    start = expected.count().counts[0]
    counts = expected.run_sampled(marks)
    assert (counts.counts >= 0).all()
    if model.closed:
        assert np.array_equal(counts.counts, start + counts.fired @ model.change)
    for engine in others(tmp_path, dice, model):
        actual = engine.run_sampled(marks)
        assert np.array_equal(actual.by_type, counts.by_type)
        assert digest(engine) == digest(expected)


def started(backend, model, **options):
    engine = engine_on(backend, model.lattice, **options)
    engine.load(state_of(model.lattice, model.particles))
    return engine


def others(folder, dice, model):
    """Three threads, together and not; the blocks of a GPU; little room for those that wait."""
    lattice = model.lattice
    three = cpu(3)
    three.sites_of_a_block = 1
    yield started(three, model, together=True, capacity=dice.choice((1, 4, 4096)))
    if CASES:
        yield started(three, model, together=False)
    threads = tile_of(lattice, small=True).threads
    yield started(EmulatedLattices(made(folder / "a"), threads, 1, counter=three), model,
                  together=True, sparse=False)  # fmt: skip
    if may_be_sparse(lattice):
        yield from sparse_ones(folder, dice, model, three)
    if CASES and in_warp_tiles(lattice):
        threads = tile_of(lattice).threads
        yield started(EmulatedLattices(made(folder / "b"), threads, -1, counter=three), model,
                      together=False)  # fmt: skip


def sparse_ones(folder, dice, model, three):
    """Steps that look for the sites that hold particles, with two barriers and with one."""
    space = lattice_bytes(model.lattice) in SECTION_ROOM
    for sections in (False, True)[: 1 + space]:
        options = {"sparse": True, "sections": sections, "capacity": dice.choice((1, 4, 4096))}
        yield started(three, model, **options)
        threads = sparse_threads(model.lattice, SECTION * sections)
        blocks = EmulatedLattices(made(folder / f"s{sections}"), threads, dice.choice((-1, 1)),
                                  counter=three)  # fmt: skip
        yield started(blocks, model, **options)


def lattice_bytes(lattice):
    return lattice.slots * np.dtype(lattice.particle_type).itemsize


def made(folder):
    folder.mkdir()
    return folder
