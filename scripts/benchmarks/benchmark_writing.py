"""What writing costs: several ranks fill one result, by each writer, beside dd on the same disk.

    python scripts/benchmarks/benchmark_writing.py --ranks 4 --scale 1.0 --folder /data -o writing.csv

starts the ranks itself, writes 4 GB at scale 1 and removes what it wrote; a table in Markdown is
written beside the CSV.  mpio needs an h5py with MPI, in TAUSLAB_PARALLEL_H5PY
(scripts/build_parallel_h5py).  Counts are those of a noisy Schlögl-like ensemble, which gzip makes
about half as large.  All times, dd's too, are until every file was synced to the device.  A virtual
disk may be slow where it is written for the first time, so a file as large as all is written before
anything is measured; then come rounds of everything, and medians count.  Ranks are compared with as
many dd, which write zeros to a file each.  What stands below a table stays.  The last rows are
ensembles that really run: the part of their ranks' time that was spent on writing while the device
computed, and the part in which the device had nothing to do.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.runner.api.api import ranks
from tauslab.runner.output.format.layout import Chunk, Layout
from tauslab.runner.output.writers.parts import PartsOptions
from tauslab.runner.output.writers.writer import Storage, open_writer
from tauslab.runner.results.open import open_result

HEADER = ("what", "ranks", "bytes", "seconds", "megabytes_per_second", "of_dd")
FULL_BYTES = 4e9
TIMES = 100
BLOCK = 2500  # a mebibyte
LAUNCH = 64  # blocks
WRITERS = {
    "mpio": Storage("mpio"),
    "mpio, romio_cb_write=disable": Storage("mpio", {"romio_cb_write": "disable"}),
    "mpio + gzip": Storage("mpio", compress=4),
    "parts + virtual": Storage("parts"),
    "parts + gzip": Storage("parts", compress=4),
}


def main() -> None:
    """Measure everything, or be a rank of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--scale", type=float, default=1.0, help="of 4 GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--machine", default=f"{os.cpu_count()} CPU cores")
    parser.add_argument("--writer", choices=WRITERS, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    total = int(FULL_BYTES * arguments.scale)
    if arguments.writer is not None:
        write(arguments.writer, arguments.folder, total)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows = measure(arguments, Path(folder), total)
    for row in rows:
        print(*row, sep="  ")
    if arguments.output is not None:
        write_table(arguments.output, rows, arguments.machine)


def write(name: str, folder: Path, total: int) -> None:
    """Be a rank: write this rank's share of the blocks; rank 0 tells how long all took."""
    comm = ranks()
    n = total // (4 * TIMES)
    layout = Layout(
        n=n, times=np.arange(TIMES, dtype=float), species=("X",), observables=(),
        trajectories=True, final=False, statistics=False, histograms=(),
        block=BLOCK, attributes={"method": "ssa", "seed": 1, "model_sha256": "", "command": ""},
    )  # fmt: skip
    rng = np.random.default_rng(comm.rank)
    rows = LAUNCH * BLOCK
    counts = rng.normal(300, 60, (rows, TIMES, 1)).astype(np.int32)
    status = np.zeros(rows, np.uint8)
    parts = PartsOptions(merge_bytes=0)
    path = folder / "a.h5"
    comm.barrier()
    began = time.perf_counter()
    writer = open_writer(path, layout, comm, how=WRITERS[name], overwrite=True, parts=parts)
    for first in range(comm.rank * LAUNCH, layout.n_blocks, comm.size * LAUNCH):
        start, stop = layout.block_rows(first, min(first + LAUNCH, layout.n_blocks))
        rows = stop - start
        writer.write(Chunk(start, {"counts": counts[:rows], "status": status[:rows]}))
    writer.finish({}, comm.gather({}) or [])
    files = sorted([*folder.glob("a.h5.parts/*.h5"), path])
    for file in files[comm.rank :: comm.size]:
        sync(file)
    comm.barrier()
    if comm.rank == 0:
        print(json.dumps(time.perf_counter() - began))


def sync(path: Path) -> None:
    """Wait until a file is on the device, whoever wrote it."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def measure(arguments: argparse.Namespace, folder: Path, total: int) -> list[tuple[Any, ...]]:
    """A row for dd, for each writer and for real ensembles."""
    n = arguments.ranks
    seconds_of_dd(folder, total, 1)
    taken: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for streams, shared in ((1, False), (n, False), (n, True)):
            name = f"dd conv=fsync, {streams} at a time{', one file' if shared else ''}"
            taken.setdefault(name, []).append(seconds_of_dd(folder, total, streams, shared=shared))
        for name, storage in WRITERS.items():
            if storage.writer == "mpio" and "TAUSLAB_PARALLEL_H5PY" not in os.environ:
                continue
            taken.setdefault(name, []).append(seconds_of_writer(arguments, name, folder))
            print(name, taken[name], flush=True)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    dd = medians[f"dd conv=fsync, {n} at a time"]
    rows = [row(name, n, total, seconds, dd) for name, seconds in medians.items()]
    return rows + ensembles(folder, n)


def seconds_of_writer(arguments: argparse.Namespace, name: str, folder: Path) -> float:
    """Let all ranks write by a writer, and remove what they wrote."""
    own = [__file__, "--writer", name, "--scale", str(arguments.scale), "--folder", str(folder)]
    told = start(own, arguments.ranks, parallel=WRITERS[name].writer == "mpio")
    for file in [*folder.glob("a.h5.parts/*"), *folder.glob("a.h5")]:
        file.unlink()
    return float(json.loads(told.splitlines()[-1]))


def row(what: str, n: int, total: int, seconds: float, dd: float) -> tuple[Any, ...]:
    """A row of the table."""
    return what, n, total, f"{seconds:.2f}", f"{total / seconds / 1e6:.0f}", f"{dd / seconds:.2f}"


def seconds_of_dd(folder: Path, total: int, streams: int, *, shared: bool = False) -> float:
    """Zeros to the same disk, by several processes that share them, each to its file or place."""
    count = max(1, total // streams >> 20)
    files = [folder / f"dd{0 if shared else stream}" for stream in range(streams)]
    places = [f"seek={stream * count if shared else 0}" for stream in range(streams)]
    command = ["dd", "if=/dev/zero", "bs=1M", f"count={count}", "conv=fsync,notrunc"]
    began = time.perf_counter()
    copies = [
        subprocess.Popen([*command, place, f"of={file}"], stderr=subprocess.DEVNULL)
        for file, place in zip(files, places, strict=True)
    ]
    failed = max(copy.wait() for copy in copies)
    seconds = time.perf_counter() - began
    for file in set(files):
        file.unlink()
    if failed:
        raise OSError(f"dd could not write to {folder}")
    return seconds


def start(arguments: list[str], n: int, *, parallel: bool = False) -> str:
    """Run Python on `n` ranks; what they printed."""
    environment = dict(os.environ)
    if parallel:
        paths = [os.environ["TAUSLAB_PARALLEL_H5PY"], environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    launcher = str(Path(sys.executable).with_name("mpirun"))
    command = [launcher, "-n", str(n), sys.executable, *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def ensembles(folder: Path, n: int) -> list[tuple[Any, ...]]:
    """A Schlögl ensemble that keeps all samples, and one that keeps only sums."""
    model = Path(__file__).resolve().parents[2] / "examples" / "schlogl.xml"
    rows = []
    for record in ("trajectories", "statistics"):
        path = folder / "ensemble.h5"
        arguments = ["-m", "tauslab", "run", str(model), "-n", "60000", "--t-end", "4"]
        arguments += ["--points", "101", "--seed", "1", "--method", "ssa", "--device", "cpu"]
        start([*arguments, "--record", record, "--quiet", "-o", str(path)], n)
        with open_result(path) as result:
            profile = {k: result.data[f"profile/{k}"][()] for k in ("write", "wait", "wall")}
            size = path.stat().st_size
        wall = float(profile["wall"].max())
        shares = [100 * float(profile[k].sum() / profile["wall"].sum()) for k in ("write", "wait")]
        what = f"ensemble, {record}: {shares[0]:.1f} % writing, {shares[1]:.1f} % devices idle"
        rows.append((what, n, size, f"{wall:.2f}", f"{size / wall / 1e6:.0f}", ""))
        path.unlink()
    return rows


def write_table(path: Path, rows: list[tuple[Any, ...]], machine: str) -> None:
    """The table, and the same in Markdown."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)
    lines = [
        "# Writing",
        "",
        f"On {machine}, by `scripts/benchmarks/benchmark_writing.py`; medians.",
        "",
    ]
    lines += [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    lines += [f"| {' | '.join(map(str, cells))} |" for cells in rows]
    page = path.with_suffix(".md")
    notes = page.read_text(encoding="utf-8").rpartition("|\n")[2] if page.exists() else ""
    page.write_text("\n".join([*lines, notes]), encoding="utf-8")


if __name__ == "__main__":
    main()
