"""Exact SSA on SIMD lanes: the same numbers as one trajectory at a time, on any width of vectors.

``TAUSLAB_FUZZ_CASES`` is how many random models there are.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from engine_runs import compiler, fast_at_the_end
from lane_runs import Work, run_on_lanes
from quick_compiling import quick_flags
from random_models import random_network
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.compilers import cpu_features
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.kernels.exact.ssa import exact_engine, vectors_of
from tauslab.kernels.exact.table_network import Expected
from tauslab.model.network.network import Network

pytestmark = compiler
NETWORKS = range(int(os.environ.get("TAUSLAB_FUZZ_CASES", "12")))
ONE = Expected(1)  # trajectory: its kernel is ensemble/ssa.cc
# Width of vectors, and for how many trajectories: one vector or two.
SHAPES = ((1, 1000), (2, 10), (4, 1000), (8, 10), (8, 1000))
ENOUGH = ((4, 10), (8, 1000))


def run(work, expected, monkeypatch, width=0):
    """What a launch gives, made for so many trajectories."""

    def engine(backend, lowered):
        made = exact_engine(backend, lowered, work.times, expected=expected)
        assert made.entry == ("ssa" if expected is ONE else "ssa_lanes")
        return made

    actual = run_on_lanes(work, engine, monkeypatch, quick_flags(), width)
    return {**actual, "events": actual.pop("work")[:1]}


def check(work, monkeypatch, shapes=ENOUGH):
    """All shapes against one trajectory at a time; what they agreed on."""
    expected = run(work, ONE, monkeypatch)
    for width, trajectories in shapes:
        lanes = Expected(trajectories * work.threads)
        actual = run(work, lanes, monkeypatch, width)
        for name, array in expected.items():
            assert np.array_equal(actual[name], array, equal_nan=True), (width, trajectories, name)
    return expected


@pytest.mark.validate
@pytest.mark.parametrize("seed", NETWORKS)
def test_a_random_network(monkeypatch, seed):
    dice = random.Random(f"lanes {seed}")
    net, _ = random_network(dice, dice.choice((1, 3, 20, 60)))
    work = Work(net, [0.0, 0.1, 0.4], n=dice.choice((1, 5, 40)), threads=dice.choice((1, 3)),
                max_steps=dice.choice((50, 3000, MAX_STEPS)))  # fmt: skip
    check(work, monkeypatch, SHAPES if seed == 0 else ENOUGH)


def ring(species: int) -> Network:
    """Molecules that go round, one to three at a time: a search, and two fields for each count."""
    net = Network("ring")
    for i in range(species):
        net.add_species(f"X{i}", 7 * i % 11)
    for i in range(species):
        taken, given = f"{1 + i % 2} X{i}", f"{1 + i % 3} X{(i + 1) % species}"
        net.add_reaction(f"{taken} -> {given}", rate=1.0 + i % 5)
    net.add_reaction("X0 -> X0", rate=0.5)
    return net


# With 13 reactions tables have one word for each, with 60 several; 11 are not searched for.
@pytest.mark.parametrize("species", ordinary([10, 12, 59], 59))
def test_reactions_that_are_searched_for(monkeypatch, species):
    work = Work(ring(species), np.linspace(0, 0.4, 5).tolist(), n=30)
    actual = check(work, monkeypatch, SHAPES if species == 12 else ENOUGH)
    assert actual["events"][0] > 1000


def test_last_reactions_compute_what_they_change_alone(monkeypatch):
    """All lanes of a vector fire one of these now and then."""
    work = Work(fast_at_the_end(), np.linspace(0, 0.4, 5).tolist(), n=30)
    actual = check(work, monkeypatch, (*ENOUGH, (2, 10)))
    assert actual["events"][0] > 1000


@pytest.mark.validate
@pytest.mark.skipif("avx512vbmi" not in cpu_features(), reason="the processor lacks AVX512_VBMI")
def test_tables_of_processors_without_permutations_of_bytes(monkeypatch):
    flags = f"{quick_flags()} -mno-avx512vbmi -mno-avx512vbmi2"
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", flags)
    assert check(Work(ring(12), [0.0, 0.4], n=20), monkeypatch)["events"][0] > 500


def all_functions() -> Network:
    """Laws with every function and condition there is, rules that are recorded, and a constant."""
    net = Network("functions")
    net.add_species("X", 40)
    net.add_species("Y", 3)
    net.add_parameter("k", 1.0)
    net.add_rule("wave", "sin(X) + cos(Y) + tan(0.1 * X) + k")
    net.add_rule("bent", "asin(X / 1000) + acos(Y / 1000) + atan(X) + sinh(Y / 9) + cosh(Y / 9)")
    laws = (
        "k * (exp(-X / 30) + log10(1 + X) + ln(1 + Y) + sqrt(X) + cbrt(Y) + tanh(Y))",
        "k * (abs(Y - X) + floor(X / 3) + ceil(Y / 4) + min(X, 3) + max(Y, X) + X ^ 1.5 + X ^ 3)",
        "piecewise(k * X, X > Y && X != 7, 2, X == 7 || !(Y <= 4), 1 / (1 + X ^ 2))",
        "2 + abs(wave) / 9 + abs(bent) / 9",
    )
    for law, equation in zip(laws, ("-> X", "X ->", "X -> Y", "Y -> 2 Y"), strict=True):
        guard = f"({law}) * (X > 0) * (Y > 0)"
        net.add_reaction(equation, law=guard)
    net.add_reaction("Y ->", rate="k")
    return net


# g++ takes seconds for each. An ordinary run has the digest of a model with functions on lanes, and
# tests/kernels/device/test_lane_functions.py.
@pytest.mark.validate
@pytest.mark.parametrize("per_point", [10, 0, None])
def test_laws_rules_and_constants_of_each_trajectory(monkeypatch, per_point):
    """In a sweep, with a row for each trajectory, and with none."""
    work = Work(all_functions(), np.linspace(0, 1, 7).tolist(), per_point=per_point or 0,
                varying=() if per_point is None else ("k",), before=per_point or 0)  # fmt: skip
    actual = check(work, monkeypatch, ENOUGH[1:] if per_point else SHAPES)
    assert np.isfinite(actual["observables"]).all()
    assert actual["events"][0] > 1000


def pair() -> Network:
    """Absorbed with 0 left, where its only propensity is -0, or with 1."""
    net = Network("pair")
    net.add_species("X", 21)
    net.add_reaction("2 X ->", rate=0.5)
    return net


@pytest.mark.parametrize("start", [0, 1, 20, 21])
def test_trajectories_that_are_absorbed(monkeypatch, start):
    work = Work(pair(), [0.0, 0.05, 100.0], counts={"X": start})
    actual = check(work, monkeypatch)
    assert (actual["status"] == 1).all()
    assert (actual["final"] == start % 2).all()


def burst() -> Network:
    """X grows by 3; Y is at the limit and stays there."""
    net = Network("burst")
    net.add_species("X", 0)
    net.add_species("Y", 2**31 - 1)
    net.add_reaction("-> 3 X", rate=3.0)
    net.add_reaction("X ->", rate=1e-9)
    return net


@pytest.mark.parametrize("below", [0, 1, 2, 3, 1000])
def test_counts_that_pass_their_limit(monkeypatch, below):
    """Some trajectories end early, others at the end of time."""
    work = Work(burst(), [0.0, 0.1, 1.0, 2.0], counts={"X": 2**31 - 1 - below})
    actual = check(work, monkeypatch)
    assert 2 in actual["status"] or below == 1000


@pytest.mark.parametrize("most", [0, 1, 15, 16, 17, 40])
def test_a_limit_of_steps(monkeypatch, most):
    work = Work(burst(), [0.0, 5.0, 10.0], max_steps=most)
    actual = check(work, monkeypatch)
    assert 3 in actual["status"]


@pytest.mark.validate
def test_a_law_that_becomes_negative_ends_its_trajectory(monkeypatch):
    net = Network("negative")
    net.add_species("X", 5)
    net.add_reaction("-> X", law="8 - X")
    net.add_reaction("X -> ", law="X / 100")
    net.add_reaction("-> X", law="0.1 * X * (12 - X)")
    actual = check(Work(net, [0.0, 0.5, 9.0]), monkeypatch)
    assert set(actual["status"].tolist()) == {4}


def test_more_draws_than_a_look(monkeypatch):
    """Tens of thousands of events: pauses at every look, and many samples between two events."""
    times = [0.0, *np.linspace(0.1, 0.2, 500).tolist(), 8000.0]
    actual = check(Work(burst(), times, n=21), monkeypatch)
    assert actual["events"][0] > 21 * 20_000


def test_vectors_are_for_many_trajectories():
    backend = get_backend("cpu", BackendOptions(threads=2))
    assert [vectors_of(backend, n) for n in (1, 5, 6, 47, 48, 0)] == [0, 0, 1, 1, 2, 2]
    backend.close()
