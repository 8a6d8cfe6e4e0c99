"""Digests of numbers that the host computes before a kernel starts, a line each.

They must be the same on every machine: whatever the processor, and whichever of its implementations
NumPy picks for it. `machine_bits.py` prints them too.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.analysis.dbn.plan import rounded_range
from tauslab.kernels.leaping.estimate import leap_reach
from tauslab.kernels.network.lowering import lower
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import FUNCTIONS
from tauslab.model.lattice.diagnosis.time_step import choose_time_step
from tauslab.model.lattice.values import lattice_values
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.counts import round_counts
from tauslab.options.sampling import Sampling
from tauslab.options.sweep import Design, Range

sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "scripts" / "benchmarks"))
from generated_networks import random_network
from random_words import RandomWords
from synthetic_equations import synthetic_equations

FloatArray = npt.NDArray[np.float64]
Found = npt.ArrayLike

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, 1e300, -3.7)


def _functions() -> Found:
    """Every function of expressions, at special values and at others."""
    one = np.array([*SPECIAL, *np.linspace(-3.0, 40.0, 44).tolist()])
    a, b = (part.ravel() for part in np.meshgrid(one, one[:30]))
    where = np.arange(len(a)) % 3 == 0
    given = {1: (one,), 2: (a, b), 3: (where, a, b)}
    return np.concatenate([apply(name, *given[count]) for name, count in FUNCTIONS.items()])


def _numpy() -> Found:
    """What is taken from NumPy itself: sums, steps, quantiles, scaling, roundings."""
    x = RandomWords(3).log_uniform(1e-9, 1e9, 6000)
    cube = x.reshape(10, 20, 30)
    bins = np.arange(len(x)) % 7
    parts = [
        x.sum(), cube.sum(), cube.sum(axis=0), cube.sum(axis=2), cube[:, :3, :5].sum(axis=1),
        x[:, None].sum(axis=0), np.cumsum(x), np.bincount(bins, x), np.linspace(0, x[0], 1001),
        np.quantile(x, np.arange(1, 7) / 7), np.ldexp(x, 11), np.rint(x), np.sqrt(x), x**2,
        np.diff(x), np.add.reduceat(x, [0, 17, 4000]),
    ]  # fmt: skip
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def _ranges() -> Found:
    """Points of sweeps, ends of intervals."""
    ends = [(1e-3, 7.25), (0.5, 2.0**20), (3e-7, 11.0)]
    parts = np.linspace(0.0, 1.0, 40)
    points = [Range(kind, *end).at(parts) for kind in ("lin", "log") for end in ends]
    drawn = RandomWords(5).log_uniform(1e-300, 1e300, 400).reshape(-1, 2)
    rounded = [rounded_range(min(pair), max(pair)) for pair in drawn.tolist()]
    return np.concatenate([*points, np.ravel(rounded)])


def _middles() -> Found:
    """What stands for a distribution where one value is needed."""
    texts = [f"k{i}=lognormal(median={0.3 + i / 7!r},sigma=0.2)" for i in range(60)]
    texts += [f"u{i}=loguniform({0.1 + i!r},{30.5 + i * i!r})" for i in range(60)]
    return list(Sampling.parse(texts).typical().values())


def _reach() -> Found:
    """The host's copy of the step selection, which chooses between ssa and tau."""
    network = ts.Network("reach")
    network.add_species("A", 900)
    network.add_species("B", 40)
    network.add_reaction("A -> B", rate=0.3)
    network.add_reaction("A + B -> A + A", rate=0.01)
    network.add_reaction(
        "B ->", law="B ^ 1.3 / (7 + B ^ 1.3) + exp(-A / 300) + min(A, B) * cbrt(B)"
    )
    values = network.parameter_values()
    lowered = lower(
        network, parameters=values, counts=round_counts(network.initial_amounts(values))
    )
    states = RandomWords(9).below(np.full((60, 2), 1000))
    reach = leap_reach(lowered, states, np.zeros((60, 1)), 0.03)
    return np.concatenate([reach.total, reach.critical, reach.limit])


def _lattice() -> Found:
    """Rates, hops and passes of a lattice; its network without space."""
    lattice = ts.Lattice("host", shape=(7, 6, 11), spacing=3.1e-8, step=1e-4)
    lattice.add_species("A", "B")
    lattice.add_diffusion("A", 1.7e-12)
    lattice.add_diffusion("B", 3e-13)
    lattice.add_reaction("A + B ->", rate=3e7, unit="M^-1 s^-1", name="meet")
    lattice.add_reaction("A + A -> B", rate=1e6, unit="M^-1 s^-1", name="pair")
    lattice.place("A", count=3000)
    lattice.place("B", count=700)
    values = lattice_values(lattice)
    step = choose_time_step(lattice, values)
    numbers = [step.step, step.hop, step.diffusion_substeps, step.reaction_substeps]
    texts = [canonical_text(lattice.well_stirred(volume=v)) for v in ("lattice", "reachable")]
    letters = np.frombuffer("".join(texts).encode(), np.uint8)
    return np.concatenate([values.rates.ravel(), values.diffusion.ravel(), numbers, letters])


def _generated() -> Found:
    """Models that are drawn."""
    networks = [
        random_network(reactions=90, species=40, rates=(0.1, 9.0), seed=4),
        synthetic_equations(2, seed=3),
    ]
    return np.frombuffer("".join(map(canonical_text, networks)).encode(), np.uint8)


def _designs() -> Found:
    """Points that SciPy draws; another SciPy may draw others."""
    ranges = {"a": Range("lin", 1.0, 3.0), "b": Range("log", 1e-3, 7.0)}
    return np.concatenate([Design(kind, 33, ranges).draw(7).values for kind in ("sobol", "lhs")])


HOST: Mapping[str, Callable[[], Found]] = {
    "functions": _functions, "numpy": _numpy, "ranges": _ranges, "middles": _middles,
    "reach": _reach, "lattice": _lattice, "generated": _generated,
    "designs": _designs,
}  # fmt: skip


def host_lines() -> Iterator[tuple[str, str]]:
    """Name and SHA-256 of each; NaN are alike."""
    for name, compute in HOST.items():
        values = np.array(compute(), np.float64)
        values[np.isnan(values)] = np.nan
        yield name, hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()


if __name__ == "__main__":
    for told, digest in host_lines():
        print(f"{digest}  {told}")
