"""Particles at the start: exact numbers, the same for any slabs, spread as they should be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from spatial_factory import cell

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice import placement
from tauslab.model.lattice.placement import ParticleStart

CUTS = [(0, 12), (0, 1, 12), (0, 3, 4, 9, 12), tuple(range(13))]


def crowded(slots=8, per_site=4.8):
    """Two species at `per_site` particles a site in a part of a lattice, more than one patch."""
    lattice = ts.Lattice("crowded", shape=(12, 30, 40), spacing=1e-8, step=1e-6, slots=slots)
    mask = np.zeros(lattice.shape, bool)
    mask[1:11, 2:28, 3:] = True
    lattice.add_site_type("out")
    lattice.add_site_type("in", mask)
    lattice.add_species("A", "B")
    lattice.place("A", count=round(mask.sum() * per_site * 0.6), site_type="in")
    lattice.place("B", positions=[[5, 5, 5]] * slots + [[0, 0, 0]])
    lattice.place("B", count=round(mask.sum() * per_site * 0.4), site_type="in")
    return lattice, mask


@pytest.mark.parametrize("cut", CUTS)
def test_slabs_are_parts_of_one_start(cut):
    """Whatever is cut: half the sites are full, so many particles were drawn again."""
    lowered = lower_lattice(crowded()[0])
    whole = lowered.particles(0, 12, 7)
    parts = [lowered.particles(a, b, 7) for a, b in pairwise(cut)]
    assert (np.concatenate(parts) == whole).all()


def test_threads_place_the_same_particles(monkeypatch):
    lowered = lower_lattice(crowded()[0])
    one = lowered.particles(0, 12, 7)
    monkeypatch.setattr(ParticleStart, "_pieces", lambda *_: 5)
    assert (lowered.particles(0, 12, 7) == one).all()


def test_placements_that_are_drawn_together_are_as_if_one_after_the_other(monkeypatch):
    lowered = lower_lattice(crowded()[0])
    together = lowered.particles(0, 12, 7)
    monkeypatch.setattr(placement, "_CHUNK_BITS", 15)  # of which two take one each
    monkeypatch.setattr(placement, "_CHUNK", 1 << 15)
    assert (lowered.particles(0, 12, 7) == together).all()


def test_no_particle_is_lost_and_slots_are_filled_from_the_front():
    lattice, mask = crowded()
    particles = lower_lattice(lattice).particles(0, 12, 1)
    occupied = (particles > 0).sum(axis=-1)
    assert ((particles > 0) == (np.arange(8) < occupied[..., None])).all()
    assert [int((particles == s).sum()) for s in (1, 2)] == [
        round(mask.sum() * 4.8 * 0.6),
        round(mask.sum() * 4.8 * 0.4) + 9,
    ]
    assert (particles[5, 5, 5] == 2).all()
    assert occupied[~mask].sum() == 1
    assert particles[0, 0, 0, 0] == 2


def test_seeds_and_replicas_differ():
    lowered = lower_lattice(cell())
    starts = [lowered.particles(0, 12, s, r) for s, r in ((1, 0), (2, 0), (1, 1), (1, 2))]
    for i, first in enumerate(starts):
        assert [int((first == s).sum()) for s in (1, 2, 3)] == [40, 30, 3]
        assert not any((first == other).all() for other in starts[:i])
    assert (lowered.particles(0, 12, 1, 2) == starts[3]).all()


def test_the_start_is_pinned():
    """The same seed gives the same particles with every version of NumPy."""
    particles = lower_lattice(cell()).particles(0, 12, 2**64 - 1)
    assert np.flatnonzero(particles == 2)[:6].tolist() == PINNED


PINNED = [648, 753, 1040, 1048, 1248, 1264]


def test_sites_are_drawn_alike():
    """Counts in 4096 sites of 12288 particles: dispersion within its 1e-6 limits, chi-square."""
    lattice = ts.Lattice(shape=(16, 16, 16), spacing=1e-8, step=1e-6, slots=32)
    lattice.add_species("A")
    lattice.place("A", count=12288)
    counts = (lower_lattice(lattice).particles(0, 16, 3) > 0).sum(axis=-1).ravel()
    statistic = ((counts - 3.0) ** 2 / 3.0).sum()
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(counts) - 1)
    assert low < statistic < high


def test_planes_are_drawn_alike():
    """The share of each plane, with sites full and patches crossing planes: chi-square, 1e-6."""
    lattice, mask = crowded(per_site=3.0)
    lattice.placements = [p for p in lattice.placements if p.positions is None]
    particles = lower_lattice(lattice).particles(0, 12, 11)
    shares = (particles > 0).sum(axis=(1, 2, 3))[1:11]
    expected = 3.0 * mask.sum() / 10
    statistic = ((shares - expected) ** 2 / expected).sum()
    assert statistic < stats.chi2.ppf(1 - 1e-6, 9)


def test_a_full_lattice_can_be_filled_to_the_last_slot():
    lattice = ts.Lattice(shape=(3, 4, 5), spacing=1e-8, step=1e-6, slots=8)
    lattice.add_species("A")
    lattice.place("A", count=60 * 8)
    assert (lower_lattice(lattice).particles(0, 3, 1) == 1).all()


def test_positions_beyond_the_slots_are_refused():
    lattice = cell()
    lattice.place("A", positions=[[1, 2, 3]] * 5)
    lattice.place("B", positions=[[0, 0, 0]] * 8 + [[1, 2, 3]] * 4)
    for refuses in (lattice.check, lattice.validate):
        with pytest.raises(ModelError, match=r"9 particles at \[1, 2, 3\]; a site holds 8"):
            refuses()


def test_positions_and_counts_that_do_not_fit_together_are_refused():
    lattice = ts.Lattice(shape=(1, 1, 2), spacing=1e-8, step=1e-6, slots=8)
    lattice.add_species("A")
    lattice.place("A", count=14)
    lattice.place("A", positions=[[0, 0, 0]] * 4)
    with pytest.raises(ModelError, match="use more slots"):
        lower_lattice(lattice).particles(0, 1, 1)
