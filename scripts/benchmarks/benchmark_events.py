"""Reactions per second of three models with events: this program, COPASI and GillesPy2.

    pip install --target /tmp/peers copasi-basico gillespy2 setuptools
    PYTHONPATH=/tmp/peers python scripts/benchmarks/benchmark_events.py -o docs/benchmarks/events.csv
    python scripts/benchmarks/benchmark_events.py --device cuda --trajectories 262144

Models: births and deaths with a dose and a wash-out at known times; a counter that a state event
empties at 100; a switch whose rate changes two units of time after a threshold is passed (delay).
COPASI runs its direct method, GillesPy2 its C++ hybrid solver with all species discrete, which is
the one of its solvers that has both a compiled core and events.

All programs run one trajectory after the other on one core, with eleven samples. Seconds are CPU
seconds of the process and its children, without reading the model and compiling, which a run before
has done; on a GPU those of kernels. Reactions are those that this program counts. The programs take
turns; the median of the turns is given. Means at the end are compared: a difference of more than
five standard errors ends the script with 1. Programs that are not installed are left out.
"""

from __future__ import annotations

import argparse
import csv
import resource
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts

POINTS = 11


@dataclass(frozen=True)
class Model:
    """A network, its end, and the species whose mean is compared."""

    name: str
    network: ts.Network
    t_end: float
    species: str


def dosed() -> ts.Network:
    """A dose at 3 and a wash-out at 6."""
    net = ts.Network("dosed")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=1000)
    net.add_reaction("X ->", rate=1)
    net.add_event("dose", trigger="time >= 3", assignments={"X": "X + 500"})
    net.add_event("wash", trigger="time >= 6", assignments={"X": 0})
    return net


def counter() -> ts.Network:
    """A counter that is emptied at 100, ten times a unit of time."""
    net = ts.Network("counter")
    net.add_species("X", 0)
    net.add_species("C", 0)
    net.add_reaction("-> X", rate=1000)
    net.add_event("full", trigger="X >= 100", assignments={"X": 0, "C": "C + 1"})
    return net


def late() -> ts.Network:
    """Births that become slower two units after 800 molecules were passed."""
    net = ts.Network("late")
    net.add_species("X", 0)
    net.add_species("k", 1000, fixed=True)
    net.add_reaction("-> X", law="k")
    net.add_reaction("X ->", rate=1)
    net.add_event("slower", trigger="X > 800", delay=2, assignments={"k": 250})
    return net


MODELS = (
    Model("doses", dosed(), 10.0, "X"),
    Model("counter", counter(), 10.0, "C"),
    Model("delay", late(), 10.0, "X"),
)


@dataclass(frozen=True)
class Timing:
    """CPU seconds of some trajectories, and the values at their end."""

    seconds: float
    values: np.ndarray[Any, np.dtype[np.float64]]


Runner = Callable[[int, int], Timing]  # trajectories, seed


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def with_tauslab(model: Model, method: Any, device: Any, reactions: dict[str, float]) -> Runner:
    """Tell `reactions` how many a trajectory of exact simulation has."""

    def run(n: int, seed: int) -> Timing:
        with tempfile.TemporaryDirectory() as folder:
            begin = cpu_seconds()
            result = ts.run(
                model.network, n=n, times=np.linspace(0, model.t_end, POINTS), seed=seed,
                method=method, device=ts.CPU(threads=1) if device == "cpu" else device, quiet=True,
                record="trajectories", output=Path(folder) / "run.h5",
            )  # fmt: skip
            seconds = cpu_seconds() - begin
            with result:
                values = result.counts(model.species)[:, -1].astype(np.float64)
                fired = float(np.sum(result.data["profile/events"][()]))
                kernels = float(np.sum(result.data["profile/compute"][()]))
        if method == "ssa":
            reactions.setdefault(model.name, fired / n)
        return Timing(kernels if device == "cuda" else seconds, values)

    return run


def with_copasi(model: Model) -> Runner:
    """COPASI's direct method, by basico."""
    basico: Any = import_module("basico")

    basico.load_model_from_string(model.network.to_sbml())

    def run(n: int, seed: int) -> Timing:
        values = []
        begin = cpu_seconds()
        for number in range(n):
            course = basico.run_time_course(
                duration=model.t_end, intervals=POINTS - 1, method="directMethod", use_seed=True,
                seed=seed * 1_000_003 + number, use_numbers=True,
            )  # fmt: skip
            values.append(float(course[model.species].iloc[-1]))
        return Timing(cpu_seconds() - begin, np.array(values))

    return run


def with_gillespy2(model: Model) -> Runner:
    """GillesPy2's compiled hybrid solver."""
    gillespy2: Any = import_module("gillespy2")

    twin = gillespy2.Model(name=model.name)
    fixed = [name for name, species in model.network.species.items() if species.fixed]
    for name, start in model.network.initial_amounts().items():
        if name in fixed:
            twin.add_parameter(gillespy2.Parameter(name=name, expression=start))
        else:
            twin.add_species(
                gillespy2.Species(name=name, initial_value=int(start), mode="discrete")
            )
    rates = {"birth": "k" if fixed else "1000", "death": "X"}
    reactions = [
        gillespy2.Reaction(name="birth", products={"X": 1}, propensity_function=rates["birth"])
    ]
    if len(model.network.reactions) > 1:
        reactions.append(
            gillespy2.Reaction(name="death", reactants={"X": 1}, propensity_function="X")
        )
    twin.add_reaction(reactions)
    twin.add_event(list(_gillespy2_events(gillespy2, model.name)))
    twin.timespan(gillespy2.TimeSpan.linspace(t=model.t_end, num_points=POINTS))
    solver = gillespy2.TauHybridCSolver(model=twin)

    def run(n: int, seed: int) -> Timing:
        begin = cpu_seconds()
        found = twin.run(solver=solver, number_of_trajectories=n, seed=seed)
        seconds = cpu_seconds() - begin
        return Timing(seconds, np.array([float(one[model.species][-1]) for one in found]))

    return run


def _gillespy2_events(module: Any, name: str) -> Iterator[Any]:
    def event(called: str, when: str, sets: dict[str, str], delay: str | None = None) -> Any:
        return module.Event(
            name=called, trigger=module.EventTrigger(expression=when), delay=delay,
            assignments=[module.EventAssignment(variable=v, expression=e) for v, e in sets.items()],
        )  # fmt: skip

    if name == "doses":
        yield event("dose", "t >= 3", {"X": "X + 500"})
        yield event("wash", "t >= 6", {"X": "0"})
    elif name == "counter":
        yield event("full", "X >= 100", {"X": "0", "C": "C + 1"})
    else:
        yield event("slower", "X > 800", {"k": "250"}, "2")


def main() -> int:
    """Time all programs; 1 if means disagree."""
    options = _arguments()
    warnings.simplefilter("ignore")
    rows: list[list[str]] = []
    agree = True
    for model in MODELS:
        reactions: dict[str, float] = {}
        runners: dict[str, tuple[Runner, int]] = {}
        for method in ("ssa", "tau"):
            runner = with_tauslab(model, method, options.device, reactions)
            runners[f"tauslab {method}"] = runner, options.trajectories
        makers: dict[str, tuple[Callable[[Model], Runner], int]] = {
            "COPASI direct": (with_copasi, options.copasi),
            "GillesPy2 hybrid C++": (with_gillespy2, options.gillespy2),
        }
        for name, (make, n) in makers.items() if options.device == "cpu" else ():
            try:
                runners[name] = make(model), n
            except ImportError as error:
                print(f"{name}: left out: {error}", flush=True)
        found: dict[str, list[Timing]] = {name: [] for name in runners}
        for run, _ in runners.values():
            run(2, 1)  # compiles
        for turn in range(options.turns):
            for name, (run, n) in runners.items():
                found[name].append(run(n, 2 + turn))
        fired = reactions[model.name]
        reference = np.concatenate([timing.values for timing in found["tauslab ssa"]])
        for name, timings in found.items():
            n = runners[name][1]
            seconds = statistics.median(timing.seconds for timing in timings) / n
            values = np.concatenate([timing.values for timing in timings])
            both = np.hypot(
                values.std() / len(values) ** 0.5, reference.std() / len(reference) ** 0.5
            )
            off = float((values.mean() - reference.mean()) / both) if both > 0 else 0.0
            agree &= abs(off) < 5 or name == "tauslab tau"
            rows.append([
                model.name, name, str(n), f"{fired:.0f}", f"{1e3 * seconds:.4g}",
                f"{fired / seconds:.3g}", f"{values.mean():.5g}", f"{off:+.1f}",
            ])  # fmt: skip
            print(" | ".join(rows[-1]), flush=True)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    head = (
        f"Median of {options.turns} turns, {_device(options.device)}; "
        "`scripts/benchmarks/benchmark_events.py` says what is timed.\n"
    )
    table = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows)]
    text = "\n".join(["# Models with events against other programs\n", head, *table])
    options.output.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    return 0 if agree else 1


def _device(device: str) -> str:
    return "one core of a CPU" if device == "cpu" else "one GPU, seconds of kernels"


COLUMNS = ("model", "program", "trajectories", "reactions", "ms a trajectory", "reactions/s",
           "mean at the end", "off by standard errors")  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--trajectories", type=int, default=3000, help="of this program")
    parser.add_argument("--copasi", type=int, default=100, help="trajectories of COPASI")
    parser.add_argument("--gillespy2", type=int, default=10, help="trajectories of GillesPy2")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("events.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
