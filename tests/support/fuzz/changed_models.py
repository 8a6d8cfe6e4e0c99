"""Good models, changed at random: strategies of hypothesis, and the child in which they are read."""

from __future__ import annotations

import functools
import io
import re
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_mutations import change_hdf5, changed_bytes, changed_events, changed_text
from hypothesis import strategies as st
from places import ROOT

import tauslab as ts
from tauslab.base.errors import TauslabError
from tauslab.formats.bionetgen import generate as bionetgen
from tauslab.formats.bionetgen.lines import BLOCKS
from tauslab.kernels.backends import cpu

DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
LARGEST = 60_000  # bytes of a file that is changed: in a large one hardly anything would be
LATTICES = ("isomerisation_ball.toml", "michaelis_menten_cube.toml", "minde.toml")
KINDS = ("sbml", "events", "net", "bngl", "toml", "lattice", "h5", "lm")
BRIEF = ("--t-end", "0.01", "--seed", "1", "--device", "cpu", "--threads", "1", "--quiet")
METHODS: tuple[tuple[str, ...], ...] = (
    ("--method", "ssa"), ("--method", "tau"), ("--method", "ode"), ("--method", "auto"),
    ("--method", "ode", "--ode-solver", "rosenbrock"), ("--method", "ssa", "--molecules"),
    ("--method", "ssa", "--record", "statistics"),
)  # fmt: skip

# A small lattice model with every table, and a region of one shape.
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


def box(shape: str) -> str:
    """The small lattice model with a region of a shape."""
    return BOX.replace("SHAPE", shape).replace("REST", SHAPES[shape])


@functools.cache
def sources(kind: str) -> list[tuple[str, bytes]]:
    """Suffix and content of the files of a kind that are changed."""
    if kind == "h5":
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder, "box.toml")
            model.write_text(box("sphere"), "utf-8")
            lattice = ts.read(model)
            assert isinstance(lattice, ts.Lattice)
            return [(".h5", lattice.write(model.with_suffix(".h5")).read_bytes())]
    if kind in ("toml", "lattice"):
        actual = [p for p in EXAMPLES.glob("*.toml") if (p.name in LATTICES) == (kind == "lattice")]
    elif kind == "events":
        actual = [p for p in (*DATA.glob("sbml/*.xml"), *DATA.glob("semantic/*/*.xml"), *DATA.glob("dsmts/**/*.xml"))
                 if b"<event" in p.read_bytes()]  # fmt: skip
    else:
        pattern = {"sbml": "sbml/*.xml", "net": "net/*.net", "bngl": "bngl/*.bngl", "lm": "lm/*.lm"}
        actual = list(DATA.glob(pattern[kind]))
    boxes = [(".toml", box(shape).encode()) for shape in SHAPES if kind == "lattice"]
    small = sorted(path for path in actual if kind == "lm" or path.stat().st_size < LARGEST)
    return [(path.suffix, path.read_bytes()) for path in small] + boxes


@st.composite
def changed_models(draw, kind: str) -> tuple[str, bytes]:
    """Suffix and content of a file of a kind, after one to three changes."""
    suffix, content = draw(st.sampled_from(sources(kind)))
    dice = draw(st.randoms(use_true_random=False))
    if kind in ("h5", "lm") and dice.random() < 0.6:
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(content)
            file.flush()
            change_hdf5(Path(file.name), dice)
            return suffix, Path(file.name).read_bytes()
    if kind in ("h5", "lm") or dice.random() < 0.05:
        return suffix, changed_bytes(content, dice)
    change = changed_events if kind == "events" and dice.random() < 0.9 else changed_text
    text = change(content.decode(), dice)
    errors = "surrogatepass" if dice.random() < 0.5 else "replace"
    return suffix, text.encode("utf-8", errors)


@functools.cache
def label_volumes() -> list[tuple[str, dict[str, bytes]]]:
    """The same labels in every format whose library is there: a name, and the files below it."""
    labels = np.zeros((3, 4, 5), np.uint8)
    labels[0] = 1
    any_labels: Any = labels
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", labels)
        with suppress(ImportError):
            import tifffile

            tifffile.imwrite(folder / "x.tif", labels, photometric="minisblack", compression="zlib")
        with suppress(ImportError):
            import mrcfile

            with mrcfile.new(folder / "x.mrc") as file:
                file.set_data(labels.astype(np.int8))
        with suppress(ImportError):
            import zarr

            zarr.save_array(str(folder / "x.zarr"), any_labels)
        return [
            (path.name, {str(inside.relative_to(folder)): inside.read_bytes()
                         for inside in (path, *path.rglob("*")) if inside.is_file()})
            for path in sorted(folder.iterdir())
        ]  # fmt: skip


@st.composite
def changed_labels(draw) -> tuple[str, dict[str, bytes]]:
    """A volume of labels with other bytes, or an array that is none."""
    name, files = draw(st.sampled_from(label_volumes()))
    dice = draw(st.randoms(use_true_random=False))
    damaged = dice.choice(sorted(files))
    if name.endswith(".npy") and dice.random() < 0.5:
        value = dice.choice((1e300, -1e19, np.nan, np.inf, 0.5, 2.0**53, 300.0, -1.0))
        shape = dice.choice(((3, 4, 5), (3, 4, 5), (0, 4, 5), (60,), (1, 3, 4, 5), ()))
        kind = dice.choice(("f8", "f4", "f2", "c16", "i8", "u1", "M8[s]", "S3", "?"))
        stored = io.BytesIO()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.save(stored, np.full(shape, value).astype(kind))
        return name, {name: stored.getvalue()}
    return name, files | {damaged: changed_bytes(files[damaged], dice) or b"{}"}


def labelled(name: str) -> str:
    """The small lattice model with a region of labels."""
    rest = f'file = "{name}"\nlabels = {{ 0 = "outside", 1 = "cell" }}'
    text = box("box").replace('shape = "box"\n' + SHAPES["box"], f'shape = "labels"\n{rest}')
    return text.replace('site_type = "cell"\nshape', "shape", 1)


class ReachedCompilerError(TauslabError):
    """All that comes before the compiler has been done."""

    exit_code = 0


def stop_before_programs() -> None:
    """In this process no kernel is compiled, and a small network stands for BioNetGen's answer."""
    cpu.__dict__["compiled"] = _reached
    bionetgen._program = lambda _: Path("BNG2.pl")  # type: ignore[assignment]
    bionetgen._run = _network_of


def _reached(*_: object) -> None:
    raise ReachedCompilerError("the compiler is reached")


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
