"""When SBML events come, in what order, and what they set."""

from __future__ import annotations

import numpy as np
import pytest
from sbml_factory import mathml, model, parameter, read_text, species

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.sbml.event_order import switch_times
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.network.diagnosis.check import require_support
from tauslab.model.network.network import Event

AFTER = 1 + 2.0**-52


def event(name, trigger, values, *, more="", use="true", initial="true"):
    assignments = "".join(
        f'<eventAssignment variable="{target}">{mathml(formula)}</eventAssignment>'
        for target, formula in values.items()
    )
    return (
        f'<event id="{name}" useValuesFromTriggerTime="{use}"><trigger initialValue="{initial}" '
        f'persistent="true">{mathml(trigger)}</trigger>{more}'
        f"<listOfEventAssignments>{assignments}</listOfEventAssignments></event>"
    )


def delay(formula):
    return f"<delay>{mathml(formula)}</delay>"


def priority(formula):
    return f"<priority>{mathml(formula)}</priority>"


def network_of(tmp_path, *events, starts=(("x", 1.0), ("y", 2.0), ("T", 3.0))):
    values = "".join(parameter(name, value, constant=name == "T") for name, value in starts)
    lists = (("listOfParameters", values), ("listOfEvents", "".join(events)))
    return read_text(tmp_path, model(species=species("S", only="false"), listed=lists))


def coming(network):
    """Times and assigned values of events that come, with the parameters' values."""
    values = network.parameter_values()
    times = [(evaluate(actual.time, values), dict(actual.assignments)) for actual in network.events]
    return [pair for pair in times if pair[0] > 0]


@pytest.mark.parametrize(
    ("trigger", "times"),
    [
        ("time >= 5", [5.0]),
        ("time > 5", [5 * AFTER]),  # at 5 itself it is not true yet
        ("5 < time", [5 * AFTER]),
        ("time > 0", [1e-30]),
        ("time >= 0", []),
        ("time < 5", []),
        ("time == 20", [20.0]),
        ("T - time <= 0", [3.0]),
        ("time / 60 >= 2", [120.0]),
        ("and(time >= 5, time <= 20)", [5.0]),
        ("and(time >= T, time < 2)", []),
        ("and(time > T, time < 9)", [3 * AFTER]),
        ("or(and(time > 9, time < 11), and(time > 14, time < 16))", [9 * AFTER, 14 * AFTER]),
        ("or(time < 3, time >= 5)", [5.0]),
        ("or(time >= 3, time >= T)", [3.0]),  # once, although two relations change
        ("and(T == 3, time >= 4)", [4.0]),
        ("and(T == 2, time >= 4)", []),
        ("x > 2", None),
        ("and(time > 5, x > 2)", None),
        ("sin(time) > 0", None),
    ],
)
def test_times_at_which_a_trigger_turns_true(trigger, times):
    actual = switch_times(parse(trigger), {"T"})
    values = {"T": 3.0}
    assert times is None or actual is not None
    if actual is not None:
        assert [t for tree in actual if (t := evaluate(tree, values)) > 0] == times
    else:
        assert times is None


def test_delays(tmp_path):
    actual = network_of(
        tmp_path,
        event("a", "time >= 2", {"x": "y + 1"}, more=delay("0")),
        event("b", "time >= 2", {"y": "T"}, more=delay("T / 2")),
        event("d", "time >= 2", {"S": "x"}, more=delay("4"), use="false"),
    )
    require_support(actual, "ode")
    assert [time for time, _ in coming(actual)] == [2.0, 3.5, 6.0]
    kept = network_of(tmp_path, event("a", "time >= 2", {"x": "x + 1"}, more=delay("4")))
    assert kept.events == [
        Event("a", parse("time >= 2"), {"x": parse("x + 1")}, delay=parse("4"))
    ]  # no time tells what x was before


def test_a_trigger_that_is_true_from_the_start_does_not_come_late(tmp_path):
    """It turned true at -1, where no event is: its delay does not bring it to 2."""
    actual = network_of(tmp_path, event("a", "time >= -1", {"x": "7"}, more=delay("3")))
    assert coming(actual) == []


@pytest.mark.parametrize(
    ("trigger", "more"),
    [
        ("time > factorial(T)", ""),
        ("factorial(T) < time", ""),
        ("time >= 2", delay("factorial(T)")),
        ("time >= 2", priority("factorial(T)")),
    ],
)
def test_what_an_event_cannot_compute_is_refused(tmp_path, trigger, more):
    """And is no event that never comes, or comes in any order."""
    actual = network_of(tmp_path, event("a", trigger, {"x": "7"}, more=more))
    with pytest.raises(ModelError, match="event a: functions outside"):
        require_support(actual, "ode")


def test_a_parameter_called_time_is_not_the_time(tmp_path):
    text = event("a", "T >= 2", {"x": "7"}).replace("<ci> T </ci>", "<ci> time </ci>")
    assert "<ci> time </ci>" in text
    actual = network_of(tmp_path, text, starts=(("x", 1.0), ("time", 3.0)))
    with pytest.raises(ModelError, match="event a: events are not supported by ode"):
        require_support(actual, "ode")


def test_values_of_simultaneous_events_are_those_before_any(tmp_path):
    """Two events exchange values; of two that read late the second finds what the first set."""
    early = network_of(
        tmp_path,
        event("a", "time >= 1", {"x": "y"}),
        event("b", "time >= 1", {"y": "x"}),
    )
    result = ts.run(early, method="ode", n=1, times=[0.5, 1.0, 2.0], seed=1, device="cpu")
    assert result.amounts("x")[0].tolist() == [1.0, 2.0, 2.0]
    assert result.amounts("y")[0].tolist() == [2.0, 1.0, 1.0]
    late = network_of(
        tmp_path,
        event("a", "time >= 1", {"x": "y"}, use="false"),
        event("b", "time >= 1", {"y": "x + 1"}, use="false", more=priority("1")),
    )
    assert [list(values) for _, values in coming(late)] == [["y"], ["x"]]  # by priority


def test_the_higher_priority_comes_first(tmp_path):
    actual = network_of(
        tmp_path,
        event("first", "time >= 1", {"x": "10"}, more=priority("2")),
        event("last", "time >= 1", {"x": "20"}, more=priority("1")),
    )
    assert [float(values["x"].value) for _, values in coming(actual)] == [20.0]


def test_order_that_is_not_known_is_left_to_the_run(tmp_path):
    """Where it is chance, computed, or mixed with values that are read late."""
    second = (
        event("b", "time >= T", {"y": "x"}),
        event("b", "time >= 3", {"y": "x"}, use="false"),
        event("b", "time >= 3", {"x": "2"}),
        event("b", "time >= 3", {"x": "2"}, more=priority("y")),
    )
    for other in second:
        actual = network_of(tmp_path, event("a", "time >= 3", {"x": "y"}), other)
        assert [type(one) for one in actual.events] == [Event, Event]
        require_support(actual, "ode")
        require_support(actual, "ssa")
        require_support(actual, "tau")


def test_events_that_only_values_of_the_run_put_at_one_time_are_refused(tmp_path):
    """In SBML x ends as 1, of the lower priority, and y and z are exchanged."""
    moved = network_of(
        tmp_path,
        event("low", "time >= T", {"x": "1"}, more=priority("1")),
        event("high", "time >= 1", {"x": "2"}, more=priority("10")),
    )
    exchanged = network_of(
        tmp_path, event("a", "time >= T", {"x": "y"}), event("b", "time >= 1", {"y": "x"})
    )
    both = "both come at time 1 with the values of this run"
    for network in (moved, exchanged):
        for method in ("ode", "ssa"):
            with pytest.raises(ModelError, match=both):
                ts.run(network, method=method, n=1, times=[0, 2], seed=1, set={"T": 1.0})
        with pytest.raises(ModelError, match=both):
            ts.run(network, method="ode", times=[0, 2], sweep={"T": [1.0, 2.0]})
        with pytest.warns(UserWarning, match="the run ends at 0.5"):
            ts.run(network, method="ode", n=1, times=[0, 0.5], seed=1, set={"T": 1.0})
    alone = network_of(
        tmp_path, event("a", "time >= T", {"x": "5"}), event("b", "time >= 1", {"y": "6"})
    )
    result = ts.run(alone, method="ode", n=1, times=[0, 2], seed=1, set={"T": 1.0})
    assert result.amounts(["x", "y"])[0, -1].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("rule", "events"),
    [  # the size 1 + time, when the value is computed and when it is set
        ("1 + time", (event("a", "time >= 1", {"S": "3"}, more=delay("2")),)),
        ("1 + y", (event("a", "time >= 1", {"S": "3"}, more=delay("2")),)),
        (
            "y",  # the size is 5 when the second sets 3: an amount of 15, not of 6
            (
                event("a", "time >= 1", {"y": "5"}, more=priority("2")),
                event("b", "time >= 1", {"S": "3"}, more=priority("1")),
            ),
        ),
    ],
)
def test_a_concentration_kept_while_a_rule_moves_the_size_is_refused(tmp_path, rule, events):
    rules = f'<assignmentRule variable="c">{mathml(rule)}</assignmentRule>'
    rules += f'<rateRule variable="y">{mathml("0")}</rateRule>'
    lists = (
        ("listOfParameters", parameter("y", 2.0, constant=False)),
        ("listOfRules", rules),
        ("listOfEvents", "".join(events)),
    )
    text = model(species=species("S", only="false"), listed=lists)
    network = read_text(tmp_path, text.replace('size="1" constant="true"', 'constant="false"'))
    with pytest.raises(ModelError, match="it keeps a concentration of S"):
        require_support(network, "ode")


def test_a_sample_at_the_time_of_a_strict_trigger_is_the_state_before(tmp_path):
    """And an event just after time 0 comes; a parameter that events set may be negative."""
    actual = network_of(
        tmp_path,
        event("a", "time > 2", {"x": "5"}),
        event("b", "time >= 2", {"y": "7"}),
        event("d", "time > 0", {"z": "z + 1"}),
        starts=(("x", 1.0), ("y", 2.0), ("z", -4.0)),
    )
    result = ts.run(actual, method="ode", n=1, times=[0.0, 2.0, 3.0], seed=1, device="cpu")
    assert result.amounts(["x", "y", "z"])[0].T.tolist() == [[1, 1, 5], [2, 7, 7], [-4, -3, -3]]


def test_concentrations_in_a_compartment_that_moves(tmp_path):
    """dc/dt = 0.5 in a compartment that grows by 0.1, then an event sets both."""
    rules = (
        f'<rateRule variable="S">{mathml("0.5")}</rateRule>'
        f'<rateRule variable="c">{mathml("0.1")}</rateRule>'
    )
    lists = (
        ("listOfRules", rules),
        ("listOfEvents", event("a", "time >= 3", {"c": "4", "S": "2"})),
    )
    start = species("S", 'initialConcentration="3"', only="false")
    text = model(species=start, listed=lists).replace(
        'size="1" constant="true"', 'size="2" constant="false"'
    )
    result = ts.run(
        read_text(tmp_path, text), method="ode", n=1, times=[2.0, 3.0], seed=1, device="cpu"
    )
    size, amount = result.amounts("c")[0], result.amounts("S")[0]
    assert size == pytest.approx([2.2, 4.0])
    assert amount == pytest.approx([(3 + 0.5 * 2) * 2.2, 2 * 2.3])  # by the size before


def test_a_rate_constant_may_follow_the_time_and_be_negative(tmp_path):
    rules = f'<assignmentRule variable="x">{mathml("1 + time")}</assignmentRule>'
    laws = (
        f'<reaction id="R" reversible="false" fast="false"><listOfReactants><speciesReference '
        f'species="S" stoichiometry="1" constant="true"/></listOfReactants><kineticLaw>'
        f"{mathml('-x * S')}</kineticLaw></reaction>"
    )
    lists = (
        ("listOfParameters", parameter("x", constant=False)),
        ("listOfRules", rules),
    )
    text = model(species=species("S"), listed=lists, reactions=laws)
    result = ts.run(read_text(tmp_path, text), method="ode", n=1, times=[1.0], seed=1, device="cpu")
    assert result.amounts("S")[0, 0] == pytest.approx(10 * np.exp(1.5), rel=1e-5)
