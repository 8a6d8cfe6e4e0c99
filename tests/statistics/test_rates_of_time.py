"""Models whose rates follow the time against closed forms, by every kernel of thinning.

Rates that bounds in pieces of the run may get wrong: oscillations down to almost 0, pulses far
narrower than the run, steps, rates that are 0 most of the time, growth over 30 decades, ends far
behind the last change. Chi-square tests; together they fail in one of 1,000 seeds of a correct
program (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from engine_runs import compiler
from sampling import ordinary

import tauslab as ts
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.runner.ensemble import task as tasks

FALSE_ALARMS = 1e-3
KERNELS = ("lanes", "events", "tables")
N = 20_000


@dataclass(frozen=True)
class Rate:
    """A function of the time up to `end`, smooth between `breaks`; when the first sample is."""

    text: str
    end: float
    breaks: tuple[float, ...] = ()
    first: float = 0.55

    def integral(self, to: float, decay: float = 0.0) -> float:
        """Integral from 0, of what decays exponentially."""
        nodes, weights = np.polynomial.legendre.leggauss(20)
        ends = [0.0, *(t for t in self.breaks if t < to), to]
        ends = np.unique(np.concatenate([np.linspace(a, b, 11) for a, b in pairwise(ends)]))
        half = np.diff(ends)[:, None] / 2
        times = ends[:-1, None] + half * (1 + nodes)
        law = parse(self.text)
        values = np.array([evaluate(law, {"time": t}) for t in times.ravel().tolist()])
        values = values.reshape(times.shape) * np.exp(-decay * (to - times))
        return float((values * half * weights).sum())


RATES = {
    "almost 0 at times": Rate("30 * (1 + 0.999 * sin(50 * time))", 10, tuple(range(1, 10))),
    "a narrow pulse": Rate("1e7 * exp(-((time - 5) / 1e-6)^2)", 10, (4.99999, 5.0, 5.00001)),
    "narrow pulses and a base": Rate(
        "2 + 1e5 * exp(-((time - 2) / 1e-4)^2) + 4e3 * exp(-((time - 7) / 1e-3)^2)", 10,
        (1.999, 2.0, 2.001, 6.99, 7.0, 7.01),
    ),
    "0 most of the time": Rate(
        "3000 * max(0, sin(time) - 0.99)", 20,
        tuple(np.pi * (0.5 + 2 * k) + side * np.arccos(0.99) for k in range(4) for side in (-1, 1)),
    ),
    "a box": Rate("if(time > 3 && time < 3.00001, 3e6, 0) * exp(-time / 10)", 10, (3.0, 3.00001)),
    "steps": Rate(
        "if(time - 2 * floor(time / 2) < 1, 30, 0) * exp(-time / 5)", 9, tuple(range(1, 9))
    ),
    "ends early": Rate("40 * exp(-time)", 1e7, (1.0, 10.0, 100.0)),
    "30 decades": Rate("1e-30 * exp(7 * time)", 10.57, (8.0, 10.0), 0.97),
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A network, the times of samples, and the distribution of X at a time."""

    network: ts.Network
    times: tuple[float, ...]
    distribution: Callable[[float], scipy.stats.rv_discrete]


def births(name: str) -> Problem:
    rate = RATES[name]
    decay = 0.3 if rate.end < 100 else 0.0
    net = ts.Network(name)
    net.add_species("X", 0)
    net.add_reaction("-> X", law=rate.text)
    if decay:
        net.add_reaction("X ->", rate=decay)
    times = tuple(rate.end * part for part in (rate.first, 1.0))
    return Problem(net, times, lambda t: scipy.stats.poisson(rate.integral(t, decay)))


def deaths() -> Problem:
    rate = Rate(
        "0.3 * (1 + 0.99 * sin(9 * time)) + 300 * exp(-((time - 2) / 1e-3)^2)", 4, (1.99, 2.0, 2.01)
    )
    net = ts.Network("deaths")
    net.add_species("X", 200)
    net.add_reaction("X ->", law=f"({rate.text}) * X")
    return Problem(net, (1.0, 4.0), lambda t: scipy.stats.binom(200, np.exp(-rate.integral(t))))


def doubling() -> Problem:
    """A state that grows: bounds that few molecules need become too high for many."""
    rate = Rate("0.6 * (1 + 0.95 * sin(20 * time))", 6)
    net = ts.Network("doubling")
    net.add_species("X", 5)
    net.add_reaction("X -> 2 X", law=f"({rate.text}) * X")
    return Problem(
        net, (2.0, 6.0), lambda t: scipy.stats.nbinom(5, np.exp(-rate.integral(t)), loc=5)
    )


def binding() -> Problem:
    """All rates times one function of the time: the constant network at the function's integral."""
    rate = Rate(
        "0.2 + exp(-((time - 1) / 0.01)^2) * 100 + 0.2 * cos(30 * time)", 3, (0.9, 1.0, 1.1)
    )
    net = ts.Network("binding")
    net.add_species("A", 15)
    net.add_species("X", 0)
    net.add_reaction("2 A -> X", law=f"({rate.text}) * 0.02 * A * (A - 1)")
    net.add_reaction("X -> 2 A", law=f"({rate.text}) * 0.5 * X")
    bound = np.arange(8)
    to, back = 0.02 * (15 - 2 * bound) * (14 - 2 * bound), 0.5 * bound
    generator = np.diag(to[:-1], -1) + np.diag(back[1:], 1)
    generator -= np.diag(generator.sum(axis=0))

    def distribution(t: float) -> scipy.stats.rv_discrete:
        p = scipy.linalg.expm(generator * rate.integral(t))[:, 0]
        return scipy.stats.rv_discrete(values=(bound, p / p.sum()))

    return Problem(net, (0.99, 3.0), distribution)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{name: (lambda name=name: births(name)) for name in RATES},
    "deaths": deaths, "doubling": doubling, "binding": binding,
}  # fmt: skip
SMALLEST_P = FALSE_ALARMS / (2 * len(PROBLEMS) * len(KERNELS))


def p_value(counts: np.ndarray, distribution: scipy.stats.rv_discrete) -> float:
    """Of a chi-square test with bins in which 8 or more counts are expected."""
    top = int(counts.max()) + 2
    values = np.arange(int(distribution.ppf(1e-12)), max(top, int(distribution.ppf(1 - 1e-9))) + 1)
    edges, mass = [], 0.0
    for value, p in zip(values.tolist(), distribution.pmf(values).tolist(), strict=True):
        mass += p
        if mass * len(counts) >= 8:
            edges.append(value + 0.5)
            mass = 0.0
    edges[-1] = np.inf
    expected = np.diff(distribution.cdf(np.array([-np.inf, *edges]))) * len(counts)
    observed = np.histogram(counts, np.array([-np.inf, *edges]))[0]
    assert len(edges) >= 4
    return float(scipy.stats.chisquare(observed, expected * len(counts) / expected.sum()).pvalue)


def run(problem: Problem, **options):
    given = {"record": "trajectories", "quiet": True, "device": "cpu", "seed": 5, **options}
    return ts.run(problem.network, n=N, times=[0.0, *problem.times], **given)


@compiler
@pytest.mark.filterwarnings("ignore:.*jumps or has pulses")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ordinary(PROBLEMS, "a narrow pulse", "doubling"))
def test_distributions(monkeypatch, name, kernel):
    problem = PROBLEMS[name]()
    monkeypatch.setattr(tasks, "LARGEST_UNROLLED", 1 if kernel == "events" else 128)
    selector = {"lanes": None, "events": "linear", "tables": "tree"}[kernel]
    result = run(problem, method=ts.SSA(selector=selector))
    assert (result.status <= 1).all()
    for k, t in enumerate(problem.times, 1):
        assert p_value(result.counts("X")[:, k], problem.distribution(t)) > SMALLEST_P


@compiler
def test_the_check_can_fail():
    problem = births("almost 0 at times")
    counts = run(problem).counts("X")[:, 2]
    mean = problem.distribution(problem.times[1]).mean()
    assert p_value(counts, scipy.stats.poisson(1.03 * mean)) < SMALLEST_P


@compiler
def test_points_of_a_sweep_have_their_own_distributions():
    """A false alarm in one of 1,000 seeds."""
    net = ts.Network("sweep")
    net.add_parameter("k", 1.0)
    net.add_species("X", 0)
    net.add_reaction("-> X", law="20 * (1 + 0.95 * sin(k * time))")
    rates = [0.1, 3.0, 200.0]
    result = ts.run(
        net, n=N, t_end=3, points=2, sweep={"k": rates}, seed=5, device="cpu", quiet=True
    )
    for point, k in enumerate(rates):
        mean = 20 * (3 + 0.95 * (1 - np.cos(3 * k)) / k)
        p = p_value(result.counts("X")[point, :, 1], scipy.stats.poisson(mean))
        assert p > FALSE_ALARMS / len(rates)


@compiler
@pytest.mark.parametrize("name", ordinary(PROBLEMS, "deaths"))
def test_leaps_have_the_means(name):
    """Within 3 % of the largest mean and 4.5 standard errors."""
    problem = PROBLEMS[name]()
    result = run(problem, method="tau", record="statistics")
    exact = [problem.distribution(t) for t in problem.times]
    largest = max(one.mean() for one in exact)
    for k, one in enumerate(exact, 1):
        off = abs(result.mean("X")[k] - one.mean())
        assert off < 0.03 * largest + 4.5 * (one.var() / N) ** 0.5


@compiler
def test_a_chain_of_many_species_in_tables():
    """Molecules hop independently: means and variances of each species, within 5 standard errors.

    Of 300 numbers one is further off in 1 of 6,000 seeds of normal sums.
    """
    n, each, end, count = 150, 4, 1.0, 4000
    net = ts.Network("chain")
    for i in range(n):
        net.add_species(f"S{i}", each)
    constant = 1.0 + np.arange(n) % 7 / 7
    follows = np.arange(n) % 12 == 0
    for i in range(n):
        law = f"{constant[i]} * (1 + 0.9 * sin(12 * time)) * S{i}"
        given = {"law": law} if follows[i] else {"rate": constant[i]}
        net.add_reaction(f"S{i} -> S{(i + 1) % n}", **given)
    result = ts.run(
        net, n=count, times=[0.0, end], seed=5, device="cpu", record="statistics", quiet=True
    )
    moved, steps = np.eye(n), 2000
    for step in range(steps):
        t = (step + 0.5) * end / steps
        rate = constant * np.where(follows, 1 + 0.9 * np.sin(12 * t), 1.0)
        leaves = (rate * end / steps)[:, None]
        once = np.roll(leaves * moved, 1, axis=0) - leaves * moved
        moved += once + (np.roll(leaves * once, 1, axis=0) - leaves * once) / 2
    mean, variance = each * moved.sum(axis=1), each * (moved * (1 - moved)).sum(axis=1)
    for i in range(n):
        assert abs(result.mean(f"S{i}")[1] - mean[i]) < 5 * (variance[i] / count) ** 0.5
        spread = (2 * variance[i] ** 2 + variance[i]) / count
        assert abs(result.variance(f"S{i}")[1] - variance[i]) < 5 * spread**0.5
