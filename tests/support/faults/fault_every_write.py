"""Kill a run at every change of its files, resume it, and compare digests with the unbroken run's.

    python tests/support/faults/fault_every_write.py -o docs/benchmarks/faults-every-write-cpu.csv

counts the changes that an undisturbed run makes to its files (writes of any library, files made,
cut, renamed, linked, removed), then runs it again for every one of them and ends it with kill -9
right before, in the middle of, and right after that change; a summary in Markdown is printed.
Exits 1 if a file does not open, a marked block is wrong, a digest differs, or a job does not end
within 30 s.  A library that stands before the C library counts and strikes
(kill_at_write.cc, which needs a C++ compiler).  mpio needs TAUSLAB_PARALLEL_H5PY
(scripts/build_parallel_h5py).  --cases N takes N kills only, spread evenly; --only TEXT takes the
jobs whose name holds it, and leaves the rows of others in a table that is there.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fault_models import LATTICE, MODEL
from forked_ranks import run_ranks

import tauslab as ts
from tauslab.cli.main import main as command_line
from tauslab.kernels.backends.compilers import host_compiler
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.lattice.result import is_lattice_result

HEADER = ("job", "ranks", "killed_rank", "change", "kind", "moment", "seconds_to_end",
          "on_disk", "wrong_on_disk", "resumed_on", "digest_after_resume", "verdict")  # fmt: skip
MOST_SECONDS = 30.0
RESULT = Path("a.h5")
BASE = Path("base.h5")
COUNTED = Path("changes.log")
MOMENTS = {"w": ("before", "middle", "after"), "o": ("before", "after")}
ENSEMBLE = (
    *("run", "model.toml", "--t-end", "8", "--points", "9", "--block", "200", "--seed", "7"),
    *("--device", "cpu", "--threads", "1", "--method", "ssa", "--quiet"),
)
SAMPLES = (*ENSEMBLE, "-n", "1200", "--record", "trajectories,statistics")
SUMS = (*ENSEMBLE, "-n", "1200", "--record", "statistics,final")
MORE = (*ENSEMBLE, "--record", "trajectories,statistics", "--append", "600")
UNTIL = (*ENSEMBLE, "-n", "20000", "--record", "statistics,final", "--until", "mean(X) rel 0.013")
BOX = (
    *("rdme", "box.toml", "--t-end", "0.01", "--frame-every", "50", "--seed", "7"),
    *("--device", "cpu", "--threads", "1", "--quiet"),
)


@dataclass(frozen=True)
class Job:
    """A run whose changes are counted: by which writer, on how many ranks, which one is killed."""

    name: str
    arguments: tuple[str, ...]
    ranks: int = 1
    victim: int = 0
    writer: str = "single"

    @property
    def label(self) -> str:
        """Its name and writer."""
        return self.name if self.writer == "single" else f"{self.name}, {self.writer}"

    @property
    def of_lattice(self) -> bool:
        """Whether it is a run of a lattice."""
        return self.arguments[0] == "rdme"


def main() -> None:
    """Start again with the library that counts before all others, or do the work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, help="so many kills (all)")
    parser.add_argument("--only", default="", help="jobs whose name and writer hold this text")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    name_whole_paths()
    if "kill_at_write" in os.environ.get("LD_PRELOAD", ""):
        output = arguments.output.resolve()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            rows = list(kills(arguments.cases, arguments.only))
            os.chdir("/")
        write_table(output, [*others(output, arguments.only), *rows])
        sys.exit(any(row[-1] != "pass" for row in rows))
    if not arguments.only:
        arguments.output.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kill_at_write.so"
        source = Path(__file__).with_suffix("").with_name("kill_at_write.cc")
        compiled = [*host_compiler().command, "-std=c++17", "-O1", "-shared", "-fPIC"]
        subprocess.run([*compiled, "-o", str(library), str(source), "-ldl"], check=True)
        # Threads of a numerical library do not live on in a process that is forked.
        environment = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
        environment["MPI4PY_RC_INITIALIZE"] = "false"  # forked ranks start it, each for itself
        places = searched()
        counts = [arguments.cases] * len(places)
        if arguments.cases is not None and len(places) > 1:
            counts = [arguments.cases - arguments.cases // 3, arguments.cases // 3]
        codes = [again(environment | p, n) for p, n in zip(places, counts, strict=True)]
        sys.exit(any(codes))


def name_whole_paths() -> None:
    """Let folders in which Python looks for modules be found from any folder."""
    for name in ("PYTHONPATH", "TAUSLAB_PARALLEL_H5PY"):
        folders = filter(None, os.environ.get(name, "").split(os.pathsep))
        if whole := os.pathsep.join(str(Path(folder).resolve()) for folder in folders):
            os.environ[name] = whole


def again(environment: dict[str, str], cases: int | None) -> int:
    """Run this script in another environment, for so many kills; its exit code."""
    command = [sys.executable, *sys.argv, *(() if cases is None else ("--cases", str(cases)))]
    return subprocess.run(command, env=environment, check=False).returncode


def searched() -> list[dict[str, str]]:
    """Where Python looks for modules: without and with an h5py that has MPI."""
    actual: list[dict[str, str]] = [{}]
    if parallel := os.environ.get("TAUSLAB_PARALLEL_H5PY"):
        folders = filter(None, (parallel, os.environ.get("PYTHONPATH")))
        actual.append({"PYTHONPATH": os.pathsep.join(folders)})
    return actual


def jobs() -> Iterator[Job]:
    """All jobs with this h5py; those of several ranks once for each that is killed."""
    if h5py.get_config().mpi:
        for victim in (0, 1):
            yield Job("samples", SAMPLES, 2, victim, "mpio")
        return
    yield Job("samples", SAMPLES)
    yield Job("sums", SUMS)
    yield Job("samples, compressed", (*SAMPLES, "--compress", "4"))
    yield Job("append", MORE)
    yield Job("until", UNTIL)
    yield Job("lattice", BOX)
    for victim in (0, 1):
        yield Job("samples", SAMPLES, 2, victim, "parts")
        yield Job("lattice", BOX, 2, victim, "parts")


def others(table: Path, only: str) -> list[tuple[Any, ...]]:
    """What a table that was written before has of other jobs than these."""
    if not table.exists():
        return []
    mine = {job.label for job in jobs() if only in job.label}
    with table.open(newline="", encoding="utf-8") as file:
        known = [row for row in csv.reader(file) if row != list(HEADER) and row[0] not in mine]
    numbers = {HEADER.index(name) for name in ("ranks", "killed_rank", "change", "wrong_on_disk")}
    return [tuple(int(v) if i in numbers else v for i, v in enumerate(row)) for row in known]


def kills(most: int | None, only: str) -> Iterator[tuple[Any, ...]]:
    """Count, then kill at every change and moment, or at `most` of these; a row for each."""
    Path("model.toml").write_text(MODEL, encoding="utf-8")
    Path("box.toml").write_text(LATTICE, encoding="utf-8")
    forked((*ENSEMBLE, "-n", "600", "--record", "trajectories,statistics", "-o", str(BASE)))
    planned: list[tuple[Job, str, Any, int, str, str]] = []
    for job in (job for job in jobs() if only in job.label):
        wanted, rows = unbroken(job)
        letters = COUNTED.read_text(encoding="utf-8")
        planned += [
            (job, wanted, rows, number, kind, moment)
            for number, kind in enumerate(letters)
            for moment in MOMENTS[kind]
        ]
    count = len(planned) if most is None else min(most, len(planned))
    for index in range(count):
        row = kill(*planned[(2 * index + 1) * len(planned) // (2 * count)])
        print(index, *row, sep="  ", flush=True)
        yield row


def unbroken(job: Job) -> tuple[str, Any]:
    """Run a job undisturbed and count its changes; its digest and data."""
    run(job, -1, "before")
    whole = digest()
    rows: dict[str, Any] = {}
    if not job.of_lattice:
        with ts.open(RESULT) as result:
            names = ("counts", "final", "status")
            rows = {k: result.data[k][()] for k in names if k in result.data}
    clean()
    return whole, rows


def kill(job: Job, wanted: str, rows: Any, number: int, kind: str, moment: str) -> tuple[Any, ...]:
    """Kill a job at a change, look at what is left, resume, compare."""
    began = time.perf_counter()
    reached = run(job, number, moment)
    seconds = time.perf_counter() - began
    on_disk, wrong = left_on_disk(job, rows)
    again = 1 + (number + (moment == "after")) % job.ranks
    if job.name != "append" or not joined(len(rows["counts"])):
        resumed = (*job.arguments, "-o", str(RESULT))
        resumed += () if job.name == "append" else ("--resume",)
        if again == 1:
            forked(resumed)
        else:
            ranks_of(job, resumed)
    actual = digest()
    clean()
    good = actual == wanted and not wrong and seconds < MOST_SECONDS
    message = (number, "data" if kind == "w" else "other", moment if reached else "done before")
    left = (f"{seconds:.2f}", on_disk, wrong, again, "same" if actual == wanted else actual)
    return job.label, job.ranks, job.victim, *message, *left, "pass" if good else "FAIL"


def left_on_disk(job: Job, rows: dict[str, Any]) -> tuple[str, int]:
    """Blocks that are marked, of all, and how many of them are wrong; for a lattice what opens."""
    if not RESULT.exists():
        return "no file", 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result: Any = ts.open(RESULT)
        except ts.InputFileError as error:
            return str(error), 1
    with result:
        if job.of_lattice:
            return "opens", 0
        marks, block = result.completed_blocks, result.block
        wrong = 0
        if result.attributes["storage"] == "plain":
            for number in np.flatnonzero(marks).tolist():
                part = slice(number * block, (number + 1) * block)
                same = (
                    np.array_equal(result.data[k][part], v[part], equal_nan=v.dtype.kind == "f")
                    for k, v in rows.items()
                )
                wrong += not all(same)
        return f"{int(marks.sum())} of {len(marks)}", wrong


def joined(n: int) -> bool:
    """Whether the result holds what was appended: the same command would add once more."""
    with ts.open(RESULT) as result:
        return bool(result.n == n)


def digest() -> str:
    """Of the result, or why there is none."""
    try:
        if is_lattice_result(RESULT):
            return digest_total(lattice_digest_lines(RESULT, None))
        with ts.open(RESULT) as result:
            return digest_total(digest_lines(result))
    except (ts.TauslabError, OSError) as error:
        return str(error)


def run(job: Job, number: int, moment: str) -> bool:
    """Run a job that is killed at a change (-1: at none); whether it was."""
    if job.name == "append":
        shutil.copyfile(BASE, RESULT)
    arguments = (*job.arguments, "-o", str(RESULT))
    if job.ranks == 1:
        return forked(arguments, number, moment)
    return ranks_of(job, arguments, number, moment) != 0


def ranks_of(
    job: Job, arguments: tuple[str, ...], number: int | None = None, moment: str = "before"
) -> int:
    """Run a command on the job's ranks, one of which is killed if there is a number."""
    writer = () if job.of_lattice else ("--writer", job.writer)

    def work(rank: int) -> int:
        if rank == job.victim and number is not None:
            arm(number, moment)
        return command_line([*arguments, *writer])

    return run_ranks(job.ranks, work)


def forked(arguments: tuple[str, ...], number: int | None = None, moment: str = "before") -> bool:
    """Run a command in a child, killed at a change if there is a number; whether it was.

    A child has everything imported, which is most of the time of a small run.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if number is not None:
                arm(number, moment)
            code = command_line(list(arguments))
        finally:
            os._exit(code)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def arm(number: int, moment: str) -> None:
    """Make this process count its changes, and end it at one of them."""
    texts = str(RESULT).encode(), str(COUNTED).encode()
    when = ctypes.c_char(moment[0].encode())
    ctypes.CDLL(None).arm(texts[0], ctypes.c_long(number), when, texts[1])


def clean() -> None:
    """Remove the result and all that a stopped run leaves beside it."""
    for path in Path().glob(f"{RESULT}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_table(path: Path, rows: list[tuple[Any, ...]]) -> None:
    """Write the table, and print its summary in Markdown."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)
    print(
        "| job | ranks | killed rank | kills | longest run, s | same digest |\n|---|---|---|---|---|---|"
    )
    for key, some in groupby(rows, key=lambda row: row[:3]):
        group = list(some)
        kills = sum(row[5] != "done before" for row in group)
        longest = max(float(row[6]) for row in group)
        same = sum(row[10] == "same" for row in group)
        print(f"| {' | '.join(map(str, key))} | {kills} | {longest:.1f} | {same} |")
    print(f"{sum(row[-1] != 'pass' for row in rows)} of {len(rows)} failed.")


if __name__ == "__main__":
    main()
