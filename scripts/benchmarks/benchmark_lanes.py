"""One CPU core: trajectories on its SIMD lanes against one at a time, in the same run.

    python scripts/benchmarks/benchmark_lanes.py -o docs/benchmarks/lanes.csv
    python scripts/benchmarks/benchmark_lanes.py --few -o docs/benchmarks/lanes-few.csv
    python scripts/benchmarks/benchmark_lanes.py --ode -o docs/benchmarks/lanes-ode.csv
    python scripts/benchmarks/benchmark_lanes.py --tau -o docs/benchmarks/lanes-tau.csv

Events of a call of `ts.run` and seconds of the processor that the process took for it, with
compiled kernels, 101 samples and one thread that is pinned to a core. The forms of the kernel take
turns, and the median of the repeats counts. `avx2` is compiled without AVX-512. A row also tells
whether all forms gave the same counts; the program exits with 1 if not.

`--few` tells from how many trajectories a thread on which form is faster. `--ode` measures
ensembles of equations, of which up to four parameters are drawn within a fifth of their values:
thousands of steps a second. `--tau` measures leaping ensembles: thousands of leaps a second, of
which models with few molecules make exact events between leaps too.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.kernels.backends.compilers import cpu_features, host_compiler
from tauslab.kernels.exact import ssa
from tauslab.kernels.leaping import tau_leap
from tauslab.kernels.ode import engine
from tauslab.model.network.network import Network
from tauslab.model.readers.read import read_network
from tauslab.runner.cli.bench import chain, michaelis_menten

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
POINTS = 101
NEVER = 1 << 62
MADE = {"chain": chain, "enzyme": michaelis_menten}  # of `tauslab bench`


@dataclass(frozen=True)
class Case:
    """A model, the end of its time, a number of trajectories, and a solver of equations or none.

    `epsilon` is that of leaps, 0 for exact events; `values` are set, of parameters or species.
    """

    name: str
    t_end: float
    n: int = 1000
    solver: Literal["rk4", "dopri5", "rosenbrock"] | None = None
    epsilon: float = 0.0
    values: dict[str, float] = field(default_factory=dict)

    def model(self) -> Network:
        """Read it."""
        if self.name in MADE:
            return MADE[self.name]()
        folder = DATA / ("net" if self.name.endswith(".net") else "sbml")
        return read_network(
            folder / self.name if folder.name == "net" else folder / f"{self.name}.xml"
        )


CASES = (
    Case("schlogl", 10.0),
    Case("vilar_oscillator", 50.0),
    Case("dimer_decay", 10.0),
    Case("michaelis_menten", 50.0, 10_000),
    Case("heat_shock_mass_action", 0.5),
    Case("lac_two_state", 100.0),
    Case("lotka_volterra", 10.0),
    Case("toggle_switch", 1000.0),
    Case("motor.net", 1.0),
)
ODE_CASES = (
    Case("BIOMD0000000012", 100.0, 4000, "dopri5"),
    Case("BIOMD0000000012", 100.0, 4000, "rosenbrock"),
    Case("BIOMD0000000012", 100.0, 4000, "rk4"),
    Case("BIOMD0000000033", 60.0, 1000, "rosenbrock"),
    Case("BIOMD0000000088", 10.0, 500, "rosenbrock"),
    Case("BIOMD0000000201", 10.0, 4000, "dopri5"),
    Case("vilar_oscillator", 50.0, 1000, "rosenbrock"),
)
TAU_CASES = (
    Case("enzyme", 5.0, 20_000, None, 0.03, {"E": 750.0, "S": 1000.0}),
    Case("prokaryotic_gene_network", 50.0, 12_000, None, 0.03),
    Case("schlogl", 10.0, 4000, None, 0.03),
    Case("ras_camp_pka", 150.0, 32, None, 0.03),
    Case("chain", 10.0, 4000, None, 0.03),
)
FEW = (1, 2, 3, 4, 8, 16, 24, 32, 64, 256)
FEW_CASES = ("schlogl", "vilar_oscillator", "heat_shock_mass_action")


@dataclass(frozen=True)
class Form:
    """A kernel of exact SSA: on lanes or not, and flags for its compiler."""

    name: str
    lanes: bool
    flags: str = ""

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Runs within it use this form, from how many trajectories on that may be."""
        before = ssa.FEWEST_ON_LANES, engine.FEWEST_ON_LANES, tau_leap.FEWEST_ON_LANES
        os.environ["TAUSLAB_CXXFLAGS"] = self.flags
        fewest = 0 if self.lanes else NEVER
        ssa.FEWEST_ON_LANES = engine.FEWEST_ON_LANES = tau_leap.FEWEST_ON_LANES = fewest
        try:
            yield
        finally:
            ssa.FEWEST_ON_LANES, engine.FEWEST_ON_LANES, tau_leap.FEWEST_ON_LANES = before
            del os.environ["TAUSLAB_CXXFLAGS"]


NO_AVX512 = "-mno-avx512f"
FORMS = (Form("one", lanes=False), Form("lanes", lanes=True))
AVX2 = (Form("one avx2", False, NO_AVX512), Form("lanes avx2", True, NO_AVX512))


def timed(case: Case, n: int, form: Form, seed: int) -> tuple[float, int, npt.NDArray[np.generic]]:
    """Processor seconds, events, steps or leaps, and samples of a run."""
    model, how = case.model(), dict[str, Any]()
    times = np.linspace(0, case.t_end, POINTS)
    if case.solver:
        drawn = [item for item in model.parameter_values().items() if item[1] > 0][:4]
        sample = [f"{name}=uniform({0.8 * value},{1.2 * value})" for name, value in drawn]
        how = {"method": ts.ODE(solver=case.solver), "sample": sample}
    if case.epsilon:
        how = {"method": ts.TauLeaping(epsilon=case.epsilon), "set": case.values}
    with form.chosen(), warnings.catch_warnings(action="ignore"):
        begin = time.process_time()
        result = ts.run(model, n=n, times=times, seed=seed, device=ts.CPU(threads=1),
                        record="trajectories", **how)  # fmt: skip
        seconds = time.process_time() - begin
    events = int(np.sum(result.data[f"profile/{'leaps' if case.epsilon else 'events'}"][()]))
    return seconds, events, np.asarray(result.data["amounts" if case.solver else "counts"][()])


def measured(
    case: Case, n: int, forms: Sequence[Form], repeats: int
) -> tuple[dict[str, float], float, bool]:
    """Median of millions of events a second by form, events of a trajectory, and whether all agree."""
    rates: dict[str, list[float]] = {form.name: [] for form in forms}
    same, total = True, 0
    for form in forms:
        timed(case, min(n, 20), form, 1)
        timed(case, n, form, 1)  # with as many trajectories another kernel may be compiled
    for repeat in range(repeats):
        first = None
        for form in forms:
            seconds, events, counts = timed(case, n, form, repeat + 2)
            rates[form.name].append(
                events / seconds / (1e3 if case.solver or case.epsilon else 1e6)
            )
            first = counts if first is None else first
            same = same and np.array_equal(first, counts, equal_nan=bool(case.solver))
            total += events
    each = total / (repeats * len(forms) * n)
    return {name: statistics.median(found) for name, found in rates.items()}, each, same


def main() -> int:
    """Measure and write the table; 1 if two forms gave different counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--few", action="store_true", help="few trajectories a thread")
    parser.add_argument("--ode", action="store_true", help="equations")
    parser.add_argument("--tau", action="store_true", help="leaps")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=sorted({case.name for case in (*CASES, *ODE_CASES, *TAU_CASES)}),
    )
    parser.add_argument("--core", type=int, help="the core to use; by default the last allowed")
    parser.add_argument("-o", "--output", type=Path, default=Path("lanes.csv"))
    options = parser.parse_args()
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
    os.sched_setaffinity(0, {core})
    of_all = ODE_CASES if options.ode else TAU_CASES if options.tau else CASES
    wanted = options.models or (FEW_CASES if options.few else [case.name for case in of_all])
    cases = [case for case in of_all if case.name in wanted]
    has_avx512 = "avx512dq" in cpu_features()
    forms = FORMS if options.few or not has_avx512 else (*FORMS, *AVX2)
    unit, counted = ("k/s", "steps_each") if options.ode else ("M/s", "events_each")
    if options.tau:
        unit, counted = "k/s", "leaps_each"
    head = ["model", "t_end", "trajectories", counted, *(f"{f.name} {unit}" for f in forms)]
    table = [[*head, "gain", "same_counts"]]
    for case in cases:
        for n in FEW if options.few else (case.n,):
            rates, each, same = measured(case, n, forms, options.repeats)
            gain = rates["lanes"] / rates["one"]
            table.append([
                " ".join(filter(None, (case.name, case.solver))), f"{case.t_end:g}", str(n), f"{each:.0f}",
                *(f"{rate:.1f}" for rate in rates.values()), f"{gain:.2f}", str(same).lower(),
            ])  # fmt: skip
            print(*table[-1], flush=True)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# core {core} of {_processor()}, {platform.system()}; {host_compiler().version}; "
                   f"median of {options.repeats}\n")  # fmt: skip
        csv.writer(file, lineterminator="\n").writerows(table)
    return int(any(row[-1] == "false" for row in table))


def _processor() -> str:
    lines = cpu_features().splitlines()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "a CPU")


if __name__ == "__main__":
    sys.exit(main())
