"""Events, time-dependent rates and rate rules compared with exact distributions, by `ssa` and `tau`.

All distributions are known. Births at a rate that does not depend on the state, and deaths of first order,
give a Poisson distribution at all times, also after wash-outs; its mean is an integral. A counter that is
reset at m has been reset M // m times and has the value M mod m, for a Poisson number M. A symmetric walk of
single steps has passed b by time t with probability P(S > b) + P(S >= b), where S is its position at t.

`ssa` must have p > 1e-4 in each of its 30 rows, so a correct program fails once in 333 seeds. `tau` must
have means within 1 % and standard deviations within 3 %, or within four standard errors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.integrate
import scipy.stats
from outcome import Outcome, goodness, say, verdict

import tauslab as ts
from tauslab.model.network.network import Feature

FloatArray = npt.NDArray[np.float64]

P_SMALLEST = 1e-4
MEAN_TOLERANCE, SD_TOLERANCE = 0.01, 0.03
MOST_BINS = 30
MOST_CELLS = 512  # of a recorded histogram
FEWEST = 10  # samples expected in a bin
TAIL = 1e-13  # probability that is omitted


@dataclass(frozen=True)
class Law:
    """A network, and the probability distribution of one of its species at a time."""

    name: str
    network: Callable[[float], ts.Network]
    species: str
    times: tuple[float, ...]
    pmf: Callable[[float, float], FloatArray]


def poisson(mean: float) -> FloatArray:
    """Probabilities of a Poisson distribution, up to its far tail."""
    return _trimmed(scipy.stats.poisson(mean).pmf(np.arange(int(mean + 12 * mean**0.5) + 40)))


def births(rate: Callable[[FloatArray], FloatArray], death: float, t: float, since: float) -> float:
    """The mean at t, with births at a rate and deaths, from 0 molecules at time `since`."""
    s = np.linspace(since, t, 400_001)
    return float(scipy.integrate.simpson(rate(s) * np.exp(-death * (t - s)), x=s))


def sine(scale: float) -> ts.Network:
    """Births whose rate follows a sine of the time."""
    net = ts.Network("sine")
    net.add_feature(Feature("time", "reaction R1", "it uses the time"))
    net.add_species("X", 0)
    net.add_reaction("-> X", law=f"{20 * scale} * (1 + sin(3 * time))")
    net.add_reaction("X ->", rate=0.3)
    return net


def volume(scale: float) -> ts.Network:
    """Births in a volume that grows as exp(t / 2) and is halved at 2."""
    net = ts.Network("volume")
    net.add_species("V", 1, fixed=True)
    net.add_rate("V", "0.5 * V")
    net.add_event("division", trigger="V >= 2", assignments={"V": "V / 2"})
    net.add_species("X", 0)
    net.add_reaction("-> X", law=f"{10 * scale} * V")
    net.add_reaction("X ->", rate=0.3)
    return net


def wash_outs(scale: float) -> ts.Network:
    """Wash-outs at 2 and 4; births become faster at 4."""
    net = ts.Network("wash-outs")
    net.add_species("X", 0)
    net.add_species("k", 10 * scale, fixed=True)
    net.add_reaction("-> X", law="k")
    net.add_reaction("X ->", rate=0.5)
    net.add_event("first", time=2, assignments={"X": 0})
    net.add_event("second", trigger="time >= 4", assignments={"X": 0, "k": "2 * k"})
    return net


def counter(scale: float) -> ts.Network:
    """A counter that is reset when it reaches a number."""
    net = ts.Network("counter")
    net.add_species("X", 0)
    net.add_species("C", 0)
    net.add_reaction("-> X", rate=9 * scale)
    net.add_event("full", trigger=f"X >= {10 * scale}", assignments={"X": 0, "C": "C + 1"})
    return net


def passage(scale: float) -> ts.Network:
    """A symmetric random walk W; F is 1 once W has been sqrt(scale) 10 above its start."""
    net = ts.Network("passage")
    net.add_species("W", 2000 * scale)
    net.add_species("F", 0)
    net.add_reaction("-> W", rate=50 * scale)
    net.add_reaction("W ->", law=f"{50 * scale}")
    top = 2000 * scale + round(10 * scale**0.5)
    net.add_event("hit", trigger=f"W >= {top} && F == 0", assignments={"F": 1})
    return net


def doses(scale: float) -> ts.Network:
    """Doses at shorter intervals than leaps: every 1/1024 of the time between 1 and 2."""
    net = ts.Network("doses")
    net.add_species("X", 0)
    net.add_species("last", 0, fixed=True)
    net.add_reaction("-> X", rate=10 * scale)
    net.add_reaction("X ->", rate=0.5)
    net.add_event(
        "dose", trigger="time - last >= 1 / 1024 && time > 1 && time <= 2", early=False,
        assignments={"X": "0 * X", "last": "time"},
    )  # fmt: skip
    return net


def _of_counter(t: float, scale: float, part: str) -> FloatArray:
    full = round(10 * scale)
    chances = poisson(9 * scale * t)
    padded = np.concatenate([chances, np.zeros(-len(chances) % full)]).reshape(-1, full)
    return _trimmed(padded.sum(axis=1 if part == "C" else 0))


def _of_passage(t: float, scale: float) -> FloatArray:
    top = round(10 * scale**0.5)
    place = scipy.stats.skellam(50 * scale * t, 50 * scale * t)
    hit = float(2 * place.sf(top) + place.pmf(top))
    return np.array([1 - hit, hit])


def _in_volume(s: FloatArray) -> FloatArray:
    sizes: FloatArray = np.exp(0.5 * np.mod(s, 2 * np.log(2)))
    return sizes


LAWS = (
    Law("sinusoidal birth rate", sine, "X", (1.0, 3.0, 5.0), lambda t, k: poisson(
        births(lambda s: 20 * k * (1 + np.sin(3 * s)), 0.3, t, 0.0))),
    Law("growing and dividing volume", volume, "X", (1.0, 3.0, 5.0), lambda t, k: poisson(
        births(lambda s: 10 * k * _in_volume(s), 0.3, t, 0.0))),
    Law("wash-outs", wash_outs, "X", (1.5, 3.0, 6.0), lambda t, k: poisson(
        20 * k * (1 + (t > 4)) * -np.expm1(-0.5 * (t - (0 if t < 2 else 2 if t < 4 else 4))))),
    Law("counter: number of resets", counter, "C", (10 / 9, 50 / 9), lambda t, k: _of_counter(
        t, k, "C")),
    Law("counter: value", counter, "X", (10 / 9, 50 / 9), lambda t, k: _of_counter(t, k, "X")),
    Law("first passage of a random walk", passage, "F", (0.25, 1.0, 4.0), _of_passage),
    Law("doses at intervals of 1/1024", doses, "X", (1.0, 2.5), lambda t, k: poisson(
        20 * k * -np.expm1(-0.5 * (t if t <= 1 else t - 2)))),
)  # fmt: skip


def _trimmed(chances: FloatArray) -> FloatArray:
    last = int(np.flatnonzero(chances > TAIL)[-1])
    return chances[: last + 1]


ABOUT = (
    "`ssa` passes if p > 1e-4. `tau` is approximate: it passes if the mean is within 1 % and the "
    "standard deviation within 3 %, or within four standard errors. `tau` has {many:g} times as many "
    "molecules, so that leaps are possible; four models are also simulated by `ssa` with these numbers."
)
COLUMNS = {
    "model": "network and quantity, in `validate_event_laws.py`",
    "t": "sample time",
    "method": "simulation method",
    "exact mean": "molecules",
    "mean error %": "relative error of the sample mean",
    "+-": "its standard error, %",
    "sd error %": "relative error of the sample standard deviation",
    "+- ": "its standard error, %",
    "chi-square": "of the counts",
    "bins": "at most 30 bins of about equal probability",
    "p": "p-value of the chi-square test",
    "by leaps": "fraction of reaction events in leaps",
    "verdict": "pass or FAIL",
}


def rows_of(law: Law, method: str, scale: float, options: Any) -> Iterator[list[str]]:
    """A row for each sample time of a distribution."""
    n, times = options.n, law.times
    device: Any = options.device
    leaps_or_not: Any = method
    chances = [law.pmf(t, scale) for t in times]
    most = max(map(len, chances))
    width = -(-most // MOST_CELLS)
    cells = -(-most // width)
    with tempfile.TemporaryDirectory() as folder:
        result = ts.run(
            law.network(scale), n=n, times=times, seed=options.seed, method=leaps_or_not,
            device=ts.CPU(threads=options.threads) if device == "cpu" else device,
            record=f"statistics,histogram:{law.species}:0:{cells * width}:{cells}", quiet=True,
            output=Path(folder) / "law.h5",
        )  # fmt: skip
        with result:
            mean, variance = result.mean(law.species), result.variance(law.species)
            collected, _ = result.stored_histogram(law.species)
            work = {
                k: int(result.data[f"profile/{k}"][()].sum()) for k in ("events", "exact_events")
            }
    leaps = 1 - work["exact_events"] / max(1, work["events"]) if method == "tau" else 0.0
    for k, t in enumerate(times):
        yield [
            law.name, f"{t:.4g}", method,
            *_compared(chances[k], width, n, (float(mean[k]), float(variance[k])), collected[k], leaps),
        ]  # fmt: skip


def _compared(
    chances: FloatArray, width: int, n: int, moments: tuple[float, float],
    cells: npt.NDArray[np.uint64], leaps: float,
) -> list[str]:  # fmt: skip
    x = np.arange(len(chances))
    mu = float(chances @ x)
    second, fourth = (float(chances @ (x - mu) ** power) for power in (2, 4))
    sd = second**0.5
    error, mean_error = moments[0] / mu - 1, sd / n**0.5 / mu
    spread, sd_error = moments[1] ** 0.5 / sd - 1, (fourth / second**2 - 1) ** 0.5 / (2 * n**0.5)
    expected = np.zeros(len(cells) - 2)
    np.add.at(expected, x // width, chances)
    observed = cells[1:-1].astype(np.float64)
    observed[-1] += float(cells[-1] + cells[0])
    bins, chi, p = goodness(observed, expected, FEWEST, MOST_BINS)
    passes = p > P_SMALLEST
    if leaps > 0:
        passes = abs(error) < max(MEAN_TOLERANCE, 4 * mean_error)
        passes &= abs(spread) < max(SD_TOLERANCE, 4 * sd_error)
    return [
        f"{mu:.4g}", f"{100 * error:+.3f}", f"{100 * mean_error:.3f}", f"{100 * spread:+.3f}",
        f"{100 * sd_error:.3f}", f"{chi:.1f}" if bins > 1 else "", str(bins),
        f"{p:.2g}", f"{leaps:.3f}", verdict(good=passes),
    ]  # fmt: skip


def run(given: Any) -> Outcome:
    """Compare all distributions."""
    rows: list[list[str]] = []
    for law in LAWS:
        for method, scale in (("ssa", 1.0), ("ssa", given.many), ("tau", given.many)):
            if method == "ssa" and scale > 1 and law.network in (sine, volume):
                continue  # steps of an adaptive method for each of many reactions
            rows += rows_of(law, method, scale, given)
            say(*rows[-1])
    about = f"{given.n} trajectories each, seed {given.seed}, {given.device}. {ABOUT.format(many=given.many)}"
    return Outcome("Events and time-dependent rates", about, COLUMNS, rows)
