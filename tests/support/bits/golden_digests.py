"""Digests of a list of runs, to compare two states of the sources.

    python tests/support/bits/golden_digests.py -o golden.txt  # every run, on this checkout
    python tests/support/bits/golden_digests.py --check golden.txt  # the same again: exit 1 if one differs
    python tests/support/bits/golden_digests.py --device cuda --check golden.txt

The runs are those of `machine_bits.py` (engines, selectors, solvers, records, lattices) and, for
some of them, the same run in other ways that must not change it: by three ranks, with a lattice
cut into three slabs, with half of its blocks computed again by --resume, and in two portions by
--append. A line holds the digest, the run's name and the way; all ways of a run must agree.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import machine_bits

from tauslab.base.files.seals import LATER, SEALED, SEALS

RANKS = 3
# Which runs are also made in other ways.
BY_RANKS = (
    "ssa small", "ssa laws", "ssa pdm", "ssa rssa", "tau", "tau checked", "tau fine", "summaries",
    "sweep", "ode dopri5", "ode rosenbrock", "dbn", "rdme crowded",
)  # fmt: skip
BY_SLABS = ("rdme many", "rdme planes", "rdme membrane", "rdme ball")
BY_RESUME = ("ssa small", "ssa pdm", "tau", "tau large", "ode dopri5")
BY_APPEND = {"ssa small": 60, "tau": 60}


def ways_of(name: str) -> Iterator[str]:
    """In which ways the run `name` is made."""
    yield "one rank"
    if name in BY_RANKS:
        yield f"{RANKS} ranks"
    if name in BY_SLABS:
        yield f"{RANKS} slabs"
    if name in BY_RESUME:
        yield "resumed"
    if name in BY_APPEND:
        yield "appended"


def digest_of(name: str, way: str, folder: Path, device: str) -> str:
    """Make one run in one way; its digest."""
    output = Path(tempfile.mkdtemp(dir=folder)) / "out.h5"
    words = [*machine_bits.absolute(machine_bits.CASES[name], folder), "--seed", "11"]
    words += ["-o", str(output), "--device", device, "--threads", "2", "--quiet"]
    ranks = RANKS if way in {f"{RANKS} ranks", f"{RANKS} slabs"} else 1
    if ranks > 1 and device != "cpu" and words[0] == "rdme":  # ensembles may share one unasked
        words.append("--share-gpu")
    if way == f"{RANKS} slabs":
        words += ["--slabs", str(RANKS)]
    if way == "appended":
        whole, n = BY_APPEND[name], words.index("-n")
        first = whole // 2
        words[n + 1] = str(first)
        _tauslab([*words, "--overwrite"])
        del words[n : n + 2]
        _tauslab([*words, "--append", str(whole - first)])
    elif way == "resumed":
        _tauslab([*words, "--block", "2", "--overwrite"])
        _forget_blocks(output)
        _tauslab([*words, "--block", "2", "--resume"])
    else:
        _tauslab([*words, "--overwrite"], ranks)
    return _tauslab(["digest", str(output)]).splitlines()[-1].split()[0]


def _forget_blocks(output: Path) -> None:
    """Mark every second block as not computed, as after a stop."""
    with h5py.File(output, "r+") as file:
        marks = file["progress/blocks"][...]
        marks[1::2] = 0
        file["progress/blocks"][...] = marks
        file["progress/complete"][...] = 0
        # What is written at the end of a run has no checksum before it.
        entries = file[SEALED][...]
        sums = file[SEALS][...]
        sums[[entry.startswith(LATER.encode()) for entry in entries]] = 0
        file[SEALS][...] = sums


def _tauslab(arguments: list[str], ranks: int = 1) -> str:
    """Run tauslab in processes of its own; what it printed."""
    command = [sys.executable, "-m", "tauslab", *arguments]
    if ranks > 1:
        beside = shutil.which("mpirun", path=str(Path(sys.executable).parent))
        launcher = beside or shutil.which("mpirun")
        if launcher is None:
            sys.exit("there is no mpirun: pip install 'tauslab[mpi]'")
        command = [launcher, "-n", str(ranks), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def lines(names: list[str], device: str, jobs: int) -> Iterator[str]:
    """A line for each run and way, in order; `jobs` of them are made at the same time."""
    runs = [(name, way) for name in names for way in ways_of(name)]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        folder = Path(scratch)
        machine_bits.write_models(folder)
        digests = pool.map(lambda run: digest_of(run[0], run[1], folder, device), runs)
        for (name, way), actual in zip(runs, digests, strict=True):
            yield f"{actual}  {name}, {way}"


def main() -> None:
    """Print the lines; write or compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="names of machine_bits.py (all)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("-o", "--output", type=Path, help="write the lines to this file")
    parser.add_argument("--check", type=Path, help="compare with the lines of this file")
    given = parser.parse_args()
    actual = []
    for line in lines(given.cases or list(machine_bits.CASES), given.device, given.jobs):
        print(line, flush=True)
        actual.append(line)
    if given.output is not None:
        given.output.write_text("\n".join(actual) + "\n", encoding="utf-8")
    if given.check is not None:
        known = set(given.check.read_text(encoding="utf-8").splitlines())
        different = [line for line in actual if line not in known]
        print(f"{len(actual)} runs, {len(different)} differ", *different, sep="\n")
        sys.exit(bool(different))


if __name__ == "__main__":
    main()
