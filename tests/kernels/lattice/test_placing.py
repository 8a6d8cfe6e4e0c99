"""Particles that a device places: those of `ParticleStart.planes`, bit by bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from spatial_factory import cell

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.kernels.lattice import placing
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.state import Slab

SHAPE = (12, 30, 40)  # three patches


def uniform(per_site=4.8, slots=8, species=2, positions=True):
    """Species at `per_site` particles a site in all, some of them at positions."""
    lattice = ts.Lattice("uniform", shape=SHAPE, spacing=1e-8, step=1e-6, slots=slots)
    lattice.add_species(*(f"S{i}" for i in range(species)))
    sites = int(np.prod(SHAPE))
    for i in range(species):
        lattice.place(f"S{i}", count=round(sites * per_site / species))
    if positions:
        lattice.place(f"S{species - 1}", positions=[[5, 5, 5]] * slots + [[0, 0, 0]] * 3)
    return lattice


def two_types(per_site=4.8, slots=8):
    """Two site types, of which one has parts of planes alone, both with particles."""
    lattice = ts.Lattice("two", shape=SHAPE, spacing=1e-8, step=1e-6, slots=slots)
    mask = np.zeros(SHAPE, bool)
    mask[1:11, 2:28, 3:] = True
    lattice.add_site_type("out")
    lattice.add_site_type("in", mask)
    lattice.add_species("A", "B")
    for name, share in (("A", 0.6), ("B", 0.4)):
        lattice.place(name, count=round(mask.sum() * per_site * share), site_type="in")
        lattice.place(name, count=round((~mask).sum() * share), site_type="out")
    lattice.place("B", positions=[[5, 5, 5]] * slots + [[0, 0, 0]] * 3)
    lattice.place("A", positions=np.argwhere(mask)[2::97])
    return lattice


CASES = {
    "crowded": uniform(),
    "sparse": uniform(per_site=0.1),
    "few sites": cell(),
    "types": two_types(),
    "wide": uniform(species=300),
    "nearly full": uniform(per_site=7.8),
    "32 slots": two_types(per_site=20, slots=32),
}


def placed(backend, lattice, slab, seed, replica):
    """Particles of a slab, of which no other planes are kept."""
    lowered = lower_lattice(lattice)
    _, y, x = lowered.shape
    particles = backend.empty((slab.planes, y, x, lowered.slots), lowered.particle_type)
    stream = backend.stream()
    backend.clear(particles, stream)
    into = placing.into_slots(particles)
    one = placing.Placing(backend, lowered.start, slab, into, stream)
    one.run(seed, replica)
    mirror = backend.mirror(particles)
    backend.download(particles, mirror, len(particles), stream)
    stream.record().wait()
    return mirror


@pytest.mark.parametrize("name", CASES)
def test_a_device_places_what_the_host_places(backend, name):
    lattice = CASES[name]
    for seed, replica in ((1, 0), (2**64 - 1, 3)):
        actual = placed(backend, lattice, Slab(0, 12), seed, replica)
        expected = lower_lattice(lattice).particles(0, 12, seed, replica)
        assert actual.dtype == expected.dtype
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize("name", ["crowded", "types"])
@pytest.mark.parametrize("cut", [(0, 1, 12), (0, 3, 4, 9, 12)])
def test_slabs_are_parts_of_one_start(backend, name, cut):
    parts = [placed(backend, CASES[name], Slab(a, b), 7, 0) for a, b in pairwise(cut)]
    assert np.array_equal(np.concatenate(parts), lower_lattice(CASES[name]).particles(0, 12, 7))


def test_more_particles_than_there_is_room_for_at_first(backend, monkeypatch):
    monkeypatch.setattr(placing, "_ROOM", 1)
    actual = placed(backend, CASES["crowded"], Slab(0, 12), 1, 0)
    assert np.array_equal(actual, lower_lattice(CASES["crowded"]).particles(0, 12, 1))


def test_an_engine_lets_the_device_place_many(backend, monkeypatch):
    lattice = lower_lattice(CASES["crowded"])
    slab = Slab(3, 9, below=2, above=2)
    monkeypatch.setattr(placing, "MANY", lattice.start.spread + 1)
    one = LatticeEngine(backend, lattice, seed=5, replica=2, slab=slab)
    one.load_start()
    monkeypatch.setattr(placing, "MANY", lattice.start.spread)
    monkeypatch.setattr(type(lattice.start), "planes", None)
    other = LatticeEngine(backend, lattice, seed=5, replica=2, slab=slab)
    other.load_start()
    assert np.array_equal(one.host(one.particles), other.host(other.particles))
    assert (other.count().counts == one.count().counts).all()


@pytest.mark.parametrize("name", ["crowded", "types"])
def test_planes_count_what_slots_hold(backend, monkeypatch, name):
    """In parts, and where more find their sites full than there is room for at first."""
    monkeypatch.setattr(placing, "MANY", 1)
    monkeypatch.setattr(placing, "_ROOM", 1)
    monkeypatch.setattr(placing, "_SITES_AT_ONCE", 5 * SHAPE[1] * SHAPE[2])
    lattice = lower_lattice(CASES[name])
    engine = PlanesEngine(backend, lattice, seed=5, replica=2, slab=Slab(1, 12, below=1, above=1))
    engine.load_start()
    expected = np.sort(lattice.particles(1, 12, 5, 2), axis=-1)
    assert np.array_equal(np.sort(engine.save().particles, axis=-1), expected)


def test_particles_that_do_not_fit_are_refused(backend):
    """As many as there are slots, which are not so many in each patch."""
    lattice, refused = uniform(per_site=8, positions=False), r"'default': more particles .* 8 slots"
    with pytest.raises(ModelError, match=refused):
        lower_lattice(lattice).particles(0, 12, 1)
    with pytest.raises(ModelError, match=refused):
        placed(backend, lattice, Slab(0, 12), 1, 0)
