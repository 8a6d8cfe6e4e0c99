"""What moves a model besides reactions: bare equations, rate rules, events at given times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sbml_factory import mathml, model, parameter, reaction, read_text, species

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.formats.toml.network import read_toml_text
from tauslab.kernels.ode.lowering import OdeEvent, lower_ode, spans
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.diagnosis.check import require_support

VAN_DER_POL = """
t_end = 10
[parameters]
mu = 1.5
[species]
x = 2.0
y = -0.5
[rules]
x = "y"
y = "mu * (1 - x * x) * y - x"
energy = "x * x + y * y"
[[events]]
name = "kick"
time = "2 * mu"
assignments = {x = "x + 1", y = 0}
"""


def run(network, times, **options):
    settings = {"method": ts.ODE(rtol=1e-10, atol=1e-12), "seed": 1, "device": "cpu", "n": 1}
    return ts.run(network, times=times, **{**settings, **options})


def test_bare_equations_in_toml(tmp_path):
    network = read_toml_text(VAN_DER_POL, tmp_path / "oscillator.toml")
    assert list(network.rates) == ["x", "y"]
    assert list(network.rules) == ["energy"]
    with pytest.raises(ModelError, match="rate rules are not supported by tau"):
        require_support(network, "tau")
    require_support(network, "ssa")
    require_support(network, "ode")
    again = read_toml_text(canonical_text(network), tmp_path / "again.toml")
    assert (again.rates, again.events, again.features) == (
        network.rates,
        network.events,
        network.features,
    )
    assert model_sha256(again) == model_sha256(network)


def test_an_event_comes_before_the_sample_at_its_time(tmp_path):
    network = read_toml_text(VAN_DER_POL, tmp_path / "oscillator.toml")
    result = run(network, [2.999999, 3.0])
    x, y = result.amounts("x")[0], result.amounts("y")[0]
    assert x[1] == pytest.approx(x[0] + 1, abs=1e-4)
    assert y[1] == 0
    energy = np.asarray(result.data["observables"])[0, :, 0]
    assert energy == pytest.approx(x**2 + y**2)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (('x = "y"', 'x = "z"'), "rate rule for x: 'z' is not defined"),
        (("assignments = {x", "assignments = {q"), "event kick: 'q' is not a species"),
        (('"2 * mu"', '"2 * x"'), "event kick: its time may use parameters only, not 'x'"),
        (('x = "y"', 'x = {expression = "y", recorded = false}'), "recorded is for other rules"),
        (('time = "2 * mu"\n', ""), "the key time is missing"),
    ],
)
def test_mistakes_in_equations_are_named(tmp_path, edit, message):
    text = VAN_DER_POL.replace(*edit)
    assert text != VAN_DER_POL
    with pytest.raises(ModelError, match=message):
        run(read_toml_text(text, tmp_path / "m.toml"), [1.0])


def test_rate_rules_of_sbml_move_species_and_parameters(tmp_path):
    """A species in concentrations (volume 2) falls, a parameter grows, an event resets both."""
    rules = (
        f'<rateRule variable="X">{mathml("-0.5 * X")}</rateRule>'
        f'<rateRule variable="v">{mathml("2 * v")}</rateRule>'
    )
    event = (
        '<event id="reset" useValuesFromTriggerTime="true"><trigger initialValue="true" '
        f'persistent="true">{mathml("time >= 1")}</trigger><listOfEventAssignments>'
        f'<eventAssignment variable="X">{mathml("X + v")}</eventAssignment>'
        "</listOfEventAssignments></event>"
    )
    lists = {
        "listOfParameters": parameter("v", 1.0, constant=False),
        "listOfRules": rules,
        "listOfEvents": event,
    }
    start = species("X", 'initialConcentration="3"', only="false")
    text = model(species=start, listed=tuple(lists.items())).replace('size="1"', 'size="2"')
    network = read_text(tmp_path, text)
    require_support(network, "ode")
    volume = network.parameter_values()["c"]
    actual = run(network, [0.5, 1.0])
    x, v = actual.amounts("X")[0], actual.amounts("v")[0]
    assert v == pytest.approx(np.exp([1.0, 2.0]))
    assert x[0] == pytest.approx(3 * volume * np.exp(-0.25))
    assert x[1] == pytest.approx(volume * (3 * np.exp(-0.5) + np.exp(2.0)))


def test_what_equations_cannot_honour_is_refused(tmp_path):
    law = reaction("R", "factorial(X)", "X")
    network = read_text(tmp_path, model(species=species("X"), reactions=law))
    with pytest.raises(ModelError, match=r"reaction R: functions .* are not supported by ode"):
        require_support(network, "ode")


def test_a_reversible_law_that_does_not_split_is_a_net_rate(tmp_path):
    law = reaction("R", "(X - 4) ^ 3", "X", more='reversible="true" fast="false"')
    network = read_text(tmp_path, model(species=species("X"), reactions=law))
    with pytest.raises(ModelError, match="reversible"):
        require_support(network, "ssa")
    assert run(network, [50.0]).amounts("X")[0, 0] == pytest.approx(4.1, abs=0.01)


def test_the_limit_of_mass_action_does_not_change_hashes():
    network = ts.Network("pairs")
    network.add_species("X", 10)
    network.add_reaction("2 X ->", rate=0.5)
    assert "limit" in canonical_text(network)
    assert "limit" not in canonical_text(network, limits=False)
    again = read_toml_text(canonical_text(network), Path("again.toml"))
    assert again.reactions == network.reactions


LIMITED = """
[species]
X = 10
[[reactions]]
equation = "2 X ->"
law = "c * X * (X - 1)"
limit = "c * X ^ 2"
parameters = {c = 0.5}
"""


def test_a_law_has_a_limit_in_toml_and_in_python():
    network = read_toml_text(LIMITED, Path("x.toml"))
    network.validate()
    built = ts.Network("x")
    built.add_species("X", 10)
    built.add_reaction("2 X ->", law="c * X * (X - 1)", limit="c * X ^ 2", parameters={"c": 0.5})
    assert network.reactions == built.reactions
    assert 'limit = "R1_c * pow(X, 2.0)"' in canonical_text(built)
    # dx/dt = -2 c x^2
    end = run(built, [0, 1], method=ts.ODE(rtol=1e-9, atol=1e-12)).amounts("X")[0, -1]
    assert end == pytest.approx(10 / 11, rel=1e-7)


def test_a_rate_has_its_own_limit():
    with pytest.raises(ModelError, match="limit= needs law="):
        ts.Network("x").add_reaction("2 X ->", rate=1, limit="X ^ 2")


def test_spans_join_samples_and_events():
    cut = spans([0.0, 1.0, 2.0], [OdeEvent(0.5, ()), OdeEvent(1.0, ()), OdeEvent(3.0, ())])
    assert cut.end.tolist() == [0.0, 0.5, 1.0, 1.0, 2.0]
    assert cut.begin.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert cut.event.tolist() == [-1, 0, 1, -1, -1]
    assert cut.sample.tolist() == [0, -1, -1, 1, 2]


def test_events_at_the_start_never_come_and_may_not_vary():
    network = ts.Network("late")
    network.add_parameter("when", 0.0)
    network.add_species("X", 1.0)
    network.add_rate("X", "0 * X")
    network.add_event("jump", "when", {"X": 5})
    with pytest.warns(UserWarning, match="event jump never fires: its time is 0,"):
        assert run(network, [0.0, 1.0]).amounts("X").tolist() == [[1.0, 1.0]]
    with pytest.raises(ModelError, match="its time depends on when, which varies"):
        lower_ode(network, parameters={"when": 0.0}, varying=["when"])


def test_roots_that_start_at_zero():
    """Their slope is infinite there; dx/dt = 1 + x^0.4 + sqrt(x) all the same begins at 1."""
    network = ts.Network("roots")
    network.add_parameter("n", 0.4)
    network.add_species("x", 0)
    network.add_reaction("-> x", law="1 + x ^ n + sqrt(x)")
    actual = [
        run(network, [1.0], method=ts.ODE(solver=solver, rtol=1e-10, atol=1e-12)).amounts("x")[0, 0]
        for solver in ("rosenbrock", "dopri5")
    ]
    assert actual[0] == pytest.approx(actual[1], rel=1e-6)
