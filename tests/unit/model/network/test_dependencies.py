"""Parents of the nodes of a dynamic Bayesian network, from equations."""

from __future__ import annotations

import pytest

from tauslab.base.errors import ConfigError
from tauslab.model.expressions.expression import symbols
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.dependencies import parents, right_sides
from tauslab.model.network.network import Network


def enzyme():
    net = Network("enzyme")
    net.add_parameter("k1", 0.1)
    net.add_parameter("ratio", 2.0)
    net.add_parameter("k2", "ratio * k1")
    for name in ("E", "S", "ES", "P"):
        net.add_species(name, 10)
    net.add_species("water", 100, fixed=True)
    net.add_rule("bound", "ES + 0 * water")
    net.add_reaction("E + S -> ES", rate="k1")
    net.add_reaction("ES -> E + S", law="k2 * bound")
    net.add_reaction("ES -> E + P", rate=0.1)
    return net


def test_parents_are_what_the_equation_reads_and_the_node_itself():
    actual = parents(right_sides(enzyme()), ["ratio", "k1"])
    assert actual == {
        "E": ("E", "S", "ES", "ratio", "k1"),
        "S": ("E", "S", "ES", "ratio", "k1"),
        "ES": ("E", "S", "ES", "ratio", "k1"),
        "P": ("ES", "P"),
    }


def test_a_catalyst_is_read_but_not_changed():
    net = Network("catalysis")
    for name in ("C", "X"):
        net.add_species(name, 1)
    net.add_reaction("C + X -> C", rate=1.0)
    net.add_reaction("-> C", rate=1.0)
    assert parents(right_sides(net), []) == {"C": ("C",), "X": ("C", "X")}


def test_what_nothing_changes_is_no_variable_but_may_be_unknown():
    net = Network("catalysis")
    net.add_parameter("dose", 3.0)
    net.add_species("C", "2 * dose")
    net.add_species("X", 1)
    net.add_reaction("C + X -> C", rate=1.0)
    assert parents(right_sides(net), ["C"]) == {"X": ("X", "C")}
    assert parents(right_sides(net), ["dose"]) == {"X": ("X", "dose")}


def test_bare_equations_and_events():
    net = Network("pulse")
    for name in ("u", "v", "w"):
        net.add_species(name, 1)
    net.add_parameter("a", 2.0)
    net.add_rate("u", "a * v - u")
    net.add_event("kick", 5.0, {"w": "u / 2"})
    assert parents(right_sides(net), ["a"]) == {"u": ("u", "a"), "w": ("u", "w")}


def test_equations_that_are_written_out():
    sides = {"x": symbols(as_expression("k * y - x")), "y": symbols(as_expression("-y"))}
    assert parents(sides, ["k"]) == {"x": ("x", "y", "k"), "y": ("y",)}


def test_a_parameter_that_nothing_reads_is_refused():
    with pytest.raises(ConfigError, match='unknown="b": no equation reads it'):
        parents({"x": {"a"}}, ["a", "b"])
