"""The selector `rssa` against exact laws, where intervals are wide and candidates are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tauslab as ts


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def options(request):
    device = ts.CPU(threads=2) if request.param == "cpu" else request.param
    return {"device": device, "method": ts.SSA(selector="rssa")}


def test_births_and_deaths_by_the_thousand(options):
    """Births 3000, death 1 from 0: Poisson with mean 3000 (1 - exp(-t)) at five times.

    Mean and variance of 1000 trajectories within 4.5 standard errors each: one of 15,000 right
    runs is off. Deaths at the rate of their bound, 3 % above, would be off by 50.
    """
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=3000.0)
    net.add_reaction("X ->", rate=1.0)
    t, n = np.array([0.05, 0.3, 1.0, 2.0, 3.0]), 1000
    x = ts.run(net, n=n, times=t, seed=5, **options).counts()[..., 0].astype(float)
    mean = 3000 * (1 - np.exp(-t))
    assert (np.abs(x.mean(0) - mean) < 4.5 * np.sqrt(mean / n)).all()
    assert (np.abs(x.var(0, ddof=1) - mean) < 4.5 * np.sqrt((2 * mean**2 + mean) / n)).all()


# The one event of a trajectory takes the gate. Propensities, and factors to their bounds: counts of
# 8 have intervals up to 10. Of 32 candidates 16 are refused.
GATED = (
    ("G -> E0", 0.2, 0.2, 1.0),
    ("A + G -> A + E1", 0.05, 0.4, 1.25),
    ("2 A + G -> 2 A + E2", 0.01, 0.28, 90 / 56),
    ("4 B + G -> 4 B + E3", 0.012, 0.84, 3.0),
    ("A + B + G -> A + B + E4", 0.01, 0.64, 100 / 64),
)


def gated() -> ts.Network:
    net = ts.Network("gated")
    for name, count in (("G", 1), ("A", 8), ("B", 8)):
        net.add_species(name, count)
    for k, (equation, rate, _, _) in enumerate(GATED):
        net.add_species(f"E{k}", 0)
        net.add_reaction(equation, rate=rate)
    return net


def test_the_first_event_waits_by_the_true_total_and_is_chosen_by_true_propensities(options):
    """One of 5000 right runs is off: four tests at 5e-5.

    Time by Kolmogorov and Smirnov, on a grid, which is conservative; choice by chi-squared, of all
    events and of early and late ones apart.
    """
    n, t = 8000, np.linspace(0, 3, 301)
    total = sum(propensity for *_, propensity, _ in GATED)
    share = np.array([propensity for *_, propensity, _ in GATED]) / total
    done = [f"E{k}" for k in range(len(GATED))]
    net = gated()
    result = ts.run(net, n=n, times=np.r_[t, 100.0], species=done, seed=6, **options)
    made = result.counts()
    fired = made.sum(-1)
    assert (fired[:, -1] == 1).all()
    actual = fired.mean(0)[:-1]
    distance = np.abs(actual - (1 - np.exp(-total * t))).max()
    assert scipy.stats.kstwo.sf(distance, n) > 5e-5
    half = np.searchsorted(t, np.log(2) / total)
    early = fired[:, half].astype(bool)
    for rows in (early, ~early, np.ones(n, bool)):
        which = made[rows, -1].sum(0)
        assert scipy.stats.chisquare(which, share * which.sum()).pvalue > 5e-5


def test_that_test_would_see_bounds_in_place_of_propensities():
    """With every candidate accepted, times and choices have the law of the bounds."""
    bounds = np.array([propensity * factor for *_, propensity, factor in GATED])
    true = np.array([propensity for *_, propensity, _ in GATED])
    expected = true / true.sum() * 8000
    given = bounds / bounds.sum() * 8000
    assert scipy.stats.chisquare(given, expected).pvalue < 1e-20
    ratio = bounds.sum() / true.sum()
    x = np.linspace(0.01, 3, 100)
    distance = np.abs(np.exp(-x) - np.exp(-ratio * x)).max()
    assert scipy.stats.kstwo.sf(distance, 8000) < 1e-20


def test_many_reactions_fire_at_their_own_rates(options):
    """Births at 1100 rates in a tree of two levels: totals are Poisson. False alarms 1e-4."""
    net = ts.Network("births")
    rates = 0.2 + np.arange(1100) % 37
    for k, rate in enumerate(rates):
        net.add_species(f"S{k}", 0)
        net.add_reaction(f"-> S{k}", rate=float(rate))
    n = 50
    made = (
        ts.run(
            net,
            n=n,
            times=[0.5],
            seed=2,
            **{**options, "method": ts.SSA(selector="rssa", presimulation=0)},
        )
        .counts()[:, 0]
        .sum(0)
    )
    expected = rates * 0.5 * n
    assert expected.min() >= 5
    statistic = ((made - expected) ** 2 / expected).sum()
    assert 1e-4 / 2 < scipy.stats.chi2.sf(statistic, len(rates)) < 1 - 1e-4 / 2
