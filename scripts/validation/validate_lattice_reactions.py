"""Means of lattices with fast reactions, run with default options, compared with exact means.

Counts grow, rates are switched on, and several reactions occur in a site within a time step. If particles
hop, means are known in closed form or from the master equation of a small lattice. Otherwise 1,728 isolated
sites start with the same particles, and the master equation of one site gives mean and variance.

A mean may be off by 4 standard errors, or by 0.5 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from outcome import Outcome, verdict

import tauslab as ts

SIDE = 12  # sites along an axis of those that stand alone
SPACING, STEP = 2e-8, 1e-3
DIFFUSION = 1e-13  # m^2/s: with these sites a step of 0.67 ms
ERRORS, PART = 4.0, 0.005


@dataclass(frozen=True)
class Case:
    """A lattice, and what the mean of a species is at its end.

    `deviation` is that of a run, if it is known; else it is estimated from the replicas.
    """

    name: str
    lattice: ts.Lattice
    species: str
    mean: float
    deviation: float | None = None
    hooks: Sequence[tuple[int, Any]] = ()
    times: int = 1  # as many replicas as of others


@dataclass(frozen=True)
class Found:
    """A mean of replicas with its standard error."""

    case: Case
    mean: float
    error: float

    @property
    def part(self) -> float:
        """Part by which the mean is off."""
        return self.mean / self.case.mean - 1

    @property
    def errors(self) -> float:
        """Standard errors by which the mean is off."""
        return (self.mean - self.case.mean) / self.error

    @property
    def good(self) -> bool:
        """Return whether chance explains the difference, or it is small."""
        return abs(self.errors) <= ERRORS or abs(self.part) <= PART


# ------------------------------------------------------------------ particles that hop


def hopping(t_end: float, **particles: int) -> ts.Lattice:
    """A periodic lattice of 6^3 sites, which chooses its own step."""
    lattice = ts.Lattice(
        "hopping", shape=(6, 6, 6), spacing=SPACING, slots=32, boundary="periodic", t_end=t_end
    )
    for name, count in particles.items():
        lattice.add_species(name)
        lattice.add_diffusion(name, DIFFUSION)
        if count:
            lattice.place(name, count=count)
    return lattice


def growth() -> Case:
    """A -> 2 A from one particle a site to 20."""
    lattice = hopping(0.03, A=216)
    lattice.add_reaction("A -> 2 A", rate=100)
    return Case("growth, A -> 2 A", lattice, "A", 216 * math.exp(3))


def decay() -> Case:
    """A -> 0, 0.67 in a pass, 14 particles a site."""
    lattice = hopping(0.003, A=3000)
    lattice.add_reaction("A ->", rate=1000)
    whole = math.ceil(0.003 / _step(lattice)) * _step(lattice)
    left = math.exp(-1000 * whole)
    return Case("decay", lattice, "A", 3000 * left, math.sqrt(3000 * left * (1 - left)))


def production() -> Case:
    """Particles that come and go: 4 a site, 2.7 of them new in a pass."""
    lattice = hopping(0.01, A=0)
    lattice.add_reaction("-> A", rate=4000, volume="site")
    lattice.add_reaction("A ->", rate=1000)
    whole = math.ceil(0.01 / _step(lattice)) * _step(lattice)
    mean = 216 * 4 * -math.expm1(-1000 * whole)
    return Case("production and decay", lattice, "A", mean, math.sqrt(mean))


def switch() -> Case:
    """A -> B from 0 to 20,000 a second by a hook after ten steps: 0.2 of them in a step."""
    lattice = ts.Lattice(
        "switch",
        shape=(4, 4, 4),
        spacing=1e-8,
        step=1e-5,
        slots=32,
        boundary="periodic",
        t_end=2e-4,
    )
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 1e-12)
    lattice.add_reaction("A -> B", rate=0.0, name="turn")
    lattice.place("A", count=640)
    left = math.exp(-20_000 * 1e-4)
    deviation = math.sqrt(640 * left * (1 - left))
    hooks = ((10, lambda view: view.set_rate("turn", 20_000.0)),)
    return Case("switched on by a hook", lattice, "A", 640 * left, deviation, hooks)


def cycle() -> Case:
    """A -> B -> C -> A: means oscillate, and a particle turns 1.3 times in a pass."""
    lattice = hopping(0.0015, A=2000, B=0, C=0)
    for one, other in ("AB", "BC", "CA"):
        lattice.add_reaction(f"{one} -> {other}", rate=2000)
    whole = math.ceil(0.0015 / _step(lattice)) * _step(lattice)
    angle = 2000 * whole
    part = (1 + 2 * math.exp(-1.5 * angle) * math.cos(math.sqrt(0.75) * angle)) / 3
    deviation = math.sqrt(2000 * part * (1 - part))
    return Case("oscillating cycle", lattice, "A", 2000 * part, deviation)


def bursts() -> Case:
    """A gene in each site that is on or off, makes mRNA in bursts, which decays."""
    lattice = hopping(0.02, M=0)
    lattice.add_species("off", "on")
    lattice.place("off", count=216)
    on, off, made, lost = 300.0, 700.0, 3000.0, 500.0
    lattice.add_reaction("off -> on", rate=on)
    lattice.add_reaction("on -> off", rate=off)
    lattice.add_reaction("on -> on + M", rate=made)
    lattice.add_reaction("M ->", rate=lost)
    whole = math.ceil(0.02 / _step(lattice)) * _step(lattice)
    share, decays = on / (on + off), on + off
    mean = made * share * (1 - math.exp(-lost * whole)) / lost
    mean -= made * share * (math.exp(-lost * whole) - math.exp(-decays * whole)) / (decays - lost)
    return Case("genes with bursts", lattice, "M", 216 * mean)


def pairs() -> Case:
    """A + B -> 0 on a ring of five sites with the chance 0.01 of a pair in a pass."""
    lattice = ts.Lattice(
        "ring", shape=(1, 1, 5), spacing=SPACING, slots=8, boundary="periodic", t_end=0.05
    )
    for name in "AB":
        lattice.add_species(name)
        lattice.add_diffusion(name, DIFFUSION)
        lattice.place(name, positions=[(0, 0, 0 if name == "A" else 2)] * 2)
    lattice.add_reaction("A + B ->", rate=15, volume="site")
    whole = math.ceil(0.05 / _step(lattice)) * _step(lattice)
    solved = ts.cme(lattice.to_network(seed=1), [whole])
    mean = sum(float(solved.mean(f"A_0_0_{i}")[0]) for i in range(5))
    return Case("pairs on a ring", lattice, "A", mean, times=50)


def _step(lattice: ts.Lattice) -> float:
    """Seconds of a step that the lattice chooses: a hop to a side has the probability 1/6."""
    assert lattice.step is None
    return lattice.spacing**2 / (6 * DIFFUSION)


# ------------------------------------------------------------------ sites that stand alone


def alone(
    name: str,
    reactions: Mapping[str, float],
    species: str,
    *,
    slots: int = 32,
    t_end: float = 0.01,
    **start: int,
) -> Case:
    """Sites of which none has neighbours, by the master equation of one of them."""
    shape = (SIDE, SIDE, SIDE)
    lattice = ts.Lattice(
        name, shape=shape, spacing=SPACING, step=STEP, slots=slots, boundary="periodic", t_end=t_end
    )
    network = ts.Network(name)
    everywhere = np.argwhere(np.ones(shape, bool))
    for one, count in start.items():
        lattice.add_species(one)
        network.add_species(one, count)
        if count:
            lattice.place(one, positions=np.repeat(everywhere, count, axis=0))
    for equation, rate in reactions.items():
        pair = len(equation.split("->")[0].split("+")) > 1 or equation.startswith("2 ")
        lattice.add_reaction(equation, rate=rate, volume="site" if pair else None)
        network.add_reaction(equation, rate=rate)
    solved = ts.cme(network, [t_end])
    sites = SIDE**3
    mean, variance = (float(of(species)[0]) for of in (solved.mean, solved.variance))
    return Case(name, lattice, species, sites * mean, math.sqrt(sites * variance))


def dimers() -> Case:
    """Eight particles in eight slots: a site is full until two join."""
    reactions = {"2 A -> B": 100.0, "B -> 2 A": 900.0}
    return alone("dimers in full sites", reactions, "B", slots=8, A=8, B=0)


def autocatalysis() -> Case:
    """One B turns ten A into B."""
    return alone("autocatalysis, A + B -> 2 B", {"A + B -> 2 B": 80.0}, "B", t_end=0.004, A=10, B=1)


def predators() -> Case:
    """Lotka-Volterra model, with counts that fit into the slots of a site."""
    reactions = {"A -> 2 A": 300.0, "A + B -> 2 B": 60.0, "B ->": 300.0}
    return alone("predators and prey", reactions, "B", t_end=0.004, A=5, B=4)


def annihilation() -> Case:
    """Five pairs with 0.3 in a pass."""
    return alone("annihilation, A + B -> 0", {"A + B ->": 300.0}, "A", t_end=0.002, A=5, B=5)


def enzyme() -> Case:
    """Two enzymes and twelve substrates."""
    reactions = {"E + S -> ES": 400.0, "ES -> E + S": 800.0, "ES -> E + P": 1500.0}
    return alone("enzyme", reactions, "P", t_end=0.004, E=2, S=12, ES=0, P=0)


CASES: Sequence[Callable[[], Case]] = (
    growth, decay, production, switch, cycle, bursts, pairs,
    dimers, autocatalysis, predators, annihilation, enzyme,
)  # fmt: skip


def measure(case: Case, replicas: int, seed: int, device: Any = "cpu") -> Found:
    """The mean over replicas of a run with every default."""
    replicas *= case.times
    result = ts.run(
        case.lattice, replicas=replicas, seed=seed, device=device, hooks=case.hooks, quiet=True
    )
    ends = np.asarray(result.as_ensemble().final(case.species), np.float64)
    deviation = float(ends.std(ddof=1)) if case.deviation is None else case.deviation
    return Found(case, float(ends.mean()), deviation / math.sqrt(replicas))


def run(given: Any) -> Outcome:
    """Measure all cases."""
    device = "cuda" if given.device == "cuda" else "cpu"
    result = [measure(case(), given.replicas, given.seed, device) for case in CASES]
    rows = [
        [one.case.name, f"{one.case.mean:.2f}", f"{one.mean:.2f}", f"{one.error:.2f}",
         f"{100 * one.part:+.2f}", f"{one.errors:+.1f}", verdict(good=one.good)]
        for one in result
    ]  # fmt: skip
    columns = {
        "model": "lattice, in `validate_lattice_reactions.py`",
        "exact": "exact mean of the number of particles of a species",
        "lattice": "mean of all replicas",
        "standard error": "of this mean",
        "error, %": "relative error of the mean",
        "z": "the same in standard errors",
        "verdict": "pass or FAIL",
    }
    about = (
        f"{given.replicas} replicas (50 times as many of the ring), seed {given.seed}, {device}. A row "
        f"passes within {ERRORS:g} standard errors, or {100 * PART:g} %."
    )
    return Outcome("Lattices with fast reactions", about, columns, rows)
