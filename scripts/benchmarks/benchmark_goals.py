"""The rows of the table of speeds that are aimed at: this source beside another, in turns, on one machine.

    mkdir /tmp/old && git archive COMMIT src | tar x -C /tmp/old
    python scripts/benchmarks/benchmark_goals.py --device cuda --against /tmp/old/src -o docs/benchmarks/h200-goals
    python scripts/benchmarks/benchmark_goals.py --device cpu --group cores

Each source has a process of its own, which stays. A round measures every row with each source, in an
order that turns round each time; medians of the rounds are told. What is timed has been compiled and warmed
up before. Rows of `start` begin a new process each time. Writes OUTPUT.json with all rounds and OUTPUT.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[2]
for folder in ("lattice", "ode"):
    sys.path.insert(1, str(ROOT / "scripts" / folder))
SOURCE = ROOT / "src"
MILLION = 1e6
Device = Literal["cpu", "cuda"]
ONE_CORE = ("schlogl", "vilar_oscillator", "dimer_decay", "michaelis_menten",
            "heat_shock_mass_action")  # fmt: skip
IMPORT_CUPY = "import cupy; cupy.zeros(3).sum().get()"


@dataclass(frozen=True)
class Goal:
    """A row: what it measures, in which unit, and what is aimed at; `more` is better, or less."""

    group: str
    about: str
    unit: str
    goal: float | None
    more: bool = False


GOALS = {
    "schlogl": Goal("exact", "Schlögl, 2^22, statistics", "10^11 events/s", 1.8, more=True),
    "schlogl-samples": Goal("exact", "Schlögl, 2^18, 100 samples kept", "s", 0.085),
    "birth-death": Goal("exact", "birth and death, 2^22", "10^11 events/s", 2.5, more=True),
    "michaelis-menten": Goal("exact", "Michaelis-Menten, 2^20", "10^11 events/s", 1.9, more=True),
    "vilar": Goal("exact", "Vilar's oscillator, 2^20", "10^11 events/s", 1.1, more=True),
    "chain": Goal("exact", "chain of 20 species, 2^18", "s", None),
    "tau-enzyme": Goal("leaps", "Michaelis-Menten, 2^18, epsilon 0.03", "ms", None),
    "tau-schlogl": Goal("leaps", "Schlögl, 2^18, epsilon 0.03", "ms", None),
    "tau-chain": Goal("leaps", "chain of 20 species, 2^18, epsilon 0.03", "ms", None),
    "tau-prokaryotic": Goal("leaps", "prokaryotic gene network, 2^18, epsilon 0.03", "ms", None),
    "tau-ras": Goal("leaps", "Ras/cAMP/PKA to t = 5, 4096, epsilon 0.03", "ms", None),
    "256-frequent": Goal("lattices", "256³, 16 slots, 10 % full, frequent reactions", "ms", 0.42),
    "256-rare": Goal("lattices", "the same, rates / 100", "ms", 0.36),
    "256-none": Goal("lattices", "the same, no reactions", "ms", 0.33),
    "256-fill2": Goal("lattices", "the same, 2 % full", "ms", 0.22),
    "256-slots8": Goal("lattices", "the same, 8 slots", "ms", 0.26),
    "256-fill30": Goal("lattices", "the same, 30 % full", "ms", 1.3),
    "64": Goal("small lattices", "64³, 10 % full", "us", 20),
    "minde": Goal("small lattices", "Min proteins, 32 x 32 x 128", "us", 8),
    "cell": Goal("small lattices", "cell of 300 species", "us", 10),
    "minde-run": Goal("replicas", "Min proteins by `ts.run`", "thousand steps/s", 100, more=True),
    "minde-32": Goal("replicas", "32 replicas of them", "thousand steps/s", 300, more=True),
    "egfr": Goal("networks", "egfr_net, 4096, to t = 10", "ns an event", 0.15),
    "bcr": Goal("networks", "BCR, 1024, to t = 20", "ns an event", 0.05),
    "chain-10000": Goal("networks", "cyclic chain of 10,000", "ns an event", 0.4),
    "colloidal": Goal("networks", "colloidal aggregation, N = 252", "ns an event", 1.0),
    "egf-ngf": Goal("equations", "EGF-NGF, 3e6 x 1e4 steps of RK4", "s", 0.6),
    "start-run": Goal("start", "`tauslab run`, 1,000 trajectories, warm", "s", 1.0),
    "start-cupy": Goal("start", f"`{IMPORT_CUPY}` alone", "s", None),
    "core-schlogl": Goal("cores", "one core, Schlögl", "10^6 events/s", 430, more=True),
    "core-vilar_oscillator": Goal("cores", "one core, Vilar", "10^6 events/s", 300, more=True),
    "core-dimer_decay": Goal("cores", "one core, dimer decay", "10^6 events/s", 420, more=True),
    "core-michaelis_menten": Goal("cores", "one core, Michaelis-Menten", "10^6 events/s", 300,
                                  more=True),
    "core-heat_shock_mass_action": Goal("cores", "one core, heat shock", "10^6 events/s", 95,
                                        more=True),
}  # fmt: skip
GROUPS = tuple(dict.fromkeys(goal.group for goal in GOALS.values()))
OF_CPU = ("start", "cores")  # groups that `--device cpu` measures
COLD = ("start", "cores", "leaps")  # groups of which a first round warms up


def ensembles(device: Device, names: dict[str, tuple[str, float]]) -> Iterator[tuple[str, Any]]:
    """Cases of `tauslab bench` with a scale each: events a second, or seconds of kernels."""
    from tauslab.runner.cli.bench import CASES, run_case
    from tauslab.runner.ranks.mpi import world

    for name, (case, scale) in names.items():
        row = run_case(CASES[case], world(), device=device, threads=0, scale=scale, repeat=1)
        unit = GOALS[name].unit
        rate = row["events_per_second"] / 1e11
        yield name, rate if GOALS[name].more else row["compute"] * (1e3 if unit == "ms" else 1)


def exact(device: Device) -> Iterator[tuple[str, Any]]:
    """Exact ensembles of small networks."""
    cases = {"schlogl": ("schlogl_statistics", 1.0), "schlogl-samples": ("schlogl", 1.0),
             "birth-death": ("birth_death", 1.0), "michaelis-menten": ("michaelis_menten", 1.0),
             "vilar": ("vilar_oscillator", 8.0), "chain": ("chain_ssa", 1.0)}  # fmt: skip
    yield from ensembles(device, cases)


def leaps(device: Device) -> Iterator[tuple[str, Any]]:
    """Milliseconds in which the device computed, at epsilon 0.03."""
    import tauslab as ts

    cases = {f"tau-{name}": (f"{name}_tau", 1.0) for name in ("enzyme", "schlogl", "chain")}
    yield from ensembles(device, cases)
    models = ROOT / "tests" / "data" / "sbml"
    for name, file, n, t_end in (
        ("tau-prokaryotic", "prokaryotic_gene_network", 2**18, 50.0),
        ("tau-ras", "ras_camp_pka", 4096, 5.0),
    ):
        result = ts.run(
            models / f"{file}.xml", n=n, t_end=t_end, points=6, seed=1, device=device,
            method=ts.TauLeaping(epsilon=0.03), record="statistics", quiet=True,
        )  # fmt: skip
        yield name, 1e3 * float(result.data["profile/compute"][()].sum())


def steps_of(case: str, warm: int, steps: int) -> float:
    """Seconds of a step of a lattice's engine."""
    from benchmark_rdme import CASES, lowered

    from tauslab.kernels.backends import BackendOptions, get_backend
    from tauslab.kernels.lattice.engine import LatticeEngine

    backend = get_backend("cuda", BackendOptions())
    engine = LatticeEngine(backend, lowered(CASES[case]), seed=1)
    engine.load_start()
    engine.run_sampled([warm])
    seconds = []
    for _ in range(3):
        engine.synchronize()
        began = time.perf_counter()
        engine.run(steps)
        engine.synchronize()
        seconds.append((time.perf_counter() - began) / steps)
    del engine
    backend.close()
    return statistics.median(seconds)


def lattices(device: Device) -> Iterator[tuple[str, Any]]:
    """Milliseconds of a step of A + B <-> C in 256 x 256 x 256 sites."""
    del device
    for name in (name for name, goal in GOALS.items() if goal.group == "lattices"):
        yield name, 1e3 * steps_of(name, 20, 50)


def small_lattices(device: Device) -> Iterator[tuple[str, Any]]:
    """Microseconds of a step."""
    del device
    for name in (name for name, goal in GOALS.items() if goal.group == "small lattices"):
        yield name, 1e6 * steps_of(name, 200, 2000)


def replicas(device: Device) -> Iterator[tuple[str, Any]]:
    """Steps a second of an example by `ts.run`, from the first to the last."""
    import tauslab as ts

    lattice = ts.read(ROOT / "examples" / "minde.toml")
    assert isinstance(lattice, ts.Lattice)
    for name, many, t_end in (("minde-run", 1, 2.0), ("minde-32", 32, 0.5)):
        result = ts.run(lattice, t_end=t_end, seed=1, replicas=many, device=device, quiet=True)
        yield name, sum(row["steps"] / row["wall"] for row in result.profile) / 1e3


def networks(device: Device) -> Iterator[tuple[str, Any]]:
    """Nanoseconds of an event of large networks."""
    import benchmark_large
    from large_cases import Work, file

    for name, work in {
        "egfr": file("egfr_net", "egfr", 4096, t_end=10.0),
        "bcr": file("BCR_ssa", "bcr", 1024, t_end=20.0),
        "chain-10000": Work("chain", "chain", 10_000, 8192, 10_000, presimulation=0),
        "colloidal": Work("colloidal", "colloidal", 252, 8192, 5000),
    }.items():
        yield name, benchmark_large.measure(work, device).ns_per_update


def equations(device: Device) -> Iterator[tuple[str, Any]]:
    """Seconds of a published ensemble of equations, from a twentieth of its steps."""
    from ode_cases import CASES
    from ode_measure import Bench, Layout, Run

    from tauslab.kernels.backends import BackendOptions, get_backend

    case, backend = CASES["EGF-NGF"], get_backend(device, BackendOptions())
    one = Bench(backend, "single", None).measure(case, Layout(), Run.of(case, 0.05, None))
    backend.close()
    yield "egf-ngf", one.seconds * case.steps / one.steps


def cores(device: Device) -> Iterator[tuple[str, Any]]:
    """Events of a second of the processor's time, one thread."""
    del device
    from benchmark_lanes import CASES, FORMS, timed

    for case in CASES:
        if case.name in ONE_CORE:
            seconds, events, _ = timed(case, case.n, FORMS[1], 1)
            yield f"core-{case.name}", events / seconds / MILLION


def start(device: Device) -> Iterator[tuple[str, Any]]:
    """Seconds of a clock from a command to its end, in a new process."""
    model = str(ROOT / "examples" / "schlogl.toml")
    with tempfile.TemporaryDirectory() as folder:
        run = ["-m", "tauslab", "run", model, "-n", "1000", "--t-end", "1", "--seed", "1",
               "--device", device, "--quiet", "--overwrite", "-o", "out.h5"]  # fmt: skip
        commands = {"start-run": run}
        if device == "cuda":
            commands["start-cupy"] = ["-c", IMPORT_CUPY]
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *command], cwd=folder, check=True)
            yield name, time.perf_counter() - began


MEASURES: dict[str, Callable[[Device], Iterator[tuple[str, Any]]]] = {
    "exact": exact, "leaps": leaps, "lattices": lattices, "small lattices": small_lattices,
    "replicas": replicas, "networks": networks, "equations": equations, "start": start,
    "cores": cores,
}  # fmt: skip


def serve(device: Device) -> None:
    """Measure the group that each line of standard input names, and answer with its rows."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a run prints is no answer
    for line in sys.stdin:
        found = {name: float(value) for name, value in MEASURES[line.strip()](device)}
        print(json.dumps(found), file=answer, flush=True)


class Server:
    """A process that measures with one tree of sources."""

    def __init__(self, source: Path, device: str) -> None:
        others = os.environ.get("PYTHONPATH", "")
        environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{others}"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--device", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def measure(self, group: str) -> dict[str, float]:
        """The rows of a group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(group, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"benchmark_goals: {group} ended with an error")
        found: dict[str, float] = json.loads(answer)
        return found

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measured(sources: dict[str, Path], groups: list[str], given: argparse.Namespace
             ) -> dict[str, dict[str, list[float]]]:  # fmt: skip
    """Values of each row and source, one for each round."""
    rows: dict[str, dict[str, list[float]]] = {}
    servers = {name: Server(source, given.device) for name, source in sources.items()}
    for group in groups:
        warm = int(group in COLD)
        for turn in range(given.rounds + warm):
            order = list(servers) if turn % 2 else list(servers)[::-1]
            for name in order:
                for row, value in servers[name].measure(group).items():
                    if turn >= warm:
                        rows.setdefault(row, {}).setdefault(name, []).append(value)
        print(f"{group}: measured", file=sys.stderr, flush=True)
        if given.output:
            write(rows, given.output)
    for server in servers.values():
        server.close()
    return rows


def page(rows: dict[str, dict[str, list[float]]]) -> str:
    """A table: before, now, by what the speed was multiplied, the goal, and what is left to it."""
    lines = ["| work | unit | before | now | faster | goal | of the goal |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, by_source in rows.items():
        goal = GOALS[name]
        middle = {source: statistics.median(values) for source, values in by_source.items()}
        now, before = middle["now"], middle.get("before")
        gain = "" if before is None else f"{now / before if goal.more else before / now:.2f}"
        share = goal.goal and (now / goal.goal if goal.more else goal.goal / now)
        lines.append(
            f"| {goal.about} | {goal.unit} | {'' if before is None else f'{before:.3g}'} | {now:.3g} | {gain} | "
            f"{'' if goal.goal is None else f'{goal.goal:g}'} | {'' if share is None else f'{100 * share:.0f} %'} |"
        )
    return "\n".join(lines) + "\n"


def write(rows: dict[str, dict[str, list[float]]], stem: Path) -> None:
    """All rounds, and the table."""
    whole = {name: asdict(GOALS[name]) | by_source for name, by_source in rows.items()}
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(page(rows), encoding="utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--against", type=Path, help="src of another tree, to take turns with")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only these rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="stem of the JSON file and the table")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.device)
        return
    sources = {"now": SOURCE} | ({"before": given.against.resolve()} if given.against else {})
    usual = OF_CPU if given.device == "cpu" else tuple(g for g in GROUPS if g != "cores")
    print(page(measured(sources, given.group or list(usual), given)))


if __name__ == "__main__":
    main()
