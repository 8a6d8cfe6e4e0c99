"""Marginals of a dynamic Bayesian network compared with those of other trajectories.

EGF-NGF signalling (Brown et al. 2004, BIOMD0000000033) with unknown rate constants; by default with as
many trajectories, time points and Runge-Kutta steps as Hagiescu et al., ACM TACO 10(4):55 (2013). The
network is built from trajectories; as many others, with other seeds, are simulated by ``--method ode`` and
sorted into the network's intervals here. Both use the same integrator, and nothing else in common. For
each variable and time:

* the network's sampled marginals are compared with the others by a two-sample chi-square test. A correct
  network fails (a p-value below 1e-4 divided by the number of tests) once in 10,000 seeds;
* marginals by the factored frontier algorithm, an approximation, are compared with the others: with all
  parameters unknown, and with one parameter known to be in its first or last interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats
from outcome import Outcome, cells, say, verdict

import tauslab as ts
from tauslab import dbn

MODEL = Path(__file__).resolve().parents[2] / "tests" / "data" / "sbml" / "BIOMD0000000033.xml"
UNKNOWN = (
    "kpMekCytoplasmic", "kdErk", "kdMek", "kRasGap", "krbEGF", "kruNGF", "kSos", "kRasToRaf1",
    "kpP90Rsk", "kPI3KRas", "kAkt", "kC3GNGF", "kRap1ToBRaf", "kdBRaf",
)  # fmt: skip
ALARM = 1e-4  # probability that a right network fails
FEWEST = 5.0  # expected trajectories of a cell; cells with fewer are joined
PORTION = 100_000  # trajectories that are in memory at a time
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Largest differences of a variable's probabilities over the compared times."""

    variable: str
    tests: int
    smallest_p: float
    sampled: float
    frontier: float
    frontier_mean: float
    known: float
    known_mean: float


def build(unknown: Sequence[str], arguments: Any) -> dbn.DynamicNetwork:
    """The network, every unknown drawn from half to twice its value."""
    built = dbn.build(
        MODEL, unknown=unknown, samples=arguments.n, t_end=arguments.t_end,
        points=arguments.points, method=ts.ODE(solver="rk4", substeps=arguments.substeps, precision="single"), intervals=arguments.intervals, seed=arguments.seed,
        device=arguments.device,
    )  # fmt: skip
    assert built is not None
    return built


@dataclass
class Direct:
    """Direct trajectories per interval ``[time, bin]``.

    `everything` are all, `first` and `last` those with the first parameter in that interval of its.
    """

    everything: dict[str, FloatArray]
    first: dict[str, FloatArray]
    last: dict[str, FloatArray]


def binned(network: dbn.DynamicNetwork, chosen: npt.NDArray[np.int64], arguments: Any) -> Direct:
    """Run trajectories with other seeds, and count them in the network's intervals."""
    nominal = ts.read(MODEL).parameter_values()
    sample = [f"{n}=uniform({nominal[n] / 2!r},{nominal[n] * 2!r})" for n in network.parameters]
    known = network.parameters[0]
    gaps = np.diff(chosen)
    if len(set(gaps.tolist())) > 1:
        raise SystemExit("--compare must cut the time points evenly")
    collected = Direct(*({n: np.zeros((len(chosen), network.bins(n))) for n in network.variables}
                     for _ in range(3)))  # fmt: skip
    left, portion = arguments.n, 0
    while left > 0:
        portion += 1
        n = min(left, PORTION)
        left -= n
        result = ts.run(
            MODEL, n=n, times=network.times[chosen], method=ts.ODE(solver="rk4", substeps=arguments.substeps * int(gaps[0]), precision="single"),
            sample=sample, seed=arguments.seed * 1_000_003 + portion, device=arguments.device,
            record="trajectories,sampled",
        )  # fmt: skip
        drawn = _bins(result.summary(f"sampled:{known}"), network.edges[known])
        ends = drawn == 0, drawn == network.bins(known) - 1
        for name in network.variables:
            bins = _bins(result.amounts(name), network.edges[name])
            own = network.bins(name)
            for counts, some in zip(
                (collected.everything, collected.first, collected.last),
                (slice(None), *ends),
                strict=True,
            ):
                for k in range(len(chosen)):
                    counts[name][k] += np.bincount(bins[some, k], minlength=own)[:own]
    return collected


def _bins(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.int64]:
    """Interval of every value, the outermost for those outside; one more for what is no number."""
    bins = np.searchsorted(edges[1:-1], values, side="right")
    bins[~np.isfinite(values)] = len(edges) - 1
    return bins


def compared(
    network: dbn.DynamicNetwork, direct: Direct, chosen: npt.NDArray[np.int64]
) -> list[Row]:
    """Differences of every variable."""
    known = network.parameters[0]
    frontier = dbn.factored_frontier(network).probabilities
    ends = [dbn.factored_frontier(network, given={known: bin_}).probabilities
            for bin_ in (0, network.bins(known) - 1)]  # fmt: skip
    rows = []
    for name in network.variables:
        counts, other = network.marginals[name][chosen].astype(float), direct.everything[name]
        tests = [two_samples(*pair) for pair in zip(counts, other, strict=True)]
        result = [p for p in tests if p is not None]
        shares = _shares(other)
        apart = abs(frontier[name][chosen] - shares)
        conditional = np.array([
            abs(end[name][chosen] - _shares(some[name]))
            for end, some in zip(ends, (direct.first, direct.last), strict=True)
        ])  # fmt: skip
        rows.append(Row(
            name, len(result), min(result, default=1.0), float(abs(_shares(counts) - shares).max()),
            float(apart.max()), float(apart.mean()), float(conditional.max()),
            float(conditional.mean()),
        ))  # fmt: skip
    return rows


def _shares(counts: FloatArray) -> FloatArray:
    shares: FloatArray = counts / np.maximum(1.0, counts.sum(axis=1, keepdims=True))
    return shares


def two_samples(a: FloatArray, b: FloatArray) -> float | None:
    """P-value of the chi-square test that two histograms are of one distribution; None: too few cells.

    Cells with few trajectories are joined with the next.
    """
    share = a.sum() / (a.sum() + b.sum())
    least = min(share, 1 - share)
    joined: list[list[float]] = [[0.0, 0.0]]
    for one, other in zip(a, b, strict=True):
        joined[-1] = [joined[-1][0] + one, joined[-1][1] + other]
        if least * sum(joined[-1]) >= FEWEST:
            joined.append([0.0, 0.0])
    rest = joined.pop()
    if len(joined) < 2:
        return None
    counted = np.array(joined)
    counted[-1] += rest
    expected = counted.sum(axis=1, keepdims=True) * np.array([share, 1 - share])
    return float(
        scipy.stats.chi2.sf(((counted - expected) ** 2 / expected).sum(), len(counted) - 1)
    )


def run(given: Any) -> Outcome:
    """Build, run, compare."""
    unknown = tuple(given.unknown.split(",")) if given.unknown else UNKNOWN
    network = build(unknown, given)
    say(f"{network.samples} trajectories counted")
    chosen = np.unique(np.linspace(0, given.points - 1, given.compare).round().astype(int))
    rows = compared(network, binned(network, chosen, given), chosen)
    tests = sum(row.tests for row in rows)
    level = ALARM / max(1, tests)
    about = (
        f"Twice {network.samples} trajectories, {given.device}; {tests} tests of sampled marginals at "
        f"{len(chosen)} times, none of which may have p < {level:.2g}. Probabilities by the factored frontier "
        f"differ by {np.mean([row.frontier_mean for row in rows]):.2g} on average and by at most "
        f"{max(row.frontier for row in rows):.2g}; with {unknown[0]} known by "
        f"{np.mean([row.known_mean for row in rows]):.2g} and {max(r.known for r in rows):.2g}."
    )
    columns = {
        "variable": "species",
        "tests": "number of chi-square tests",
        "smallest_p": "smallest p-value",
        "sampled": "largest difference of a probability of the sampled marginals",
        "frontier": "largest difference by the factored frontier",
        "frontier_mean": "mean difference by the factored frontier",
        "known": "as `frontier`, with one parameter known",
        "known_mean": "as `frontier_mean`, with one parameter known",
        "verdict": "pass or FAIL",
    }
    table = [[*cells(row), verdict(good=row.smallest_p > level)] for row in rows]
    return Outcome("Marginals of a dynamic Bayesian network", about, columns, table)
