"""Building, checking and evaluating networks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest

import tauslab
from tauslab.base.errors import ConfigError, ModelError, OutputError
from tauslab.formats.read import read
from tauslab.model.expressions.expression import Symbol, call
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.network.counts import round_counts
from tauslab.model.network.equations import mass_action_law, parse_equation
from tauslab.model.network.network import Network


def _network() -> Network:
    network = Network("demo")
    network.add_parameter("k", 2.0)
    network.add_parameter("k2", "2 * k")
    network.add_species("X", 250)
    network.add_species("Y", "k2 + 1")
    network.add_species("Fuel", 10, fixed=True)
    network.add_rule("total", "X + Y")
    network.add_reaction("2 X -> Y", rate="k", name="bind")
    network.add_reaction("X + Fuel -> X", law="k * total")
    return network


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("A + 2 B -> C", ({"A": 1, "B": 2}, {"C": 1})),
        ("A + A->", ({"A": 2}, {})),
        ("0 -> 3*A", ({}, {"A": 3})),
        ("-> A", ({}, {"A": 1})),
        ("3A -> 2 A + 0 B", ({"A": 3}, {"A": 2})),
        ("->", ({}, {})),
    ],
)
def test_equations(equation: str, expected: tuple[dict[str, int], dict[str, int]]) -> None:
    assert parse_equation(equation, "reaction R1") == expected


@pytest.mark.parametrize(
    ("equation", "reason"),
    [
        ("A + B", "must have exactly one '->'"),
        ("A -> B -> C", "must have exactly one '->'"),
        ("A + -> C", "cannot read '' in"),
        ("1.5 A -> C", "cannot read '1.5 A' in"),
        ("A <-> C", "cannot read 'A <' in"),
    ],
)
def test_wrong_equations(equation: str, reason: str) -> None:
    with pytest.raises(ModelError, match="reaction R1: ") as caught:
        parse_equation(equation, "reaction R1")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("reactants", "combinations"),
    [({}, 1), ({"A": 1}, 7), ({"A": 2}, 21), ({"A": 3}, 35), ({"A": 2, "B": 2}, 21 * 10)],
)
def test_rate_times_combinations(reactants: dict[str, int], combinations: int) -> None:
    law = mass_action_law(Symbol("k"), reactants)
    assert evaluate(law, {"k": 3.0, "A": 7.0, "B": 5.0}) == 3.0 * combinations


def test_building() -> None:
    network = _network()
    network.validate()
    bind, eat = network.reactions
    assert (bind.name, eat.name) == ("bind", "R2")
    assert bind.law == parse("k * X * (X - 1) / 2")
    assert bind.net_change() == {"X": -2, "Y": 1}
    assert eat.net_change() == {"Fuel": -1}
    assert network.parameter_values() == {"k": 2.0, "k2": 4.0}
    assert network.parameter_values({"k": 3}) == {"k": 3.0, "k2": 6.0}
    assert network.parameter_values({"k2": 3}) == {"k": 2.0, "k2": 3.0}
    assert network.initial_amounts() == {"X": 250.0, "Y": 5.0, "Fuel": 10.0}
    assert network.initial_amounts({"k": 1.0, "k2": 9.0}) == {"X": 250.0, "Y": 10.0, "Fuel": 10.0}
    assert network.initial_amounts(overrides={"Y": 1})["Y"] == 1.0


def test_parameters_of_one_law() -> None:
    network = Network()
    network.add_species("X", 1)
    network.add_parameter("k", 5.0)
    network.add_reaction("X ->", law="k * X", parameters={"k": 3.0}, name="eat")
    assert network.reactions[0].law == call("mul", Symbol("eat_k"), Symbol("X"))
    assert network.parameter_values() == {"k": 5.0, "eat_k": 3.0}


def test_wrong_building() -> None:
    network = _network()
    for add, reason in (
        (lambda: network.add_species("k"), "'k' is defined twice"),
        (lambda: network.add_parameter("2k", 1), "'2k' is not a name"),
        (lambda: network.add_rule("a b", "1"), "'a b' is not a name"),
        (lambda: network.add_reaction("X ->", rate=1, name="bind"), "'bind' is defined twice"),
        (lambda: network.add_reaction("X ->"), "reaction R3: give either rate= or law="),
        (lambda: network.add_reaction("X ->", rate=1, law="X"), "give either rate= or law="),
    ):
        with pytest.raises(ModelError) as caught:
            add()
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name", "text", "reason"),
    [
        ("law", "R", "k * Z", "reaction R: 'Z' is not defined in demo"),
        ("law", "R", "x * k", "'x' is not defined in demo: did you mean 'X'?"),
        ("law", "R", "Fule", "'Fule' is not defined in demo: did you mean 'Fuel'?"),
        ("law", "R", "t * k", "'t' is not defined in demo: the time is 'time'"),
        ("rule", "r", "Z + 1", "rule for r: 'Z' is not defined in demo"),
        ("rule", "r", "r + 1", "rule r depends on itself (r -> r)"),
        ("species", "S", "Z", "initial amount of S: 'Z' is not defined in demo"),
        ("parameter", "p", "X", "parameter p: 'X' is not a parameter"),
        ("parameter", "p", "p", "parameter p depends on itself (p -> p)"),
        ("law", "R", "exp(" * 201 + "X" + ")" * 201, "reaction R: operations are nested more than"),
        ("rule", "r", "exp(" * 201 + "X" + ")" * 201, "rule for r: operations are nested"),
    ],
)
def test_validation(kind: str, name: str, text: str, reason: str) -> None:
    network = _network()
    if kind == "law":
        network.add_reaction("X ->", law=text, name=name)
    else:
        getattr(network, f"add_{kind}")(name, text)
    with pytest.raises(ModelError) as caught:
        network.validate()
    assert reason in str(caught.value)


def test_rules_that_are_deep_together_are_refused() -> None:
    network = _network()
    half = "exp(" * 100 + "{}" + ")" * 100
    network.add_rule("one", half.format("X"))
    network.add_rule("two", f"({half.format('one')})")
    network.validate()
    network.add_reaction("X ->", law=f"1 + {half.format('one')}", name="deep")
    with pytest.raises(ModelError, match="reaction deep: operations are nested more than 200 deep"):
        network.validate()
    network.reactions.pop()
    network.add_rule("three", "1 + two")
    with pytest.raises(ModelError, match="rule for three: operations are nested"):
        network.validate()


def test_rules_that_share_parts_are_checked_fast() -> None:
    """Unfolded, the last rule would have 2^190 terms."""
    network = _network()
    network.add_rule("r0", "X")
    for i in range(190):
        network.add_rule(f"r{i + 1}", f"r{i} * r{i}")
    network.validate()


def test_unknown_species_of_a_reaction() -> None:
    network = _network()
    network.add_reaction("X -> Z", rate=1)
    with pytest.raises(ModelError, match="reaction R3: 'Z' is not a species of demo"):
        network.validate()


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("k * Z", "'Z' is not defined"), ("-" * 201 + "X", "operations are nested more than 200")],
)
def test_the_limit_of_a_law_is_checked_too(limit: str, reason: str) -> None:
    network = _network()
    network.add_reaction("X ->", law="k * X", limit=limit, name="last")
    with pytest.raises(ModelError, match=f"reaction last: {reason}"):
        network.validate()


def test_overrides_are_checked() -> None:
    network = _network()
    with pytest.raises(ConfigError, match="'K' is not a parameter of demo; parameters: k, k2"):
        network.parameter_values({"K": 1.0})
    with pytest.raises(ConfigError, match="parameter k cannot be inf: it must be a finite number"):
        network.parameter_values({"k": math.inf})
    with pytest.raises(ConfigError, match="'k' is not a species of demo; species: X, Y, Fuel"):
        network.initial_amounts(overrides={"k": 1.0})
    with pytest.raises(ModelError, match="species X: initial amount -1 is not allowed"):
        network.initial_amounts(overrides={"X": -1.0})


def test_rounding() -> None:
    with pytest.warns(UserWarning, match=r"were rounded: a, b, c$"):
        counts = round_counts({"a": 0.5, "b": 1.5, "c": 2.4, "d": 3.0})
    assert counts == {"a": 0, "b": 2, "c": 2, "d": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert round_counts({"a": 2.0**31 - 1}) == {"a": 2**31 - 1}
    with pytest.raises(ModelError, match="species a: initial amount 2147483648 is above"):
        round_counts({"a": 2.0**31})


def test_a_network_is_shown_in_one_line():
    network = Network("pair")
    network.add_species("X", 2)
    network.add_reaction("X ->", rate=1.0)
    assert repr(network) == "<Network pair: 1 species, 1 reactions, 0 parameters>"


def test_a_network_that_was_written_reads_back(tmp_path):
    network = Network("pair", t_end=3.0)
    network.add_parameter("k", 0.1)
    network.add_species("X", "20 * k")
    network.add_species("Fuel", 5, fixed=True)
    network.add_rule("Total", "X + Fuel")
    network.add_reaction("2 X -> X", rate="k / 3")
    network.add_reaction("X + Fuel ->", law="X / (k + X)")
    path = network.write(tmp_path / "other.toml")
    again = read(path)
    assert again == network
    assert again.name == "pair"
    with pytest.raises(ConfigError, match=r"other.xml: a network is written as .toml"):
        network.write(tmp_path / "other.xml")
    with pytest.raises(OutputError, match="cannot be written: No such file"):
        network.write(tmp_path / "no" / "other.toml")


def test_a_law_written_in_python_may_use_the_time() -> None:
    net = Network("pulse")
    net.add_species("X", 0)
    net.add_reaction("-> X", law="10 * (1 + sin(time))")
    net.validate()
    assert [feature.kind for feature in net.features] == ["time"]
    other = Network("named")
    other.add_species("X", 0)
    other.add_parameter("time", 2.0)
    other.add_reaction("-> X", law="10 * time")
    assert not other.features
    other.validate()


@pytest.mark.parametrize("kind", ["species", "parameter", "rule"])
def test_beside_events_nothing_but_the_time_has_its_name(kind: str) -> None:
    """Their triggers would read it: an event at time 1 never came."""
    net = Network("named")
    net.add_species("X", 0)
    getattr(net, f"add_{kind}")("time", 2.0)
    net.add_event("dose", time=1, assignments={"X": 5})
    with pytest.raises(ModelError, match=f"{kind} time: .* give it another"):
        net.validate()


@pytest.mark.parametrize("delay", [-1, -0.5, float("nan")])
def test_a_delay_is_not_negative(delay: float) -> None:
    net = Network("late")
    net.add_species("X", 10)
    with pytest.raises(ModelError, match=r"reaction R1: delay .* is not 0 or more"):
        net.add_reaction("X ->", rate=1.0, delay=delay)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net: net.add_species(3, 1), "a name must be text, not int"),
        (
            lambda net: net.add_species("B", None),
            "species B: a number or an expression is expected, not NoneType",
        ),
        (
            lambda net: net.add_parameter("k", [1]),
            "parameter k: a number or an expression is expected, not list",
        ),
        (lambda net: net.add_reaction(None, rate=1), "its equation must be text, not NoneType"),
        (lambda net: net.add_reaction("A ->", rate=[1]), "rate is a list, and 'A ->' has no '<->'"),
        (lambda net: net.add_reaction("A ->", rate=1, name=7), "a reaction must be text, not int"),
        (
            lambda net: net.add_species("B", compartment=1),
            "B: its compartment must be text, not int",
        ),
        (
            lambda net: net.add_reaction("A ->", rate=1, parameters=[1]),
            "mapping such as .* not list",
        ),
        (lambda net: net.add_event("e", 1.0, persistent="no"), "persistent='no' is not allowed"),
        (
            lambda net: net.rules.update(Z="A"),
            r"rules\['Z'\] = 'A' is .*: call add_rule\('Z', 'A'\)",
        ),
        (
            lambda net: net.rules.update(T=3),
            r"rules\['T'\] = 3 .*: del rules\['T'\], then call add_rule",
        ),
        (lambda net: setattr(net, "rules", {"Z": "A"}), r"call add_rule\('Z', 'A'\)"),
        (lambda net: net.rates.update(A="1"), r"call add_rate\('A', '1'\)"),
        (lambda net: net.reactions.append("A ->") or net.validate(), "'A ->' is not a reaction"),
        (lambda net: net.events.append(1) or net.validate(), "1 is not an event: call add_event"),
        (
            lambda net: net.add_event("e", 1.0, {"A": {}}),
            "e: assignment to A: a number or an expression is expected, not dict",
        ),
    ],
)
def test_values_of_another_type_are_named(call: Callable[[Network], None], said: str) -> None:
    net = Network("m")
    net.add_species("A", 1)
    net.add_rule("T", "2 * A")
    with pytest.raises(ModelError, match=said):
        call(net)


@pytest.mark.parametrize(("call", "said"), [(tauslab.read, "of a model"), (tauslab.open, "result")])
def test_only_a_path_is_opened(call: Callable[[object], object], said: str) -> None:
    with pytest.raises(ConfigError, match=f"{said}, not NoneType"):
        call(None)
