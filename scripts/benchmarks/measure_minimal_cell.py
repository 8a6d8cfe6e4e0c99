"""Seconds of a biological second of examples/minimal_cell.py, and the share of each part.

python scripts/benchmarks/measure_minimal_cell.py --seconds 80 --device cuda
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from measure_hybrids import timed
from minimal_cell import SMALL, Cell, Size  # type: ignore[import-not-found]

from tauslab.analysis.hybrids.driver import HybridRun


class EnoughError(Exception):
    """The time is over."""


def measure(*, small: bool, device: str, seconds: float) -> None:
    """Run for some seconds after the first biological second, and print a table."""
    began = time.perf_counter()
    size = SMALL if small else Size()
    cell = Cell(size).hybrid()
    modelled = time.perf_counter()
    with timed() as clock:
        run = HybridRun(
            cell, n=1, seed=1, t_end=6300.0, splitting="strang", device=device
        )  # fmt: skip
        built = time.perf_counter()
        rounds: list[tuple[float, dict[str, float]]] = []

        def look(_: HybridRun, last: bool) -> None:  # noqa: ARG001, FBT001
            rounds.append((time.perf_counter(), dict(clock.parts)))
            if rounds[-1][0] - rounds[0][0] > seconds:
                raise EnoughError

        try:
            run.run(look)
        except EnoughError:
            pass
        finally:
            run.close()
    (first, few), (last, many) = rounds[0], rounds[-1]
    ran = (len(rounds) - 1) * size.every
    print(f"model {modelled - began:.2f} s, build {built - modelled:.2f} s, "
          f"first exchange {first - built:.2f} s")  # fmt: skip
    print(f"{ran:g} biological seconds: {(last - first) / ran:.4f} s for each")
    parts = {name: (many[name] - few[name]) / ran for name in many}
    for name, each in {**parts, "glue": (last - first) / ran - sum(parts.values())}.items():
        print(f"  {name:12} {each:.4f} s  {each * ran / (last - first):.1%}")


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--small", action="store_true")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--seconds", type=float, default=60.0)
    given = asked.parse_args()
    measure(small=given.small, device=given.device, seconds=given.seconds)
