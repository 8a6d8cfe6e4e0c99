"""Blocks that keep lines of sites for many steps give the bits of single steps."""

from __future__ import annotations

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

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice import lines as lines_module
from tauslab.kernels.lattice.codegen import tile_of
from tauslab.kernels.lattice.lines import (
    LANES,
    NONE,
    blocks_near,
    closed_types,
    in_lines,
    line_plan,
    list_lines,
    planned_lines,
    sites_outside,
)
from tauslab.kernels.lattice.steps import LineSteps

THREADS = 96


@pytest.fixture(autouse=True)
def few_threads(monkeypatch):
    monkeypatch.setattr(lines_module, "_THREADS", THREADS)


def many_species(shape=(4, 10, 40), slots=16, fill=1.6, **options):
    """Particles of 16 bits."""
    model = empty_lattice(shape, {f"S{i}": 0.1 for i in range(300)}, slots=slots, **options)
    for i in range(0, 299, 2):
        model.add_reaction(f"S{i} + S{i + 1} -> S{(7 * i) % 300}", rate=3000, volume="site")
        model.add_reaction(f"S{i} -> S{i + 1}", rate=1000)
    for i in range(300):
        model.place(f"S{i}", count=int(fill * np.prod(shape) / 300))
    return lowered(model)


def cell_model(shape=(6, 24, 60)):
    """Particles stay in a part of the lattice that lines cover where they do not begin at x = 0."""
    model = empty_lattice(shape, {}, boundary="periodic")
    model.add_species("A", "B")
    z, y, x = np.indices(shape)
    model.add_site_type("medium")
    model.add_site_type("cell", (y - 11) ** 2 + (x - 33) ** 2 + 9 * (z - 3) ** 2 < 120)
    model.add_diffusion("*", coefficient(0.2), within="cell")
    model.add_reaction("A -> B", rate=500)
    model.add_reaction("2 B -> A", rate=500, volume="site", site_types="cell")
    return model


def cell():
    model = cell_model()
    for name in "AB":
        model.place(name, count=600, site_type="cell")
    return lowered(model)


# Sites that fit registers, some that do not, and most that do not; all faces; planes, lines and
# columns that are their own neighbours; lattices that are not full of lines.
MODELS = {
    "periodic": lambda: binding((4, 21, 37), 1.6),
    "periodic, whole lines": lambda: binding((3, 32, 64), 0.3),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "full": lambda: binding((3, 17, 32), 7.5),
    "one plane": lambda: binding((1, 9, 33), 2.6, slots=32),
    "one row": lambda: binding((3, 1, 33), 2.6, slots=32),
    "two of each": lambda: binding((2, 2, 65), 2.6),
    "reflecting": lambda: binding((3, 19, 40), 2.5, boundary="reflecting"),
    "absorbing": lambda: binding((3, 19, 40), 2.5, boundary="absorbing"),
    "typed": lambda: typed((4, 17, 45)),
    "typed periodic": lambda: typed((3, 16, 34), boundary="periodic", slots=8, fill=2.5),
    "cell": cell,
    "wide": many_species,
    "wide reflecting": lambda: many_species(boundary="reflecting", fill=3.0),
    "wide, few slots": lambda: many_species(slots=8, fill=2.5),
}
CASES = [(m, (-1) ** i, 1 + i % 4) for i, m in enumerate(MODELS)]
SOME = [CASES[0], CASES[11]]


def engines(cpu, folder, lattice, order=1, blocks=3):
    backend = EmulatedLattices(folder, THREADS, order, blocks, counter=cpu)
    expected = engine_on(cpu, lattice, together=False)
    actual = engine_on(backend, lattice, together=True, sparse=False, lines=True)
    assert isinstance(actual.steps, LineSteps)
    return expected, actual


@pytest.mark.parametrize(("name", "order", "blocks"), ordinary(CASES, SOME[0]))
def test_lines_give_the_bits_of_single_steps(cpu, tmp_path, name, order, blocks):
    expected, actual = engines(cpu, tmp_path, MODELS[name](), order, blocks)
    counts = expected.run_sampled([3, 8])
    assert np.array_equal(actual.run_sampled([3, 8]).by_type, counts.by_type)
    assert digest(actual) == digest(expected)
    assert actual.steps.lines.blocks == blocks
    actual.backend.close()


@pytest.mark.validate
def test_particles_that_are_made_where_none_can_hop(cpu, tmp_path):
    """All sites of the last plane's first line are rock: the first particle is made in step 75."""
    lattice = typed((4, 17, 45))
    assert (lattice.sites(3, 4)[0, 0] == 2).all()
    assert not (lattice.hop > 0)[:, 2].any()
    expected, actual = engines(cpu, tmp_path, lattice)
    for engine in (expected, actual):
        engine.run_sampled([100])
    assert expected.save().fired[2] > 0
    assert digest(actual) == digest(expected)
    actual.backend.close()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_lines_of_a_gpu(cpu, name, monkeypatch):
    monkeypatch.undo()  # as many threads as a GPU takes
    backend = get_backend("cuda", BackendOptions())
    expected = engine_on(cpu, MODELS[name]())
    actual = engine_on(backend, MODELS[name](), together=True, sparse=False, lines=True)
    assert isinstance(actual.steps, LineSteps)
    for marks in ([3, 40], [200], [1000]):
        counts = expected.run_sampled(marks)
        assert np.array_equal(actual.run_sampled(marks).by_type, counts.by_type)
        assert digest(actual) == digest(expected)
    backend.close()


@pytest.mark.gpu
@pytest.mark.parametrize("apart", [False, True])
def test_all_multiprocessors_of_a_gpu_keep_lines(cpu, apart, monkeypatch):
    """Whether blocks wait for those near them or for all, over steps enough for rare events."""
    monkeypatch.undo()
    backend = get_backend("cuda", BackendOptions())
    lattice = binding((32, 64, 64), 1.6)
    actual = engine_on(backend, lattice)
    assert isinstance(actual.steps, LineSteps)
    actual.steps.lines.apart = apart
    expected = engine_on(backend, lattice, together=False)
    for engine in (expected, actual):
        engine.run_sampled([3, 1000])
    assert digest(actual) == digest(expected)
    backend.close()


@pytest.mark.validate
@pytest.mark.parametrize("crowded", ordinary([False, True], True))
def test_blocks_that_fall_behind(cpu, tmp_path, crowded):
    """Two planes of three columns on five blocks; by chance some are left behind for a while."""
    lattice = binding((2, 16, 96), 4.8, slots=8) if crowded else binding((2, 16, 96), 2.0)
    expected = engine_on(cpu, lattice, together=False)
    expected.run_sampled([5])
    expected.run_sampled([7])
    backend = EmulatedLattices(tmp_path, THREADS, 7, 5, counter=cpu)
    actual = engine_on(backend, lattice, together=True, sparse=False, lines=True)
    for steps in (5, 7):
        actual.run_sampled([steps])
    assert digest(actual) == digest(expected)
    assert actual.steps.lines.apart != crowded
    backend.close()


@pytest.mark.validate
def test_blocks_wait_whatever_their_cells_held_before(cpu, tmp_path):
    """Steps without number may lie between two launches in which blocks tell each other."""
    lattice = binding((2, 16, 96), 2.0)
    expected = engine_on(cpu, lattice, together=False)
    expected.run_sampled([7])
    for held in (0, (1 << 31) - 1):
        backend = EmulatedLattices(tmp_path, THREADS, 7, 5, counter=cpu)
        actual = engine_on(backend, lattice, together=True, sparse=False, lines=True)
        actual.steps.lines._reached[...] = held
        actual.run_sampled([7])
        assert digest(actual) == digest(expected)
        assert actual.steps.lines.apart
        backend.close()


@pytest.mark.validate
def test_particles_that_find_no_room_make_all_blocks_wait(cpu, tmp_path):
    """The first of them makes the engine do the steps again; later batches know."""
    expected, actual = engines(cpu, tmp_path, MODELS["crowded"](), blocks=4)
    assert actual.steps.lines.apart
    for steps in (2, 3):
        for engine in (expected, actual):
            engine.run_sampled([steps])
        assert digest(actual) == digest(expected)
    assert expected.save().spills > 0
    assert not actual.steps.lines.apart
    actual.backend.close()


def test_particles_that_wait_at_the_start_of_a_launch(cpu, tmp_path):
    """Blocks that would wait for their neighbours only see the list, and wait for all."""
    expected, actual = engines(cpu, tmp_path, MODELS["crowded"](), blocks=4)
    expected.run_sampled([4])
    assert len(expected.waiting()) > 0
    actual.load(expected.save())
    assert actual.steps.lines.apart
    for engine in (expected, actual):
        engine.run_sampled([3])
    assert digest(actual) == digest(expected)
    actual.backend.close()


@pytest.mark.validate
def test_bits_are_drawn_when_they_are_needed_where_memory_is_short(cpu, tmp_path, monkeypatch):
    lattice = binding((2, 21, 37), 1.6)
    needed = line_plan(EmulatedLattices(tmp_path, THREADS, 1, counter=cpu), lattice, 84, 1)
    assert needed.ahead
    space = needed.bytes + lines_module._TABLES - lines_module._RESERVED
    monkeypatch.setattr(EmulatedLattices, "fast_memory", space - 1)
    expected, actual = engines(cpu, tmp_path, lattice, blocks=1)
    assert not actual.steps.lines.plan.ahead
    for engine in (expected, actual):
        engine.run_sampled([3, 5])
    assert digest(actual) == digest(expected)
    actual.backend.close()


@pytest.mark.validate
@pytest.mark.parametrize("where", ["medium", "cell"])
def test_particles_outside_of_the_lines(cpu, tmp_path, where, monkeypatch):
    """Nothing can hop there, but a state may have particles there: then lists of tiles serve."""
    lattice = cell()
    threads = tile_of(lattice, small=True).threads
    for name in ("THREADS", "lines_module._THREADS"):
        monkeypatch.setattr(f"{__name__}.{name}", threads)
    start = np.zeros((*lattice.shape, lattice.slots), np.uint8)
    kinds = lattice.sites(0, lattice.shape[0]) == ("medium", "cell").index(where)
    start[kinds, 0] = np.arange(kinds.sum()) % 3
    expected, actual = engines(cpu, tmp_path, lattice, blocks=1)
    few = len(actual.steps.lines._list)
    for engine in (expected, actual):
        engine.load(state_of(lattice, start))
        engine.run_sampled([4])
    assert digest(actual) == digest(expected)
    # The medium has more lines than find room.
    assert isinstance(actual.steps, LineSteps) == (where != "medium")
    if where == "cell":
        assert len(actual.steps.lines._list) == few
    actual.backend.close()


@pytest.mark.validate
def test_other_site_types(cpu, tmp_path):
    """Some of the medium becomes part of the cell, then more: lines are listed anew."""
    lattice = cell()
    expected, actual = engines(cpu, tmp_path, lattice, blocks=2)
    types = lattice.sites(0, lattice.shape[0]).copy()
    lengths = [len(actual.steps.lines._list)]
    for more in (np.s_[3, 5:12, 2:23], np.s_[:3, 0, 40:44]):
        types[more] = 1
        for engine in (expected, actual):
            engine.synchronize()
            engine.tables.set_types(types.copy())
            engine.run_sampled([6])
        assert digest(actual) == digest(expected)
        lengths.append(len(actual.steps.lines._list))
    assert lengths[0] < lengths[1] < lengths[2]
    actual.backend.close()


def test_lattices_that_are_done_in_lines(cpu, tmp_path):
    backend = EmulatedLattices(tmp_path, THREADS, 1, 132, counter=cpu)
    assert in_lines(binding((4, 21, 64), 1.6))
    assert not in_lines(binding((4, 21, 33), 1.6))  # half of a line's lanes have no site
    assert not in_lines(binding((4, 21, 64), 4.8))  # too full
    lattice = binding((64, 64, 64), 1.6)
    assert planned_lines(backend, lattice).plan.ahead
    assert planned_lines(backend, lattice, sharing=8) is None  # no room
    assert planned_lines(backend, binding((5, 64, 64), 1.6, boundary="held"), wanted=True) is None
    assert planned_lines(backend, many_species(slots=32), wanted=True) is None


def sites_of(lattice, line):
    """Coordinates of a line's sites, x of lane 0 included if it lies outside."""
    _, ny, nx = lattice.shape
    first, x = line[0], line[1]
    z, y = divmod((first - x) // nx, ny)
    return z, y, x


@pytest.mark.parametrize("name", ["cell", "typed", "periodic", "one row", "absorbing"])
def test_lines_know_their_neighbours(name):
    lattice = MODELS[name]()
    shape = lattice.shape
    types = lattice.sites(0, shape[0])
    closed = closed_types(lattice)
    listed = list_lines(lattice, None if name == "periodic" else types, closed)
    owner = np.full(shape, NONE)
    for number, line in enumerate(listed):
        z, y, x = sites_of(lattice, line)
        at = owner[z, y, max(x, 0) : x + LANES]
        assert (at == NONE).all()
        at[:] = number
    assert not (owner == NONE)[~closed[types]].any()
    assert np.array_equal(np.flatnonzero(owner == NONE), sites_outside(lattice, listed))
    for number, line in enumerate(listed):
        z, y, x = sites_of(lattice, line)
        inside = np.flatnonzero(owner[z, y] == number)
        for column in range(2, 8):
            axis, step = (1, 0, 2)[column // 2 - 1], column % 2 * 2 - 1
            at = [z, y, inside[0 if step < 0 else -1]]
            at[axis] += step
            if lattice.boundary[0] == "periodic":
                at = [c % n for c, n in zip(at, shape, strict=True)]
            there = all(0 <= c < n for c, n in zip(at, shape, strict=True))
            assert line[column] == (owner[tuple(at)] if there else NONE)


def test_blocks_are_near_that_have_lines_beside():
    """Of a cube of two columns of 64 lines in each plane, on 132 blocks."""
    lattice = binding((64, 64, 64), 0)
    listed = list_lines(lattice, None)
    near = blocks_near(listed, 132)
    assert near.shape == (132, LANES)
    block = [b for b in range(132) for _ in range(8192 * (b + 1) // 132 - 8192 * b // 132)]
    for own in (0, 1, 77, 131):
        others = set(near[own].tolist()) - {NONE}
        mine = {n for n, b in enumerate(block) if b == own}
        beside = {int(m) for n in mine for m in listed[n, 2:]}
        corners = {int(listed[m, side]) for n in mine for m in listed[n, 2:4] for side in (6, 7)}
        wanted = {block[m] for m in beside | corners} - {own}
        assert wanted <= others
        assert all(own in near[other] for other in others)
    assert blocks_near(listed, 1).max() == NONE
