"""The lattice engines against exact laws, in short forms of what validate_rdme.py runs.

Seeds are fixed. Each test states its false-alarm rate; together they stay below 1e-3.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
from lattice_factory import (
    SPACING,
    STEP,
    empty_lattice,
    lowered,
    state_of,
)
from sampling import ordinary

from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.planes import missing_in_planes
from tauslab.kernels.lattice.planes_engine import PlanesEngine

Z_LIMIT = 4.4  # two-sided 1.1e-5


@pytest.fixture(params=ordinary([LatticeEngine, PlanesEngine], LatticeEngine), autouse=True)
def kind(request, monkeypatch):
    """The engine of a test; kernels/lattice/test_planes.py holds planes against slots."""
    monkeypatch.setattr(started, "kind", request.param, raising=False)


def started(backend, lattice, particles=None, seed=11):
    if started.kind is PlanesEngine and missing_in_planes(lattice):
        pytest.skip("planes lack what this lattice has")
    engine = started.kind(backend, lattice, seed=seed)
    if particles is None:
        engine.load_start()
    else:
        engine.load(state_of(lattice, particles))
    return engine


def run(engine, steps):
    return engine.run_sampled([steps])


@pytest.mark.parametrize("hop", ordinary([1 / 60, 1 / 6, 1 / 4], 1 / 6))
def test_t1_mean_squared_displacement(backend, hop):
    """Particles of 255 kinds, each at a known site: <r^2> = 6 q n and the kurtosis; 4 z-tests."""
    kinds, size, n = 250, 64, 40
    model = empty_lattice((size, size, size), {f"S{i}": hop for i in range(kinds)})
    copies = 8  # of each kind, at one site, so that 2,000 walks are followed
    start = np.zeros((size, size, size, 16), np.uint8)
    rng = np.random.default_rng(3)
    sites = rng.choice(size**3, kinds, replace=False)
    origin = np.stack(np.unravel_index(sites, (size,) * 3), axis=1)
    start.reshape(-1, 16)[sites, :copies] = np.arange(1, kinds + 1)[:, None]
    engine = started(backend, lowered(model), start)
    run(engine, n)
    state = engine.save()
    where = np.argwhere(state.particles > 0)
    kind = state.particles[tuple(where.T)] - 1
    moved = (where[:, :3] - origin[kind] + size // 2) % size - size // 2
    assert len(moved) + len(state.waiting) == kinds * copies
    squares = moved.astype(float) ** 2
    variance = 2 * hop * n
    kurtosis = (1 / (2 * hop) - 3) / n
    error = variance * np.sqrt((2 + kurtosis) / squares.size)
    assert abs(squares.mean() - variance) < Z_LIMIT * error
    assert (abs(moved.mean(axis=0)) < Z_LIMIT * np.sqrt(variance / len(moved))).all()
    fourth = (squares**2).mean() / variance**2 - 3
    assert abs(fourth - kurtosis) < Z_LIMIT * np.sqrt(96 / squares.size) * 1.3


@pytest.mark.validate
def test_t2_a_mode_in_a_reflecting_box_decays(backend):
    """cos(pi (z + 1/2) / L): its mean after n steps is exact; one z-test."""
    size, hop, n = 16, 1 / 6, 30
    model = empty_lattice((size, 12, 12), {"A": hop}, boundary="reflecting")
    mode = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    start = np.zeros((size, 12, 12, 16), np.uint8)
    start[: size // 2, ..., :4] = 1
    engine = started(backend, lowered(model), start)
    run(engine, n)
    particles = (engine.save().particles > 0).sum(axis=(1, 2, 3))
    total = particles.sum()
    assert total == 8 * 144 * 4
    before = mode[: size // 2].mean()
    expected = before * (1 - 2 * hop * (1 - np.cos(np.pi / size))) ** n
    actual = (mode * particles).sum() / total
    assert abs(actual - expected) < Z_LIMIT * np.sqrt(0.5 / total)


@pytest.mark.validate
def test_t2_partition_between_site_types(backend):
    """Hops in are three times as probable as hops out: so is the density inside. One z-test."""
    model = empty_lattice((8, 8, 16), {"A": 0.1})
    inside = np.zeros((8, 8, 16), bool)
    inside[..., :8] = True
    model.add_site_type("out")
    model.add_site_type("in", inside)
    for start, end, hop in (("out", "in", 0.3), ("in", "out", 0.1)):
        model.add_diffusion("A", hop * SPACING**2 / STEP, source=start, target=end)
    model.place("A", count=2000, site_type="in")
    engine = started(backend, lowered(model))
    run(engine, 600)
    samples = engine.run_sampled(list(range(400, 6001, 400)))
    fraction = samples.by_type[:, 1, 0].mean() / 2000
    error = np.sqrt(0.75 * 0.25 / 2000 / 15) * 1.5  # samples of 400 steps apart are nearly free
    assert abs(fraction - 0.75) < Z_LIMIT * error


def meeting_steps(size, hops, p):
    """Mean number of steps to react: rdme-tests, exact with the time step's bias."""
    angles = 2 * np.pi * np.arange(size) / size
    phi = np.ones((size,) * 3)
    for hop in hops:
        one = 1 - 2 * hop * (1 - np.cos(angles))
        phi = phi * one[:, None, None] * one[None, :, None] * one
    phi.flat[0] = 0
    return 1 + (1 / (1 - phi.flat[1:])).sum() + (1 / p - 1) * size**3


def test_the_formula_of_t3_gives_known_values():
    assert meeting_steps(8, (1 / 6, 1 / 6), 0.1) == pytest.approx(5238.66, abs=0.01)
    assert meeting_steps(16, (1 / 6, 0), 1) == pytest.approx(7207.82, abs=0.01)


@pytest.mark.parametrize(
    ("p", "hops"), ordinary([(0.1, (1 / 6, 1 / 6)), (1.0, (1 / 6, 0.0))], (1.0, (1 / 6, 0.0)))
)
def test_t3_pairs_meet_and_react(backend, p, hops):
    """60 kinds of pairs in a box of 6^3, and 12 such runs: one z-test on about 560 meetings.

    The last meetings would take long: the law is nearly exponential, so the mean is estimated from
    runs cut off at 1.5 means, as events by steps at risk.
    """
    size, pairs, runs = 6, 60, 12
    model = empty_lattice((size,) * 3, {})
    rate = 1e12 if p == 1 else -np.log1p(-p) / STEP
    for i in range(pairs):
        for side, hop in zip("AB", hops, strict=True):
            model.add_species(f"{side}{i}")
            model.add_diffusion(f"{side}{i}", hop * SPACING**2 / STEP)
        model.add_reaction(f"A{i} + B{i} ->", rate=rate, volume="site")
        model.place(f"A{i}", count=1)
        model.place(f"B{i}", count=1)
    lattice = lowered(model)
    expected = meeting_steps(size, hops, p)
    horizon = int(1.5 * expected)
    events = at_risk = 0
    every = max(1, int(expected / 100))
    for seed in range(runs):
        engine = started(backend, lattice, seed=1000 + seed)
        fired = engine.run_sampled(list(range(every, horizon + 1, every))).fired.sum(axis=1)
        steps = every * np.diff(np.concatenate([[0], fired])) @ (np.arange(len(fired)) + 0.5)
        events += fired[-1]
        at_risk += steps + (pairs - fired[-1]) * every * len(fired)
    # Pairs that share a site at the start make the law differ from exponential by about 1/size^3.
    actual = at_risk / events
    assert abs(actual / expected - 1) < Z_LIMIT / np.sqrt(events) + 3 / size**3


@pytest.mark.validate
def test_t4_reversible_binding(backend):
    """50 A, 40 B at fast diffusion: mean and variance of C of the exact law; two z-tests."""
    size = 4
    step_rate = 0.2  # so slow that diffusion mixes in between
    model = empty_lattice((size,) * 3, dict.fromkeys("ABC", 0.25))
    scale = 0.02 / STEP / 0.1 * step_rate
    model.add_reaction("A + B -> C", rate=0.01 * scale, volume="lattice")
    model.add_reaction("C -> A + B", rate=0.1 * scale)
    model.place("A", count=50)
    model.place("B", count=40)
    c = np.arange(41)
    log = c * np.log(0.1) - sum(scipy.special.gammaln(n + 1) for n in (50 - c, 40 - c, c))
    law = np.exp(log - log.max())
    law /= law.sum()
    mean, variance = law @ c, law @ (c - law @ c) ** 2
    assert (mean, variance) == pytest.approx((27.7786, 6.2115), abs=1e-4)
    engine = started(backend, lowered(model))
    run(engine, 1000)
    counts = engine.run_sampled(list(range(100, 60_001, 100))).counts[:, 2]
    error = np.sqrt(variance / len(counts)) * 1.5  # samples 100 steps apart still know each other
    # Hops and reactions take turns, which both keep the law.
    assert abs(counts.mean() - mean) < Z_LIMIT * error + 0.1
    assert abs(counts.var() / variance - 1) < Z_LIMIT * np.sqrt(2 / len(counts)) * 1.5 + 0.02


@pytest.mark.validate
def test_t5_isomerisation_and_t5_birth_and_death(backend):
    """Binomial in total and per type, and Poisson: z-tests of means and variances."""
    model = empty_lattice((6, 6, 8), {"A": 0.2, "B": 0.1, "X": 0.2})
    half = np.zeros((6, 6, 8), bool)
    half[..., :4] = True
    model.add_site_type("left")
    model.add_site_type("right", half)
    rate = 0.01 / STEP
    model.add_reaction("A -> B", rate=rate)
    model.add_reaction("B -> A", rate=3 * rate)
    model.add_reaction("-> X", rate=rate * 200, volume="lattice")
    model.add_reaction("X ->", rate=rate)
    model.place("A", count=200, site_type="left")
    model.place("A", count=200, site_type="right")
    engine = started(backend, lowered(model))
    run(engine, 800)
    samples = engine.run_sampled(list(range(150, 18_001, 150)))
    n = len(samples.counts)
    b, x = samples.counts[:, 1], samples.counts[:, 2]
    assert abs(b.mean() - 100) < Z_LIMIT * np.sqrt(75 / n) * 1.1
    assert abs(b.var() / 75 - 1) < Z_LIMIT * np.sqrt(2 / n) * 1.3
    assert abs(x.mean() - 200) < Z_LIMIT * np.sqrt(200 / n) * 1.4
    assert abs(x.var() / 200 - 1) < Z_LIMIT * np.sqrt(2 / n) * 1.6
    left = samples.by_type[:, 0, 1]
    assert abs(left.mean() - 50) < Z_LIMIT * np.sqrt(50 * 0.875 / n) * 1.5


@pytest.mark.validate
def test_t6_pairs_of_one_kind(backend):
    """2 A -> B with n A in each of many sites: 1 - exp(-k n (n - 1) / 2 tau) of them react.

    Z-tests of these, and of the reactions by the master equation of a site.
    """
    model = empty_lattice((16, 16, 16), {"A": 0.0, "B": 0.0})
    x = 0.02
    model.add_reaction("2 A -> B", rate=x / STEP, volume="site")
    lattice = lowered(model, step=STEP)
    for n in (1, 2, 3, 8):
        start = np.zeros((16, 16, 16, 16), np.uint8)
        start[..., :n] = 1
        engine = started(backend, lattice, start, seed=n)
        fired = run(engine, 1).fired[0, 0]
        reacted = (engine.save().particles == 2).any(axis=-1).sum()
        p = -np.expm1(-x * n * (n - 1) / 2)
        assert abs(reacted - 4096 * p) <= Z_LIMIT * np.sqrt(4096 * p * (1 - p))
        left = n - 2 * np.arange(n // 2 + 1)  # A after 0, 1, 2, .. reactions
        rates = x * left * (left - 1) / 2
        law = scipy.linalg.expm(np.diag(-rates) + np.diag(rates[:-1], 1))[0]
        mean = law @ np.arange(len(law))
        variance = law @ (np.arange(len(law)) - mean) ** 2
        assert abs(fired - 4096 * mean) <= Z_LIMIT * np.sqrt(4096 * variance)


@pytest.mark.validate
def test_t7_two_reactions_of_the_same_pair(backend):
    """Rates 1 : 3 end 1 : 3; one z-test."""
    model = empty_lattice((16, 16, 16), dict.fromkeys("ABCD", 0.1))
    model.add_reaction("A + B -> C", rate=0.25 / STEP, volume="site")
    model.add_reaction("A + B -> D", rate=0.75 / STEP, volume="site")
    model.place("A", count=5000)
    model.place("B", count=5000)
    fired = run(started(backend, lowered(model)), 300).fired[0]
    total = fired.sum()
    assert total > 3000
    assert abs(fired[0] - total / 4) < Z_LIMIT * np.sqrt(total * 3 / 16)


@pytest.mark.validate
def test_t9_flux_between_two_held_faces(backend):
    """Ghost planes at c0 and 0: flux D c0 / L, L = (N + 1) h: the profile's slope, within 5 %."""
    n, area, hop, steps, ghosts = 7, 24 * 24, 0.2, 1250, 2.0
    model = empty_lattice((n, 24, 24), {"A": hop})
    litres = SPACING**3 * 1000
    molar = ghosts / 6.02214076e23 / litres
    model.set_boundary("z-", "held", concentrations={"A": molar})
    model.set_boundary("z+", "held")
    lattice = lowered(model)
    start = np.zeros((n, 24, 24, 16), np.uint8)
    profile = ghosts * (1 - (np.arange(n) + 1) / (n + 1))
    rng = np.random.default_rng(2)
    filled = np.minimum(rng.poisson(profile[:, None, None], (n, 24, 24)), 16)
    start[np.arange(16) < filled[..., None]] = 1
    engine = started(backend, lattice, start)
    planes = np.zeros(n)
    sampled = range(0, steps, 25)
    for _ in sampled:
        run(engine, 25)
        planes += (engine.save().particles > 0).sum(axis=(1, 2, 3))
    planes /= len(sampled) * area
    # The flux is q times the difference of neighbouring planes; both ends are ghosts.
    assert np.allclose(planes, profile, atol=Z_LIMIT * np.sqrt(ghosts / area / len(sampled)) * 2.5)
    gradient = -np.polyfit(np.arange(n), planes, 1)[0]
    assert gradient == pytest.approx(ghosts / (n + 1), rel=0.05)


def test_a_gradient_has_the_length_of_its_time_step(backend):
    """Particles enter by a held face and decay: a z-test of the steady number in each plane.

    It falls by exp(-kappa) from plane to plane, with 2 q (cosh kappa - 1) = exp(x) - 1.
    """
    n, area, hop, x, ghosts, samples = 6, 24 * 24, 1 / 6, 0.5, 4.0, 100
    model = empty_lattice((n, 24, 24), {"A": hop})
    model.set_boundary(
        "z-", "held", concentrations={"A": ghosts / 6.02214076e23 / SPACING**3 / 1e3}
    )
    model.set_boundary("z+", "held")
    model.add_reaction("A ->", rate=x / STEP)
    hops = np.diag(np.full(n, 1 - 2 * hop)) + hop * (np.eye(n, k=1) + np.eye(n, k=-1))
    left = np.exp(-x)
    steady = np.linalg.solve(np.eye(n) - left * hops, left * hop * ghosts * np.eye(n)[0])
    kappa = np.arccosh(1 + np.expm1(x) / (2 * hop))
    np.testing.assert_allclose(steady[1] / steady[0], np.exp(-kappa), rtol=1e-4)
    engine = started(backend, lowered(model), np.zeros((n, 24, 24, 16), np.uint8))
    run(engine, 30)
    planes = np.zeros(n)
    for _ in range(samples):
        run(engine, 8)
        planes += (engine.save().particles > 0).sum(axis=(1, 2, 3))
    expected = steady * area * samples
    assert (np.abs(planes - expected) < Z_LIMIT * np.sqrt(expected) * 1.05).all()


@pytest.mark.validate
def test_t12_like_the_network_of_sites_without_space(backend):
    """A + A -> 0 in 8^3 against its master equation at fast diffusion; a z-test at each of 3 times.

    The well-stirred law, from 40 particles: diffusion mixes 30 times faster than pairs react.
    """
    size, count, runs = 8, 40, 20
    model = empty_lattice((size,) * 3, {"A": 0.25})
    k = 2e-5  # per pair and step, in the whole lattice
    model.add_reaction("2 A ->", rate=k / STEP, volume="lattice")
    model.place("A", count=count)
    lattice = lowered(model)
    marks = [500, 1000, 2000]
    actual = np.array(
        [started(backend, lattice, seed=s).run_sampled(marks).counts[:, 0] for s in range(runs)]
    )
    states = np.arange(count, -1, -2)
    rates = k * states * (states - 1) / 2
    generator = np.diag(-rates) + np.diag(rates[:-1], 1)
    for column, mark in enumerate(marks):
        law = scipy.linalg.expm(generator * mark)[0]
        mean = law @ states
        variance = law @ (states - mean) ** 2
        error = Z_LIMIT * np.sqrt(variance / runs) + 0.01 * mean
        assert abs(actual[:, column].mean() - mean) < error


@pytest.mark.validate
def test_t13_a_chain_follows_the_powers_of_its_hop_matrix(backend):
    """Chi-square over 12 sites after 15 steps, 12,000 particles: one test at 1e-5."""
    n, hop, steps = 12, 1 / 6, 15
    model = empty_lattice((40, 25, n), {"A": hop}, boundary="reflecting")
    start = np.zeros((40, 25, n, 16), np.uint8)
    start[..., 3, :12] = 1
    engine = started(backend, lowered(model), start)
    run(engine, steps)
    state = engine.save()
    actual = (state.particles > 0).sum(axis=(0, 1, 3)).astype(float)
    np.add.at(actual, state.waiting["site"].astype(int) % n, 1)
    matrix = np.diag(np.full(n, 1 - 2 * hop)) + np.diag(np.full(n - 1, hop), 1)
    matrix += np.diag(np.full(n - 1, hop), -1)
    matrix[0, 0] = matrix[-1, -1] = 1 - hop
    law = np.linalg.matrix_power(matrix, steps)[3]
    assert actual.sum() == 12_000
    enough = law * 12_000 > 5
    chi = ((actual - 12_000 * law) ** 2 / (12_000 * law))[enough].sum()
    assert scipy.stats.chi2.sf(chi, enough.sum() - 1) > 1e-5
