"""Damage results at random: whatever is asked of them, one sentence or the right answer comes back.

    python tests/support/fuzz/fuzz_results.py 20000                 # cases 0 .. 19999 of seed 1
    python tests/support/fuzz/fuzz_results.py 500 --first 137 --seed 2 --jobs 1

Results of every kind (trajectories, statistics, final, histograms, summaries, a sweep, equations,
compressed, a view of parts, unfinished ones, lattices, a Bayesian network) are made once. A case
damages a copy of one: bits, pages, its end; or attributes, datasets and links, through h5py.
A child of this warm process then asks it for all that a user can: info, digest, means, and a table,
the rest of the run, more trajectories, one file, or a run of its own.

Faults are exceptions, crashes, 30 s without an end, and *wrong answers*: a digest, a mean, a table
or a completed run that differs from the undamaged file's. Exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
from fuzz_children import Ending, Limits, Tally, dice_of, in_children

import tauslab
from tauslab.base.errors import ConfigError, TauslabError
from tauslab.cli.main import main as command_line
from tauslab.store.writers.parts import PartsOptions

WRONG = 3  # exit code of a case that got a wrong answer
MODEL = """[species]
X = 50
Y = 3
[[reactions]]
equation = "X -> Y"
rate = 1
[[reactions]]
equation = "-> X"
rate = 30
"""
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
HERE = ("--device", "cpu", "--threads", "1", "--quiet", "--seed", "3")
RUN = ("run", "m.toml", "-n", "24", "--t-end", "2", "--points", "5", "--block", "4")
LATTICE = ("rdme", "box.toml", "--count-every", "2", "--frame-every", "5")
DBN = ("dbn", "m.toml", "--unknown", "X", "--range", "X=40:60", "--samples", "60", "--t-end", "2",
       "--points", "4", "--substeps", "4")  # fmt: skip
# A launch of the linear selector is larger than these runs: they would end before they are stopped.
SLOW = (*RUN, "--method", "ssa", "--selector", "tree")


@dataclass(frozen=True)
class Kind:
    """How a result is made; `unfinished` ones are stopped after so many questions whether to."""

    words: tuple[str, ...]
    unfinished: int = 0
    view: bool = False
    parts: bool = False
    grows: bool = True


KINDS = {
    "trajectories": Kind((*RUN, "--method", "ssa", "--record", "trajectories,statistics,final")),
    "statistics": Kind((*RUN, "--method", "ssa", "--record", "statistics,histogram:X:0:100:10")),
    "final": Kind((*RUN, "--method", "ssa", "--record", "final,summary:mean:X")),
    "sweep": Kind((*RUN, "--method", "ssa", "--sweep", "X=list:20,50,70", "--record",
                   "trajectories,statistics,summary:mean:Y")),
    "tau": Kind((*RUN, "--method", "tau", "--record", "trajectories")),
    "ode": Kind((*RUN, "--method", "ode", "--sample", "X=uniform(10,90)", "--record",
                 "trajectories,statistics,sampled"), grows=False),
    "gzip": Kind((*RUN, "--method", "ssa", "--compress", "4")),
    "view": Kind((*RUN, "--method", "ssa", "--record", "trajectories,final"), view=True),
    "begun": Kind((*SLOW, "--record", "trajectories,statistics"), unfinished=2),
    "begun-statistics": Kind((*SLOW, "--record", "statistics"), unfinished=2),
    "begun-parts": Kind((*SLOW, "--record", "trajectories"), unfinished=2,
                        parts=True),
    "lattice": Kind(LATTICE, grows=False),
    "replicas": Kind(("rdme", "box.toml", "--count-every", "4", "--replicas", "2"), grows=False),
    "begun-lattice": Kind((*LATTICE, "--checkpoint-steps", "4"), unfinished=3, grows=False),
    "dbn": Kind(DBN, grows=False),
}  # fmt: skip


def name_of(kind: str) -> str:
    """File name of a result."""
    return f"{kind}.h5"


def parts_of(path: Path) -> Path:
    """The folder of parts beside a result."""
    return path.with_name(f"{path.name}.parts")


# ---------------------------------------------------------------- making


def make(folder: Path) -> None:
    """Make all results in a folder, and the answers that the right ones give."""
    os.chdir(folder)
    Path("m.toml").write_text(MODEL, encoding="utf-8")
    Path("box.toml").write_text(BOX, encoding="utf-8")
    for kind, how in KINDS.items():
        path = Path(name_of(kind))
        _make(how, path)
        answers = folder / f"{kind}.answers"
        answers.mkdir()
        whole = answers / path.name
        if how.unfinished:
            run([*how.words, *HERE, "-o", str(whole)])
        else:
            copy(path, whole)
        (answers / "digest").write_text(digest(whole), encoding="utf-8")
        if not how.unfinished:
            (answers / "means").write_text(means(whole), encoding="utf-8")
            if kind != "dbn":
                run(["export", str(whole), "-o", str(answers / "table.csv"), *_what(kind)])
        if how.grows:
            longer = answers / "longer" / path.name
            longer.parent.mkdir()
            copy(whole, longer)
            run(["run", "m.toml", "--append", "4", *HERE[:-2], "-o", str(longer)])
            (answers / "grown").write_text(digest(longer), encoding="utf-8")


def _make(how: Kind, path: Path) -> None:
    with contextlib.ExitStack() as changed:
        if how.view or how.parts:
            parts_of(path).mkdir()
            sizes = PartsOptions(segment_bytes=500, merge_bytes=0 if how.view else 1 << 30)
            place = "tauslab.store.writers.parts.PartsOptions"
            changed.enter_context(mock.patch(place, return_value=sizes))
        if how.unfinished:
            answers = [False] * how.unfinished
            small = mock.patch("tauslab.kernels.backends.cpu.LEAST_EVENTS", 0.0)
            changed.enter_context(small)  # a whole run would else be one launch
            for command in ("run", "lattice"):
                place = f"tauslab.cli.commands.{command}.stop_in_order"
                asked = mock.patch(place, return_value=lambda: answers.pop() if answers else True)
                changed.enter_context(asked)
        run([*how.words, *HERE, "-o", str(path)], {75} if how.unfinished else {0})


def run(words: Sequence[str], allowed: Sequence[int] | set[int] = (0,)) -> int:
    """Call the command line here; another exit code ends the program."""
    code = command_line(list(words))
    if code not in allowed:
        sys.exit(f"exit code {code} of {' '.join(words)}")
    return code


def copy(path: Path, other: Path) -> None:
    """Copy a result with its parts."""
    shutil.copyfile(path, other)
    if parts_of(path).is_dir():
        shutil.copytree(parts_of(path), parts_of(other))
        if other.name != path.name:  # a view knows its parts by the name of their folder
            parts_of(other).rename(other.with_name(parts_of(path).name))


def digest(path: Path) -> str:
    """What ``tauslab digest`` prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = command_line(["digest", str(path)])
    return said.getvalue() if code == 0 else ""


def means(path: Path) -> str:
    """What a program reads of a result."""
    found: Any = tauslab.open(path)
    if hasattr(found, "tables"):
        return repr(sorted((n, int(t.counts.sum())) for n, t in found.tables.items()))
    with found:
        if hasattr(found, "slabs"):
            frames = range(len(found.frame_times))
            density = [found.density(s, f).sum() for s in found.species for f in frames]
            return repr([found.counts(s).tolist() for s in found.species] + density)
        known = [found.status.tolist(), found.summaries]
        with contextlib.suppress(ConfigError):
            known += [found.mean(s).tolist() for s in found.species]
        known += [found.summary(s).tolist() for s in found.summaries]
        return repr(known)


def _what(kind: str) -> list[str]:
    return ["--replica", "0"] if kind in {"lattice", "replicas"} else []


# ---------------------------------------------------------------- damage


def damage_bytes(path: Path, dice: random.Random) -> str:
    """Change bytes of a file; says what was done."""
    data = bytearray(path.read_bytes())
    size, page = len(data), dice.choice((64, 512, 4096))
    at = dice.randrange(size)
    kind = dice.choice(("bits", "bits", "bits", "zeros", "page", "swap", "cut", "noise", "ones"))
    first = at // page * page
    if kind == "bits":
        for _ in range(dice.choice((1, 1, 2, 8))):
            at = dice.randrange(size)
            data[at] ^= 1 << dice.randrange(8)
    elif kind == "zeros":
        count = dice.choice((1, 8, 64, 1000))
        data[at : at + count] = bytes(len(data[at : at + count]))
    elif kind == "page":
        data[first : first + page] = bytes(len(data[first : first + page]))
    elif kind == "swap":
        other = dice.randrange(size) // page * page
        a, b = data[first : first + page], data[other : other + page]
        if len(a) == len(b):
            data[first : first + page], data[other : other + page] = b, a
    elif kind == "cut":
        del data[at:]
    elif kind == "noise":
        data[first : first + page] = dice.randbytes(len(data[first : first + page]))
    else:
        data[at : at + 8] = b"\xff" * len(data[at : at + 8])
    path.write_bytes(bytes(data))
    return f"{kind} at {at} of {size}"


_ODD: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 2**31, 2**63 - 1, -(2**63), 1.5, float("nan"), float("inf"), "", "ssa", "tau",
    "ode", "rdme", "dbn", "plain", "parts", "virtual", "x" * 3000, "\udcff", b"\xff\xfe", [1, 2, 3],
    np.zeros((2, 2)), "a,b", "1,1", "trajectories", "histogram:X:0:1:99999999", "tauslab",
)  # fmt: skip


def damage_through_h5py(path: Path, dice: random.Random) -> str:
    """Change what an HDF5 file holds by means of its library; says what was done."""
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        groups: list[str] = []
        file.visititems(lambda n, i: (names if isinstance(i, h5py.Dataset) else groups).append(n))
        name = dice.choice(names)
        change = dice.choice(_CHANGES)
        with contextlib.suppress(TypeError, ValueError, OSError, KeyError, RuntimeError):
            return f"{change.__name__} {change(file, name, groups, dice)}"
        return f"{change.__name__} of {name}: not possible"


def _attribute(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    target = file if dice.random() < 0.8 else file[name]
    keys = list(target.attrs)
    if not keys:
        return "none"
    key = dice.choice(keys)
    if dice.random() < 0.15:
        del target.attrs[key]
        return f"{key} deleted"
    value = dice.choice(_ODD)
    if isinstance(value, str) and dice.random() < 0.5:
        target.attrs[key] = np.bytes_(value.encode("utf-8", "surrogateescape"))
    elif isinstance(target.attrs[key], np.integer) and isinstance(value, int):
        kind = np.iinfo(target.attrs[key].dtype)
        target.attrs.modify(key, min(max(value, int(kind.min)), int(kind.max)))
    else:
        target.attrs[key] = value
    return f"{key} = {str(value)[:40]!r}"


def _delete(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    chosen = dice.choice(groups) if groups and dice.random() < 0.2 else name
    del file[chosen]
    return chosen


def _retype(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    values = file[name][()]
    del file[name]
    kind = dice.choice(("f4", "f8", "i1", "i8", ">i4", "u8", "S3", "vlen", "ragged", "empty"))
    if kind == "vlen":
        texts = np.array([str(v) for v in np.ravel(values)] or ["x"], object)
        file.create_dataset(name, data=texts, dtype=h5py.string_dtype())
    elif kind == "ragged":
        file.create_dataset(name, (3,), dtype=h5py.vlen_dtype(np.int32))
    elif kind == "empty":
        file[name] = h5py.Empty("f8")
    else:
        file[name] = np.asarray(values).astype(kind)
    return f"{name} to {kind}"


def _reshape(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    values = np.asarray(file[name][()])
    del file[name]
    how = dice.choice(("flat", "longer", "shorter", "axis", "scalar", "none"))
    if how == "flat":
        file[name] = values.ravel()
    elif how == "longer":
        file[name] = np.concatenate([values, values]) if values.ndim else np.array([values] * 3)
    elif how == "shorter":
        file[name] = values[:-1] if values.ndim else values
    elif how == "axis":
        file[name] = values[None]
    elif how == "scalar":
        file[name] = values.ravel()[0] if values.size else 0
    else:
        file[name] = values[:0] if values.ndim else values
    return f"{name} {how}"


def _values(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    dataset = file[name]
    values = np.array(dataset[()])
    if not values.size:
        return f"{name} is empty"
    flat = values.reshape(-1)
    some = [dice.randrange(flat.size) for _ in range(dice.choice((1, 1, 3, flat.size)))]
    for at in some:
        if values.dtype.kind in "iuf":
            kind = dice.randrange(4)
            with np.errstate(all="ignore"):
                flat[at] = (flat[at] + 1, 0, dice.choice((1, 255, 77)), flat[-1])[kind]
        else:
            flat[at] = b"zz"
    dataset[...] = values
    return f"{len(some)} of {name}"


def _link(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    kind = dice.choice(("soft", "hard", "external", "swap", "group", "loop"))
    values = file[name][()]
    if kind == "swap":
        other = dice.choice(list(groups or ["time"]))
        file.move(name, "aside")
        file.move(other, name)
        file.move("aside", other)
        return f"{name} and {other} exchanged"
    if kind == "external":
        with h5py.File(Path(file.filename).with_name("elsewhere.h5"), "w") as outside:
            outside["x"] = values
    del file[name]
    if kind == "soft":
        file["kept"] = values
        file[name] = h5py.SoftLink("/kept")
    elif kind == "hard":
        file[name] = file.get("time", file)
    elif kind == "external":
        file[name] = h5py.ExternalLink("elsewhere.h5", "x")
    elif kind == "group":
        file.create_group(name)
    else:
        file[name] = file
    return f"{name} by {kind}"


def _storage(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    values = np.asarray(file[name][()])
    del file[name]
    kind = dice.choice(("external", "virtual", "chunked", "/dev/zero"))
    if kind in {"external", "/dev/zero"}:
        raw = kind if kind != "external" else "raw.bin"
        Path(file.filename).with_name("raw.bin").write_bytes(values.tobytes())
        file.create_dataset(name, values.shape, values.dtype, external=[(raw, 0, values.nbytes)])
    elif kind == "virtual":
        other = Path(file.filename).with_name("elsewhere.h5")
        with h5py.File(other, "w") as outside:
            outside["x"] = values
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        layout[...] = h5py.VirtualSource(other.name, "x", values.shape, values.dtype)
        file.create_virtual_dataset(name, layout)
    else:
        file.create_dataset(name, data=values, chunks=True, compression="gzip", fletcher32=True)
    return f"{name} {kind}"


def _more(file: h5py.File, name: str, groups: list[str], dice: random.Random) -> str:
    del groups
    other = dice.choice(("summary/new", "sweep/new", "statistics/histogram/Z", "extra/a", "b"))
    file[other] = file[name][()]
    return f"{name} as {other}"


_CHANGES: tuple[Callable[..., str], ...] = (
    _attribute, _attribute, _delete, _retype, _reshape, _values, _values, _link, _storage, _more,
)  # fmt: skip


def damaged_copy(kind: str, dice: random.Random, folder: Path) -> tuple[Path, str]:
    """A damaged copy of a result here; what was done to it."""
    path = Path(name_of(kind))
    copy(folder / path.name, path)
    for model in ("m.toml", "box.toml"):
        shutil.copyfile(folder / model, model)
    parts = sorted(parts_of(path).glob("*.h5")) if parts_of(path).is_dir() else []
    target = dice.choice(parts) if parts and dice.random() < 0.7 else path
    change = damage_bytes if dice.random() < 0.6 else damage_through_h5py
    return path, f"{target.name}: {change(target, dice)}"


# ---------------------------------------------------------------- asking


def ask(kind: str, number: int, seed: int, folder: Path, share: float) -> int:
    """Damage a copy and ask it for everything; 0, or `WRONG` with a line that says what is."""
    dice = dice_of(seed, kind, number)
    path, done = damaged_copy(kind, dice, folder)
    how, answers = KINDS[kind], folder / f"{kind}.answers"
    print(f"{kind}: {done}", file=sys.stderr)
    warnings.simplefilter("ignore")
    wrong: list[str] = []

    def compare(what: str, found: str, wanted: str) -> None:
        if found and found != wanted:
            wrong.append(f"wrong {what}: {found[:200]!r}, not {wanted[:200]!r}")

    right = (answers / "digest").read_text(encoding="utf-8")
    told = dice.random() < 0.5
    if told:
        command_line(["info", str(path)])
    found = digest(path)
    if how.unfinished and found:
        wrong.append("a digest of a run that is not finished")
    compare("digest", found, right)
    if not how.unfinished and not told:
        with contextlib.suppress(TauslabError):
            compare("means", means(path), (answers / "means").read_text(encoding="utf-8"))
    if dice.random() < share:
        _MORE[dice.choice(sorted(_MORE))](path, kind, answers, compare)
    for line in wrong:
        print(line, file=sys.stderr)
    return WRONG if wrong else 0


Compare = Callable[[str, str, str], None]


def _table(path: Path, kind: str, answers: Path, compare: Compare) -> None:
    table = answers / "table.csv"
    if not KINDS[kind].unfinished and table.exists() and _quiet(
        ["export", str(path), "-o", "table.csv", *_what(kind)]
    ) == 0:  # fmt: skip
        compare("table", Path("table.csv").read_text("utf-8"), table.read_text("utf-8"))


def _resumed(path: Path, kind: str, answers: Path, compare: Compare) -> None:
    if _quiet([*KINDS[kind].words, *HERE, "-o", str(path), "--resume"]) == 0:
        compare("completed run", digest(path), (answers / "digest").read_text(encoding="utf-8"))


def _grown(path: Path, kind: str, answers: Path, compare: Compare) -> None:
    if KINDS[kind].grows and _quiet(
        ["run", "m.toml", "--append", "4", *HERE[:-2], "-o", str(path)]
    ) == 0:  # fmt: skip
        compare("longer run", digest(path), (answers / "grown").read_text(encoding="utf-8"))


def _merged(path: Path, kind: str, answers: Path, compare: Compare) -> None:
    del kind
    if _quiet(["merge", str(path)]) == 0:
        compare("merged file", digest(path), (answers / "digest").read_text(encoding="utf-8"))


def _again(path: Path, kind: str, answers: Path, compare: Compare) -> None:
    words = KINDS[kind].words
    if words[0] != "dbn" and _quiet([words[0], str(path), *HERE[:-2], "-o", "again.h5"]) == 0:
        compare("rerun", digest(Path("again.h5")), (answers / "digest").read_text("utf-8"))


def _quiet(words: list[str]) -> int:
    return command_line(words)


_MORE: dict[str, Callable[[Path, str, Path, Compare], None]] = {
    "table": _table, "resumed": _resumed, "grown": _grown, "merged": _merged, "again": _again,
}  # fmt: skip


def _until_interrupted(endings: Iterable[tuple[Any, Ending]]) -> Iterator[tuple[Any, Ending]]:
    """The endings up to Ctrl-C, so that what was found is told."""
    with contextlib.suppress(KeyboardInterrupt):
        yield from endings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", type=int, nargs="?", default=500, help="how many (500)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (0)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--share", type=float, default=0.5, help="of cases that are also asked "
                        "for a table, a run or one file, which takes longer (0.5)")  # fmt: skip
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.make:
        make(options.make)
        return 0
    kinds = options.kinds.split(",")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tauslab-fuzz-") as name:
        folder = Path(name)
        # In another process: a child of one that has threads may wait for them for ever.
        subprocess.run([sys.executable, __file__, "--make", name], check=True, capture_output=True)
        tally = Tally()

        def act(case: tuple[str, int]) -> int:
            return ask(case[0], case[1], options.seed, folder, options.share)

        numbers = range(options.first, options.first + options.cases)
        cases = ((kinds[number % len(kinds)], number) for number in numbers)
        endings = in_children(cases, act, jobs=options.jobs, limits=Limits(30.0))
        for case, ending in _until_interrupted(endings):
            tally.add(f"{case[1]} ({re.sub(r'[^ -~]', '?', ending.said.partition(chr(10))[0])})",
                      ending)  # fmt: skip
            if ending.how == str(WRONG):
                print(f"case {case[1]}: {ending.said.strip()[-600:]}", flush=True)
    print(f"seed {options.seed}, cases {options.first} to {numbers[-1]}: {tally.report()}")
    print(f"{time.monotonic() - began:.0f} s")
    return int(bool(tally.faults))


if __name__ == "__main__":
    sys.exit(main())
