"""SBML that tauslab writes: valid, and read as the same network."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import TESTS

import tauslab as ts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.mathml_writer import mathml
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.model.expressions.expression import (
    FUNCTIONS,
    Call,
    Expression,
    Number,
    Symbol,
    call,
)
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.network import Feature

libsbml = importlib.import_module("libsbml")
DATA = TESTS / "data"


def _again(network: ts.Network) -> ts.Network:
    text = network.to_sbml()
    document = libsbml.readSBMLFromString(text)
    document.checkConsistency()
    errors = [document.getError(i) for i in range(document.getNumErrors())]
    assert not [error.getMessage() for error in errors if error.getSeverity() > 1]
    return read_sbml_text(text, Path("again.xml"))


# ---------------------------------------------------------------- formulas

_LEAVES = st.one_of(
    st.sampled_from([Symbol("x"), Symbol("y"), Symbol("time")]),
    st.floats(allow_nan=True, allow_infinity=True).map(Number),
    st.integers(-(2**40), 2**40).map(lambda n: Number(float(n))),
)


def _calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def built(name: str) -> st.SearchStrategy[Expression]:
        parts = st.lists(inner, min_size=FUNCTIONS[name], max_size=FUNCTIONS[name])
        return parts.map(lambda trees: Call(name, tuple(trees)))

    return st.sampled_from(sorted(FUNCTIONS)).flatmap(built)


def _read(text: str) -> Expression:
    reader = MathReader(libsbml, {}, lambda name, _: Symbol(name), lambda *_: None)
    return reader.read(libsbml.readMathMLFromString(text), "here")


def _folded(tree: Expression) -> Expression:
    """A sign before a number is part of it in MathML."""
    if not isinstance(tree, Call):
        return tree
    parts = tuple(_folded(part) for part in tree.arguments)
    if tree.function == "neg" and isinstance(parts[0], Number):
        return Number(-parts[0].value)
    return Call(tree.function, parts)


@settings(max_examples=200, deadline=None)
@given(st.recursive(_LEAVES, _calls, max_leaves=12))
def test_a_formula_reads_back_as_the_same_tree(tree: Expression) -> None:
    assert _read(mathml(tree)) == _folded(tree)


@pytest.mark.parametrize("function", ["add", "mul", "and", "min"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("length", [2, 31, 33, 64, 65, 150])
def test_long_chains_keep_their_brackets(function: str, left: bool, length: int) -> None:
    tree: Expression = Symbol("x")
    for i in range(length):
        tree = call(function, tree, float(i)) if left else call(function, float(i), tree)
    assert _read(mathml(tree)) == tree


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize(
    "name",
    [
        *("sbml/schlogl.xml", "net/Repressilator.net", "net/Haugh2b.net"),
        *("semantic/00001/00001-sbml-l3v2.xml", "semantic/01721/01721-sbml-l3v2.xml"),
        *("dsmts/00001/00001-sbml-l3v1.xml", "dsmts/00020/00020-sbml-l3v1.xml"),
    ],
)
def test_files_read_back_as_the_same_network(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = ts.read(DATA / name)
        again = _again(network)
    if "01721" in name:  # a stoichiometry of its own is told as the equation that it becomes
        assert again.features != network.features
        again.features = network.features
    assert again == network
    assert again.labels == network.labels
    assert list(again.species) == list(network.species)
    assert list(again.parameters) == list(network.parameters)


def _built() -> ts.Network:
    """A network with all that SBML has no word for."""
    network = ts.Network("süß & <strange>")
    network.add_species("X", 250)
    network.add_species("Y", "n0 + 1")
    network.add_species("Bath", 7, fixed=True)
    network.labels["X"] = 'X(a!1,b~"p")'
    network.add_parameter("n0", 40)
    network.add_parameter("k", 1 / 3)
    network.add_parameter("half", "k / 2")
    network.add_rule("total", "X + Y")
    network.add_rule("hidden", "total * Bath", recorded=False)
    network.add_reaction("2 X -> Y", rate="k")
    network.add_reaction("Y ->", law="hidden * half * Y / (Y + 1e-300)", name="decay of Y")
    network.add_reaction("-> 3 X", rate=0.1 + 0.2, name="n0")
    network.t_end = 12.5
    return network


def test_a_built_network_reads_back_as_the_same() -> None:
    network = _built()
    again = _again(network)
    assert again == network
    assert canonical_text(again) == canonical_text(network)
    assert again.labels == network.labels
    assert again.reactions[0].limit == network.reactions[0].limit


def test_the_same_bits() -> None:
    first, second = (
        ts.run(n, n=20, times=[0.0, 0.01, 0.02], seed=3) for n in (_built(), _again(_built()))
    )
    assert np.array_equal(first.counts("X"), second.counts("X"))
    assert np.array_equal(first.counts("Y"), second.counts("Y"))


def test_equations_and_events_read_back() -> None:
    network = ts.Network("doses")
    network.add_species("drug", 1.5, fixed=True)
    network.add_species("X", 3)
    network.add_parameter("k", 0.25)
    network.add_rate("drug", "-k * drug + cos(time)")
    network.add_reaction("X ->", law="k * drug * X")
    network.add_event("first", "10 * k", {"drug": "drug + 2"})
    network.add_event("second", "10 * k", {"drug": "2 * drug"})
    again = _again(network)
    assert (again.species, again.rates, again.reactions) == (
        network.species,
        network.rates,
        network.reactions,
    )
    assert [(e.time, e.assignments) for e in again.events] == [
        (e.time, e.assignments) for e in network.events
    ]


def test_draws_and_delays_read_back() -> None:
    network = ts.Network("chance")
    network.add_parameter("birth", "lognormal(0, 0.3)")
    network.add_species("X", "poisson(20)")
    network.add_species("Y", "cos(time)")  # says what was before the start too
    network.add_rule("before", "delay(X + Y, 2 * Y) + 1")
    network.add_rate("Y", "-delay(Y, 0.5) + delay(X, 1)")
    network.add_reaction("-> X", rate="birth")
    network.add_event(
        "divide",
        trigger="delay(X, 1) >= 40",
        delay="gamma(4, 0.1)",
        priority="uniform(0, 1)",
        assignments={"X": "binomial(X, 0.5) + normal(0, 1, -2, 2) + laplace(3)"},
        early=False,
    )
    again = _again(network)
    kinds = [{(f.kind, f.element) for f in one.features} for one in (network, again)]
    assert kinds[0] == kinds[1]
    again.features = network.features
    assert again == network


def test_delayed_reactions_are_not_written() -> None:
    network = ts.Network("delayed")
    network.add_species("X", 3)
    network.add_reaction("X ->", rate=1, delay=2)
    with pytest.raises(ModelError, match=r"reaction R1: it completes .* written as TOML"):
        network.to_sbml()


def test_what_a_network_does_not_hold_is_not_written() -> None:
    network = _built()
    network.add_feature(Feature("event", "event E1", "its trigger depends on X"))
    with pytest.raises(ModelError, match="event E1: its trigger depends on X, which the network"):
        network.to_sbml()


def test_files(tmp_path: Path) -> None:
    network = _built()
    text = network.to_sbml(tmp_path / "model.sbml")
    assert (tmp_path / "model.sbml").read_text(encoding="utf-8") == text
    assert ts.read(tmp_path / "model.sbml") == network
    with pytest.raises(ConfigError, match=r"written as \.xml or \.sbml"):
        network.to_sbml(tmp_path / "model.txt")


# ---------------------------------------------------------------- Antimony


def test_antimony_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "antimony", None)
    with pytest.raises(ConfigError, match=r"pip install .antimony"):
        _built().to_antimony()
    (tmp_path / "m.ant").write_text("A -> B; k*A; A = 1; k = 2", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pip install .antimony"):
        ts.read(tmp_path / "m.ant")


def test_antimony_both_ways(tmp_path: Path) -> None:
    pytest.importorskip("antimony")
    network = ts.read(DATA / "sbml" / "schlogl.xml")
    network.to_antimony(tmp_path / "schlogl.ant")
    again = ts.read(tmp_path / "schlogl.ant")
    assert (again.species, again.reactions) == (network.species, network.reactions)
    assert again.parameters == network.parameters
    (tmp_path / "bad.ant").write_text("model m\nA -> ; k*\nend", encoding="utf-8")
    with pytest.raises(ModelError, match=r"bad\.ant: .*line 2"):
        ts.read(tmp_path / "bad.ant")


def test_antimony_keeps_all_digits(tmp_path: Path) -> None:
    pytest.importorskip("antimony")
    network = ts.Network("digits")
    network.add_species("X", 0.1 + 0.2)
    network.add_parameter("k", 1 / 3)
    network.add_parameter("q", -1 / 3 * 1e-20)
    network.add_reaction("X ->", rate="k")
    network.add_rule("seen", "3.0000000000000004 * X + q - 1.2345678901234567e-20")
    network.to_antimony(tmp_path / "digits.ant")
    again = ts.read(tmp_path / "digits.ant")
    assert again.species["X"].initial == network.species["X"].initial
    assert {n: again.parameters[n] for n in "kq"} == network.parameters
    assert again.rules["seen"].expression == network.rules["seen"].expression
    network.add_rule("hidden", "2 * X", recorded=False)
    with pytest.warns(UserWarning, match="rule hidden is not recorded"):
        network.to_antimony()


def test_a_size_that_an_event_sets_is_a_compartment_in_any_place() -> None:
    network = ts.Network("cell")
    network.add_parameter("V", 2)
    network.add_species("X", 5, compartment="V")
    network.add_reaction("X ->", law="X / V")
    network.add_event("growth", 1, {"V": 4})
    assert _again(network) == network
