"""Break runs on purpose, resume them, and compare digests with those of unbroken runs.

    python tests/support/faults/fault_injection.py --cases 200 --seed 1 -o docs/benchmarks/faults-cpu.csv

writes a row per fault, and a summary beside it (faults-cpu.md); exits 1 if a block that was marked
as complete is not right, a digest differs, or a job does not end within 30 s.  Faults: kill -9 of a
random rank at a random moment, of ensembles and lattice runs; kill -9 at the n-th write; a full
disk at the n-th write; a device that fails at the n-th copy; and a part cut short or changed after
a kill.  Ensembles run on 1 to 3 ranks, lattices on 1 or 2, and are resumed on any number of them;
some write through an h5py that was built with MPI, if TAUSLAB_PARALLEL_H5PY names one
(scripts/build_parallel_h5py).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fault_models import LATTICE, MODEL

import tauslab as ts
from tauslab.base.errors import InputFileError
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines

HEADER = ("fault", "moment", "job", "writer", "ranks", "resumed_on", "seconds_to_end",
          "on_disk", "wrong_on_disk", "digest_after_resume", "verdict")  # fmt: skip
MOST_SECONDS = 30.0
KINDS = (
    *((("kill -9", "time"),) * 4),
    *((("kill -9", "every write"),) * 2),
    ("full disk", "write"),
    ("device error", "copy"),
    ("cut part", "write"),
    ("changed part", "write"),
    ("kill -9", "lattice"),
)
SPOILED_BYTES = 20
EXPLAINED = (
    "Seconds count from a kill -9 at any moment, else from the start of the job.\n"
    "Marked blocks are compared where they lie in the result's own file; those in parts are what\n"
    "a resume takes over, so a wrong one would show in the digest."
)
EARLY = 0.2  # part of the kills that need not wait for a file
ENSEMBLE = [
    *("run", "model.toml", "-n", "12000", "--t-end", "8", "--points", "9", "--block", "200"),
    *("--seed", "7", "--device", "cpu", "--threads", "1", "--method", "ssa", "--quiet"),
]
RECORDS = ("trajectories,statistics", "statistics,final", "final,summary:mean:X")
BOX = [
    *("rdme", "box.toml", "--t-end", "0.2", "--frame-every", "50", "--seed", "7"),
    *("--device", "cpu", "--threads", "1", "--quiet"),
]


def opened(path: str | Path) -> Any:
    """The result in a file, of whatever kind."""
    return ts.open(path)


@dataclass(frozen=True)
class Case:
    """A fault: what, when, in which job."""

    fault: str
    moment: str
    job: str
    writer: str
    ranks: int
    again: int
    record: str = ""


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machine", default=f"{os.cpu_count()} CPU cores")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    name_whole_paths()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("model.toml").write_text(MODEL, encoding="utf-8")
        Path("box.toml").write_text(LATTICE, encoding="utf-8")
        wanted = references()
        rows = []
        for number, case in enumerate(cases(arguments.cases, draws(arguments.seed))):
            rows.append(run_case(case, wanted, draws(arguments.seed + 1000 + number)))
            print(number, *rows[-1], sep="  ", flush=True)
    os.chdir(os.environ.get("PWD", "/"))
    write_table(arguments.output, rows, arguments.machine)
    sys.exit(any(row[-1] != "pass" for row in rows))


def name_whole_paths() -> None:
    """Let folders in which Python looks for modules be found from any folder."""
    for name in ("PYTHONPATH", "TAUSLAB_PARALLEL_H5PY"):
        folders = filter(None, os.environ.get(name, "").split(os.pathsep))
        if whole := os.pathsep.join(str(Path(folder).resolve()) for folder in folders):
            os.environ[name] = whole


def draws(seed: int) -> random.Random:
    """Random numbers for one purpose."""
    return random.Random(seed)


def cases(number: int, rng: random.Random) -> Iterator[Case]:
    """Faults in turn; when, where and in which job is drawn."""
    parallel = "TAUSLAB_PARALLEL_H5PY" in os.environ
    for index in range(number):
        fault, kind = KINDS[index % len(KINDS)]
        moment = {
            "time": f"{rng.uniform(0.0, 1.0):.2f} of the run",
            "write": f"write {rng.randrange(60)}",
            "every write": f"write {index // len(KINDS) * 2 + index % len(KINDS) % 2}",
            "copy": f"copy {rng.randrange(12)}",
        }
        if kind == "lattice":
            ranks, again = rng.choice((1, 2)), rng.choice((1, 2))
            writer = "single" if ranks == 1 else "parts"
            yield Case(fault, moment["time"], "lattice", writer, ranks, again)
            continue
        of_parts = "part" in fault
        ranks = rng.choice((2, 3) if of_parts else (1, 2, 3))
        writer = "single" if ranks == 1 else "parts"
        if parallel and ranks > 1 and not of_parts and rng.random() < 0.4:
            writer = "mpio"
        again, record = rng.choice((1, 2, 3)), rng.choice(RECORDS)
        yield Case(fault, moment[kind], "ensemble", writer, ranks, again, record)


def command(
    case: Case, ranks: int, arguments: list[str], inside: tuple[str, int, int] | None = None
) -> list[str]:
    """The job's command line; `inside` is a fault, its moment and the rank that has it."""
    python = [sys.executable, "-m", "tauslab"]
    if inside is not None:
        faulty = Path(__file__).resolve().with_name("fault_child.py")
        python = [sys.executable, str(faulty), *map(str, inside)]
    launcher = [str(Path(sys.executable).with_name("mpirun")), "-n", str(ranks)]
    writer = "mpio" if case.writer == "mpio" and ranks > 1 else "parts"
    own = [*arguments, "--writer", writer] if case.job == "ensemble" else arguments
    return [*(launcher if ranks > 1 else []), *python, *own]


def start(argv: list[str], case: Case) -> subprocess.Popen[str]:
    """Start a job in a process group of its own."""
    environment = dict(os.environ)
    if case.writer == "mpio":
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [os.environ["TAUSLAB_PARALLEL_H5PY"], known])
        )
    return subprocess.Popen(
        argv,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def references() -> dict[str, tuple[str, Any]]:
    """Digest and data of every unbroken job."""
    found: dict[str, tuple[str, Any]] = {}
    tauslab = [sys.executable, "-m", "tauslab"]
    for record in RECORDS:
        subprocess.run([*tauslab, *ENSEMBLE, "--record", record, "-o", "whole.h5"], check=True)
        with opened("whole.h5") as result:
            rows = {
                k: result.data[k][()]
                for k in ("counts", "final", "status", "summary/mean:X")
                if k in result.data
            }
            found[record] = (digest_total(digest_lines(result)), rows)
        Path("whole.h5").unlink()
    began = time.perf_counter()
    subprocess.run([*tauslab, *BOX, "-o", "whole.h5"], check=True)
    found["seconds"] = ("", time.perf_counter() - began)
    found[""] = (digest_total(lattice_digest_lines(Path("whole.h5"), None)), None)
    Path("whole.h5").unlink()
    return found


def run_case(case: Case, wanted: dict[str, tuple[str, Any]], rng: random.Random) -> tuple[Any, ...]:
    """Break, look at what is left, resume, compare."""
    arguments = (
        [*BOX, "-o", "a.h5"]
        if case.job == "lattice"
        else [*ENSEMBLE, "--record", case.record, "-o", "a.h5"]
    )
    seconds, message = break_it(case, arguments, wanted["seconds"][1], rng)
    on_disk, wrong = left_on_disk(case, wanted[case.record][1])
    process = start(command(case, case.again, [*arguments, "--resume"]), case)
    _, error = process.communicate(timeout=120)
    if case.job == "lattice":
        digest = (
            digest_total(lattice_digest_lines(Path("a.h5"), None))
            if process.returncode == 0
            else error
        )
    elif process.returncode == 0:
        with opened("a.h5") as result:
            digest = digest_total(digest_lines(result))
    else:
        digest = error.strip().splitlines()[-1] if error.strip() else f"exit {process.returncode}"
    same = digest == wanted[case.record][0]
    good = (
        same
        and wrong == 0
        and seconds < MOST_SECONDS
        and (message or "kill" in case.fault or "part" in case.fault)
    )
    clean_up()
    job = f"{case.job} {case.record}".strip()
    told = (f"{seconds:.2f}", on_disk, wrong, "same" if same else digest[:200])
    jobs = (case.fault, case.moment, job, case.writer, case.ranks, case.again)
    return (*jobs, *told, "pass" if good else "FAIL")


def break_it(
    case: Case, arguments: list[str], lattice_seconds: float, rng: random.Random
) -> tuple[float, str]:
    """Run until the fault has ended the job; seconds from the fault to the end, and its message."""
    kind, _, number = case.moment.partition(" ")
    victim = rng.randrange(case.ranks)
    if kind in ("write", "copy"):
        fault = {"full disk": "full", "device error": "device"}.get(case.fault, "kill")
        process = start(command(case, case.ranks, arguments, (fault, int(number), victim)), case)
        began = time.perf_counter()
        error = finish(process)
        seconds = time.perf_counter() - began
    else:
        # Starting takes most of a short run; while files are written is what matters.
        process = start(command(case, case.ranks, arguments), case)
        wait_for_file(process, float(kind), lattice_seconds if case.job == "lattice" else 1.0)
        targets = [process.pid] if case.ranks == 1 else ranks_of(process.pid)
        began = time.perf_counter()
        for target in targets[victim : victim + 1] or [process.pid]:
            with contextlib.suppress(ProcessLookupError):  # it was done already
                os.kill(target, signal.SIGKILL)
        error = finish(process)
        seconds = time.perf_counter() - began
    spoil_part(case, rng)
    if process.returncode == 0:
        return seconds, "done before"
    return seconds, next((line for line in error.splitlines() if "tauslab: " in line), "")


def wait_for_file(process: subprocess.Popen[str], part: float, seconds: float) -> None:
    """Wait a part of these seconds, in four cases of five from when the result is there."""
    until = time.perf_counter() + MOST_SECONDS
    early = part * 10 % 1 < EARLY
    while not (early or Path("a.h5").exists() or process.poll() is not None):
        if time.perf_counter() > until:
            break
        time.sleep(0.005)
    time.sleep(part * seconds)


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a job, and end what is left of it after 60 s."""
    try:
        return process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[1]


def ranks_of(launcher: int) -> list[int]:
    """Processes of Python that a launcher started, directly or not."""
    found, todo = [], [launcher]
    while todo:
        parent = todo.pop()
        for thread in Path(f"/proc/{parent}/task").glob("*"):
            try:
                children = [
                    int(word) for word in (thread / "children").read_text(encoding="utf-8").split()
                ]
            except OSError:
                continue
            for pid in children:
                todo.append(pid)
                try:
                    if b"tauslab" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
                except OSError:
                    continue
    own = [pid for pid in found if "python" in str(Path(f"/proc/{pid}/exe").readlink())]
    return sorted(own)


def spoil_part(case: Case, rng: random.Random) -> None:
    """Cut a part short, or change a byte in its data."""
    parts = sorted(Path("a.h5.parts").glob("*.h5"))
    if "part" not in case.fault or not parts:
        return
    path = rng.choice(parts)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if case.fault == "cut part":
            file.truncate(rng.randrange(size))
        else:
            for _ in range(SPOILED_BYTES):
                at = rng.randrange(size // 2, size)
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0x5A]))


def left_on_disk(case: Case, rows: dict[str, Any]) -> tuple[str, int]:
    """Blocks that are marked, of all, and how many of them are wrong; for a lattice what opens."""
    path = Path("a.h5")
    if not path.exists():
        return "no file", 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = opened(path)
        except InputFileError as error:
            return str(error), 1
    with result:
        if case.job == "lattice":
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


def clean_up() -> None:
    """Remove the result and its parts."""
    for path in Path().glob("a.h5*"):
        if path.is_file():
            path.unlink()
    shutil.rmtree("a.h5.parts", ignore_errors=True)


def write_table(path: Path, rows: list[tuple[Any, ...]], machine: str) -> None:
    """The table, and its summary in Markdown."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)
    groups: dict[tuple[str, str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        moment = row[1].partition(" ")[0]
        when = f"at a {moment}" if moment in ("write", "copy") else "at any moment"
        groups[row[0], when, f"{row[2].partition(' ')[0]}, {row[3]}"].append(row)
    head = ("fault", "moment", "job, writer", "runs", "longest until the job ended, s",
            "marked blocks that were wrong", "digest after resume")  # fmt: skip
    lines = [
        "# Faults injected",
        "",
        f"{len(rows)} faults on {machine}: `tests/support/faults/fault_injection.py`. Every row is in",
        f"[{path.name}]({path.name}). {EXPLAINED}",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for key, group in sorted(groups.items()):
        longest = max(float(row[6]) for row in group)
        same = sum(row[9] == "same" for row in group)
        cells = [*key, len(group), f"{longest:.1f}", sum(row[8] for row in group)]
        lines.append(f"| {' | '.join(map(str, cells))} | {same} of {len(group)} same |")
    failed = sum(row[-1] != "pass" for row in rows)
    lines += ["", f"{failed} of {len(rows)} failed.", ""]
    path.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
