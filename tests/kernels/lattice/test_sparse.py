"""Steps that look for the sites that hold particles give the bits of steps that go through all."""

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
from tauslab.kernels.lattice.codegen import SECTION, may_be_sparse, sparse_threads
from tauslab.kernels.lattice.plan import Filling, LatticeRequests, Way, filling_of


def walled():
    """Two site types, a wall between them, faces that reflect and that absorb."""
    model = empty_lattice((4, 17, 19), {"A": 0.2, "B": 0.1}, boundary="reflecting")
    _, y, x = np.indices((4, 17, 19))
    model.add_site_type("water")
    model.add_site_type("rock", (x * y) % 7 == 3)
    model.add_diffusion("*", 0, source="*", target="rock")
    model.set_boundary("z-", "absorbing")
    model.set_boundary("x+", "absorbing")
    model.add_reaction("2 A -> B", rate=3000, volume="site")
    model.add_reaction("B -> 2 A", rate=200)
    model.place("A", count=300, site_type="water")
    return lowered(model)


def many_species():
    """Particles of 16 bits."""
    names = {"A": 0.2, "B": 0.1} | {f"S{i}": 0.1 for i in range(260)}
    model = empty_lattice((2, 11, 17), names, slots=32)
    model.add_reaction("2 A -> S259", rate=3000, volume="site")
    model.add_reaction("S259 -> 2 B", rate=2000)
    model.place("A", count=250)
    return lowered(model)


def growing(fill, *, boundary="periodic"):
    """Particles that multiply, to about one in a site."""
    model = empty_lattice((6, 18, 21), {"A": 0.2, "B": 0.1}, boundary=boundary)
    model.add_reaction("A -> 2 A", rate=300)
    model.add_reaction("2 A -> B", rate=300, volume="site")
    model.add_reaction("B ->", rate=300)
    model.place("A", count=int(fill * 6 * 18 * 21))
    return lowered(model)


def dying(fill):
    model = empty_lattice((6, 18, 21), {"A": 0.2, "B": 0.1})
    model.add_reaction("A -> B", rate=200)
    model.add_reaction("B ->", rate=300)
    model.place("A", count=int(fill * 6 * 18 * 21))
    return lowered(model)


# Planes that end within a tile; particles that wait; sites of 8, 32 and 64 bytes; one plane, which
# is its own neighbour; so many particles that memory of a warp has no room for a tile's.
MODELS = {
    "periodic": lambda: binding((5, 13, 21), 0.08),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "halves": lambda: binding((2, 18, 33), 0.9),
    "thin": lambda: binding((1, 9, 20), 0.3, slots=32),
    "many species": many_species,
    "walled": walled,
}
CASES = [(name, (-1) ** i) for i, name in enumerate(MODELS)]


def same(engines, marks):
    """Counts, particles, waiting particles and reactions of all are those of the first."""
    counts = [engine.run_sampled(marks).by_type for engine in engines]
    for engine, actual in zip(engines[1:], counts[1:], strict=True):
        assert np.array_equal(actual, counts[0])
        assert digest(engine) == digest(engines[0])


@pytest.mark.parametrize(("name", "order"), ordinary(CASES, CASES[0], CASES[4]))
def test_warps_and_threads_give_the_bits_of_single_steps(cpu, three_threads, tmp_path, name, order):
    lattice = MODELS[name]()
    warps = EmulatedLattices(tmp_path, sparse_threads(lattice), order, counter=cpu)
    expected = engine_on(cpu, lattice, together=False)
    engines = [engine_on(each, lattice, sparse=True) for each in (three_threads, warps)]
    same([expected, *engines], [3, 8])
    assert expected.save().fired.all()
    assert (expected.save().spills > 0) == (name == "crowded")
    warps.close()


# One section for a block, and several; two planes, which are below and above each other; one; a
# lattice that ends within a section; sites of two words.
SECTIONS = {name: MODELS[name] for name in ("periodic", "crowded", "halves", "walled")} | {
    "one section": lambda: binding((2, 9, 11), 0.3),
    "one plane": lambda: binding((1, 9, 20), 0.3, slots=8),
    "reflecting": lambda: growing(0.3, boundary="reflecting"),
}
CASES_OF_SECTIONS = [(name, (-1) ** i) for i, name in enumerate(SECTIONS)]


@pytest.mark.parametrize(("name", "order"), ordinary(CASES_OF_SECTIONS, CASES_OF_SECTIONS[3]))
def test_one_barrier_a_step_gives_the_bits_of_single_steps(
    cpu, three_threads, many_threads, tmp_path, name, order
):
    """Launches of odd and of even numbers of steps: the lattice is stored twice."""
    lattice = SECTIONS[name]()
    warps = EmulatedLattices(tmp_path, sparse_threads(lattice, SECTION), order, counter=cpu)
    expected = engine_on(cpu, lattice, together=False)
    engines = [
        engine_on(each, lattice, sparse=True, sections=True)
        for each in (three_threads, many_threads, warps)
    ]
    assert all(engine.plan.way is Way.SECTIONS for engine in engines)
    for marks in ([3, 8], [1], [1, 2, 5], [2]):
        same([expected, *engines], marks)
    other = np.roll(expected.save().particles, (1, 5, 3), (0, 1, 2))
    for engine in (expected, *engines):
        engine.load(state_of(lattice, other))
    same([expected, *engines], [1, 4])
    assert (expected.save().spills > 0) == (name == "crowded")
    warps.close()


def test_what_waits_for_room_is_kept_between_kernels(cpu, three_threads):
    """A list of waiting particles goes from one kernel to another, and overflows."""
    lattice = binding((3, 18, 33), 5.5, slots=8)
    expected = engine_on(cpu, lattice, together=False)
    actual = engine_on(three_threads, lattice, sparse=True, sections=True, capacity=64)
    same([expected, actual], [5, 9])
    assert actual.capacity > 64
    assert len(actual.waiting()) > 0
    for sections in (False, True, False):
        actual._requests, actual._follows = LatticeRequests(sparse=True, sections=sections), True
        actual.filling, actual._density = MANY, 0.05
        actual.follow()
        assert actual.plan.way is (Way.SECTIONS if sections else Way.SPARSE)
        same([expected, actual], [1, 4])


def test_steps_go_on_after_a_load_and_after_other_launches(cpu, three_threads):
    lattice = binding((6, 20, 37), 0.2)
    engines = [
        engine_on(cpu, lattice, together=False),
        engine_on(three_threads, lattice, sparse=True),
    ]
    same(engines, [1, 2, 7])
    other = np.roll(engines[0].save().particles, (1, 5, 3), (0, 1, 2))
    for engine in engines:
        engine.load(state_of(lattice, other))
    same(engines, [4])
    same(engines, [1, 5])


def test_an_empty_lattice_stays_empty(three_threads):
    lattice = binding((3, 8, 8), 0)
    engine = engine_on(three_threads, lattice)
    engine.run_sampled([3])
    assert not engine.save().particles.any()


@pytest.mark.gpu
@pytest.mark.parametrize("sections", [False, True])
@pytest.mark.parametrize("name", MODELS | SECTIONS)
def test_a_gpu_gives_the_same_bits(cpu, name, sections):
    if sections and name not in SECTIONS:
        pytest.skip("sites have no room in a block's memory")
    lattice, gpu = (MODELS | SECTIONS)[name](), get_backend("cuda", BackendOptions())
    expected = engine_on(cpu, lattice, together=False)
    same([expected, engine_on(gpu, lattice, sparse=True, sections=sections)], [3, 40])
    gpu.close()


def test_what_may_hold_few_particles():
    def held():
        model = empty_lattice((4, 4, 8), {"A": 0.2}, boundary="reflecting")
        model.set_boundary("z-", "held", concentrations={"A": 2e-5})
        return lowered(model)

    def positioned():
        model = empty_lattice((4, 8, 8), {"A": 0.2})
        model.place("A", positions=[(1, 2, 3)] * 5)
        return lowered(model)

    def inside():
        """Few on average, but many where they are."""
        model = empty_lattice((8, 8, 8), {"A": coefficient(0)})
        model.add_site_type("outside")
        model.add_site_type("inside", np.indices((8, 8, 8)).sum(axis=0) < 5)
        model.place("A", count=60, site_type="inside")
        return lowered(model)

    def filling(lattice):
        return filling_of(lattice.start.density)

    assert filling(binding((4, 8, 8), 0.05)) == Filling.FEW
    assert filling(binding((4, 8, 8), 0.3)) == Filling.SOME
    assert filling(binding((4, 8, 8), 0.5)) == Filling.MANY
    assert filling(positioned()) == Filling.FEW
    assert filling(inside()) == Filling.MANY
    assert may_be_sparse(binding((4, 8, 8), 0.5))
    assert not may_be_sparse(binding((4, 8, 8), 0.3), wanted=False)
    assert not may_be_sparse(held(), wanted=True)  # particles come in from nowhere
    assert not may_be_sparse(typed((4, 8, 8), fill=0.01), wanted=True)  # so they do here


def test_near_a_limit_a_lattice_stays_what_it_was():
    few, some, many = Filling
    assert [filling_of(0.11, was) for was in (None, few, some, many)] == [some, few, some, some]
    assert [filling_of(0.35, was) for was in (None, few, some, many)] == [some, some, some, many]
    assert [filling_of(0.45, was) for was in (None, few, some, many)] == [many, some, some, many]
    assert [filling_of(density, few) for density in (0.13, 0.51)] == [some, many]
    assert [filling_of(density, many) for density in (0.31, 0.0)] == [some, few]


FEW, SOME, MANY = Filling
# A lattice, and how full it is in turn.
CHANGING = {
    "growing": (lambda: growing(0.05), [FEW, SOME, MANY]),
    "dying": (lambda: dying(0.8), [MANY, SOME, FEW]),
}


def followed(reference, found):
    """How full a lattice is taken for in turn, and whether steps then look for its particles."""
    passed = [(found.filling, found.plan.sparse)]
    for _ in range(30):
        same([reference, found], [3, 7])
        if found.filling != passed[-1][0]:
            passed.append((found.filling, found.plan.sparse))
    return passed


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", ordinary(CHANGING, "growing"))
def test_the_choice_follows_the_state(cpu, three_threads, device, name):
    """Where a lattice fills up steps go through all sites, and where it empties they do not."""
    make, expected = CHANGING[name]
    lattice = make()
    gpu = get_backend("cuda", BackendOptions()) if device == "cuda" else None
    actual = engine_on(gpu or three_threads, lattice)
    passed = followed(engine_on(cpu, lattice, together=False), actual)
    assert passed == [(filling, filling < MANY) for filling in expected]
    if gpu:
        gpu.close()


def test_the_choice_stays_where_it_was_made_by_hand(cpu, three_threads):
    lattice = growing(0.05)
    for how in ({"sparse": False}, {"sparse": True}, {"follows": False}):
        actual = engine_on(three_threads, lattice, **how)
        passed = followed(engine_on(cpu, lattice, together=False), actual)
        assert {sparse for _, sparse in passed} == {how.get("sparse", True)}


@pytest.mark.validate
def test_a_state_that_is_loaded_is_looked_at(cpu, three_threads):
    """A run that goes on has the particles of its last state, not of its start."""
    full, start = engine_on(cpu, dying(0.8)).save(), dying(0.05)
    engines = [engine_on(cpu, start, together=False), engine_on(three_threads, start)]
    assert engines[1].filling == FEW
    for engine in engines:
        engine.load(full)
    same(engines, [2])
    assert (engines[1].filling, engines[1].plan.sparse) == (MANY, False)


@pytest.mark.validate
def test_rates_and_painted_sites_outlive_another_choice(cpu, three_threads):
    lattice = MODELS["walled"]()
    engines = [engine_on(cpu, lattice, together=False), engine_on(three_threads, lattice)]
    for engine in engines:
        engine.set_rate(1, [150.0, 900.0])
        sites = np.array(engine.types)
        sites[:, 4:9] = 1
        engine.tables.set_types(sites)
    same(engines, [3])
    assert engines[1].plan.sparse
    engines[1]._density = 2.0
    same(engines, [3, 6])
    assert not engines[1].plan.sparse


@pytest.mark.validate
def test_few_sites_on_a_cpu_are_counted_within_a_launch(cpu):
    """However many particles they hold: a launch takes longer than a step of all its sites."""
    engines = [engine_on(cpu, binding((4, 8, 8), 2.0), sparse=how) for how in (False, None)]
    assert [engine.plan.sparse for engine in engines] == [False, True]
    assert not engine_on(cpu, binding((16, 16, 16), 2.0)).plan.sparse
    launched = []
    stream = engines[1].stream
    put = stream.submit
    stream.submit = lambda work: (launched.append(work), put(work))
    same(engines, [*range(1, 41)])
    assert len(launched) < 20  # two for each count where they are launches


@pytest.mark.parametrize("marks", [[3 << 31], [5, 3 << 31]])
def test_a_launch_has_no_more_steps_than_kernels_count(cpu, monkeypatch, marks):
    engine = engine_on(cpu, binding((4, 8, 8), 0.05), sparse=True)
    launches = []
    monkeypatch.setattr(engine.steps, "launch", lambda steps, *_: launches.append(steps))
    engine.run_sampled(marks)
    assert sum(launches) == engine.step == marks[-1]
    assert max(launches) < 1 << 31
