"""Many lattices that move at once have the bits of one after another."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from emulation import EmulatedLattices
from halo_models import MODELS as MODELS_OF_SLABS
from lattice_factory import binding, typed
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice import planes
from tauslab.kernels.lattice import replicas as module
from tauslab.kernels.lattice.codegen import tile_of
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.planes import teams_of
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.planes_replicas import PlanesReplicas
from tauslab.kernels.lattice.replicas import LatticeReplicas

MARKS = (3, 4, 5, 10, 10)
MODELS = {
    "crowded": lambda: binding((3, 18, 10), 7.5, slots=8),
    "typed": lambda: typed((4, 9, 19)),
}
IN_PLANES = MODELS | {
    "wide": lambda: binding((2, 3, 70), 6, slots=8),
    "whole rows": lambda: binding((3, 5, 64), 6, slots=8),
    "few words": lambda: binding((2, 1, 33), 7, slots=8),
    "odd": lambda: binding((5, 3, 7), 7, slots=8),
    "held": MODELS_OF_SLABS["held"],
}


@pytest.fixture
def cpu(two_threads):
    return two_threads


def one_by_one(backend, lattice, numbers, rates=None, made=LatticeEngine):
    """Counts at the marks, and the last state, of each."""
    actual = []
    for place, number in enumerate(numbers):
        engine = made(backend, lattice, seed=7, replica=number)
        for reaction, own in enumerate(() if rates is None else rates[place]):
            engine.set_rate(reaction, own)
        engine.load_start()
        actual.append((engine.run_sampled(MARKS).by_type, engine.save()))
    return actual


def check(lattices, expected, first=4):
    """Also after a copy, which goes on as what it was."""
    counts = lattices.run_sampled(MARKS, range(first, first + len(expected)), seed=7)
    cells = lattices.host_cells()
    for i, (by_type, state) in enumerate(expected):
        assert (counts[:, i] == by_type).all()
        assert (cells[i] == state.particles).all()
        assert (lattices.rest.waiting[i] == state.waiting).all()
        assert (lattices.rest.fired[i] == state.fired).all()
        assert lattices.rest.spills[i] == state.spills
    assert (lattices.rest.steps == MARKS[-1]).all()
    assert (lattices.count() == counts[-1]).all()


@pytest.mark.parametrize("name", ordinary(MODELS, "typed"))
@pytest.mark.parametrize("size", ordinary([0, 2, None], 2))
def test_lattices_at_once_and_one_after_another(name, size, cpu, monkeypatch):
    monkeypatch.setattr(module, "_CAPACITY", 4)  # lists of waiting particles are full at first
    lattice, numbers = MODELS[name](), range(4, 9)
    lattices = LatticeReplicas(cpu, lattice)
    lattices.begin([(lattice, number) for number in numbers], 7)
    if size is not None:
        monkeypatch.setattr(lattices, "_of_a_launch", lambda _: size)
    check(lattices, one_by_one(cpu, lattice, numbers))
    assert name != "crowded" or lattices.rest.spills.all()


@pytest.mark.parametrize("name", ordinary(IN_PLANES, "crowded"))
def test_lattices_in_planes_are_runs_of_planes(name, cpu, three_threads):
    """With copies, and particles that are taken out and put in as in a lattice in slots."""
    lattice, numbers = IN_PLANES[name](), range(4, 8)
    expected = one_by_one(cpu, lattice, numbers, made=PlanesEngine)
    for backend in (cpu, three_threads):
        lattices = PlanesReplicas(backend, lattice)
        lattices.begin([(lattice, number) for number in numbers], 7)
        lattices.put(lattices.rows(np.arange(4)[::-1]), lattices.rest.take(np.arange(4)[::-1]))
        lattices.put(lattices.rows(np.arange(4)[::-1]), lattices.rest.take(np.arange(4)[::-1]))
        check(lattices, expected)
    again = PlanesReplicas(cpu, lattice)
    again.take_up(lattices.host_cells(), lattices.rest.take(np.arange(4)))
    slots = LatticeReplicas(cpu, lattice)
    slots.take_up(lattices.host_cells(), lattices.rest.take(np.arange(4)))
    wanted = np.zeros((4, len(lattice.species) + 1), np.int64)
    wanted[1, 1], wanted[3] = 50, 3
    wanted[3, 0] = 0
    for each in (again, slots):
        each.rest = replace(each.rest, puts=np.array([2, 2, 0, 7]))
    gone = [each.take_out(wanted, seed=3, call=1, first=5) for each in (again, slots)]
    gone = [each[:, np.lexsort(each)] for each in gone]
    assert np.array_equal(*gone)
    rows, sites = np.repeat([0, 2], 30), np.arange(60) % 7
    for each in (again, slots):
        each.put_in(rows, sites, np.arange(60) % 2 + 1)
    assert (by_species(again) == by_species(slots)).all()
    assert all(map(np.array_equal, again.rest.waiting, slots.rest.waiting))
    counts = [each.run_sampled([0, 5], range(4), seed=2) for each in (again, lattices)]
    assert (counts[0][0].sum(axis=(1, 2)) - counts[1][0].sum(axis=(1, 2)) == [
        30, -wanted[1].sum(), 30, -wanted[3].sum()
    ]).all()  # fmt: skip


@pytest.mark.parametrize(
    ("name", "teamed"),
    ordinary(itertools.product(IN_PLANES, (True, False)), ("odd", True), ("wide", False)),
)
def test_lattices_in_planes_on_warps(name, teamed, cpu, tmp_path, monkeypatch):
    """Also those whose particles came from elsewhere."""
    if not teamed:
        monkeypatch.setattr(planes, "FEW_WORDS", 0)
    lattice = IN_PLANES[name]()
    expected = one_by_one(cpu, lattice, range(4, 6), made=PlanesEngine)
    begun = PlanesReplicas(cpu, lattice)
    begun.begin([(lattice, number) for number in range(4, 6)], 7)
    threads = teams_of(lattice, 2).threads
    assert threads == teams_of(lattice).threads
    backend = EmulatedLattices(tmp_path, threads, 7, 2, counter=cpu)
    lattices = PlanesReplicas(backend, lattice)
    lattices.take_up(begun.host_cells(), begun.rest)
    assert (lattices.count() == begun.count()).all()
    check(lattices, expected)


def test_more_lattices_in_planes_have_one_kernel(monkeypatch):
    """Whose teams, and with them the memory of each lattice, follow from their number."""
    lattice, cpu = typed((4, 9, 19)), get_backend("cpu", BackendOptions(threads=3))
    lattices = PlanesReplicas(cpu, lattice)
    monkeypatch.setattr(lattices, "_of_a_launch", lambda n: n)
    lattices.begin([(lattice, number) for number in range(2)], 7)
    lattices.run_sampled([3], range(2), seed=7)
    grown = np.array([0, 1, 1])
    lattices.put(lattices.rows(grown), lattices.rest.take(grown))
    lattices.run_sampled([5], range(3), seed=7)
    assert lattices._mover(3).sharing == 3
    alone = PlanesReplicas(cpu, lattice)
    monkeypatch.setattr(alone, "_of_a_launch", lambda _: 1)
    alone.begin([(lattice, number) for number in range(2)], 7)
    alone.run_sampled([3], range(2), seed=7)
    alone.put(alone.rows(grown), alone.rest.take(grown))
    alone.run_sampled([5], range(3), seed=7)
    assert (by_species(lattices) == by_species(alone)).all()


def by_species(lattices):
    return np.sort(lattices.host_cells(), axis=-1)


@pytest.mark.parametrize("size", ordinary([0, 3], 3))
def test_each_with_rates_of_its_own(size, cpu, monkeypatch):
    lattice = typed((4, 9, 19))
    rates = np.array([[r.rates for r in lattice.reactions]] * 3) * [[[0.0]], [[1.0]], [[2.5]]]
    fastest = tuple(
        replace(reaction, rates=own)
        for reaction, own in zip(lattice.reactions, rates.max(axis=0), strict=True)
    )
    planes = PlanesReplicas(cpu, replace(lattice, reactions=fastest))
    planes.begin([(lattice, number) for number in range(3)], 7)
    planes.use_rates(rates)
    check(planes, one_by_one(cpu, lattice, range(3), rates, PlanesEngine), first=0)
    lattices = LatticeReplicas(cpu, replace(lattice, reactions=fastest))
    lattices.begin([(lattice, number) for number in range(3)], 7)
    lattices.use_rates(rates)
    monkeypatch.setattr(lattices, "_of_a_launch", lambda _: size)
    check(lattices, one_by_one(cpu, lattice, range(3), rates), first=0)


def test_a_new_start_has_the_site_types_and_rates_of_the_model(cpu):
    """Lattices with site types of their own move one after another, those that follow at once."""
    lattice = typed((4, 9, 19))
    starts = [(lattice, number) for number in range(4, 7)]
    lattices = LatticeReplicas(cpu, lattice)
    lattices.begin(starts, 7)
    lattices.use_rates(np.stack([lattice.rates, lattice.rates, 0 * lattice.rates]))
    lattices.rest.types[2] = np.zeros(lattice.shape, np.uint8)
    assert (lattices.count()[2, 1:] == 0).all()
    lattices.begin(starts, 7)
    lattices.use_rates(None)
    check(lattices, one_by_one(cpu, lattice, range(4, 7)))


def test_a_copy_goes_on_as_what_it_was(cpu):
    lattice = binding((3, 18, 10), 7.5, slots=8)
    lattices = LatticeReplicas(cpu, lattice)
    lattices.begin([(lattice, number) for number in range(3)], 7)
    lattices.run_sampled([10], range(3), seed=7)
    before = lattices.host(lattices.cells)
    index = np.array([2, 2, 0, 1])
    lattices.put(lattices.rows(index), lattices.rest.take(index))
    assert (lattices.host(lattices.cells) == before[index]).all()
    lattices.put(lattices.rows(np.array([0])), lattices.rest.take(np.array([0])))
    lattices.run_sampled([5], [2], seed=8)
    other = LatticeReplicas(cpu, lattice)
    other.begin([(lattice, number) for number in range(3)], 7)
    other.run_sampled([10], range(3), seed=7)
    other.run_sampled([5], range(3), seed=8)
    assert (lattices.host(lattices.cells)[0] == other.host(other.cells)[2]).all()


def test_threads_of_a_block_have_the_bits_of_one(cpu, tmp_path):
    lattice = binding((3, 9, 10), 7.5, slots=8)
    threads = tile_of(lattice, small=True).threads
    actual = []
    for backend in (cpu, EmulatedLattices(tmp_path, threads, -1, counter=cpu)):
        lattices = LatticeReplicas(backend, lattice)
        lattices.begin([(lattice, number) for number in range(2)], 7)
        lattices.run_sampled([6], range(2), seed=7)
        actual.append((lattices.host(lattices.cells), lattices.rest.spills))
    assert (actual[0][0] == actual[1][0]).all()
    assert (actual[0][1] == actual[1][1]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_on_a_gpu(name, cpu):
    lattice, numbers = MODELS[name](), range(4, 9)
    expected = one_by_one(cpu, lattice, numbers)
    gpu = get_backend("cuda", BackendOptions())
    for size in (0, 2, 5):
        lattices = LatticeReplicas(gpu, lattice)
        lattices.begin([(lattice, number) for number in numbers], 7)
        lattices._of_a_launch = lambda _, size=size: size
        check(lattices, expected)
    gpu.close()


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*IN_PLANES, "one group a step", "some groups"])
def test_lattices_in_planes_beside_each_other_on_a_gpu(name, cpu):
    """Teams of all kinds: with helpers, with a warp for each species, and warps alone."""
    more = {
        "one group a step": lambda: binding((128, 32, 32), 0.3),
        "some groups": lambda: binding((48, 48, 48), 1),
    }
    lattice = (IN_PLANES | more)[name]()
    expected = one_by_one(cpu, lattice, range(4, 9), made=PlanesEngine)
    gpu = get_backend("cuda", BackendOptions())
    for size in (2, 30) if name in more else (1, 5):
        lattices = PlanesReplicas(gpu, lattice)
        lattices.begin([(lattice, number) for number in range(4, 9)], 7)
        lattices._of_a_launch = lambda _, size=size: size
        check(lattices, expected)
    gpu.close()
