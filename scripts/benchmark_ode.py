"""ODE ensembles of the dynamic Bayesian network paper: layouts, predictions and seconds.

    python scripts/benchmark_ode.py --device cuda --scale 0.01 -o docs/benchmarks/h200-ode

EGF-NGF (BIOMD0000000033) with 3e6 trajectories of 1e4 Runge-Kutta steps, the segmentation clock
(201) with 3e6 of 5e4, and thrombin (088) with 3e4 of 2e6, in single precision, with 100 samples of
every variable left in device memory. Some parameters are drawn for each trajectory, uniformly
within a fifth. `--scale` shortens every trajectory, so that the device is as full as in the whole
run; seconds of the whole run are in proportion. Each layout is measured: one trajectory per thread,
and its equations over 2 to 16 warps, those with the best predictions; all must give the same bits.
Trajectories that end in a NaN are counted: a table with any measures less than it says. Writes a
CSV file and a Markdown table, beside them the seconds that the paper measured on a Tesla S2050
(Hagiescu and others, ACM TACO 10(4):55, 2013).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.kernels.backends import Backend, BackendOptions, get_backend
from tauslab.kernels.ode import Ode, OdeSettings
from tauslab.kernels.ode_choice import Choice, Wishes, choices
from tauslab.kernels.ode_lowering import OdeSystem, lower_ode
from tauslab.kernels.ode_sampling import Prior, Priors
from tauslab.kernels.ssa import WORK, Launch, SampleBuffers
from tauslab.model.network import Network
from tauslab.model.sbml import read_sbml

DATA = Path(__file__).parent.parent / "tests" / "data" / "sbml"
POINTS = 100
LAUNCH_BYTES = 4 << 30
COLUMNS = ("model", "layout", "warps", "trajectories", "steps", "predicted", "seconds", "failed",
           "whole run", "paper", "digest")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A run of the paper: trajectories, steps of each, duration of a step, seconds it took."""

    name: str
    file: str
    trajectories: int
    steps: int
    step: float
    paper: float


CASES = (
    Case("EGF-NGF", "BIOMD0000000033", 3_000_000, 10_000, 0.005, 157.0),
    Case("segmentation clock", "BIOMD0000000201", 3_000_000, 50_000, 0.002, 403.0),
    Case("thrombin", "BIOMD0000000088", 30_000, 2_000_000, 0.0002, 4596.0),
)


def main() -> None:
    """Measure, print and write."""
    arguments = _parser().parse_args()
    backend = get_backend(arguments.device, BackendOptions(threads=arguments.threads))
    rows = []
    for case in CASES:
        if arguments.model in ("all", case.name):
            for row in measure(case, backend, arguments):
                print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
                rows.append(row)
    backend.close()
    if arguments.output is not None:
        write(rows, arguments.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--model", choices=("all", *(c.name for c in CASES)), default="all")
    parser.add_argument("--scale", type=float, default=0.01, help="share of the steps")
    parser.add_argument("--trajectories", type=int, help="in place of the paper's")
    parser.add_argument("--unknown", type=int, default=20, help="parameters that are drawn")
    parser.add_argument("--precision", choices=("single", "double"), default="single")
    parser.add_argument("--layouts", type=int, default=6, help="spread layouts to measure")
    parser.add_argument("-o", "--output", type=Path, help="stem of the CSV and the table")
    return parser


def equations(case: Case, unknown: int) -> tuple[OdeSystem, Priors]:
    """The model with its first parameters unknown, compartments and zeros left out."""
    network = read_sbml(DATA / f"{case.file}.xml")
    assert isinstance(network, Network)
    values = network.parameter_values()
    sizes = {species.compartment for species in network.species.values()}
    names = [n for n, v in values.items() if v != 0 and n not in sizes][:unknown]
    priors = tuple(Prior(n, "uniform", 0.8 * values[n], 0.4 * values[n]) for n in names)
    variables = lower_ode(network, parameters=values).variables
    system = lower_ode(network, parameters=values, varying=names, recorded=variables)
    return system, Priors(priors)


def measure(case: Case, backend: Backend, arguments: Any) -> Iterator[dict[str, Any]]:
    """A row for every layout that the device has."""
    system, priors = equations(case, arguments.unknown)
    total = arguments.trajectories or case.trajectories
    substeps = max(1, round(case.steps * arguments.scale / POINTS))
    settings = OdeSettings("rk4", substeps=substeps, precision=arguments.precision)
    duration = case.step * substeps
    times = [duration * k for k in range(1, POINTS + 1)]
    found = choices(system, Wishes(arguments.precision))
    layouts: list[Choice | None] = [None]
    if backend.style.warps:
        spread = [choice for choice in found if choice.warps > 1][: arguments.layouts]
        layouts = [next(c for c in found if c.warps == 1), *spread]
    digests = set()
    for choice in layouts:
        engine = Ode(backend, system, times, settings, priors=priors, wide=False, choice=choice)
        seconds, failed, digest = run(engine, total)
        digests.add(digest)
        whole = seconds * case.steps / (substeps * POINTS)
        yield {
            "model": case.name,
            "layout": "thread" if choice is None else choice.name,
            "warps": 1 if choice is None else choice.warps,
            "trajectories": total,
            "steps": substeps * POINTS,
            "predicted": "" if choice is None else f"{choice.cost:.4g}",
            "seconds": f"{seconds:.4g}",
            "failed": failed,
            "whole run": f"{whole * case.trajectories / total:.4g}",
            "paper": f"{case.paper:g}",
            "digest": digest[:12],
        }
    if len(digests) != 1:
        raise SystemExit(f"{case.name}: layouts differ in their bits")


def run(engine: Ode, total: int) -> tuple[float, int, str]:
    """Device seconds after a launch that warms up; how many of the last launch failed; digest."""
    backend = engine.backend
    width = POINTS * len(engine.system.quantities) * engine.sample_dtype.itemsize
    room = min(LAUNCH_BYTES, backend.free_memory() // 2) // width
    rows = max(1, min(total, room))
    shape = (POINTS, len(engine.system.quantities), rows)
    buffers = SampleBuffers(
        counts=None,
        observables=backend.empty(shape, engine.sample_dtype),
        final=None,
        status=backend.empty((rows,), np.uint8),
        row_counter=backend.empty((1,), np.uint64),
        work=backend.empty((len(WORK),), np.uint64),
        scratch=engine.scratch(rows),
    )
    inputs = backend.upload(np.zeros((1, max(1, len(engine.system.inputs)))))
    stream = backend.stream()
    engine.start_columns(Launch(0, min(rows, 1024), None, inputs), buffers, stream, seed=1)
    digest = _digest(engine, buffers, stream, shape)
    begun = stream.record()
    for first in range(0, total, rows):
        part = Launch(first, min(rows, total - first), None, inputs)
        engine.start_columns(part, buffers, stream, seed=1)
    done = stream.record()
    done.wait()
    status = backend.mirror(buffers.status)
    backend.download(buffers.status, status, rows, stream)
    stream.record().wait()
    failed = int(np.count_nonzero(status[: total - first]))
    return done.seconds_since(begun), failed, digest


def _digest(engine: Ode, buffers: SampleBuffers, stream: Any, shape: tuple[int, ...]) -> str:
    """Of the samples of the first launch, as they lie at the start of the buffer."""
    mirror = engine.backend.mirror(buffers.observables)
    engine.backend.download(buffers.observables, mirror, shape[0], stream)
    stream.record().wait()
    taken = shape[0] * shape[1] * min(shape[2], 1024)
    return hashlib.sha256(np.ascontiguousarray(mirror).reshape(-1)[:taken].tobytes()).hexdigest()


def write(rows: list[dict[str, Any]], stem: Path) -> None:
    """A CSV file and a Markdown table."""
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"| {' | '.join(COLUMNS[:-1])} |", "|---" * (len(COLUMNS) - 1) + "|"]
    lines += [f"| {' | '.join(str(row[key]) for key in COLUMNS[:-1])} |" for row in rows]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
