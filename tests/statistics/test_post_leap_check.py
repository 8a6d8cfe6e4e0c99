"""Checked leaps against laws that are known exactly, and against exact SSA: fixed seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampling import ordinary
from scipy import stats

import tauslab as ts
from tauslab.cli.commands.machine import michaelis_menten, schlogl

N = 20_000
FALSE_ALARM = 1e-6  # of every statistical check; there are 96: together 1e-4


def walk() -> ts.Network:
    """Constant propensities, and a check all the same: Y reads X, and next to never fires.

    So P and Q are Poisson processes whatever the leaps, unless their rejections bias them. R, of
    which there are few, is critical from the start; the Z are many slow channels.
    """
    net = ts.Network("walk")
    for name, initial in (("X", 400), ("P", 0), ("Q", 0), ("Y", 0), ("R", 5), ("S", 0)):
        net.add_species(name, initial)
    net.add_reaction("-> X + P", rate=1000.0)
    net.add_reaction("X -> Q", law="k", parameters={"k": 1000.0})
    net.add_reaction("X -> X + Y", rate=1e-9)
    net.add_reaction("R -> S", rate=2.0)
    net.add_reaction("R ->", rate=3.0)
    for i in range(8):
        net.add_species(f"Z{i}", 0)
        net.add_reaction(f"-> Z{i}", rate=2.0 + i)
    return net


def fits(found, law, most) -> None:
    """Chi-square of whole numbers against a law, in `most` cells or fewer, of 100 expected each."""
    reach = 8 * law.std()
    support = np.arange(math.floor(law.mean() - reach), math.ceil(law.mean() + reach))
    below = np.cumsum(law.pmf(support))
    last = np.unique(np.searchsorted(below, np.linspace(0, 1, most + 1)[1:-1]))
    cells = np.diff(np.concatenate([[0.0], below[last], [1.0]]))
    last = last[N * cells[:-1] >= 100]  # a cell of fewer goes with the next
    last = last[:-1] if N * (1 - below[last[-1]]) < 100 else last
    expected = N * np.diff(np.concatenate([[0.0], below[last], [1.0]]))
    seen = np.bincount(np.searchsorted(support[last], found), minlength=len(expected))
    assert expected.min() >= 100
    chi_square = float(((seen - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(chi_square, len(expected) - 1) > FALSE_ALARM


@pytest.mark.validate
@pytest.mark.parametrize(
    ("epsilon", "rejections", "exact"),
    ordinary(
        [(0.014, 10.0, 10.0), (0.02, 2.0, 0.5), (0.05, 0.1, 0.0)],
        (0.05, 0.1, 0.0),
    ),
)
def test_rejections_bias_nothing(epsilon, rejections, exact):
    """Also where half of all leaps are rejected, and exact events take what rejections left."""
    result = ts.run(
        walk(), method=ts.TauLeaping(post_leap_check=True, epsilon=epsilon), n=N, times=[0.1,
        0.2], seed=5,
        device="cpu",
    )  # fmt: skip
    assert result.data["profile/rejected"][()].sum() > rejections * N
    assert result.data["profile/exact_events"][()].sum() >= exact * N
    for k, t in enumerate(result.times):
        for name in ("P", "Q"):
            fits(result.counts(name)[:, k], stats.poisson(1000 * t), 50)
        fits(result.counts("X")[:, k] - 400, stats.skellam(1000 * t, 1000 * t), 50)
        fits(result.counts("R")[:, k], stats.binom(5, np.exp(-5 * t)), 50)
        fits(result.counts("S")[:, k], stats.binom(5, 0.4 * (1 - np.exp(-5 * t))), 30)
        for i in range(8):
            fits(result.counts(f"Z{i}")[:, k], stats.poisson((2 + i) * t), 20)
    # What one stretch of time showed tells nothing of the next.
    first, both = result.counts("P").T.astype(float)
    assert stats.pearsonr(first, both - first).pvalue > FALSE_ALARM


@pytest.mark.validate
@pytest.mark.parametrize("checked", [False, True])
def test_the_start_of_michaelis_menten_at_a_large_epsilon(checked):
    """Means at epsilon 0.1 soon after the start, where leaps of first order miss 3 % of E.

    2,000 trajectories of each kind: 5 standard errors are below 0.3 % of E.
    """
    options = {"n": 2000, "times": [0.2], "device": "cpu"}
    exact = ts.run(michaelis_menten(), method="ssa", seed=3, **options).mean("E")[0]
    leaps = {"method": ts.TauLeaping(epsilon=0.1, post_leap_check=checked)}
    leaped = ts.run(michaelis_menten(), seed=4, **leaps, **options)
    assert abs(leaped.mean("E")[0] - exact) < 0.008 * exact


@pytest.mark.parametrize(
    ("checked", "n"), ordinary([(False, 4000), (True, 4000), (True, 400)], (True, 400))
)
def test_a_fast_exchange_does_not_spread(checked, n):
    """A <-> B in equilibrium, of 10,000 molecules: A has a standard deviation of 50.

    Its mean change is 0: bounded by that alone, leaps last far beyond the time in which A forgets,
    and find 108. Within 3 % and 4 standard errors, 6e-5.
    """
    net = ts.Network("exchange")
    net.add_species("A", 5000)
    net.add_species("B", 5000)
    net.add_reaction("A -> B", rate=1.0)
    net.add_reaction("B -> A", rate=1.0)
    options = {"n": n, "times": [5.0], "seed": 2, "device": "cpu"}
    spread = ts.run(net, method=ts.TauLeaping(post_leap_check=checked), **options).std("A")[0]
    assert abs(spread - 50) < 50 * (0.03 + 4 / np.sqrt(2 * n))


def dimers() -> ts.Network:
    """X is made and lost singly and in pairs."""
    net = ts.Network("dimers")
    net.add_species("X", 2000)
    net.add_species("D", 3000)
    net.add_reaction("2 X -> D", rate=0.003)
    net.add_reaction("D -> 2 X", rate=2.0)
    net.add_reaction("-> X", rate=2000.0)
    net.add_reaction("X ->", rate=1.0)
    return net


@pytest.mark.validate
@pytest.mark.parametrize("model", ordinary([michaelis_menten, dimers], michaelis_menten))
def test_means_and_variances_are_those_of_exact_ssa(model):
    """At 5 times, 2,000 trajectories of each kind.

    Means within 5 standard errors plus half of epsilon, variances within 5 standard errors plus
    5 %: false alarms below 1e-4 in all.
    """
    n, epsilon = 2000, 0.03
    options = {"n": n, "times": np.linspace(0.2, 1, 5), "device": "cpu"}
    exact = ts.run(model(), method="ssa", seed=3, **options)
    leaped = ts.run(
        model(), method=ts.TauLeaping(post_leap_check=True, epsilon=epsilon), seed=4, **options
    )
    assert leaped.data["profile/rejected"][()].sum() > n
    for name in exact.species:
        mean, variance = exact.mean(name), exact.variance(name)
        error = np.sqrt((variance + leaped.variance(name)) / n)
        assert np.all(np.abs(leaped.mean(name) - mean) < 5 * error + 0.5 * epsilon * mean)
        spread = variance * np.sqrt(2 / n) * np.sqrt(2)
        assert np.all(np.abs(leaped.variance(name) - variance) < 5 * spread + 0.05 * variance)


@pytest.mark.validate
def test_schlogl_at_t_10_against_the_master_equation():
    """P(X < 300) = 0.51347 at t = 10 (exact); 4,000 trajectories, 5 standard errors: 6e-7."""
    n = 4000
    result = ts.run(
        schlogl(), method=ts.TauLeaping(post_leap_check=True, epsilon=0.1), n=n, times=[10.0],
        seed=2, device="cpu",
    )  # fmt: skip
    x = result.counts("X")[:, 0]
    assert abs((x < 300).mean() - 0.51347) < 5 * 0.5 / np.sqrt(n) + 0.01
