"""Changes of particles between two steps in bit planes: those of the same particles in slots.

Slots are filled by species, which is the order that planes have.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from emulation import EmulatedLattices
from halo_models import MODELS
from lattice_factory import binding, state_of, typed
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.changing import first_of
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.planes_engine import PlanesEngine

DRAWN = {"seed": 5, "step": 7, "call": 1, "replica": 2}
LATTICES = {
    "odd": lambda: binding((3, 5, 7), 3),
    "one row of words": lambda: binding((2, 1, 33), 3),
    "wide": lambda: binding((2, 3, 96), 2, slots=32),
    "crowded": lambda: binding((2, 3, 40), 6, slots=8),
}


def engines(backend, cpu, lattice):
    """The same particles in slots and in planes, with seed 1."""
    state = state_of(lattice, by_species(lattice.particles(0, lattice.shape[0], 1, 0)))
    made = LatticeEngine(cpu, lattice, seed=1), PlanesEngine(backend, lattice, seed=1)
    for engine in made:
        engine.load(state)
    return made


def by_species(particles):
    """Particles in the first slots of each site, ordered."""
    actual = np.sort(np.where(particles == 0, 255, particles), axis=-1)
    return np.where(actual == 255, 0, actual).astype(np.uint8)


def cells(engine):
    return by_species(np.asarray(engine.save().particles))


def changed(engine, lattice, mask):
    """All changes in turn: what each answers, and the particles after it."""
    where = engine.backend.upload(mask)
    sites = int(np.prod(lattice.shape))
    answers = []

    def note(*answer):
        answers.append([*answer, cells(engine)])

    for before, after, sites_of in [
        ([0, 1], [1, 0], None), ([1], [2], where), ([0], None, where), ([2], [0], where)
    ]:  # fmt: skip
        others = None if after is None else np.array(after)
        note(engine.changing.become(engine.content, np.array(before), others, sites_of))
    engine.load(state_of(lattice, cells(engine)))  # keys are drawn for slots
    wanted = np.array([False, True, False, True])
    listed = engine.changing.candidates(engine.content, wanted, each=sites, first=0, **DRAWN)
    listed = np.sort(listed, order=("site", "slot"))
    chosen = first_of(listed, np.array([0, 40, 0, 25]))
    engine.changing.take(engine.content, chosen)
    note(listed, chosen)
    rng = np.random.default_rng(3)
    places = np.sort(np.append(rng.integers(0, sites, 200), [0] * 20 + [sites - 1] * 35))
    kinds = rng.integers(1, 4, len(places))
    left = engine.changing.put(engine.content, places, kinds)
    assert left.any()
    note(left)
    return answers


def compare(found, expected):
    for one, other in zip(found, expected, strict=True):
        for answer, same in zip(one, other, strict=True):
            assert np.array_equal(answer, same)


@pytest.mark.parametrize("name", ordinary(LATTICES, "odd"))
def test_changes_are_those_of_slots(cpu, three_threads, name):
    lattice = LATTICES[name]()
    mask = np.random.default_rng(2).random(lattice.shape) < 0.4
    for backend in (cpu, three_threads):
        slots, planes = engines(backend, cpu, lattice)
        compare(changed(planes, lattice, mask), changed(slots, lattice, mask))


@pytest.mark.parametrize("name", ordinary(LATTICES, "crowded"))
def test_threads_of_a_gpu_make_the_changes_of_a_cpu(cpu, tmp_path, name):
    """On the device that runs the code of warps on fibers."""
    lattice = LATTICES[name]()
    mask = np.random.default_rng(2).random(lattice.shape) < 0.4
    emulated = EmulatedLattices(tmp_path, 32, 1, counter=cpu)
    actual = []
    for backend in (emulated, cpu):
        _, planes = engines(backend, cpu, lattice)
        actual.append(changed(planes, lattice, mask))
    compare(*actual)


@pytest.mark.gpu
def test_a_gpu_makes_the_changes_of_a_cpu(cpu):
    with closing(get_backend("cuda", BackendOptions())) as gpu:
        for make in LATTICES.values():
            lattice = make()
            mask = np.random.default_rng(2).random(lattice.shape) < 0.4
            actual = []
            for backend in (gpu, cpu):
                _, planes = engines(backend, cpu, lattice)
                actual.append(changed(planes, lattice, mask))
            compare(*actual)


def test_slots_and_back_change_nothing(cpu):
    _, planes = engines(cpu, cpu, LATTICES["odd"]())
    before = cells(planes)
    planes.from_slots(planes.in_slots())
    assert np.array_equal(cells(planes), before)


@pytest.mark.parametrize(
    "name", ordinary(["typed", "typed periodic", "absorbing"], "typed", "typed periodic")
)
def test_sites_that_are_painted_are_those_of_a_model(cpu, name):
    """Of other types, and back again: steps have the bits of a lattice that was never painted."""
    models = {"absorbing": lambda: typed((4, 5, 40), boundary="absorbing")}
    lattice = (MODELS | models)[name]()
    engine = PlanesEngine(cpu, lattice, seed=3)
    types = engine.host(engine.types)
    engine.set_types((types + 1) % len(lattice.site_types))
    engine.load_start()
    engine.run_sampled([3])
    painted = engine.count()
    engine.set_types(types)
    engine.load_start()
    engine.run_sampled([3])
    usual = PlanesEngine(cpu, lattice, seed=3)
    usual.load_start()
    usual.run_sampled([3])
    assert np.array_equal(engine.count().by_type, usual.count().by_type)
    assert np.array_equal(engine.save().particles, usual.save().particles)
    assert not np.array_equal(painted.by_type, usual.count().by_type)


def test_rates_that_are_set_are_those_of_a_model(cpu):
    """The same bits as with the model's own; what is faster than ever before is said once."""
    slow, fast = binding((4, 4, 40), 3), binding((4, 4, 40), 3, frequent=2)
    engine, usual = PlanesEngine(cpu, slow, seed=3), PlanesEngine(cpu, fast, seed=3)
    both = np.arange(2)
    assert engine.set_rates(both, usual.rates * 1e3) is not None
    assert engine.set_rates(both, usual.rates) is None
    samples = []
    for each in (engine, usual):
        each.load_start()
        samples.append(each.run_sampled([20]).rows())
    assert np.array_equal(*samples)
