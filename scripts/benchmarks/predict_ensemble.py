#!/usr/bin/env python3
"""Predict the seconds of one ensemble on 1 to 4096 GPUs from what was measured on a few.

    python scripts/benchmarks/predict_ensemble.py --measured docs/benchmarks/h200-scaling.json

The model, from the call to the closed file::

    t = a + w / G + c G

w are the seconds of the work on one GPU. a is what more GPUs do not make shorter: to begin, and the
last launches, which do not end at the same time; it is fitted, with w, to the rows of one GPU and
of all in the file. c is what rank 0 does for each rank's part of the file in the end, as
`benchmark_ranks.py` measures it. Ranks take blocks from a counter on rank 0, which serves a certain
number in a second: where launches would have to be shorter than that allows, a row says so. The
start of Python and MPI is not in it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

GPUS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
CLOSING = 2.2 / 1024  # seconds of a part that is merged: docs/benchmarks/ranks-cpu.md
SERVED = 2200.0  # requests of blocks a second: docs/clusters.md
BLOCKS = 4  # of a rank at least
WEAK = (40.0, 600.0)  # seconds of each GPU's work


@dataclass(frozen=True)
class Job:
    """An ensemble: seconds of its work on one GPU, and those that stay whatever the number."""

    work: float
    fixed: float

    def seconds(self, gpus: int) -> float:
        """From the call to the closed file.

        >>> round(Job(155.6, 1.0).seconds(4), 1)
        39.9
        """
        return self.fixed + self.work / gpus + (CLOSING * gpus if gpus > 1 else 0.0)

    def waits_for_blocks(self, gpus: int) -> bool:
        """Whether ranks ask for blocks faster than rank 0 answers.

        >>> [Job(155.6, 1.0).waits_for_blocks(n) for n in (256, 1024)]
        [False, True]
        """
        return gpus > 1 and BLOCKS * gpus / (self.work / gpus) > SERVED


def fitted(rows: list[dict[str, float]]) -> Job:
    """The job of rows with ``ranks`` and ``seconds``, by the fewest and the most ranks.

    >>> fitted([{"ranks": 1, "seconds": 101.0}, {"ranks": 4, "seconds": 26.0}])
    Job(work=100.0, fixed=1.0)
    """
    rows = sorted(rows, key=lambda row: row["ranks"])
    few, many = rows[0], rows[-1]
    work = (few["seconds"] - many["seconds"]) / (1 / few["ranks"] - 1 / many["ranks"])
    return Job(work, few["seconds"] - work / few["ranks"])


def table(rows: list[dict[str, float]]) -> str:
    """Seconds by the number of GPUs: one job, and jobs that grow with them."""
    job = fitted(rows)
    measured = {int(row["ranks"]): row["seconds"] for row in rows}
    weak = " | ".join(f"{seconds:.0f} s of work each: s | of it work" for seconds in WEAK)
    lines = [f"| GPUs | measured, s | predicted, s | times one GPU | {weak} |", "|---" * 8 + "|"]
    for gpus in GPUS:
        seconds = job.seconds(gpus)
        cells = [str(gpus), f"{measured[gpus]:.1f}" if gpus in measured else "", f"{seconds:.1f}"]
        late = ", waits for blocks" * job.waits_for_blocks(gpus)
        cells.append(f"{job.seconds(1) / seconds:.1f}{late}")
        for each in WEAK:
            grown = replace(job, work=each * gpus).seconds(gpus)
            cells += [f"{grown:.0f}", f"{100 * each / grown:.0f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--measured", type=Path, required=True, help="of benchmark_scaling.py")
    parser.add_argument("--record", default="statistics", help="of which rows")
    options = parser.parse_args()
    lines = options.measured.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["record"] == options.record]
    print(fitted(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
