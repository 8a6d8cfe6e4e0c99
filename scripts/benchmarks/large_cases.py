"""What `benchmark_large.py` runs: networks, and named cases with the time that each takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tauslab as ts

NETS = Path(__file__).resolve().parents[2] / "tests" / "data" / "net"
ENDLESS = 1e9  # end time of runs that a number of updates ends
FILES = {"egfr_net": 3749, "BCR_ssa": 24_388, "multisite2": 288, "multistate": 18}
TEAMS = (1, 8, 32, 128)


@dataclass(frozen=True)
class Work:
    """One run: `updates` of each trajectory, or to `t_end` where it is given.

    `kind` names the network: a rule and `size`, or a file. With `core` one CPU core runs `core`
    trajectories first, and both run by what the pilot chooses and by what is fastest there.
    `selector` and `presimulation` None choose.
    """

    case: str
    kind: str
    size: int
    trajectories: int
    updates: int = 0
    t_end: float = ENDLESS
    selector: Any = None  # a word of `tauslab.SSA`
    team: int = 0
    presimulation: int | None = None
    core: int = 0

    def network(self) -> ts.Network:
        """The network; the last two stay in memory."""
        return network_of(self.kind, self.size)


@functools.lru_cache(maxsize=2)
def network_of(kind: str, size: int) -> ts.Network:
    """A cyclic chain, colloidal aggregation, a random network of so many dependents, or a file."""
    if kind == "chain":
        return ts.cyclic_chain(size)
    if kind == "colloidal":
        return ts.colloidal_aggregation(size)
    if kind == "start":
        return ts.random_network(reactions=size, species=3744, seed=1)
    if kind.startswith("random"):
        dependents = int(kind.removeprefix("random"))
        return ts.random_network(reactions=size, dependents=dependents, seed=size + dependents)
    network = ts.read(NETS / f"{kind}.net")
    assert isinstance(network, ts.Network)
    return network


def file(name: str, case: str, trajectories: int, updates: int = 0, **more: object) -> Work:
    """A run of a network of tests/data/net."""
    return Work(case, name, FILES[name], trajectories, updates, **more)  # type: ignore[arg-type]


def chains(*, quick: bool) -> Iterator[Work]:
    """Figure 7: the cyclic chain; rates are equal, so that nothing is to be sorted."""
    for n in (100, 10_000) if quick else (100, 1000, 10_000, 100_000, 1_000_000):
        rows = 8192 if n <= 10_000 else 8192 * 10_000 // n
        yield Work("chain", "chain", n, rows, 10_000, presimulation=0)


def colloids(*, quick: bool) -> Iterator[Work]:
    """Figure 7: colloidal aggregation."""
    for n in (64, 252) if quick else (16, 32, 64, 128, 252, 512):
        yield Work("colloidal", "colloidal", n, 8192, 5000)


def randoms(*, quick: bool) -> Iterator[Work]:
    """Figure 7: random networks; the largest without a pilot, which doubles its start."""
    for m in (1000,) if quick else (1000, 10_000, 100_000):
        for d in (8, 16):
            rows, pilot = (8192, None) if m <= 10_000 else (2048, 0)
            yield Work("random", f"random{d}", m, rows, 10_000, presimulation=pilot)


def trajectories(*, quick: bool) -> Iterator[Work]:
    """Figure 8, with the paper's sizes."""
    sizes = (512, 4096) if quick else (64, 256, 1024, 4096, 16_384)
    for kind, n in (("colloidal", 252), ("chain", 50_000)):
        for rows in sizes:
            yield Work("trajectories", kind, n, rows, 5000, presimulation=0)


def teams(*, quick: bool) -> Iterator[Work]:
    """Figure 9: threads of a trajectory, in place of the paper's blocks of reactions."""
    rows = 2048 if quick else 8192
    for team in TEAMS:
        yield Work("teams", "chain", 10_000, rows, 5000, team=team, presimulation=0)
    for team in TEAMS:
        yield Work("teams", "colloidal", 252, rows, 2000, team=team, presimulation=0)
    for team in () if quick else TEAMS:
        yield file("egfr_net", "teams", rows, 5000, team=team)


def presimulations(*, quick: bool) -> Iterator[Work]:
    """A pilot that sorts, on and off, by one selector, which it therefore does not choose."""
    rows = 2048 if quick else 8192
    works = (
        Work("presimulation", "random16", 10_000, rows, 10_000, selector="pdm"),
        Work("presimulation", "colloidal", 128, rows, 5000, selector="pdm"),
        file("egfr_net", "presimulation", rows // 2, 10_000, selector="pdm"),
        file("BCR_ssa", "presimulation", rows // 4, 5000, selector="pdm"),
    )
    for events in (0, None):
        yield from (replace(work, presimulation=events) for work in works)


def warps(*, quick: bool) -> Iterator[Work]:
    """One or four trajectories in a warp: docs/benchmarks/h200-large-teams.csv."""
    del quick
    for team in (8, 32):
        for rows, updates in ((4096, 20_000), (16_384, 5000)):
            yield file("egfr_net", "warps", rows, updates, team=team)
        for rows, updates in ((1024, 10_000), (2048, 20_000)):
            yield file("BCR_ssa", "warps", rows, updates, team=team)
        yield Work("warps", "chain", 10_000, 8192, 10_000, team=team)
        yield Work("warps", "colloidal", 252, 8192, 5000, team=team)


def selectors(*, quick: bool) -> Iterator[Work]:
    """What the choice of a selector is fitted to."""
    rows = 2048 if quick else 4096
    for selector in tabled():
        for kind, n, many in (
            ("chain", 1000, rows), ("chain", 100_000, 512), ("random8", 1000, rows),
            ("random16", 10_000, rows),
        ):  # fmt: skip
            yield Work("selectors", kind, n, many, 5000, selector=selector)
        yield Work("selectors", "colloidal", 64, rows, 2000, selector=selector)
        for name in ("multisite2", "egfr_net"):
            yield file(name, "selectors", rows, 5000, selector=selector)


def egfr(*, quick: bool) -> Iterator[Work]:
    """To its end time, beside one core."""
    yield file("egfr_net", "egfr", 512 if quick else 4096, t_end=10.0, core=2 if quick else 8)


def bcr(*, quick: bool) -> Iterator[Work]:
    """To its end time, beside one core."""
    yield file("BCR_ssa", "bcr", 256 if quick else 1024, t_end=10.0 if quick else 100.0, core=1)


def bcr20(*, quick: bool) -> Iterator[Work]:
    """A fifth of it."""
    yield file("BCR_ssa", "bcr20", 256 if quick else 1024, t_end=20.0, core=1)


def tabled() -> tuple[str, ...]:
    """Selectors of networks in tables."""
    from tauslab.kernels.exact.selectors import SELECTORS

    return SELECTORS[1:]


@dataclass(frozen=True)
class Case:
    """Runs under a name; `seconds` on one H200 with 16 cores, start and compilation included."""

    works: Callable[..., Iterator[Work]]
    seconds: int
    about: str
    lot: bool = True


CASES = {
    "chain": Case(chains, 60, "figure 7: cyclic chains, M = 1e2 to 1e6"),
    "colloidal": Case(colloids, 35, "figure 7: colloidal aggregation, N = 16 to 512"),
    "random": Case(randoms, 50, "figure 7: random networks, M = 1e3 to 1e5, 8 and 16 dependents"),
    "trajectories": Case(trajectories, 30, "figure 8: 64 to 16,384 trajectories"),
    "teams": Case(teams, 30, "figure 9: 1, 8, 32 and 128 threads a trajectory"),
    "presimulation": Case(presimulations, 25, "with and without a pilot"),
    "egfr": Case(egfr, 75, "egfr_net to t = 10, 4,096 trajectories, beside one core"),
    "bcr20": Case(bcr20, 60, "BCR to t = 20, 1,024 trajectories, beside one core"),
    "bcr": Case(bcr, 200, "BCR to t = 100, 1,024 trajectories, beside one core", lot=False),
    "warps": Case(warps, 50, "8 and 32 threads a trajectory", lot=False),
    "selectors": Case(selectors, 80, "every selector of tables", lot=False),
}
