"""Feature refusals, rate checks and the report."""

from __future__ import annotations

import builtins
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tauslab.analysis.cme.solve import lowered_counts
from tauslab.base.errors import ConfigError, ModelError
from tauslab.model.network.diagnosis.check import check_facts, check_rates, report, require_support
from tauslab.model.network.net_laws import with_net_laws
from tauslab.model.network.network import Feature, Network
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.task import prepare


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


def test_a_network_prints_what_the_command_prints() -> None:
    message = _network().check()
    assert str(message).startswith("\n".join(report(_network())))
    assert "selector of ssa" in message


def test_a_parameter_that_an_event_sets_becomes_a_fixed_species() -> None:
    network = _network()
    network.add_event("more", time=1, assignments={"k": 2})
    network.validate()
    assert "k" not in network.parameters
    assert network.species["k"].fixed


def test_check_calls_what_an_event_sets_a_parameter() -> None:
    """It keeps its fraction, and a decay with it is of the first order."""
    network = Network("m")
    network.add_species("A", 10)
    network.add_parameter("k", 0.3)
    network.add_reaction("A ->", rate="k")
    network.add_event("more", time=1, assignments={"k": 2})
    text = "\n".join(report(network))
    assert text.startswith("model m: 1 species, 1 reaction, 1 parameter, 0 rules, 1 event")
    assert "parameters that events change: k = 0.3" in text
    assert "mass action: 1 of order 1" in text
    assert "rounded" not in text
    assert "R1: A -> 0  rate k" in text
    assert repr(network) == "<Network m: 1 species, 1 reactions, 1 parameters>"
    assert "k = 0.3 (events change it)" in str(network)
    assert "1 species, 1 reactions, 1 parameters" in network._repr_html_()
    network.add_event("typo", time=1, assignments={"kk": 2})
    with pytest.raises(ModelError, match=r"'kk' is not a species or parameter of m: did you mean"):
        network.validate()


def test_an_event_before_its_parameter_names_the_remedy() -> None:
    network = Network("early")
    network.add_species("X", 1)
    network.add_event("more", time=1, assignments={"k": 2})
    network.add_parameter("k", 0.5)
    with pytest.raises(ModelError, match=r"event more: 'k' is not a species.*before the event"):
        network.validate()


def test_numbers_are_assigned_to_parts_that_exist() -> None:
    network = _network()
    network.parameters["k"] = 2
    network.species["X"] = 7.0
    assert network.parameter_values()["k"] == 2.0
    assert network.initial_amounts()["X"] == 7.0
    with pytest.raises(ModelError, match=r"'kk' is not a parameter: did you mean 'k'\?"):
        network.parameters["kk"] = 1.0
    with pytest.raises(ModelError, match="'Z' is not a species; add_species adds one"):
        network.species["Z"] = 1.0
    with pytest.raises(ModelError, match="parameter k: assign a number"):
        network.parameters["k"] = "2 * X"


def test_whole_mappings_take_numbers_too() -> None:
    network = _network()
    network.parameters = {**network.parameters, "k": 2}
    network.species = network.species | {"X": 7.0}
    network.validate()
    assert network.parameter_values()["k"] == 2.0
    assert network.initial_amounts()["X"] == 7.0
    with pytest.raises(ModelError, match="'q' is not a parameter; add_parameter adds one"):
        network.parameters = {"k": 2, "q": 1}
    with pytest.raises(ModelError, match="parameters: give a mapping by name, not list"):
        network.parameters = [("k", 2)]
    assert network.parameter_values()["k"] == 2.0


def test_reactions_and_events_can_be_removed() -> None:
    network = _network()
    network.add_event("dose", time=1, assignments={"X": 5})
    network.remove_event("dose")
    network.remove_reaction("decay")
    assert [one.name for one in network.reactions] == ["bind", "eat"]
    assert not network.events
    assert not network.features
    network.add_reaction("Y -> Sink", rate=0.1, name="decay")
    with pytest.raises(ModelError, match=r"'decai' is not a reaction of demo: did you mean"):
        network.remove_reaction("decai")


def test_a_notebook_names_a_reaction_that_is_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    network = Network("cell")
    network.add_species("X", 1)
    network.add_reaction("X ->", rate=1.0)
    with pytest.warns(UserWarning, match=r"reaction R2 repeats R1: 'X ->' now happens twice"):
        network.add_reaction("X ->", rate=1.0)
    network.add_reaction("X ->", rate=1.0, name="again")
    network.add_reaction("X ->", rate=2.0)


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


def test_all_that_moves_the_model_is_in_text_and_facts() -> None:
    """Events, rate rules and delays are listed, also those that wait for their trigger."""
    network = _network()
    network.add_species("V", 3)
    network.add_rate("V", "time - 10")
    network.add_reaction("X ->", rate=1, delay=5, name="late")
    network.add_event("dose", time=10, assignments={"X": "X + 100"})
    network.add_event("refill", trigger="X > 3", assignments={"X": 50}, delay=2, priority="X")
    network.add_event("never", trigger="time >= 0", assignments={"X": 50})
    text = "\n".join(report(network))
    for line in (
        "1 rate rule, 3 events",
        "  V = time - 10.0",
        "complete after 5",
        "event dose at 10: X = X + 100.0",
        "event refill when X > 3.0: X = 50; after 2; priority X",
        "event refill does not fire at time 0: its trigger is true",
        "event never never fires: its trigger is true",
    ):
        assert line in text, line
    facts: Any = check_facts(network)
    assert facts["rates"] == {"V": "time - 10.0"}
    assert [event["name"] for event in facts["events"]] == ["dose", "refill", "never"]
    assert facts["events"][0]["time"] == "10"
    assert facts["events"][1]["delay"] == "2"


def test_a_run_warns_of_what_check_doubts() -> None:
    network = Network("cn")
    network.add_parameter("k", 1)
    network.add_species("A", 5)
    network.add_reaction("A ->", rate="k*A")
    network.add_event("never", trigger="time >= 0", assignments={"A": 50})
    with pytest.warns(UserWarning, match="the factor A|never fires") as message:
        prepare(network, Options(np.ones(1), seed=0))
    factor, never = (str(one.message) for one in message)
    assert "the factor A" in factor
    assert "event never never fires" in never
    network.events.clear()
    network.features.clear()
    with pytest.warns(UserWarning, match="the factor A"):
        lowered_counts(network, {})


def test_a_rate_may_use_the_time() -> None:
    """It is the law that holds the counts too, in every form of the model."""
    by_rate, by_law = Network("m"), Network("m")
    for network in (by_rate, by_law):
        network.add_species("X", 9)
        network.add_parameter("k", 0.5)
    by_rate.add_reaction("2 X --> ∅", rate="k*exp(-time)")
    by_law.add_reaction("2 X -> 0", law="k*exp(-time)*X*(X-1)/2", limit="k*exp(-time)*X*X/2")
    by_rate.validate()
    assert by_rate == by_law
    assert "general rate laws (1): R1" in report(by_rate)
    options = Options(np.ones(1), seed=0)
    assert prepare(by_rate, options).lowered == prepare(by_law, options).lowered
    both = Network("m")
    both.add_species("X")
    both.add_reaction("X <=> 2 X", rate=(1, 2))
    assert [one.name for one in both.reactions] == ["R1", "R1_reverse"]


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


def test_a_negative_number_is_no_way_back() -> None:
    network = Network("m")
    network.add_species("X", 1)
    network.add_parameter("a", 1)
    network.add_parameter("b", 3)
    network.add_reaction("X ->", rate=-1)
    with pytest.raises(ModelError, match=r"is -1; it must be finite and 0 or more$"):
        check_rates(network, network.parameter_values())
    network.remove_reaction("R1")
    network.add_reaction("X ->", rate="a - b")
    with pytest.raises(ModelError, match=r"is -2; .* lets the reaction run backwards"):
        check_rates(network, network.parameter_values())


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
        "general rate laws (1): eat",
        "reactions:",
        "  bind:  2 X -> Y   rate k",
        "  decay: Y -> Sink  rate 0.1",
        "  eat:   X -> Sink  law k * double / (10.0 + X)",
        "rules:",
        "  double = 2.0 * X",
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


def test_a_reaction_after_one_that_was_removed_gets_a_free_name() -> None:
    network = Network()
    network.add_species("X", 5)
    for rate in (1, 2, 3):
        network.add_reaction("X ->", rate=rate)
    network.remove_reaction("R1")
    network.add_reaction("X ->", rate=4)
    assert [one.name for one in network.reactions] == ["R2", "R3", "R4"]


def test_a_reaction_is_removed_with_its_own_parameters() -> None:
    network = Network()
    network.add_species("X", 5)
    for rate in (1, 2):
        network.add_reaction("X <-> 2 X", rate=("k", "k"), parameters={"k": rate}, name="d")
        assert network.parameter_values() == {"d_k": rate, "d_reverse_k": rate}
        network.add_event("e", 1, {"d_k": 3})
        network.remove_event("e")
        network.remove_reaction("d")
        network.remove_reaction("d_reverse")
        assert (list(network.species), list(network.parameters)) == (["X"], [])


def test_a_name_says_that_a_repeat_is_meant_also_where_it_is_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    network = Network()
    network.add_species("X", 5)
    network.add_reaction("X ->", rate=1)
    network.add_reaction("X ->", rate=1, name="R2")
    network.add_reaction("X <-> 2 X", rate=(1, 1))
    with pytest.warns(UserWarning, match="reaction R5 repeats R3"):
        network.add_reaction("X <-> 2 X", rate=(1, 1))
    network.reactions.clear()
    network.add_reaction("-> X", rate=1)
    network.add_reaction("X ->", rate=1)


def test_numbers_are_put_into_parameters_and_species_in_all_ways() -> None:
    network = Network()
    network.add_species("X", 5)
    network.add_parameter("k", 1)
    network.parameters.update(k=2)
    network.parameters |= {"k": 3}
    network.species.update({"X": 7})
    network.parameters = dict(network.parameters)
    network.parameters["k"] = 4
    assert network.parameter_values() == {"k": 4}
    assert network.initial_amounts() == {"X": 7}
    with pytest.raises(ModelError, match="'j' is not a parameter"):
        network.parameters.update(j=1)


def test_parts_of_a_copy_are_set_apart() -> None:
    network = Network()
    network.add_species("X", 5)
    network.add_parameter("k", 1)
    network.add_reaction("X ->", rate="k")
    other = copy.copy(network)
    assert other == network
    other.parameters["k"] = 2
    other.remove_reaction("R1")
    other.add_reaction("-> X", rate=1)
    assert network.parameter_values() == {"k": 1}
    assert not network.reactions[0].products


def test_an_event_that_is_refused_leaves_its_parameters() -> None:
    network = Network()
    network.add_parameter("k", 1)
    with pytest.raises(ModelError, match="need a trigger"):
        network.add_event("e", 1, {"k": 2}, delay=1)
    assert list(network.parameters) == ["k"]


def test_a_parameter_is_one_again_without_the_events_that_set_it() -> None:
    network = Network()
    network.add_parameter("k", 1)
    for name in ("first", "second"):
        network.add_event(name, 1, {"k": 2})
    network.remove_event("first")
    assert list(network.species) == ["k"]
    network.species["k"] = 3
    network.remove_event("second")
    assert not network.species
    assert network.parameter_values() == {"k": 3}


def test_a_parameter_of_one_that_an_event_sets_is_to_be_a_rule() -> None:
    network = Network()
    network.add_parameter("k", 1)
    network.add_parameter("double", "2 * k")
    network.add_event("e", 1, {"k": 2})
    with pytest.raises(ModelError, match=r"double: 'k' is not a parameter; .* \(add_rule\)"):
        network.validate()
