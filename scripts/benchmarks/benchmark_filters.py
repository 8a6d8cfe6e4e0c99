"""Filters per second on one core, beside the package `particles`, and on several ranks.

    pip install particles numba
    taskset -c 0 python scripts/benchmarks/benchmark_filters.py peers
    mpirun -n 2 python scripts/benchmarks/benchmark_filters.py ranks --device cuda --n 1000000 --rounds 2

`peers`: bootstrap filters of Lotka and Volterra's reactions on the course of python-smfsb (16 rows, exact
simulation), at many values of the parameters. `particles` (N. Chopin) gives filter and resampling; what moves its
particles is written by its user: Gillespie's direct method, compiled by Numba. Filters of tauslab
run side by side. Rounds alternate; medians of user seconds are printed as a table, with the mean log-likelihoods, which must agree.

`ranks`: one filter of many particles; particles moved per second, the shares of the time spent in kernels that move, in
resampling and in recording moments, and a digest that does not depend on the number of ranks. On GPUs each rank has one;
`mpirun -n 4` for four. `--case turnover` has cheap events and 50 rows, so that most of the time is the host's.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.filtering import Course
from tauslab.runner.particles.motions.network import NetworkMotion
from tauslab.runner.ranks.all_ranks import ranks

DATA = Path(__file__).resolve().parents[2] / "tests/data/ensembles/lotka_volterra_noise_10.json"
SD = 10.0


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    peers = commands.add_parser("peers", help="beside the package particles, on one core")
    peers.add_argument("--filters", type=int, default=200)
    peers.add_argument("--sizes", default="50,100,500", help="particles of a filter")
    peers.add_argument("--rounds", type=int, default=5)
    peers.set_defaults(work=compare)
    several = commands.add_parser("ranks", help="particles per second of all ranks")
    several.add_argument("--n", type=int, default=1_000_000)
    several.add_argument("--device", default="cpu")
    several.add_argument("--rounds", type=int, default=3)
    several.add_argument("--case", choices=("course", "turnover"), default="course")
    several.set_defaults(work=measure_ranks)
    chosen = parser.parse_args()
    chosen.work(chosen)


def course() -> tuple[ts.Network, dict[str, Any]]:
    """The model with parameters by name, and the course."""
    case = json.loads(DATA.read_text(encoding="utf-8"))
    net = ts.Network("lotka_volterra")
    net.add_species("x1", 50)
    net.add_species("x2", 100)
    for name, value in (("birth", 1.0), ("meet", 0.005), ("death", 0.6)):
        net.add_parameter(name, value)
    net.add_reaction("x1 -> 2 x1", rate="birth")
    net.add_reaction("x1 + x2 -> 2 x2", rate="meet")
    net.add_reaction("x2 ->", rate="death")
    columns = np.array(case["data"], float).T
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


OBSERVE = {"x1": f"normal({SD})", "x2": f"normal({SD})"}
INITIAL = {"x1": "poisson(50)", "x2": "poisson(100)"}


def compare(chosen: argparse.Namespace) -> None:
    """Print a table: user seconds and filters per second."""
    births = np.linspace(0.9, 1.1, chosen.filters)
    rows = []
    for n in [int(text) for text in chosen.sizes.split(",")]:
        ways: dict[str, Callable[[], float]] = {
            "tauslab, side by side": partial(ours, births, n),
            "tauslab, one by one": partial(one_by_one, births, n),
            "particles and Numba": partial(theirs, births, n),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        found: dict[str, float] = {}
        for name, way in ways.items():
            found[name] = way()  # compiles
        for _ in range(chosen.rounds):
            for name, way in ways.items():
                before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
                found[name] = way()
                spent[name].append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
        for name, seconds in spent.items():
            middle = statistics.median(seconds)
            rows.append((n, name, middle, chosen.filters / middle, found[name]))
    print("| particles | | user s | filters/s | mean log-likelihood |\n|---|---|---|---|---|")
    for n, name, middle, rate, log in rows:
        print(f"| {n} | {name} | {middle:.2f} | {rate:.1f} | {log:.2f} |")


def ours(births: Any, n: int) -> float:
    """All in one launch a row."""
    net, data = course()
    found = ts.particle_filters(
        net, data, observe=OBSERVE, initial=INITIAL, n=n, parameters={"birth": births}, seed=1,
        threshold=1.0, device=ts.CPU(threads=1),
    )  # fmt: skip
    return float(found.log_likelihood.mean())


def one_by_one(births: Any, n: int) -> float:
    """A filter at a time, on an ensemble that is begun anew."""
    net, data = course()
    logs = [
        ts.particle_filters(
            net, data, observe=OBSERVE, initial=INITIAL, n=n, parameters={"birth": [birth]},
            seed=1, number=i, threshold=1.0, device=ts.CPU(threads=1),
        ).log_likelihood[0]
        for i, birth in enumerate(births.tolist())
    ]  # fmt: skip
    return float(np.mean(logs))


def theirs(births: Any, n: int) -> float:
    """`particles.SMC` of the bootstrap filter, with a transition that Numba compiles."""
    particles: Any = import_module("particles")
    distributions: Any = import_module("particles.distributions")
    state_space_models: Any = import_module("particles.state_space_models")

    move = compiled()
    _, data = course()
    steps = np.diff(data["time"], prepend=data["time"][0])
    seen = list(np.stack([data["x1"], data["x2"]], axis=1))

    class Moved(distributions.ProbDist):  # type: ignore[misc]
        dim, dtype = 2, np.float64

        def __init__(self, before: Any, duration: float, birth: float) -> None:
            self.before, self.duration, self.birth = before, duration, birth

        def rvs(self, size: int | None = None) -> Any:
            del size
            return move(self.before, self.duration, self.birth)

    class Model(state_space_models.StateSpaceModel):  # type: ignore[misc]
        def PX0(self) -> Any:  # noqa: N802 - theirs
            return distributions.IndepProd(distributions.Poisson(50), distributions.Poisson(100))

        def PX(self, t: int, xp: Any) -> Any:  # noqa: N802 - theirs
            return Moved(np.asarray(xp, float), steps[t], self.birth)

        def PY(self, t: int, xp: Any, x: Any) -> Any:  # noqa: N802 - theirs
            del t, xp
            return distributions.IndepProd(
                distributions.Normal(loc=x[:, 0], scale=SD),
                distributions.Normal(loc=x[:, 1], scale=SD),
            )

    logs = []
    for birth in births.tolist():
        chain = state_space_models.Bootstrap(ssm=Model(birth=birth), data=seen)
        smc = particles.SMC(fk=chain, N=n, resampling="systematic", ESSrmin=1.0)
        smc.run()
        logs.append(smc.logLt)
    return float(np.mean(logs))


_COMPILED: list[Any] = []


def compiled() -> Any:
    """Gillespie's direct method for all particles, compiled once."""
    if _COMPILED:
        return _COMPILED[0]
    numba: Any = import_module("numba")

    @numba.njit  # type: ignore[untyped-decorator]
    def move(before: Any, duration: float, birth: float) -> Any:
        after = before.copy()
        for i in range(len(after)):
            x, y, t = after[i, 0], after[i, 1], 0.0
            while True:
                a, b, c = birth * x, 0.005 * x * y, 0.6 * y
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

    _COMPILED.append(move)
    return move


class Clock:
    """Seconds that a rank spends in some methods, those of others that they call included."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def watch(self, owner: type, name: str) -> None:
        """Time all calls of a method."""
        usual = getattr(owner, name)

        @functools.wraps(usual)
        def timed(*given: Any, **more: Any) -> Any:
            before = time.perf_counter()
            try:
                return usual(*given, **more)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - before

        setattr(owner, name, timed)


def measure_ranks(chosen: argparse.Namespace) -> None:
    """Time one filter on all ranks; rank 0 prints.

    `copy_rows` moves rows within a rank and between ranks; shares are the largest of all ranks.
    """
    comm = ranks()
    net, data = course() if chosen.case == "course" else turnover()
    observe = OBSERVE if chosen.case == "course" else {"x1": "normal(3)", "x2": "normal(3)"}
    initial = INITIAL if chosen.case == "course" else None
    clock = Clock()
    clock.watch(NetworkMotion, "_launch")
    clock.watch(Ensemble, "copy_rows")
    clock.watch(Course, "resample")
    clock.watch(Course, "_record")
    for turn in range(chosen.rounds + 1):
        clock.spent = {}
        comm.barrier()
        before = time.perf_counter()
        found = ts.particle_filter(
            net, data, observe=observe, initial=initial, n=chosen.n, seed=1, device=chosen.device
        )
        seconds = max(comm.allgather(time.perf_counter() - before))
        spent = comm.allgather(clock.spent)
        moving, copying, resampling, recording = (
            max(each.get(name, 0.0) for each in spent) / seconds
            for name in ("_launch", "copy_rows", "resample", "_record")
        )
        digest = hashlib.sha256(found.terms.tobytes() + found.mean.tobytes()).hexdigest()[:16]
        digests = set(comm.allgather(digest))
        if comm.rank == 0 and turn:  # the first compiles
            moved = chosen.n * len(found.time) / seconds
            print(
                f"{comm.size} ranks, {chosen.device}: {chosen.n} particles, {seconds:.2f} s, "
                f"{moved:.3g} particles/s, {moving:.1%} in kernels, {resampling:.1%} in "
                f"resampling ({copying:.1%} copying), {recording:.1%} in moments, log-likelihood {found.log_likelihood:.4f}, digest "
                f"{' '.join(sorted(digests))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
