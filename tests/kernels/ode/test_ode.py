"""The ODE engine against exact solutions, published courses and scipy."""

from __future__ import annotations

import csv
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from ode_probe import DATA, clock, integrate, system_of
from scipy.integrate import solve_ivp
from synthetic_equations import synthetic_equations

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.ode.graph import RUNNING
from tauslab.kernels.ode.layouts import alone, spread
from tauslab.kernels.ode.priors import Priors, SampledPrior
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.expressions.expression import Call, Expression, Number, Symbol
from tauslab.model.network.network import Network

CLOCK_TIMES = [0.0, 3.0, 20.0, 50.0]
FORMS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "neg": "(-{})", "pow": "({} ** {})",
}  # fmt: skip


def python(tree: Expression) -> str:
    """An expression as plain Python: nothing that the engine uses."""
    if isinstance(tree, Number):
        return repr(tree.value)
    if isinstance(tree, Symbol):
        return tree.name
    assert isinstance(tree, Call)
    form = FORMS.get(tree.function, f"math.{tree.function}({{}})")
    return form.format(*(python(a) for a in tree.arguments))


@cache
def clock_by_scipy() -> np.ndarray:
    """The segmentation clock at `CLOCK_TIMES`."""
    return by_scipy(clock(), CLOCK_TIMES, 1e-9)


def by_scipy(network: Network, times: list[float], tolerance: float = 1e-10) -> np.ndarray:
    """Courses ``[time, species]`` of a network, rules unfolded, up to its first event."""
    start = network.initial_amounts()
    slopes = {name: [] for name in network.species}
    for index, reaction in enumerate(network.reactions):
        for name, by in reaction.net_change().items():
            if not network.species[name].fixed:
                slopes[name].append(f"{by} * rate{index}")
    slopes |= {name: [python(tree)] for name, tree in network.rates.items()}
    lines = [f"    {', '.join(slopes)} = x"]
    lines += [f"    {name} = {python(tree)}" for name, tree in network.rule_expressions().items()]
    lines += [f"    rate{i} = {python(r.limit or r.law)}" for i, r in enumerate(network.reactions)]
    lines += [f"    return [{', '.join(' + '.join(own) or '0.0' for own in slopes.values())}]"]
    names: dict[str, Any] = {"math": math, **network.parameter_values()}
    exec("\n".join(["def slopes(time, x):", *lines]), names)  # noqa: S102 - our own models

    solved = solve_ivp(
        names["slopes"], (0, times[-1]), list(start.values()), "LSODA", times,
        rtol=tolerance, atol=tolerance * max(1e-3, *start.values()),
    )  # fmt: skip
    return np.asarray(solved.y.T)


def published(name: str) -> tuple[list[float], list[str], np.ndarray]:
    """Times, species and amounts computed by libRoadRunner (CVODE, rtol 1e-10)."""
    with (DATA / "ode" / f"{name}.ode.csv").open() as file:
        rows = list(csv.reader(file))
    table = np.array(rows[1:], float)
    return table[:, 0].tolist(), rows[0][1:], table[:, 1:]


def worst(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest error relative to a value, or to a millionth of the species' largest."""
    scale = np.abs(expected) + 1e-6 * np.abs(expected).max(axis=0) + 1e-12
    return float((np.abs(found - expected) / scale).max())


@pytest.mark.parametrize(
    ("name", "settings", "tolerance"),
    [
        ("BIOMD0000000033", OdeSettings("rk4", substeps=1000), 1e-6),
        ("BIOMD0000000033", OdeSettings("dopri5", rtol=1e-8, atol=1e-6), 2e-6),
        ("BIOMD0000000088", OdeSettings("rosenbrock", rtol=1e-6, atol=1e-12), 2e-5),
    ],
)
def test_published_courses(backend, name, settings, tolerance):
    times, species, expected = published(name)
    network = read_sbml(DATA / "sbml" / f"{name}.xml")
    system = system_of(network, recorded=species)
    actual = integrate(backend, system, times, settings)
    assert actual.status.tolist() == [0]
    order = [species.index(n) for n in system.names]
    assert worst(actual.samples[0], expected[:, order]) < tolerance


def test_an_event_takes_place_at_its_time(backend):
    """Thrombin comes at 300 s: before, the two courses are one."""
    network = read_sbml(DATA / "sbml" / "BIOMD0000000088.xml")
    settings = OdeSettings("rosenbrock", rtol=1e-5, atol=1e-11)
    system = system_of(network, recorded=["s2", "s174"])
    actual = integrate(backend, system, [0, 299.5, 300, 310], settings).samples[0]
    volume = network.parameter_values()["c0"]
    assert actual[:, 0].tolist() == [0, 0, 0.01 * volume, 0.01 * volume]


@pytest.mark.parametrize(
    ("network", "times", "settings"),
    [
        ("BIOMD0000000033", [1.0, 10.0, 60.0], OdeSettings("dopri5", rtol=1e-9, atol=1e-5)),
        ("BIOMD0000000088", [20.0], OdeSettings("rosenbrock", rtol=1e-7, atol=1e-13)),
        (4, [60.0, 6000.0], OdeSettings("rk4", substeps=3000)),
    ],
)
def test_other_systems_against_scipy(backend, network, times, settings):
    """EGF-NGF, thrombin before its event, and a synthetic system of equations."""
    if isinstance(network, int):
        model = synthetic_equations(network)
        names = list(model.species)
    else:
        model = read_sbml(DATA / "sbml" / f"{network}.xml")
        names = published(network)[1]  # the same kernel as of the published courses
    system = system_of(model, recorded=names)
    actual = integrate(backend, system, times, settings).samples[0]
    order = [list(model.species).index(name) for name in system.names]
    assert worst(actual, by_scipy(model, times, 1e-11)[:, order]) < 2e-5


@pytest.mark.parametrize("solver", ["rk4", "dopri5", "rosenbrock"])
def test_segmentation_clock_against_scipy(backend, solver):
    settings = OdeSettings(solver, substeps=2000, rtol=1e-8, atol=1e-10)
    system = system_of(clock())
    actual = integrate(backend, system, CLOCK_TIMES, settings)
    assert worst(actual.samples[0][:, : system.species], clock_by_scipy()) < 2e-6


def test_every_function_and_the_time(backend):
    network = Network("functions")
    network.add_species("X", 0.4)
    network.add_species("T", 0.3)
    network.add_parameter("p", 1.7)
    network.add_rate("X", "exp(-X) * sin(3 * time) + sqrt(X + 1) / (1 + X ^ p) - cos(X) ^ 3")
    network.add_rate("T", "log(2 + T) - T ^ 2.5 + X")
    times = [0.0, 1.0, 4.0]
    for solver in ("rk4", "dopri5", "rosenbrock"):
        settings = OdeSettings(solver, substeps=200, rtol=1e-9, atol=1e-11)
        actual = integrate(backend, system_of(network), times, settings)
        assert worst(actual.samples[0], by_scipy(network, times)) < 1e-7, solver


def error_of(backend, solver: str, substeps: int, rtol: float = 1.0) -> tuple[float, int]:
    """Error at t = 1 of x' = y cos t, y' = -x cos t, which goes round the circle as sin t does."""
    network = Network("circle")
    network.add_species("x", 0.0)
    network.add_species("y", 1.0)
    network.add_rate("x", "y * cos(time)")
    network.add_rate("y", "-x * cos(time)")
    settings = OdeSettings(solver, substeps=substeps, rtol=rtol, atol=rtol)
    actual = integrate(backend, system_of(network), [1.0], settings)
    exact = [math.sin(math.sin(1.0)), math.cos(math.sin(1.0))]
    return float(np.abs(actual.samples[0, 0] - exact).max()), int(actual.work[0])


def test_rk4_has_order_4(backend):
    errors = [error_of(backend, "rk4", n)[0] for n in (8, 16, 32)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4) < 0.15)


@pytest.mark.parametrize(("solver", "order"), [("dopri5", 5.0), ("rosenbrock", 4.0)])
def test_order_of_steps_that_adapt(backend, solver, order):
    """Error falls with the number of steps to the power of the order, or faster."""
    first, some = error_of(backend, solver, 1, rtol=1e-6)
    last, many = error_of(backend, solver, 1, rtol=1e-10)
    assert math.log(first / last) / math.log(many / some) > order - 0.6
    assert last < 1e-8


def robertson() -> Network:
    """Robertson's reactions (1966): rate constants from 0.04 to 3e7."""
    network = Network("robertson")
    for name, start in (("a", 1.0), ("b", 0.0), ("c", 0.0)):
        network.add_species(name, start)
    network.add_rate("a", "-0.04 * a + 1e4 * b * c")
    network.add_rate("b", "0.04 * a - 1e4 * b * c - 3e7 * b * b")
    network.add_rate("c", "3e7 * b * b")
    return network


def test_stiff_equations_take_few_steps(backend):
    times = [0.4, 40.0, 4e3, 4e5]
    settings = OdeSettings("rosenbrock", rtol=1e-6, atol=1e-12)
    actual = integrate(backend, system_of(robertson()), times, settings)
    expected = by_scipy(robertson(), times, 1e-12)
    assert np.abs(actual.samples[0] / expected - 1).max() < 1e-5
    assert actual.work[0] < 500


def test_van_der_pol(backend):
    """A stiff limit cycle: steps shrink by orders of magnitude where it jumps."""
    network = Network("van_der_pol")
    network.add_species("x", 2.0)
    network.add_species("y", 0.0)
    network.add_rate("x", "y")
    network.add_rate("y", "1000 * ((1 - x * x) * y) - x")
    times = [100.0, 500.0, 1000.0]
    settings = OdeSettings("rosenbrock", rtol=1e-8, atol=1e-10)
    actual = integrate(backend, system_of(network), times, settings)
    assert np.abs(actual.samples[0] / by_scipy(network, times, 1e-11) - 1).max() < 1e-4
    assert actual.work[0] < 3000


def test_reactions_of_a_builder_take_their_limit(backend):
    """2 X -> with propensity k x (x - 1) / 2 means x' = -k x^2; a law is taken as written."""
    network = Network("pairs")
    network.add_species("X", 40.0)
    network.add_species("Y", 40.0)
    network.add_reaction("2 X ->", rate=0.01)
    network.add_reaction("2 Y ->", law="0.01 * Y * (Y - 1) / 2")
    actual = integrate(backend, system_of(network), [5.0], OdeSettings("dopri5", rtol=1e-10))
    x, y = actual.samples[0, 0]
    assert x == pytest.approx(40 / (1 + 0.01 * 40 * 5), rel=1e-8)
    # y' = -k y (y - 1), so 1 - 1 / y falls as exp(-k t)
    assert 1 - 1 / y == pytest.approx((1 - 1 / 40) * math.exp(-0.05), rel=1e-8)


def test_what_blows_up_ends_alone(backend):
    network = Network("burst")
    network.add_parameter("k", 1.0)
    network.add_species("X", 1.0)
    network.add_rate("X", "k * X * X")
    network.add_rule("twice", "2 * X")
    system = system_of(network, varying=["k"])
    inputs = np.array([[0.1], [1.0], [0.2]])
    for solver in ("rk4", "dopri5", "rosenbrock"):
        actual = integrate(
            backend, system, [0.0, 0.5, 2.0, 3.0], OdeSettings(solver, substeps=100), inputs
        )
        assert actual.status[[0, 2]].tolist() == [0, 0]
        assert actual.status[1] in (3, 4)
        assert np.isfinite(actual.samples[[0, 2]]).all()
        assert np.isfinite(actual.samples[1, :2]).all()
        assert np.isnan(actual.samples[1, 3]).all()
        assert np.isnan(actual.final[1]).all()


def test_too_many_steps_are_a_status(backend):
    """Stiff equations and a method that is not for them."""
    system = system_of(robertson())
    actual = integrate(backend, system, [0.0, 40.0, 4e5], OdeSettings("dopri5"), max_steps=2000)
    assert actual.status.tolist() == [3]
    assert np.isfinite(actual.samples[0, 0]).all()
    assert np.isnan(actual.samples[0, 2]).all()


def test_single_precision(backend):
    system = system_of(clock())
    settings = OdeSettings("rk4", substeps=500, precision="single")
    actual = integrate(backend, system, CLOCK_TIMES, settings, wide=False)
    assert actual.samples.dtype == np.float32
    assert worst(actual.samples[0][:, : system.species], clock_by_scipy()) < 2e-3


def test_columns_hold_the_same_numbers(backend):
    system = system_of(clock(), varying=["vsF"] if "vsF" in clock().parameters else ())
    priors = Priors(tuple(SampledPrior(name, "uniform", 0.5, 1.0) for name in system.inputs))
    settings = OdeSettings("rk4", substeps=20)
    times = [0.0, 2.0, 5.0]
    rows = integrate(backend, system, times, settings, rows=37, priors=priors)
    columns = integrate(backend, system, times, settings, rows=37, priors=priors, columns=True)
    assert np.array_equal(rows.samples, columns.samples.transpose(2, 0, 1))
    if system.inputs:
        assert np.array_equal(rows.drawn, columns.drawn.T)


def test_equal_parts_exist_once():
    network = Network("shared")
    for name in "ABC":
        network.add_species(name, 1.0)
    network.add_reaction("A -> B", law="exp(A) * B / (1 + A)")
    network.add_reaction("B -> C", law="exp(A) * B / (1 + A) + C")
    system = system_of(network)
    kinds = [system.graph.nodes[n].kind for n in system.graph.reached(list(system.rates), RUNNING)]
    assert kinds.count("exp") == 1
    assert kinds.count("reciprocal") == 1


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("warps", [0, 2])
@pytest.mark.parametrize("name", ["BIOMD0000000033", "BIOMD0000000201", "BIOMD0000000088"])
def test_devices_and_layouts_give_the_same_bits(name, warps, precision):
    from tauslab.kernels.backends import BackendOptions, get_backend

    network = read_sbml(DATA / "sbml" / f"{name}.xml")
    varied = sorted(network.parameters)[:3]
    system = system_of(network, varying=varied)
    values = network.parameter_values()
    priors = Priors(
        tuple(SampledPrior(n, "uniform", 0.9 * values[n], 0.2 * values[n]) for n in system.inputs)
    )
    settings = OdeSettings("rk4", substeps=50, precision=precision)
    words = 1 if precision == "single" else 2
    choice = spread(system, words, warps) if warps else alone(system, words)
    solutions = []
    for device in ("cpu", "cuda"):
        backend = get_backend(device, BackendOptions(threads=2))
        solutions.append(
            integrate(
                backend, system, [0.0, 0.1, 0.2], settings, rows=300, priors=priors, choice=choice
            )
        )
        backend.close()
    for a, b in zip(solutions[0].arrays, solutions[1].arrays, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["dopri5", "rosenbrock"])
def test_devices_give_the_same_bits_with_steps_that_adapt(solver):
    from tauslab.kernels.backends import BackendOptions, get_backend

    system = system_of(clock())
    actual = []
    for device in ("cpu", "cuda"):
        backend = get_backend(device, BackendOptions(threads=2))
        actual.append(integrate(backend, system, [0.0, 5.0], OdeSettings(solver), rows=40))
        backend.close()
    assert actual[0].samples.tobytes() == actual[1].samples.tobytes()
