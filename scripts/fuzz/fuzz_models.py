"""Read mutated models: no traceback, no signal, no hang, one sentence where a model is wrong.

    python scripts/fuzz/fuzz_models.py 20000 --jobs 2               # of all kinds in turn
    python scripts/fuzz/fuzz_models.py 500 --kinds net,bngl --seed 7
    python scripts/fuzz/fuzz_models.py 1 --first 1234 --keep found  # one case again, its file kept

Each case is a function of seed and number: a file of tests/data or examples, changed by
`fuzz_mutations`.  A child that is forked from this process runs `tauslab check` on it, and then
what comes before the compiler of `tauslab run` (or `rdme`) by a method that the dice choose; every
N-th (`--compile N`) is compiled and run for some steps.  BioNetGen is not started: a small network
stands for what it would make, and what it would be given is held against what it may be given.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # a child must not wait for threads of its parent

import libsbml  # noqa: F401 - loaded once here, not in every child
from fuzz_children import Ending, Limits, Tally, dice_of, in_children
from fuzz_damage import is_one_sentence
from fuzz_mutations import change_hdf5, changed_bytes, changed_events, changed_text

from tauslab.kernels.backends import cpu
from tauslab.model.errors import TauslabError
from tauslab.model.readers.bionetgen import generate as bionetgen
from tauslab.model.readers.bionetgen.lines import BLOCKS
from tauslab.runner.cli.main import main as command_line

ROOT = Path(__file__).resolve().parents[2]
DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
LARGEST = 60_000  # bytes of a file that is changed: in a large one hardly anything would be
SEED = 1
LATTICES = ("isomerisation_ball.toml", "michaelis_menten_cube.toml", "minde.toml")
KINDS = ("sbml", "events", "net", "bngl", "toml", "lattice", "lm")
_METHODS: tuple[tuple[str, ...], ...] = (
    ("--method", "ssa"), ("--method", "tau"), ("--method", "ode"), ("--method", "auto"),
    ("--method", "ode", "--ode-solver", "rosenbrock"), ("--method", "ssa", "--molecules"),
    ("--method", "ssa", "--record", "statistics"),
)  # fmt: skip
_BRIEF = ("--t-end", "0.01", "--seed", "1", "--device", "cpu", "--threads", "1", "--quiet")
_PLAIN = re.compile(r"[ -~\n]*\Z")
_GIVEN = re.compile(
    r"(?:version|substanceUnits)\(\"[\w .+-]*\"\)\Z|setOption\([\w\"., +-]*\)\Z"
    r"|generate_network\(\{[\w=>,{}]*\}\)\Z|(?:begin|end) model\Z|\Z", re.ASCII,
)  # fmt: skip
_NETWORK = """# Created by BioNetGen 2.9.3
begin parameters
 1 k 1
end parameters
begin species
 1 A() 10
end species
begin reactions
 1 1 0 k
end reactions
begin groups
 1 Total 1
end groups
"""


class ReachedCompilerError(TauslabError):
    """All that comes before the compiler has been done."""

    exit_code = 0


@dataclass(frozen=True)
class Case:
    """One changed model."""

    seed: int
    kind: str
    number: int
    compiles: bool = False

    @property
    def name(self) -> str:
        """What --seed, --kinds and --first make of it again."""
        return f"--seed {self.seed} --kinds {self.kind} --first {self.number}"


def sources(kind: str) -> list[Path]:
    """The files of a kind that are changed."""
    if kind in ("toml", "lattice"):
        found = [p for p in EXAMPLES.glob("*.toml") if (p.name in LATTICES) == (kind == "lattice")]
    elif kind == "events":
        found = [p for p in (*DATA.glob("sbml/*.xml"), *DATA.glob("semantic/*/*.xml"), *DATA.glob("dsmts/**/*.xml"))
                 if b"<event" in p.read_bytes()]  # fmt: skip
    else:
        pattern = {"sbml": "sbml/*.xml", "net": "net/*.net", "bngl": "bngl/*.bngl", "lm": "lm/*.lm"}
        found = list(DATA.glob(pattern[kind]))
    return sorted(path for path in found if kind == "lm" or path.stat().st_size < LARGEST)


def write(case: Case, folder: Path) -> Path:
    """Write the changed model."""
    dice = dice_of(case.seed, case.kind, case.number)
    source = dice.choice(sources(case.kind))
    path = folder / f"changed{source.suffix}"
    if case.kind == "lm":
        path.write_bytes(source.read_bytes())
        if dice.random() < 0.6:
            change_hdf5(path, dice)
        else:
            path.write_bytes(changed_bytes(source.read_bytes(), dice))
    elif case.kind == "events" and dice.random() < 0.9:
        path.write_text(changed_events(source.read_text("utf-8"), dice), "utf-8")
    elif dice.random() < 0.05:
        path.write_bytes(changed_bytes(source.read_bytes(), dice))
    else:
        text = changed_text(source.read_text("utf-8"), dice)
        path.write_bytes(
            text.encode("utf-8", "surrogatepass" if dice.random() < 0.5 else "replace")
        )
    return path


def act(case: Case) -> int:
    """Check it, and run it as far as its kind and the dice say."""
    path = write(case, Path.cwd())
    if not case.compiles:
        cpu.__dict__["compiled"] = _reached
    os.environ["TAUSLAB_CACHE_DIR"] = str(Path.cwd() / "cache")
    os.environ["TAUSLAB_CXXFLAGS"] = "-O0"
    code = command_line(["check", str(path)])
    if code != 0:
        return code
    dice = random.Random(f"run {case.seed} {case.kind} {case.number}")  # noqa: S311 - no secrets
    if case.kind == "lattice" or (case.kind == "lm" and b"Lattice" in path.read_bytes()):
        return command_line(["rdme", str(path), "-o", "r.h5", *_BRIEF])
    brief = ("-n", "2", "--points", "3", "--max-steps", "2000", *_BRIEF)
    return command_line(["run", str(path), "-o", "r.h5", *brief, *dice.choice(_METHODS)])


def warm_up() -> None:
    """Load in this process what reading models loads, and put the stand-in for BioNetGen there."""
    bionetgen._program = lambda _: Path("BNG2.pl")  # type: ignore[assignment]  # noqa: SLF001
    bionetgen._run = _network_of  # noqa: SLF001
    for kind in KINDS:
        with contextlib.redirect_stdout(io.StringIO()):
            if command_line(["check", str(sources(kind)[-1])]) != 0:
                raise SystemExit(f"{sources(kind)[-1]} should be a good model")


def _network_of(program: Path, text: str) -> str:
    """Stand for BioNetGen, once what it would be given is known to be harmless."""
    del program
    if not _PLAIN.match(text) or set(text) & set("`;\\[]'#"):
        raise AssertionError("BioNetGen would be given characters that it may not have")
    inside = ""
    for line in text.split("\n"):
        if line.startswith("begin ") and line != "begin model":
            inside = line.removeprefix("begin ")
            if inside not in BLOCKS:
                raise AssertionError(f"BioNetGen would be given the block {inside!r}")
        elif inside and line == f"end {inside}":
            inside = ""
        elif not inside and not _GIVEN.match(line):
            raise AssertionError(f"BioNetGen would be given the action {line!r}")
        elif inside and '"' in line:
            raise AssertionError(f"BioNetGen would be given the line {line!r}")
    return _NETWORK


def _reached(*_: object) -> None:
    raise ReachedCompilerError("the compiler is reached")


def judged(ending: Ending) -> Ending:
    """The ending, a fault too where the message is no sentence or the compiler refused."""
    lines = [line for line in ending.said.splitlines() if "the compiler is reached" not in line]
    said = "\n".join(lines)
    if ending.how == "2" and not is_one_sentence(said):
        return replace(ending, how="2 without one sentence")
    if ending.how == "1" and "cannot compile" in said:
        return replace(ending, how="1 by the compiler")
    return ending


def cases(seed: int, kinds: Sequence[str], first: int, count: int, every: int) -> Iterator[Case]:
    """`count` cases of the kinds in turn."""
    for place in range(count):
        number = first + place // len(kinds)
        compiles = every > 0 and number % every == every - 1
        yield Case(seed, kinds[place % len(kinds)], number, compiles)


def fuzz(
    chosen: Iterator[Case], *, jobs: int = 1, keep: Path | None = None, seconds: float = 30.0
) -> Tally:
    """Run the cases; faults are printed as they come and their files kept in `keep`."""
    warm_up()
    tally = Tally()
    begin = last = time.monotonic()
    for case, found in in_children(chosen, act, jobs=jobs, limits=Limits(seconds=seconds)):
        ending = judged(found)
        tally.add(case.name, ending)
        if ending.is_fault:
            print(f"{case.name}: {ending.signature}", flush=True)
            if keep is not None:
                folder = keep / f"{case.seed}-{case.kind}-{case.number}"
                folder.mkdir(parents=True, exist_ok=True)
                write(case, folder)
                (folder / "stderr").write_text(ending.said, "utf-8", errors="backslashreplace")
        if time.monotonic() - last > 60:
            last = time.monotonic()
            print(f"{tally.total} cases in {last - begin:.0f} s", flush=True)
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", type=int, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=SEED, help="of the changes (%(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    parser.add_argument("--first", type=int, default=0, help="number of the first of a kind (0)")
    parser.add_argument("--compile", type=int, default=0, metavar="N", help="every N-th; 0: none")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where files of faults are kept")
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds {', '.join(sorted(unknown))}: known are {', '.join(KINDS)}")
    chosen = cases(options.seed, kinds, options.first, options.cases, options.compile)
    tally = fuzz(chosen, jobs=options.jobs, keep=options.keep)
    print(tally.report())
    return int(bool(tally.faults))


if __name__ == "__main__":
    sys.exit(main())
