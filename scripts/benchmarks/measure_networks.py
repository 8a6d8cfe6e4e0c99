"""Ensembles of networks: seconds of kernels, events a second, and the errors of leaps."""

from __future__ import annotations

import json
import math
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from generated_networks import random_network
from machine import DATA, Machine

import tauslab as ts
from tauslab.cli.commands import machine as bench
from tauslab.decomposition.ranks.mpi import world
from tauslab.kernels.backends.cpu import CpuProgram
from tauslab.kernels.backends.cuda import CudaProgram
from tauslab.kernels.exact import ssa
from tauslab.kernels.leaping import tau_leap
from tauslab.kernels.ode import engine

EPSILON = 0.03
EPSILONS = (0.3, 0.2, 0.1, 0.06, 0.03, 0.01, 0.003)
ERROR = 0.01  # that leaps may have
LEAST = 10.0  # molecules of a species whose errors count
SD = 10.0  # of the noise of counts in `course`
OBSERVE = {"x1": f"normal({SD})", "x2": f"normal({SD})"}
INITIAL = {"x1": "poisson(50)", "x2": "poisson(100)"}
NARROW, WIDE = (1e-6, 10.0), (1e-9, 1e4)
# Reactions, species, initial amounts and rates: Table 2 of Nobile et al., PLoS ONE 9:e91963 (2014).
SYNTHETIC: tuple[tuple[int, int, int, Any], ...] = (
    (35, 33, 10**3, "uniform"), (35, 33, 10**4, "uniform"), (35, 33, 10**3, NARROW),
    (35, 33, 10**4, NARROW), (35, 33, 10**3, WIDE), (35, 33, 10**4, WIDE),
    (80, 80, 10**3, NARROW), (80, 80, 10**4, WIDE),
)  # fmt: skip


def synthetic(number: int, seed: int) -> ts.Network:
    """A random model of a test of Table 2, from 1 on."""
    reactions, species, initial, rates = SYNTHETIC[number - 1]
    return random_network(
        species=species, reactions=reactions, initial=initial, rates=rates, seed=seed
    )


def dosed() -> ts.Network:
    """Births and deaths with a dose at 3 and a wash-out at 6."""
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


def pair() -> ts.Network:
    """A fast pair with a slow drain: JumpProcesses, pull requests 662 and 663."""
    return _of("pair", {"A": 1000, "B": 1000, "C": 0},
               {"A -> B": 100, "B -> A": 100, "A -> C": 0.1})  # fmt: skip


def dimers() -> ts.Network:
    """Stiff decaying dimers: Cao, Gillespie & Petzold 2007."""
    return _of("dimers", {"S1": 400, "S2": 798, "S3": 0},
               {"S1 ->": 1, "2 S1 -> S2": 10, "S2 -> 2 S1": 1000, "S2 -> S3": 0.1})  # fmt: skip


def isomers() -> ts.Network:
    """Fast isomers, of which one decays: after Rathinam et al. 2003."""
    return _of("isomers", {"A": 6000, "B": 6000, "C": 0},
               {"A -> B": 1e4, "B -> A": 1e4, "B -> C": 1})  # fmt: skip


def _of(name: str, counts: Mapping[str, int], rates: Mapping[str, float]) -> ts.Network:
    net = ts.Network(name)
    for species, count in counts.items():
        net.add_species(species, count)
    for equation, rate in rates.items():
        net.add_reaction(equation, rate=rate)
    return net


MADE: dict[str, Callable[[], ts.Network]] = {
    "chain": bench.chain, "enzyme": bench.michaelis_menten, "dosed": dosed, "counter": counter,
    "late": late, "pair": pair, "dimers": dimers, "isomers": isomers,
}  # fmt: skip


def network(name: str) -> ts.Network:
    """A model that is made, or a file of tests/data; ``synthetic-TEST-SEED`` is drawn."""
    if name.startswith("synthetic-"):
        number, seed = map(int, name.split("-")[1:])
        return synthetic(number, seed)
    if name in MADE:
        return MADE[name]()
    path = DATA / "net" / name if name.endswith(".net") else DATA / "sbml" / f"{name}.xml"
    result = ts.read(path)
    assert isinstance(result, ts.Network)
    return result


@dataclass(frozen=True)
class Run:
    """An ensemble: `method` is a word of `--method`, or a solver of equations."""

    model: str
    n: int
    t_end: float
    method: str = "ssa"
    points: int = 101
    record: str = "statistics"
    values: Mapping[str, float] = field(default_factory=dict)

    def started(self, machine: Machine, **more: Any) -> ts.Result:
        """Run it."""
        method: Any = self.method
        model, given = network(self.model), dict[str, Any]()
        if method == "tau":
            method = ts.TauLeaping(epsilon=EPSILON)
        elif method not in {"ssa", "auto", "cle", "hybrid"}:
            drawn = [item for item in model.parameter_values().items() if item[1] > 0][:4]
            given["sample"] = [f"{k}=uniform({0.8 * v},{1.2 * v})" for k, v in drawn]
            method = ts.ODE(solver=method)
        given = {"n": machine.many(self.n), "times": np.linspace(0, self.t_end, self.points),
                 "method": method, "set": self.values, "seed": 1, "record": self.record,
                 "device": machine.place(), "quiet": True, **given, **more}  # fmt: skip
        with warnings.catch_warnings(action="ignore"):
            return ts.run(model, **given)


def total(result: ts.Result, name: str) -> float:
    """A column of the profile, summed."""
    return float(result.data[f"profile/{name}"][()].sum())


def bench_seconds(machine: Machine, case: str, scale: float = 1.0) -> float:
    """Seconds of the kernels of a case of `tauslab bench`."""
    return float(_bench(machine, case, scale)["compute"])


def bench_events(machine: Machine, case: str, scale: float = 1.0) -> float:
    """Its events a second of kernels."""
    return float(_bench(machine, case, scale)["events_per_second"])


def _bench(machine: Machine, case: str, scale: float) -> dict[str, Any]:
    return bench.run_case(bench.CASES[case], world(), device=machine.device, repeat=1,
                          threads=machine.threads, scale=scale * machine.scale)  # fmt: skip


def kernels(machine: Machine, run: Run) -> float:
    """Seconds of kernels."""
    return total(run.started(machine), "compute")


def events(machine: Machine, run: Run) -> float:
    """Events a second of kernels."""
    result = run.started(machine)
    return total(result, "events") / total(result, "compute")


def of_models(machine: Machine, number: int, models: int = 3) -> float:
    """Mean seconds of kernels of random models of a test of Table 2, by leaps, to t = 150."""
    runs = [Run(f"synthetic-{number}-{seed}", 2**10, 150.0, "tau", 100)
            for seed in range(1, models + 1)]  # fmt: skip
    result = [run.started(machine, max_steps=10**7) for run in runs]
    return sum(total(one, "compute") for one in result) / models


def to_one_percent(machine: Machine, run: Run) -> dict[str, float]:
    """Seconds of the cheapest leaps whose errors are below 1 %, its epsilon, and exact seconds.

    Errors are the largest relative ones of means and standard deviations at five times, less two
    standard errors of sampling, of species that have ten molecules.
    """
    exact, seconds = _moments(machine, run, "ssa", 2)
    result: dict[str, float] = {"exact": seconds}
    for epsilon in EPSILONS:
        leaped, seconds = _moments(machine, run, ts.TauLeaping(epsilon=epsilon), 1)
        if _worst(exact, leaped, machine.many(run.n)) <= ERROR and seconds < result.get(
            "", math.inf
        ):
            result |= {"": seconds, "epsilon": epsilon}
    return result


def _moments(
    machine: Machine, run: Run, method: Any, seed: int
) -> tuple[npt.NDArray[np.float64], float]:
    result = run.started(machine, method=method, seed=seed, times=np.linspace(0, run.t_end, 6)[1:])
    names = list(result.species)
    both = [[result.mean(name) for name in names], [result.std(name) for name in names]]
    return np.array(both, np.float64), total(result, "compute")


def _worst(exact: npt.NDArray[np.float64], leaped: npt.NDArray[np.float64], n: int) -> float:
    (mean, spread), (mean_off, spread_off) = exact, np.abs(leaped - exact)
    counted = mean >= LEAST
    varies = counted & (spread > 0.01 * np.sqrt(mean))
    of_mean = ((mean_off - 2 * spread * math.sqrt(2 / n)) / np.maximum(mean, 1))[counted]
    of_spread = ((spread_off - 2 * spread / math.sqrt(n)) / np.maximum(spread, 1e-300))[varies]
    return float(max(of_mean.max(initial=0.0), of_spread.max(initial=0.0)))


@dataclass(frozen=True)
class Form:
    """A kernel of a CPU: on SIMD lanes or not, and flags for its compiler."""

    lanes: bool
    flags: str = ""

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Runs within it use this form."""
        parts: tuple[Any, ...] = (ssa, engine, tau_leap)
        before = [part.FEWEST_ON_LANES for part in parts]
        os.environ["TAUSLAB_CXXFLAGS"] = self.flags
        for part in parts:
            part.FEWEST_ON_LANES = 0 if self.lanes else 1 << 62
        try:
            yield
        finally:
            for part, fewest in zip(parts, before, strict=True):
                part.FEWEST_ON_LANES = fewest
            del os.environ["TAUSLAB_CXXFLAGS"]


NO_AVX512 = "-mno-avx512f"
FORMS = {"one": Form(lanes=False), "lanes": Form(lanes=True),
         "one avx2": Form(False, NO_AVX512), "lanes avx2": Form(True, NO_AVX512)}  # fmt: skip


def on_a_core(machine: Machine, run: Run, form: str = "lanes") -> float:
    """Events, leaps or steps a second of the processor's time, of one thread."""
    counted = "leaps" if run.method == "tau" else "events"
    core = Machine("cpu", 1, machine.scale)
    with FORMS[form].chosen():
        began = time.process_time()
        result = run.started(core, record="trajectories")
        seconds = time.process_time() - began
    return total(result, counted) / seconds


def on_threads(machine: Machine, run: Run, threads: int) -> float:
    """Events a second of the clock, with as many trajectories for each thread as `run` has."""
    began = time.perf_counter()
    result = run.started(Machine("cpu", threads, machine.scale * threads))
    return total(result, "events") / (time.perf_counter() - began)


def step_count(machine: Machine, solver: str, model: str) -> float:
    """Steps that a solver makes, those that it rejects included, at most 3,000,000."""
    del machine
    make, t_end, more = STIFF[model]
    method: Any = ts.ODE(solver=solver, **more)  # type: ignore[arg-type]
    with warnings.catch_warnings(action="ignore"):
        result = ts.run(make(), n=1, times=[0, t_end], method=method, device="cpu", seed=1,
                        max_steps=3_000_000, quiet=True)  # fmt: skip
    return total(result, "events") + total(result, "rejected")


def robertson() -> ts.Network:
    """Robertson's reactions (1966): rate constants from 0.04 to 3e7."""
    net = ts.Network("Robertson")
    for name, start in (("a", 1.0), ("b", 0.0), ("c", 0.0)):
        net.add_species(name, start)
    net.add_rate("a", "-0.04 * a + 1e4 * b * c")
    net.add_rate("b", "0.04 * a - 1e4 * b * c - 3e7 * b * b")
    net.add_rate("c", "3e7 * b * b")
    return net


def van_der_pol(mu: float) -> ts.Network:
    """An oscillator that is stiff where mu is large."""
    net = ts.Network(f"van der Pol, mu = {mu:g}")
    net.add_species("x", 2.0)
    net.add_species("y", 0.0)
    net.add_rate("x", "y")
    net.add_rate("y", f"{mu} * (1 - x * x) * y - x")
    return net


STIFF: dict[str, tuple[Callable[[], ts.Network], float, dict[str, float]]] = {
    "Robertson": (robertson, 4e5, {"atol": 1e-12}),
    "van der Pol, mu = 1000": (lambda: van_der_pol(1000), 1000.0, {}),
    "van der Pol, mu = 1.5": (lambda: van_der_pol(1.5), 50.0, {}),
}


def course() -> tuple[ts.Network, dict[str, Any]]:
    """Lotka and Volterra's reactions, and the noisy time course of python-smfsb."""
    file = DATA / "ensembles" / "lotka_volterra_noise_10.json"
    net = ts.Network("lotka_volterra")
    net.add_species("x1", 50)
    net.add_species("x2", 100)
    for name, value in (("birth", 1.0), ("meet", 0.005), ("death", 0.6)):
        net.add_parameter(name, value)
    net.add_reaction("x1 -> 2 x1", rate="birth")
    net.add_reaction("x1 + x2 -> 2 x2", rate="meet")
    net.add_reaction("x2 ->", rate="death")
    columns = np.array(json.loads(file.read_text(encoding="utf-8"))["data"], float).T
    return net, dict(zip(("time", "x1", "x2"), columns, strict=True))


def turnover() -> tuple[ts.Network, dict[str, Any]]:
    """A model with few events between 50 rows."""
    net = ts.Network("turnover")
    net.add_species("x1", 10)
    net.add_species("x2", 0)
    net.add_reaction("-> x1", rate=5.0)
    net.add_reaction("x1 -> x2", rate=0.5)
    net.add_reaction("x2 ->", rate=0.5)
    noise = np.random.default_rng(1).normal(0, 3, (2, 50))
    return net, {"time": 0.1 * np.arange(1, 51), "x1": 10 + noise[0], "x2": 6 + noise[1]}


def enzyme() -> ts.Network:
    """Michaelis-Menten kinetics with three observables."""
    net = ts.Network("enzyme")
    for name, count in {"S": 301, "E": 120, "ES": 0, "P": 0}.items():
        net.add_species(name, count)
    for name, value in {"bind": 1.66e-3, "leave": 1e-4, "make": 0.1}.items():
        net.add_parameter(name, value)
    net.add_reaction("S + E -> ES", rate="bind")
    net.add_reaction("ES -> S + E", rate="leave")
    net.add_reaction("ES -> P + E", rate="make")
    for name, law in {"total": "S + ES + P", "part": "P / 301", "enzymes": "E + ES"}.items():
        net.add_rule(name, law)
    return net


def births() -> ts.Network:
    """Births and deaths."""
    net = ts.Network("births")
    net.add_species("X", 10)
    net.add_parameter("birth", 10.0)
    net.add_reaction("-> X", rate="birth")
    net.add_reaction("X ->", rate=0.1)
    return net


CALLED: dict[str, tuple[Callable[[], ts.Network], dict[str, Any]]] = {
    "births": (births, {}), "enzyme": (enzyme, {}), "events": (dosed, {}),
    "tau": (births, {"method": "tau"}), "ode": (enzyme, {"method": "ode"}),
    "schlogl": (lambda: network("schlogl"), {}),
}  # fmt: skip


def calls(machine: Machine, *, name: str, n: int, sets: str = "") -> dict[str, float]:
    """Seconds of a call of `tauslab.run` for n trajectories, one call after another.

    The median, the 95th and 99th hundredth and the longest of 1,000, and of the processor. Each call has
    another value of the parameter `sets`, where there is one.
    """
    make, options = CALLED[name]
    model, walls, cores = make(), [], []
    for seed in range(5 + machine.many(1000)):
        values = {sets: model.parameter_values()[sets] * (1 + seed / 1e5)} if sets else {}
        began, worked = time.perf_counter(), time.process_time()
        ts.run(model, n=n, t_end=1.0, points=11, seed=seed, set=values, device=machine.place(),
               **options)  # fmt: skip
        walls.append(time.perf_counter() - began)
        cores.append(time.process_time() - worked)
    middle, high, slow, longest = np.percentile(walls[5:], (50, 95, 99, 100)).tolist()
    core = float(np.median(cores[5:]))
    result = {"": middle, "5 % above": high, "1 % above": slow, "longest": longest}
    return {**result, "of the processor": core}


def evaluations(machine: Machine) -> dict[str, float]:
    """Seconds of 10,000 single trajectories of the enzyme, each with rates of its own, as pyABC asks.

    A version without `tauslab.prepare` calls `tauslab.run`.
    """
    model, options = enzyme(), {"t_end": 1.0, "points": 11, "device": machine.place()}
    prepare = getattr(ts, "prepare", None)
    run = prepare(model, n=1, **options).run if prepare else partial(ts.run, model, **options)
    draws = np.random.default_rng(1).lognormal(0, 0.5, (machine.many(10_000), 2))
    values = [{"bind": 1.66e-3 * x, "make": 0.1 * y} for x, y in draws.tolist()]
    run(n=1, seed=0, set=values[0])
    began, worked = time.perf_counter(), time.process_time()
    total = sum(int(run(n=1, seed=i, set=v).final("P")[0]) for i, v in enumerate(values))
    ended = time.perf_counter() - began
    return {"": ended, "of the processor": time.process_time() - worked, "molecules": float(total)}


def filters(machine: Machine, particles: int, *, together: bool = True) -> dict[str, float]:
    """Filters a second of user time, one core: python-smfsb's noisy time course, by exact simulation.

    The mean log-likelihood shows that all ways do the same.
    """
    net, data = course()
    births = np.linspace(0.9, 1.1, machine.many(100))
    usual: dict[str, Any] = {"observe": OBSERVE, "initial": INITIAL, "n": particles, "seed": 1,
                             "threshold": 1.0, "device": ts.CPU(threads=1)}  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    logs = [
        ts.particle_filters(net, data, set={"birth": part}, number=number, **usual)
        .log_likelihood
        for number, part in enumerate([births] if together else np.split(births, len(births)))
    ]  # fmt: skip
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    return {"": len(births) / seconds, "log-likelihood": float(np.concatenate(logs).mean())}


def large_filter(machine: Machine) -> dict[str, float]:
    """Particle steps a second of one filter of a million particles, and where its time goes.

    Parts in percent: kernels by what they do, timed by events around their launches in a run of its
    own, and the host, whose time no kernel covers.
    """
    net, data = course()
    n = machine.many(1e6)
    usual: dict[str, Any] = {"observe": OBSERVE, "initial": INITIAL, "n": n, "seed": 1,
                             "device": machine.place()}  # fmt: skip
    ts.particle_filter(net, data, **(usual | {"n": 1000}))  # compiles
    began = time.perf_counter()
    result = ts.particle_filter(net, data, **usual)
    seconds = time.perf_counter() - began
    with launches_timed() as spans:
        began = time.perf_counter()
        ts.particle_filter(net, data, **usual)
        whole = time.perf_counter() - began
    parts = dict.fromkeys((*_PARTS, "moving"), 0.0)
    for entry, before, after in spans:
        part = next((name for name, entries in _PARTS.items() if entry in entries), "moving")
        parts[part] += after.seconds_since(before)
    reported = {f"% {name}": 100 * spent / whole for name, spent in parts.items()}
    return {
        "": n * len(result.time) / seconds, "% in kernels": sum(reported.values()), **reported,
        "% host": 100 - sum(reported.values()), "launches a row": len(spans) / len(result.time),
        "log-likelihood": result.log_likelihood,
    }  # fmt: skip


_PARTS = {
    "weighing": {"weigh_particles", "share_weights", "level_weights"},
    "resampling": {
        "guess_pieces", "guess_groups", "guess_row", "guess_starts", "count_units", "join_units",
        "find_row", "find_starts", "add_pieces", "add_in_order", "find_ancestors",
    },
    "copying": {"gather_rows"},
    "sums of blocks": {"reduce_sums", "reduce_maxima"},
    "moments": {"moments", "count_held", "add_blocks", "add_chunks", "list_held"},
    "the rest": {"largest_status", "draw_initial"},
}  # fmt: skip


@contextmanager
def launches_timed() -> Iterator[list[tuple[str, Any, Any]]]:
    """Kernel, and events before and after it, of each launch of either device."""
    spans: list[tuple[str, Any, Any]] = []

    def timed(usual: Callable[..., None]) -> Callable[..., None]:
        def launch(self: Any, entry: str, items: Any, arguments: Any, stream: Any) -> None:
            before = stream.record()
            usual(self, entry, items, arguments, stream)
            spans.append((entry, before, stream.record()))

        return launch

    names = ((CpuProgram, "launch"), (CudaProgram, "launch"), (CudaProgram, "launch_blocks"))
    kept = [(kind, name, getattr(kind, name)) for kind, name in names]
    try:
        for kind, name, usual in kept:
            setattr(kind, name, timed(usual))
        yield spans
        for _, _, after in spans:
            after.wait()
    finally:
        for kind, name, usual in kept:
            setattr(kind, name, usual)
