"""Leaps from tables against exact results, exact simulation and generated code: fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from generated_networks import random_network
from sampling import ordinary

import tauslab as ts
from tauslab.cli.commands.machine import schlogl

EPSILON = 0.03


@pytest.fixture
def tables(monkeypatch):
    """Make every network leap from tables."""
    monkeypatch.setattr("tauslab.kernels.leaping.choice.LARGEST_LEAPING", 0)


def leap(model, **options):
    return ts.run(model, method=ts.TauLeaping(epsilon=EPSILON), device="cpu", **options)


def compare(one, other, slack):
    """Means and variances over the species of two results of `n` trajectories each.

    Means within 5 standard errors and `slack`, variances within 5 and four times as much: at most
    200 comparisons of 6e-7 each, a false alarm in 8,000.
    """
    n = one.n
    for name in one.species:
        mean, variance = one.mean(name), one.variance(name)
        error = np.sqrt((variance + other.variance(name)) / n)
        assert np.all(np.abs(other.mean(name) - mean) <= 5 * error + slack * (mean + 10))
        spread = 2 * variance / np.sqrt(n)
        assert np.all(np.abs(other.variance(name) - variance) <= 5 * spread + 4 * slack * variance)


@pytest.mark.validate
def test_schlogl_against_the_master_equation(tables):
    """P(X < 300) = 0.51347 and the mean 316.592 at t = 10 (exact), 2,000 trajectories.

    Within 5 standard errors, 6e-7 each, plus 2 % for the error of leaping.
    """
    n = 2000
    x = leap(schlogl(), n=n, times=[10.0], seed=2).counts("X")[:, 0]
    assert abs((x < 300).mean() - 0.51347) < 5 * 0.5 / np.sqrt(n) + 0.02
    assert abs(x.mean() - 316.592) < 5 * 238.07 / np.sqrt(n) + 0.02 * 316.592


def random(initial=1000, reactions=36):
    return random_network(
        species=24, reactions=reactions, rates=(1e-4, 1e-2), initial=initial, seed=4
    )


@pytest.mark.validate
def test_a_random_network_against_generated_code(monkeypatch):
    """The thread engine leaps alike, with other random numbers for small means."""
    options = {"n": 1000, "times": [0.2, 1.0]}
    thread = leap(random(), seed=1, **options)
    monkeypatch.setattr("tauslab.kernels.leaping.choice.LARGEST_LEAPING", 0)
    crew = leap(random(), seed=2, **options)
    assert (thread.attributes["leaper"], crew.attributes["leaper"]) == ("unrolled", "tables")
    compare(thread, crew, 0.0)
    work = [
        [int(result.data[f"profile/{name}"][()].sum()) for name in ("events", "leaps")]
        for result in (thread, crew)
    ]
    np.testing.assert_allclose(work[0], work[1], rtol=0.02)


@pytest.mark.validate
def test_few_molecules_against_exact_simulation(tables):
    """With 10 molecules of each species nearly all steps are exact events from the sum tree."""
    options = {"n": 1500, "times": [2.0, 10.0]}
    crew = leap(random(10), seed=1, **options)
    exact = ts.run(random(10), method="ssa", device="cpu", seed=2, **options)
    compare(exact, crew, 0.0)
    exact_events = crew.data["profile/exact_events"][()].sum()
    assert exact_events > 0.5 * crew.data["profile/events"][()].sum()


@pytest.mark.parametrize("n", ordinary([50, 5], 5))
def test_mass_is_conserved_and_no_count_is_negative(tables, n):
    """Masses of the generator: a left null vector of the stoichiometry, found from it."""
    net = random(200, 60)
    x = leap(net, n=n, times=np.linspace(0, 20, 5), seed=3).counts().astype(np.float64)
    stoichiometry = np.zeros((len(net.species), len(net.reactions)))
    for j, reaction in enumerate(net.reactions):
        for name, by in reaction.net_change().items():
            stoichiometry[list(net.species).index(name), j] = by
    u, sizes, _ = np.linalg.svd(stoichiometry)
    masses = u[:, np.count_nonzero(sizes > 1e-9) :]
    assert masses.shape[1] >= 1
    held = x @ masses
    np.testing.assert_allclose(
        held, held[:1, :1].repeat(len(x), 0).repeat(x.shape[1], 1), rtol=1e-9
    )
    assert (x >= 0).all()
