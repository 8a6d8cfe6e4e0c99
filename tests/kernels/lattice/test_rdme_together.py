"""Steps that are launched together: a list of tiles forgets none, and has no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulation import EmulatedLattices
from lattice_factory import (
    binding,
    coefficient,
    digest,
    empty_lattice,
    engine_on,
    lowered,
    state_of,
    typed,
)
from sampling import ordinary

from tauslab.kernels.lattice import codegen as lattice_codegen
from tauslab.kernels.lattice import plan as rdme
from tauslab.kernels.lattice.codegen import Tile, tile_of
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.plan import LatticeRequests

LISTED = slice(8, 10)  # words of `work`
SHAPE = (12, 24, 40)
BY_LISTS = LatticeRequests(together=True, sparse=False)


def held():
    model = empty_lattice((5, 9, 20), {"A": 0.2, "B": 0.4}, boundary="reflecting")
    model.set_boundary("z-", "held", concentrations={"A": 2e-5})
    model.set_boundary("x+", "held", concentrations={"A": 1e-5, "B": 4e-5})
    model.set_boundary("y-", "absorbing")
    return lowered(model)


# Planes that end within a tile; one plane, which is its own neighbour; particles that wait; sites
# of 32 bytes; particles that are made where nothing was.
MODELS = {
    "periodic": lambda: binding((5, 13, 21), 1.6),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "thin": lambda: binding((1, 9, 20), 1.6, slots=32),
    "typed": lambda: typed((4, 17, 19)),
    "held": held,
}


CASES = [(m, (-1) ** i) for i, m in enumerate(MODELS)]


@pytest.mark.parametrize(("name", "order"), ordinary(CASES, CASES[0]))
def test_blocks_of_a_gpu_give_the_bits_of_single_steps(cpu, tmp_path, name, order):
    lattice = MODELS[name]()
    threads = tile_of(lattice, small=True).threads
    backend = EmulatedLattices(tmp_path, threads, order, counter=cpu)
    expected = engine_on(cpu, lattice, together=False)
    actual = engine_on(backend, lattice, together=True, sparse=False)
    assert actual.plan.tile.x * actual.plan.tile.y <= threads  # a thread has one site
    counts = expected.run_sampled([3, 8])
    assert np.array_equal(actual.run_sampled([3, 8]).by_type, counts.by_type)
    assert digest(actual) == digest(expected)
    backend.close()


def small_tiles(monkeypatch):
    for module in (lattice_codegen, rdme):
        monkeypatch.setattr(module, "tile_of", lambda _, **__: Tile(4, 4, 128))


def in_a_corner():
    """Three particles far from most of the lattice."""
    start = np.zeros((*SHAPE, 16), np.uint8)
    start[1, 2, 3, 0] = start[6, 13, 39, 0] = start[11, 0, 20, 0] = 1
    return start


def listed(engine):
    """Length of the list in use; the other one is empty."""
    return int(engine.host(engine.work)[LISTED].sum())


@pytest.mark.parametrize("cuts", [[300], [1, 63, 64, 65, 190, 300], [150, 151, 300]])
def test_particles_walk_into_empty_regions(cpu, three_threads, cuts, monkeypatch):
    """They cross many tiles between two lists, and faces, and any launch may end in between."""
    small_tiles(monkeypatch)
    lattice = binding(SHAPE, 0)
    engines = [
        LatticeEngine(cpu, lattice, seed=3, requests=LatticeRequests(together=False)),
        LatticeEngine(three_threads, lattice, seed=3, requests=BY_LISTS),
    ]
    for engine in engines:
        engine.load(state_of(lattice, in_a_corner()))
        engine.run_sampled(cuts)
    assert digest(engines[0]) == digest(engines[1])
    actual = np.argwhere(engines[1].save().particles.any(axis=3))
    assert len(actual) == 3
    tiles = {tuple(site // (1, 4, 4)) for site in actual}
    started = {(1, 0, 0), (6, 3, 9), (11, 0, 5)}
    assert not tiles & started  # none is where it was
    assert listed(engines[1]) > 0


def test_stamps_do_not_come_round(cpu, three_threads, monkeypatch):
    """All tiles are taken for filled again before stamps of 32 bits repeat."""
    small_tiles(monkeypatch)
    lattice = binding(SHAPE, 0)
    late = 2**32 - 3
    actual = LatticeEngine(
        three_threads, lattice, seed=3, requests=LatticeRequests(together=True, sparse=False)
    )
    actual.load(state_of(lattice, in_a_corner()))
    actual.run_sampled([50])
    expected = LatticeEngine(cpu, lattice, seed=3, requests=LatticeRequests(together=False))
    expected.load(replace(actual.save(), step=late))
    actual.step = late  # as if nothing had been stamped for all those steps
    for engine in (expected, actual):
        engine.run_sampled([100])
    assert digest(actual) == digest(expected)


def test_empty_tiles_are_not_on_the_list(three_threads, monkeypatch):
    """All are at first, after a load; then those around three particles, and where they went."""
    small_tiles(monkeypatch)
    lattice = binding(SHAPE, 0)
    engine = LatticeEngine(
        three_threads, lattice, seed=3, requests=LatticeRequests(together=True, sparse=False)
    )
    engine.load(state_of(lattice, in_a_corner()))
    tiles = engine.slab.planes * engine.plan.tiles
    engine.run_sampled([1])
    assert listed(engine) == tiles
    engine.run_sampled([1])
    assert 3 <= listed(engine) <= 3 * 27 * 2
    engine.run_sampled([64])
    assert listed(engine) < tiles / 2
    engine.run_sampled([130])  # anew after 64 and 128 of them
    assert listed(engine) <= 3 * 27 * 2


@pytest.mark.validate
def test_tiles_that_nothing_can_enter_are_not_on_the_list(cpu, three_threads, monkeypatch):
    """A cell in a medium; then the medium is made part of the cell, and particles go there."""
    small_tiles(monkeypatch)
    model = empty_lattice((6, 24, 24), {}, boundary="periodic")
    model.add_species("A")
    _, y, x = np.indices((6, 24, 24))
    model.add_site_type("medium")
    model.add_site_type("cell", (y < 4) & (x < 8))
    model.add_diffusion("A", coefficient(0.3), within="cell")
    model.place("A", count=200, site_type="cell")
    lattice = lowered(model)
    digests = []
    for backend, together in ((cpu, False), (three_threads, True)):
        engine = engine_on(backend, lattice, together=together)
        engine.run_sampled([2])
        engine.run_sampled([100])
        if together:
            assert listed(engine) == 6 * 2
        engine.tables.set_types(np.ones((6, 24, 24), np.uint8))
        engine.run_sampled([100])
        if together:
            assert listed(engine) == 6 * 36
        digests.append(digest(engine))
    assert digests[0] == digests[1]


def test_the_list_ends_when_all_particles_are_gone(three_threads, monkeypatch):
    small_tiles(monkeypatch)
    model = empty_lattice((4, 8, 8), {"A": 0.4}, boundary="absorbing")
    model.place("A", count=30)
    engine = engine_on(three_threads, lowered(model), together=True)
    assert engine.run_sampled([1000]).by_type.sum() == 0
    engine.run_sampled([3])
    assert listed(engine) == 0
    engine.particles[2, 3, 3, 0] = 1
    engine.mark_all()
    assert engine.run_sampled([1]).by_type.sum() == 1


@pytest.mark.validate
def test_rates_that_make_particles_in_an_empty_region(cpu, three_threads, monkeypatch):
    """Zeroth order in sites of one type only, none elsewhere, and none at all at first."""
    small_tiles(monkeypatch)
    model = empty_lattice((6, 16, 16), {"A": 0.1}, boundary="periodic")
    z, y, x = np.indices((6, 16, 16))
    model.add_site_type("water")
    model.add_site_type("source", (z == 2) & (y == 9) & (x < 2))
    model.add_reaction("-> A", rate=300, volume="site", site_types="source", name="make")
    lattice = lowered(model)
    states = []
    for backend, together in ((cpu, False), (three_threads, True)):
        engine = engine_on(backend, lattice, together=together)
        engine.set_rate(0, [0.0, 0.0])
        engine.run_sampled([70])
        assert engine.count().by_type.sum() == 0
        engine.set_rate(0, [0.0, 300.0])
        engine.run_sampled([40, 200])
        states.append(digest(engine))
        assert engine.count().by_type.sum() > 0
    assert states[0] == states[1]
