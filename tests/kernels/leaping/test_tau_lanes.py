"""Tau-leaping on SIMD lanes: the same numbers as one trajectory at a time, on any width of vectors.

``TAUSLAB_FUZZ_CASES`` is how many random models there are.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from engine_runs import compiler
from lane_runs import Work, run_on_lanes
from random_models import random_network

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import MAX_STEPS, WORK
from tauslab.kernels.leaping.tau_leap import (
    FEWEST_ON_LANES,
    TauLeap,
    leaps_on_lanes,
)
from tauslab.model.network.network import Network

pytestmark = compiler
NETWORKS = range(int(os.environ.get("TAUSLAB_FUZZ_CASES", "8")))
MANY = 1000


def run(work, trajectories, monkeypatch, width=0):
    """What a launch gives, made for so many trajectories."""

    def engine(backend, lowered):
        made = TauLeap(backend, lowered, work.times, work.epsilon, trajectories)
        assert made.entry == ("tau_leap" if trajectories == 1 else "tau_lanes")
        return made

    return run_on_lanes(work, engine, monkeypatch, "-O1", width)


def check(work, monkeypatch, *widths):
    """Lanes of these widths against one trajectory at a time; what they agreed on."""
    expected = run(work, 1, monkeypatch)
    for width in widths or (8,):
        actual = run(work, MANY * work.threads, monkeypatch, width)
        for name, array in expected.items():
            assert np.array_equal(actual[name], array, equal_nan=True), (width, name)
    return expected | dict(zip(WORK, expected["work"].tolist(), strict=True))


def few_channels() -> Network:
    """Large and small numbers, critical reactions, an enzyme, a law and a rule."""
    net = Network("few")
    for name, count in {"E": 600, "S": 9000, "C": 0, "P": 400, "G": 15}.items():
        net.add_species(name, count)
    net.add_parameter("k", 1.0)
    net.add_rule("part", "P / (S + P + 1)")
    net.add_reaction("E + S -> C", rate=1e-4)
    net.add_reaction("C -> E + S", rate=0.3)
    net.add_reaction("C -> E + P", rate="k")
    net.add_reaction("2 P -> S", rate=1e-3)
    net.add_reaction("-> 3 S", law="400 * k * (1 + exp(-P / 50))")
    net.add_reaction("G -> S", rate=0.3)
    net.add_reaction("S -> G", rate=1e-4)
    return net


def many_channels() -> Network:
    """More channels than draw for themselves; large and small numbers side by side."""
    net = Network("many")
    for i in range(7):
        net.add_species(f"X{i}", 10 ** (i % 4 + 1))
    for i in range(7):
        net.add_reaction(f"X{i} -> X{(i + 1) % 7}", rate=0.2 + 0.3 * i)
        net.add_reaction(f"X{i} + X{(i + 3) % 7} -> 2 X{(i + 3) % 7}", rate=1e-3 / (i + 1))
    net.add_reaction("-> X1", rate=30.0)
    net.add_reaction("X6 ->", rate=0.1)
    return net


@pytest.mark.parametrize(
    ("network", "width"),
    [
        (many_channels, 4),
        *(pytest.param(few_channels, n, marks=pytest.mark.validate) for n in (1, 2, 4, 8)),
        *(pytest.param(many_channels, n, marks=pytest.mark.validate) for n in (1, 2, 8)),
    ],
)
def test_leaps_and_exact_events(monkeypatch, network, width):
    times = [0.0, *np.linspace(0.1, 1.0, 7).tolist(), 1.0 + 1e-9, 4.0]
    varying = ("k",) if network is few_channels else ()
    work = Work(network(), times, threads=2, varying=varying, per_point=20 * len(varying), before=9)
    actual = check(work, monkeypatch, width)
    assert actual["leaps"] > 1000
    assert actual["exact_events"] > 1000


@pytest.mark.validate
@pytest.mark.parametrize("seed", NETWORKS)
def test_a_random_network(monkeypatch, seed):
    dice = random.Random(f"tau lanes {seed}")
    net, _ = random_network(dice, dice.choice((1, 3, 12, 40)))
    counts = {name: dice.choice((0, 9, 300, 50_000)) for name in net.initial_amounts()}
    work = Work(net, [0.0, 0.02, 0.1], n=dice.choice((1, 7, 40)), threads=dice.choice((1, 3)),
                epsilon=dice.choice((0.01, 0.1, 0.5)), counts=counts,
                max_steps=dice.choice((5, 300, 3000)))  # fmt: skip
    check(work, monkeypatch, 8, 4)


def steep() -> Network:
    """Leaps of this size often take more than there is, and are taken back."""
    net = Network("steep")
    net.add_species("X", 40)
    net.add_species("Y", 30)
    net.add_reaction("3 X -> 3 Y", law="X")
    net.add_reaction("3 Y -> 3 X", law="Y")
    net.add_reaction("X ->", rate=0.02)
    return net


@pytest.mark.parametrize("most", [MAX_STEPS, *(pytest.param(n, marks=pytest.mark.validate)
                                               for n in (0, 1, 17, 101))])  # fmt: skip
def test_leaps_that_are_taken_back_and_limits_of_steps(monkeypatch, most):
    work = Work(steep(), [0.0, 0.1, 20.0, 40.0], epsilon=0.99, max_steps=most, n=200)
    actual = check(work, monkeypatch)
    assert actual["halved"] > 0 or most < MAX_STEPS
    assert (3 in actual["status"]) == (most < MAX_STEPS)


@pytest.mark.validate
@pytest.mark.parametrize("below", [0, 3, 1000, 100_000])
def test_counts_that_pass_their_limit_and_numbers_beyond_lanes(monkeypatch, below):
    """Means of more than 2^36 are drawn alone; some trajectories overflow."""
    net = Network("burst")
    net.add_species("X", 2**31 - 1 - below)
    net.add_species("Y", 2**30)
    net.add_species("Z", 0)
    net.add_reaction("-> X", rate=30.0)
    net.add_reaction("Y -> Y + Z", rate=1e-6)
    net.add_reaction("Z ->", rate=1.0)
    net.add_reaction("Y -> Y", rate=1e6)
    actual = check(Work(net, [0.0, 0.1, 1.0, 50.0]), monkeypatch)
    assert (2 in actual["status"]) == (below < 100_000)


@pytest.mark.parametrize(("start", "rate"), [(10, 1e12), (2**31 - 200, 30.0)])
def test_a_count_beyond_its_limit_ends_a_trajectory_at_once(monkeypatch, start, rate):
    """In a leap, and in an exact event; otherwise it would go on to the limit of steps."""
    net = Network("flood")
    net.add_species("X", start)
    net.add_reaction("-> X", rate=rate)
    net.add_reaction("X ->", rate=1e-9 if rate < 1e3 else 1.0)
    actual = check(Work(net, [0.0, 0.001, 100.0], max_steps=10**6, n=40), monkeypatch)
    assert set(actual["status"].tolist()) == {2}
    assert actual["leaps"] + actual["exact_events"] < 100_000


@pytest.mark.validate
def test_laws_that_become_negative_and_states_that_absorb(monkeypatch):
    net = Network("ends")
    net.add_species("X", 500)
    net.add_reaction("X ->", law="X * (X - 20)")
    negative = check(Work(net, [0.0, 0.005, 9.0]), monkeypatch)
    assert set(negative["status"].tolist()) == {1}
    net = Network("nan")
    net.add_species("X", 500)
    net.add_reaction("X ->", law="X - 3.5")
    assert set(check(Work(net, [0.0, 0.5, 90.0]), monkeypatch)["status"].tolist()) == {4}


def test_lanes_are_for_many_trajectories():
    backend = get_backend("cpu", BackendOptions(threads=2))
    actual = [leaps_on_lanes(backend, 2 * each) for each in (1, FEWEST_ON_LANES, 0)]
    assert actual == [False, True, True]
    backend.close()
