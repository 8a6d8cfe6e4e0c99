"""Launches that are asked to stop end within seconds, whatever their kernel is about."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.runner.ensemble.lane import Lane, Reductions
from tauslab.runner.ensemble.run import prepare_task

ENDLESS = 1e15  # a time that no trajectory here reaches
ROWS = 8
WITHIN = 5.0  # seconds; it takes milliseconds on a machine with nothing else to do


def turnover(rate=1e6):
    """Events for ever, at a rate that hardly changes."""
    net = ts.Network("turnover")
    net.add_species("X", 1000)
    net.add_reaction("-> X", rate=rate)
    net.add_reaction("X ->", rate=rate / 1000)
    return net


def ring(size):
    """Too many reactions for generated code."""
    net = ts.Network("ring")
    for i in range(size):
        net.add_species(f"S{i}", 1000)
    for i in range(size):
        net.add_reaction(f"S{i} -> S{(i + 1) % size}", rate=1.0)
    return net


def prey():
    """Oscillates for ever, so steps stay short."""
    net = ts.Network("prey")
    net.add_species("X", 100)
    net.add_species("Y", 50)
    net.add_reaction("X -> 2 X", rate=1.0)
    net.add_reaction("X + Y -> 2 Y", rate=0.01)
    net.add_reaction("Y ->", rate=1.0)
    return net


CASES = {
    "linear": (turnover, {}),
    "pdm": (lambda: ring(70), {"method": ts.SSA(selector="pdm")}),
    "rssa": (lambda: ring(70), {"method": ts.SSA(selector="rssa")}),
    "tau": (lambda: turnover(1.0), {"method": ts.TauLeaping()}),
    "checked": (lambda: turnover(1.0), {"method": ts.TauLeaping(post_leap_check=True)}),
    "tables": (lambda: ring(170), {"method": ts.TauLeaping()}),
    "dopri5": (prey, {"method": ts.ODE(solver="dopri5")}),
    "rosenbrock": (prey, {"method": ts.ODE(solver="rosenbrock")}),
    "rk4": (prey, {"method": ts.ODE(solver="rk4", substeps=1000),
                   "times": np.arange(1.0, 1e6)}),
}  # fmt: skip


def lane_of(backend, case, **more):
    model, options = CASES[case]
    chosen = {"times": np.array([ENDLESS]), "n": ROWS, "seed": 1, **options, **more}
    task = prepare_task(model(), Options(**chosen, record=Record(final=True)))
    engine = task.engine(backend)
    return Lane(task, engine, Reductions(), ROWS, backend.stream())


def stopped(lane):
    """Ask until it has ended, as the driver does; the delivery and seconds."""
    began = time.perf_counter()
    while not lane.ended and time.perf_counter() < began + 60:
        lane.halt()
        time.sleep(0.01)
    took = time.perf_counter() - began
    return lane.wait(), took


@pytest.mark.parametrize("case", ordinary(CASES, "linear", "pdm", "tau", "dopri5"))
def test_a_launch_ends_when_it_is_asked_to(backend, case):
    lane = lane_of(backend, case)
    lane.start(0, ROWS)
    time.sleep(0.3)
    assert not lane.ended, "the case is meant to last"
    message = lane.in_flight()
    delivery, took = stopped(lane)
    assert delivery.stopped
    assert took < WITHIN
    assert lane.in_flight() is None
    assert not lane.halt(), "there is nothing left to stop"
    assert message is not None
    assert delivery.reported.time >= message.time
    if case != "rk4":  # which tells where it is, but counts no steps on its way
        assert delivery.reported.events >= message.events > 0
        assert 0 < message.time < ENDLESS


@pytest.mark.parametrize(
    ("case", "limit"),
    [("linear", 30_000), ("pdm", 5000), ("rssa", 5000), ("tau", 5000), ("tables", 200)],
)
def test_a_lane_forgets_that_it_was_stopped(backend, case, limit):
    """The next launch has the bits of one that was never stopped, also across many looks."""
    lane, fresh = (lane_of(backend, case, max_steps=limit) for _ in range(2))
    long = lane_of(backend, case)
    long.start(0, ROWS)
    time.sleep(0.05)
    assert stopped(long)[0].stopped
    lane.start(0, ROWS)
    lane.halt()  # before it has begun, or soon after: kept or not, it is told of
    first = lane.wait()
    if not first.stopped:
        assert (first.chunk.arrays["status"] == 3).all()
    lane.start(0, ROWS)
    fresh.start(0, ROWS)
    again, other = lane.wait(), fresh.wait()
    assert not again.stopped
    for name, values in other.chunk.arrays.items():
        np.testing.assert_array_equal(again.chunk.arrays[name], values)
    np.testing.assert_array_equal(again.work, other.work)


def test_looks_at_the_control_words_change_no_bit(backend):
    """A trajectory of many looks, sampled at its end, against one that a limit cuts at each look.

    The number of events until a limit is the limit, whether or not a look falls on it.
    """
    for limit in (8191, 8192, 8193, 16384, 20_000):
        lane = lane_of(backend, "linear", max_steps=limit)
        lane.start(0, 3)
        delivery = lane.wait()
        assert delivery.work[0] == 3 * limit
        assert (delivery.chunk.arrays["status"] == 3).all()
