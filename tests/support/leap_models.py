"""Models that break leaps, with their exact laws where these are known.

Every model has a species that is compared at its last time. Laws are in closed form, by detailed
balance, from the moment equations of a linear network, or from the master equation of one species.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
DATA = Path(__file__).resolve().parents[1] / "data" / "sbml"
_LEAST_PROBABILITY = 1e-300


@dataclass(frozen=True)
class Law:
    """Mean and standard deviation; `probabilities` of 0, 1, ... where they are known."""

    mean: float
    deviation: float
    probabilities: FloatArray | None = None

    @staticmethod
    def of(probabilities: FloatArray) -> Law:
        """Law of a count from the probabilities of 0, 1, ..., which need not be normalised."""
        p = probabilities / probabilities.sum()
        x = np.arange(len(p), dtype=np.float64)
        mean = float((p * x).sum())
        return Law(mean, float(np.sqrt((p * (x - mean) ** 2).sum())), p)


@dataclass(frozen=True)
class Case:
    """One model of the table; without a `law` it is compared with exact simulation."""

    name: str
    network: Callable[[], ts.Network]
    t_end: float
    species: str
    law: Callable[[], Law] | None = None


@dataclass(frozen=True)
class Reaction:
    """Mass action: propensity = rate x combinations of the reactants."""

    rate: float
    reactants: Mapping[str, int]
    products: Mapping[str, int]


def _side(numbers: Mapping[str, int]) -> str:
    return " + ".join(f"{k} {name}" for name, k in numbers.items())


def network_of(
    name: str, counts: Mapping[str, int], reactions: list[Reaction]
) -> Callable[[], ts.Network]:
    """A builder of the network."""

    def build() -> ts.Network:
        network = ts.Network(name)
        for species, count in counts.items():
            network.add_species(species, count)
        for r in reactions:
            network.add_reaction(f"{_side(r.reactants)} -> {_side(r.products)}", rate=r.rate)
        return network

    return build


# -------------------------------------------------------------------------------------------- laws


def _from_logs(logs: FloatArray) -> Law:
    return Law.of(np.exp(np.maximum(logs - logs.max(), math.log(_LEAST_PROBABILITY))))


def _log_factorials(n: int) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, n + 1)))])


def poisson_distribution(mean: float) -> Law:
    """Of a birth-death process that started empty."""
    k = np.arange(int(mean + 12 * math.sqrt(mean)) + 12)
    return _from_logs(k * math.log(mean) - _log_factorials(len(k) - 1))


def binomial_distribution(n: int, p: float) -> Law:
    """Of `n` independent molecules, each there with probability `p`."""
    f, k = _log_factorials(n), np.arange(n + 1)
    return _from_logs(f[n] - f - f[::-1] + k * math.log(p) + (n - k) * math.log1p(-p))


def yule_distribution(n: int, growth: float) -> Law:
    """Of a growth by X -> 2 X from `n` by the factor `growth`: n + a negative binomial number."""
    p = 1.0 / growth
    last = int(n * growth + 14 * math.sqrt(n * growth * (growth - 1)))
    f, x = _log_factorials(last), np.arange(n, last + 1)
    logs = f[x - 1] - f[n - 1] - f[x - n] + n * math.log(p) + (x - n) * math.log1p(-p)
    return _from_logs(np.concatenate([np.full(n, -np.inf), logs]))


def balanced_law(up: FloatArray, down: FloatArray) -> Law:
    """Stationary law of 0, 1, ..., which go up and down by one, by detailed balance."""
    with np.errstate(divide="ignore"):
        logs = np.concatenate([[0.0], np.cumsum(np.log(up[:-1]) - np.log(down[1:]))])
    return _from_logs(logs)


def master_distribution(up: FloatArray, down: FloatArray, start: int, t: float) -> Law:
    """Law at time `t` of a count that goes up and down by one, by uniformisation."""
    up = up.copy()
    up[-1] = 0.0
    fastest = float((up + down).max())
    stay = 1.0 - (up + down) / fastest
    state, sum_ = np.zeros(len(up)), np.zeros(len(up))
    state[start] = 1.0
    mean = fastest * t
    first, last = (int(mean + sign * 9 * math.sqrt(mean)) for sign in (-1, 1))
    log_weight = -mean
    for k in range(last + 1):
        if k > 0:
            log_weight += math.log(mean / k)
            after = state * stay
            after[1:] += state[:-1] * (up[:-1] / fastest)
            after[:-1] += state[1:] * (down[1:] / fastest)
            state = after
        if k >= first:
            sum_ += math.exp(log_weight) * state
    return Law.of(sum_)


def linear_distribution(
    counts: Mapping[str, int], reactions: list[Reaction], species: str, t: float
) -> Law:
    """Moments of a network of reactions with one reactant at most, by Runge-Kutta.

    d m / dt = S a(m), d C / dt = A C + (A C)^T + S diag(a(m)) S^T, with the Jacobian A.
    """
    names = list(counts)
    change = np.array(
        [[r.products.get(s, 0) - r.reactants.get(s, 0) for r in reactions] for s in names], float
    )
    reads = np.array([[r.rate * r.reactants.get(s, 0) for s in names] for r in reactions])
    alone = np.array([0.0 if r.reactants else r.rate for r in reactions])
    jacobian, steps = change @ reads, 4000

    def slope(m: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = alone + reads @ m
        flow = jacobian @ c
        return change @ a, flow + flow.T + (change * a) @ change.T

    m, c, h = np.array([float(v) for v in counts.values()]), np.zeros((len(names),) * 2), t / steps
    for _ in range(steps):
        k1 = slope(m, c)
        k2 = slope(m + h / 2 * k1[0], c + h / 2 * k1[1])
        k3 = slope(m + h / 2 * k2[0], c + h / 2 * k2[1])
        k4 = slope(m + h * k3[0], c + h * k3[1])
        m, c = (
            value + h / 6 * (a + 2 * b + 2 * d + e)
            for value, a, b, d, e in zip((m, c), k1, k2, k3, k4, strict=True)
        )
    i = names.index(species)
    return Law(float(m[i]), math.sqrt(c[i, i]))


def _ligand_law(n: int) -> Law:
    """R + L <-> C with n of R and L in all, both rates 1 where all are bound half."""
    c = np.arange(n + 1.0)
    return balanced_law((n - c) ** 2 / n, c)


def _dimer_law(n: int) -> Law:
    """2 M <-> D with n dimers if all are bound."""
    d = np.arange(n + 1.0)
    m = 2 * (n - d)
    return balanced_law(m * (m - 1) / (2 * n), d)


def _schlogl_law() -> Law:
    x = np.arange(900.0)
    up = 0.03 * x * (x - 1) / 2 + 200.0
    down = 1e-4 * x * (x - 1) * (x - 2) / 6 + 3.5 * x
    return master_distribution(up, down, 250, 10.0)


def _logistic_law(capacity: int) -> Law:
    """X -> 2 X and death by the law X^2 / K: stationary, where extinction takes for ever."""
    x = np.arange(1.0, 1.4 * capacity)
    law = balanced_law(x, x * x / capacity)
    assert law.probabilities is not None
    return Law.of(np.concatenate([[0.0], law.probabilities]))


def _switch_law(n: int, rate: float, t: float) -> Law:
    """P(on) of one gene that n exp(t) molecules switch on.

    Their number varies by 1 %, of which P keeps less than 1e-4.
    """
    on = 1.0 - math.exp(-rate * n * math.expm1(t))
    return Law(on, math.sqrt(on * (1 - on)))


# ------------------------------------------------------------------------------------------ models


def _logistic() -> ts.Network:
    network = ts.Network("logistic")
    network.add_species("X", 500)
    network.add_reaction("X -> 2 X", rate=1.0)
    network.add_reaction("X ->", law="X * X / 5000")
    return network


def _immigration() -> ts.Network:
    network = ts.Network("immigration")
    network.add_species("X", 0)
    network.add_reaction("-> X", law="20000 - X")
    network.add_reaction("X ->", rate=1.0)
    return network


def _read(name: str) -> Callable[[], ts.Network]:
    def build() -> ts.Network:
        network = ts.read(DATA / f"{name}.xml")
        assert isinstance(network, ts.Network)
        return network

    return build


def _linear(name: str, counts: dict[str, int], reactions: list[Reaction], t: float, species: str
            ) -> Case:  # fmt: skip
    def law() -> Law:
        return linear_distribution(counts, reactions, species, t)

    return Case(name, network_of(name, counts, reactions), t, species, law)


def _plain(name: str, counts: dict[str, int], reactions: list[Reaction], t: float, species: str,
           law: Callable[[], Law] | None = None) -> Case:  # fmt: skip
    return Case(name, network_of(name, counts, reactions), t, species, law)


R = Reaction
CASES = (
    _plain("birth and death", {"X": 0}, [R(1e4, {}, {"X": 1}), R(1.0, {"X": 1}, {})], 8.0, "X",
           lambda: poisson_distribution(1e4 * -math.expm1(-8.0))),
    _plain("growth", {"X": 1000}, [R(1.0, {"X": 1}, {"X": 2})], 5.0, "X",
           lambda: yule_distribution(1000, math.exp(5.0))),
    _plain("decay", {"X": 200_000}, [R(1.0, {"X": 1}, {})], 6.0, "X",
           lambda: binomial_distribution(200_000, math.exp(-6.0))),
    _plain("isomers", {"A": 20_000, "B": 0},
           [R(1.0, {"A": 1}, {"B": 1}), R(1.0, {"B": 1}, {"A": 1})], 8.0, "A",
           lambda: binomial_distribution(20_000, (1 + math.exp(-16.0)) / 2)),
    _plain("ligand binding", {"R": 20_000, "L": 20_000, "C": 0},
           [R(1 / 20_000, {"R": 1, "L": 1}, {"C": 1}), R(1.0, {"C": 1}, {"R": 1, "L": 1})], 12.0,
           "C", lambda: _ligand_law(20_000)),
    _plain("reversible dimers", {"M": 40_000, "D": 0},
           [R(1 / 20_000, {"M": 2}, {"D": 1}), R(1.0, {"D": 1}, {"M": 2})], 10.0, "D",
           lambda: _dimer_law(20_000)),
    _linear("two-state gene with bursts", {"off": 1, "on": 0, "m": 0, "P": 0},
            [R(0.5, {"off": 1}, {"on": 1}), R(1.0, {"on": 1}, {"off": 1}),
             R(600.0, {"on": 1}, {"on": 1, "m": 1}), R(1.0, {"m": 1}, {}),
             R(100.0, {"m": 1}, {"m": 1, "P": 1}), R(1.0, {"P": 1}, {})], 10.0, "P"),
    _linear("large bursts", {"m": 0, "P": 0},
            [R(20.0, {}, {"m": 1}), R(1.0, {"m": 1}, {}), R(500.0, {"m": 1}, {"m": 1, "P": 1}),
             R(1.0, {"P": 1}, {})], 10.0, "P"),
    _plain("switch driven by growth", {"off": 1, "on": 0, "X": 10_000},
           [R(1e-5, {"off": 1, "X": 1}, {"on": 1, "X": 1}), R(1.0, {"X": 1}, {"X": 2})], 2.5,
           "on", lambda: _switch_law(10_000, 1e-5, 2.5)),
    _linear("rates of three orders", {"A": 10_000, "B": 0, "C": 0},
            [R(100.0, {"A": 1}, {"B": 1}), R(100.0, {"B": 1}, {"A": 1}), R(0.1, {"B": 1}, {"C": 1}),
             R(1.0, {"C": 1}, {})], 2.0, "C"),
    _plain("stiff balance of ten", {"X": 0}, [R(1e4, {}, {"X": 1}), R(1e3, {"X": 1}, {})], 0.5,
           "X", lambda: poisson_distribution(10.0)),
    _plain("small counts", {"X": 0}, [R(50.0, {}, {"X": 1}), R(1.0, {"X": 1}, {})], 8.0, "X",
           lambda: poisson_distribution(50.0 * -math.expm1(-8.0))),
    Case("logistic law", _logistic, 14.0, "X", lambda: _logistic_law(5000)),
    Case("immigration by K - X", _immigration, 6.0, "X",
         lambda: binomial_distribution(20_000, -math.expm1(-12.0) / 2)),
    _plain("Schlögl", {"X": 250},
           [R(0.03, {"X": 2}, {"X": 3}), R(1e-4, {"X": 3}, {"X": 2}), R(200.0, {}, {"X": 1}),
            R(3.5, {"X": 1}, {})], 10.0, "X", _schlogl_law),
    _plain("Lotka-Volterra", {"X": 30_000, "Y": 10_000},
           [R(1.0, {"X": 1}, {"X": 2}), R(1e-4, {"X": 1, "Y": 1}, {"Y": 2}), R(1.0, {"Y": 1}, {})],
           5.0, "X"),
    _plain("Brusselator", {"X": 1000, "Y": 2000},
           [R(5000.0, {}, {"X": 1}), R(2.5, {"X": 1}, {"Y": 1}),
            R(2 / 5000**2, {"X": 2, "Y": 1}, {"X": 3}), R(1.0, {"X": 1}, {})], 8.0, "X"),
    _plain("crowded enzymes", {"E": 4000, "S": 60_000, "C": 0, "P": 0},
           [R(2e-4, {"E": 1, "S": 1}, {"C": 1}), R(0.5, {"C": 1}, {"E": 1, "S": 1}),
            R(1.0, {"C": 1}, {"E": 1, "P": 1})], 10.0, "P"),
    _plain("Michaelis-Menten", {"E": 750, "S": 1000, "C": 0, "P": 0},
           [R(1.7e-3, {"E": 1, "S": 1}, {"C": 1}), R(1e-3, {"C": 1}, {"E": 1, "S": 1}),
            R(0.1, {"C": 1}, {"E": 1, "P": 1})], 5.0, "P"),
    _plain("decaying dimers", {"S1": 100_000, "S2": 0, "S3": 0},
           [R(1.0, {"S1": 1}, {}), R(2e-3, {"S1": 2}, {"S2": 1}), R(0.5, {"S2": 1}, {"S1": 2}),
            R(0.04, {"S2": 1}, {"S3": 1})], 5.0, "S2"),
    Case("toggle switch", _read("toggle_switch"), 20.0, "A"),
)  # fmt: skip
