"""Good models, changed at random: strategies of hypothesis, and the child in which they are read."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from fuzz_mutations import change_hdf5, changed_bytes, changed_events, changed_text
from hypothesis import strategies as st
from places import ROOT

from tauslab.base.errors import TauslabError
from tauslab.formats.bionetgen import generate as bionetgen
from tauslab.formats.bionetgen.lines import BLOCKS
from tauslab.kernels.backends import cpu

DATA, EXAMPLES = ROOT / "tests" / "data", ROOT / "examples"
LARGEST = 60_000  # bytes of a file that is changed: in a large one hardly anything would be
LATTICES = ("isomerisation_ball.toml", "michaelis_menten_cube.toml", "minde.toml")
KINDS = ("sbml", "events", "net", "bngl", "toml", "lattice", "lm")
BRIEF = ("--t-end", "0.01", "--seed", "1", "--device", "cpu", "--threads", "1", "--quiet")
METHODS: tuple[tuple[str, ...], ...] = (
    ("--method", "ssa"), ("--method", "tau"), ("--method", "ode"), ("--method", "auto"),
    ("--method", "ode", "--ode-solver", "rosenbrock"), ("--method", "ssa", "--molecules"),
    ("--method", "ssa", "--record", "statistics"),
)  # fmt: skip


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


@st.composite
def changed_models(draw, kind: str) -> tuple[str, bytes]:
    """Suffix and content of a file of a kind, after one to three changes."""
    source = draw(st.sampled_from(sources(kind)))
    dice = draw(st.randoms(use_true_random=False))
    content = source.read_bytes()
    if kind == "lm" and dice.random() < 0.6:
        with tempfile.NamedTemporaryFile(suffix=".lm") as file:
            file.write(content)
            file.flush()
            change_hdf5(Path(file.name), dice)
            return source.suffix, Path(file.name).read_bytes()
    if kind == "lm" or dice.random() < 0.05:
        return source.suffix, changed_bytes(content, dice)
    change = changed_events if kind == "events" and dice.random() < 0.9 else changed_text
    text = change(content.decode(), dice)
    errors = "surrogatepass" if dice.random() < 0.5 else "replace"
    return source.suffix, text.encode("utf-8", errors)


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
