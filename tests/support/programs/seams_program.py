"""Runs with several features at once, for `test_seams.py`: ``seams_program.py CASE...``.

A case is ``METHOD:FEATURE+FEATURE...``: a run with these features, which may take several commands,
and a plain run of the same trajectories.  Prints a line of JSON per case: its name, the exit codes,
and ``same`` if the digests are and nothing else is left, or what was told.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from lattice_program import STEP, changing, crowded

from tauslab.api.api import ranks
from tauslab.base.errors import TauslabError
from tauslab.cli.commands import run
from tauslab.cli.main import main
from tauslab.decomposition.blocks import SharedBlocks
from tauslab.options.lattice import LatticeOptions
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice.run import run_lattice
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.open import open_result

SMALL = """
t_end = 1
[species]
A = 200
B = 5
[parameters]
k = 0.7
[[reactions]]
equation = "A -> B"
rate = "k"
[[reactions]]
equation = "B -> A"
rate = 0.5
"""
LARGE = SMALL + "".join(
    f'[[reactions]]\nequation = "A + {i} B -> {i + 1} B"\nrate = {1e-9**i}\n' for i in range(1, 66)
)
COMMON = ["--points", "3", "--seed", "5", "--device", "cpu", "--threads", "1", "--quiet"]
METHODS = {
    "ssa": ["small.toml", "--method", "ssa"],
    "tau": ["small.toml", "--method", "tau"],
    "fine": ["large.toml", "--method", "tau"],
    "ode": ["small.toml", "--method", "ode", "--substeps", "4"],
}
# What a feature adds to the command, and whether the plain run has it too.
OPTIONS: dict[str, tuple[list[str], bool]] = {
    "sweep": (["--sweep", "k=list:0.3,0.9"], True),
    "statistics": (["--record", "statistics"], True),
    "species": (["--species", "B"], True),
    "parts": (["--writer", "parts"], False),
    "mpio": (["--writer", "mpio"], False),
    "compress": (["--compress", "4"], False),
    "max-time": (["--max-time", "1:00:00"], False),
    "dask": (["--executor", "dask", "--workers", "1"], False),
    "until": (["--until", "mean(B) rel 0.0021"], False),
}
OF_LATTICES: dict[str, tuple[dict[str, Any], bool]] = {
    "hooks": ({"hooks": ((10, changing),)}, True),
    "replicas": ({"replicas": 3}, True),
    "frames": ({"frame_every": 8}, True),
    "hop": ({"max_hop": 0.02}, True),
    "counts": ({"count_every": 7}, True),
    "checkpoint": ({"checkpoint_steps": 7}, False),
    "depth": ({"halo_depth": 2}, False),
    "rebalance": ({"rebalance_every": 1e-6}, False),
}


def case(method: str, features: frozenset[str]) -> tuple[list[int], str]:
    """Run one; exit codes, and what came out."""
    words = ["run", *METHODS[method], *COMMON]
    same = words + [w for f, (own, both) in OPTIONS.items() if f in features and both for w in own]
    words += [w for f, (own, _) in OPTIONS.items() if f in features for w in own]
    words += ["-o", "case/a.h5"]
    until, resume = "until" in features, "resume" in features
    n = "20000" if until else "60"
    message = StringIO()
    with redirect_stderr(message), redirect_stdout(message):
        codes = list(calls(words, same, features, n, resume=resume))
        if codes[-1] != 0:
            return codes, message.getvalue()
        with open_result("case/a.h5") as result:
            actual = digest_total(digest_lines(result)), result.n
        main([*same, "-n", str(actual[1]), "-o", "case/b.h5"])
    with open_result("case/b.h5") as plain:
        good = digest_total(digest_lines(plain)) == actual[0]
    return codes, outcome(good, message.getvalue())


def outcome(same: bool, told: str) -> str:
    """``same``, or what is wrong."""
    left = sorted(p.name for p in Path("case").iterdir())
    if left != ["a.h5", "b.h5"]:
        return f"{left} are left: {told}"
    return "same" if same else f"another digest: {told}"


def calls(
    words: list[str], same: list[str], features: frozenset[str], n: str, *, resume: bool
) -> Iterator[int]:
    """Exit codes of the commands of a case."""
    block = ["--block", "200" if "until" in features else "7"]
    if "append" in features:
        yield main([*same, "-n", "30", "-o", "case/a.h5"])
        more = ["--append", "70"]
    else:
        more = ["-n", n]
    if "limit" in features:  # which is not enough: a higher one goes on
        yield main([*words, "-n", "5000", *block])
        more += ["--resume"]
    if resume:
        yield stopped([*words, *more, *block])
        more += [] if "append" in features else ["--resume"]
    yield main([*words, *more, *block])


def stopped(words: list[str]) -> int:
    """Run a command that is asked to stop when some of its blocks are done: one in a launch."""
    requested, real, usual = count(), run.stop_in_order, SharedBlocks.__init__

    def begin(self: SharedBlocks, numbers: npt.NDArray[np.intp], **_: int) -> None:
        usual(self, numbers, smallest=1, room=1, largest=1)

    run.stop_in_order = lambda *_: lambda: next(requested) > 1
    SharedBlocks.__init__ = begin
    try:
        return main(words)
    finally:
        run.stop_in_order, SharedBlocks.__init__ = real, usual


def lattice_case(features: frozenset[str]) -> tuple[list[int], str]:
    """As `case` for a lattice, from Python: only there are hooks."""
    both = {k: v for f, (own, plain) in OF_LATTICES.items() if plain for k, v in own.items()
            if f in features}  # fmt: skip
    own = {k: v for f, (own, _) in OF_LATTICES.items() if f in features for k, v in own.items()}
    codes = []
    if "resume" in features:
        requested = count()
        codes.append(run_on_lattice("a.h5", own, lambda: next(requested) > 5))
        own = {**own, "resume": True}
    codes.append(run_on_lattice("a.h5", own))
    run_on_lattice("b.h5", {**both, "threads": 2})
    ranks().barrier()
    actual = [digest_total(lattice_digest_lines(Path("case", name))) for name in ("a.h5", "b.h5")]
    return codes, outcome(actual[0] == actual[1], "")


def run_on_lattice(name: str, own: dict[str, Any], stop: Callable[[], bool] = lambda: False) -> int:
    """Run; the exit code of the command."""
    given = {"t_end": STEP * 24, "count_every": 3, "seed": 3, "device": "cpu", "threads": 1}
    options = LatticeOptions(**{**given, "quiet": True, "output": Path("case", name), **own})
    try:
        run_lattice(crowded(), options, ranks(), stop).close()
    except TauslabError as error:
        return error.exit_code
    return 0


def run_all(cases: list[str]) -> None:
    """Run ``METHOD:FEATURE+FEATURE...`` one after the other."""
    comm = ranks()
    if comm.rank == 0:
        Path("small.toml").write_text(SMALL)
        Path("large.toml").write_text(LARGE)
    for text in cases:
        comm.barrier()
        if comm.rank == 0:
            shutil.rmtree("case", ignore_errors=True)
            Path("case").mkdir()
        comm.barrier()
        method, _, names = text.partition(":")
        features = frozenset(names.split("+"))
        try:
            done = lattice_case(features) if method == "rdme" else case(method, features)
        except Exception:  # noqa: BLE001 - of this case alone: the others are told of too
            done = [], traceback.format_exc()
        if comm.rank == 0:
            print(json.dumps([text, *done]), flush=True)


if __name__ == "__main__":
    Disk.sync = lambda *_: None  # what a power cut loses is not asked here
    lattice_loop._BATCH_SECONDS = 1e-9
    run_all(sys.argv[1:])
