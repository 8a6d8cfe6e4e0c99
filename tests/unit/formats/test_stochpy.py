"""Models of StochPy, in the language of PySCeS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tauslab as ts

DIMERS = """\
# Dimers, and a dose
Modelname: Dimers
Description: two forms, of a gene that stays
Species_In_Conc: False
Output_In_Conc: False
FIX: Gene

R1:
    $pool > P
    kmake*Gene
R2: {2.0}P > D          # the stoichiometry beside the name
    k1*P*(P-1)/2
R3:
    D > {2.0} P
    k2*D
R4:
    P > $pool
    kd*P**1

Event: dose, _TIME_ >= 5.0, 0.0
{
    P = P + 100
}
!F total = P + 2*D

# Initial amounts and parameters
P = 10.0
D = 0
Gene = 2
kmake = 5
k1 = 0.01
k2 = 0.1
kd = 2e-1
"""


def read(folder: Path, text: str) -> ts.Network:
    path = folder / "dimers.psc"
    path.write_text(text)
    return ts.read(path)


def test_a_model_is_the_one_that_the_builder_makes(tmp_path):
    net = read(tmp_path, DIMERS)
    same = ts.Network("dimers")
    for name, count in (("P", 10), ("D", 0)):
        same.add_species(name, count)
    same.add_species("Gene", 2, fixed=True)
    for name, value in (("kmake", 5), ("k1", 0.01), ("k2", 0.1), ("kd", 0.2)):
        same.add_parameter(name, value)
    same.add_rule("total", "P + 2 * D")
    same.add_reaction("-> P", law="kmake * Gene", name="R1")
    same.add_reaction("2 P -> D", rate="k1", name="R2")
    same.add_reaction("D -> 2 P", rate="k2", name="R3")
    same.add_reaction("P ->", rate="kd", name="R4")
    same.add_event(
        "dose", assignments={"P": "P + 100"}, trigger="time >= 5", initial=False
    )  # fmt: skip
    options = {"n": 20, "t_end": 8, "points": 9, "seed": 1, "device": "cpu"}
    first, second = (ts.run(one, **options) for one in (net, same))
    assert np.array_equal(first["P"], second["P"])
    assert first.mean("total")[5] > first.mean("total")[4] + 90
    assert net.source_text == DIMERS


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("D > {2.0} P", "D = {2.0} P", "reaction R3: .* is reversible"),
        ("D > {2.0} P", "D > {2.5} P", r"reaction R3: '\{2.5\} P' is no term"),
        ("D > {2.0} P", "D > > P", "reaction R3: .* is no stoichiometry"),
        ("R4:", "R4@cell:", "line 16: a compartment is not supported"),
        ("R4:", "Compartment: cell, 1.0, 3\nR4:", "line 16: Compartment is not supported"),
        ("D = 0\n", "", "species D has no initial amount"),
        ("k2 = 0.1\n", "", "reaction R3: 'k2' is not defined in dimers"),
        ("k2 = 0.1", "k2 0.1", "line 32: 'k2 0.1' is neither a reaction nor a value"),
        ("    P = P + 100\n", "    P + 100\n", "event dose: 'P . 100' is no assignment"),
        ("}\n!F", "!F", "the event has no closing brace"),
        ("Species_In_Conc: False", "Species_In_Conc: no", "line 4: Species_In_Conc is False or"),
        ("kd*P**1\n", "\n", "line 16: reaction R4 lacks its stoichiometry or its rate"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path, old, new, why):
    assert old in DIMERS
    with pytest.raises(ts.ModelError, match=why) as caught:
        read(tmp_path, DIMERS.replace(old, new)).validate()
    assert str(caught.value).count("\n") == 0
