"""The lattice engine: nothing depends on how the work is cut, and nothing is lost."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from lattice_factory import (
    binding,
    digest,
    empty_lattice,
    engine_on,
    lowered,
    state_of,
    typed,
)
from places import TESTS
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends import cpu as cpu_backend
from tauslab.kernels.backends.cache import CSRC, csrc_texts
from tauslab.kernels.lattice import codegen as lattice_codegen
from tauslab.kernels.lattice import plan as rdme
from tauslab.kernels.lattice.codegen import Tile
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.plan import LatticeRequests
from tauslab.kernels.lattice.state import Slab
from tauslab.kernels.lattice.steps import PlaneSteps

SHAPE = (6, 21, 37)
BLOCK_THREADS = ("csrc_bytes.h", "csrc_block_threads.h")


def held(shape=(7, 9, 40)):
    model = empty_lattice(shape, {"A": 0.2, "B": 0.4}, boundary="reflecting")
    model.set_boundary("z-", "held", concentrations={"A": 2e-5})
    model.set_boundary("x+", "held", concentrations={"A": 1e-5, "B": 4e-5})
    model.set_boundary("y-", "absorbing")
    return lowered(model)


def wide(shape=(5, 11, 19), slots=16, count=4):
    model = empty_lattice(shape, {f"S{i}": 0.1 for i in range(300)}, slots=slots)
    for i in range(0, 299, 2):
        model.add_reaction(f"S{i} + S{i + 1} -> S{(7 * i) % 300}", rate=3000, volume="site")
        model.add_reaction(f"S{i} -> S{i} + S{(i + 9) % 300}", rate=20)
    for i in range(300):
        model.place(f"S{i}", count=count)
    return lowered(model)


MODELS = {
    "periodic": lambda: binding(SHAPE, 1.6),
    "crowded": lambda: binding(SHAPE, 4.8, slots=8),
    "reflecting": lambda: binding(SHAPE, 2.5, boundary="reflecting"),
    "thin": lambda: binding((1, 1, 40), 1.6),
    "deep": lambda: binding((40, 2, 1), 1.6, slots=32),
    "typed": lambda: typed(SHAPE),
    "typed periodic": lambda: typed(SHAPE, boundary="periodic", slots=8, fill=2.5),
    "held": held,
    "wide": wide,
    "wide sites": lambda: wide(slots=32),
    "wide crowded": lambda: wide(slots=8, count=16),
}


@pytest.fixture(params=ordinary(MODELS, "crowded", "typed periodic"))
def lattice(request):
    return MODELS[request.param]()


def after(engine, steps=20):
    engine.run_sampled([steps])
    return digest(engine)


def test_devices_threads_and_launches_give_the_same_bits(backend, cpu, lattice):
    """The reference is one thread; `backend` is two threads, then CUDA."""
    expected = after(engine_on(cpu, lattice))
    assert after(engine_on(backend, lattice)) == expected
    step_by_step = engine_on(backend, lattice, sparse=False)
    for _ in range(20):
        planes = step_by_step.slab.planes
        step_by_step.in_planes.hop_in_planes(0, planes)
        step_by_step.in_planes.finish_planes(0, planes)
        step_by_step.step += 1
    assert digest(step_by_step) == expected


@pytest.fixture
def block_of_threads(monkeypatch):
    """A CPU device whose threads are those of one block, as a GPU runs them."""
    local = TESTS / "support" / "kernels"
    prelude = "".join(
        f.read_text() for f in (CSRC / "device/cpu.h", *(local / n for n in BLOCK_THREADS))
    )
    monkeypatch.setattr(cpu_backend, "csrc_texts", lambda: csrc_texts() | {"device/cpu.h": prelude})
    opened = get_backend("cpu", BackendOptions(threads=5))
    opened.sites_of_a_block = 1
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "name",
    ordinary(["crowded", "wide sites", "typed periodic", "deep", "held"], "crowded"),
)  # fmt: skip
def test_threads_of_a_block_give_the_same_bits(block_of_threads, cpu, name, monkeypatch):
    """Each thread of a block has some of its sites; barriers keep their passes apart."""
    lattice = MODELS[name]()
    with monkeypatch.context() as original:
        original.setattr(cpu_backend, "csrc_texts", csrc_texts)
        expected = engine_on(cpu, lattice)
    counts = expected.run_sampled([9, 20])
    engine = engine_on(block_of_threads, lattice)
    actual = engine.run_sampled([9, 20])
    assert digest(engine) == digest(expected)
    assert np.array_equal(actual.by_type, counts.by_type)


def test_tiles_do_not_matter(cpu, lattice, monkeypatch):
    tile = Tile(4, 3, 128)
    expected = after(engine_on(cpu, lattice))
    monkeypatch.setattr(lattice_codegen, "tile_of", lambda _, **__: tile)
    monkeypatch.setattr(rdme, "tile_of", lambda _, **__: tile)
    assert after(engine_on(cpu, lattice)) == expected


@pytest.mark.parametrize("segment", [1, 4])
def test_cuts_along_z_do_not_matter(cpu, segment, monkeypatch):
    lattice = MODELS["crowded"]()
    expected = after(engine_on(cpu, lattice))
    monkeypatch.setattr(PlaneSteps, "_segment", lambda *_: segment)
    assert after(engine_on(cpu, lattice, together=False)) == expected


def test_empty_tiles_are_skipped_and_nothing_else(cpu, monkeypatch):
    """Particles in one corner that spread over many tiles, against tiles that are never skipped."""
    lattice = binding((12, 24, 40), 0)
    start = np.zeros((12, 24, 40, 16), np.uint8)
    start[1, 2, 3] = start[6, 13, 39] = 1
    monkeypatch.setattr(lattice_codegen, "tile_of", lambda _, **__: Tile(4, 4, 128))
    monkeypatch.setattr(rdme, "tile_of", lambda _, **__: Tile(4, 4, 128))
    actual = []
    for always in (False, True):
        engine = LatticeEngine(cpu, lattice, seed=3, requests=LatticeRequests(together=False))
        engine.load(state_of(lattice, start))
        if always:
            engine.tables._always_active = np.full((12, engine.plan.tiles), 3, np.uint8)
        else:
            engine.run_sampled([20])
            filled = engine._stamps == engine.step + 1
            assert 0.02 < filled.mean() < 0.7
            engine.run_sampled([180])
        engine.run_sampled([200 - engine.step])
        actual.append(digest(engine))
    assert actual[0] == actual[1]


@pytest.mark.parametrize(
    "name",
    ordinary(
        ["periodic", "crowded", "typed", "typed periodic", "held", "wide"],
        "typed periodic", "held",
    ),
)  # fmt: skip
def test_slabs_with_a_plane_of_their_neighbours_do_the_same(cpu, name):
    lattice = MODELS[name]()
    nz = lattice.shape[0]
    expected = engine_on(cpu, lattice)
    expected.run_sampled([25])
    periodic = lattice.boundary[0] == "periodic"
    cuts = [0, 1, 3, nz]
    slabs = [
        Slab(a, b, int(a > 0 or periodic), int(b < nz or periodic))
        for a, b in itertools.pairwise(cuts)
    ]
    engines = [engine_on(cpu, lattice, slab=slab) for slab in slabs]
    for _ in range(25):
        exchange(engines, nz)
        for engine in engines:
            below, planes = engine.slab.below, engine.slab.planes
            engine.in_planes.hop_in_planes(0, planes)
            engine.in_planes.finish_planes(below, planes - engine.slab.above)
            engine.step += 1
            engine.synchronize()
    states = [engine.save() for engine in engines]
    whole = expected.save()
    assert np.array_equal(np.concatenate([s.particles for s in states]), whole.particles)
    assert np.array_equal(np.concatenate([s.waiting for s in states]), whole.waiting)
    assert np.array_equal(sum(s.fired for s in states), whole.fired)
    assert sum(s.spills for s in states) == whole.spills


def exchange(engines, nz):
    owners = {z: e for e in engines for z in range(e.slab.begin, e.slab.end)}
    for engine in engines:
        slab = engine.slab
        for stored in [*range(slab.below), *range(slab.planes - slab.above, slab.planes)]:
            z = (slab.begin - slab.below + stored) % nz
            owner = owners[z].slab
            plane = z - owner.begin + owner.below
            engine.particles[stored] = owners[z].particles[plane]
            engine._stamps[stored] = engine.step + 1


@pytest.mark.parametrize("name", ordinary(["crowded", "typed periodic", "wide crowded"], "crowded"))
def test_nothing_is_lost(backend, name):
    """T10: particles on the lattice and in the list are those the reactions left."""
    lattice = MODELS[name]()
    change = np.zeros((len(lattice.reactions), len(lattice.species)), np.int64)
    for row, reaction in zip(change, lattice.reactions, strict=True):
        np.subtract.at(row, list(reaction.reactants), 1)
        np.add.at(row, list(reaction.products), 1)
    engine = engine_on(backend, lattice)
    start = engine.count()
    samples = engine.run_sampled(list(range(1, 61)))
    assert samples.fired[-1].sum() > 100
    assert np.array_equal(samples.counts, start.counts + samples.fired @ change)
    assert (samples.waiting > 0).any()
    state = engine.save()
    full = (state.particles > 0).sum(axis=-1)
    assert (np.diff((state.particles > 0).astype(np.int8), axis=-1) <= 0).all()
    held_by_waiting = np.unravel_index(state.waiting["site"].astype(np.int64), lattice.shape)
    assert (full[held_by_waiting] == lattice.slots).all()
    counted = np.bincount(state.particles.ravel(), minlength=len(lattice.species) + 1)[1:]
    counted += np.bincount(state.waiting["particle"], minlength=len(lattice.species) + 1)[1:]
    assert np.array_equal(counted, samples.counts[-1])


def test_a_list_that_is_full_changes_nothing(backend):
    lattice = MODELS["crowded"]()
    roomy = engine_on(backend, lattice, capacity=100_000)
    tight = engine_on(backend, lattice, capacity=4)
    marks = [1, 7, 20]
    first, second = roomy.run_sampled(marks), tight.run_sampled(marks)
    assert tight.capacity > 4
    assert roomy.capacity > tight.capacity
    assert first.waiting.max() > 4
    assert np.array_equal(first.by_type, second.by_type)
    assert np.array_equal(first.spills, second.spills)
    assert digest(roomy) == digest(tight)


@pytest.mark.parametrize("step", [1, 2, 13])
def test_a_restart_changes_nothing(backend, step):
    lattice = MODELS["crowded"]()
    unbroken = engine_on(backend, lattice)
    broken = engine_on(backend, lattice)
    broken.run_sampled([step])
    again = LatticeEngine(backend, lattice, seed=5)
    again.load(broken.save())
    assert digest(again) == digest(broken)
    again.run_sampled([20 - step])
    assert after(unbroken, 20) == digest(again)


def test_seeds_and_replicas_differ(cpu):
    lattice = MODELS["periodic"]()
    start = state_of(lattice, lattice.particles(0, SHAPE[0], 1))
    actual = set()
    for seed, replica in ((1, 0), (2, 0), (1, 1), (1 + 2**40, 0)):
        engine = LatticeEngine(cpu, lattice, seed=seed, replica=replica)
        engine.load(start)
        actual.add(after(engine, 5))
    assert len(actual) == 4


def test_steps_and_sites_beyond_32_bits_have_draws_of_their_own(cpu):
    lattice = MODELS["periodic"]()
    start = state_of(lattice, lattice.particles(0, SHAPE[0], 1))
    actual = set()
    for step in (0, 2**30, 2**32, 2**47):
        engine = LatticeEngine(cpu, lattice, seed=1)
        engine.load(replace(start, step=step))
        engine.run_sampled([3])
        actual.add(engine.save().particles.tobytes())
    assert len(actual) == 4


def test_counts_by_type_are_those_of_the_particles(backend):
    lattice = typed(SHAPE)
    engine = engine_on(backend, lattice)
    samples = engine.run_sampled([10])
    state, sites = engine.save(), lattice.sites(0, lattice.shape[0])
    assert len(state.waiting) == 0
    for number in range(3):
        inside = state.particles[sites == number]
        counted = np.bincount(inside.ravel(), minlength=3)[1:]
        assert np.array_equal(samples.by_type[0, number], counted)


def test_a_changed_rate_takes_effect(backend):
    lattice = binding(SHAPE, 1.6)
    engine = engine_on(backend, lattice)
    engine.set_rate(0, np.zeros(1))
    engine.set_rate(1, np.zeros(1))
    assert engine.run_sampled([20]).fired.sum() == 0
    engine.set_rate(1, np.full(1, 1e9))
    samples = engine.run_sampled([16])
    assert samples.counts[0, 2] == 0
