"""Quantiles of a million trajectories from a file that need not fit into memory.

    python examples/quantiles_out_of_core.py million.h5 --workers 4
    python examples/quantiles_out_of_core.py some.h5 -n 20000

Dask reads the file chunk by chunk and counts how often each value occurs at each sample time; the
chunks' numbers are added up as they come, so that only these are ever whole in memory. From them
quantiles are exact. The file is made first, if it is not there.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.array
import numpy as np
import numpy.typing as npt

import tauslab as ts

MODEL = Path(__file__).with_name("telegraph.toml")
LEVELS = (0.05, 0.5, 0.95)
Counted = npt.NDArray[np.int64]


def numbers_of(counts: npt.NDArray[np.int32], top: int) -> Counted:
    """How often each value occurs in ``[trajectory, time]``: ``[1, time, value]``."""
    times = counts.shape[1]
    cells = counts + (top + 1) * np.arange(times)
    return np.bincount(cells.ravel(), minlength=times * (top + 1)).reshape(1, times, top + 1)


def quantiles(counts: dask.array.Array, levels: tuple[float, ...]) -> npt.NDArray[np.int64]:
    """The smallest value x with F(x) >= level, ``[level, time]``.

    `counts` are ``[trajectory, time]``, all of trajectories that did not end early.
    """
    top = int(counts.max().compute())
    each = counts.map_blocks(
        numbers_of,
        top,
        dtype=np.int64,
        chunks=((1,) * counts.numblocks[0], counts.shape[1:], (top + 1,)),
        new_axis=2,
    )
    # A tree of sums: few of the chunks' numbers are in memory at a time.
    numbers = each.sum(axis=0, split_every=8).compute()
    below = np.cumsum(numbers, axis=1)
    needed = np.ceil(np.array(levels)[:, None] * counts.shape[0])
    return (below[None] < needed[:, :, None]).sum(axis=2)


def make(path: Path, n: int) -> None:
    """Simulate in a process of its own, so that this one's memory shows what quantiles need."""
    options = ["--t-end", "100", "--points", "101", "--seed", "1", "--record", "trajectories"]
    command = [sys.executable, "-m", "tauslab", "run", MODEL, "-n", str(n), "--species", "P"]
    subprocess.run([*command, *options, "-o", path], check=True)


def main() -> None:
    """Make the file if it is not there, then compute quantiles from it."""
    parser = argparse.ArgumentParser(description="quantiles over trajectories, out of core")
    parser.add_argument("file", type=Path)
    parser.add_argument("-n", type=int, default=1_000_000, help="trajectories of a new file")
    parser.add_argument("--workers", type=int, default=2, help="threads that read and count")
    parser.add_argument("--blocks", type=int, default=None, help="storage blocks in a chunk")
    arguments = parser.parse_args()
    if not arguments.file.exists():
        make(arguments.file, arguments.n)
    with ts.open(arguments.file) as result:
        times = result.times
        counts = result.to_dask(blocks=arguments.blocks)[:, :, 0]
        begun = time.perf_counter()
        with dask.config.set(scheduler="threads", num_workers=arguments.workers):
            found = quantiles(counts, LEVELS)
        seconds = time.perf_counter() - begun
    size = arguments.file.stat().st_size / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{counts.shape[0]} trajectories, {size:.0f} MiB in {counts.numblocks[0]} chunks:")
    print(f"quantiles after {seconds:.1f} s; this process never used more than {peak:.0f} MiB")
    for k in range(0, counts.shape[1], max(1, counts.shape[1] // 5)):
        row = ", ".join(f"{level:g}: {found[i, k]}" for i, level in enumerate(LEVELS))
        print(f"  t = {times[k]:g}  {row}")


if __name__ == "__main__":
    main()
