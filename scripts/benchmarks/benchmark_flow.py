"""CPU seconds of exact trajectories, with and without events, of two versions of this program.

    git worktree add /tmp/before COMMIT
    python scripts/benchmarks/benchmark_flow.py /tmp/before/src src --rounds 9

Models: a row of species without events, by mass action and by laws; a volume that grows and is halved by a trigger on it; a drug by a rate rule with triggers on
the drug, on counts and on the time; triggers on counts alone beside a rate rule; a trigger on a
concentration, which is not linear in the volume. Versions take turns in processes of their own, on
one core; user seconds without compiling. The median over the rounds of the ratio of the first
version's seconds to each other one's, of the same round, is given: above 1, the other is faster.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tauslab as ts


def growing(trigger: str) -> ts.Network:
    """A volume that grows; its event halves it."""
    import tauslab as ts

    net = ts.Network("growing")
    net.add_species("V", 1.0, fixed=True)
    net.add_rate("V", "0.1 * V")
    net.add_species("X", 20)
    net.add_reaction("-> X", law="10 * V")
    net.add_reaction("X ->", rate=0.5)
    net.add_event("divide", trigger=trigger, assignments={"V": "V / 2", "X": "X / 2"})
    return net


def drug() -> ts.Network:
    """A drug that six species read, with three triggers."""
    import tauslab as ts

    net = ts.Network("drug")
    net.add_species("D", 0, fixed=True)
    net.add_rate("D", "3 - 0.4 * D")
    net.add_species("k", 1, fixed=True)
    for i in range(6):
        net.add_species(f"X{i}", 20)
        net.add_reaction(f"-> X{i}", law="4 * k")
        net.add_reaction(f"X{i} ->", law=f"0.1 * X{i} * (1 + D)")
    net.add_event("high", trigger="D > 5", assignments={"k": 2})
    net.add_event("low", trigger="X0 < 5 && time > 10", assignments={"k": 1, "X0": "X0 + 10"})
    net.add_event("wash", trigger="time - 8 >= 0", assignments={"D": 0})
    return net


def counting() -> ts.Network:
    """A trigger on a count beside a rate rule."""
    import tauslab as ts

    net = ts.Network("counting")
    net.add_species("V", 1.0, fixed=True)
    net.add_rate("V", "0.1 * (3 - V)")
    net.add_species("X", 20)
    net.add_reaction("-> X", law="10 * V")
    net.add_reaction("X ->", rate=0.01)
    net.add_event("full", trigger="X >= 60", assignments={"X": 20})
    return net


def chain(law: str | None) -> ts.Network:
    """Twenty species in a row without events, by mass action or by a law."""
    import tauslab as ts

    net = ts.Network("chain")
    for i in range(20):
        net.add_species(f"S{i}", 100)
    net.add_reaction("-> S0", rate=100)
    for i in range(19):
        given: dict[str, Any] = {"rate": 1.0} if law is None else {"law": law.format(f"S{i}")}
        net.add_reaction(f"S{i} -> S{i + 1}", **given)
    net.add_reaction("S19 ->", rate=1.0)
    return net


MODELS: dict[str, Callable[[], ts.Network]] = {
    "chain": lambda: chain(None),
    "chain of laws": lambda: chain("150 * {0} / (50 + {0})"),
    "volume": lambda: growing("V >= 2"),
    "drug": drug,
    "count": counting,
    "concentration": lambda: growing("X / V < 200 && V > 2"),
}


def measure(name: str, trajectories: int) -> float:
    """User seconds of this process for one model."""
    import tauslab as ts

    network = MODELS[name]()
    options: dict[str, Any] = {
        "times": np.linspace(0, 40, 11),
        "seed": 1,
        "device": ts.CPU(threads=1),
        "quiet": True,
        "record": "trajectories",
    }
    ts.run(network, n=2, **options)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    ts.run(network, n=trajectories, **options)
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - start


def seconds_of(source: Path, name: str, trajectories: int) -> float:
    """The same by the package in a folder."""
    found = subprocess.run(
        [sys.executable, __file__, "--measure", name, "--trajectories", str(trajectories)],
        env={**os.environ, "PYTHONPATH": str(source.resolve())},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(found.stdout)


def main() -> int:
    """Compare versions, or measure one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sources", nargs="*", type=Path, help="folders with the package tauslab")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--trajectories", type=int, default=1000)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--measure", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure(options.measure, options.trajectories))
        return 0
    print("model", *options.sources, "ratios", sep=" | ")
    for name in options.models:
        rounds = [
            [seconds_of(source, name, options.trajectories) for source in options.sources]
            for _ in range(options.rounds)
        ]
        seconds = [statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios = [
            statistics.median(one[0] / one[k] for one in rounds)
            for k in range(1, len(options.sources))
        ]
        print(
            name,
            *(f"{s:.3f}" for s in seconds),
            *(f"{r:.3f}" for r in ratios),
            sep=" | ",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
