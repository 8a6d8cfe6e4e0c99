"""Inputs that somebody made to do harm, and a child that reads them: strategies of hypothesis."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from fuzz_damage import is_one_sentence
from hypothesis import strategies as st

MATH = 'xmlns="http://www.w3.org/1998/Math/MathML"'
WORDS = (
    b"99999999999999999999999", b"1e400", b"-1", b"nan", b"\x00", b"<", b"&#0;", b"a" * 3000,
    b"../../victim", b"\xff\xfe", b"<!--", b"]]>", b"0", b"", b"(" * 300, b"1/0", b"^" * 40,
)  # fmt: skip

# ---------------------------------------------------------------- bytes


@st.composite
def mutated(draw, base: bytes) -> bytes:
    """A file with some bits flipped, and pieces cut out, doubled, or replaced by such words."""
    data = bytearray(base)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.integers(0, 60))
        match draw(st.sampled_from(("flip", "cut", "double", "word", "end"))):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + length]
            case "double":
                data[at:at] = data[at : at + length] * draw(st.sampled_from((1, 2, 50)))
            case "word":
                data[at : at + length] = draw(st.sampled_from(WORDS))
            case _:
                del data[at:]
    return bytes(data)


# ---------------------------------------------------------------- mathematics and models

_LEAVES = st.sampled_from(
    ["<ci>X</ci>", "<ci>k</ci>", "<ci>none</ci>", "<cn>2</cn>", "<cn/>", "<ci/>", "<true/>",
     '<cn type="rational">1<sep/>0</cn>', '<cn type="rational">1<sep/>99999999999999999999</cn>',
     '<cn type="e-notation">99999999999999999999999</cn>',
     '<cn type="e-notation">1<sep/>99999999999</cn>', '<cn type="integer">1e9</cn>',
     '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/time">t</csymbol>',
     "<infinity/>", "<notanumber/>", "<lambda/>"]
)  # fmt: skip
_HEADS = ("plus", "times", "minus", "divide", "power", "root", "log", "abs", "and", "lt", "floor",
          "max", "rem", "factorial", "eq", "exp", "ci", "nonsense")  # fmt: skip


def _apply(parts: tuple[str, list[str]]) -> str:
    head, own = parts
    first = "<ci>f</ci>" if head == "ci" else f"<{head}/>"
    return f"<apply>{first}{''.join(own)}</apply>"


def _piecewise(parts: list[str]) -> str:
    pieces = "".join(
        f"<piece>{a}{b}</piece>" for a, b in zip(parts[::2], parts[1::2], strict=False)
    )
    return f"<piecewise>{pieces}</piecewise>"


formulas = st.recursive(
    _LEAVES,
    lambda inside: st.one_of(
        st.tuples(st.sampled_from(_HEADS), st.lists(inside, max_size=4)).map(_apply),
        st.lists(inside, max_size=5).map(_piecewise),
    ),
    max_leaves=12,
)


@st.composite
def mathematics(draw) -> str:
    """A formula, that is sometimes nested or widened far beyond what anybody writes."""
    inner = draw(formulas)
    times = draw(st.sampled_from((0, 0, 0, 150, 900, 8000, 100_000)))
    match draw(st.sampled_from(("deep", "wide", "sum"))):
        case "deep":
            return "<apply><abs/>" * times + inner + "</apply>" * times
        case "wide":
            return f"<apply><plus/>{'<ci>X</ci>' * times}{inner}</apply>"
        case _:
            return "<apply><plus/><cn>1</cn>" * times + inner + "</apply>" * times


def listed(name: str, elements: str) -> str:
    """A list of SBML; nothing where it has no elements."""
    return f"<listOf{name}>{elements}</listOf{name}>" if elements else ""


def sbml(law: str, calls: int = 0, twice: bool = False, rules: int = 0) -> str:
    """A model with one reaction, chained functions f0 .. and chained rules p0 .. ."""
    body = "<ci>a</ci>"
    functions = ""
    for i in range(calls):
        functions += (
            f'<functionDefinition id="{"f" if i == calls - 1 else f"f{i}"}"><math {MATH}><lambda>'
            f"<bvar><ci>a</ci></bvar>{body}</lambda></math></functionDefinition>"
        )
        body = f"<apply><ci>f{i}</ci><ci>a</ci></apply>"
        if twice:
            body = f"<apply><ci>f{i}</ci>{body}</apply>"
    names = "".join(f'<parameter id="p{i}" constant="false"/>' for i in range(rules))
    before = [
        "<ci>k</ci>",
        *(f"<apply><plus/><ci>p{i}</ci><cn>1</cn></apply>" for i in range(rules)),
    ]
    ruled = "".join(
        f'<assignmentRule variable="p{i}"><math {MATH}>{before[i]}</math></assignmentRule>'
        for i in range(rules)
    )
    return (
        '<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">'
        f'<model id="m">{listed("FunctionDefinitions", functions)}'
        '<listOfCompartments><compartment id="c" size="1" constant="true" spatialDimensions="3"/>'
        '</listOfCompartments><listOfSpecies><species id="X" compartment="c" initialAmount="20" '
        'hasOnlySubstanceUnits="true" boundaryCondition="false" constant="false"/></listOfSpecies>'
        f'<listOfParameters><parameter id="k" value="1" constant="true"/>{names}</listOfParameters>'
        f"{listed('Rules', ruled)}"
        '<listOfReactions><reaction id="r" reversible="false" fast="false"><listOfReactants>'
        '<speciesReference species="X" stoichiometry="1" constant="true"/></listOfReactants>'
        f"<kineticLaw><math {MATH}>{law}</math></kineticLaw></reaction></listOfReactions></model>"
        "</sbml>"
    )  # fmt: skip


@st.composite
def models(draw) -> bytes:
    """SBML: odd mathematics, chains of definitions, or damaged bytes."""
    calls, rules = draw(st.sampled_from(((0, 0), (0, 0), (3, 3), (16, 0), (120, 0), (0, 300))))
    text = sbml(draw(mathematics()), calls, draw(st.booleans()), rules).encode()
    return draw(mutated(text)) if draw(st.booleans()) else text


# ---------------------------------------------------------------- experiments and archives

_SEDML = (
    '<sedML xmlns="http://sed-ml.org/sed-ml/level1/version3" level="1" version="3">'
    '<listOfSimulations>'
    '<uniformTimeCourse id="s" initialTime="0" outputStartTime="0" outputEndTime="1" '
    'numberOfPoints="3"><algorithm kisaoID="KISAO:0000019"/></uniformTimeCourse>'
    '</listOfSimulations>'
    '<listOfModels><model id="m" language="urn:sedml:language:sbml" source="m.xml"/></listOfModels>'
    '<listOfTasks><task id="t" modelReference="m" simulationReference="s"/></listOfTasks>'
    '<listOfDataGenerators><dataGenerator id="d"><listOfVariables><variable id="x" '
    'taskReference="t" symbol="urn:sedml:symbol:time"/></listOfVariables>'
    '<math xmlns="http://www.w3.org/1998/Math/MathML">{math}</math></dataGenerator>'
    '</listOfDataGenerators><listOfOutputs><report id="{output}"><listOfDataSets><dataSet id="q" '
    'label="q" dataReference="d"/></listOfDataSets></report></listOfOutputs></sedML>'
)  # fmt: skip
_ENTRY = '<content location="{}" format="http://identifiers.org/combine.specifications/sed-ml"/>'
_MANIFEST = (
    '<omexManifest xmlns="http://identifiers.org/combine.specifications/omex-manifest">{}'
    "</omexManifest>"
)


@st.composite
def archives(draw) -> bytes:
    """COMBINE archives: odd experiments, names and manifests, or damaged bytes."""
    output = draw(st.sampled_from(("report", "../../victim", "/nowhere/x", "a/b", "")))
    math = draw(st.one_of(st.just("<ci>x</ci>"), mathematics()))
    experiment = _SEDML.format(math=math, output=output).encode()
    if draw(st.booleans()):
        experiment = draw(mutated(experiment))
    places = draw(
        st.lists(
            st.sampled_from(("e.sedml", "./e.sedml", "../victim", "m.xml", "", "/etc/passwd")),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    entries = "".join(map(_ENTRY.format, places)) * draw(st.sampled_from((1, 1, 2, 2000)))
    packed = io.BytesIO()
    how = draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)))
    with zipfile.ZipFile(packed, "w", how) as archive:
        archive.writestr("manifest.xml", _MANIFEST.format(entries))
        archive.writestr("e.sedml", experiment)
        archive.writestr("m.xml", sbml("<ci>X</ci>"))
        if draw(st.booleans()):
            archive.writestr(
                draw(st.sampled_from(("../victim", "/victim", "a\\b", "e.sedml/x"))), "x"
            )
    data = packed.getvalue()
    return draw(mutated(data)) if draw(st.booleans()) else data


# ---------------------------------------------------------------- Antimony and PEtab


@st.composite
def antimony(draw) -> bytes:
    """Antimony: long sums, nests and chains, or damaged bytes."""
    n = draw(st.sampled_from((1, 3, 400, 20_000)))
    body = draw(
        st.sampled_from(
            ("+".join(["X"] * n), "abs(" * n + "X" + ")" * n, "^".join(["X"] * n), "X" * n)
        )
    )
    text = f"k = 1; X = 5; p := {body}; X -> ; k*X\n".encode()
    return draw(mutated(text)) if draw(st.booleans()) else text


@st.composite
def petab_files(draw, base: dict[str, bytes]) -> dict[str, bytes]:
    """A PEtab problem, one file of which is damaged or says something odd."""
    name = draw(st.sampled_from(sorted(base)))
    odd = (
        b"format_version: 1\nparameter_file: p.tsv\nproblems: 7\n", b"a: &a [1]\nb: [*a, *a]\n",
        b"[[[[" * 400, b"", b"\xff\xfe", b"7", b"format_version: 2\n",
    )  # fmt: skip
    if draw(st.booleans()):
        return base | {name: draw(st.sampled_from(odd))}
    return base | {name: draw(mutated(base[name]))}


# ---------------------------------------------------------------- a child that reads them

_CHILD = """
import contextlib, io, json, sys, time, traceback, warnings
warnings.simplefilter("ignore")
from tauslab.cli.main import main
exec(sys.argv[1])
for line in sys.stdin:
    out, err, began, trace = io.StringIO(), io.StringIO(), time.process_time(), ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(json.loads(line))
        except SystemExit as error:
            code = error.code
        except BaseException:
            code, trace = -1, traceback.format_exc()
    text = out.getvalue() + err.getvalue()
    trace = trace or (text if "Traceback (most recent" in text else "")
    took = time.process_time() - began
    said = [int(code or 0), took, trace, err.getvalue() or text[-300:], out.getvalue()]
    print(json.dumps(said), file=sys.__stdout__, flush=True)
"""
SECONDS = 10.0  # of a core that a command may take
_PATIENCE = 120.0  # on the clock, since others may use the cores


class Reader:
    """A child that runs commands one after the other, so that a crash of a library is seen.

    `first` is Python that the child runs at its start. `out` is what the last command printed.
    """

    def __init__(self, folder: Path, first: str = "") -> None:
        self.folder, self.first, self.out = folder, first, ""
        self._child: subprocess.Popen[str] | None = None

    def run(self, *command: str) -> int:
        """Run a command; its exit code. Fails on a crash, a traceback, or more than `SECONDS`."""
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(command) + "\n")
        child.stdin.flush()
        try:
            code, seconds, trace, message, self.out = json.loads(self._answer(child))
        except ValueError:
            code = child.wait(5)
            self.close()
            raise AssertionError(f"{command} ended the process by {code}") from None
        assert not trace, trace
        assert seconds < SECONDS, f"{command} took {seconds} s: {message}"
        assert code in (0, 1, 2, 75), message
        assert code == 0 or message.strip(), f"{command} ended by {code} without a word"
        assert code != 2 or is_one_sentence(message), f"{command}: {message}"
        return int(code)

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, self.first], cwd=self.folder, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
        return self._child

    def _answer(self, child: subprocess.Popen[str]) -> str:
        import select

        assert child.stdout is not None
        if not select.select([child.stdout], [], [], _PATIENCE)[0]:
            self.close()
            raise AssertionError(f"no answer in {_PATIENCE} s")
        return child.stdout.readline()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None
