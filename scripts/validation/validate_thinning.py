"""Twelve models with time-dependent rates compared with exact means and variances.

Births at a rate b(t) that does not depend on the state, and deaths of first order at a rate d(t), give a
Poisson distribution; its mean follows dm/dt = b(t) - d(t) m, solved here to 1e-10. The mean and the variance by
`ssa` at four times must be within 5 standard errors: with 96 numbers, a correct program fails once in 18,000
seeds. Means by `tau` must be within 3 % (epsilon) of the largest mean. Seconds exclude compilation; they
compare thinning with integration of the rates, and with constant rates that give as many events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import scipy.integrate
from outcome import Outcome, say, verdict

import tauslab as ts
from tauslab.model.expressions.expression import Expression
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.runner.ensemble import run as ensemble_run
from tauslab.runner.ensemble.kept import kept_runs

FloatArray = npt.NDArray[np.float64]
MOST = 5.0  # standard errors
MOST_OF_LEAPS = 3.0  # per cent


@dataclass(frozen=True)
class Model:
    """Births and deaths whose rates are formulas of the time, to an end; `breaks` are where these jump."""

    name: str
    births: str
    deaths: str
    end: float
    breaks: tuple[float, ...] = ()

    def network(self, births: str = "", deaths: str = "") -> ts.Network:
        """The network, with other rates where these are given."""
        net = ts.Network(self.name)
        net.add_species("X", 0)
        net.add_reaction("-> X", law=births or self.births)
        net.add_reaction("X ->", law=f"({deaths or self.deaths}) * X")
        return net

    def course(self, times: FloatArray) -> FloatArray:
        """Exact means, and the integrals of both rates behind them ``[time, 3]``."""
        rates = [parse(self.births), parse(self.deaths)]
        state, before, result = np.zeros(3), 0.0, []
        for t in times:
            for stop in (*(b for b in self.breaks if before < b < t), float(t)):
                if stop > before:
                    state = _integrated(rates, before, stop, state)
                before = stop
            result.append(state)
        return np.array(result)


def _integrated(rates: list[Expression], low: float, high: float, start: FloatArray) -> FloatArray:
    def slope(t: float, y: FloatArray) -> list[float]:
        # Inside of a stretch without a jump, also at its ends.
        inside = min(max(t, np.nextafter(low, high)), np.nextafter(high, low))
        born, dies = (evaluate(rate, {"time": inside}) for rate in rates)
        return [born - dies * y[0], born, dies]

    span = (high - low) / 50
    result = scipy.integrate.solve_ivp(
        slope, (low, high), start, "DOP853", rtol=1e-10, atol=1e-10, max_step=span
    )
    return np.asarray(result.y[:, -1])


MODELS = (
    Model("dilution", "60", "0.1 + 0.4 / (1 + time)", 20),
    Model("drug decay", "50 * exp(-0.3 * time)", "0.2", 20),
    Model("exponential growth", "2 * exp(0.2 * time)", "0.3", 20),
    Model("logistic growth", "100 / (1 + 50 * exp(-0.5 * time))", "0.5", 20),
    Model("Hill of the time", "80 * time^4 / (10^4 + time^4)", "0.4", 20),
    Model("linear growth", "3 + 4 * time", "0.5 / (1 + 0.1 * time)", 20),
    Model("circadian births", "30 * (1 + 0.8 * sin(0.2617993877991494 * time))", "0.3", 72),
    Model("circadian deaths", "20", "0.3 * (1.1 + cos(0.2617993877991494 * time))", 72),
    Model("fast sine", "30 * (1 + 0.9 * sin(20 * time))", "0.3", 20),
    Model("Gauss pulses", "200 * exp(-((time - 5) / 0.5)^2) + 100 * exp(-((time - 14) / 0.2)^2)", "0.2", 20),
    Model("pulse train", "if(time - 6 * floor(time / 6) < 0.5, 100 * exp(-time / 40), 1)", "0.3", 24,
          tuple(6.0 * k + part for k in range(5) for part in (0.0, 0.5))),
    Model("temperature", "1e6 * exp(-4000 / (300 + 20 * sin(0.5 * time)))", "0.1 + 0.005 * time", 40),
)  # fmt: skip


@contextmanager
def integrating() -> Iterator[None]:
    """Within, rates of the time are integrated; nothing that was prepared otherwise is kept."""
    kept_runs.forget()
    with mock.patch.object(ensemble_run, "with_thinning", lambda task: task):
        yield
    kept_runs.forget()


def timed(network: ts.Network, times: FloatArray, n: int, **options: Any) -> tuple[Any, float]:
    """A result, and seconds of a run whose kernel is compiled: on a CPU those of the processor."""
    clock = time.perf_counter if options["device"] == "cuda" else time.process_time
    given = {"times": times, "record": "statistics", "quiet": True, **options}
    ts.run(network, n=n, **given).close()
    began = clock()
    result = ts.run(network, n=n, **given)
    return result, clock() - began


def errors(found: Any, means: FloatArray, n: int) -> tuple[float, float]:
    """Largest errors of mean and variance, in standard errors."""
    mean, variance = found.mean("X")[1:], found.variance("X")[1:]
    of_mean = np.abs(mean - means) / np.sqrt(means / n)
    of_variance = np.abs(variance - means) / np.sqrt((means + 2 * means**2) / n)
    return float(of_mean.max()), float(of_variance.max())


COLUMNS = {
    "model": "network, in `validate_thinning.py`",
    "mean, se": "error of the mean by `ssa`, in standard errors",
    "variance, se": "error of the variance by `ssa`, in standard errors",
    "integrated: mean, se": "error of the mean by integration, in standard errors",
    "s": "seconds of `ssa`, which uses thinning",
    "s integrated": "seconds by integration, from a tenth of the trajectories",
    "s constant": "seconds of `ssa` with constant rates and as many events",
    "ratio": "`s` / `s constant`",
    "tau: mean, %": "error of the mean by `tau`, in percent of the largest mean",
    "s tau": "seconds of `tau`",
    "s tau constant": "seconds of `tau` with constant rates",
    "verdict": "pass or FAIL",
}


def row(model: Model, n: int, **options: Any) -> list[str]:
    """Errors and seconds of one model."""
    times = np.linspace(0, model.end, 5)
    exact = model.course(times)
    born, dies = (exact[-1, 1:] / model.end).tolist()
    result, thinned = timed(model.network(), times, n, **options)
    with integrating():
        flow, integrated = timed(model.network(), times, max(1, n // 10), **options)
    steady = model.network(f"{born!r}", f"{dies!r}")
    _, constant = timed(steady, times, n, **options)
    leapt, leaping = timed(model.network(), times, n, method="tau", **options)
    _, leaping_steadily = timed(steady, times, n, method="tau", **options)
    means = exact[1:, 0]
    of_leaps = 100 * float(np.abs(leapt.mean("X")[1:] - means).max() / means.max())
    of_mean, of_variance = errors(result, means, n)
    flow_mean, _ = errors(flow, means, max(1, n // 10))
    good = max(of_mean, of_variance) < MOST and of_leaps < MOST_OF_LEAPS
    return [
        model.name, f"{of_mean:.1f}", f"{of_variance:.1f}", f"{flow_mean:.1f}", f"{thinned:.3f}",
        f"{10 * integrated:.3f}", f"{constant:.3f}", f"{thinned / constant:.2f}", f"{of_leaps:.2f}",
        f"{leaping:.3f}", f"{leaping_steadily:.3f}", verdict(good=good),
    ]  # fmt: skip


def run(given: Any) -> Outcome:
    """Run every model."""
    device = ts.CPU(threads=given.threads) if given.device == "cpu" else given.device
    rows = []
    for model in MODELS:
        if not given.cases or model.name in given.cases:
            rows.append(row(model, given.n, device=device, seed=given.seed))
            say(*rows[-1])
    about = (
        f"{given.n} trajectories each, seed {given.seed}, {given.device}. Errors are the largest of four "
        "sample times. A row fails if an error of `ssa` exceeds 5 standard errors, or one of `tau` 3 %."
    )
    return Outcome("Time-dependent rates", about, COLUMNS, rows)
