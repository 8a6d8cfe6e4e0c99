"""Commands about this machine: doctor, bench."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.cli.doctor.report import doctor_json, doctor_report
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.launcher import launched_rank
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import choose_backend
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import method_class
from tauslab.options.record import Record
from tauslab.runner.ensemble.entry import run_network

Measured = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A model with its load; `trajectories` per device name, for one rank.

    `values` are initial amounts other than the model's.
    """

    name: str
    about: str
    network: Callable[[], Network]
    t_end: float
    points: int
    record: str
    species: tuple[str, ...] | None
    trajectories: dict[str, int]
    method: str = "ssa"
    values: dict[str, float] = field(default_factory=dict)


def schlogl() -> Network:
    """Schlögl's bistable model (Schlögl 1972), rates as in cuTauLeaping (Nobile et al. 2014)."""
    net = Network("schlogl")
    net.add_species("X", 250)
    net.add_reaction("2 X -> 3 X", rate=0.03)
    net.add_reaction("3 X -> 2 X", rate=1e-4)
    net.add_reaction("-> X", rate=200.0)
    net.add_reaction("X ->", rate=3.5)
    return net


def birth_death() -> Network:
    """Immigration and death about 100 molecules: trajectories of almost one length."""
    net = Network("birth_death")
    net.add_species("X", 100)
    net.add_reaction("-> X", rate=100.0)
    net.add_reaction("X ->", rate=1.0)
    return net


def michaelis_menten() -> Network:
    """Enzyme kinetics with 1000 enzymes and 4000 substrates."""
    net = Network("michaelis_menten")
    for name, initial in (("E", 1000), ("S", 4000), ("ES", 0), ("P", 0)):
        net.add_species(name, initial)
    net.add_reaction("E + S -> ES", rate=0.0025)
    net.add_reaction("ES -> E + S", rate=0.1)
    net.add_reaction("ES -> E + P", rate=5.0)
    return net


def vilar_oscillator() -> Network:
    """Genetic oscillator with activator and repressor (Vilar, Kueh, Barkai & Leibler 2002)."""
    net = Network("vilar_oscillator")
    initial = {"DA": 1, "DR": 1}
    for name in ("DA", "DAp", "DR", "DRp", "MA", "MR", "A", "R", "C"):
        net.add_species(name, initial.get(name, 0))
    for equation, rate in (
        ("DAp -> DA", 50.0), ("DA + A -> DAp", 1.0), ("DRp -> DR", 100.0), ("DR + A -> DRp", 1.0),
        ("DAp -> DAp + MA", 500.0), ("DA -> DA + MA", 50.0), ("DRp -> DRp + MR", 50.0),
        ("DR -> DR + MR", 0.01), ("MA -> MA + A", 50.0), ("MR -> MR + R", 5.0),
        ("A + R -> C", 2.0), ("C -> R", 1.0), ("A ->", 1.0), ("R ->", 0.2), ("MA ->", 10.0),
        ("MR ->", 0.5),
    ):  # fmt: skip
        net.add_reaction(equation, rate=rate)
    return net


def chain() -> Network:
    """Twenty species in a row, 1000 molecules each, with a source and a sink at the ends."""
    net = Network("chain")
    for i in range(1, 21):
        net.add_species(f"S{i}", 1000)
    net.add_reaction("-> S1", rate=1000.0)
    for i in range(1, 20):
        net.add_reaction(f"S{i} -> S{i + 1}", rate=1.0)
        net.add_reaction(f"S{i + 1} -> S{i}", rate=0.5)
    net.add_reaction("S20 ->", rate=1.0)
    return net


_SMALL_ENZYME = {"E": 750.0, "S": 1000.0}
CASES = {
    case.name: case
    for case in (
        Case("schlogl", "exact, t = 10, 100 samples kept", schlogl, 10.0, 100, "trajectories",
             ("X",), {"cuda": 2**18, "cpu": 2**9}),
        Case("schlogl_statistics", "exact, t = 10, statistics at 101 times", schlogl, 10.0, 101,
             "statistics", None, {"cuda": 2**22, "cpu": 2**9}),
        Case("birth_death", "exact, t = 10, statistics at 101 times", birth_death, 10.0, 101,
             "statistics", None, {"cuda": 2**22, "cpu": 2**12}),
        Case("michaelis_menten", "exact, t = 5, statistics at 101 times", michaelis_menten, 5.0,
             101, "statistics", None, {"cuda": 2**20, "cpu": 2**11}),
        Case("vilar_oscillator", "exact, t = 20, statistics at 101 times", vilar_oscillator, 20.0,
             101, "statistics", None, {"cuda": 2**17, "cpu": 2**8}),
        Case("enzyme_ssa", "Michaelis-Menten, E 750, S 1000, exact, t = 5, statistics at 100 times",
             michaelis_menten, 5.0, 100, "statistics", None, {"cuda": 2**18, "cpu": 2**12},
             values=_SMALL_ENZYME),
        Case("enzyme_tau", "the same by tau-leaping", michaelis_menten, 5.0, 100, "statistics",
             None, {"cuda": 2**18, "cpu": 2**12}, "tau", _SMALL_ENZYME),
        Case("schlogl_tau", "tau-leaping, t = 10, statistics at 100 times", schlogl, 10.0, 100,
             "statistics", None, {"cuda": 2**18, "cpu": 2**8}, "tau"),
        Case("chain_ssa", "20 species, exact, t = 10, statistics at 100 times", chain, 10.0, 100,
             "statistics", None, {"cuda": 2**18, "cpu": 2**4}),
        Case("chain_tau", "the same by tau-leaping", chain, 10.0, 100, "statistics", None,
             {"cuda": 2**18, "cpu": 2**9}, "tau"),
    )
}  # fmt: skip


def run_case(
    case: Case, comm: Communicator, *, device: str, threads: int, scale: float, repeat: int
) -> Measured:
    """Time a case: one run that compiles and warms up, then `repeat` timed ones; medians.

    Returns
    -------
    Seconds of kernels (`compute`, the longest over ranks) and of the whole run from Python to a
    closed file (`wall`), events, events per second of kernel time summed over ranks.
    """
    if repeat < 1 or not scale > 0:
        raise ConfigError("--repeat must be 1 or more and --scale above 0")
    n = max(1, round(case.trajectories[choose_backend(device)] * scale)) * comm.size
    with tempfile.TemporaryDirectory(prefix="tauslab-bench-") as folder:
        # Every rank names rank 0's folder: parts of one result lie together.
        path = Path(comm.bcast(folder)) / "bench.h5"
        options = Options(
            times=np.linspace(0.0, case.t_end, case.points), n=n, seed=1,
            method=method_class(case.method)(), set=case.values, record=Record.parse(case.record),
            species=case.species, device=device, threads=threads, output=path, overwrite=True,
            quiet=True, command="tauslab bench",
        )  # fmt: skip
        runs = [_timed(case, options, comm) for _ in range(repeat + 1)][1:]
        comm.barrier()
    middle = {k: statistics.median(r[k] for r in runs) for k in ("compute", "wall")}
    last = runs[-1]
    return {
        "case": case.name, "about": case.about, "trajectories": n, "ranks": comm.size,
        "device": last["device"], "events": last["events"], **middle,
        "events_per_second": last["events"] / middle["compute"], "repeat": repeat,
    }  # fmt: skip


def _timed(case: Case, options: Options, comm: Communicator) -> Measured:
    comm.barrier()
    began = time.perf_counter()
    with run_network(case.network(), options, comm) as result:
        comm.barrier()
        wall = time.perf_counter() - began
        profile = {k: result.data[f"profile/{k}"][()] for k in ("device", "compute", "events")}
    return {
        "wall": wall,
        "compute": float(profile["compute"].max()),
        "events": int(profile["events"].sum()),
        "device": profile["device"][0].decode(),
    }


def table(measured: list[Measured]) -> list[str]:
    """A heading, and a line per case."""
    heading = f"{'case':<18} {'trajectories':>12} {'kernels s':>10} {'wall s':>8} {'events/s':>10}"
    return [heading] + [
        f"{m['case']:<18} {m['trajectories']:>12} {m['compute']:>10.4f} {m['wall']:>8.3f} "
        f"{m['events_per_second']:>10.3g}  {m['about']}; {m['ranks']} x {m['device']}"
        for m in measured
    ]


def process_doctor(arguments: argparse.Namespace) -> None:
    """``tauslab doctor``: what this machine offers; of ranks that do not meet, first what it can.

    Raises
    ------
    ConfigError
        The ranks did not find each other, or no result can be written into the folder given.
    """
    failure: ConfigError | None = None
    try:
        comm = ranks()
    except ConfigError as error:
        if launched_rank() > 0:
            raise
        comm, failure = Communicator(), error
    facts = doctor_json(comm, arguments.folder)
    storage = facts["storage"]
    if arguments.folder is not None and not storage["writable"] and failure is None:
        failure = ConfigError(f"--folder {arguments.folder}: not writable: {storage['reason']}")
    if comm.rank == 0:
        print(json.dumps(facts, indent=2) if arguments.json else "\n".join(doctor_report(facts)))
    if failure is not None:
        raise failure


def process_bench(arguments: argparse.Namespace) -> None:
    """``tauslab bench``: known models, timed."""
    comm = ranks()
    for name in arguments.case or ():
        if name not in CASES:
            raise ConfigError(f"--case {name} is not known; cases: {', '.join(CASES)}")
    measured = [
        run_case(
            CASES[name],
            comm,
            device=arguments.device,
            threads=arguments.threads,
            scale=arguments.scale,
            repeat=arguments.repeat,
        )
        for name in arguments.case or CASES
    ]
    if comm.rank == 0:
        print(json.dumps(measured, indent=2) if arguments.json else "\n".join(table(measured)))
