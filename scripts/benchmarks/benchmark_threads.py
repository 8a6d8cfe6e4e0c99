"""One CPU: events a second of exact SSA by the number of threads, and where the time goes.

    python scripts/benchmarks/benchmark_threads.py -o docs/benchmarks/threads.csv
    python scripts/benchmarks/benchmark_threads.py --seconds 45 -o docs/benchmarks/threads.csv

Wall seconds of a call of `ts.run` with compiled kernels, for 1, 2, 4, ... threads on as many
cores, the numbers of threads in turns; the median of the repeats counts. Beside it stands the wall
time of a longer run, of which start and end are a smaller part. A run records statistics at 101
times. `kernel` and `sums` are the processor's seconds in the kernel of trajectories and in that of
statistics, `rest` those of all else, by the same runs: what of it does not run on all threads
limits the gain. `start` are the wall seconds of a run of one trajectory: what every run takes on
one thread before and after its launches. With `--seconds` repeats end when they would take
longer than that, all cases together; the number of repeats stands in the table. Cores are taken in the order that the system gives them; `--cores` chooses, say one
of each pair that shares a core.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.kernels.backends.compilers import cpu_features, host_compiler
from tauslab.kernels.backends.cpu import CpuProgram
from tauslab.model.readers.read import read_network

MODELS = Path(__file__).resolve().parents[2] / "tests" / "data" / "sbml"
POINTS = 101


@dataclass(frozen=True)
class Case:
    """A model, the end of its time and trajectories for each thread of a short run."""

    name: str
    t_end: float
    each: int


CASES = (Case("schlogl", 10.0, 5000), Case("michaelis_menten", 50.0, 50_000))
LONGER = 4  # times as many trajectories
TRIED = 0.1  # of the trajectories of a short run: so many tell how long runs may be
WANTED_REPEATS = 3  # in the seconds that are given: runs become shorter for them


class Clock:
    """Processor seconds in each kernel, of all threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Kernels that are launched within it are timed."""
        launch = CpuProgram.launch

        def timed(program: CpuProgram, entry: str, *rest: Any) -> None:
            entries = program._entries  # noqa: SLF001 - to time them
            entries[entry] = self._timed(entry, entries[entry])
            launch(program, entry, *rest)

        CpuProgram.launch = timed  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            CpuProgram.launch = launch  # type: ignore[method-assign]

    def _timed(self, entry: str, function: Any) -> Any:
        function = getattr(function, "plain", function)

        def call(*arguments: Any) -> None:
            begin = time.thread_time()
            function(*arguments)
            spent = time.thread_time() - begin
            with self._lock:
                self.seconds[entry] = self.seconds.get(entry, 0.0) + spent

        call.plain = function  # type: ignore[attr-defined]
        return call


def run(case: Case, n: int, threads: int, seed: int) -> tuple[float, float, dict[str, float], int]:
    """Wall and processor seconds, those of kernels, and events."""
    model = read_network(MODELS / f"{case.name}.xml")
    times, clock = np.linspace(0, case.t_end, POINTS), Clock()
    with clock.watching():
        begin, used = time.perf_counter(), time.process_time()
        result = ts.run(model, n=n, times=times, seed=seed, device=ts.CPU(threads=threads),
                        record="statistics")  # fmt: skip
        wall, used = time.perf_counter() - begin, time.process_time() - used
    return wall, used, clock.seconds, int(np.sum(result.data["profile/events"][()]))


class Measured:
    """Runs of a case on 1, 2, 4, ... threads."""

    def __init__(self, case: Case, counts: list[int], cores: list[int], scale: float) -> None:
        self.case, self.counts, self.cores = case, counts, cores
        self.each = max(1, int(case.each * scale))  # trajectories for a thread, in a short run
        self._found: dict[tuple[int, int], list[tuple[float, list[float]]]] = {}

    def repeat(self, most: int, seconds: float) -> int:
        """Measure so many times, or with 0 until `seconds` are over; how often it was."""
        began, repeats, wanted = time.perf_counter(), 0, self.each
        self.each = max(1, int(wanted * TRIED))
        self._run_all(1, keep=False)  # compiles
        begin = time.perf_counter()
        if not most:
            self._run_all(1, keep=False)
            each = (time.perf_counter() - begin) / self.each * (1 + LONGER) * WANTED_REPEATS
            wanted = min(wanted, int((seconds - (time.perf_counter() - began)) / each))
        self.each = max(1, wanted)
        while not most or repeats < most:
            begin = time.perf_counter()
            self._run_all(repeats + 2, keep=True)
            repeats, now = repeats + 1, time.perf_counter()
            if not most and now - began + (now - begin) > seconds:
                break
        return repeats

    def _run_all(self, seed: int, *, keep: bool) -> None:
        for threads in self.counts:
            os.sched_setaffinity(0, set(self.cores[:threads]))
            start = run(self.case, 1, threads, seed)[0]
            for longer in (1, LONGER) if keep else (1,):
                wall, used, kernels, events = run(
                    self.case, self.each * threads * longer, threads, seed
                )
                sums = kernels.pop("count_statistics", 0.0)
                kernel = sum(kernels.values())
                if keep:
                    row = [kernel, sums, used - kernel - sums, start]
                    self._found.setdefault((threads, longer), []).append((events / wall / 1e6, row))

    def rows(self) -> Iterator[list[str]]:
        """A row of the table for each number of threads, of medians."""
        rates = {
            key: statistics.median(rate for rate, _ in rows) for key, rows in self._found.items()
        }
        for threads in self.counts:
            spent = np.median([row for _, row in self._found[threads, 1]], axis=0)
            own, long = rates[threads, 1], rates[threads, LONGER]
            yield [
                self.case.name, str(threads), str(self.each * threads),
                f"{own:.0f}", f"{own / rates[self.counts[0], 1]:.2f}",
                f"{long:.0f}", f"{long / rates[self.counts[0], LONGER]:.2f}",
                *(f"{x:.3f}" for x in spent),
            ]  # fmt: skip


def main() -> int:
    """Measure and write the table."""
    allowed = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", help="by default 1, 2, 4, ...")
    parser.add_argument("--cores", type=int, nargs="+", default=allowed, help="in this order")
    parser.add_argument("--seconds", type=float, default=0.0, help="for all, in place of --repeats")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of trajectories")
    parser.add_argument("-o", "--output", type=Path, default=Path("threads.csv"))
    options = parser.parse_args()
    cores = options.cores
    counts = options.threads or sorted(
        {2**k for k in range(10) if 2**k < len(cores)} | {len(cores)}
    )
    head = ["model", "threads", "trajectories", "M events/s", "gain", "longer M events/s",
            "longer gain", "kernel s", "sums s", "rest s", "start s", "repeats"]  # fmt: skip
    table = [head]
    share = options.seconds / len(CASES)
    for case in CASES:
        measured = Measured(case, counts, cores, options.scale)
        repeats = measured.repeat(0 if options.seconds else options.repeats, share)
        for row in measured.rows():
            table.append([*row, str(repeats)])
            print(*table[-1], flush=True)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {len(cores)} cores of {_processor()}, {platform.system()}; "
                   f"{host_compiler().version}; medians\n")  # fmt: skip
        csv.writer(file, lineterminator="\n").writerows(table)
    return 0


def _processor() -> str:
    lines = cpu_features().splitlines()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "a CPU")


if __name__ == "__main__":
    sys.exit(main())
