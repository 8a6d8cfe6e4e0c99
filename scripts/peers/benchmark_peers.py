"""One CPU core: tauslab beside other programs, on the same work in the same run.

    pip install --target /tmp/peers rebop gillespy2 setuptools copasi-basico particles numba
    PYTHONPATH=/tmp/peers python scripts/peers/benchmark_peers.py exact -o docs/benchmarks/cpu
    PYTHONPATH=/tmp/peers python scripts/peers/benchmark_peers.py events -o docs/benchmarks/events
    PYTHONPATH=/tmp/peers python scripts/peers/benchmark_peers.py filters
    PYTHONPATH=/tmp/peers python scripts/peers/benchmark_peers.py published -o docs/benchmarks/published

`exact`: seconds of each program's public call for 1,000 trajectories x 101 samples; `rebop_core` is the
compiled class inside rebop, to be compared with our kernel alone. `events`: three models with events,
eleven samples, by COPASI's direct method and GillesPy2's hybrid C++ solver with all species discrete.
`filters`: bootstrap filters of python-smfsb's noisy time course of predators and prey, at many values of a
parameter, by the package `particles`, whose transition is Gillespie's direct method in Numba.
`published`: the tables that other programs publish, which stand in `published.py` (bngsim beside those above).

Seconds are of the processor, of this process and its children, without reading and compiling, which a
run before has done. All keep to one core and take turns; medians count. A value of each run, at the end
the mean of a species or the log-likelihood, shows that all do the same: means that differ by more than
six standard errors end the script with 1. Programs that are not installed are left out.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import exact_peers
import numpy as np
import published
from published import Row

import tauslab as ts
from tauslab.base.errors import TauslabError

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from measure_networks import INITIAL, OBSERVE, SD, course, network

LARGEST_DEVIATION = 6.0  # standard errors between the means of two programs
FEW = 30  # trajectories whose standard error is that of as many of the first program
COLUMNS = (
    "work",
    "program",
    "seconds of one",
    "times ours",
    "value",
    "standard error",
    "of",
    "machine",
    "date",
)


@dataclass(frozen=True)
class Way:
    """A program's way: `run` does `many` trajectories or filters from a seed, and gives values."""

    work: str
    program: str
    many: int
    run: Callable[[int, int], Any]
    clock: Callable[[], float]


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def by_tauslab(model: str, t_end: float, points: int, species: str, method: Any) -> Any:
    """Our own."""
    net, times = network(model), np.linspace(0, t_end, points)

    def run(n: int, seed: int) -> Any:
        result = ts.run(net, n=n, times=times, seed=seed, method=method, device=ts.CPU(threads=1),
                        quiet=True, record="trajectories")  # fmt: skip
        return result.counts(species)[:, -1].astype(np.float64)

    return run


Made = tuple[str, str, int, Callable[[], Any]]  # work, program, how many, what makes its way


def exact(n: int) -> Iterator[Made]:
    """Three models without events."""
    points = exact_peers.POINTS
    for name, (t_end, watched) in exact_peers.RUNS.items():
        yield name, "tauslab", n, partial(by_tauslab, name, t_end, points, watched, "ssa")
        model = exact_peers.mass_action(network(name), t_end, watched)
        for tool in exact_peers.TOOLS:
            yield name, tool, n, partial(by_peer, tool, model)


def by_peer(tool: str, model: exact_peers.Model) -> Any:
    """Numbers that a program of `exact_peers` prints."""
    run = exact_peers.TOOLS[tool](model)
    return lambda n, seed: np.array(run(n, seed)(), float)


def events(n: int) -> Iterator[Made]:
    """Three models with events; the others run fewer trajectories."""
    for name, species in (("dosed", "X"), ("counter", "C"), ("late", "X")):
        for method in ("ssa", "tau"):
            make = partial(by_tauslab, name, 10.0, 11, species, method)
            yield name, f"tauslab {method}", 3 * n, make
        yield name, "COPASI", max(2, n // 10), partial(by_copasi, network(name), species)
        yield name, "GillesPy2", max(2, n // 100), partial(by_gillespy2, name, species)


def by_copasi(net: ts.Network, species: str, t_end: float = 10.0, points: int = 11) -> Any:
    """COPASI's direct method, by basico."""
    basico: Any = import_module("basico")
    model = basico.load_model_from_string(net.to_sbml())
    names = {one: name for name, one in basico.get_species(model=model)["sbml_id"].items()}

    def one(seed: int) -> float:
        time_course = basico.run_time_course(duration=t_end, intervals=points - 1, model=model, method="directMethod",
                                        use_seed=True, seed=seed, use_numbers=True)  # fmt: skip
        return float(time_course[names[species]].iloc[-1])

    return lambda n, seed: np.array([one(seed * 1_000_003 + number) for number in range(n)])


EVENTS: dict[str, list[tuple[str, str, dict[str, str], str | None]]] = {
    "dosed": [("dose", "t >= 3", {"X": "X + 500"}, None), ("wash", "t >= 6", {"X": "0"}, None)],
    "counter": [("full", "X >= 100", {"X": "0", "C": "C + 1"}, None)],
    "late": [("slower", "X > 800", {"k": "250"}, "2")],
}


def by_gillespy2(name: str, species: str) -> Any:
    """GillesPy2's compiled hybrid solver, the one of its solvers that has events too."""
    g2: Any = import_module("gillespy2")
    twin, net = g2.Model(name=name), network(name)
    for key, start in net.initial_amounts().items():
        if net.species[key].fixed:
            twin.add_parameter(g2.Parameter(name=key, expression=start))
        else:
            twin.add_species(g2.Species(name=key, initial_value=int(start), mode="discrete"))
    birth = "k" if name == "late" else "1000"
    twin.add_reaction(g2.Reaction(name="birth", products={"X": 1}, propensity_function=birth))
    if name != "counter":
        twin.add_reaction(g2.Reaction(name="death", reactants={"X": 1}, propensity_function="X"))
    for key, when, sets, delay in EVENTS[name]:
        twin.add_event(g2.Event(
            name=key, trigger=g2.EventTrigger(expression=when), delay=delay,
            assignments=[g2.EventAssignment(variable=v, expression=e) for v, e in sets.items()],
        ))  # fmt: skip
    twin.timespan(g2.TimeSpan.linspace(t=10.0, num_points=11))
    solver = g2.TauHybridCSolver(model=twin)

    def run(n: int, seed: int) -> Any:
        result = twin.run(solver=solver, number_of_trajectories=n, seed=seed)
        return np.array([float(one[species][-1]) for one in result])

    return run


def filters(n: int) -> Iterator[Made]:
    """Filters of 50, 100 and 500 particles."""
    for particles in (50, 100, 500):
        work = f"{particles} particles"
        yield work, "tauslab", max(2, n // 5), partial(partial, ours, particles)
        yield work, "particles", max(2, n // 5), partial(theirs, particles)


def ours(particles: int, n: int, seed: int) -> Any:
    """Run all filters in one launch."""
    net, data = course()
    result = ts.particle_filters(
        net, data, observe=OBSERVE, initial=INITIAL, n=particles,
        set={"birth": np.linspace(0.9, 1.1, n)}, seed=seed, threshold=1.0,
        device=ts.CPU(threads=1),
    )  # fmt: skip
    return result.log_likelihood


def theirs(size: int) -> Any:
    """`particles.SMC` of the bootstrap filter, with a transition that Numba compiles."""
    particles: Any = import_module("particles")
    models: Any = import_module("particles.state_space_models")
    _, data = course()
    model = their_model(
        np.diff(data["time"], prepend=data["time"][0]), lambda self: (self.birth, 0.005, 0.6)
    )
    seen = list(np.stack([data["x1"], data["x2"]], axis=1))

    def run(n: int, seed: int) -> Any:
        del seed
        logs = []
        for birth in np.linspace(0.9, 1.1, n).tolist():
            chain = models.Bootstrap(ssm=model(birth=birth), data=seen)
            smc = particles.SMC(fk=chain, N=size, resampling="systematic", ESSrmin=1.0)
            smc.run()
            logs.append(smc.logLt)
        return np.array(logs)

    return run


def their_model(steps: Any, rates: Callable[[Any], Iterable[float]]) -> Any:
    """Predators and prey, which Numba moves; `rates` are those of a model with its parameters."""
    law: Any = import_module("particles.distributions")
    models: Any = import_module("particles.state_space_models")
    move = direct_method()

    class Moved(law.ProbDist):  # type: ignore[misc]
        dim, dtype = 2, np.float64

        def __init__(self, *given: Any) -> None:
            self.given = given

        def rvs(self, size: int | None = None) -> Any:
            del size
            return move(*self.given)

    class Model(models.StateSpaceModel):  # type: ignore[misc]
        def PX0(self) -> Any:  # noqa: N802 - theirs
            return law.IndepProd(law.Poisson(50), law.Poisson(100))

        def PX(self, t: int, xp: Any) -> Any:  # noqa: N802 - theirs
            return Moved(np.asarray(xp, float), steps[t], *rates(self))

        def PY(self, t: int, xp: Any, x: Any) -> Any:  # noqa: N802 - theirs
            del t, xp
            return law.IndepProd(*(law.Normal(loc=x[:, k], scale=SD) for k in (0, 1)))

    return Model


def direct_method() -> Any:
    """Gillespie's direct method for all particles."""
    numba: Any = import_module("numba")

    @numba.njit  # type: ignore[untyped-decorator]
    def move(before: Any, duration: float, birth: float, meet: float, death: float) -> Any:
        after = before.copy()
        for i in range(len(after)):
            x, y, t = after[i, 0], after[i, 1], 0.0
            while True:
                a, b, c = birth * x, meet * x * y, death * y
                total = a + b + c
                if total <= 0:
                    break
                t -= math.log(1.0 - np.random.random()) / total  # noqa: NPY002 - Numba's
                if t > duration:
                    break
                u = np.random.random() * total  # noqa: NPY002 - Numba's
                if u < a:
                    x += 1
                elif u < a + b:
                    x -= 1
                    y += 1
                else:
                    y -= 1
            after[i, 0], after[i, 1] = x, y
        return after

    return move


def of_tables(n: int) -> Iterator[Made]:
    """Rows of tables that others publish: exact, or by a partial scaling beside leaps."""
    for row in published.ROWS:
        gpu: dict[str, Any] = {"device": "cuda"}
        exact: list[tuple[str, int, dict[str, Any]]] = [
            ("tauslab", row.n, {}), ("tauslab, one", 1, {}), ("tauslab, GPU", row.gpu, gpu),
        ]  # fmt: skip
        leaps = [("tauslab tau", row.n, {"method": "tau"}),
                 ("tauslab tau, GPU", row.gpu, {"method": "tau", **gpu})]  # fmt: skip
        for program, many, how in (exact if row.exact else []) + (leaps if row.scaled else []):
            if not many:
                continue
            yield row.name, program, many, partial(of_row, row, **how)
        for level in row.scaled:
            make = partial(by_bngsim, row, method="psa", poplevel=level)
            yield row.name, f"bngsim PSA {level}", row.peers, make
        for program in row.programs:
            yield row.name, program, row.peers, partial(TABLED[program], row)
    del n


def of_row(row: Row, **how: Any) -> Any:
    """Our own: the species of the row at the end, whose spread is largest."""
    net, times = network_of(row), np.linspace(0, row.t_end, row.points)
    usual: dict[str, Any] = {"times": times, "device": ts.CPU(threads=1), "quiet": True, **how}
    kept = "statistics" if "device" in how else "trajectories"
    name = watched(row)

    def run(n: int, seed: int) -> Any:
        with warnings.catch_warnings(action="ignore"):
            result = ts.run(net, n=n, seed=seed, record=kept, **usual)
        if kept == "trajectories":
            return result.counts(name)[:, -1].astype(np.float64)
        spread = result.std(name)[-1] * math.sqrt((n - 1) / n)
        return result.mean(name)[-1] + spread * np.where(np.arange(n) % 2, 1.0, -1.0)

    return run


@cache
def network_of(row: Row) -> ts.Network:
    """The model, read once."""
    return row.network()


@cache
def watched(row: Row) -> str:
    """The species that varies most at the end of a few trajectories, by leaps of a row that is not exact."""
    with warnings.catch_warnings(action="ignore"):
        result = ts.run(network_of(row), n=8, times=[row.t_end], seed=1, device=ts.CPU(threads=1),
                        method="ssa" if row.exact else "tau", quiet=True)  # fmt: skip
    return max(result.species, key=lambda name: float(result.counts(name).std()))


def by_bngsim(row: Row, method: str = "ssa", **how: Any) -> Any:
    """The direct method, or the partial scaling at a population level, of bngsim."""
    bngsim: Any = import_module("bngsim")
    with tempfile.TemporaryDirectory() as folder:
        file = row.file(Path(folder))
        read = bngsim.Model.from_net if file.suffix == ".net" else bngsim.Model.from_sbml
        model = read(str(file))
    simulator = bngsim.Simulator(model, method=method, **how)
    net = network_of(row)
    names = list(net.species) if file.suffix == ".net" else list(model.species_names)
    place = names.index(watched(row))

    def one(seed: int) -> float:
        model.reset()
        return float(simulator.run((0, row.t_end), row.points, seed=seed).species[-1, place])

    return lambda n, seed: np.array([one(seed * 1_000_003 + number) for number in range(n)])


def by_mass_action(tool: str, row: Row) -> Any:
    """A program of `exact_peers`."""
    net = network_of(row)
    return by_peer(tool, exact_peers.mass_action(net, row.t_end, watched(row), row.points))


TABLED: dict[str, Callable[[Row], Any]] = {
    "bngsim": by_bngsim, "rebop": partial(by_mass_action, "rebop"),
    "GillesPy2": partial(by_mass_action, "gillespy2"),
    "COPASI": lambda row: by_copasi(network_of(row), watched(row), row.t_end, row.points),
}  # fmt: skip
WORKS = {"exact": exact, "events": events, "filters": filters, "published": of_tables}


def ways(work: str, n: int, part: str) -> list[Way]:
    """Programs that are installed; each is run once, which compiles, and by tauslab at its full size."""
    result = []
    for name, program, many, make in WORKS[work](n):
        if not re.search(part, f"{name}, {program}"):
            continue
        gpu = program.endswith("GPU")
        try:
            way = Way(name, program, many, make(), time.perf_counter if gpu else cpu_seconds)
            way.run(many if program.startswith("tauslab") else 1, 1)
        except (ImportError, TauslabError) as error:
            print(f"{name}, {program}: left out: {error}", file=sys.stderr)
        else:
            result.append(way)
    return result


def machine(program: str) -> str:
    """The name of the GPU that a program uses, or of the CPU."""
    if program.endswith("GPU"):
        cupy: Any = import_module("cupy")
        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return next(
        line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")
    )


def main() -> int:
    """Measure, print, write; 1 if two programs did not do the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--n", type=int, default=1000, help="trajectories")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="a regular expression of `work, program`"
    )
    parser.add_argument("--core", type=int, help="the core to use; by default the last allowed")
    parser.add_argument("-o", "--output", type=Path, help="stem of the .csv")
    given = parser.parse_args()
    core = max(os.sched_getaffinity(0)) if given.core is None else given.core
    os.sched_setaffinity(0, {core})
    chosen = ways(given.work, given.n, given.only)
    seconds: list[list[float]] = [[] for _ in chosen]
    values: list[list[Any]] = [[] for _ in chosen]
    for turn in range(given.rounds):
        for way, spent, own in zip(chosen, seconds, values, strict=True):
            began = way.clock()
            own.append(way.run(way.many, turn + 2))
            spent.append((way.clock() - began) / way.many)
    rows, same, first = [COLUMNS], True, dict[str, tuple[float, float, float, float]]()
    for way, spent, own in zip(chosen, seconds, values, strict=True):
        x, one = np.concatenate(own), statistics.median(spent)
        mean, error = float(x.mean()), float(x.std() / len(x) ** 0.5)
        base = first.setdefault(way.work, (one, mean, error, float(x.std())))
        of_few = base[3] / len(x) ** 0.5 if len(x) < FEW else error
        off = abs(mean - base[1]) > LARGEST_DEVIATION * math.hypot(of_few, base[2])
        leaps = "tauslab tau" in way.program or "PSA" in way.program
        same &= not off or leaps
        rows.append((way.work, way.program, f"{one:.4g}", f"{one / base[0]:.2f}", f"{mean:.5g}",
                     f"{error:.2g}{' DIFFERS' if off else ''}", f"{way.many}", machine(way.program),
                     time.strftime("%Y-%m-%d")))  # fmt: skip
    print(*(" | ".join(row) for row in rows), sep="\n")
    if given.output:
        file = given.output.with_suffix(".csv")
        with file.open("w", newline="", encoding="utf-8") as opened:
            csv.writer(opened, lineterminator="\n").writerows(rows)
        if given.work == "published" and chosen:
            published.joined([file], file)
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
