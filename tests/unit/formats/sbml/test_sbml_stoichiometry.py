"""Stoichiometries that are no whole numbers, computed ones and conversion factors."""

from __future__ import annotations

import numpy as np
import pytest
from sbml_factory import mathml, model, parameter, reaction, read_text, species

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.toml.network import read_toml_text
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.diagnosis.check import require_support

HALF = reaction("R", "2", "", "X:0.5 Y:1")


def amounts(network, times, names):
    result = ts.run(network, method="ode", n=1, times=times, seed=1, device="cpu")
    return result.amounts(names)[0].T


def test_a_part_of_a_molecule_is_an_equation(tmp_path):
    network = read_text(tmp_path, model(species=species("X") + species("Y"), reactions=HALF))
    assert list(network.rates) == ["X"]
    assert network.reactions[0].products == {"Y": 1}
    with pytest.raises(
        ModelError, match=r"reaction R: stoichiometries .* the stoichiometry of X is 0.5"
    ):
        require_support(network, "ssa")
    again = read_toml_text(canonical_text(network), tmp_path / "again.toml")
    for actual in (network, again):
        assert amounts(actual, [3.0], ["X", "Y"]) == pytest.approx(np.array([[13.0], [16.0]]))


def test_stoichiometries_that_are_computed(tmp_path):
    """By an initial assignment, by a rule of the time, by a rate rule; and used in a law."""
    references = "".join(
        f'<speciesReference id="n{name}" species="{name}" stoichiometry="4" constant="false"/>'
        for name in "ABC"
    )
    law = (
        f'<reaction id="R" reversible="false" fast="false"><listOfProducts>{references}'
        f"</listOfProducts><kineticLaw>{mathml('nA')}</kineticLaw></reaction>"
    )
    start = f'<initialAssignment symbol="nA">{mathml("k / 2")}</initialAssignment>'
    moved = f'<assignmentRule variable="nB">{mathml("1 + time")}</assignmentRule>'
    moved += f'<rateRule variable="nC">{mathml("-1")}</rateRule>'
    lists = (
        ("listOfParameters", parameter("k", 1.0)),
        ("listOfInitialAssignments", start),
        ("listOfRules", moved),
    )
    text = model(species="".join(map(species, "ABC")), listed=lists, reactions=law)
    network = read_text(tmp_path, text)
    actual = amounts(network, [2.0], ["A", "B", "C"])
    # At a rate of k / 2: A gains k / 2 each, B 1 + t, C 4 - t.
    assert actual == pytest.approx(np.array([[10 + 0.5], [10 + 2.0], [10 + 3.0]]))


def test_conversion_factors(tmp_path):
    """That of a species replaces that of the model; a fixed species has none to refuse."""
    kinds = (
        species("X"),
        species("Y", more='conversionFactor="f"'),
        species("B", more='boundaryCondition="true"'),
    )
    lists = (("listOfParameters", parameter("f", 0.5) + parameter("g", 3.0)),)
    text = model(
        species="".join(kinds),
        listed=lists,
        reactions=reaction("R", "2", "B:1.5", "X Y"),
        attributes='substanceUnits="item" conversionFactor="g"',
    )
    network = read_text(tmp_path, text)
    kinds_found = [(f.kind, f.element) for f in network.features]
    assert kinds_found == [("conversion factor", "species X"), ("conversion factor", "species Y")]
    again = read_toml_text(canonical_text(network), tmp_path / "again.toml")
    assert (again.features, again.rates) == (network.features, network.rates)
    assert model_sha256(again) == model_sha256(network)
    actual = amounts(network, [1.0], ["X", "Y", "B"])
    assert actual == pytest.approx(np.array([[16.0], [11.0], [10.0]]))


def test_whole_numbers_that_a_level_2_formula_gives_are_whole(tmp_path):
    """`stoichiometryMath` of numbers alone is a number."""
    formula = (
        '<speciesReference species="X"><stoichiometryMath>' + mathml("6 / 3")
        + "</stoichiometryMath></speciesReference>"
    )  # fmt: skip
    law = (
        f'<reaction id="R" reversible="false"><listOfProducts>{formula}</listOfProducts>'
        f"<kineticLaw>{mathml('2')}</kineticLaw></reaction>"
    )
    text = model(
        species=species("X"),
        reactions=law,
        attributes="",
        level=(2, 4),
        compartments='<compartment id="c" size="1"/>',
    )
    network = read_text(tmp_path, text)
    assert network.reactions[0].products == {"X": 2}
    require_support(network, "ssa")


def test_missing_values_may_be_given(tmp_path):
    text = model(
        species=species("X"),
        listed=(("listOfParameters", parameter("k")),),
        reactions=reaction("R", "k * X", "X"),
    )
    network = read_text(tmp_path, text)
    with pytest.raises(
        ModelError, match=r'parameter k: missing values .*set\["k"\]=VALUE gives one'
    ):
        require_support(network, "ssa")
    options = {"n": 4, "times": [0.0, 1.0], "seed": 1, "device": "cpu"}
    given = ts.run(network, method="ssa", set={"k": 0.0}, **options)
    assert (given.counts("X") == 10).all()
    with pytest.raises(ModelError, match="parameter k"):
        ts.run(network, method="ssa", **options)


def test_amounts_below_the_error_of_steps_give_a_warning(tmp_path):
    start = species("X", 'initialAmount="1e-12"')
    network = read_text(tmp_path, model(species=start, reactions=reaction("R", "X", "X")))
    options = {"method": "ode", "n": 1, "times": [1.0], "seed": 1, "device": "cpu"}
    with pytest.warns(UserWarning, match=r"no amount is above 1e-12 .*atol=1e-21"):
        ts.run(network, **options)
    actual = ts.run(network, **{**options, "method": ts.ODE(atol=1e-21)}).amounts("X")[0, 0]
    assert actual == pytest.approx(1e-12 * np.exp(-1), rel=1e-5)
