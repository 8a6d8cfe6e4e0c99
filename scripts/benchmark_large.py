"""Exact simulation of large networks: time per update by size, trajectories, team, selector.

    python scripts/benchmark_large.py --device cuda -o large.csv            # all cases
    python scripts/benchmark_large.py --device cuda --quick chain egfr      # a first look at two

Time per update is T_up = seconds / (trajectories x updates), seconds on the device without start
and compilation (Komarov & D'Souza, PLoS ONE 7:e46693, 2012, figures 7 to 9). Of the synthetic
networks every trajectory makes the same number of updates; `egfr` and `bcr` run to their end times,
and again on one CPU core, whose rate per trajectory the last column compares with.

Cases: chain (weakly coupled), colloidal (strongly), random (8 to 16 dependents), trajectories (of
chain and colloidal), teams (thread, warp and block), selectors, egfr, bcr, memory (asks for more
trajectories than fit).
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import tauslab as ts
from tauslab.kernels.selectors import SELECTORS
from tauslab.kernels.ssa import MAX_STEPS

NETS = Path(__file__).resolve().parent.parent / "tests" / "data" / "net"
ENDLESS = 1e9  # end time of runs that a number of updates ends


@dataclass(frozen=True)
class Work:
    """One run: `updates` of each trajectory, or to `t_end` where it is given."""

    case: str
    network: Callable[[], ts.Network]
    size: int
    trajectories: int
    updates: int = 0
    t_end: float = ENDLESS
    selector: str | None = None
    team: int = 0
    device: str | None = None


@dataclass(frozen=True)
class Row:
    """What a run took."""

    case: str
    size: int
    reactions: int
    trajectories: int
    selector: str
    team: int
    device: str
    events: int
    seconds: float
    ns_per_update: float
    start_seconds: float
    trajectories_per_second: float
    times_one_core: float | None = None


@functools.cache
def chain(n: int) -> ts.Network:
    """S1 -> S2 -> ... -> S1, one molecule each, rate 1."""
    return ts.cyclic_chain(n)


@functools.cache
def colloidal(n: int) -> ts.Network:
    """Clusters of 1 to n particles that join and break in every way, rate 1."""
    return ts.colloidal_aggregation(n)


@functools.cache
def random_network(m: int, dependents: int) -> ts.Network:
    """Reactions of one or two species, rates uniform in [0, 1]."""
    return ts.random_network(reactions=m, dependents=dependents, seed=m + dependents)


@functools.cache
def file(name: str) -> ts.Network:
    """A network of tests/data/net."""
    network = ts.read(NETS / f"{name}.net")
    assert isinstance(network, ts.Network)
    return network


@dataclass(frozen=True)
class Cases:
    """Runs by case; `quick` takes few sizes and few trajectories."""

    quick: bool

    def chains(self) -> Iterator[Work]:
        """Figure 7a."""
        for n in (100, 10_000) if self.quick else (100, 1000, 10_000, 100_000, 1_000_000):
            trajectories = 8192 if n <= 10_000 else 8192 * 10_000 // n
            yield Work("chain", functools.partial(chain, n), n, trajectories, 10_000)

    def colloids(self) -> Iterator[Work]:
        """Figure 7b."""
        for n in (64, 252) if self.quick else (16, 32, 64, 128, 252, 512):
            yield Work("colloidal", functools.partial(colloidal, n), n, 8192, 10_000)

    def randoms(self) -> Iterator[Work]:
        """Figure 7c."""
        for m in (1000,) if self.quick else (1000, 10_000, 100_000):
            for d in (8, 16):
                trajectories = 8192 if m <= 10_000 else 2048
                net = functools.partial(random_network, m, d)
                yield Work(f"random{d}", net, m, trajectories, 10_000)

    def trajectories(self) -> Iterator[Work]:
        """Figure 8."""
        for rows in (512, 4096) if self.quick else (64, 256, 1024, 2048, 4096, 8192, 16_384):
            yield Work("trajectories", lambda: colloidal(252), 252, rows, 10_000)
            yield Work("trajectories", lambda: chain(50_000), 50_000, rows, 10_000)

    def teams(self) -> Iterator[Work]:
        """Figure 9: threads of a trajectory, in place of the paper's blocks of reactions."""
        for team in (1, 8, 32, 128):
            rows = 4096 if self.quick else 8192
            yield Work("teams", lambda: chain(10_000), 10_000, rows, 5000, team=team)
            yield Work("teams", lambda: colloidal(252), 252, rows, 5000, team=team)
            yield Work("teams", lambda: file("egfr_net"), 3749, rows, 20_000, team=team)
            yield Work("teams", lambda: file("BCR_ssa"), 24_388, rows // 2, 20_000, team=team)

    def warps(self) -> Iterator[Work]:
        """One or four trajectories in a warp: docs/benchmarks/h200-large-teams.csv."""
        egfr, bcr = (lambda: file("egfr_net")), (lambda: file("BCR_ssa"))
        for team in (8, 32):
            for rows, updates in ((4096, 20_000), (16_384, 5000)):
                yield Work("warps", egfr, 3749, rows, updates, team=team)
            for rows, updates in ((1024, 10_000), (2048, 20_000)):
                yield Work("warps", bcr, 24_388, rows, updates, team=team)
            yield Work("warps", lambda: chain(10_000), 10_000, 8192, 10_000, team=team)
            yield Work("warps", lambda: colloidal(252), 252, 8192, 5000, team=team)

    def selectors(self) -> Iterator[Work]:
        """What the choice of a selector is fitted to."""
        for selector in SELECTORS[1:]:
            rows = 2048 if self.quick else 4096
            yield Work("selectors", lambda: chain(1000), 1000, rows, 5000, selector=selector)
            yield Work("selectors", lambda: chain(100_000), 100_000, 512, 5000, selector=selector)
            yield Work("selectors", lambda: colloidal(64), 64, rows, 2000, selector=selector)
            yield Work(
                "selectors", lambda: random_network(1000, 8), 1000, rows, 5000, selector=selector
            )
            yield Work("selectors", lambda: random_network(10_000, 16), 10_000, rows, 5000,
                       selector=selector)  # fmt: skip
            yield Work("selectors", lambda: file("multisite2"), 288, rows, 5000, selector=selector)
            yield Work("selectors", lambda: file("egfr_net"), 3749, rows, 5000, selector=selector)

    def egfr(self) -> Iterator[Work]:
        """One core, then the device."""
        net = lambda: file("egfr_net")  # noqa: E731 - one of two
        yield Work("egfr", net, 3749, 2 if self.quick else 8, t_end=10.0, device="cpu")
        yield Work("egfr", net, 3749, 1024 if self.quick else 4096, t_end=10.0)

    def bcr(self) -> Iterator[Work]:
        """One core, then the device."""
        net = lambda: file("BCR_ssa")  # noqa: E731 - one of two
        end = 20.0 if self.quick else 100.0
        yield Work("bcr", net, 24_388, 1, t_end=end, device="cpu")
        yield Work("bcr", net, 24_388, 512 if self.quick else 1024, t_end=end)

    def memory(self) -> Iterator[Work]:
        """More trajectories than a device has room for; updates few, as starts count."""
        n = 10_000 if self.quick else 1_000_000
        rows = 100_000_000_000 // (32 * n) // (100 if self.quick else 1)
        yield Work("memory", lambda: chain(n), n, rows, 10)


CASES: dict[str, Callable[[Cases], Iterator[Work]]] = {
    "chain": Cases.chains,
    "colloidal": Cases.colloids,
    "random": Cases.randoms,
    "trajectories": Cases.trajectories,
    "teams": Cases.teams,
    "warps": Cases.warps,
    "selectors": Cases.selectors,
    "egfr": Cases.egfr,
    "bcr": Cases.bcr,
    "memory": Cases.memory,
}


def measure(work: Work, device: str, repeats: int) -> Row:
    """Run; of several runs the one in the middle counts."""
    network = work.network()
    began = time.perf_counter()
    results = [
        ts.run(
            network,
            n=work.trajectories,
            times=[0.0, work.t_end],
            seed=1,
            method="ssa",
            species=next(iter(network.species)),
            record="final",
            device=work.device or device,
            threads=1,
            selector=work.selector,
            team=work.team,
            max_steps=work.updates or MAX_STEPS,
        )
        for _ in range(repeats)
    ]
    wall = time.perf_counter() - began
    results.sort(key=lambda result: float(result.data["profile/compute"][0]))
    result = results[len(results) // 2]
    seconds = float(result.data["profile/compute"][0])
    events = int(result.data["profile/events"][0])
    return Row(
        work.case,
        work.size,
        len(network.reactions),
        work.trajectories,
        str(result.attributes["selector"]),
        work.team,
        result.data["profile/device"][0].decode(),
        events,
        round(seconds, 5),
        round(seconds / max(1, events) * 1e9, 3),
        round((wall - sum(float(r.data["profile/compute"][0]) for r in results)) / repeats, 2),
        round(work.trajectories / seconds, 3),
    )


def main() -> int:
    """Measure the cases, print rows as they come, write CSV or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="all by default")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="few sizes, short runs")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of trajectories")
    parser.add_argument("-o", "--output", type=Path, help="CSV, or JSON by its suffix")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    for case in arguments.cases or CASES:
        core: float | None = None
        for planned in CASES[case](Cases(quick=arguments.quick)):
            scaled = max(1, round(planned.trajectories * arguments.scale))
            work = replace(planned, trajectories=scaled)
            row = asdict(measure(work, arguments.device, arguments.repeats))
            if work.device == "cpu":
                core = row["trajectories_per_second"]
            elif core:
                row["times_one_core"] = round(row["trajectories_per_second"] / core, 1)
            rows.append(row)
            print(json.dumps(row), flush=True)
            if arguments.output:
                write(rows, arguments.output)
    return 0


def write(rows: list[dict[str, object]], path: Path) -> None:
    """Everything so far, so that a run that is cut off leaves what it measured."""
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1) + "\n")
        return
    with path.open("w", newline="") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
