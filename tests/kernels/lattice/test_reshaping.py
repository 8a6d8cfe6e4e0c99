"""Other site types between two steps: who leaves, where to, and that nothing else decides it."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from emulation import EmulatedLattices
from sampling import ordinary
from thread_ranks import on_threads

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.decomposition.slab import slab_of
from tauslab.kernels.backends import BackendOptions
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.reshaping import preferences
from tauslab.kernels.lattice.state import Slab
from tauslab.model.lattice.placement import random_words

SHAPE = (12, 10, 11)
SEED, STEP, REPLICA, CALL = 7, 40, 2, 1
Z, Y, X = np.indices(SHAPE)
OUT, IN, RIM = range(3)
SPECIES = ("C", "M", "G")  # of the inside and the rim; of the rim; of the inside, never hopping


def ball(radius, centre=(5.5, 4.5, 5.0)):
    squared = (Z - centre[0]) ** 2 + (Y - centre[1]) ** 2 + (X - centre[2]) ** 2
    types = np.zeros(SHAPE, np.uint8)
    types[squared <= (radius + 1) ** 2] = RIM
    types[squared <= radius**2] = IN
    return types


def halves():
    types = np.zeros(SHAPE, np.uint8)
    types[(X < 2) | (X > 8)] = IN
    types[X == 5] = RIM
    return types


def lowered(numbers=(700, 150, 12), boundary="reflecting", slots=8, start=None):
    start = ball(3.0) if start is None else start
    model = ts.Lattice("cell", shape=SHAPE, spacing=1e-8, slots=slots, step=1e-5, boundary=boundary)
    model.add_site_type("out")
    model.add_site_type("in", start == IN)
    model.add_site_type("rim", start == RIM)
    model.add_species(*SPECIES)
    for name in ("in", "rim"):
        model.add_diffusion("C", 1e-12, within=name)
    model.add_diffusion("C", 1e-12, between=("in", "rim"))
    model.add_diffusion("M", 1e-12, within="rim")
    for name, number, where in zip(SPECIES, numbers, ("in", "rim", "in"), strict=True):
        model.place(name, count=number, site_type=where)
    return lower_lattice(model)


def begun(backend, lattice, slab=None):
    engine = LatticeEngine(backend, lattice, seed=SEED, replica=REPLICA, slab=slab)
    engine.load_start()
    engine.step = STEP
    return engine


def reshaped(engine, types, gather=lambda *own: [own], follow=None, reach=8):
    actual = engine.reshaping.run(
        engine, types, engine.reshaping.following(follow or {}), call=CALL, gather=gather,
        reach=reach,
    )  # fmt: skip
    return actual, engine.save()


def all_particles(state):
    """Site, species + 1 and whether it waits, of all particles."""
    where = np.argwhere(state.particles)
    sites = np.ravel_multi_index(tuple(where[:, :3].T), SHAPE)
    rows = np.stack([sites, state.particles[tuple(where.T)], np.zeros(len(sites))], axis=1)
    late = np.stack([state.waiting["site"], state.waiting["particle"]], axis=1)
    return np.concatenate([rows, np.pad(late, ((0, 0), (0, 1)), constant_values=1)]).astype(int)


def tie(ties, place):
    word = (ties + place * 0x9E3779B97F4A7C15) & (2**64 - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ word >> shift) * factor & (2**64 - 1)
    return (word >> 32 ^ word) & 0xFFFFFFFF


def one_by_one(particles, before, after, homes):
    """The same, each particle in its turn: the site and slots that it comes to."""
    slots = particles.shape[-1]
    held = {
        site: [int(p) for p in row if p] for site, row in enumerate(particles.reshape(-1, slots))
    }
    leavers = []
    for site, row in held.items():
        old, new = before.flat[site], after.flat[site]
        for slot, particle in enumerate(row if old != new else ()):
            if not homes[new, particle - 1]:
                block = random_words(SEED, 5, REPLICA, slot | CALL << 8, STEP)
                block.advance(site)
                words = block.random_raw(2)
                leavers.append((int(words[0]) & 0xFFFFFFFF, site, slot, particle, int(words[1])))
    for _, site, slot, *_ in sorted(leavers, key=lambda one: (one[1], -one[2])):
        del held[site][slot]
    order = sorted(range(len(leavers)), key=lambda i: (-leavers[i][0], -i))
    offsets, rings = preferences(8)
    for _, site, _, particle, ties in (leavers[i] for i in order):
        at = np.array(np.unravel_index(site, SHAPE))
        for begin, end in itertools.pairwise(rings.tolist()):
            actual = []
            for place in range(begin, end):
                to = at + offsets[place]
                if (to < 0).any() or (to >= SHAPE).any():
                    continue
                number = int(np.ravel_multi_index(tuple(to), SHAPE))
                if homes[after.flat[number], particle - 1] and len(held[number]) < slots:
                    low = (tie(ties, place) & ~1023) | (place - begin)
                    actual.append((low, number))
            if actual:
                held[min(actual)[1]].append(particle)
                break
    made = np.zeros((len(held), slots), particles.dtype)
    for site, row in held.items():
        made[site, : len(row)] = row
    return made.reshape(particles.shape), len(leavers)


def test_each_goes_in_its_turn_to_the_nearest_free_site(cpu):
    engine = begun(cpu, lowered())
    before, homes = engine.save().particles, engine.reshaping.habitats
    assert homes.tolist() == [[False] * 3, [True, False, True], [True, True, False]]
    actual, after = reshaped(engine, ball(2.6))
    expected, moved = one_by_one(before, ball(3.0), ball(2.6), homes)
    assert (actual.moved, actual.waiting) == (moved, 0)
    assert moved > 60
    assert np.array_equal(after.particles, expected)


SHAPES = {
    "grows": ball(3.9),
    "shrinks": ball(2.0),
    "by a voxel": ball(3.0, (5.5, 4.5, 6.0)),
    "one site": np.where((Z == 5) & (Y == 5) & (X == 5), IN, np.where(Z == 0, RIM, OUT)),
    "apart": halves(),
    "turned": np.where(ball(3.0) == IN, RIM, np.where(ball(3.0) == RIM, IN, OUT)),
}


@functools.cache
def alone(name, boundary="reflecting"):
    backend = CpuBackend(BackendOptions(threads=1))
    actual = reshaped(begun(backend, lowered(boundary=boundary)), SHAPES[name].astype(np.uint8))
    backend.close()
    return actual


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_is_lost_and_nothing_stands_in_a_wall(name):
    types = SHAPES[name].astype(np.uint8)
    actual, state = alone(name)
    rows = all_particles(state)
    assert np.bincount(rows[:, 1], minlength=4)[1:].tolist() == [700, 150, 12]
    kinds = types.reshape(-1)[rows[:, 0]]
    assert (kinds != OUT).all()
    assert (kinds[rows[:, 1] == 2] == RIM).all()
    assert (kinds[rows[:, 1] == 3] == IN).all()
    assert actual.waiting == (rows[:, 2] == 1).sum() == state.spills
    full = state.particles.reshape(-1, 8)
    assert ((full[:, 1:] == 0) | (full[:, :-1] > 0)).all()
    if name == "one site":  # 8 of the inside have a slot, the others wait there
        assert actual.waiting > 3
        assert (full[5 * 110 + 5 * 11 + 5] > 0).all()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "bounds",
    [
        (0, 5, 6, 12),
        *(pytest.param(cut, marks=pytest.mark.validate) for cut in ((0, 1, 12), (0, 4, 8, 12))),
    ],
)
def test_cuts_change_nothing(name, bounds):
    boundary = "periodic" if len(bounds) == 3 else "reflecting"
    types = SHAPES[name].astype(np.uint8)

    def slab(comm):
        backend = CpuBackend(BackendOptions(threads=2))
        own = Slab(*bounds[comm.rank : comm.rank + 2])
        engine = begun(backend, lowered(boundary=boundary), own)
        made = reshaped(engine, types, lambda *own: comm.allgather(own))
        backend.close()
        return made

    parts = on_threads(len(bounds) - 1, slab)
    actual, state = alone(name, boundary)
    assert {message for message, _ in parts} == {actual}
    assert np.array_equal(np.concatenate([one.particles for _, one in parts]), state.particles)
    assert np.array_equal(np.concatenate([one.waiting for _, one in parts]), state.waiting)


@pytest.mark.parametrize("name", ["grows", "one site"])
def test_threads_change_nothing(many_threads, name):
    actual, state = reshaped(begun(many_threads, lowered()), SHAPES[name].astype(np.uint8))
    assert actual == alone(name)[0]
    assert np.array_equal(state.particles, alone(name)[1].particles)
    assert np.array_equal(state.waiting, alone(name)[1].waiting)


@pytest.mark.parametrize("order", [1, -1, 5, 6])
def test_emulated_blocks_change_nothing(cpu, tmp_path, order):
    engine = begun(cpu, lowered())
    emulated = EmulatedLattices(tmp_path, 32, order, 2, counter=cpu)
    source = _source(engine)
    engine.reshaping.__dict__["_program"] = emulated.compile(source)
    actual, state = reshaped(engine, SHAPES["shrinks"])
    assert actual == alone("shrinks")[0]
    assert np.array_equal(state.particles, alone("shrinks")[1].particles)
    emulated.close()


def _source(engine):
    kept = []
    assert engine.reshaping
    compiled = engine.backend.compile
    engine.backend.compile = lambda source: (kept.append(source), compiled(source))[1]
    del engine.__dict__["reshaping"]
    assert engine.reshaping
    del engine.backend.compile
    return kept[0]


@pytest.mark.parametrize("name", ordinary(SHAPES, *(name for name in SHAPES if name != "grows")))
def test_bit_planes_do_the_same(name):
    """Slots of a site are others there, and so are draws."""
    types = SHAPES[name].astype(np.uint8)

    def slab(comm):
        backend = CpuBackend(BackendOptions(threads=1))
        bounds = (0, 12) if comm.size == 1 else (0, 5, 12)
        own = slab_of(bounds, comm.rank, periodic=False)
        engine = PlanesEngine(backend, lowered(), seed=SEED, replica=REPLICA, slab=own)
        engine.load_start()
        engine.step = STEP
        made = reshaped(engine, types, lambda *own: comm.allgather(own))
        assert np.array_equal(engine.types[engine.own], types[own.begin : own.end])
        backend.close()
        return made

    (actual, state), *_ = on_threads(1, slab)
    rows = all_particles(state)
    assert np.bincount(rows[:, 1], minlength=4)[1:].tolist() == [700, 150, 12]
    assert (types.reshape(-1)[rows[:, 0]] != OUT).all()
    assert actual.moved == alone(name)[0].moved
    parts = on_threads(2, slab)
    assert {message for message, _ in parts} == {actual}
    assert np.array_equal(np.concatenate([one.particles for _, one in parts]), state.particles)
    assert np.array_equal(np.concatenate([one.waiting for _, one in parts]), state.waiting)


def test_those_that_wait_go_too(cpu):
    """A crowd that waits at the only site of the inside, which then is elsewhere."""
    engine = begun(cpu, lowered())
    assert reshaped(engine, SHAPES["one site"].astype(np.uint8))[0].waiting > 3
    types = ball(2.5, (5.5, 4.5, 8.5))
    actual, state = reshaped(engine, types)
    rows = all_particles(state)
    assert np.bincount(rows[:, 1]).tolist() == [0, 700, 150, 12]
    assert (types.reshape(-1)[rows[:, 0]] != OUT).all()
    assert actual.waiting == len(state.waiting) < 100


def test_a_full_lattice_makes_them_wait(cpu):
    everywhere = np.full(SHAPE, IN, np.uint8)
    everywhere[0] = RIM
    engine = begun(cpu, lowered((1209 * 8, 0, 0), start=everywhere))
    before = engine.save().particles
    actual, state = reshaped(engine, np.where(Z > 8, OUT, everywhere).astype(np.uint8), reach=2)
    assert actual.moved == (before[9:] > 0).sum()
    assert actual.waiting > 0
    assert actual.waiting + (state.particles > 0).sum() == 1209 * 8
    assert (state.particles[9:] == 0).all()
    assert (state.waiting["site"] >= 8 * 110).all()


def test_species_follow_shapes(cpu):
    def rest(follow):
        engine = begun(cpu, lowered())
        _, state = reshaped(engine, ball(2.0), follow=follow)
        return state.particles

    start = begun(cpu, lowered()).save().particles
    assert ((rest({})[ball(2.0) == RIM] == 1).any(axis=-1)).any()
    assert not (rest({"C": "shell"})[ball(2.0) == RIM] == 1).any()
    pinned = rest({"G": "pinned"})
    inside = ball(2.0) != OUT
    kept = (start == 3).sum(axis=-1)[inside]
    assert ((pinned == 3).sum(axis=-1)[inside] >= kept).all()
    assert (pinned[~inside] == 0).all()


def test_what_cannot_be_is_refused(cpu):
    engine = begun(cpu, lowered())
    before = engine.save().particles
    with pytest.raises(ConfigError, match="no site left where C may be"):
        reshaped(engine, np.zeros(SHAPE, np.uint8))
    assert np.array_equal(engine.save().particles, before)
    with pytest.raises(ConfigError, match="particles"):
        engine.reshaping.following({"C": "away"})
    with pytest.raises(ConfigError, match="'X' is not a species"):
        engine.reshaping.following({"X": "stay"})
