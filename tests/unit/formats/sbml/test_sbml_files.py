"""SBML files of the DSMTS and of classical models."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import TESTS
from sbml_factory import kinds, model, parameter, propensities, reaction, species, start, write

from tauslab.base.errors import ModelError
from tauslab.formats.sbml.reader import read_sbml, read_sbml_text
from tauslab.model.network.diagnosis.check import report, require_support

DATA = TESTS / "data"
DSMTS = sorted((DATA / "dsmts").glob("*/*-sbml-*.xml"))


def test_dsmts_cases_read() -> None:
    assert len(DSMTS) == 2 * 66
    for path in DSMTS:
        network = read_sbml(path)
        require_support(network, "ssa")
        assert all(value >= 0 for value in propensities(network).values()), path


@pytest.mark.parametrize(
    ("case", "expected"),
    [  # Birth Lambda = 0.1, Death Mu = 0.11, X = 100 unless the case says otherwise
        ("00001", {"Birth": 10.0, "Death": 11.0}),
        ("00009", {"Birth": 10.0, "Death": 11.0}),  # compartment of 2, amounts
        ("00010", {"Birth": 10.0, "Death": 11.0}),  # concentrations in a compartment of 1
        ("00012", {"Birth": 10.0, "Death": 11.0}),  # Lambda * X * 0.5 * 2, Lambda = 0.1
        ("00015", {"Birth": 10.0, "Death": 11.0}),  # Lambda * (X / 2) / 0.5
        ("00018", {"Birth": 5.0, "Death": 5.5}),  # the size 0.5 stands in the laws
        ("00019", {"Birth": 10.0, "Death": 11.0}),
    ],
)
@pytest.mark.parametrize("version", ["l3v1", "l3v2"])
def test_dsmts_propensities(case: str, version: str, expected: dict[str, float]) -> None:
    actual = propensities(read_sbml(DATA / f"dsmts/{case}/{case}-sbml-{version}.xml"))
    assert actual == pytest.approx(expected, rel=1e-15)


def test_dsmts_assignment_rule_is_an_observable() -> None:
    network = read_sbml(DATA / "dsmts/00019/00019-sbml-l3v2.xml")
    assert list(network.species) == ["X"]
    assert network.rules["y"].recorded
    assert start(network)["y"] == 200.0


@pytest.mark.parametrize(
    ("name", "counts", "general", "t_end"),
    [
        ("schlogl", (3, 4), 0, None),
        ("schlogl_original_copasi", (3, 4), 2, None),
        ("vilar_oscillator", (9, 16), 0, 200.0),
        ("dimer_decay", (3, 4), 0, None),
        ("michaelis_menten", (4, 3), 0, 100.0),
        ("dimerization", (2, 2), 0, 100.0),
        ("toggle_switch", (2, 4), 2, 250.0),
        ("telegraph", (2, 2), 0, None),
        ("bimolecular", (3, 2), 0, None),
        ("gene_expression", (3, 4), 0, None),
        ("lotka_volterra", (2, 3), 0, None),
        ("lac_reduced_LM", (4, 6), 0, None),
        ("lac_two_state", (12, 23), 0, 3600.0),
        ("heat_shock_mass_action", (28, 61), 0, None),
        ("ras_camp_pka", (33, 39), 0, None),
        ("BIOMD0000000012", (6, 12), 3, None),
        ("BIOMD0000000035", (10, 16), 0, None),
    ],
)
def test_classical_models(
    name: str, counts: tuple[int, int], general: int, t_end: float | None
) -> None:
    network = read_sbml(DATA / f"sbml/{name}.xml")
    require_support(network, "ssa")
    assert (len(network.species), len(network.reactions)) == counts
    assert network.t_end == t_end
    laws = [line for line in report(network) if line.startswith("general rate laws")]
    assert laws == ([] if not general else [laws[0]])
    assert not general or laws[0].startswith(f"general rate laws ({general})")
    assert all(value >= 0 for value in propensities(network).values())


@pytest.mark.parametrize(
    ("name", "kind", "element"),
    [
        ("BIOMD0000000025", "delay", "rule for dClkF_tau1"),
        ("BIOMD0000000010", "mole", "model"),
        ("BIOMD0000000039", "stoichiometry", "reaction v1"),
        ("BIOMD0000000507", "mole", "species species_1 (and 2 more)"),
    ],
)
def test_classical_models_that_are_refused(name: str, kind: str, element: str) -> None:
    network = read_sbml(DATA / f"sbml/{name}.xml")
    assert (kind, element) in kinds(network)
    with pytest.raises(ModelError, match="not supported by ssa"):
        require_support(network, "ssa")


def test_schlogl_propensities() -> None:
    network = read_sbml(DATA / "sbml/schlogl.xml")
    assert [s.fixed for s in network.species.values()] == [True, False, True]
    assert propensities(network) == pytest.approx(
        {
            "reaction_1": 3e-7 * 1e5 * 250 * 249 / 2,
            "reaction_2": 1e-4 * 250 * 249 * 248 / 6,
            "reaction_3": 1e-3 * 2e5,
            "reaction_4": 3.5 * 250,
        },
        rel=1e-14,
    )


def test_toggle_propensities() -> None:
    """Laws with powers: alpha1 / (1 + B^beta), alpha2 / (1 + A^gamma), decay mu = 1."""
    actual = propensities(read_sbml(DATA / "sbml/toggle_switch.xml"))
    assert actual == pytest.approx({"cu": 10 / 101, "cv": 10 / 101, "du": 10.0, "dv": 10.0})


def test_function_definitions_and_local_parameters_of_a_database_model() -> None:
    """BIOMD507 at U = V = 0: its synthesis laws are alpha / (1 + 0) times the volume of 1."""
    actual = propensities(read_sbml(DATA / "sbml/BIOMD0000000507.xml"))
    assert list(actual.values()) == pytest.approx([156.25, 0.0, 15.6, 0.0])


def test_what_a_network_remembers() -> None:
    path = DATA / "sbml/schlogl.xml"
    network = read_sbml(path)
    assert network.name == "schlogl"
    assert network.source_path == path
    assert network.source_text == path.read_text(encoding="utf-8")
    again = read_sbml_text(network.source_text, Path("elsewhere.xml"))
    assert again.reactions == network.reactions


def test_required_packages_are_features() -> None:
    level = "http://www.sbml.org/sbml/level3/version1"
    text = (
        f'<sbml xmlns="{level}/core" xmlns:multi="{level}/multi/version1" level="3" version="1" '
        'multi:required="true"><model/></sbml>'
    )
    assert ("package", "package multi") in kinds(read_sbml_text(text, Path("a.xml")))
    drawn = kinds(read_sbml(DATA / "dsmts/00041/00041-sbml-l3v1.xml"))
    assert [kind for kind, _ in drawn] == ["rate rule", "draw", "state event"]


@pytest.mark.parametrize("length", [1_000, 20_000, 40_000, 100_000, 200_000])
def test_a_long_comment_hides_nothing(tmp_path: Path, length: int) -> None:
    """Expat from 2.6 on would wait within it for more text, and libsbml return no model."""
    text = model(
        species=species("X"),
        reactions=reaction("R", "k", "X"),
        listed=(("listOfParameters", parameter("k", 3.0)),),
    )
    long = text.replace("<listOfReactions>", f"<!--{'x' * length}--><listOfReactions>")
    assert len(long) > len(text) + length
    (read,) = read_sbml(write(tmp_path, long)).reactions
    assert read.name == "R"
