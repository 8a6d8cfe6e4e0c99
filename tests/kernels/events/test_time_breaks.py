"""Pulses of the time alone: no step passes over one, however few the samples are.

Numbers are Poisson with a known mean; a test of 2,000 fails by chance with a probability of 6e-7.
"""

import math

import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.runner.ensemble.breaks import BreaksAhead

PULSES = {  # laws, and their integrals from 0 to 100
    "if(time - 10 * floor(time / 10) < 0.1, 100, 0)": 100.0,
    "2e6 * (abs(time - 40.01) < 1.25e-5)": 50.0,
    "100 * (sin(time) > 0.99)": 452.926,
    "50 * exp(-((time - 50) / 0.1) ^ 2)": 5 * math.sqrt(math.pi),
    "max(0, 2e8 * (0.0005 - abs(time - 40.01)))": 50.0,
}


def pulsed(law: str) -> ts.Network:
    net = ts.Network("pulsed")
    net.add_species("X", 0)
    net.add_parameter("width", 0.1)
    net.add_reaction("-> X", law=law)
    return net


@pytest.mark.parametrize(
    ("law", "method"),
    ordinary(
        [*((law, "ssa") for law in PULSES), (next(iter(PULSES)), "tau")],
        *((law, "ssa") for law in list(PULSES)[1::2]),
        (next(iter(PULSES)), "tau"),
    ),
)
def test_no_step_passes_over_a_pulse(law: str, method: str) -> None:
    result = ts.run(pulsed(law), n=2000, times=[100.0], method=method, seed=1, device="cpu")
    mean = PULSES[law]
    assert abs(result.mean("X")[0] - mean) < 5 * math.sqrt(mean / 2000)
    assert result.variance("X")[0] == pytest.approx(mean, rel=5 * math.sqrt(2 / 2000) + 1 / mean)


@pytest.mark.parametrize(
    ("law", "solver"),
    ordinary(
        [(law, solver) for law in PULSES for solver in ("dopri5", "rosenbrock")],
        (list(PULSES)[2], "dopri5"), (next(iter(PULSES)), "rosenbrock"),
    ),
)  # fmt: skip
def test_equations_have_the_integral_of_a_pulse(law: str, solver: str) -> None:
    method = ts.ODE(solver=solver)
    result = ts.run(pulsed(law), times=[100.0], method=method, device="cpu")
    assert result.amounts("X")[0, 0] == pytest.approx(PULSES[law], rel=1e-4)


def test_a_trigger_of_the_time_alone_is_seen() -> None:
    net = pulsed("0")
    net.add_event("kick", trigger="sin(time) > 0.999", assignments={"X": "X + 1"})
    for method in ("ssa", "tau", "ode"):
        result = ts.run(net, n=1, times=[100.0], method=method, seed=1, device="cpu")
        assert result["X"][0, 0] == 16


def test_pulses_of_a_swept_width_begin_in_time_and_are_reported() -> None:
    net = pulsed("if(time - 10 * floor(time / 10) < width, 100, 0)")
    with pytest.warns(UserWarning, match="at times that are too many or differ"):
        result = ts.run(
            net, n=2000, times=[100.0], sweep={"width": [0.1, 0.2]}, seed=1, device="cpu"
        )
    for mean, got in zip([100.0, 200.0], result.mean("X")[:, 0], strict=True):
        assert abs(got - mean) < 5 * math.sqrt(mean / 2000)


@pytest.mark.parametrize("method", ["tau", "ode"])
def test_no_smooth_pulse_at_swept_times_is_passed_over(method: str) -> None:
    net = pulsed("50 * exp(-((time - 500 * width) / 0.1) ^ 2)")
    n, mean = 1 if method == "ode" else 2000, 5 * math.sqrt(math.pi)
    swept = {"n": n, "times": [100.0], "method": method, "seed": 1, "device": "cpu"}
    result = ts.run(net, sweep={"width": [0.05, 0.1]}, **swept)
    for actual in result.mean("X")[:, 0]:
        assert abs(actual - mean) < (1e-3 * mean if method == "ode" else 5 * math.sqrt(mean / n))


def test_no_smooth_pulse_at_a_drawn_time_is_passed_over() -> None:
    net = pulsed("50 * exp(-((time - p) / 0.1) ^ 2)")
    net.add_parameter("p", "uniform(20, 80)")
    actual = ts.run(net, n=2000, times=[100.0], seed=1, device="cpu").mean("X")[0]
    mean = 5 * math.sqrt(math.pi)
    assert abs(actual - mean) < 5 * math.sqrt(mean / 2000)


def test_smooth_pulses_that_are_no_function_of_one_line_are_reported() -> None:
    net = pulsed("50 * exp(-((time - 50) / width) ^ 2 * time / 50)")
    with pytest.warns(UserWarning, match="differ between trajectories"):
        ts.run(net, times=[100.0], sweep={"width": [0.1, 0.2]}, method="ode", device="cpu")


def test_equations_pass_over_no_pulse_whose_two_ends_are_swept() -> None:
    both = pulsed("if(time > 40 * width && time < 41 * width, 100, 0)")
    swept = {"times": [100.0], "sweep": {"width": [1.0, 2.0]}, "device": "cpu"}
    actual = ts.run(both, method=ts.ODE(solver="dopri5"), **swept)
    assert actual.mean("X")[:, 0] == pytest.approx([100.0, 200.0], rel=1e-5)
    with pytest.warns(UserWarning, match="differ between trajectories"):
        ts.run(both, method=ts.ODE(solver="rk4"), **swept)
    one = pulsed("if(time > 40 && time < 41 * width, 100, 0)")  # its begin is known
    actual = ts.run(one, method=ts.ODE(solver="dopri5"), **swept)
    assert actual.mean("X")[:, 0] == pytest.approx([100.0, 4200.0], rel=1e-3)


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_particles_pass_over_no_pulse_of_their_own(method: str) -> None:
    net = pulsed("50 * exp(-((time - 500 * width) / 0.1) ^ 2)")
    centres = [0.02 + 0.16 * i / 1999 for i in range(2000)]
    particles = ts.Ensemble(net, 2000, seed=1, method=method, device="cpu", set={"width": centres})
    particles.advance(30.0)
    particles.advance(100.0)
    actual, mean = particles.values("X"), 5 * math.sqrt(math.pi)
    assert abs(float(actual.mean()) - mean) < 5 * math.sqrt(mean / 2000)
    if method == "ode":
        assert abs(actual - mean).max() < 1e-3 * mean


@pytest.mark.parametrize(
    ("law", "method"),
    ordinary(
        [(law, method) for law in PULSES for method in ("ssa", "ode")],
        *zip(PULSES, ["ode", "ssa", "ode", "ssa", "ode"], strict=True),
    ),
)
def test_particles_pass_over_no_pulse(law: str, method: str) -> None:
    n = 2000 if method == "ssa" else 1
    particles = ts.Ensemble(pulsed(law), n, seed=1, method=method, device="cpu")
    particles.advance(30.0)
    particles.advance(100.0)
    error = 5 * math.sqrt(PULSES[law] / n) if method == "ssa" else 1e-3 * PULSES[law]
    assert abs(float(particles.values("X").mean()) - PULSES[law]) < error


CLOCKED = ("if(V > 110 && V < 110.1, 2000, 0)", "50 * exp(-((V - 110) / 0.2) ^ 2)")


@pytest.mark.parametrize(
    ("law", "method"),
    ordinary(
        [(law, method) for law in CLOCKED for method in ("ssa", "tau", "ode")],
        (CLOCKED[0], "ssa"), (CLOCKED[1], "tau"), (CLOCKED[1], "ode"),
    ),
)  # fmt: skip
def test_no_pulse_of_a_clock_is_passed_over(law: str, method: str) -> None:
    """V = 10 + 2 time, by an equation: the laws are pulses of the time at 50."""
    net = pulsed(law)
    net.add_species("V", "100 * width")
    net.add_rate("V", "20 * width")
    mean = 100.0 if law == CLOCKED[0] else 5 * math.sqrt(math.pi)
    n = 1 if method == "ode" else 2000
    actual = float(
        ts.run(net, n=n, times=[100.0], method=method, seed=1, device="cpu").mean("X")[0]
    )
    assert abs(actual - mean) < (1e-3 * mean if method == "ode" else 5 * math.sqrt(mean / n))


def test_pulses_of_clocks_with_swept_starts_are_reported() -> None:
    net = pulsed(CLOCKED[0])
    net.add_species("V", 10)
    net.add_rate("V", "2")
    with pytest.warns(UserWarning, match="V jumps or has pulses, at times that .* differ"):
        ts.run(net, times=[100.0], sweep={"V": [10, 20]}, method="ode", device="cpu")
    for method, start in (("ode", {"V": 20}), ("ssa", {"V": 20}), ("ssa", {})):
        particles = ts.Ensemble(net, 4, seed=1, method=method, device="cpu", set=start)
        if not start:
            particles.advance(1.0)
            particles.set(V=20)
        with pytest.warns(UserWarning, match="V jumps or has pulses at times that particles do"):
            particles.advance(100.0)


def test_a_clock_that_sets_off_an_event_once_needs_no_warning() -> None:
    net = pulsed("width")
    net.add_species("V", 10)
    net.add_rate("V", "2")
    net.add_event("once", trigger="V >= 50", assignments={"X": "V"})
    actual = ts.run(net, times=[100.0], sweep={"V": [10, 30]}, method="ode", device="cpu").mean("X")
    assert actual.ravel().tolist() == pytest.approx([58.0, 59.0], rel=1e-5)


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_no_pulse_of_an_earlier_time_is_passed_over(method: str) -> None:
    net = pulsed("delay(pulse, 200 * width)")
    net.add_rule("pulse", "50 * exp(-((time - 30) / 0.1) ^ 2)")
    n, mean = 1 if method == "ode" else 2000, 5 * math.sqrt(math.pi)
    actual = float(
        ts.run(net, n=n, times=[100.0], method=method, seed=1, device="cpu").mean("X")[0]
    )
    assert abs(actual - mean) < (1e-3 * mean if method == "ode" else 5 * math.sqrt(mean / n))


def test_cells_pass_over_no_pulse() -> None:
    net = pulsed("50 * exp(-((time - 50) / 0.1) ^ 2)")
    net.add_event("divide", trigger="X >= 1000000", assignments={"X": 0})
    actual = ts.population(net, times=[100.0], division="divide", cells=500, seed=1)
    mean = 5 * math.sqrt(math.pi)
    assert abs(actual.snapshots[0].mean("X") - mean) < 5 * math.sqrt(mean / 500)


@pytest.mark.filterwarnings("ignore:initial amounts that are not whole")
@pytest.mark.parametrize(
    ("amount", "method"), [(2.0, "ssa"), (1.5, "ssa"), (1.5, "tau"), (2.0, "ode"), (1.5, "ode")]
)
def test_a_species_that_nothing_changes_moves_a_pulse(amount: float, method: str) -> None:
    """It need not be fixed; amounts are rounded for methods of counts."""
    net = pulsed("5000 * exp(-((time - 3 * S) / 0.001) ^ 2)")
    net.add_species("S", amount)
    n = 1 if method == "ode" else 5000
    result = ts.run(net, n=n, times=[10.0], method=method, seed=1, device="cpu")
    mean = 5 * math.sqrt(math.pi)
    error = 1e-4 * mean if method == "ode" else 5 * math.sqrt(mean / n)
    assert abs(float(result.mean("X")[0]) - mean) < error


def test_particles_tell_which_pulses_they_do_not_know() -> None:
    net = pulsed("if(time - 10 * floor(time / 10) < width, 100, 0)")
    particles = ts.Ensemble(
        net, 10, seed=1, set={"width": [0.1 + 0.01 * i for i in range(10)]}, device="cpu"
    )
    with pytest.warns(UserWarning, match="that particles do not know"):
        particles.advance(1.0)
    for law in ("if(time - p * floor(time / p) < 0.1, 100, 0)", "9 * exp(-(time - p) ^ 2 / w)"):
        drawn = pulsed(law)
        drawn.add_parameter("p", "uniform(5, 10)")
        drawn.add_parameter("w", "lognormal(-7, 1)")
        with pytest.warns(UserWarning, match="that particles do not know"):
            assert BreaksAhead(drawn).stops(0.0, 20.0, {}) == [20.0]
    loose = pulsed("exp(-((time - 3 * S) / 0.001) ^ 2)")  # the amount of S may be replaced
    loose.add_species("S", 2)
    with pytest.warns(UserWarning, match="that particles do not know"):
        assert BreaksAhead(loose).stops(0.0, 20.0, {}) == [20.0]
