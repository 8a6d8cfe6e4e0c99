"""Steps of ODE solvers where trials are no numbers, where rates jump, and of wide equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ode_probe import DATA, integrate, system_of

import tauslab as ts
from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.ode import engine as ode
from tauslab.kernels.ode import functions as ode_functions
from tauslab.kernels.ode.codegen import ode_header
from tauslab.kernels.ode.graph import ExpressionGraph
from tauslab.kernels.ode.jacobian import Differentiator, Elimination, eliminate, jacobian
from tauslab.kernels.ode.lowering import OdeEvent, OdeSystem, lower_ode, spans
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.network.network import Network

ADAPTIVE = ("dopri5", "rosenbrock")


def with_slack(network: Network, atol: float) -> OdeSystem:
    """Equations as runs make them."""
    values = network.parameter_values()
    return lower_ode(network, parameters=values, slack=1000 * atol)


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_a_dose_into_a_model_at_rest(backend, solver):
    """Steps have grown to the whole interval; powers of what falls to 0 are no numbers below it.

    A falls by 2 A and an enzyme from t = 1 on; B is made from A and falls to 0 in a finite time.
    """
    network = Network("dose")
    network.add_parameter("h", 2.5)
    network.add_species("A", 0)
    network.add_species("B", 0)
    network.add_event("dose", 1.0, {"A": "A + 100"})
    network.add_reaction("A -> B", law="50 * A ^ h / (3 ^ h + A ^ h)")
    network.add_reaction("A ->", law="2 * A")
    network.add_reaction("B ->", law="5 * B ^ 0.5")
    actual = integrate(
        backend, with_slack(network, 1e-9), [0.0, 1.5, 50.0], OdeSettings(solver), max_steps=20_000
    )
    assert actual.status.tolist() == [0]
    # Between the dose and t = 1.5 by 200,000 steps of Euler's with Richardson's extrapolation.
    assert actual.samples[0, 1] == pytest.approx(euler_of_dose(), rel=2e-5)
    assert np.abs(actual.samples[0, 2]).max() < 1e-6
    assert actual.work[0] < 5000


def euler_of_dose() -> list[float]:
    """The same equations half a unit after the dose."""

    def steps(count: int) -> np.ndarray:
        a, b, h = 100.0, 0.0, 0.5 / count
        for _ in range(count):
            made = 50 * a**2.5 / (3**2.5 + a**2.5)
            a, b = a - h * (made + 2 * a), b + h * (made - 5 * math.sqrt(b))
        return np.array([a, b])

    return list(2 * steps(100_000) - steps(50_000))


def test_amounts_are_zero_within_the_slack_only():
    network = Network("slack")
    network.add_species("X", 1.0)
    network.add_reaction("X ->", law="sqrt(X / 4) + X ^ 1.5 + X ^ 2")
    system = lower_ode(network, parameters={}, slack=1e-3)
    values = {x: value_of(system.graph, system.rates[0], x) for x in (4.0, 0.0, -1e-3, -2e-3)}
    assert values[4.0] == pytest.approx(-25)
    assert values[0.0] == 0
    assert values[-1e-3] == -1e-6  # the square is not touched
    assert math.isnan(values[-2e-3])


def value_of(graph: ExpressionGraph, node: int, x: float) -> float:
    """A node of a system of one variable."""
    actual: dict[int, float] = {}
    constants = ExpressionGraph()
    for n in graph.reached([node], stage=0):
        own = graph.nodes[n]
        if own.kind in ("number", "variable"):
            actual[n] = own.value if own.kind == "number" else x
        elif own.kind == "reciprocal":
            actual[n] = 1 / actual[own.arguments[0]]
        else:
            numbers = [constants.number(actual[a]) for a in own.arguments]
            actual[n] = constants.nodes[constants.apply(own.kind, *numbers)].value
    return actual[node]


def test_a_short_pulse_is_not_stepped_over(backend):
    """100 from t = 1 to 1.05, and 1 more from t = 40 on, between samples at 0 and 100."""
    network = Network("pulse")
    network.add_species("X", 0)
    network.add_rate("X", "if(time >= 1, if(time < 1.05, 100, 0), 0) + if(2 * time - 80 > 0, 1, 0)")
    system = system_of(network)
    assert system.jumps == (1.0, 1.05, 40.0)
    actual = integrate(backend, system, [0.0, 100.0], OdeSettings("dopri5"))
    assert actual.samples[0, 1, 0] == pytest.approx(65, rel=1e-12)
    assert actual.work[4] == 0  # no step has both sides of a jump


def test_spans_end_before_a_jump_and_begin_after_it():
    cut = spans([0.0, 1.0, 2.0], [OdeEvent(1.0, ())], [1.0, 1.5, 2.0, 3.0])
    before, after = math.nextafter(1.0, 0), math.nextafter(1.0, 2)
    assert cut.begin.tolist() == [0, 0, 1, 1, after, math.nextafter(1.5, 2), 2]
    assert cut.end.tolist() == [0, before, 1, 1, math.nextafter(1.5, 0), math.nextafter(2, 0), 2]
    assert cut.event.tolist() == [-1, 1, 0, -1, 1, 1, -1]
    assert cut.sample.tolist() == [0, -1, -1, 1, -1, -1, 2]


def solved(table: Elimination, matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The algorithm of ode/rosenbrock.cc, in NumPy: `matrix` x = `right`."""
    size, cells = len(table.order), np.zeros(table.cells)
    rows = [slice(*table.starts[i : i + 2]) for i in range(size)]
    for i, own in enumerate(rows):
        row = np.zeros(size)
        row[table.columns[own]] = matrix[table.order[i], table.order[table.columns[own]]]
        for k in range(own.start, own.start + table.lower[i]):
            pivot = table.columns[k]
            above = rows[pivot].start + table.lower[pivot]
            cells[k] = row[pivot] * cells[above]
            beyond = slice(above + 1, rows[pivot].stop)
            row[table.columns[beyond]] -= cells[k] * cells[beyond]
        cells[own] = np.where(np.arange(own.start, own.stop) < own.start + table.lower[i],
                              cells[own], row[table.columns[own]])  # fmt: skip
        cells[own.start + table.lower[i]] = 1 / row[i]
    actual = right[table.order].astype(float)
    for i, own in enumerate(rows):
        lower = slice(own.start, own.start + table.lower[i])
        actual[i] -= cells[lower] @ actual[table.columns[lower]]
    for i in reversed(range(size)):
        diagonal = rows[i].start + table.lower[i]
        beyond = slice(diagonal + 1, rows[i].stop)
        actual[i] = (actual[i] - cells[beyond] @ actual[table.columns[beyond]]) * cells[diagonal]
    answer = np.empty(size)
    answer[table.order] = actual
    return answer


def test_eliminations_solve():
    rng = np.random.default_rng(3)
    for size, share in ((1, 1.0), (7, 0.5), (40, 0.08), (40, 0.3)):
        kept = rng.random((size, size)) < share
        entries = [(int(i), int(j)) for i, j in np.argwhere(kept)]
        table = eliminate(size, entries)
        matrix = np.where(kept, rng.normal(size=(size, size)), 0) + size * np.eye(size)
        right = rng.normal(size=size)
        assert solved(table, matrix, right) == pytest.approx(np.linalg.solve(matrix, right))
        assert sorted(table.order.tolist()) == list(range(size))
        held = table.source >= 0
        assert sorted(table.source[held].tolist()) == list(range(len(entries)))


def hub(size: int) -> Network:
    """Every species turns into one, and that into the first."""
    network = Network("hub")
    network.add_species("X", 10)
    for i in range(size):
        network.add_species(f"Y{i}", 1)
    for i in range(size):
        network.add_reaction(f"Y{i} -> X", rate=1.0 + i)
    network.add_reaction("X -> Y0", law="X + 2 - -X")
    return network


def test_a_rate_of_a_thousand_terms():
    """Deep sums are no deep recursion, and the matrix fills up by the one row and column."""
    system = system_of(hub(1000))
    actual = jacobian(system)
    assert len(actual.nodes) == 2002
    entries = dict(zip(zip(actual.rows, actual.columns, strict=True), actual.nodes, strict=True))
    assert [system.graph.value_of(entries[0, i]) for i in (0, 1, 500)] == [-2, 1, 500]
    assert actual.elimination.cells <= 2010


def test_derivatives_of_shared_sums():
    """A sum that others use is one node; signs of what is subtracted are kept."""
    network = Network("shared")
    for name in "ABC":
        network.add_species(name, 1.0)
    network.add_rate("A", "(A - B - C) * exp(A - B - C) - (B - C)")
    system = system_of(network)
    derivatives = Differentiator(system.graph, 1, system.rates).of(system.rates[0])
    assert sorted(derivatives) == [0]  # B and C do not change, so that they are numbers
    slope = value_of(system.graph, derivatives[0], 1.3)
    assert slope == pytest.approx((1.3 - 2 + 1) * math.exp(1.3 - 2))


def test_functions_in_parts_give_the_same_bits(backend, monkeypatch):
    """Values of every kind cross from part to part: numbers, conditions, products of sums."""
    network = Network("parts")
    network.add_parameter("p", 0.7)
    for i in range(8):
        network.add_species(f"X{i}", 1.0 + i)
    for i in range(8):
        j, k = (i + 1) % 8, (i + 3) % 8
        law = f"if(X{j} > X{k} and time < 2, p * X{i} * X{j}, exp(-X{k})) + X0 * X1 / (1 + X{i})"
        network.add_reaction(f"X{i} ->", law=law)
    system, times = system_of(network, varying=["p"]), [0.0, 0.3, 3.0]
    inputs = np.array([[0.7]])

    def course(solver: str) -> np.ndarray:
        return integrate(backend, system, times, OdeSettings(solver), inputs).samples

    whole = course("rosenbrock")
    monkeypatch.setattr(ode, "LONGEST_OF_ADAPTIVE", 10)
    monkeypatch.setattr(ode_functions, "PART", 7)
    header = ode_header(system, longest=10)
    assert "ode_rates_5(" in header
    assert " != 0;" in header  # a condition that crosses
    assert course("rosenbrock").tobytes() == whole.tobytes()


@pytest.mark.parametrize("solver", ADAPTIVE)
def test_a_pool_that_runs_empty(backend, solver):
    """Agrees with CVODE until the equations divide by nothing (docs/ode.md)."""
    network = read_sbml(DATA / "sbml" / "MODEL2310250001.xml")
    system = lower_ode(network, parameters=network.parameter_values(), recorded=["PYR_1"])
    settings = OdeSettings(solver, rtol=1e-9, atol=1e-13)
    actual = integrate(backend, system, [4.0, 5.0, 8.0, 8.3], settings)
    # libRoadRunner 2.10.0, relative tolerance 1e-12, absolute 1e-18
    expected = [0.02791256, 0.16195267, 0.59895149, 0.59906795]
    assert actual.samples[0, :, 0] == pytest.approx(expected, abs=2e-8)


@pytest.mark.parametrize("method", ["dopri5", "rosenbrock", "rk4", "ssa", "tau"])
def test_a_compartment_that_shrinks_to_nothing_ends_a_trajectory(method):
    net = ts.Network("shrinking")
    net.add_species("V", 1)
    net.add_species("X", 100, compartment="V")
    net.add_rate("V", "-1")
    net.add_reaction("X ->", law="0.5 * X")
    if method not in ("ssa", "tau"):
        substeps = {"substeps": 100} if method == "rk4" else {}
        method = ts.ODE(solver=method, **substeps)
    with pytest.warns(UserWarning, match="after time 0.5, the size of compartment V falls to 0"):
        result = ts.run(net, times=[0.5, 2.0], n=1, method=method, seed=1, device="cpu")
    assert result.status.tolist() == [4]
    assert result["X"][0, 0] > 0
    assert not result["X"][0, 1] > 0  # NaN, of counts -1
