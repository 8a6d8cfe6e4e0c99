"""Delayed reactions compared with nine known distributions by chi-square tests.

One network of eight reactions, seven of them delayed, at seven times, by each of two kernels: for piecewise
constant propensities, and for reactions with differential equations. No p-value may be below 1e-5 divided by
the number of tests:

- X -> Y after d, consuming: X is binomial with exp(-k t), Y with 1 - exp(-k (t - d));
- -> B after d: Poisson with mean k (t - d); G -> G + M after d, M -> at once: Poisson with mean
  k / g (1 - exp(-g (t - d))); births from 0 on, removed at their end by a chance of their own;
- Z -> W after d by a constant propensity, changing at its end: W is min(Z0, Poisson with mean k (t - d));
- I -> J after an exponential delay: that of an intermediate species, a binomial distribution;
- D -> E after 0: as without a delay; L -> V after a time beyond the end: V remains 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.stats as st
from outcome import Outcome, goodness, verdict

import tauslab as ts

TIMES = (0.25, 0.75, 1.75, 2.0, 3.5, 5.0, 9.0)
ALARM = 1e-5  # of all tests together


def network(*, flows: bool = False) -> ts.Network:
    """Network of all delayed reactions; with `flows` an equation stands beside them."""
    net = ts.Network("delays")
    starts = {"X": 30, "Y": 0, "B": 0, "G": 1, "M": 0, "Z": 5, "W": 0, "I": 100, "J": 0}
    for name, amount in {**starts, "D": 40, "E": 0, "L": 50, "V": 0}.items():
        net.add_species(name, amount)
    net.add_reaction("X -> Y", rate=0.5, delay=2.0)
    net.add_reaction("-> B", rate=8, delay=3)
    net.add_reaction("G -> G + M", rate=10, delay=1.5)
    net.add_reaction("M ->", rate=1)
    net.add_reaction("Z -> W", law=0.7, delay=1, consuming=False)
    net.add_reaction("I -> J", rate=1, delay="exponential(0.8)")
    net.add_reaction("D -> E", rate=0.3, delay=0)
    net.add_reaction("L -> V", rate=0.2, delay=1000)
    if flows:
        net.add_species("v", 0)
        net.add_rate("v", 1)
    return net


def laws(t: float) -> Iterator[tuple[str, Any, int]]:
    """Species, its distribution at time `t`, and a count from which all are one bin (0: none)."""
    yield "X", st.binom(30, np.exp(-0.5 * t)), 0
    yield "Y", st.binom(30, -np.expm1(-0.5 * max(0.0, t - 2))), 0
    yield "B", st.poisson(8 * max(0.0, t - 3)), 0
    yield "M", st.poisson(-10 * np.expm1(-max(0.0, t - 1.5))), 0
    yield "W", st.poisson(0.7 * max(0.0, t - 1)), 5
    yield "J", st.binom(100, 1 - (np.exp(-0.8 * t) - 0.8 * np.exp(-t)) / 0.2), 0
    yield "E", st.binom(40, -np.expm1(-0.3 * t)), 0
    yield "V", st.binom(50, 0.0), 0
    yield "L", st.binom(50, np.exp(-0.2 * t)), 0


def p_value(found: Any, law: Any, most: int = 0) -> float:
    """P-value of counts against probabilities; 0 for an impossible count. From `most` on all are one cell."""
    top = most or int(max(found.max(), law.ppf(1 - 1e-12))) + 1
    expected = np.append(law.pmf(np.arange(top)), law.sf(top - 1))
    return goodness(np.bincount(np.minimum(found, top), minlength=top + 1), expected, 5.0).p_value


def p_values(
    n: int, device: Any, *, flows: bool = False, seed: int = 1, selector: Any = None
) -> dict[tuple[str, float], float]:
    """P-value of every species at every time."""
    result = ts.run(
        network(flows=flows), n=n, times=TIMES, seed=seed, device=device, record="trajectories",
        method=ts.SSA(selector=selector),
    )  # fmt: skip
    collected = {}
    for k, t in enumerate(TIMES):
        for name, law, most in laws(t):
            collected[name, t] = p_value(result.counts(name)[:, k], law, most)
    return collected


def run(given: Any) -> Outcome:
    """Test all distributions by both kernels."""
    rows = []
    for flows in (False, True):
        result = p_values(given.n, given.device, flows=flows, seed=given.seed)
        kernel, level = "ssa_flow" if flows else "ssa_events", ALARM / (2 * len(result))
        rows += [[kernel, name, f"{t:g}", f"{p:.2g}", verdict(good=p >= level)]
                 for (name, t), p in result.items()]  # fmt: skip
    about = f"{given.n} trajectories, seed {given.seed}, {given.device}. A row passes with p >= {level:.1g}."
    columns = {
        "kernel": "`ssa_events`: constant propensities; `ssa_flow`: with differential equations",
        "species": "species of the network in `validate_delays.py`",
        "t": "sample time",
        "p": "p-value of the chi-square test",
        "verdict": "pass or FAIL",
    }
    return Outcome("Delayed reactions", about, columns, rows)
