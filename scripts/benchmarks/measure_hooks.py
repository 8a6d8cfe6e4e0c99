"""Verbs of hooks, and steps between hooks, of lattices in slots and in bit planes.

``python scripts/benchmarks/measure_hooks.py cpu 64``, or ``cuda 64 128``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tauslab as ts

STEP, SPACING = 1e-4, 32e-9
CALLS, EVERY = 5, 10
VERBS: dict[str, Callable[[Any, Any], object]] = {
    "counts": lambda view, _: (view.changed(), view.counts()),
    "relabel all": lambda view, _: view.relabel({"A": "B", "B": "A"}),
    "relabel at a mask": lambda view, where: view.relabel({"A": "B", "B": "A"}, where=where),
    "remove 100": lambda view, _: view.remove({"C": 100}),
    "place 100": lambda view, _: view.place({"C": 100}),
    "add 100": lambda view, _: view.add("C", np.argwhere(np.ones((5, 4, 5)))),
    "set_rate": lambda view, _: view.set_rate("bind", 1.0 + view.step % 2),
    "paint": lambda view, where: view.paint("gel", where=where),
    "particles": lambda view, _: view.particles.sum(),
}


def cell(size: int, fill: float) -> ts.Lattice:
    """A + B <-> C in two types of sites, with so many particles a site."""
    made = ts.Lattice(
        "cell", shape=(size, size, size), spacing=SPACING, step=STEP, boundary="periodic"
    )
    made.add_species("A", "B", "C")
    made.add_site_type("water")
    made.add_site_type("gel", np.indices(made.shape, np.int16)[2] < 3)
    made.add_diffusion("*", 0.1 * SPACING**2 / STEP)
    made.add_reaction("A + B -> C", rate=780, volume="site", name="bind")
    made.add_reaction("C -> A + B", rate=1000)
    for name, share in (("A", 0.4), ("B", 0.4), ("C", 0.2)):
        made.place(name, count=round(fill * share * size**3), site_type="water")
    return made


def seconds(model: ts.Lattice, engine: Any, place: Any) -> dict[str, float]:
    """Least seconds of each verb, and of a step with a hook that does nothing every ten."""
    result: dict[str, float] = {}
    began: list[float] = []

    def verbs(view: Any) -> None:
        where = np.indices(view.shape, np.int16)[2] % 7 < 3
        for name, act in VERBS.items():
            start = time.perf_counter()
            act(view, where)
            took = time.perf_counter() - start
            result[name] = min(took, result.get(name, took))

    def nothing(_: Any) -> None:
        began.append(time.perf_counter())

    for hook in (verbs, nothing):
        with ts.run(
            model, t_end=CALLS * EVERY * STEP, hooks=[(EVERY, hook)], engine=engine, seed=1,
            device=place, quiet=True, count_every=CALLS * EVERY,
        ):  # fmt: skip
            pass
    result["step"] = float(np.diff(began).min()) / EVERY
    return result


def main() -> None:
    """Print a table for each size and filling."""
    device, *sizes = sys.argv[1:]
    place = ts.CPU(threads=1) if device == "cpu" else device
    for size in map(int, sizes):
        for fill in (1.6, 0.16):
            model = cell(size, fill)
            slots, planes = (seconds(model, engine, place) for engine in ("slots", "planes"))
            print(f"{size}^3, {fill} a site, {device}: ms in slots, in planes, ratio")
            for name in slots:
                one, other = 1e3 * slots[name], 1e3 * planes[name]
                print(f"  {name:20}{one:10.3f}{other:10.3f}{one / other:8.2f}", flush=True)


if __name__ == "__main__":
    main()
