"""Seconds of a biological second of examples/minimal_cell.py, and the share of each part.

    python scripts/benchmarks/measure_minimal_cell.py --seconds 80 --device cuda
    python scripts/benchmarks/measure_minimal_cell.py --area 1.998 --seconds 80 --device cuda
    python scripts/benchmarks/measure_minimal_cell.py --stirred 1000 --seconds 5 --device cuda

The second cell starts with twice the molecules, two chromosomes and nearly twice the area, and
divides after 12 s.
The third are so many cells without space.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "validation"))

from measure_hybrids import timed
from minimal_cell import BASES, SMALL, Cell, Size  # type: ignore[import-not-found]
from validate_stirred_cells import stirred

import tauslab as ts
from tauslab.analysis.hybrids.driver import HybridRun


class GrownCell(Cell):  # type: ignore[misc]
    """A cell before it divides: twice of all, with an area that is `area` times that at birth."""

    area: float  # nm^2

    def __init__(self, size: Size, area: float) -> None:
        twice = ("proteins", "ribosomes", "degradosomes", "polymerases", "trnas")
        super().__init__(replace(size, **{name: 2 * getattr(size, name) for name in twice}))
        self.grown = area * self.area  # nm^2

    def space(self) -> ts.Lattice:
        """Two balls that are nearly apart."""
        made: ts.Lattice = self._grown(super().space)
        return made

    def metabolism(self) -> ts.Network:
        """Lipids make up for what is not of proteins."""
        made: ts.Network = self._grown(super().metabolism)
        return made

    def _grown(self, make: Callable[[], Any]) -> Any:
        birth, self.area = self.area, self.grown
        made = make()
        self.area = birth
        return made

    def expression(self) -> ts.Network:
        """The chromosome is copied, and the volume has doubled."""
        net: ts.Network = super().expression()
        amounts: Any = net.species
        for name in self.pools:
            amounts[name] = round((1 + (name in BASES)) * 12.044e-4 * self.volume)
        amounts["to_do"], amounts["done"] = 0, self.size.genome
        return net


class EnoughError(Exception):
    """The time is over."""


def measure(*, small: bool, device: str, seconds: float, area: float | None, n: int | None) -> None:
    """Run for `seconds` of the clock after the first exchange, and print a table."""
    began = time.perf_counter()
    size = SMALL if small else Size()
    cell = Cell(size) if area is None else GrownCell(size, area)
    cell = cell.hybrid() if n is None else stirred(cell)
    modelled = time.perf_counter()
    with timed() as clock:
        run = HybridRun(
            cell, n=n or 1, seed=1, t_end=6300.0, splitting="strang", device=device
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
    if run.divider is not None and (at := round(run.divider.born[0] / size.every)):
        print(
            f"divided at {run.divider.born[0]:g} s, until which {rounds[at - 1][0] - first:.2f} s"
        )
    parts = {name: (many[name] - few[name]) / ran for name in many}
    for name, each in {**parts, "glue": (last - first) / ran - sum(parts.values())}.items():
        print(f"  {name:12} {each:.4f} s  {each * ran / (last - first):.1%}")


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--small", action="store_true")
    asked.add_argument("--area", type=float, help="start grown, with this area relative to birth")
    asked.add_argument("--stirred", type=int, metavar="N", help="cells without space")
    asked.add_argument("--device", default="auto")
    asked.add_argument("--seconds", type=float, default=60.0)
    given = asked.parse_args()
    measure(
        small=given.small,
        device=given.device,
        seconds=given.seconds,
        area=given.area,
        n=given.stirred,
    )
