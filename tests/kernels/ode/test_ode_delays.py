"""Delay differential equations against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from delay_models import course, many_delays

import tauslab as ts
from tauslab.store.results.digest import digest_lines

TIMES = [0.0, 0.2, 0.4, 1.0, 1.3, 2.2, 2.4, 3.7, 6.0]


def run(net, times, solver="dopri5", rtol=1e-8, n=1, device="cpu", history=None, **options):
    method = ts.ODE(solver=solver, rtol=rtol, atol=rtol * 1e-3, delay_history=history)
    return ts.run(net, n=n, times=times, method=method, seed=1, device=device, **options)


@pytest.mark.parametrize("solver", ["dopri5", "rosenbrock"])
def test_courses_are_those_known(solver):
    actual = run(many_delays(), TIMES, solver)
    assert actual.status.tolist() == [0]
    for name in many_delays().species:
        expected = course(name, np.array(TIMES))
        assert actual.amounts(name)[0] == pytest.approx(expected, abs=1e-6), name


def test_a_delay_may_be_any_number_of_each_point():
    """None, one that no step is shorter than, one longer than the run; one below 0 says so."""
    net = ts.Network("points")
    net.add_parameter("tau", 1)
    net.add_species("x", 1)
    net.add_rate("x", "-delay(x, tau)")
    delays = {"tau": [0, 1e-9, 1, 100, -1]}
    with pytest.warns(UserWarning, match="1 ended with status negative_delay.*a delay is below 0"):
        actual = run(net, [0.0, 3.0], sweep=delays)
    assert actual.status[:, 0].tolist() == [0, 0, 0, 0, 9]
    ends = actual.amounts("x")[:4, 0, -1]
    assert ends == pytest.approx([np.exp(-3), np.exp(-3), -1 / 6, -2], abs=1e-6)
    with pytest.warns(UserWarning, match="ended with status delay_history.*raise delay_history="):
        short = run(net, np.linspace(0, 3, 61), history=16)
    assert short.status.tolist() == [10]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (ts.ODE(solver="rk4"), "the model has delays, which need steps that adapt"),
        (ts.ODE(solver="dopri5", precision="single"), "double precision"),
        ("tau", "delays are not supported by tau"),
    ],
)
def test_who_cannot_look_back_says_so(method, message):
    net = ts.Network("birth")
    net.add_species("X", 1)
    net.add_reaction("-> X", law="delay(X, 1)")
    with pytest.raises(ts.TauslabError, match=message):
        ts.run(net, n=1, t_end=1, method=method, seed=1, device="cpu")


@pytest.mark.parametrize(
    ("delay", "message"),
    [("X", "which changes while a trajectory runs"), ("gamma(2, 1)", "random numbers")],
)
def test_delays_of_reactions_stand_still(delay, message):
    net = ts.Network("delayed")
    net.add_species("X", 1)
    net.add_reaction("-> X", rate=1, delay=delay)
    with pytest.raises(ts.ModelError, match=f"reaction R1.*{message}"):
        ts.run(net, n=1, t_end=1, method="ode", seed=1, device="cpu")


def test_a_delay_below_0_that_is_written_is_refused():
    net = ts.Network("ahead")
    net.add_species("x", 1)
    net.add_rate("x", "delay(x, 1 - 2)")
    with pytest.raises(ts.ModelError, match="it must be 0 or more"):
        run(net, [0.0, 1.0])


def test_bits_depend_on_the_trajectory_alone():
    """Threads change nothing; ranks, kills and what is resumed: tests/mpi/test_event_runs.py."""
    points = {"tau": [0.2, 0.7, 1, 3]}
    one, two = (
        run(many_delays(), TIMES, sweep=points, device=ts.CPU(threads=threads))
        for threads in (1, 2)
    )
    assert digest_lines(one, None) == digest_lines(two, None)


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu():
    for solver in ("dopri5", "rosenbrock"):
        points = {"tau": np.linspace(0.2, 2, 100)}
        actual = [
            run(many_delays(), TIMES, solver, device=d, sweep=points) for d in ("cpu", "cuda")
        ]
        assert digest_lines(actual[0], None) == digest_lines(actual[1], None)


@pytest.mark.validate
def test_means_of_many_molecules_follow_the_equations():
    """Oscillations by delayed repression: 5 standard errors of 2,000, and 1 part in 1000."""
    net = ts.Network("repression")
    net.add_parameter("volume", 20000)
    net.add_species("X", 0)
    net.add_reaction("-> X", law="volume / (1 + (X / volume / 0.4) ^ 4)", limit=None, delay=2)
    net.add_reaction("X ->", rate=1)
    times = np.linspace(0, 12, 13)
    mean = ts.run(net, n=2000, times=times, seed=1, device="cpu", method=ts.SSA(delay_queue=65536))
    rates = run(net, times).amounts("X")[0]
    error = 5 * np.sqrt(mean.variance("X") / 2000) + 1e-3 * rates
    assert (np.abs(mean.mean("X") - rates) <= error).all()
