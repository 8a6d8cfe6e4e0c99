"""Amounts in moles as numbers of molecules."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.cli.main import main
from tauslab.model.names import AVOGADRO
from tauslab.model.network.counts import round_counts

_UNIT = """<unitDefinition id="substance"><listOfUnits>
<unit kind="{kind}" scale="{scale}" multiplier="{multiplier}"/></listOfUnits></unitDefinition>"""
_MODEL = """<sbml xmlns="http://www.sbml.org/sbml/level2/version4" level="2" version="4">
<model id="m"><listOfUnitDefinitions>{unit}</listOfUnitDefinitions>
<listOfCompartments><compartment id="c" size="2"/></listOfCompartments>
<listOfSpecies>
<species id="A" compartment="c" initialConcentration="3"/>
<species id="B" compartment="c" initialAmount="1" hasOnlySubstanceUnits="true" {own}/>
</listOfSpecies>
<listOfParameters><parameter id="k" value="0.5"/></listOfParameters>
<listOfReactions><reaction id="R" reversible="false">
<listOfReactants><speciesReference species="A"/></listOfReactants>
<listOfProducts><speciesReference species="B"/></listOfProducts>
<kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/>
<ci>k</ci><ci>A</ci><ci>c</ci></apply></math></kineticLaw>
</reaction></listOfReactions></model></sbml>"""


@pytest.fixture
def read(tmp_path):
    def read(kind="mole", scale=-9, multiplier=1.0, own=""):
        path = tmp_path / "m.xml"
        unit = _UNIT.format(kind=kind, scale=scale, multiplier=multiplier)
        path.write_text(_MODEL.format(unit=unit, own=own))
        return ts.read(path)

    return read


@pytest.mark.parametrize(
    ("unit", "molecules"),
    [
        ({}, AVOGADRO * 1e-9),
        ({"scale": -23, "multiplier": 2.0}, 2e-23 * AVOGADRO),
        ({"kind": "item", "scale": 0, "multiplier": 12.0}, 12.0),
    ],
)
def test_amounts_are_multiplied(read, unit, molecules):
    network = ts.in_molecules(read(**unit))
    values = network.parameter_values()
    assert values["molecules_per_unit"] == pytest.approx(molecules, rel=1e-15)
    amounts = network.initial_amounts(values)
    assert amounts == pytest.approx({"A": 6 * molecules, "B": molecules}, rel=1e-15)
    assert network.features == []


def test_the_law_is_per_molecule(read):
    """A of 6 units decays as k A: 0.5 per time each, whatever the unit."""
    network = ts.in_molecules(read(kind="item", scale=0, multiplier=100.0))
    result = ts.run(network, n=4000, times=[0, 1], seed=1, method="ssa", device="cpu")
    mean, spread = 600 * np.exp(-0.5), np.sqrt(600 * np.exp(-0.5) * (1 - np.exp(-0.5)))
    # 4.5 standard errors: a false alarm in 150,000 seeds.
    assert abs(result.mean("A")[1] - mean) < 4.5 * spread / np.sqrt(4000)
    assert (result.counts("A") + result.counts("B") == 700).all()


def test_equations_scale_with_the_unit(data):
    """Every law of a cascade: the solution in molecules is the factor times that in nanomoles."""
    model = ts.read(data / "sbml" / "BIOMD0000000010.xml")
    options = {"n": 1, "times": [0, 500, 1000], "method": ts.ODE(rtol=1e-9), "device": "cpu"}
    moles, counted = (ts.run(m, **options) for m in (model, ts.in_molecules(model)))
    factor = AVOGADRO * 1e-9
    np.testing.assert_allclose(counted.amounts()[0] / factor, moles.amounts()[0], rtol=1e-5)


def test_amounts_of_other_amounts_and_parameters_that_move():
    """An initial amount may tell of another; a parameter with a rate is no amount."""
    network = ts.Network("moving", molecules_per_unit=100.0)
    network.add_species("A", 2)
    network.add_species("B", "3 * A")
    network.add_species("T", 300, fixed=True)
    network.add_rate("T", "0.5 * A")
    network.add_event("warm", 1, {"T": "T + 10", "A": "2 * A"})
    network.add_reaction("A -> B", law="A * T / 600")
    counted = ts.in_molecules(network)
    assert counted.initial_amounts() == {"A": 200, "B": 600, "T": 300}
    options = {"n": 1, "times": [0, 0.9, 1.5], "method": ts.ODE(rtol=1e-9), "device": "cpu"}
    plain, actual = (ts.run(m, **options).amounts()[0] for m in (network, counted))
    np.testing.assert_allclose(actual, plain * [100, 100, 1], rtol=1e-5)


def test_pairs_are_pairs_of_molecules():
    """By their rate constant 2 X of x units meet at x^2; molecules do so as the equations say."""
    network = ts.Network("pairs")
    network.add_species("X", 1.5)
    network.add_reaction("2 X ->", rate=2.0)
    network.add_reaction("-> X", rate=3.0)
    counted = ts.in_molecules(network, 1000)
    times = [0.2, 1.0]
    exact = ts.run(network, times=times, method="ode", device="cpu").amounts()[0, :, 0]
    result = ts.run(counted, n=400, times=times, seed=1, device="cpu")
    # 4.5 standard errors; the mean differs from the equation's by less than a molecule.
    errors = np.sqrt(result.variance("X") / 400)
    assert (np.abs(result.mean("X") - 1000 * exact) < 4.5 * errors + 1).all()
    lone = ts.in_molecules(network, 2 / 3)  # X begins with one molecule
    lone.reactions = lone.reactions[:1]
    assert ts.run(lone, n=10, times=[5], seed=1, device="cpu")["X"].min() == 1


def test_a_network_of_molecules_stays_as_it_is(read):
    network = read(kind="item", scale=0)
    assert ts.in_molecules(network) is network
    built = ts.Network("built")
    assert ts.in_molecules(built) is built


def test_units_that_differ_are_refused(read):
    network = read(own='substanceUnits="item"')
    with pytest.raises(ModelError, match=r"m.xml: model: .*more than one size"):
        ts.in_molecules(network)


def test_masses_are_refused(read):
    with pytest.raises(ModelError, match="units of mass"):
        ts.run(ts.in_molecules(read(kind="gram", scale=0)), n=1, t_end=1, method="ssa")


@pytest.mark.filterwarnings("default:initial amounts")
def test_the_command_counts_molecules_and_reruns_from_its_result(data, tmp_path, capsys):
    model, out = str(data / "sbml" / "BIOMD0000000010.xml"), str(tmp_path / "a.h5")
    options = ["-n", "2", "--t-end", "10", "--points", "3", "--method", "ssa", "--device", "cpu"]
    assert main(["run", model, *options, "-o", out]) == 2
    assert "--molecules converts them" in capsys.readouterr().err
    small = ["--molecules", "--set", "uVol=1e-15", "--seed", "1"]
    assert main(["run", model, *options, *small, "-o", out]) == 0
    assert "rounded" in capsys.readouterr().err
    again = str(tmp_path / "b.h5")
    assert main(["run", out, "--device", "cpu", "-o", again]) == 0
    with ts.open(out) as first, ts.open(again) as second:
        assert first.counts("MAPK")[0, 0] == round(280 * AVOGADRO * 1e-24)
        assert (first.counts() == second.counts()).all()


def test_a_result_in_moles_does_not_tell_its_unit(data, tmp_path, capsys):
    model, out = str(data / "sbml" / "BIOMD0000000010.xml"), str(tmp_path / "a.h5")
    options = ["-n", "1", "--t-end", "10", "--points", "3", "--device", "cpu"]
    assert main(["run", model, *options, "--method", "ode", "-o", out]) == 0
    again = ["run", out, "--molecules", "--method", "ssa", "-o", str(tmp_path / "b.h5")]
    assert main(again) == 2
    assert "a result does not keep the size of their unit" in capsys.readouterr().err


def test_level_2_without_units_means_moles(tmp_path):
    """As numbers of molecules by default, with a note; by --molecules as the mole it stands for."""
    path = tmp_path / "m.xml"
    text = _MODEL.format(unit="", own="")
    path.write_text(text.replace("<listOfUnitDefinitions></listOfUnitDefinitions>", ""))
    network = ts.read(path)
    assert any("Level 2 means moles" in note for note in network.notes)
    assert network.initial_amounts() == {"A": 6.0, "B": 1.0}
    counted = ts.in_molecules(network)
    assert counted.initial_amounts() == {"A": 6 * AVOGADRO, "B": AVOGADRO}
    assert not any("Level 2" in note for note in counted.notes)


def test_amounts_that_all_round_to_nothing_are_reported():
    with pytest.warns(UserWarning, match=r"all initial amounts are below a molecule .*: A"):
        assert round_counts({"A": 1e-21, "B": 0.0}) == {"A": 0, "B": 0}


@pytest.mark.parametrize("kind", ["mole", "kilogram"])
def test_amounts_are_counts_where_the_user_says_so(read, kind, tmp_path):
    given = read(kind=kind, scale=0)
    with pytest.raises(ModelError, match=r"model, 1\) reads them as counts"):
        ts.run(given, n=1, times=[0], seed=1)
    counted = ts.in_molecules(given, 1)
    assert counted.initial_amounts() == {"A": 6.0, "B": 1.0}
    # More counts of each unit: the same mean of concentrations, with less noise.
    large = ts.in_molecules(given, 1000.0)
    file = tmp_path / "r.h5"
    result = ts.run(large, n=400, times=[0, 1], seed=1, device="cpu", output=ts.Output(file))
    assert result.mean("A")[0] == 6000
    assert result.mean("A")[1] == pytest.approx(6000 * np.exp(-0.5), rel=0.01)
    assert result.amount_unit.startswith("counts of 0.001 ")
    assert "molecules_per_unit" in result.data["model/canonical"][()].decode()
    with pytest.raises(ts.ConfigError, match="above 0"):
        ts.in_molecules(given, 0)


def test_the_command_counts_amounts(tmp_path, capsys):
    path = tmp_path / "m.toml"
    path.write_text('[species]\nX = 1e12\n[[reactions]]\nequation = "X ->"\nrate = 1\n')
    run = ["run", str(path), "--t-end", "1", "-n", "3", "--device", "cpu", "--seed", "1"]
    assert main([*run, "-o", str(tmp_path / "r.h5")]) == 2
    assert "--amounts F, without --molecules, counts F of each unit" in capsys.readouterr().err
    assert main([*run, "-o", str(tmp_path / "r.h5"), "--amounts", "1e-6"]) == 0
    assert main(["info", str(tmp_path / "r.h5")]) == 0
    assert "amounts: counts of 1e+06 molecules" in capsys.readouterr().out
    assert main([*run, "--amounts", "1e-6", "--molecules"]) == 2
    assert main(["check", str(path), "--amounts", "counts"]) == 0
