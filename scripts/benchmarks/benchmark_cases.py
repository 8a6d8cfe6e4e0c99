"""The table of what `scripts/benchmark.py` measures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import measure_equations as equations
import measure_halo as halo
import measure_hybrids as hybrids
import measure_large as large
import measure_lattices as lattices
import measure_networks as networks
import measure_ranks as ranks
import measure_verbs as verbs
from machine import COMMANDS, ROOT, Answer, Machine, command
from measure_large import Work
from measure_networks import Run

# Factors from seconds, events per second, ... to the unit of a row.
UNITS = {
    "s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "ns an event": 1e9, "10^11 events/s": 1e-11,
    "10^6 events/s": 1e-6, "10^3 leaps/s": 1e-3, "10^3 steps/s": 1e-3, "thousand steps/s": 1e-3,
    "10^6 particles/s": 1e-6, "MB/s": 1e-6, "%": 100.0, "times a core": 1.0, "steps": 1.0,
    "filters/s": 1.0, "10^6 particle steps/s": 1e-6,
}  # fmt: skip
PLAIN = {"epsilon", "log-likelihood", "launches a row", "MB of a rank", "bytes of a trajectory",
         "trajectories at a time", "molecules"}  # parts of answers that have no unit of the case  # fmt: skip
CPU, CUDA, BOTH = ("cpu",), ("cuda",), ("cpu", "cuda")


@dataclass(frozen=True)
class Case:
    """A row: what it measures, in which unit, and what is aimed at; `more` is better, or less.

    Cases of a group that is not `usual` are measured where the group is named.
    """

    name: str
    group: str
    about: str
    unit: str
    work: Callable[[Machine], Answer]
    goal: float | None = None
    more: bool = False
    device: str = ""  # that it needs

    def measured(self, machine: Machine) -> dict[str, float]:
        """Numbers in the unit, by the name of the row."""
        result = self.work(machine)
        parts = result if isinstance(result, dict) else {"": result}
        return {
            "/".join(filter(None, (self.name, part))):
                float(value) * (1.0 if part in PLAIN or part[:1] == "%" else UNITS[self.unit])
            for part, value in parts.items()
        }  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Devices it is for, whether it is measured where none is named, and warmed up by a round."""

    devices: tuple[str, ...] = BOTH
    usual: bool = False
    cold: bool = False


GROUPS = {
    "exact": Group(CUDA, True), "leaps": Group(CUDA, True, cold=True),
    "lattices": Group(CUDA, True, cold=True), "small lattices": Group(CUDA, True, cold=True),
    "replicas": Group(CUDA, True, cold=True), "networks": Group(CUDA, True),
    "equations": Group(CUDA, True), "start": Group(BOTH, True, cold=True),
    "cores": Group(CPU, True, cold=True), "calls": Group(BOTH, True),
    "files": Group(cold=True), "events": Group(cold=True), "leap sizes": Group(cold=True),
    "leap errors": Group(cold=True), "synthetic": Group(),
    "network sizes": Group(), "network rows": Group(), "teams": Group(), "pilots": Group(),
    "selectors": Group(), "network starts": Group(), "beside a core": Group(CUDA),
    "tables of leaps": Group(), "lanes": Group(CPU, cold=True), "few": Group(CPU, cold=True),
    "lanes of leaps": Group(CPU, cold=True), "lanes of equations": Group(CPU, cold=True),
    "threads": Group(CPU, cold=True), "stiff": Group(CPU), "filters": Group(cold=True),
    "stiff leaps": Group(BOTH, cold=True),
    "systems": Group(), "layouts": Group(CUDA), "other lattices": Group(), "placing": Group(),
    "output": Group(), "side by side": Group(), "ranks": Group(), "ensembles": Group(),
    "writing": Group(), "closing": Group(), "particles": Group(),
    "engines of lattices": Group(), "planes": Group(CUDA), "halo": Group(), "messages": Group(), "verbs": Group(BOTH), "hybrids": Group(BOTH),
}  # fmt: skip
ON_CORE = {
    "schlogl": (10.0, 1000, "Schlögl", 430), "vilar_oscillator": (50.0, 1000, "Vilar", 300),
    "dimer_decay": (10.0, 1000, "dimer decay", 420),
    "michaelis_menten": (50.0, 10_000, "Michaelis-Menten", 300),
    "heat_shock_mass_action": (0.5, 1000, "heat shock", 95), "lac_two_state": (100.0, 1000, "lac", None),
    "lotka_volterra": (10.0, 1000, "Lotka-Volterra", None),
    "toggle_switch": (1000.0, 1000, "toggle switch", None), "motor.net": (1.0, 1000, "motor", None),
}  # fmt: skip
ENZYME = {"E": 750.0, "S": 1000.0}
LEAPS = (
    Run("enzyme", 2**18, 5.0, "tau", values=ENZYME), Run("schlogl", 2**18, 10.0, "tau"),
    Run("chain", 2**18, 10.0, "tau"), Run("prokaryotic_gene_network", 2**18, 50.0, "tau", 6),
    Run("ras_camp_pka", 4096, 5.0, "tau", 6),
)  # fmt: skip


def goals() -> Iterator[Case]:
    """Speeds that are aimed at, none beyond what `roofline.py --limits` gives as possible."""
    per = "10^11 events/s"
    for name, group, about, unit, case, scale, goal in (
        ("schlogl", "exact", "Schlögl, 2^22, statistics", per, "schlogl_statistics", 1, 1.8),
        ("schlogl-samples", "exact", "Schlögl, 2^18, 100 samples kept", "s", "schlogl", 1, 0.085),
        ("birth-death", "exact", "birth and death, 2^22", per, "birth_death", 1, 2.31),
        ("michaelis-menten", "exact", "Michaelis-Menten, 2^20", per, "michaelis_menten", 1, 1.9),
        ("vilar", "exact", "Vilar's oscillator, 2^20", per, "vilar_oscillator", 8, 1.1),
        ("chain", "exact", "chain of 20 species, 2^18", "s", "chain_ssa", 1, None),
        ("tau-enzyme", "leaps", "Michaelis-Menten, 2^18, epsilon 0.03", "ms", "enzyme_tau", 1, None),
        ("tau-schlogl", "leaps", "Schlögl, 2^18, epsilon 0.03", "ms", "schlogl_tau", 1, None),
        ("tau-chain", "leaps", "chain of 20 species, 2^18, epsilon 0.03", "ms", "chain_tau", 1, None),
    ):  # fmt: skip
        work = networks.bench_events if unit == per else networks.bench_seconds
        done = of(work, case=case, scale=float(scale))
        yield Case(name, group, about, unit, done, goal, unit == per)
    for name, about, run in (
        ("tau-prokaryotic", "prokaryotic gene network, 2^18, epsilon 0.03", LEAPS[3]),
        ("tau-ras", "Ras/cAMP/PKA to t = 5, 4096, epsilon 0.03", LEAPS[4]),
    ):
        yield Case(name, "leaps", about, "ms", of(networks.kernels, run=run))
    for name, about, goal in (
        ("256-frequent", "256³, 16 slots, 10 % full, frequent reactions", 0.42),
        ("256-rare", "the same, rates / 100", 0.36), ("256-none", "the same, no reactions", 0.33),
        ("256-fill2", "the same, 2 % full", 0.22), ("256-slots8", "the same, 8 slots", 0.26),
        ("256-fill30", "the same, 30 % full", 1.3),
    ):  # fmt: skip
        yield Case(name, "lattices", about, "ms", _step(name, 20, 50), goal)
    for name, about, goal in (("64", "64³, 10 % full", 20), ("minde", "Min proteins, 32 x 32 x 128", 8),
                              ("cell", "cell of 300 species", 10)):  # fmt: skip
        yield Case(name, "small lattices", about, "us", _step(name, 200, 2000), goal)
    for name, about, many, t_end, goal in (
        ("minde-run", "Min proteins by `ts.run`", 1, 2.0, 100),
        ("minde-32", "32 replicas of them", 32, 0.5, 300),
    ):
        done = of(lattices.by_run, replicas=many, t_end=t_end)
        yield Case(name, "replicas", about, "thousand steps/s", done, goal, more=True)
    for name, about, large_run, goal in (
        ("egfr", "egfr_net, 4096, to t = 10", Work("egfr_net", 0, 4096, t_end=10.0), 0.15),
        ("bcr", "BCR, 1024, to t = 20", Work("BCR_ssa", 0, 1024, t_end=20.0, core=1), 0.05),
        ("chain-10000", "cyclic chain of 10,000", CHAIN, 0.4),
        ("colloidal", "colloidal aggregation, N = 252", COLLOIDAL, 1.23),
    ):
        yield Case(name, "networks", about, "ns an event", of(large.event, work=large_run), goal)
    done = of(equations.whole_run, name="EGF-NGF", share=1.0)
    yield Case("egf-ngf", "equations", "EGF-NGF, 3e6 x 1e4 steps of RK4", "s", done, 0.81)
    for name, (t_end, n, about, goal) in ON_CORE.items():
        if goal:
            done = of(networks.on_a_core, run=Run(name, n, t_end))
            yield Case(
                f"core-{name}", "cores", f"one core, {about}", "10^6 events/s", done, goal, True
            )


CHAIN = Work("chain", 10_000, 8192, 10_000, presimulation=0, core=64)
COLLOIDAL = Work("colloidal", 252, 8192, 5000, core=16)


def of(work: Callable[..., Answer], /, **given: Any) -> Callable[[Machine], Answer]:
    """The work with all its arguments but the machine."""
    return partial(work, **given)


def _step(name: str, warm: int, steps: int, **how: Any) -> Callable[[Machine], Answer]:
    return of(lattices.step, name=name, warm=warm, steps=steps, **how)


def starts() -> Iterator[Case]:
    """Commands in processes of their own."""
    for name, words in COMMANDS.items():
        about = f"`{words[1]}`" if words[0] == "-c" else f"`tauslab {' '.join(words[2:6])}`"
        if name == "run":
            about = "`tauslab run`, 1,000 trajectories, warm"
        about = about.replace(str(ROOT / "examples") + "/", "")
        done = of(command, name=name)
        goal, device = 1.0 if name == "run" else None, "cuda" if name == "cupy" else ""
        yield Case(f"start-{name}", "start", about, "s", done, goal, device=device)
    for name, model, n, sets in (
        ("call", "schlogl", 10, ""), ("call-set", "schlogl", 10, "c1"),
        ("call-births", "births", 1, ""), ("call-births-100", "births", 100, ""),
        ("call-enzyme", "enzyme", 1, ""), ("call-enzyme-100", "enzyme", 100, ""),
        ("call-enzyme-set", "enzyme", 1, "make"), ("call-events", "events", 1, ""),
        ("call-tau", "tau", 1, ""), ("call-ode", "ode", 1, ""),
    ):  # fmt: skip
        about = f"a call for {n} trajector{'y' if n == 1 else 'ies'} of {model}{', other rates each' if sets else ''}"
        yield Case(name, "calls", about, "ms", of(networks.calls, name=model, n=n, sets=sets), 1.5)
    about = "10,000 calls for one trajectory of enzyme, other rates each"
    yield Case("evaluations", "calls", about, "s", of(networks.evaluations), 15.0)


def ensembles() -> Iterator[Case]:
    """Models of files, events, leaps by their number and error, random models, forms on a core."""
    for model, n, t_end in (
        ("vilar_oscillator", 2**17, 20.0), ("toggle_switch", 2**18, 20.0),
        ("lac_two_state", 2**16, 20.0), ("heat_shock_mass_action", 2**13, 20.0),
        ("dimerization", 2**19, 20.0), ("telegraph", 2**18, 50.0), ("lotka_volterra", 2**18, 5.0),
        ("prokaryotic_gene_network", 2**17, 50.0), ("BIOMD0000000012", 2**14, 50.0),
    ):  # fmt: skip
        done = of(networks.kernels, run=Run(model, n, t_end))
        yield Case(f"file-{model}", "files", f"{model}, {n}", "s", done)
    for model, method in product(("dosed", "counter", "late"), ("ssa", "tau")):
        done = of(networks.events, run=Run(model, 2**18, 10.0, method, 11))
        yield Case(f"{model}-{method}", "events", f"{model}, {method}, 2^18", "10^11 events/s", done,
                   more=True)  # fmt: skip
    for run, power in product(LEAPS, range(6, 19, 2)):
        sized = Run(run.model, 2**power, run.t_end, "tau", 100, values=run.values)
        done = of(networks.kernels, run=sized)
        yield Case(f"{run.model}-2^{power}", "leap sizes", f"{run.model}, 2^{power}", "ms", done)
    for run in LEAPS:
        some = Run(run.model, min(run.n, 2**16), run.t_end, "tau", values=run.values)
        done = of(networks.to_one_percent, run=some)
        yield Case(f"error-{run.model}", "leap errors", f"{run.model} to 1 %", "ms", done)
    for number, (reactions, species, initial, rates) in enumerate(networks.SYNTHETIC, 1):
        about = f"{reactions} x {species}, {initial}, {rates}"
        done = of(networks.of_models, number=number)
        yield Case(f"synthetic-{number}", "synthetic", about, "s", done)
    for model, method in product(("pair", "dimers", "isomers"), ("ssa", "tau", "cle", "hybrid")):
        n, t_end = 20_000, 0.2 if model == "dimers" else 1.0
        if (model, method) == ("isomers", "ssa"):
            n = 2000  # 10^8 events each
        done = of(networks.kernels, run=Run(model, n, t_end, method, 5))
        yield Case(f"{model}-{method}", "stiff leaps", f"{model}, {method}, {n}", "ms", done)
    for name, solver in product(networks.STIFF, ("dopri5", "rosenbrock")):
        done = of(networks.step_count, solver=solver, model=name)
        yield Case(f"{name}, {solver}", "stiff", f"{name}, {solver}", "steps", done)


def on_cores() -> Iterator[Case]:
    """Forms of kernels on a CPU, threads, filters."""
    rate = "10^6 events/s"
    for (name, (t_end, n, about, _)), form in product(ON_CORE.items(), networks.FORMS):
        done = of(networks.on_a_core, run=Run(name, n, t_end), form=form)
        yield Case(f"{name}, {form}", "lanes", f"{about}, {form}", rate, done, more=True)
    for name, n, form in product(("schlogl", "vilar_oscillator", "heat_shock_mass_action"),
                                 (1, 2, 3, 4, 8, 16, 24, 32, 64, 256), ("one", "lanes")):  # fmt: skip
        done = of(networks.on_a_core, run=Run(name, n, ON_CORE[name][0]), form=form)
        yield Case(f"{name}, {n}, {form}", "few", f"{name}, {n}, {form}", rate, done, more=True)
    leaping = (Run("enzyme", 20_000, 5.0, "tau", values=ENZYME), Run("schlogl", 4000, 10.0, "tau"),
               Run("prokaryotic_gene_network", 12_000, 50.0, "tau"),
               Run("ras_camp_pka", 32, 150.0, "tau"), Run("chain", 4000, 10.0, "tau"))  # fmt: skip
    solved = tuple(Run(model, n, t_end, solver) for model, t_end, n, solver in (
        ("BIOMD0000000012", 100.0, 4000, "dopri5"), ("BIOMD0000000012", 100.0, 4000, "rosenbrock"),
        ("BIOMD0000000012", 100.0, 4000, "rk4"), ("BIOMD0000000033", 60.0, 1000, "rosenbrock"),
        ("BIOMD0000000088", 10.0, 500, "rosenbrock"), ("BIOMD0000000201", 10.0, 4000, "dopri5"),
        ("vilar_oscillator", 50.0, 1000, "rosenbrock"),
    ))  # fmt: skip
    for group, unit, runs in (("lanes of leaps", "10^3 leaps/s", leaping),
                              ("lanes of equations", "10^3 steps/s", solved)):  # fmt: skip
        for run, form in product(runs, networks.FORMS):
            about = f"{run.model}, {run.method}, {form}"
            done = of(networks.on_a_core, run=run, form=form)
            yield Case(about, group, about, unit, done, more=True)
    cores = len(os.sched_getaffinity(0))
    for name, t_end, each in (("schlogl", 10.0, 5000), ("michaelis_menten", 50.0, 50_000)):
        for threads in sorted({2**k for k in range(10) if 2**k < cores} | {cores}):
            done = of(networks.on_threads, run=Run(name, each, t_end), threads=threads)
            about = f"{name}, {threads} threads"
            yield Case(about, "threads", about, rate, done, more=True)
    for n, together in product((50, 100, 200, 500), (True, False)):
        about = f"{n} particles, {'side by side' if together else 'one by one'}"
        done = of(networks.filters, particles=n, together=together)
        yield Case(about, "filters", about, "filters/s", done, more=True, device="cpu")
    about = "one filter, a million particles, Lotka-Volterra"
    steps, done = "10^6 particle steps/s", of(networks.large_filter)
    yield Case("a million particles", "filters", about, steps, done, 300.0, more=True)


def large_networks() -> Iterator[Case]:
    """Time of an event by size, trajectories, threads, pilot and selector; leaps from tables."""
    usual = {"presimulation": 0}
    sizes = [Work("chain", n, min(8192, 8192 * 10_000 // n), 10_000, **usual)
             for n in (100, 1000, 10_000, 100_000, 1_000_000)]  # fmt: skip
    sizes += [Work("colloidal", n, 8192, 5000) for n in (16, 32, 64, 128, 252, 512)]
    sizes += [Work(f"random{d}", m, 8192 if m <= 10_000 else 2048, 10_000,
                   presimulation=None if m <= 10_000 else 0)
              for m in (1000, 10_000, 100_000) for d in (8, 16)]  # fmt: skip
    yield from _events("network sizes", sizes)
    yield from _events("network rows", [
        Work(kind, n, rows, 5000, **usual)
        for kind, n in (("colloidal", 252), ("chain", 50_000))
        for rows in (64, 256, 1024, 4096, 16_384)
    ])  # fmt: skip
    yield from _events("teams", [
        Work(kind, n, 8192, updates, team=team, presimulation=None if kind == "egfr_net" else 0)
        for kind, n, updates in (("chain", 10_000, 5000), ("colloidal", 252, 2000), ("egfr_net", 0, 5000))
        for team in (1, 8, 32, 128)
    ])  # fmt: skip
    yield from _events("pilots", [
        Work(kind, n, rows, updates, selector=selector, presimulation=pilot)
        for kind, n, rows, updates, selector in (
            ("random16", 10_000, 8192, 10_000, "pdm"), ("colloidal", 128, 8192, 5000, "pdm"),
            ("egfr_net", 0, 4096, 10_000, "pdm"), ("BCR_ssa", 0, 2048, 5000, "pdm"))
        for pilot in (0, None)
    ])  # fmt: skip
    yield from _events("selectors", [
        Work(kind, n, rows, 5000, selector=selector, counts=factor)
        for selector in large.TABLED
        for kind, n, rows, factors in (
            ("multisite2", 0, 4096, (1, 10)), ("egfr_net", 0, 4096, (1, 0.1, 0.01)),
            ("BCR_ssa", 0, 1024, (1, 0.1, 0.01)), ("chain", 1000, 4096, (5, 20, 1000)),
            ("chain", 10_000, 4096, (20, 1000)), ("random8", 1000, 4096, (1, 0.1, 0.01)),
            ("random16", 10_000, 4096, (1, 0.1)), ("colloidal", 64, 4096, (1000,)))
        for factor in factors
    ])  # fmt: skip
    for name, rows, t_end, core in (("egfr_net", 4096, 10.0, 8), ("BCR_ssa", 1024, 20.0, 1)):
        done = of(large.times_a_core, work=Work(name, 0, rows, t_end=t_end, core=core))
        yield Case(f"{name}-core", "beside a core", name, "times a core", done, more=True)
    for name, size in (("egfr_net", 0), ("BCR_ssa", 0), ("multisite2", 0), ("multistate", 0)):
        done = of(large.prepared, kind=name, size=size)
        yield Case(f"load-{name}", "network starts", f"reading {name}", "s", done)
    done = of(large.prepared, kind="chain", size=100_000, rows=131_072)
    yield Case("memory", "network starts", "131,072 trajectories of 100,000 species", "s", done)
    from_nothing = of(large.from_nothing, work=Work("start", 58_276, 1, 1000))
    yield Case("generated", "network starts", "58,276 reactions of 3,744 species, 1,000 updates", "s",
               from_nothing)  # fmt: skip
    for size in (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000):
        about = f"{size} reactions and species"
        yield Case(about, "tables of leaps", about, "ms", of(large.leap, size=size))


def _events(group: str, works: list[Work]) -> Iterator[Case]:
    for work in works:
        words = [
            f"{work.kind} {work.size or ''}".strip(),
            f"{work.trajectories} trajectories",
            f"team {work.team}" if work.team else "",
            str(work.selector or ""),
            "no pilot" if work.presimulation == 0 else "",
            f"counts x {work.counts:g}" if work.counts != 1 else "",
        ]
        about = ", ".join(filter(None, words))
        yield Case(f"{group}: {about}", group, about, "ns an event", of(large.event, work=work))


def systems() -> Iterator[Case]:
    """Equations: whole runs by the layout that is chosen, and by every other."""
    for name in equations.CASES:
        done = of(equations.whole_run, name=name)
        yield Case(f"system-{name}", "systems", name, "s", done)
    for name, warps in product(equations.CASES, (0, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)):
        about = f"{name}, {f'{warps} warps' if warps else 'a thread each'}"
        done = of(equations.whole_run, name=name, warps=warps)
        yield Case(about, "layouts", about, "s", done)


def of_lattices() -> Iterator[Case]:
    """Lattices of other sizes, by other engines, many of them, and what surrounds the steps."""
    for name in ("256-fill20", "128x128x256", "64x128x128", "cube", "ball", "lac", "64-fill1",
                 "64-fill2", "64-fill3", "128-few", "256-few"):  # fmt: skip
        yield Case(f"lattice-{name}", "other lattices", name, "us", _step(name, 20, 400))
    for name, sparse in product(("minde", "ball", "cube", "64-fill1", "64-fill2", "256-few"),
                                (True, False)):  # fmt: skip
        about = f"{name}, {'sites that hold particles' if sparse else 'all sites'}"
        yield Case(about, "other lattices", about, "us", _step(name, 20, 200, sparse=sparse))
    for name, lines in product(("64", "cell"), (True, False)):
        about = f"{name}, {'' if lines else 'no '}lines of sites"
        done = _step(name, 20, 1000, sparse=False, lines=lines)
        yield Case(about, "other lattices", about, "us", done)
    done = _step("minde", 20, 1000, replicas=8)
    yield Case("minde-8", "other lattices", "8 replicas of the Min proteins", "us", done)
    cubes = [f"{edge}-{density}" for edge, density in product(lattices.EDGES, lattices.DENSITIES)]
    for name, many, engine in product(("minde", *cubes), (1, 32), ("slots", "planes")):
        about = f"{name}, {many} in {engine}"
        done = _step(name, 20, 400, replicas=many, engine=engine)
        yield Case(about, "engines of lattices", about, "us", done)
    for many, engine in product((1, 32), ("slots", "planes")):
        about = f"minde by `ts.run`, {many} in {engine}"
        done = of(lattices.by_run, replicas=many, t_end=2.0 / many**0.5, engine=engine)
        yield Case(about, "engines of lattices", about, "thousand steps/s", done, more=True)
    for size, fill in product((256, 512), (0.1, 0.25)):
        about = f"{size}³, {fill:.0%} full"
        yield Case(about, "placing", about, "s", of(lattices.placing, size=size, fill=fill))
    yield Case("output", "output", "counts every 10, a frame every 1,000 steps of 256³", "%",
               lattices.output_cost)  # fmt: skip
    sizes = product((8, 16, 32), (32, 256), (10, 100))
    for (edge, many, each), engine in product(sizes, ("slots", "planes")):
        about = f"{many} lattices of {edge}³ in {engine}, looked at after {each} steps each"
        done = of(lattices.side_by_side, edge=edge, many=many, engine=engine, each=each)
        yield Case(about, "side by side", about, "us", done)


RANKS = (1, 2, 4, 8)
STRONG = ("256x128x128", "256x256x256", "512x512x512", "256x256x256:8")


def on_ranks() -> Iterator[Case]:
    """Jobs of several ranks."""
    for n in (1, 8, 32, 64, 96):
        yield Case(f"start-{n}", "ranks", f"{n} ranks, 2,000 trajectories", "s",
                   of(ranks.launched, n=n, what="start"))  # fmt: skip
    for n, record in product(RANKS, ("statistics", "trajectories,statistics")):
        yield _on("ensembles", n, "s", "ensemble", record)
    for streams in (1, 4):
        yield Case(f"dd-{streams}", "writing", f"dd, {streams} at a time", "MB/s",
                   of(ranks.dd, streams=streams), more=True)  # fmt: skip
    for name in ranks.WRITERS:
        if "mpio" not in name or "TAUSLAB_PARALLEL_H5PY" in os.environ:
            yield _on("writing", 4, "MB/s", "write", name, more=True)
    for n in (64, 256, 1024):
        done = of(ranks.closing, size=n)
        yield Case(f"closing-{n}", "closing", f"parts of {n} ranks", "s", done)
    for n, case in product(RANKS[:3], ("course", "turnover")):
        yield _on("particles", n, "10^6 particles/s", "particles", case, more=True)


def over_ranks() -> Iterator[Case]:
    """One lattice over ranks, by transport, and the slab of one of them alone, by its blocks."""
    for n, transport in product(RANKS, ("peer", "shared", "host", "mpi")):
        if n == 1 and transport != "peer":
            continue
        for shape in (*STRONG, f"{128 * n}x256x256"):
            yield _on("halo", n, "ms", "steps", shape, transport)
        if n > 1:
            yield _on("messages", n, "us", "links", transport)
    for shape, depth in product(("64x64x64", "128x128x128"), ("1", "2", "4")):
        yield _on("halo", 4, "ms", "steps", shape, "peer", depth)
    for shape, n, planes in product(STRONG[:2], RANKS, (4, 8, 12, 16, 20, 24, 30)):
        done = of(halo.alone, text=shape, ranks=n, planes=planes)
        yield Case(f"{shape}-{n}-{planes}", "planes", f"{shape}, a slab of {n}, blocks of {planes} planes",
                   "ms", done)  # fmt: skip


def of_verbs() -> Iterator[Case]:
    """What programs call between two steps."""
    for size, n in ((1000, 1), (1000, 64)):
        done = of(verbs.of_ensembles, size=size, n=n)
        about = f"{n} particles of a chain of {size} species, all names"
        yield Case(f"ensemble-{size}-{n}", "verbs", about, "ms", done)
    for species in (300, 5000):
        about = f"64 x 64 x 128 sites, {species} species"
        done = of(verbs.of_hooks, species=species)
        yield Case(f"hook-{species}", "verbs", f"hook of {about}", "ms", done, 0.3)
        done = of(verbs.of_lattices, species=species)
        yield Case(f"lattice-{species}", "verbs", f"ensemble of a lattice of {about}", "ms", done)


def of_hybrids() -> Iterator[Case]:
    """Cells of several parts, with their output."""
    size = "5,490 species, 1,139 reactions, 148 equations, 455 bills"
    for name, n, on_lattice, goal in (("cell", 1, True, 1.2), ("cells", 1000, False, None)):
        where = "on 64 x 64 x 128 sites" if on_lattice else "well mixed"
        about = f"{n} of {size}, {where}: a biological second"
        done = of(hybrids.of_cells, n=n, on_lattice=on_lattice)
        yield Case(f"hybrid-{name}", "hybrids", about, "s", done, goal)
    for outside in (11.1, 0.055):
        for parts, name, form in ((2, "", ""), (1, "network-", " as one network")):
            about = f"galactose switch of yeast{form}, {outside} mM, to 60 min"
            done = of(hybrids.galactose, outside=outside, parts=parts)
            yield Case(f"galactose-{name}{outside}", "hybrids", about, "s", done, 20)


def _on(group: str, n: int, unit: str, what: str, *words: str, more: bool = False) -> Case:
    work: Callable[..., Answer] = lambda machine: ranks.launched(machine, n, what, *words)  # noqa: E731
    about = f"{', '.join(words)}, {n} ranks"
    return Case(f"{what}-{'-'.join(words)}-{n}", group, about, unit, work, more=more)


CASES = {
    case.name: case
    for part in (goals, starts, ensembles, on_cores, large_networks, systems, of_lattices, on_ranks, over_ranks,
                 of_verbs, of_hybrids)
    for case in part()
}  # fmt: skip
