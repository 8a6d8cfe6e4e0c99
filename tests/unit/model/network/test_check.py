"""Feature refusals, rate checks and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.network.check import check_facts, check_rates, report, require_support
from tauslab.model.network.net_laws import with_net_laws
from tauslab.model.network.network import Feature, Network


def _network() -> Network:
    network = Network("demo")
    network.add_parameter("k", 0.5)
    network.add_species("X", 250)
    network.add_species("Y", 1.5)
    network.add_species("Sink", 0, fixed=True)
    network.add_rule("double", "2*X")
    network.add_reaction("2 X -> Y", rate="k", name="bind")
    network.add_reaction("Y -> Sink", rate=0.1, name="decay")
    network.add_reaction("X -> Sink", law="k*double/(10+X)", name="eat")
    return network


def test_a_plain_network_is_supported() -> None:
    require_support(_network(), "ssa")


def test_the_first_feature_is_named() -> None:
    network = _network()
    network.source_path = Path("cell.xml")
    network.features.append(Feature("event", "event E1", "it changes the state"))
    network.features.append(Feature("function", "reaction R7", "its math"))
    with pytest.raises(ModelError) as caught:
        require_support(network, "ssa")
    assert str(caught.value) == (
        "cell.xml: event E1: events are not supported by ssa; it changes the state "
        "(and 1 more, see tauslab check)"
    )


def test_a_feature_of_unknown_kind_is_refused() -> None:
    network = _network()
    network.features.append(Feature("weather", "model", "it rains"))
    with pytest.raises(ModelError, match="model: weather are not supported by ssa; it rains"):
        require_support(network, "ssa")


def test_unknown_method() -> None:
    network = _network()
    network.features.append(Feature("event", "event E1", ""))
    with pytest.raises(ConfigError, match="'magic' is not a method; methods: ssa"):
        require_support(network, "magic")


@pytest.mark.parametrize("bad", [-0.5, float("nan"), float("inf")])
def test_bad_rate_constant(bad: float) -> None:
    network = _network()
    with pytest.raises(ModelError, match=r"reaction bind: its rate constant is (-0.25|nan|inf)"):
        check_rates(network, network.parameter_values() | {"k": bad})


def test_good_and_zero_rate_constants() -> None:
    network = _network()
    check_rates(network, network.parameter_values())
    check_rates(network, network.parameter_values() | {"k": 0.0})


def test_report() -> None:
    network = _network()
    network.t_end = 50.0
    network.features.append(Feature("event", "event E1", "it changes the state"))
    network.notes.append("2 constraints are ignored")
    assert report(network) == [
        "model demo: 3 species, 3 reactions, 1 parameter, 1 rule",
        "mass action: 1 of order 1, 1 of order 2",
        "general laws (1): eat",
        "reactions:",
        "  bind:  2 X -> Y   rate k",
        "  decay: Y -> Sink  rate 0.1",
        "  eat:   X -> Sink  law k * double / (10.0 + X)",
        "species: X = 250, Y = 1.5, Sink = 0",
        "parameters: k = 0.5",
        "fixed species: Sink",
        "initial amounts that are rounded: Y = 1.5 -> 2",
        "observables: double",
        "end time in the file: 50",
        "event E1: events (it changes the state), refused by ssa, tau, ode",
        "note: 2 constraints are ignored",
        "methods that can run it: none",
    ]


def test_a_rule_of_a_species_is_not_taken_for_a_constant() -> None:
    network = Network()
    network.add_species("X", 5)
    network.add_rule("half", "X/2")
    network.add_reaction("X ->", law="3*half", name="R")
    assert report(network)[1] == "mass action: 1 of order 1"


def test_report_when_values_cannot_be_computed() -> None:
    network = _network()
    network.add_species("Z", "1/0")
    assert any("species Z: initial amount inf" in line for line in report(network))
    assert "methods that can run it: none" in report(network)
    assert check_facts(network)["methods"] == []


def test_less_than_nothing_is_for_equations() -> None:
    network = Network()
    network.add_species("Z", "-3")
    network.add_reaction("Z ->", law="Z")
    lines = report(network)
    assert "negative amounts, for ode alone: Z" in lines
    assert lines[-1] == "methods that can run it: ode"


def test_a_negative_rate_constant_is_for_equations_and_net_laws() -> None:
    network = Network()
    network.add_species("A", 3)
    network.add_parameter("k", -1)
    network.add_reaction("A ->", rate="k", name="wrong")
    network.add_reaction("A ->", rate=1, name="right")
    lines = report(network)
    assert "negative rate constants, for ode alone: wrong" in lines
    assert lines[-1] == "methods that can run it: ode"
    with pytest.raises(ModelError, match="reaction wrong: its rate constant is -1"):
        check_rates(network, network.parameter_values())
    assert "ssa" in report(with_net_laws(network))[-1]


def test_equations_may_have_negative_constants_and_such_of_time() -> None:
    network = _network()
    values = network.parameter_values()
    check_rates(network, values | {"k": -0.5}, negative=True)
    with pytest.raises(ModelError, match=r"it must be finite$"):
        check_rates(network, values | {"k": float("inf")}, negative=True)
    network.add_reaction("->", law="k * (1 + time)", name="clock")
    network.add_feature(Feature("time", "reaction clock", "it uses the time"))
    check_rates(network, values)
