"""The script that compares SBML files with another simulator, and the documents it draws."""

from __future__ import annotations

import argparse
import sys

import pytest

from tauslab.formats.sbml.reader import read_sbml
from tauslab.model.network.diagnosis.check import require_support

# In place of the other simulator: it answers with the exact solution of dX/dt = -X / 2, or ends.
_WORKER = """
import json, math, sys
for line in sys.stdin:
    request = json.loads(line)
    if "broken" in request["file"]:
        sys.exit(1)
    wrong = 1.001 if "wrong" in request["file"] else 1.0
    x = [wrong * 8 * math.exp(-t / 2) for t in request["times"]]
    print(json.dumps({"values": {"X": x}}), flush=True)
"""
_MODEL = """<sbml xmlns="http://www.sbml.org/sbml/level2/version4" level="2" version="4">
<model id="m"><listOfCompartments><compartment id="c" size="2"/></listOfCompartments>
<listOfSpecies><species id="X" compartment="c" initialConcentration="4"/></listOfSpecies>
<listOfReactions><reaction id="R" reversible="false">
<listOfReactants><speciesReference species="X"/></listOfReactants>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/>
<cn>0.5</cn><ci>X</ci><ci>c</ci></apply></math></kineticLaw>
</reaction></listOfReactions></model></sbml>"""


@pytest.fixture
def scripts(monkeypatch):
    return {name: __import__(name) for name in ("compare_sbml", "sbml_documents")}


def test_drawn_documents_are_valid_and_the_same_for_a_seed(scripts, tmp_path):
    draw = scripts["sbml_documents"].document
    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    path = tmp_path / "drawn.xml"
    for seed in range(4):
        path.write_text(draw(seed, exact=True))
        require_support(read_sbml(path), "ssa")
        path.write_text(draw(seed))
        assert read_sbml(path).species


def test_files_are_compared(scripts, tmp_path, monkeypatch):
    """What agrees, what differs, a file that is no model, a peer that ends and is started again."""
    compare = scripts["compare_sbml"]
    monkeypatch.setattr(compare, "WORKER", tmp_path / "worker.py")
    (tmp_path / "worker.py").write_text(_WORKER)
    given = {"t_end": 2.0, "points": 3, "ssa": 0, "molecules": False}
    options = argparse.Namespace(**given, tolerance=1e-5)
    peer = compare.Peer(sys.executable, 30.0)
    actual = {}
    for name in ("broken", "right", "wrong", "empty"):
        path = tmp_path / f"{name}.xml"
        path.write_text("<sbml/>" if name == "empty" else _MODEL)
        actual[name] = compare.compare(path, peer, options)
    peer.close()
    outcomes = {name: row.outcome for name, row in actual.items()}
    assert outcomes == {
        "broken": "peer failed", "right": "same", "wrong": "differs", "empty": "refused"
    }  # fmt: skip
    assert actual["right"].quantities == 1
    assert actual["wrong"].difference == pytest.approx(1e-3, rel=0.01)
