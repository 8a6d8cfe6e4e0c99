"""Give the command line lattices, label files and networks that are slightly wrong, in children.

    python tests/support/fuzz/fuzz_lattices.py 1000                 # 1000 cases of every kind
    python tests/support/fuzz/fuzz_lattices.py 500 --kinds toml,labels --seed 7 --first 2000 --jobs 2

Kinds: toml (words and lines of lattice models), numbers (one number of a model made extreme), hdf5
(data sets, attributes and bytes of lattice model files), lm (the same of Lattice Microbes' files),
labels (label volumes that a model reads), rdme and dbn (command lines), build (settings of
`tauslab.dbn.build` and calls of `tauslab.Lattice`).  A case is a function of seed, kind and number.
It is right if the command succeeds or says in one sentence what is wrong (exit code 1, 2 or 75);
exits 1 if any case raised, crashed or took more than 30 s.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_children import Limits, Tally, dice_of, in_children
from fuzz_damage import odd_options
from fuzz_mutations import change_hdf5, changed_bytes, changed_text

import tauslab as ts
from tauslab.base.errors import TauslabError
from tauslab.cli.main import main as command_line

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES, DATA = ROOT / "examples", ROOT / "tests" / "data"
KINDS = ("toml", "numbers", "hdf5", "lm", "labels", "rdme", "dbn", "build")
ALWAYS = ("--seed", "1", "--device", "cpu", "--threads", "1", "--quiet", "--overwrite")
SHORT = ("--t-end", "2e-4", "-o", "out.h5", *ALWAYS)
BOX = """t_end = 0.002
[lattice]
shape = [3, 4, 5]
spacing = 32e-9
step = 1e-4
slots = 16
boundary = "reflecting"
site_types = ["outside", "cell"]
[boundary]
x = { kind = "held", concentrations = { A = 1e-5 } }
z = "periodic"
[parameters]
k = 10.0
D = "1e-12 * k / 10"
[[regions]]
site_type = "cell"
shape = "SHAPE"
REST
[species]
A = { count = 20, site_type = "outside" }
B = 0
C = { positions = [[0, 1, 2], [1, 1, 1]] }
[[diffusion]]
species = "*"
coefficient = "D"
[[diffusion]]
species = "A"
coefficient = 1e-13
between = ["outside", "cell"]
[[reactions]]
equation = "A -> B"
rate = "k"
[[reactions]]
name = "bind"
equation = "A + B -> C"
rate = 1e6
unit = "M^-1 s^-1"
site_types = ["cell"]
[[reactions]]
equation = "-> A"
rate = 5.0
volume = "lattice"
[[place]]
species = "B"
concentration = 1e-5
site_type = "cell"
"""
SHAPES = {
    "box": "low = [0, 0, 0]\nhigh = [6.4e-8, 6.4e-8, 6.4e-8]",
    "sphere": "radius = 5e-8\ncentre = [4e-8, 6e-8, 8e-8]",
    "ellipsoid": "radii = [5e-8, 4e-8, 6e-8]",
    "capsule": 'length = 1.2e-7\nradius = 4e-8\naxis = "x"',
    "shell": 'of = "outside"\nsteps = 1\nneighbours = 6',
    "obstacles": 'of = "outside"\nradius = 2e-8\nfraction = 0.2\nseed = 3\noverlap = false',
}
EXTREME = (
    "0", "-1", "1", "-0.0", "1e300", "-1e300", "1e-300", "5e-324", "1e308", "1e400", "nan", "inf",
    "-inf", "0.1", "32", "1e-9", "1e-6", "3e4", "255", "256", "65536", "70000", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e19", "true", '""',
    '"k"', '"1/0"', '"k^inf()"', "[]", "[1]", "{}", "1979-05-27", "[4096, 4096, 4096]",
    "[1099511627776, 1, 1]", "[[1, 1], [1, 1, 1]]", '"\\u0000"', '"\\u001b[2J"', '"lettuce"',
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, 0, -1, 1.5, float("nan"), float("inf"), 1e300, 2**63, 10**30, True, "", "A", "k", "q",
    "\x1b[2J", b"x", [], [1, 2], [[1, 1], [1, 1, 1]], {}, {"A": 1}, (1, 2), (2, 1), (0, 0, 0),
    (4096, 4096, 4096), (2**40, 1, 1), np.zeros(3), np.full((3, 4, 5), np.nan), np.int64(3), ...,
)  # fmt: skip


class Sources:
    """Files that cases damage, made once before children are forked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        small = [path for path in EXAMPLES.glob("*.toml") if path.stat().st_size < 20_000]
        self.texts = [box(shape) for shape in SHAPES]
        texts = [path.read_text(encoding="utf-8") for path in sorted(small)]
        self.texts += [text for text in texts if "[lattice]" in text]
        self.labels = _label_files(folder)
        self.models = [_written(folder / f"{shape}.h5", shape) for shape in ("box", "sphere")]
        self.lm = sorted((DATA / "lm").glob("*.lm"))
        enzyme = str(EXAMPLES / "enzyme.toml")
        self.dbn = ["dbn", enzyme, "--unknown", "wash_out_km", "--samples", "50", "--t-end", "1",
                    "--points", "3", "--substeps", "4", "--range", "wash_out_km=20:80", "-o",
                    "n.dbn.h5", *ALWAYS]  # fmt: skip
        self.box = folder / "box.toml"
        self.box.write_text(box("box"), "utf-8")


def box(shape: str) -> str:
    """A small lattice model with every table, and a region of one shape."""
    return BOX.replace("SHAPE", shape).replace("REST", SHAPES[shape])


def _written(path: Path, shape: str) -> Path:
    (path.with_suffix(".toml")).write_text(box(shape), "utf-8")
    lattice = ts.read(path.with_suffix(".toml"))
    assert isinstance(lattice, ts.Lattice)
    return lattice.write(path)


def _label_files(folder: Path) -> list[Path]:
    """The same labels in every format whose library is there."""
    labels = np.zeros((3, 4, 5), np.uint8)
    labels[0] = 1
    made = [folder / "labels.npy", folder / "floats.npy"]
    np.save(made[0], labels)
    np.save(made[1], labels.astype(np.float64))
    try:
        import tifffile

        for name, compression in (("a.tif", None), ("b.tif", "zlib")):
            path = folder / name
            tifffile.imwrite(path, labels, photometric="minisblack", compression=compression)
            made.append(path)
    except ImportError:
        pass
    try:
        import mrcfile

        with mrcfile.new(folder / "a.mrc") as file:
            file.set_data(labels.astype(np.int8))
        made.append(folder / "a.mrc")
    except ImportError:
        pass
    try:
        import zarr

        array: Any = labels
        zarr.save_array(str(folder / "a.zarr"), array)
        made.append(folder / "a.zarr")
    except ImportError:
        pass
    return made


# ---------------------------------------------------------------- kinds of cases


def toml(sources: Sources, dice: random.Random) -> int:
    """Words and lines of a model changed."""
    text = changed_text(dice.choice(sources.texts), dice)
    return _check_or_run(_kept("x.toml", text), dice)


def numbers(sources: Sources, dice: random.Random) -> int:
    """One to three values of a model made extreme."""
    lines = dice.choice(sources.texts).splitlines()
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at = dice.choice([i for i, line in enumerate(lines) if " = " in line])
        key, _, _ = lines[at].partition(" = ")
        lines[at] = f"{key} = {dice.choice(EXTREME)}"
    return _check_or_run(_kept("x.toml", "\n".join(lines)), dice)


def hdf5(sources: Sources, dice: random.Random) -> int:
    """A lattice model file with other contents, or other bytes."""
    return _changed_hdf5(dice.choice(sources.models), Path("x.h5"), dice)


def lm(sources: Sources, dice: random.Random) -> int:
    """A file of Lattice Microbes with other contents, or other bytes."""
    return _changed_hdf5(dice.choice(sources.lm), Path("x.lm"), dice)


def labels(sources: Sources, dice: random.Random) -> int:
    """A label volume that is damaged, or of a kind that no labels are."""
    source = dice.choice(sources.labels)
    damaged = Path(f"x{source.suffix}")
    if source.is_dir():
        shutil.copytree(source, damaged)
        inside = dice.choice(sorted(p for p in damaged.rglob("*") if p.is_file()))
        inside.write_bytes(changed_bytes(inside.read_bytes(), dice) or b"{}")
    elif source.suffix == ".npy" and dice.random() < 0.5:
        value = dice.choice((1e300, -1e19, np.nan, np.inf, 0.5, 2.0**53, 300.0, -1.0))
        shape = dice.choice(((3, 4, 5), (3, 4, 5), (0, 4, 5), (60,), (1, 3, 4, 5), ()))
        kind = dice.choice(("f8", "f4", "f2", "c16", "i8", "u1", "M8[s]", "S3", "?"))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.save(damaged, np.full(shape, value).astype(kind))
    else:
        damaged.write_bytes(changed_bytes(source.read_bytes(), dice))
    rest = f'file = "{damaged}"\nlabels = {{ 0 = "outside", 1 = "cell" }}'
    text = box("box").replace('shape = "box"\n' + SHAPES["box"], f'shape = "labels"\n{rest}')
    text = text.replace('site_type = "cell"\nshape', "shape", 1)
    return command_line(["check", _kept("x.toml", text)])


def rdme(sources: Sources, dice: random.Random) -> int:
    """Options of ``tauslab rdme``."""
    command = ["rdme", str(sources.box), *SHORT]
    return command_line(odd_options(command, dice))


def dbn(sources: Sources, dice: random.Random) -> int:
    """Options of ``tauslab dbn``."""
    return command_line(odd_options(sources.dbn, dice))


def build(sources: Sources, dice: random.Random) -> int:
    """A setting of `tauslab.dbn.build`, or an argument of a method of `tauslab.Lattice`."""
    del sources
    try:
        (_lattice_calls if dice.random() < 0.6 else _dbn_call)(dice)
    except TauslabError as error:
        print(f"tauslab: {error}", file=sys.stderr)
        return error.exit_code
    return 0


ACTS: dict[str, Callable[[Sources, random.Random], int]] = {
    "toml": toml, "numbers": numbers, "hdf5": hdf5, "lm": lm, "labels": labels, "rdme": rdme,
    "dbn": dbn, "build": build,
}  # fmt: skip


def _kept(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8", errors="surrogatepass", newline="")
    return name


def _check_or_run(path: str, dice: random.Random) -> int:
    command = ["check", path] if dice.random() < 0.7 else ["rdme", path, *SHORT]
    return command_line(command)


def _changed_hdf5(source: Path, path: Path, dice: random.Random) -> int:
    if dice.random() < 0.4:
        path.write_bytes(changed_bytes(source.read_bytes(), dice))
    else:
        shutil.copyfile(source, path)
        change_hdf5(path, dice)
    return _check_or_run(str(path), dice)


def _lattice_calls(dice: random.Random) -> None:
    """A lattice by the builder, with one odd argument."""
    made: dict[str, Any] = {"shape": (3, 4, 5), "spacing": 32e-9, "step": 1e-4, "t_end": 1e-3}
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("add_species", ("A", "B"), {}),
        ("add_parameter", ("k", 3.0), {}),
        ("add_diffusion", ("A", 1e-12), {}),
        ("add_reaction", ("A -> B",), {"rate": "k"}),
        ("add_reaction", ("A + B -> A",), {"rate": 1e6, "unit": "M^-1 s^-1"}),
        ("set_boundary", ("x", "held"), {"concentrations": {"A": 1e-5}}),
        ("place", ("A",), {"count": 10}),
        ("place", ("B",), {"positions": [[0, 1, 2]]}),
    ]
    if dice.random() < 0.3:
        key = dice.choice((*made, "slots", "name", "reaction_substeps"))
        made[key] = dice.choice(ODD)
    else:
        at = dice.randrange(len(calls))
        method, words, more = calls[at]
        odd = dice.choice(ODD)
        if more and dice.random() < 0.7:
            calls[at] = method, words, {**more, dice.choice(list(more)): odd}
        else:
            place = dice.randrange(len(words))
            calls[at] = method, (*words[:place], odd, *words[place + 1 :]), more
    try:
        lattice = ts.Lattice(**made)
        for method, words, more in calls:
            getattr(lattice, method)(*words, **more)
        lattice.validate()
    except TypeError as error:  # as Python says of an argument of a wrong type
        raise TauslabError(f"a wrong type: {error}") from None


def _dbn_call(dice: random.Random) -> None:
    given: dict[str, Any] = {
        "unknown": ["wash_out_km"], "ranges": {"wash_out_km": (20, 80)}, "samples": 50,
        "t_end": 1.0, "points": 3, "method": ts.ODE(substeps=4), "intervals": 3, "seed": 1,
        "device": ts.CPU(threads=1),
    }  # fmt: skip
    key = dice.choice((*given, "block", "edges", "sample", "set", "spacing", "counting", "output"))
    given[key] = dice.choice(ODD)
    ts.dbn.build(EXAMPLES / "enzyme.toml", **given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", type=int, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first (0)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of %(default)s")
    parser.add_argument("--jobs", type=int, default=1, help="children at a time (1)")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="tauslab-fuzz-"))
    sources = Sources(folder)
    command_line(["rdme", str(sources.box), *SHORT[:2], "-o", str(folder / "a.h5"), *ALWAYS])
    command_line([str(folder / "n.dbn.h5") if w == "n.dbn.h5" else w for w in sources.dbn])
    tallies = {kind: Tally() for kind in options.kinds.split(",")}
    cases = ((kind, number) for number in range(options.first, options.first + options.cases)
             for kind in tallies)  # fmt: skip

    def act(case: tuple[str, int]) -> int:
        return ACTS[case[0]](sources, dice_of(options.seed, *case))

    for (kind, number), ending in in_children(cases, act, jobs=options.jobs, limits=Limits()):
        tallies[kind].add(f"--kinds {kind} --seed {options.seed} --first {number}", ending)
    shutil.rmtree(folder)
    for kind, tally in tallies.items():
        print(f"{kind}: {tally.report()}", flush=True)
    return int(any(tally.faults for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
