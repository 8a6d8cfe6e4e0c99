"""Exact SSA where something moves between events: known laws, and equal bits where due."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from event_models import growing

import tauslab as ts
from tauslab.store.results.digest import digest_lines

N = 4000
TIMES = [0.0, 1.0, 1.5, 3.0, 5.0]
P_SMALLEST = 1e-4  # of each law: eight of them raise a false alarm in one of 1,250 seeds


def run(**options):
    defaults = {"n": N, "times": TIMES, "seed": 1, "device": "cpu", "record": "trajectories"}
    return ts.run(growing(), **{**defaults, **options})


@pytest.fixture(scope="module")
def result():
    return run()


def integral(law, t: float, jumps: list[float]) -> float:
    """By Gauss' rule between the jumps."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = [0.0, *(jump for jump in jumps if jump < t), t]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        half = (high - low) / 2
        total += half * float(weights @ law(low + half * (1 + nodes)))
    return total


def volume(t):
    return np.exp(0.5 * np.mod(t, 2 * np.log(2)))


@pytest.mark.parametrize(
    ("name", "rate"),
    [("X", lambda s: 10 * volume(s)), ("Y", lambda s: 20 * (1 + np.sin(3 * s)))],
)
@pytest.mark.parametrize("t", TIMES[1:])
def test_rates_that_move_give_poisson_laws(result, name, rate, t):
    """Births with such a rate and deaths: in a volume that grows and divides; along a sine."""
    divisions = [2 * np.log(2) * i for i in (1, 2, 3)]
    mean = integral(lambda s: rate(s) * np.exp(-0.3 * (t - s)), t, divisions)
    law = scipy.stats.poisson(mean)
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * N
    actual = np.searchsorted(edges, result.counts(name)[:, TIMES.index(t)])
    observed = np.bincount(actual, minlength=len(expected))
    assert expected.min() >= 5
    assert scipy.stats.chisquare(observed, expected).pvalue > P_SMALLEST


def test_what_moves_is_recorded_and_divides_at_its_trigger(result):
    assert result.mean("V") == pytest.approx(volume(np.array(TIMES)), rel=1e-6)
    assert result.variance("V").max() < 1e-12


@pytest.mark.validate
def test_bits_do_not_depend_on_threads(result):
    assert digest_lines(run(device=ts.CPU(threads=3)), None) == digest_lines(result, None)


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu(result):
    assert digest_lines(run(device="cuda"), None) == digest_lines(result, None)
