"""Measure what grows with the number of ranks: start-up, counter, closing, files and memory.

    python scripts/benchmarks/benchmark_ranks.py --ranks 1,8,32 --parts 64,256,1024 -o ranks.json

One rank alone is traced for the files that it opens and looks for (strace, where there is one) and
asked for its memory import by import.  Then a small run is started on every number of ranks.  On a
machine with fewer cores than ranks, seconds of CPU and not of the clock are what a rank costs.  At
last this process writes the parts of so many ranks, each with four blocks that alternate with those
of the others, and closes, opens and merges them: what rank 0 of so many ranks would do, without so
many ranks.  These are seconds of CPU; a shared file system adds its latency for every file that is
opened.  A table in Markdown is printed, and written beside the JSON; it exits 1
where the digests of runs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tauslab.runner.cli.merge import merge
from tauslab.runner.output.format.layout import Chunk, Layout
from tauslab.runner.output.writers.parts import PartsOptions
from tauslab.runner.output.writers.writer import open_writer
from tauslab.runner.ranks.mpi import SerialCommunicator
from tauslab.runner.results.open import open_result

Row = dict[str, Any]
SCHLOGL = Path(__file__).resolve().parents[2] / "examples" / "schlogl.xml"
RUN = ["--t-end", "1", "--points", "6", "--seed", "5", "--method", "ssa", "--species", "X",
       "--device", "cpu", "--threads", "1", "--overwrite", "--quiet"]  # fmt: skip
BLOCKS, ROWS, TIMES = 4, 8, 101  # of a rank, of a block, of a row
TAKEN = 200
OPENED = ("openat", "open")
LOOKED = ("newfstatat", "stat", "lstat", "access", "readlink", "statx", "faccessat2")
PRIVATE = r"Private_\w+: +(\d+)"
IMPORTS = ("re", "numpy", "tauslab.runner.cli.main", "h5py", "libsbml", "mpi4py.MPI")


def main() -> None:
    """Measure all, or be one rank of a launch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launcher", default="mpiexec", help="and options of it, without -n")
    parser.add_argument("--ranks", default="1,8,32", help="numbers of ranks to start")
    parser.add_argument("--parts", default="64,256,1024", help="numbers of ranks to close for")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    if arguments.rank_of is not None:
        be_rank(arguments.rank_of)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        folder = Path(scratch)
        found: dict[str, Any] = {"files": files_of_a_rank(folder), "memory": memory_of_imports()}
        launcher = shlex.split(arguments.launcher)
        found["launches"] = [launch(launcher, n, folder) for n in numbers(arguments.ranks)]
        found["closing"] = [close(n, folder) for n in numbers(arguments.parts)]
    lines = table(found)
    print("\n".join(lines))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        arguments.output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(len({row["digest"] for row in found["launches"]}) > 1)


def numbers(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [int(part) for part in text.split(",") if part]


# --------------------------------------------------------------------- one rank


def files_of_a_rank(folder: Path) -> list[Row]:
    """Calls that open and look for files, of more and more; empty without strace."""
    if shutil.which("strace") is None:
        return []
    run = ["-m", "tauslab", "run", str(SCHLOGL), *RUN, "-n", "64", "-o", str(folder / "one.h5")]
    subprocess.run([sys.executable, *run], check=True)  # compiles, and writes bytecode
    cases = {"python": ["-c", "pass"], "and numpy": ["-c", "import numpy"],
             "and tauslab": ["-c", "import tauslab.runner.cli.main"], "a run": run}  # fmt: skip
    rows = []
    for name, words in cases.items():
        log = folder / "strace.txt"
        command = ["strace", "-f", "-qq", "-c", "-e", "trace=%file", "-o", str(log)]
        subprocess.run([*command, sys.executable, *words], check=True)
        counted = log.read_text(encoding="utf-8").splitlines()
        calls = {line.split()[-1]: int(line.split()[3]) for line in counted
                 if re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+\d+\s", line)}  # fmt: skip
        rows.append({"what": name, "opened": sum(calls.get(c, 0) for c in OPENED),
                     "looked_for": sum(calls.get(c, 0) for c in LOOKED)})  # fmt: skip
    return rows


def memory_of_imports() -> list[Row]:
    """MB of a process of its own after each import."""
    program = (
        "import json, re\nfound = []\n"
        f"for name in {IMPORTS!r}:\n"
        "    try:\n        __import__(name)\n    except ImportError:\n        continue\n"
        "    text = open('/proc/self/smaps_rollup').read()\n"
        f"    kb = sum(map(int, re.findall({PRIVATE!r}, text)))\n"
        "    found.append({'what': name, 'mb': kb / 1024})\nprint(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    rows: list[Row] = json.loads(done.stdout)
    return rows


def own_mb() -> float:
    """Memory that this process shares with no other."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    return sum(map(int, re.findall(PRIVATE, text))) / 1024


# --------------------------------------------------------------------- many ranks


def launch(launcher: list[str], n: int, folder: Path) -> Row:
    """Start a small run on `n` ranks; what rank 0 told of it."""
    began = time.time()
    command = [*launcher, "-n", str(n), sys.executable, __file__, "--rank-of", str(folder)]
    environment = {**os.environ, "TAUSLAB_LAUNCHED": repr(began)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    told = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return {"ranks": n, "seconds": time.time() - began, **json.loads(told)}


def be_rank(folder: Path) -> None:
    """Run, take numbers from a counter, and let rank 0 tell the most of all ranks.

    Of memory the least: rank 0, which reads the model, has its own.
    """
    imported = time.time() - float(os.environ["TAUSLAB_LAUNCHED"])
    from tauslab.runner.api.api import ranks
    from tauslab.runner.cli.main import main as tauslab
    from tauslab.runner.results.digest import digest_lines, digest_total

    comm = ranks()
    started = time.time() - float(os.environ["TAUSLAB_LAUNCHED"])
    path = folder / f"{comm.size}.h5"
    code = tauslab(["run", str(SCHLOGL), *RUN, "-n", "2000", "-o", str(path)])
    ran = time.time() - float(os.environ["TAUSLAB_LAUNCHED"])
    counter, cpu = comm.counter(), sum(os.times()[:4])
    comm.barrier()
    began = time.perf_counter()
    for _ in range(TAKEN):
        counter.next()
    mine = time.perf_counter() - began
    comm.barrier()
    each = comm.gather({"imported": imported, "started": started, "ran": ran, "mb": own_mb(),
                        "cpu": cpu, "take": mine / TAKEN, "code": code})  # fmt: skip
    counter.free()
    if each is not None:
        with open_result(path) as result:
            digest = digest_total(digest_lines(result, None))
            ready = float(result.data["profile/compile"][()].max())
        most = {key: max(row[key] for row in each) for key in each[0]}
        most["mb"], most["mb_of_0"] = min(row["mb"] for row in each), each[0]["mb"]
        print(json.dumps({**most, "ready": ready, "digest": digest}))


# --------------------------------------------------------------------- closing


class Pretended(SerialCommunicator):
    """Rank `rank` of `size` in this process: what rank 0 told all is told again to the others."""

    def __init__(self, rank: int, size: int, said: list[Any]) -> None:
        self.rank, self.size, self._said = rank, size, said
        self._heard = 0

    def bcast(self, value: Any) -> Any:
        """What rank 0 says, which comes first."""
        if self.rank == 0:
            self._said.append(value)
        self._heard += 1
        return self._said[self._heard - 1]

    def allgather(self, value: Any) -> list[Any]:
        """All say the same."""
        return [value] * self.size


def layout_of(ranks: int) -> Layout:
    """As many blocks as so many ranks have."""
    attributes: dict[str, str | int | float] = {"method": "ssa", "seed": 1, "command": "none"}
    return Layout(
        n=BLOCKS * ROWS * ranks, times=np.arange(float(TIMES)), species=("X", "Y"), observables=(),
        trajectories=True, final=True, statistics=False, histograms=(),
        block=ROWS, attributes=attributes, model_name="none", model_source="none",
        model_canonical="none",
    )  # fmt: skip


def close(ranks: int, folder: Path) -> Row:
    """Write the parts of so many ranks, then do what rank 0 does, once as views and once merged."""
    row: Row = {"ranks": ranks}
    for kind, most in (("virtual", 0), ("merged", 1 << 40)):
        path = folder / f"{kind}-{ranks}.h5"
        row[f"{kind}_write"], first = timed(partial(write_parts, path, ranks, most))
        finish = partial(first.finish, {}, [{"device": "none"}] * ranks)
        row[kind], row[f"{kind}_opened"] = counted(finish)
    view = folder / f"virtual-{ranks}.h5"
    row["open"], row["open_opened"] = counted(lambda: open_result(view).close())
    with open_result(view) as result:
        row["read"], values = timed(lambda: result.data["counts"][()])
    assert (values[::ROWS, 0, 0] == np.arange(BLOCKS * ranks)).all(), "rows in wrong places"
    row["merge"], row["merge_opened"] = counted(lambda: merge(view))
    for path in folder.glob("*.h5"):
        path.unlink()
    return row


def write_parts(path: Path, ranks: int, merge_bytes: int) -> Any:
    """Be each rank in turn; returns the writer of rank 0, whose blocks are written last."""
    layout, said = layout_of(ranks), list[Any]()
    parts = PartsOptions(merge_bytes=merge_bytes)
    first = open_writer(path, layout, Pretended(0, ranks, said), parts=parts)
    for rank in [*range(1, ranks), 0]:
        writer = first
        if rank:
            writer = open_writer(path, layout, Pretended(rank, ranks, said), parts=parts)
        for block in range(rank, BLOCKS * ranks, ranks):
            writer.write(chunk_of(layout, block))
        if rank:
            writer.abort()  # which closes
    return first


def chunk_of(layout: Layout, block: int) -> Chunk:
    """Rows that tell their block."""
    values = {array.name: 0 if array.name == "status" else block for array in layout.row_arrays()}
    arrays = {
        array.name: np.full((ROWS, *array.inner), values[array.name], array.dtype)
        for array in layout.row_arrays()
    }
    return Chunk(block * ROWS, arrays)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of CPU that it takes, and what it returns."""
    began = time.process_time()
    value = action()
    return round(time.process_time() - began, 3), value


def counted(action: Callable[[], Any]) -> tuple[float, int]:
    """Seconds of CPU that it takes, and how often it opens a file through HDF5."""
    usual, opened = h5py.File, list[Any]()

    class Counted(usual):  # type: ignore[misc, valid-type]
        def __init__(self, name: Any, *words: Any, **options: Any) -> None:
            opened.append(name)
            super().__init__(name, *words, **options)

    h5py.File = Counted
    try:
        seconds, _ = timed(action)
    finally:
        h5py.File = usual
    return seconds, len(opened)


# --------------------------------------------------------------------- what came out


def table(found: dict[str, Any]) -> list[str]:
    """Markdown."""
    lines = markdown("files of one rank, calls|opened|looked for")
    lines += [f"| {r['what']} | {r['opened']} | {r['looked_for']} |" for r in found["files"]]
    lines += ["", *markdown("after the import of|MB of a process alone")]
    lines += [f"| {r['what']} | {r['mb']:.0f} |" for r in found["memory"]]
    head = "ranks|imported, s|MPI started, s|kernels ready, s|run done, s|CPU of a rank, s"
    lines += ["", *markdown(f"{head}|MB of a rank|of rank 0|a block from the counter, ms")]
    for r in found["launches"]:
        seconds = " | ".join(f"{r[k]:.2f}" for k in ("imported", "started", "ready", "ran", "cpu"))
        take = f"{r['take'] * 1e3:.3f}"
        lines.append(f"| {r['ranks']} | {seconds} | {r['mb']:.0f} | {r['mb_of_0']:.0f} | {take} |")
    head = "parts|view, s|opened|open it, s|opened|read it, s|merge it, s"
    lines += ["", *markdown(f"{head}|merged at once, s|opened")]
    keys = ("virtual", "virtual_opened", "open", "open_opened", "read", "merge", "merged",
            "merged_opened")  # fmt: skip
    for r in found["closing"]:
        told = " | ".join(f"{r[k]:.2f}" if isinstance(r[k], float) else str(r[k]) for k in keys)
        lines.append(f"| {r['ranks']} | {told} |")
    return lines


def markdown(head: str) -> list[str]:
    """The head of a table."""
    names = head.split("|")
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


if __name__ == "__main__":
    main()
