#!/usr/bin/env python3
"""Time the lattice engine: A + B <-> C, periodic, milliseconds a step, against Lattice Microbes.

``--case`` picks cases (for a profiler: ``ncu python scripts/lattice/benchmark_rdme.py --case 256-rare
--steps 4 --repeat 1``); the answer is JSON, a table on standard error. The figures of Lattice
Microbes 2.5 were measured on an H200 with the same lattices. Cases of examples are their lattices,
at one pass of hops and of reactions a step like all others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from lattice_cases import lattice_of

from tauslab import CPU
from tauslab.kernels.backends import BackendOptions, choose_backend, get_backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.model.lattice.lattice import Lattice
from tauslab.runner.api.lattice import run_on_lattice

SPACING, STEP = 32e-9, 1e-4
CUBE = (256, 256, 256)
HOPS = {"A": 0.15, "B": 0.10, "C": 0.05}
SHARES = {"A": 0.4, "B": 0.4, "C": 0.2}
PAIR, UNBIND = 7.8e-4, 1e-3  # probabilities in a step


@dataclass(frozen=True)
class Case:
    """One lattice; ms a step: `peer` by Lattice Microbes on one H200, `goal` is aimed at."""

    shape: tuple[int, int, int] = CUBE
    slots: int = 16
    fill: float = 0.10
    reactions: float = 1.0  # in the frequent case's probabilities
    cell: bool = False
    example: str = ""  # its file, in place of A + B <-> C
    goal: float | None = None
    peer: float | None = None


CASES = {
    "256-frequent": Case(goal=0.7, peer=6.86),
    "256-rare": Case(reactions=0.01, goal=0.7, peer=2.42),
    "256-none": Case(reactions=0, goal=0.7, peer=1.68),
    "256-fill2": Case(fill=0.02, goal=0.4, peer=2.67),
    "256-fill20": Case(fill=0.20),
    "256-fill30": Case(fill=0.30, goal=2.0, peer=60.7),
    "256-slots8": Case(slots=8, goal=0.5, peer=28.8),
    "128x128x256": Case(shape=(256, 128, 128), peer=4.04),
    "cell": Case(shape=(128, 64, 64), cell=True, goal=0.02),
    "64": Case(shape=(64, 64, 64)),
    "64x128x128": Case(shape=(64, 128, 128)),
    "minde": Case(example="minde.toml"),
    "cube": Case(example="michaelis_menten_cube.toml"),
    "ball": Case(example="isomerisation_ball.toml"),
    "lac": Case(example="lac_two_state.py"),
    "64-fill1": Case(shape=(64, 64, 64), fill=0.01),
    "64-fill2": Case(shape=(64, 64, 64), fill=0.02),
    "64-fill3": Case(shape=(64, 64, 64), fill=0.03),
    "128-few": Case(shape=(128, 128, 128), fill=0.003),
    "256-few": Case(fill=0.003),
}
CHOICES = {"auto": None, "yes": True, "no": False}


def pairs_model(case: Case) -> Lattice:
    """A + B <-> C everywhere."""
    model = Lattice(
        "pairs", shape=case.shape, spacing=SPACING, step=STEP, slots=case.slots,
        boundary="periodic",
    )  # fmt: skip
    sites = int(np.prod(case.shape))
    for name, hop in HOPS.items():
        model.add_species(name)
        model.add_diffusion(name, hop * SPACING**2 / STEP)
        model.place(name, count=round(sites * case.slots * case.fill * SHARES[name]))
    if case.reactions:
        bind = -np.log1p(-PAIR * case.reactions) / STEP
        unbind = -np.log1p(-UNBIND * case.reactions) / STEP
        model.add_reaction("A + B -> C", rate=bind, volume="site")
        model.add_reaction("C -> A + B", rate=unbind)
    return model


def _ellipsoid(
    shape: tuple[int, int, int], radii: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    grids = np.ogrid[tuple(slice(0, n) for n in shape)]
    squares = [
        ((grid - (n - 1) / 2) / r) ** 2 for grid, n, r in zip(grids, shape, radii, strict=True)
    ]
    return np.asarray(squares[0] + squares[1] + squares[2] <= 1)


def cell_model(case: Case) -> Lattice:
    """300 species in an ellipsoid that fills 6.4 % of the box; nothing leaves it."""
    model = Lattice("cell", shape=case.shape, spacing=SPACING, step=STEP, slots=case.slots)
    radii = np.array(case.shape) / 2 * (0.064 * 6 / np.pi) ** (1 / 3)
    model.add_site_type("medium")
    model.add_site_type("cell", _ellipsoid(case.shape, radii))
    names = [f"S{i}" for i in range(300)]
    model.add_species(*names)
    model.add_diffusion("*", 0.1 * SPACING**2 / STEP, within="cell")
    inside = int((model.site_array() == 1).sum())
    for i, name in enumerate(names):
        model.place(name, count=round(inside * case.slots * case.fill / 300), site_type="cell")
        model.add_reaction(f"{name} -> {names[(i + 1) % 300]}", rate=1e-3 / STEP, site_types="cell")
    return model


def lowered(case: Case) -> LoweredLattice:
    """The case's lattice with one pass of hops and of reactions in a step."""
    return lower_lattice(model_of(case), reaction_substeps=1)


def model_of(case: Case) -> Lattice:
    """The lattice of an example, the cell, or A + B <-> C."""
    if case.example:
        return lattice_of(case.example)
    return cell_model(case) if case.cell else pairs_model(case)


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Median milliseconds a step and replica over some repetitions, after the first steps."""
    case = CASES[name]
    backend = get_backend(choose_backend(options.device), BackendOptions(threads=options.threads))
    lattice = lowered(case)
    together = None if options.launches == "auto" else options.launches == "many"
    engines = [
        LatticeEngine(backend, lattice, seed=1, replica=number, together=together,
                      sharing=options.replicas, sparse=CHOICES[options.sparse], lines=CHOICES[options.lines])
        for number in range(options.replicas)
    ]  # fmt: skip
    engine = engines[0]
    for one in engines:
        one.load_start()
        one.run_sampled([options.warm])
    times = []
    for _ in range(options.repeat):
        _wait_for(engines)
        began = time.perf_counter()
        for one in engines:
            one.run(options.steps)
        _wait_for(engines)
        seconds = time.perf_counter() - began
        times.append(1e3 * seconds / options.steps / options.replicas)
    counted = engine.count()
    row: dict[str, object] = {
        "case": name, "replicas": options.replicas, "sparse": options.sparse,
        "lines": options.lines,
        "ms_per_step": statistics.median(times), "fastest": min(times),
        "goal": case.goal, "lattice_microbes": case.peer, "device": backend.describe(),
        "sites": int(np.prod(lattice.shape)), "particles": int(counted.counts.sum()),
        "fired": int(counted.fired.sum()), "spills": int(counted.spills[0]),
        "steps": engine.step,
    }  # fmt: skip
    backend.close()
    return row


def _wait_for(engines: list[LatticeEngine]) -> None:
    for engine in engines:
        engine.synchronize()


def output_cost(options: argparse.Namespace) -> dict[str, object]:
    """256^3 by the driver: counts every 10 steps and frames every 1000, against none.

    Seconds a step are those between the first 1000 steps and the last; `end` is what comes after
    it, when frames are waited for and the file is made. `cost` has both in it, `cost_of_steps` only
    the first. What comes before, placing 27 million particles, is the same in both.
    """
    model, kinds = pairs_model(CASES["256-frequent"]), ("none", "output")
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(options.output_repeat):
        for kind in kinds:
            seconds = driven(model, options, outputs=kind == "output")
            found[kind].append(seconds)
    each, end = (
        {kind: statistics.median(pair[i] for pair in found[kind]) for kind in kinds} for i in (0, 1)
    )
    whole = {kind: options.output_steps * each[kind] + end[kind] for kind in kinds}
    return {
        "case": "output", "steps": options.output_steps, "repeats": options.output_repeat,
        "cost": whole["output"] / whole["none"] - 1,
        "cost_of_steps": each["output"] / each["none"] - 1,
        "ms_per_step": {kind: 1e3 * seconds for kind, seconds in each.items()},
        "end_seconds": end, "runs": found,
    }  # fmt: skip


def driven(model: Lattice, options: argparse.Namespace, *, outputs: bool) -> tuple[float, float]:
    """Seconds of a step, with or without output, and of what follows the last."""
    steps, each, calls = options.output_steps, 1000, list[float]()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run_on_lattice(
            model, t_end=steps * STEP, seed=1,
            device=CPU(threads=options.threads) if options.device == "cpu" else options.device,
            count_every=10 if outputs else steps, frame_every=each if outputs else 0,
            hooks=[(each, lambda _: calls.append(time.perf_counter()))],
            output=Path(folder) / "out.h5",
        ).close()  # fmt: skip
        ended = time.perf_counter()
    return (calls[-1] - calls[0]) / (each * (len(calls) - 1)), ended - calls[-1]


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=[*CASES, "output"])
    parser.add_argument("--steps", type=int, default=200, help="timed at once")
    parser.add_argument("--warm", type=int, default=50, help="steps before")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--launches", choices=("auto", "one", "many"), default="auto",
                        help="a launch for each step, or many steps a launch")  # fmt: skip
    parser.add_argument("--sparse", choices=CHOICES, default="auto",
                        help="whether steps look for the sites that hold particles")  # fmt: skip
    parser.add_argument("--lines", choices=CHOICES, default="auto",
                        help="whether blocks keep lines of sites in a launch of many steps")  # fmt: skip
    parser.add_argument("--replicas", type=int, default=1, help="that take steps at a time")
    parser.add_argument("--output-steps", type=int, default=10_000, help="multiple of 1000")
    parser.add_argument("--output-repeat", type=int, default=3)
    parser.add_argument("--folder", help="where case `output` writes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="JSON file")
    options = parser.parse_args()
    rows = []
    for name in options.case or CASES:
        row = output_cost(options) if name == "output" else measure(name, options)
        rows.append(row)
        print(" ".join(f"{k}={v}" for k, v in row.items()), file=sys.stderr, flush=True)
    text = json.dumps(rows, indent=2)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
