"""``delay(x, d)`` by `ssa`, compared with an independent simulator.

The simulator shares no code with tauslab: it stores all states with their times, looks up past
states, and draws a new waiting time whenever a delayed value changes, by Python's `random`. Means and
variances of all species at six times are compared, for models with

- feedback: production at the rate a / (1 + X(t - tau) / K), removal;
- pairs: three delays of two species, steps of two molecules, a rule with a product of delayed values;
- long: a delay of most of the run.

No difference may have a p-value below 1e-4 divided by the number of tests (normal distribution).
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats as st
from outcome import Outcome, verdict

import tauslab as ts

TIMES = (0.5, 1.0, 2.0, 3.5, 6.0, 9.0)
ALARM = 1e-4  # of all tests together
Past = Callable[[str, float], float]  # species, how long ago


@dataclass(frozen=True)
class Model:
    """A model for both: its network, and its reactions as Python.

    `reactions` are pairs of changes and a rate law of the state and its past; `delays` are all that
    the rate laws look back by.
    """

    network: ts.Network
    initial: Mapping[str, int]
    delays: Sequence[float]
    reactions: Sequence[tuple[Mapping[str, int], Callable[[Mapping[str, int], Past], float]]]


def feedback(tau: float = 2.0) -> Model:
    """Production that is repressed by what was a delay ago."""
    net = ts.Network("feedback")
    net.add_species("X", 5)
    for name, value in {"tau": tau, "a": 40.0, "K": 8.0}.items():
        net.add_parameter(name, value)
    net.add_reaction("-> X", law="a / (1 + delay(X, tau) / K)")
    net.add_reaction("X ->", rate=1)
    return Model(
        net,
        {"X": 5},
        [tau],
        [
            ({"X": 1}, lambda _, past: 40 / (1 + past("X", tau) / 8)),
            ({"X": -1}, lambda x, _: float(x["X"])),
        ],
    )


def pairs() -> Model:
    """Steps of two, and a rule that multiplies pasts by two delays."""
    net = ts.Network("pairs")
    net.add_species("X", 20)
    net.add_species("Y", 3)
    net.add_rule("both", "delay(X, 0.7) * delay(Y, 1.3)")
    net.add_reaction("-> 2 X", law="60 / (1 + both / 50)")
    net.add_reaction("2 X ->", rate=0.02)
    net.add_reaction("X -> X + Y", law="0.2 * delay(X, 2.1)")
    net.add_reaction("Y ->", law="0.5 * Y")

    def made(_: Mapping[str, int], past: Past) -> float:
        return 60 / (1 + past("X", 0.7) * past("Y", 1.3) / 50)

    return Model(
        net,
        {"X": 20, "Y": 3},
        [0.7, 1.3, 2.1],
        [
            ({"X": 2}, made),
            ({"X": -2}, lambda x, _: 0.02 * x["X"] * (x["X"] - 1) / 2),
            ({"Y": 1}, lambda _, past: 0.2 * past("X", 2.1)),
            ({"Y": -1}, lambda x, _: 0.5 * x["Y"]),
        ],
    )


MODELS: dict[str, Callable[[], Model]] = {
    "feedback": feedback,
    "pairs": pairs,
    "long": lambda: feedback(7.0),
}


def plain(model: Model, times: Sequence[float], draw: random.Random) -> list[dict[str, int]]:
    """The state at each time of one trajectory of the plain loop."""
    t, state = 0.0, dict(model.initial)
    when, states = [0.0], [dict(state)]  # the whole path
    samples: list[dict[str, int]] = []
    while len(samples) < len(times):

        def past(name: str, ago: float, now: float = t) -> float:
            # A change at s is seen from s + ago on, as that sum is rounded.
            place = bisect.bisect_right(when, now, key=lambda s: s + ago) - 1
            return states[max(place, 0)][name]

        laws = [law(state, past) for _, law in model.reactions]
        total = sum(laws)
        stop = math.inf  # when the next change of the past comes due
        for ago in model.delays:
            place = bisect.bisect_right([moment + ago for moment in when], t)
            if place < len(when):
                stop = min(stop, when[place] + ago)
        then = t + draw.expovariate(total) if total > 0 else math.inf
        reacts = then < stop
        then = min(then, stop)
        while len(samples) < len(times) and times[len(samples)] < then:
            samples.append(dict(state))
        t = then
        if reacts:
            chosen = draw.choices(range(len(laws)), laws)[0]
            for name, by in model.reactions[chosen][0].items():
                state[name] += by
            when.append(t)
            states.append(dict(state))
    return samples


def differences(model: Model, n: int, plain_n: int, device: Any, seed: int) -> dict[str, float]:
    """Z of each mean and variance at each time, by species and time."""
    draw = random.Random(seed)  # noqa: S311 - a simulation
    paths = [plain(model, TIMES, draw) for _ in range(plain_n)]
    result = ts.run(
        model.network, n=n, times=TIMES, seed=seed, device=device, record="trajectories"
    )
    collected = {}
    for name in model.initial:
        local = result.counts(name).astype(float)
        there = np.array([[at[name] for at in path] for path in paths], float)
        for k, t in enumerate(TIMES):
            one, other = moments(local[:, k]), moments(there[:, k])
            for what, a, b in zip(("mean", "variance"), one, other, strict=True):
                wide = math.hypot(a[1], b[1])
                collected[f"{what} of {name} at {t:g}"] = (a[0] - b[0]) / wide if wide else 0.0
    return collected


def moments(values: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean and variance of a sample, each with its standard error."""
    n, variance = len(values), float(np.var(values, ddof=1))
    fourth = float(np.mean((values - values.mean()) ** 4))
    spread = math.sqrt(max(fourth - variance**2 * (n - 3) / (n - 1), 0.0) / n)
    return (float(values.mean()), math.sqrt(variance / n)), (variance, spread)


def run(given: Any) -> Outcome:
    """Compare all models."""
    rows = []
    for name, make in MODELS.items():
        result = differences(make(), given.n, given.exact, given.device, given.seed)
        bound = st.norm.isf(ALARM / (2 * len(result) * len(MODELS)))
        rows += [
            [name, what, f"{z:.2f}", verdict(good=abs(z) <= bound)] for what, z in result.items()
        ]
    about = (
        f"{given.n} trajectories, {given.exact} of the simulator, seed {given.seed}, {given.device}. A row "
        f"passes with at most {bound:.2f} standard errors."
    )
    columns = {
        "model": "network, in `validate_pasts.py`",
        "of": "mean or variance of a species at a time",
        "z": "difference in standard errors",
        "verdict": "pass or FAIL",
    }
    return Outcome("Delays in formulas", about, columns, rows)
