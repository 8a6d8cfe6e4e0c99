"""Equations on SIMD lanes: the numbers of one trajectory at a time, on any width of vectors."""

from __future__ import annotations

import numpy as np
import ode_mixed
import pytest
from engine_runs import compiler
from ode_probe import integrate, system_of
from quick_compiling import quick_flags

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.kernels.ode.engine import on_lanes
from tauslab.kernels.ode.priors import Priors, SampledPrior
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.network.network import Network

pytestmark = compiler
TIMES = (0.0, 0.0, 0.3, 1.25, 1.25, 2.0, 3.0)
# Solvers with a width of vectors that is tried each time; all others with `-m validate`.
SHAPES = [
    pytest.param(solver, width, marks=() if width == usual else pytest.mark.validate)
    for solver, usual in (("dopri5", 8), ("rosenbrock", 4), ("rk4", 2))
    for width in (1, 2, 4, 8)
]


def functions() -> Network:
    """Every function, condition and shared number, of variables and of the time."""
    net = Network("functions")
    net.add_parameter("k", 0.7)
    net.add_species("X", 2.0)
    net.add_species("Y", 0.5)
    net.add_rate("X", "k * (cos(Y) + tanh(X) - log10(1 + X ^ 2) + cbrt(Y) - X ^ 1.3 / 4) "
                      "+ piecewise(1, Y > 1 && X < 3, X > 2 || !(Y > 0.2), Y, -Y)")  # fmt: skip
    net.add_rate("Y", "exp(-X) - ln(1 + Y) / 3 + min(X, 1) * max(Y, k) - abs(sin(time)) * Y "
                      "- floor(X) / 9 + ceil(Y) / 9 + sqrt(X * X) / (1 + time)")  # fmt: skip
    return net


def run(monkeypatch, network, solver, width, most=MAX_STEPS, rows=21, threads=1):
    """Courses of rows with different constants and priors; one at a time for width 0."""
    flags = quick_flags()
    options = f"{flags} -DSIMD_LANES={width}" if width else flags
    with monkeypatch.context() as patch:
        patch.setenv("TAUSLAB_CXXFLAGS", options)
        backend = get_backend("cpu", BackendOptions(threads=threads))
        system = system_of(network, varying=["k", "X0" if "X0" in network.species else "X"])
        inputs = np.tile(np.linspace(0.2, 1.4, rows)[:, None], (1, len(system.inputs)))
        priors = Priors((SampledPrior(system.inputs[0], "uniform", 0.3, 1.1),))
        settings = OdeSettings(solver, substeps=3)
        actual = integrate(backend, system, TIMES, settings, inputs, priors=priors, max_steps=most,
                          trajectories=999 if width else 1)  # fmt: skip
        backend.close()
    return {"samples": actual.samples, "final": actual.final, "drawn": actual.drawn,
            "status": actual.status, "steps": actual.work}  # fmt: skip


def check(monkeypatch, network, solver, width, **options):
    """Lanes against one at a time; what they agreed on."""
    expected = run(monkeypatch, network, solver, 0, **options)
    actual = run(monkeypatch, network, solver, width, **options)
    for name, array in expected.items():
        assert np.array_equal(actual[name], array, equal_nan=True), name
    return expected


@pytest.mark.parametrize(("solver", "width"), SHAPES)
def test_lanes_give_the_same_bits(monkeypatch, solver, width):
    """An event, the time, trajectories that end as not a number, limits of steps, idle lanes."""
    mixed = ode_mixed.network()
    actual = check(monkeypatch, mixed, solver, width)
    assert set(actual["status"].tolist()) == {0, 4}
    for rows, threads in ((1, 1), (5, 3)):
        check(monkeypatch, mixed, solver, width, rows=rows, threads=threads)
    if solver != "rk4":
        limits = [check(monkeypatch, mixed, solver, width, most=n)["status"] for n in (0, 20)]
        assert (limits[0] == 3).all()
        assert 3 in limits[1]


@pytest.mark.validate
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("solver", ["dopri5", "rosenbrock", "rk4"])
def test_functions_of_rates(monkeypatch, solver, width):
    actual = check(monkeypatch, functions(), solver, width)
    assert (actual["status"] == 0).all()


def test_lanes_are_for_many_trajectories_in_double_precision():
    backend = get_backend("cpu", BackendOptions(threads=2))
    system = system_of(ode_mixed.network())
    double, single = OdeSettings("dopri5"), OdeSettings("dopri5", precision="single")
    assert [on_lanes(backend, system, double, n) for n in (1, 15, 16, 0)] == [
        False,
        False,
        True,
        True,
    ]
    assert not on_lanes(backend, system, single, 0)
    backend.close()


def test_an_elimination_without_tables_has_the_same_bits(monkeypatch):
    """That of a small system stands in its text; here also that of the other is made by tables."""
    unrolled = run(monkeypatch, ode_mixed.network(), "rosenbrock", 4)
    monkeypatch.setattr("tauslab.kernels.ode.engine.MOST_UNROLLED", 0)
    tabled = run(monkeypatch, ode_mixed.network(), "rosenbrock", 4)
    for name, array in unrolled.items():
        assert np.array_equal(tabled[name], array, equal_nan=True), name
