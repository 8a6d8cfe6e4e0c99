"""Objects of several sites: how far they move, what they never do, and what decides it."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace

import numpy as np
import pytest
from sampling import ordinary
from thread_ranks import on_threads

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.decomposition.slab import slab_of
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.objects import Ground, Objects

STEP, SPACING = 5e-5, 1e-8
D = 1e-15  # m^2/s: 1/2000 of the sites a step, to each side
MOST = 4.9  # standard deviations: a false alarm in a million


def cell(
    shape=(12, 10, 11), objects=9, others=800, boundary="periodic", sites=1, every=None, slots=8,
    hop=D, **given,
):  # fmt: skip
    model = ts.Lattice(
        "cell", shape=shape, spacing=SPACING, slots=slots, step=STEP, boundary=boundary
    )
    model.add_species("R", "RM", "P", "G")
    model.add_diffusion(["R", "RM"], hop)
    model.add_diffusion("P", 2e-13)
    model.add_object("ribosome", sites=sites, follows=["R", "RM"], every=every, **given)
    if objects:
        model.place("R", count=objects, site_type="default")
    model.place("P", count=others, site_type="default")
    return model


def begun(backend, model, seed=3, slab=None, gather=lambda *own: [own]):
    lattice = lower_lattice(model)
    engine = LatticeEngine(backend, lattice, seed=seed, slab=slab)
    engine.load_start()
    objects = Objects(lattice)
    objects.begin(Ground(engine, gather))
    return engine, objects


def moved(engine, objects, passes, gather=lambda *own: [own]):
    """Passes without steps between them: displacements after each ``[pass, object, 3]``."""
    every = objects.intervals[0]
    actual = []
    for _ in range(passes):
        engine.step += every
        objects.move(Ground(engine, gather), engine.step)
        actual.append(objects.rosters["ribosome"].moved.copy())
    return np.array(actual)


@pytest.mark.validate
@pytest.mark.parametrize(
    ("every", "passes"), ordinary([(100, 2200), (250, 400), (1000, 650)], (250, 400))
)
def test_diffusion_is_as_set_at_any_interval(cpu, every, passes):
    """H9: 6 D t, not 0.667 of it; the variance of a sum of independent moves is exact."""
    engine, objects = begun(cpu, cell(objects=1, others=0, every=every))
    of_pass = np.diff(moved(engine, objects, passes)[:, 0], axis=0, prepend=0)
    q = D * STEP * every / SPACING**2 / engine.lattice.objects[0].moves
    moves = engine.lattice.objects[0].moves
    mean = 6 * q * moves
    assert mean == pytest.approx(6 * D * every * STEP / SPACING**2)
    variance = mean + 60 * q * q * moves * (moves - 1) - mean * mean
    squared = (of_pass**2).sum(axis=1)
    assert abs(squared.mean() - mean) < MOST * np.sqrt(variance / passes)
    assert 0.333 * mean > 2 * MOST * np.sqrt(variance / passes)  # the test would see that


def stamped(engine, objects):
    """The sites that objects say they cover, each once; those of their type are the same."""
    kind = objects._kinds[0]
    own = kind.form.sites(objects.rosters["ribosome"].sites).reshape(-1)
    assert len(set(own.tolist())) == len(own)
    types = engine.host(engine.types).reshape(-1)
    assert (
        sorted(own.tolist())
        == np.flatnonzero(types == engine.lattice.objects[0].site_type).tolist()
    )
    return own


@pytest.mark.parametrize("sites", [1, 1.5, [[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, -2]]])
@pytest.mark.parametrize("boundary", ordinary(["periodic", "reflecting"], "reflecting"))
def test_nothing_overlaps_is_lost_or_left_inside(cpu, sites, boundary):
    number = 12 if sites == 1 else 7
    model = cell(
        sites=sites, boundary=boundary, objects=number, others=2500, hop=1e-13, every=2
    )  # fmt: skip
    engine, objects = begun(cpu, model)
    for _ in range(60):
        engine.run(2)
        objects.move(Ground(engine, lambda *own: [own]), engine.step)
        own, particles = stamped(engine, objects), engine.save().particles.reshape(-1, 8)
        kinds = np.bincount(particles.reshape(-1), minlength=5)
        waiting = len(engine.waiting())
        assert kinds[1] == len(objects.rosters["ribosome"].sites) == number
        assert kinds[3] + waiting == 2500
        assert not (particles[own] == 3).any()
        centres = objects.rosters["ribosome"].sites
        assert (particles[centres] == 1).any(axis=1).all()
    assert (objects.rosters["ribosome"].moved != 0).any(axis=1).all()


def rods(n=2):
    """Rods of two sites in a small box."""
    return cell((2, 2, 4), n, 20, "reflecting", [[0, 0, 0], [0, 0, 1]], every=1000, slots=16)


@pytest.mark.validate
def test_all_states_without_overlap_are_equally_likely(cpu):
    """Two rods among particles that they push: chi-squared of all their places."""
    engine, objects = begun(cpu, rods())
    places = [(z, y, x) for z in range(2) for y in range(2) for x in range(3)]
    states = [
        (a, b) for a, b in itertools.permutations(places, 2)
        if a[:2] != b[:2] or abs(a[2] - b[2]) > 1
    ]  # fmt: skip
    seen = dict.fromkeys(states, 0)
    for _ in range(500):
        moved(engine, objects, 3)
        roster = objects.rosters["ribosome"]
        at = np.stack(np.unravel_index(roster.sites[np.argsort(roster.numbers)], (2, 2, 4)), axis=1)
        seen[tuple(tuple(int(c) for c in one) for one in at)] += 1
    expected = 500 / len(states)
    squared = sum((count - expected) ** 2 / expected for count in seen.values())
    degrees = len(states) - 1
    # Samples 18 moves apart are not quite independent: 5 deviations hold that too.
    assert squared < degrees + 6 * np.sqrt(2 * degrees)


def final(backend, bounds=None, boundary="periodic"):
    """All that remains after some moves and steps, of one slab or several."""
    model = cell(others=1500, boundary=boundary)
    if bounds is None:
        engine, objects = begun(backend, model)
        moved(engine, objects, 25)
        return engine.save().particles, engine.host(engine.types), objects.stored()

    def slab(comm):
        own = slab_of(bounds, comm.rank, periodic=boundary == "periodic", depth=1)
        gather = lambda *mine: comm.allgather(mine)  # noqa: E731
        engine, objects = begun(backend, model, slab=own, gather=gather)
        moved(engine, objects, 25, gather)
        return engine.save().particles, engine.host(engine.types), objects.stored(), own

    parts = on_threads(len(bounds) - 1, slab)
    for _, types, _, own in parts:  # the neighbours' planes too
        planes = np.arange(own.begin - own.below, own.end + own.above) % model.shape[0]
        whole = np.concatenate([t[o.below : o.below + o.end - o.begin] for _, t, _, o in parts])
        assert np.array_equal(types, whole[planes])
    assert all(part[2] == parts[0][2] for part in parts)
    return np.concatenate([part[0] for part in parts]), whole, parts[0][2]


# Digests of states. Tests above compare the laws with exact ones, most with `-m validate`.
BITS = {"periodic": "784045cc39f42dcc", "reflecting": "0dff23b9f6ebc551"}


@pytest.mark.parametrize("boundary", ordinary(BITS, "periodic"))
@pytest.mark.parametrize("bounds", [(0, 5, 12), (0, 1, 2, 12)])
def test_cuts_change_nothing(cpu, bounds, boundary):
    one, cut = final(cpu, None, boundary), final(cpu, bounds, boundary)
    assert np.array_equal(one[0], cut[0])
    assert np.array_equal(one[1], cut[1])
    assert one[2] == cut[2]
    assert hashlib.sha256(one[0].tobytes() + one[1].tobytes()).hexdigest()[:16] == BITS[boundary]


def test_objects_come_and_go_with_their_particles(cpu):
    engine, objects = begun(cpu, cell(objects=3, others=900))
    ground = Ground(engine, lambda *own: [own])
    cells = engine.in_slots().reshape(-1, 8)
    first = int(objects.rosters["ribosome"].sites[0])
    cells[first, 0] = 2  # a reaction makes the other species of it: the same object
    moved(engine, objects, 1)
    assert objects.rosters["ribosome"].numbers.tolist() == [0, 1, 2]
    second = int(objects.rosters["ribosome"].sites[1])
    cells[second] = 0
    objects.move(ground, engine.lattice.objects[0].every)
    assert objects.rosters["ribosome"].numbers.tolist() == [0, 2]
    third = int(objects.rosters["ribosome"].sites[1])
    cells[third, 1] = 1  # no space for a second one where the first is
    moved(engine, objects, 1)
    numbers = objects.rosters["ribosome"].numbers.tolist()
    assert numbers[:2] == [0, 2]
    stamped(engine, objects)


def test_pinned_particles_stop_objects_and_factors_let_others_in(cpu):
    model = cell(objects=4, others=0)
    genes = [(z, 0, 0) for z in range(0, 12, 2)]
    model.pin("G", genes)
    engine, objects = begun(cpu, model)
    moved(engine, objects, 60)
    particles = engine.save().particles
    assert all((particles[gene] == 4).any() for gene in genes)
    own = stamped(engine, objects)
    assert not (particles.reshape(-1, 8)[own] == 4).any()
    lattice = lower_lattice(cell(obstacle=0.25))
    within, inside = lattice.objects[0].within, lattice.objects[0].site_type
    hop = lattice.hop[:, :, 2]
    assert hop[within, inside] == hop[inside, within] == hop[inside, inside]
    assert hop[inside, inside] == 0.25 * hop[within, within]


def test_moves_change_no_list_of_sites():
    """Sites that an object covers are closed where those that it leaves are, and nowhere else."""
    lattice = lower_lattice(cell())
    (one,), hop = lattice.objects, lattice.hop.copy()
    hop[:, one.site_type] = 0
    assert not replace(lattice, hop=hop).closed.any()
    hop[:, one.within] = 0
    assert replace(lattice, hop=hop).closed.all()


@pytest.mark.parametrize(
    "given",
    [
        {"every": float("nan")}, {"every": "5"}, {"every": 0}, {"every": True},
        {"obstacle": "no"}, {"obstacle": None}, {"obstacle": float("nan")}, {"follows": []},
    ],
)  # fmt: skip
def test_options_of_objects_are_checked(given):
    model = cell()
    with pytest.raises(ModelError, match="object rod: " + next(iter(given))):
        model.add_object("rod", **{"sites": 1, "follows": "P", **given})
    assert "rod" not in model.type_names


def test_booleans_of_arrays_are_booleans():
    model = cell()
    model.add_object("rod", sites=1, follows="P", obstacle=np.True_, every=np.int64(3))
    assert (model.objects[-1].factor, repr(model.objects[-1].every)) == (0.0, "3")


def test_what_cannot_be_is_refused(cpu):
    model = cell()
    with pytest.raises(ModelError, match="the name has another use"):
        model.add_object("ribosome", sites=1, follows="P")
    with pytest.raises(ModelError, match="radius in sites"):
        model.add_object("rod", sites=[[0.5, 0, 0]], follows="P")
    with pytest.raises(ModelError, match="0, 0, 0"):
        model.add_object("rod", sites=[[0, 0, 1]], follows="P")
    model.add_object("rod", sites=0, follows="R")
    with pytest.raises(ModelError, match="another object follows it"):
        model.validate()
    with pytest.raises(ModelError, match="12, 12, 12"):
        cell(sites=5).validate()
    with pytest.raises(ModelError, match="no objects"):
        cell((4, 4, 4), objects=1, others=1).to_network(seed=1)
    with pytest.raises(ConfigError, match="do not fit"):
        begun(cpu, cell(objects=400, others=0))
