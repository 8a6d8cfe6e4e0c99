"""Exact simulation by this source beside that of other commits, in turns on one core.

    mkdir /tmp/old && git archive COMMIT src | tar x -C /tmp/old
    taskset -c 1 python scripts/benchmarks/benchmark_before.py --other /tmp/old/src

Each source has a process of its own, which stays. A round runs every source once, in an order that
turns round each time; a run takes about `--seconds`, and its CPU time counts, not that of others. The
table has the medians of `--rounds` rounds of the ratio other / this: above 1 this source is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
MODELS = Path(__file__).parents[2] / "tests/data/sbml"

# Networks in Python: reactions as equation, and rate or law.
NETWORKS: dict[str, Any] = {
    "schlogl": "schlogl.xml",
    "lotka_volterra": "lotka_volterra.xml",
    "vilar_oscillator": "vilar_oscillator.xml",
    "toggle_switch": "toggle_switch.xml",
    "enzyme, rational": [("S -> P", "900 * S / (10 + S)"), ("P -> S", "300 * P / (20 + P)")],
    "repressed, rational": [("-> S", "40 / (1 + S * S / 400)"), ("S ->", "0.5 * S")],
    "birth and death": [("-> S", 40.0), ("S ->", 0.5)],
}
TIMES = [0.0, 2.5, 5.0, 7.5, 10.0]


def network(name: str) -> Any:
    """A model for the source whose process this is."""
    import tauslab as ts

    made = NETWORKS[name]
    if isinstance(made, str):
        return ts.read(MODELS / made)
    net = ts.Network(name.split(",", maxsplit=1)[0].replace(" ", "_"))
    net.add_species("S", 200)
    net.add_species("P", 100)
    for equation, rate in made:
        if isinstance(rate, str):
            net.add_reaction(equation, law=rate)
        else:
            net.add_reaction(equation, rate=rate)
    return net


def serve() -> None:
    """Run what stands in each line, and answer with the CPU seconds that it took."""
    import tauslab as ts

    for line in sys.stdin:
        name, n = json.loads(line)
        net = network(name)
        before = time.process_time()
        result = ts.run(
            net, n=n, times=TIMES, seed=1, device=ts.CPU(threads=1), record="final"
        )  # fmt: skip
        spent = time.process_time() - before
        total = sum(int(result.final(one).astype("i8").sum()) for one in result.species)
        print(json.dumps([spent, total, ts.__file__]), flush=True)


class Source:
    """A process with another source of tauslab."""

    def __init__(self, path: Path) -> None:
        self._path = path
        environment = {**os.environ, "PYTHONPATH": str(path)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def seconds(self, name: str, n: int) -> tuple[float, int]:
        """CPU seconds of a run, and the sum of all counts at its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, n]) + "\n")
        self._process.stdin.flush()
        spent, total, file = json.loads(self._process.stdout.readline())
        assert Path(file).is_relative_to(self._path), f"{file} is not of {self._path}"
        return spent, total

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--other", type=Path, action="append", default=[], help="folder src")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--models", nargs="*", default=list(NETWORKS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    paths = [SOURCE, *options.other]
    sources = [Source(path.resolve()) for path in paths]
    print("| model | trajectories | " + " | ".join(str(path) for path in options.other) + " |")
    print("|---|---|" + "---|" * len(options.other))
    for name in options.models:
        n = 1000
        for source in sources:
            source.seconds(name, 10)  # compiles
        while (spent := sources[0].seconds(name, n)[0]) < options.seconds / 2:
            n = int(n * min(100, max(2, options.seconds / max(spent, 0.01))))
        ratios: list[list[float]] = [[] for _ in options.other]
        for k in range(options.rounds):
            turn = list(range(len(sources)))
            found = {i: sources[i].seconds(name, n) for i in (turn if k % 2 else turn[::-1])}
            assert len({total for _, total in found.values()}) == 1, "results differ"
            for i, ratio in enumerate(ratios, 1):
                ratio.append(found[i][0] / found[0][0])
        cells = [f"{statistics.median(one):.3f} ({_spread(one)})" for one in ratios]
        print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)
    for source in sources:
        source.close()


def _spread(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main()
