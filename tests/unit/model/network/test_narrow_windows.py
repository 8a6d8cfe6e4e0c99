"""Steps do not pass over narrow pulses of what equations move, or a run warns of them."""

from dataclasses import replace

import numpy as np
import pytest

import tauslab as ts
from tauslab.model.network.diagnosis.narrow_windows import narrow_windows


def moved(law: str, rate: str = "1", *, reset: bool = True) -> ts.Network:
    net = ts.Network("moved")
    net.add_species("X", 0)
    net.add_species("V", 0 if reset else 10)
    net.add_rate("V", rate)
    net.add_reaction("-> X", law=law)
    if reset:
        net.add_event("reset", trigger="V >= 10", assignments={"V": "0"})
    return net


PULSE = "564.18958354776 * exp(-(({0} - 5) / 0.1)^2)"  # of integral 100
WINDOW = "if({0} > 5 && {0} < 5 + w, 100 / w, 0)"


@pytest.mark.parametrize("law", [PULSE.format("V"), "if(abs(V - 5) < 0.01, 10, 0)"])
@pytest.mark.parametrize(("rate", "reset"), [("1 + V / 9", True), ("-V", False)])
def test_narrow_windows_are_reported(law: str, rate: str, reset: bool) -> None:
    net = moved(law, rate, reset=reset)
    (message,) = narrow_windows(net, net.parameter_values())
    assert "within a short way of V" in message
    assert not narrow_windows(net, net.parameter_values(), seen=True)
    assert message not in net.check()


@pytest.mark.parametrize(
    ("law", "number"),
    [
        ("floor(V) - floor(V - 0.01)", 1),
        ("floor(V) + -2 * ceil(V)", 1),
        ("floor(V)", 0),
        ("V - floor(V)", 0),
        ("floor(V) + ceil(V / 2)", 0),
        ("-(floor(V) / -2) + ceil(V)", 0),
    ],
)
def test_a_difference_of_rounded_quantities_is_reported(law: str, number: int) -> None:
    net = moved(law, "1 + V / 9")
    assert len(narrow_windows(net, net.parameter_values())) == number
    assert len(narrow_windows(net, net.parameter_values(), seen=True)) == number


@pytest.mark.parametrize(
    "law", ["if(V > 5, 10, 0)", "if(V > 5 && V < 5.001, 10, 0)", "V", "exp(-((V - 5) / 3)^2)"]
)
def test_what_steps_see_is_not_told(law: str) -> None:
    net = moved(law, "1 + V / 9")
    assert not narrow_windows(net, {})


def spent(law: str) -> ts.Network:
    """A falls at a constant rate through 5; B is made there."""
    net = ts.Network("spent")
    net.add_species("A", 10)
    net.add_species("B", 0)
    net.add_parameter("w", 0.0001)
    net.add_reaction("A ->", law="1.0")
    net.add_reaction("-> B", law=law)
    return net


@pytest.mark.parametrize("method", [ts.ODE(solver="rk4", substeps=5), "tau"])
def test_a_run_that_may_pass_over_narrow_pulses_warns(method: object) -> None:
    net = spent(PULSE.format("A"))
    if method == "tau":
        net = moved(PULSE.format("V"), "-V", reset=False)
    with pytest.warns(UserWarning, match="a short way of [AV], .* steps may pass over"):
        ts.run(net, times=[9.0], n=1, method=method, device="cpu")


@pytest.mark.parametrize("solver", ["dopri5", "rosenbrock"])
def test_equations_do_not_pass_over_narrow_pulses_of_amounts(solver: str) -> None:
    net = spent("exp(-((A - p) / w)^2) / (1.7724538509055159 * w)")
    net.add_parameter("p", 5)
    chosen = {"times": [9.0], "method": ts.ODE(solver=solver), "device": "cpu"}
    actual = ts.run(net, sweep={"p": [2, 5], "w": [0.1, 0.0001]}, **chosen)
    assert actual.mean("B") == pytest.approx(np.ones((4, 1)), rel=1e-4)


def test_each_of_several_pulses_is_narrow_or_not() -> None:
    two = f"{PULSE.format('A')} + {PULSE.format('(A + 4)')}"
    actual = ts.run(spent(two), method="ode", n=1, times=[0, 9.9], device="cpu", quiet=True)
    np.testing.assert_allclose(actual.amounts("B")[:, -1], 200, rtol=1e-3)
    for law, many in ((two, 1), ("exp(-((A + 90) / 30)^2)", 0), ("exp(-((A - 40) / 9)^2)", 0)):
        net = spent(law)
        assert len(narrow_windows(net, net.parameter_values(), flowing={"A"})) == many


@pytest.mark.parametrize("by", ["rates", "reactions"])
def test_jumps_beside_equations_follow_narrow_pulses(by: str) -> None:
    """100 jumps in the mean, of 50 trajectories; a false alarm in 15,000."""
    if by == "rates":
        net, name, method = moved(PULSE.format("V"), "-1", reset=False), "X", "ssa"
    else:
        net, name = spent(PULSE.format("A")), "B"
        net.reactions[0] = replace(net.reactions[0], name="fall")
        method = ts.Partitioned(ode="fall", jump="*", pilot=0)
    net.add_reaction("-> 0 X" if by == "rates" else "-> 0 B", rate=1.0)
    result = ts.run(net, times=[9.0], n=50, seed=1, method=method, device="cpu")
    assert result.mean(name)[0] == pytest.approx(100, abs=4 * (100 / 50) ** 0.5)


def test_steps_do_not_pass_over_windows_of_amounts() -> None:
    result = ts.run(spent(WINDOW.format("A")), times=[9.0], method="ode", device="cpu")
    assert result.mean("B")[0] == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("method", ["ode", "ssa"])
def test_events_come_within_narrow_windows(method: str) -> None:
    net = moved("0.0", "1 + V / 9")
    net.add_species("passed", 0)
    net.add_event("passes", trigger="V > 5 && V < 5.0001", assignments={"passed": "passed + 1"})
    result = ts.run(net, times=[20.0], method=method, n=1, seed=1, device="cpu")
    assert result.mean("passed").tolist() == [3]  # a round takes 9 log(19 / 9)


@pytest.mark.parametrize("clock", ["V", "(time - B)"])
@pytest.mark.parametrize("law", [WINDOW, PULSE])
def test_steps_end_at_windows_of_clocks_that_events_set(clock: str, law: str) -> None:
    net = moved(law.format(clock))
    net.add_parameter("w", 0.001)
    if clock != "V":
        net.add_species("B", 0, fixed=True)
        net.add_event("begin", trigger="V >= 10", assignments={"B": "time"})
    for method, n, error in (("ode", 1, 0.05), ("ssa", 20, 4 * (300 / 20) ** 0.5)):
        result = ts.run(net, times=[9.0, 29.0], method=method, n=n, seed=1, device="cpu")
        assert result.mean("X").tolist() == pytest.approx([100, 300], abs=error)  # 1 in 15,000
        if law == PULSE:
            assert result.attributes["clocks"] == "set by events"
    assert not any("pass over" in line for line in net.check())


def test_clocks_without_resets_have_known_windows() -> None:
    net = moved("if(V > 5 && V < 5.001, 1000, 0)", "-0.1", reset=False)
    assert not narrow_windows(net, {})


@pytest.mark.parametrize(
    ("line", "slope"), [("A + C - 1004.5", 2), ("2 * A + C - 1505.5", 3), ("A * C / 1e3 - 252", 1)]
)
def test_equations_do_not_pass_over_narrow_pulses_of_several_amounts(line: str, slope: int) -> None:
    """Amounts rise by 1 each: the integral of a pulse is that over u, divided by the slope of u."""
    net = ts.Network("risen")
    for name in "AC":
        net.add_species(name, 500)
        net.add_reaction(f"-> {name}", rate=1.0)
    net.add_species("B", 0)
    net.add_reaction("-> B", law=f"100 * exp(-(({line}) / 0.01)^2)")
    actual = ts.run(net, method="ode", t_end=10, points=3, device="cpu")
    area = 100 * 0.01 * np.sqrt(np.pi)
    assert actual.amounts("B")[0, -1] == pytest.approx(area / slope, rel=5e-3)
    with pytest.warns(UserWarning, match="within a short way of"):
        ts.run(net, method=ts.ODE(solver="rk4", substeps=5), t_end=10, points=3, device="cpu")


@pytest.mark.filterwarnings("ignore:initial amounts that are not whole were rounded")
@pytest.mark.parametrize("method", ["ssa", "ode"])
@pytest.mark.parametrize(("start", "rate", "held"), [(10.1, 0.3, 7.1), (10.3, 0.7, 7.1)])
def test_steps_end_at_pulses_of_a_clock_beside_a_species_that_nothing_changes(
    method: str, start: float, rate: float, held: float
) -> None:
    """100 / rate in the mean of 50 trajectories; four cases, a false alarm in 4,000.

    The clock reaches no number exactly, so that steps could end ever nearer to it. Counts are
    rounded.
    """
    net = ts.Network("clock")
    net.add_species("X", 0)
    net.add_species("V", start, fixed=True)
    net.add_rate("V", f"-{rate}")
    net.add_species("W", held)
    height = 100 / (1e-3 * np.sqrt(np.pi))
    net.add_reaction("-> X", law=f"{height} * exp(-((V + W - {start + 5.23}) / 1e-3)^2)")
    many = {"n": 50, "seed": 1} if method == "ssa" else {}
    result = ts.run(net, times=[9.0], method=method, device="cpu", max_steps=10_000, **many)
    assert result.mean("X")[0] == pytest.approx(100 / rate, abs=4 * (100 / rate / 50) ** 0.5)


SQUARE_ROOT_OF_PI = np.sqrt(np.pi)


@pytest.mark.parametrize(
    ("law", "area"),
    [
        ("exp(-(A - 5) * (A - 5) / 1e-4)", 1e-2 * SQUARE_ROOT_OF_PI),
        ("exp(-(2 * A - 2 * p) * (A - p) / 2e-4)", 1e-2 * SQUARE_ROOT_OF_PI),
        ("exp((p - A) * (A - p) / w^2)", 1e-4 * SQUARE_ROOT_OF_PI),
        ("exp(-(A * A - 10 * A + 25) / 1e-4)", 1e-2 * SQUARE_ROOT_OF_PI),
        ("exp(-(log(A) - log(5))^2 / 1e-6)", 5e-3 * np.exp(1e-6 / 4) * SQUARE_ROOT_OF_PI),
        ("exp(-abs(A - 5) / 1e-3)", 2e-3),
        ("1 / cosh((A - 5) / 1e-3)", 1e-3 * np.pi),
        ("tanh((A - 5) / 1e-3) - tanh((A - 5.01) / 1e-3)", 0.02),
        ("exp(-(A + C - 12) * (A + C - 12) / 1e-4)", 1e-2 * SQUARE_ROOT_OF_PI),  # C stays 7
        ("exp(-(A + D - 15) * (15 - D - A) / -1e-4)", 1e-2 * SQUARE_ROOT_OF_PI / 3),
        ("exp(-(A + D - p - 10) * (A + D - p - 10) / 1e-4)", 1e-2 * SQUARE_ROOT_OF_PI / 3),
    ],
)
@pytest.mark.parametrize("swept", [False, True])
def test_pulses_are_seen_however_they_are_written(law: str, area: float, swept: bool) -> None:
    """A falls from 10 by 1, and D from 20 by 2: the integral over the time, by hand."""
    net = spent(law)
    net.add_parameter("p", 5)
    net.add_species("C", 7)
    net.add_species("D", 20)
    net.add_reaction("D ->", law="2.0")
    chosen = {"times": [9.0], "method": "ode", "device": "cpu"}
    if not swept:
        assert ts.run(net, **chosen).mean("B")[-1] == pytest.approx(area, rel=1e-3)
    elif "w" not in law:
        actual = ts.run(net, sweep={"p": [4.5, 5], "w": [1, 2]}, **chosen)
        assert actual.mean("B")[:, -1] == pytest.approx(area, rel=1e-3)
    else:
        with pytest.warns(UserWarning, match="within a short way of A"):
            ts.run(net, sweep={"w": [1e-4, 1e-3]}, **chosen)


@pytest.mark.parametrize(
    ("law", "narrow"),
    [
        ("exp(-(A - 5) * (A - 5) / 1e-4 - (D - 10) * (D - 10))", True),
        ("exp(-(A / D - 0.25)^2 / 1e-6)", True),
        ("exp(-((A - time) / 0.01)^2)", True),
        ("exp(-((A - k * D / 4) / 0.01)^2 / k)", True),
        ("exp(-(A / D - 0.5)^2)", False),
        ("exp(-(ln(A) - ln(D))^2)", False),
        ("exp(-((A - time) / 9)^2)", False),
        ("exp(-A * D / 30)", False),
        ("(A / D)^40 / (1 + (A / D)^40)", False),
    ],
)
def test_narrow_pulses_of_two_quantities_are_reported(law: str, narrow: bool) -> None:
    net = spent(law)
    net.add_species("D", 20)
    net.add_parameter("k", 1.0)
    net.add_event("later", time=8, assignments={"k": 2})
    net.add_reaction("D ->", law="2.0")
    told = narrow_windows(net, net.parameter_values(), flowing={"A", "B", "D"}, seen=True)
    assert [("within a short way of A" in line) for line in told] == [True] * narrow
    flows = narrow_windows(net, net.parameter_values(), flowing={"A", "B"}, seen=True)  # D jumps
    assert len(flows) == narrow
