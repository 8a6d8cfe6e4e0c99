"""Counts in bit planes: the law of hops and reactions, conservation, the same bits on every way.

Chi-square tests: each passes unless its p-value is below 1e-5, with seeds that are fixed. Most run
with `-m validate`; an ordinary run holds the bits.
"""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from emulation import EmulatedLattices
from halo_models import MODELS, SHAPE
from lattice_factory import binding, coefficient, digest, empty_lattice, lowered, state_of, typed
from measure_halo import LoopedSlab
from sampling import ordinary
from scipy import stats
from thread_ranks import SharedBackend, on_threads

from tauslab.decomposition.planes_run import PlanesSlab, kernels_may_wait
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice import planes as choice
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.planes import (
    LatticeEngineName,
    engine_of,
    missing_in_planes,
    teams_of,
)
from tauslab.kernels.lattice.planes_engine import PlanesEngine

LEAST = 1e-5
SEED = 5


def started(backend, lattice, **options) -> PlanesEngine:
    engine = PlanesEngine(backend, lattice, **{"seed": SEED, **options})
    engine.load_start()
    return engine


def counts_of(state, species: int):
    """Numbers of one species ``[z, y, x]``."""
    return (state.particles == species + 1).sum(axis=-1)


def with_particles(lattice, counts):
    """A state with ``counts [z, y, x, species]``."""
    particles = np.zeros((*lattice.shape, lattice.slots), np.uint8)
    for site in np.argwhere(counts.any(axis=-1)):
        held = np.repeat(np.arange(counts.shape[-1]) + 1, counts[tuple(site)])
        particles[(*site, slice(len(held)))] = held
    return state_of(lattice, particles)


def chi_square(found, expected) -> float:
    """The p-value of numbers ``[class]`` that are expected with these means."""
    assert np.isclose(found.sum(), expected.sum())
    many = expected > 5
    found = np.append(found[many], found[~many].sum())
    expected = np.append(expected[many], expected[~many].sum())
    if expected[-1] == 0:
        assert found[-1] == 0
        found, expected = found[:-1], expected[:-1]
    return float(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(found) - 1))


# -------------------------------------------------------------------- the law


@pytest.mark.validate
def test_one_step_of_sources_far_apart(cpu):
    """27 places, and the number that stays, of many particles in a site."""
    shape, hops, start = (16, 16, 72), {"A": 0.15, "B": 0.31, "C": 0.02}, (9, 4, 3)
    lattice = lowered(empty_lattice(shape, hops))
    counts = np.zeros((*shape, 3), int)
    counts[1::4, 1::4, 3::4] = start
    places, stayed = np.zeros((3, 27)), np.zeros((3, max(start) + 1))
    engine = started(cpu, lattice)
    for seed in range(40):
        engine.seed = seed
        engine.load(with_particles(lattice, counts))
        engine.run(1)
        state = engine.save()
        for species in range(3):
            held = counts_of(state, species)
            for number, shift in enumerate(np.ndindex(3, 3, 3)):
                there = np.roll(held, 1 - np.array(shift), axis=(0, 1, 2))[1::4, 1::4, 3::4]
                places[species, number] += there.sum()
                if shift == (1, 1, 1):
                    stayed[species] += np.bincount(there.ravel(), minlength=len(stayed[0]))
    for species, hop in enumerate(hops.values()):
        axis = np.array([hop, 1 - 2 * hop, hop])
        law = np.einsum("i,j,k->ijk", axis, axis, axis).ravel()
        assert chi_square(places[species], places[species].sum() * law) > LEAST
        home = stats.binom.pmf(np.arange(len(stayed[0])), start[species], law[13])
        assert chi_square(stayed[species], stayed[species].sum() * home) > LEAST


@pytest.mark.validate
@pytest.mark.parametrize("hop", [2.0**-16, 1 / 60, 1 / 6, 0.4999])
def test_how_often_a_particle_hops_is_exact(cpu, hop):
    """Particles with an odd number of hops stand on the other sites of a chequerboard."""
    shape, steps = (16, 16, 64), 4 if hop > 0.01 else 400
    lattice = lowered(empty_lattice(shape, {"A": hop}, slots=32))
    odd = np.indices(shape).sum(axis=0) % 2 == 1
    engine = started(cpu, lattice)
    engine.load(with_particles(lattice, np.where(odd, 0, 8)[..., None]))
    engine.run(steps)
    held = counts_of(engine.save(), 0)
    assert held.sum() == 8 * (~odd).sum()
    chance = (1 - (1 - 4 * hop) ** (3 * steps)) / 2
    assert stats.binomtest(int(held[odd].sum()), int(held.sum()), chance).pvalue > LEAST


def test_a_hop_that_is_rounded_up_to_a_half_happens(cpu):
    """Thresholds have 63 bits: one of 2^63 would be 0."""
    lattice = lowered(empty_lattice((4, 4, 64), {"A": 0.4}))
    lattice = replace(lattice, hop=np.full_like(lattice.hop, 0.5 * (1 + 1e-9)))
    odd = np.indices((4, 4, 64)).sum(axis=0) % 2 == 1
    engine = started(cpu, lattice)
    engine.load(with_particles(lattice, np.where(odd, 0, 4)[..., None]))
    engine.run(1)  # three hops
    assert counts_of(engine.save(), 0)[odd].sum() == 4 * (~odd).sum()


@pytest.mark.validate
@pytest.mark.parametrize("boundary", ordinary(["reflecting", "absorbing", "periodic"], "absorbing"))
def test_a_step_between_site_types_is_that_of_slots(cpu, boundary):
    """Means of each site after a step, over many seeds: equal to those of the slots engine."""
    lattice = replace(typed((4, 5, 37), boundary=boundary, fill=0), reactions=())
    engines = (started(cpu, lattice), LatticeEngine(cpu, lattice, seed=1))
    counts = np.random.default_rng(3).integers(0, 4, (*lattice.shape, 2))
    state = with_particles(lattice, counts)
    sums = []
    for engine in engines:
        total = np.zeros((2, *lattice.shape))
        for seed in range(300):
            engine.seed = seed
            engine.load(state)
            engine.run(1)
            after = engine.save()
            for species in range(2):
                total[species] += counts_of(after, species)
        sums.append(total)
    for planes, slots in zip(*sums, strict=True):
        both = planes + slots
        some = both > 20
        chi = ((planes - slots) ** 2 / np.maximum(both, 1))[some].sum()
        # Numbers of a site are less than Poisson, so the sum is at most this.
        assert stats.chi2.sf(chi, some.sum()) > LEAST
    assert np.array_equal(sums[0] == 0, sums[1] == 0) or boundary == "absorbing"


@pytest.mark.validate
@pytest.mark.parametrize("frequent", [1.0, 30.0])
def test_reactions_are_those_of_slots(cpu, frequent):
    """Firings and counts after some steps, over many seeds; few and many reactions of a site."""
    lattice = binding((3, 4, 40), 2.5, frequent=frequent)
    actual = []
    for engine in (started(cpu, lattice), LatticeEngine(cpu, lattice, seed=1)):
        engine.load_start()
        state, rows = engine.save(), []
        for seed in range(150):
            engine.seed = seed
            engine.load(state)
            samples = engine.run_sampled([1, 4])
            rows.append([*samples.fired.ravel(), samples.counts[-1, 2]])
        actual.append(np.array(rows, float))
    for planes, slots in zip(actual[0].T, actual[1].T, strict=True):
        assert stats.ttest_ind(planes, slots).pvalue > LEAST
        assert stats.ks_2samp(planes, slots).pvalue > LEAST


@pytest.mark.validate
@pytest.mark.parametrize("face", ordinary(["z-", "z+"], "z-"))
def test_what_comes_through_a_held_face_is_poisson(cpu, face):
    """Along the last axis of a step, by two site types: 0.4 to 2 of A in a site, 0.01 of B."""
    shape = (3, 16, 72)
    model = empty_lattice(shape, {"A": 0.4, "B": 0.01}, boundary="reflecting", slots=32)
    model.add_site_type("water")
    model.add_site_type("gel", np.indices(shape)[2] < 40)
    model.add_diffusion("A", coefficient(0.08), source="water", target="gel")
    model.set_boundary(face, "held", concentrations={"A": 2.53e-4, "B": 5e-5})
    lattice = lowered(model)
    plane = 0 if face == "z-" else 2
    tables = np.zeros((2, 2, 20))
    engine = started(cpu, lattice)
    for seed in range(40):
        engine.seed = seed
        engine.load_start()
        engine.run(1)
        for species in range(2):
            held = counts_of(engine.save(), species)
            assert held.sum() == held[plane].sum()
            for number, part in enumerate((held[plane, :, 40:], held[plane, :, :40])):
                tables[species, number] += np.bincount(part.ravel(), minlength=20)
    hop = lattice.hop[0, :, :]
    for species, number in np.ndindex(2, 2):
        mean = lattice.ghost[0 if plane == 0 else 1][species] * hop[number, species]
        law = stats.poisson.pmf(np.arange(20), mean)
        actual = tables[species, number]
        assert mean > 0.005
        assert chi_square(actual, actual.sum() * law / law.sum()) > LEAST


@pytest.mark.validate
@pytest.mark.parametrize(
    ("slots", "hops"),
    ordinary([(32, {"A": 0.2, "B": 0.1}), (8, {"A": 0.4})], (8, {"A": 0.4})),
)
def test_held_faces_are_those_of_slots(cpu, slots, hops):
    """After some steps, over many seeds: without and with many that wait, then of one species."""
    lattice, actual = held_everywhere(slots, **hops), []
    for engine in (started(cpu, lattice), LatticeEngine(cpu, lattice, seed=1)):
        rows = []
        for seed in range(120):
            engine.seed = seed
            engine.load_start()
            samples = engine.run_sampled([1, 12])
            rows.append([*samples.counts.ravel(), *samples.fired.ravel(), *samples.spills])
        actual.append(np.array(rows, float))
    assert (actual[0][:, -1].mean() > 100) == (slots == 8)
    for planes, slots_ in zip(actual[0].T, actual[1].T, strict=True):
        assert (planes == slots_).all() or stats.ttest_ind(planes, slots_).pvalue > LEAST
        assert stats.ks_2samp(planes, slots_).pvalue > LEAST


@pytest.mark.validate
def test_reactions_of_all_orders_in_sites_that_stand_alone(cpu):
    """0 -> A, A -> 2 A, 2 A -> A: the numbers of a site after a pass, as of slots."""
    model = empty_lattice((8, 8, 70), {"A": 0.0, "B": 0.0})
    model.add_reaction("-> A", rate=3000, volume="site")
    model.add_reaction("A -> 2 A", rate=4000)
    model.add_reaction("2 A -> B", rate=2500, volume="site")
    model.add_reaction("A + B -> A", rate=2000, volume="site")
    model.place("A", count=4000)
    lattice = lowered(model)
    tables = []
    for engine in (started(cpu, lattice), LatticeEngine(cpu, lattice, seed=1)):
        engine.load_start()
        state, table = engine.save(), np.zeros((17, 17))
        for seed in range(12):
            engine.seed = seed
            engine.load(state)
            engine.run(2)
            after = engine.save()
            np.add.at(table, (counts_of(after, 0).ravel(), counts_of(after, 1).ravel()), 1)
        tables.append(table.ravel())
    some = sum(tables) > 20
    rows = np.array([[*table[some], table[~some].sum()] for table in tables])
    assert stats.chi2_contingency(rows[:, rows.sum(axis=0) > 0]).pvalue > LEAST


@pytest.mark.validate
def test_a_rare_reaction_is_no_less_rare(cpu):
    """A reaction of 1e-6 a site and step: candidates of 2^-19."""
    model = empty_lattice((32, 32, 32), {"A": 0.1})
    model.add_reaction("A -> A", rate=1e-2)
    model.place("A", count=32**3)
    fired = started(cpu, lowered(model)).run_sampled([3000]).fired[-1, 0]
    mean = 32**3 * 3000 * 1e-6
    assert abs(fired - mean) < 4.4 * mean**0.5


# -------------------------------------------------------------------- nothing is lost


@pytest.mark.validate
@pytest.mark.parametrize("slots", ordinary([8, 16, 32], 8))
def test_no_particle_is_lost_in_a_crowded_lattice(cpu, slots):
    lattice = binding((6, 7, 45), (0.6 if slots == 8 else 0.8) * slots, slots=slots)
    engine = started(cpu, lattice)
    start = engine.count()
    samples = engine.run_sampled(range(1, 61))
    change = np.array([[-1, -1, 1], [1, 1, -1]])
    assert np.array_equal(samples.counts, start.counts + samples.fired @ change)
    assert samples.spills[-1] > 0
    state = engine.save()
    assert (state.particles > 0).sum() + len(state.waiting) == samples.counts[-1].sum()
    assert len(state.waiting) == samples.waiting[-1] > 0
    assert (np.diff((state.particles == 0).astype(int), axis=-1) >= 0).all()


@pytest.mark.validate
def test_particles_wait_as_often_as_in_slots(cpu):
    """One species, so that it does not matter who waits: the same law."""
    model = empty_lattice((6, 6, 40), {"A": 0.2}, slots=8)
    model.place("A", count=int(0.7 * 8 * 6 * 6 * 40))
    lattice, actual = lowered(model), []
    for engine in (started(cpu, lattice), LatticeEngine(cpu, lattice, seed=1)):
        engine.load_start()
        state, rows = engine.save(), []
        for seed in range(60):
            engine.seed = seed
            engine.load(state)
            samples = engine.run_sampled([5, 6])
            rows.append([*samples.spills, *samples.waiting])
        actual.append(np.array(rows, float))
    for planes, slots in zip(actual[0].T, actual[1].T, strict=True):
        assert stats.ttest_ind(planes, slots).pvalue > LEAST
        assert stats.ks_2samp(planes, slots).pvalue > LEAST


def test_a_full_list_is_made_longer(cpu):
    """The batch is done again, with the same bits."""
    lattice = binding((5, 6, 40), 6, slots=8)
    actual = []
    for capacity in (4, None):
        engine = started(cpu, lattice, capacity=capacity)
        engine.run_sampled([7, 20])
        actual.append(digest(engine))
    assert actual[0] == actual[1]


# -------------------------------------------------------------------- the same bits


def held_everywhere(slots=8, **hops):
    """Many particles come in along each axis, by site types; with 8 slots many wait."""
    hops = hops or {"A": 0.2, "B": 0.4}
    model = empty_lattice((5, 4, 41), hops, boundary="reflecting", slots=slots)
    model.add_site_type("water")
    model.add_site_type("gel", np.indices((5, 4, 41))[2] % 7 < 3)
    model.add_diffusion("A", coefficient(0.1), within="gel")
    for face, amount in (("z-", 2e-4), ("z+", 4e-4), ("y-", 1e-4), ("x-", 3e-4), ("x+", 5e-4)):
        model.set_boundary(face, "held", concentrations=dict.fromkeys(hops, amount))
    model.set_boundary("y+", "absorbing")
    model.add_reaction(" + ".join(hops) + " -> A", rate=300, volume="site")
    return lowered(model)


def cases():
    """Lattices of all kinds."""
    return {
        "plain": lambda: binding((5, 6, 64), 1.6),
        "odd": lambda: binding((3, 5, 7), 3),
        "narrow": lambda: binding((2, 1, 33), 3),
        "crowded": MODELS["crowded"],
        "absorbing": MODELS["absorbing"],
        "typed": MODELS["typed"],
        "typed periodic": MODELS["typed periodic"],
        "held": MODELS["held"],
        "held and crowded": held_everywhere,
        "32 slots": lambda: typed((4, 5, 40), slots=32, fill=12),
    }


@pytest.mark.parametrize("name", ordinary(cases(), "typed periodic"))
def test_batches_threads_and_resuming_change_no_bit(cpu, three_threads, name):
    lattice = cases()[name]()
    whole = started(cpu, lattice)
    whole.run_sampled([40])
    parts = started(three_threads, lattice)
    parts.run_sampled([1, 2, 13])
    state = parts.save()
    again = started(cpu, lattice)
    again.load(state)
    again.run(7)
    again.run_sampled([20])
    assert digest(again) == digest(whole)
    assert np.array_equal(again.count().by_type, whole.count().by_type)


@pytest.mark.parametrize(
    ("name", "words"),
    ordinary(itertools.product(("odd", "typed"), (2, 4, 8, 16)), ("odd", 2)),
)
def test_vectors_of_any_width_have_the_same_bits(cpu, monkeypatch, name, words):
    lattice = cases()[name]()
    expected = started(cpu, lattice)
    expected.run_sampled([25])
    given = os.environ.get("TAUSLAB_CXXFLAGS", "")
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", f"{given} -DPLANE_WORDS={words}")
    actual = started(cpu, lattice)
    actual.run_sampled([25])
    assert digest(actual) == digest(expected)


# Digests of states. Tests above compare the laws with those of slots, with `-m validate`.
BITS = {
    "crowded": "ab19a057fd938ca2",
    "held": "c6554e860b428ebf",
    "typed": "4199e55a5afdf418",
    "absorbing": "dbdb82ae5108cdf4",
    "typed periodic": "4ab95a3519fa1f14",
}


@pytest.mark.parametrize(
    ("name", "size"),
    ordinary(
        [
            ("crowded", 3),
            ("held", 3),
            ("typed", 2),
            ("absorbing", 3),
            ("typed periodic", 4),
            ("typed periodic", 12),
        ],
        ("crowded", 3),
        ("absorbing", 3),
        ("typed periodic", 12),
    ),
)
@pytest.mark.parametrize("transport", ["peer", "host"])
def test_slabs_have_the_bits_of_the_whole(cpu, name, size, transport):
    lattice = MODELS[name]()
    whole = started(cpu, lattice)
    expected = whole.run_sampled([3, 30])
    assert digest(whole) == BITS[name]

    def advanced(comm):
        backend = SharedBackend(BackendOptions(threads=1))
        bounds = cut_planes(SHAPE[0], comm.size, least=1)
        slab = PlanesSlab(backend, lattice, comm, bounds, seed=SEED,
                          options=HaloOptions(transport, capacity=5))  # fmt: skip
        slab.engine.load_start()
        samples = [slab.run_sampled([3]), slab.run_sampled([27])]
        state = slab.engine.save()
        slab.close()
        backend.close()
        return state, samples

    actual = on_threads(size, advanced)
    state = whole.save()
    assert np.array_equal(np.concatenate([s.particles for s, _ in actual]), state.particles)
    assert np.array_equal(np.concatenate([s.waiting for s, _ in actual]), state.waiting)
    for number in range(2):
        rows = sum(samples[number].rows() for _, samples in actual)
        assert np.array_equal(rows[0], expected.rows()[number])


@pytest.mark.parametrize(
    ("devices", "more", "together"),
    [("ab", {}, True), ("aa", {}, False), ("ab", {"alone": False}, False),
     ("ab", {"on_device": False}, False)],
)  # fmt: skip
def test_kernels_wait_for_each_other_on_devices_of_their_own(devices, more, together):
    """Two lattices on the same two devices would wait without end."""

    def asked(comm):
        name = devices[comm.rank]
        device = SimpleNamespace(style=SimpleNamespace(warp=32), identity=lambda: name)
        return kernels_may_wait(device, comm, **{"on_device": True, "alone": True, **more})

    assert on_threads(2, asked) == [together] * 2


def test_replicas_and_seeds_differ(cpu):
    lattice, actual = cases()["odd"](), set()
    for seed, replica in ((5, 0), (5, 1), (6, 0)):
        engine = started(cpu, lattice, seed=seed, replica=replica)
        engine.run_sampled([10])
        actual.add(digest(engine))
    assert len(actual) == 3


def test_counts_on_the_way_are_those_between_batches(cpu):
    lattice = cases()["typed"]()
    one, other = started(cpu, lattice), started(cpu, lattice)
    samples = one.run_sampled(range(1, 11))
    for number in range(10):
        other.run_sampled([1])
        assert np.array_equal(other.count().rows()[0], samples.rows()[number])


# -------------------------------------------------------------------- the choice


def test_what_planes_lack_is_done_in_slots(monkeypatch):
    many = empty_lattice((4, 4, 4), {f"S{i}": 0.1 for i in range(9)})
    for name in many.species:
        many.place(name, count=8)
    assert "8 species" in missing_in_planes(lowered(many))
    lattice = binding((4, 4, 40), 1.6)
    assert engine_of(lattice) is LatticeEngineName.SLOTS
    monkeypatch.setattr(choice, "LEAST_SITES", 640)
    assert engine_of(lattice) is LatticeEngineName.PLANES
    assert engine_of(binding((4, 10, 16), 1.6)) is LatticeEngineName.PLANES
    assert (
        engine_of(binding((5, 10, 15), 1.6)) is LatticeEngineName.SLOTS
    )  # words less than half full
    assert engine_of(binding((4, 4, 40), 0.05)) is LatticeEngineName.SLOTS
    some = empty_lattice((4, 4, 40), {f"S{i}": 0.1 for i in range(6)})
    some.place("S0", count=640)
    assert engine_of(lowered(some)) is LatticeEngineName.SLOTS
    monkeypatch.setattr(choice, "MANY_SITES", 640)
    assert engine_of(lowered(some)) is LatticeEngineName.PLANES
    assert engine_of(binding((4, 4, 40), 0.05)) is LatticeEngineName.PLANES  # of whole planes
    assert engine_of(binding((5, 5, 40), 0.05)) is LatticeEngineName.SLOTS
    assert engine_of(MODELS["sparse"]()) is LatticeEngineName.SLOTS


@pytest.mark.parametrize(
    ("name", "order", "teamed"),
    ordinary(
        itertools.product(
            ("frequent", "several blocks", "crowded", "typed periodic", "held and crowded"),
            (1, -1, 7),
            (True, False),
        ),
        ("frequent", 7, True),
        ("several blocks", 7, True),
        ("typed periodic", 1, True),
        ("held and crowded", -1, False),
    ),
)
def test_warps_have_the_bits_of_a_cpu(cpu, tmp_path, monkeypatch, name, order, teamed):
    """A warp of a team has a species, and shows its counts; others have all species.

    Where particles wait, the steps are done again by the kernel in which they may.
    """
    if not teamed:
        monkeypatch.setattr(choice, "FEW_WORDS", 0)
    more = {
        "frequent": lambda: binding((3, 4, 64), 3, frequent=30),
        "several blocks": lambda: binding((6, 10, 64), 0.2),
    }
    lattice, blocks = (cases() | more)[name](), 4 if name == "several blocks" else 1
    threads = teams_of(lattice).threads
    states = []
    for backend in (cpu, EmulatedLattices(tmp_path, threads, order, blocks, counter=cpu)):
        engine = started(backend, lattice)
        samples = engine.run_sampled([1, 2, 5])
        states.append((digest(engine), engine.count().rows().tolist(), samples.rows().tolist()))
        assert engine.may_wait == (backend is cpu or name not in more)
    assert states[0] == states[1]


@pytest.mark.gpu
def test_a_gpu_has_the_bits_of_a_cpu(cpu):
    with closing(get_backend("cuda", BackendOptions())) as gpu:
        # In the first, blocks wait for those of three planes: 16 planes of four groups of words.
        # The second has more groups than there are warps; then it is a slab, its own neighbour.
        many = binding((96, 128, 256), 1)
        for make in (lambda: binding((16, 64, 64), 1), lambda: many, *cases().values()):
            lattice = make()
            states = []
            for backend in (cpu, gpu):
                engine = started(backend, lattice)
                engine.run_sampled([1, 2, 30])
                states.append((digest(engine), engine.count().rows().tolist()))
            if lattice is many:
                slab = LoopedSlab(gpu, lattice, seed=SEED)
                slab.engine.load_start()
                slab.run(11)
                slab.run(19)
                states.append((digest(slab.engine), slab.engine.count().rows().tolist()))
            assert all(state == states[0] for state in states)
