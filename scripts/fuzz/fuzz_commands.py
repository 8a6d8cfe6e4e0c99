"""Give the command line damaged files and odd options: it must say in one sentence what is wrong.

    python scripts/fuzz/fuzz_commands.py 200                  # 200 cases of every kind
    python scripts/fuzz/fuzz_commands.py 500 --kinds sbml,results --first 1000

Kinds: toml, net, sbml (changed words and lines), lm and results (turned bits, missing pieces), and
options (of all commands).  Each case is a function of its number and runs in a process of its own
with little time and memory.  A case fails if the command neither succeeds nor exits 2 with one
sentence: on a traceback, a signal, or no end.  What failed is kept in the folder that is printed;
exits 1 if anything did.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import libsbml  # noqa: F401 - loaded once here, not in every child
from fuzz_damage import SECONDS, Answer, answer_of_child, damaged_bytes, damaged_text, odd_options

from tauslab.runner.cli.main import main as command_line

ROOT = Path(__file__).resolve().parents[2]
DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
LARGEST = 60_000  # bytes of a file that is damaged: in a large one hardly anything would be
TEXTS = {
    "toml": (EXAMPLES, ".toml"),
    "net": (DATA / "net", ".net"),
    "sbml": (DATA / "sbml", ".xml"),
}
KINDS = (*TEXTS, "lm", "results", "options")
ALWAYS = ("--seed", "1", "--device", "cpu", "--threads", "1", "--quiet")
ON_RESULTS = {
    "info": (),
    "digest": (),
    "check": (),
    "merge": (),
    "export": ("--overwrite",),
    "plot": ("--overwrite",),
    "run": ("-o", "again.h5", "--overwrite", *ALWAYS),
    "rdme": ("-o", "again.h5", "--overwrite", *ALWAYS),
}
SHORT = ("--t-end", "1", "--points", "3", *ALWAYS)
BOX = """t_end = 0.002
[lattice]
shape = [3, 4, 5]
spacing = 32e-9
step = 1e-4
[species]
A = 20
B = 0
[[diffusion]]
species = "*"
coefficient = 1e-12
[[reactions]]
equation = "A -> B"
rate = 10
"""


def make_results(folder: Path) -> list[Path]:
    """A small result of every kind."""
    (folder / "box.toml").write_text(BOX, encoding="utf-8")
    schlogl, telegraph, enzyme = (
        str(EXAMPLES / f"{name}.toml") for name in ("schlogl", "telegraph", "enzyme")
    )
    all_of_it = "trajectories,statistics,final,histogram:X:0:500:10"
    swept = ("--record", "statistics,summary:mean:M", "--sweep", "M=list:1,2,3")
    unknown = ("--unknown", "wash_out_km", "--range", "wash_out_km=20:80", "--substeps", "4")
    commands = {
        "ssa.h5": ("run", schlogl, "-n", "6", "--record", all_of_it, *SHORT),
        "gzip.h5": ("run", schlogl, "-n", "60", "--compress", "4", *SHORT),
        "sweep.h5": ("run", telegraph, "-n", "5", *swept, *SHORT),
        "ode.h5": ("run", enzyme, "-n", "4", "--method", "ode", *SHORT),
        "rdme.h5": ("rdme", str(folder / "box.toml"), "--frame-every", "5", *ALWAYS),
        "net.dbn.h5": ("dbn", enzyme, "--samples", "50", *unknown, *SHORT),
    }
    for name, words in commands.items():
        if command_line([*words, "-o", str(folder / name)]) != 0:
            sys.exit(f"{name} could not be made")
    return [folder / name for name in commands]


def sources(kind: str, results: list[Path]) -> list[Path]:
    """The files of a kind that are damaged."""
    if kind in TEXTS:
        folder, suffix = TEXTS[kind]
        found = (p for p in folder.glob(f"*{suffix}") if p.stat().st_size < LARGEST)
        return sorted(found)
    return [DATA / "lm" / "tiny.lm"] if kind == "lm" else results


def damaged_file(kind: str, dice: random.Random, results: list[Path], folder: Path) -> list[str]:
    """Write a damaged file; the command that reads it."""
    source = dice.choice(sources(kind, results))
    damaged = folder / ("x.dbn.h5" if source.name.endswith(".dbn.h5") else f"x{source.suffix}")
    if kind in TEXTS:
        text = damaged_text(source.read_text(encoding="utf-8"), dice)
        damaged.write_text(text, errors="surrogatepass", newline="", encoding="utf-8")
        return ["check", str(damaged)]
    damaged.write_bytes(damaged_bytes(source.read_bytes(), dice))
    command = dice.choice(list(ON_RESULTS)) if kind == "results" else "check"
    return [command, str(damaged), *ON_RESULTS[command]]


def commands_to_change(results: list[Path]) -> list[list[str]]:
    """Commands that succeed, to which options are added."""
    made = {path.name: str(path) for path in results}
    telegraph, enzyme = str(EXAMPLES / "telegraph.toml"), str(EXAMPLES / "enzyme.toml")
    brief = ["-n", "2", "--t-end", "0.1", "--points", "2", "--overwrite", *ALWAYS]
    box = str(results[0].parent / "box.toml")
    return [
        ["run", telegraph, "-o", "r.h5", *brief],
        ["run", telegraph, "--method", "tau", "-o", "r.h5", *brief],
        ["run", enzyme, "--method", "ode", "-o", "r.h5", *brief],
        ["run", made["ssa.h5"], "-o", "r.h5", "--overwrite", *ALWAYS],
        ["rdme", box, "--t-end", "0.001", "-o", "l.h5", "--overwrite", *ALWAYS],
        ["info", made["ssa.h5"]],
        ["digest", made["sweep.h5"]],
        ["plot", made["rdme.h5"], "-o", "p.png", "--overwrite"],
        ["export", made["ssa.h5"], "-o", "e.csv", "--overwrite"],
        ["export", made["rdme.h5"], "-o", "e.npy", "--overwrite"],
        ["export", made["net.dbn.h5"], "-o", "e.bif", "--overwrite"],
        ["check", str(EXAMPLES / "minde.toml")],
        ["slurm", "--", "run", telegraph],
    ]


def case(kind: str, number: int, results: list[Path], folder: Path) -> tuple[list[str], Answer]:
    """Run one case; its command and what came of it."""
    dice = random.Random(f"{kind} {number}")  # noqa: S311 - no secrets
    if kind == "options":
        command = odd_options(dice.choice(commands_to_change(results)), dice)
    else:
        command = damaged_file(kind, dice, results, folder)
    return command, answer_of_child(command, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", type=int, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first (0)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="tauslab-fuzz-"))
    results = make_results(folder)
    ends: Counter[str] = Counter()
    wrong = 0
    for kind in options.kinds.split(","):
        for number in range(options.first, options.first + options.cases):
            begin = time.perf_counter()
            command, found = case(kind, number, results, folder)
            ends[found.ended] += 1
            if found.is_right:
                continue
            wrong += 1
            took = time.perf_counter() - begin
            print(f"{kind} {number}: {found.ended} after {took:.1f} s: {' '.join(command)[:300]}")
            print("    " + "\n    ".join(found.said.strip().splitlines()[-6:]), flush=True)
            if kind != "options":
                shutil.copy(command[1], folder / f"{kind}-{number}{Path(command[1]).suffix}")
    told = ", ".join(f"{count} ended {end}" for end, count in ends.most_common())
    print(f"{wrong} wrong of {sum(ends.values())} ({told}; limit {SECONDS} s); see {folder}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
