"""Units of an SBML model on the axes of its pictures."""

from __future__ import annotations

import pytest

import tauslab as ts

LEVEL3 = """<?xml version="1.0"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1">
<model id="m" {units}>
<listOfUnitDefinitions>
<unitDefinition id="u" name="my unit"><listOfUnits>
<unit kind="{kind}" exponent="{exponent}" scale="{scale}" multiplier="{multiplier}"/>
</listOfUnits></unitDefinition></listOfUnitDefinitions>
<listOfCompartments><compartment id="c" size="1" spatialDimensions="3" constant="true"/>
</listOfCompartments><listOfSpecies><species id="X" compartment="c" initialAmount="5"
hasOnlySubstanceUnits="true" boundaryCondition="false" constant="false"/></listOfSpecies>
<listOfReactions><reaction id="r" reversible="false" fast="false"><listOfReactants>
<speciesReference species="X" stoichiometry="1" constant="true"/></listOfReactants>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><ci>X</ci></math></kineticLaw>
</reaction></listOfReactions></model></sbml>
"""


def model(tmp_path, units, kind="mole", scale=0, multiplier=1, exponent=1):
    path = tmp_path / "m.xml"
    text = LEVEL3.format(
        units=units, kind=kind, scale=scale, multiplier=multiplier, exponent=exponent
    )
    path.write_text(text)
    return ts.read(path)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ({"kind": "mole", "scale": -9}, "nmol"),
        ({"kind": "mole"}, "mol"),
        ({"kind": "item"}, "molecules"),
        ({"kind": "item", "multiplier": 1000}, "my unit"),
        ({"kind": "mole", "exponent": 2}, "my unit"),
    ],
)
def test_amounts(tmp_path, unit, name):
    assert model(tmp_path, 'substanceUnits="u"', **unit).amount_unit == name


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ({}, "s"),
        ({"scale": -3}, "ms"),
        ({"multiplier": 60}, "min"),
        ({"multiplier": 3600}, "h"),
        ({"multiplier": 7}, "my unit"),
    ],
)
def test_times(tmp_path, unit, name):
    assert model(tmp_path, 'timeUnits="u"', **({"kind": "second"} | unit)).time_unit == name


def test_nothing_stated_is_nothing_said(tmp_path):
    actual = model(tmp_path, "")
    assert (actual.amount_unit, actual.time_unit) == ("", "")
    assert (ts.Network().amount_unit, ts.Network().time_unit) == ("molecules", "")


def test_a_result_and_its_rerun_know_the_units(tmp_path):
    actual = model(tmp_path, 'substanceUnits="mole" timeUnits="u"', "second", 0, 60)
    options = {"method": "ode", "t_end": 1, "points": 3, "n": 1, "device": "cpu", "quiet": True}
    with ts.run(actual, output=tmp_path / "a.h5", **options) as result:
        assert (result.amount_unit, result.time_unit) == ("mol", "min")
        axes = result.plot().axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (min)", "amount (mol)")
        data = result.to_xarray()
        assert (data.time.attrs["units"], data["amounts"].attrs["units"]) == ("min", "mol")
        data.close()
    again = ts.read(tmp_path / "a.h5")
    assert (again.amount_unit, again.time_unit) == ("mol", "min")
    assert ts.in_molecules(actual).amount_unit == "molecules"
    counted = ts.run(ts.in_molecules(actual), t_end=1, points=3, n=1, method="ode",
                     device="cpu", quiet=True)  # fmt: skip
    assert (counted.amount_unit, counted.time_unit) == ("molecules", "min")
