"""Kernels of large networks of this source beside those of another, in turns on one device.

    mkdir /tmp/old && git archive COMMIT src | tar x -C /tmp/old
    python scripts/benchmarks/benchmark_tables.py --other /tmp/old/src --device cuda -o tables.csv

Each source has a process of its own, which stays, and prepares a network once. A round launches all
trajectories once by every source, in an order that turns round each time; seconds are those of the
launch on the device. The table has medians of `--rounds` rounds. Final counts of all trajectories
must be the same: the program ends where digests differ.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[2] / "src"
COLUMNS = ("case", "selector", "team", "trajectories", "t_end", "events", "device")


@dataclass(frozen=True)
class Case:
    """A network of `large_cases.py`, and trajectories that run to `t_end`; `core` on a CPU."""

    kind: str
    size: int
    trajectories: int
    t_end: float
    core: int = 2
    piloted: bool = False


CASES = {
    "egfr": Case("egfr_net", 3749, 4096, 10.0, piloted=True),
    "egfr-early": Case("egfr_net", 3749, 4224, 2.0, piloted=True),
    "bcr": Case("BCR_ssa", 24_388, 1024, 10.0, core=1, piloted=True),
    "bcr-many": Case("BCR_ssa", 24_388, 4224, 2.5, core=1, piloted=True),
    "multisite2": Case("multisite2", 288, 4096, 5.0, core=16, piloted=True),
    "chain": Case("chain", 10_000, 8192, 1.0, core=64),
    "colloidal": Case("colloidal", 252, 8192, 0.16, core=16),
}


class Prepared:
    """The engine of a case as a run would have it, after a pilot by the selector it chooses."""

    def __init__(self, case: Case, device: str) -> None:
        from large_cases import network_of

        from tauslab.kernels.backends import BackendOptions, choose_backend, get_backend
        from tauslab.kernels.ensemble.launch import CONTROL_WORDS, WORK, Launch, SampleBuffers
        from tauslab.kernels.exact.presimulation import presimulate
        from tauslab.kernels.exact.selectors import PILOT_EVENTS, selector_after, selector_of
        from tauslab.kernels.exact.ssa import TableSsa
        from tauslab.kernels.exact.table_network import Expected
        from tauslab.kernels.network.lowering import lower

        options = BackendOptions(threads=1) if device == "cpu" else BackendOptions()
        self.backend = backend = get_backend(choose_backend(device), options)
        network = network_of(case.kind, case.size)
        values = network.parameter_values()
        counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
        lowered = lower(network, parameters=values, counts=counts)
        initial = np.array([list(counts.values())], np.int32)
        constants = np.zeros((1, 1))
        selector, firings = selector_of(lowered), None
        if case.piloted:
            inputs = initial, constants
            pilot = presimulate(backend, lowered, inputs, seed=1, events=PILOT_EVENTS)
            selector, firings = selector_after(lowered, selector, pilot), pilot.firings
        self.rows = n = case.core if device == "cpu" else case.trajectories
        self.engine = TableSsa(
            backend, lowered, [0.0, case.t_end], selector, firings=firings,
            expected=Expected(n, initial[0].astype(np.int64)),
        )  # fmt: skip
        empty = backend.empty
        self.buffers = SampleBuffers(
            None, None, empty((n, len(lowered.recorded)), np.int32), empty((n,), np.uint8),
            empty((CONTROL_WORDS,), np.uint64), empty((len(WORK),), np.uint64),
            self.engine.scratch(n),
        )  # fmt: skip
        self.stream = backend.stream()
        given = (backend.upload(array) for array in (initial, constants))
        self.launch = Launch(0, n, *given)

    def run(self) -> dict[str, Any]:
        """One launch: seconds, events, and a digest of final counts."""
        began = self.stream.record()
        self.engine.start(self.launch, self.buffers, self.stream, seed=1)
        ended = self.stream.record()
        ended.wait()
        found = {}
        for name in ("final", "status", "work"):
            buffer = getattr(self.buffers, name)
            mirror = self.backend.mirror(buffer)
            self.backend.download(buffer, mirror, len(mirror), self.stream)
            found[name] = mirror
        self.stream.record().wait()
        digest = hashlib.sha256(found["final"].tobytes() + found["status"].tobytes()).hexdigest()
        return {
            "seconds": ended.seconds_since(began), "events": int(found["work"][0]),
            "digest": digest, "selector": self.engine.selector, "team": self.engine.team,
            "trajectories": self.rows, "device": self.backend.describe(),
        }  # fmt: skip


def serve(device: str) -> None:
    """Run the case that stands in each line, and answer with what it gave."""
    import tauslab as ts

    kept: dict[str, Prepared] = {}
    for line in sys.stdin:
        name = json.loads(line)
        if name not in kept:
            kept = {name: Prepared(CASES[name], device)}
        print(json.dumps({**kept[name].run(), "file": ts.__file__}), flush=True)


class Source:
    """A process with another source of tauslab."""

    def __init__(self, path: Path, device: str) -> None:
        self._path = path
        environment = {**os.environ, "PYTHONPATH": str(path)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--device", device], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, name: str) -> None:
        """Let it run a case."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(name) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What the case gave."""
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        file = Path(found.pop("file")).resolve()
        assert file.is_relative_to(self._path), f"{file} is not of {self._path}"
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compared(name: str, sources: list[Source], rounds: int) -> dict[str, Any]:
    """The row of a case: medians of nanoseconds an event by each source, this one first."""
    for source in sources:
        source.ask(name)  # all prepare at the same time
    first = [source.answer() for source in sources]
    times: list[list[float]] = [[] for _ in sources]
    for k in range(rounds):
        turn = list(range(len(sources)))
        for i in turn if k % 2 else turn[::-1]:
            sources[i].ask(name)
            found = sources[i].answer()
            first.append(found)
            times[i].append(1e9 * found["seconds"] / found["events"])
    digests = {one["digest"] for one in first}
    if len(digests) > 1:
        sys.exit(f"{name}: final counts differ")
    row = {"case": name, **first[0], "t_end": CASES[name].t_end}
    ns = [statistics.median(one) for one in times]
    others = {f"other_{i}_ns": round(one, 4) for i, one in enumerate(ns[1:], 1)}
    return {**{c: row[c] for c in COLUMNS}, "ns": round(ns[0], 4), **others,
            "digest": digests.pop()[:16]}  # fmt: skip


def main() -> None:
    """Print rows as they come, write them as CSV."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="all by default")
    parser.add_argument("--other", type=Path, action="append", default=[], help="folder src")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="a CSV file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.device)
        return
    paths = [SOURCE, *options.other]
    sources = [Source(path.resolve(), options.device) for path in paths]
    rows = []
    for name in options.cases or CASES:
        rows.append(compared(name, sources, options.rounds))
        print(json.dumps(rows[-1]), flush=True)
        if options.output:
            with options.output.open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
    for source in sources:
        source.close()


if __name__ == "__main__":
    main()
