"""Events by the selectors of tables: known laws, and the same bits for every size of a team."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import scipy.stats
from emulation import EmulatedBackend
from engine_runs import compiler, simulate
from event_models import crowd, endless, everything, growing
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.events.codegen import shape
from tauslab.kernels.events.tables import kept_words
from tauslab.kernels.exact import plans
from tauslab.kernels.exact.selectors import LARGEST_WITH_EVENTS, SELECTORS, selector_of
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.store.results.digest import digest_lines

lowered_events = importlib.import_module("kernel_headers").lowered_events

OF_TABLES = SELECTORS[1:]
WAYS = [(team, order) for team in (8, 32, 128) for order in (1, -1)]
N = 2000
TIMES = [0.0, 1.0, 2.0, 2.5, 3.5, 4.0, 6.0, 7.0]
P_SMALLEST = 1e-5  # of 13 tests of each selector: a false alarm in one of 1,900 seeds


@compiler
@pytest.mark.parametrize(("team", "order"), ordinary(WAYS, (128, -1)))
@pytest.mark.parametrize("selector", ordinary(OF_TABLES, "rssa"))
def test_warps_and_blocks_give_the_bits_of_a_thread(tmp_path, selector, team, order):
    times = [0.0, 0.2, 0.4]
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, crowd(), times, 5, selector)
    assert not expected[3].any()
    assert expected[4][0] > 80
    device = EmulatedBackend(tmp_path, max(32, team), order)
    actual = simulate(device, crowd(), times, 5, selector, team)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.filterwarnings("ignore:event .* never fires")
@pytest.mark.gpu
@pytest.mark.parametrize("selector", OF_TABLES)
def test_a_gpu_gives_the_bits_of_the_cpu(selector):
    for model, options in (
        (crowd(14), {"n": 200, "t_end": 0.7, "points": 4}),
        (everything(), {"n": 3000, "times": TIMES}),
        (colony(), {"n": 40, "t_end": 4, "points": 3}),
    ):
        actual = [
            digest_lines(
                ts.run(model, seed=4, device=device, record="trajectories", **options,
                       method=ts.SSA(selector=selector, team=team, presimulation=0)), None)
            for device, team in (("cpu", 0), ("cuda", 1), ("cuda", 8), ("cuda", 32), ("cuda", 128))
        ]  # fmt: skip
        assert all(one == actual[0] for one in actual[1:])


def colony(stages: int = LARGEST_WITH_EVENTS) -> ts.Network:
    """`everything`, and a chain of stages that molecules pass at rate 1; its parts are independent.

    At 2 births become twice as many, at 3 there is a dose. One molecule M turns into one that makes
    Y from then on.
    """
    net = everything()
    net.add_species("births", 10, fixed=True)
    for i in range(stages):
        net.add_species(f"L{i}", 0)
    net.add_reaction("-> L0", law="births")
    for i in range(stages - 1):
        net.add_reaction(f"L{i} -> L{i + 1}", rate=1)
    net.add_event("more", time=2, assignments={"births": "2 * births"})
    net.add_event("into", time=3, assignments={"L5": "L5 + 100", f"L{stages - 1}": 7})
    net.add_species("M", 1)
    net.add_species("made", 0, fixed=True)
    net.add_species("Y", 0)
    net.add_reaction("M ->", rate=1)
    net.add_reaction("-> Y", law="made")
    net.add_event("turn", trigger="M < 1", assignments={"made": 5})
    return net


def p_of(found, law) -> float:
    """Chi-square of counts against a discrete law, in bins of at least five."""
    edges = np.unique(law.ppf(np.linspace(0, 1, 17)[1:-1]))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * len(found)
    observed = np.bincount(np.searchsorted(edges, found), minlength=len(expected))
    assert expected.min() >= 5
    return float(scipy.stats.chisquare(observed, expected).pvalue)


def stage_mean(i: int, t: float) -> float:
    """Mean of a stage, of births alone: births in an interval have passed i stages, not i + 1."""
    arrived = scipy.stats.gamma(i + 1)
    return 10 * arrived.cdf(t) + 10 * arrived.cdf(t - 2)


@pytest.mark.validate
@pytest.mark.parametrize("selector", ordinary(OF_TABLES, "rssa"))
def test_a_large_network_has_its_laws(selector):
    method = ts.SSA(selector=None if selector == "tree" else selector, presimulation=0)
    options = {"times": TIMES, "seed": 1, "record": "trajectories", "method": method}
    shown = ("A", "X", "C", "D", "D2", "Q", "T", "P", "S", "k", "L0", "L3", "L6", "M", "Y")
    result = ts.run(colony(), n=N, device=ts.CPU(threads=1), species=shown, **options)
    assert result.attributes["selector"] == selector
    assert not result.status.any()
    at = {t: k for k, t in enumerate(TIMES)}
    poisson = scipy.stats.poisson
    p_values = [
        p_of(result.counts("A")[:, at[2.5]], poisson(11 * (1 - np.exp(-1.25)))),
        p_of(result.counts("A")[:, at[7.0]], poisson(40 * (1 - np.exp(-1.5)))),
        *(p_of(10 * result.counts("C")[:, at[t]].astype(int) + result.counts("X")[:, at[t]],
               poisson(9 * t)) for t in (2.0, 7.0)),
        *(p_of(result.counts(f"L{i}")[:, at[t]], poisson(stage_mean(i, t)))
          for i, t in ((0, 2.0), (3, 2.5), (0, 6.0), (3, 7.0))),
    ]  # fmt: skip
    assert min(p_values) > P_SMALLEST
    # The dose: 100 molecules, each one stage further with probability 0.5 exp(-0.5).
    further = 100 * 0.5 * np.exp(-0.5)
    mean = stage_mean(6, 3.5) + further
    sd = np.sqrt(stage_mean(6, 3.5) + further * (1 - further / 100))
    assert abs(result.mean("L6")[at[3.5]] - mean) < 4.4 * sd / np.sqrt(N)
    # What M made: Poisson, with a mean that has the law of 5 times what is left of t behind it.
    for t in (1.0, 4.0):
        left = 5 * (t - 1 + np.exp(-t))
        square = 25 * (t * t - 2 * t + 2 - 2 * np.exp(-t))
        sd = np.sqrt(left + square - left * left)
        assert abs(result.mean("Y")[at[t]] - left) < 4.4 * sd / np.sqrt(N)
    for name, solution in (("D2", [1, 7, 70]), ("T", [0, 1, 1]), ("P", [0, 0, 321]),
                         ("S", [100, 100, 111])):  # fmt: skip
        counts = result.counts(name)[:, [at[t] for t in (0.0, 2.5, 7.0)]]
        assert (counts == solution).all(), name
    assert set(np.unique(result.counts("Q")[:, -1])) == {1, 2}
    assert result.mean("k").tolist() == [5.5] * 5 + [20.0] * 3
    part = ts.run(colony(), n=40, device=ts.CPU(threads=2), species=shown, **options)
    assert np.array_equal(part.counts("L3"), result.counts("L3")[:40])


@pytest.mark.parametrize("selector", ["tree", "rssa"])
def test_a_trajectory_goes_on_from_a_state_that_was_kept(selector):
    """What waits, which triggers held, quantities and the time: all is in the row that is kept."""
    network = lowered_events(everything())
    backend = get_backend("cpu", BackendOptions(threads=1))
    assert network.dynamics is not None
    words = kept_words(len(network.species), [shape(e) for e in network.dynamics.events])
    n, empty = 5, backend.empty
    keep = empty((n, words), np.float64)
    counts = {}
    initial = backend.upload(np.array([[1 if name[0] == "D" else 0 for name in network.species]],
                                      np.int32))  # fmt: skip
    for times, kept in (([1.5, 2.5], None), ([3.5, 7.0], keep)):
        engine = exact_engine(backend, network, times, selector=selector)
        recorded = len(network.recorded)
        buffers = SampleBuffers.of(
            backend, n, counts=empty((n, 2, recorded), np.int32),
            reals=empty((n, 2, 1), np.float64), final_counts=empty((n, recorded), np.int32),
            scratch=engine.scratch(n), keep=keep,
        )  # fmt: skip
        stream = backend.stream()
        constants = backend.upload(np.zeros((1, 1)))
        seed = len(times) + (kept is None)
        launch = Launch(0, n, initial, constants, kept=kept, seed=seed)
        engine.start(launch, buffers, stream)
        stream.record().wait()
        assert not buffers.status.any()
        assert (buffers.reals[:, :, 0] == (5.5 if kept is None else [5.5, 20])).all()
        for k, t in enumerate(times):
            for i, number in enumerate(network.recorded):
                counts[network.species[number], t] = buffers.counts[:, k, i].copy()
    assert (keep[:, network.species.index("k")] == 20).all()
    assert (keep[:, len(network.species)] == 7).all()
    for name, solution in (
        ("D2", [1, 7, 70, 70]),
        ("T", [0, 1, 1, 1]),
        ("S", [100, 100, 100, 111]),
    ):
        for t, count in zip((1.5, 2.5, 3.5, 7.0), solution, strict=True):
            assert (counts[name, t] == count).all(), (name, t)
    backend.close()


def test_which_selector_a_network_with_events_gets():
    small, large = lowered_events(crowd(14)), lowered_events(colony())
    assert selector_of(small) == "linear"
    assert selector_of(small, "pdm") == "pdm"
    assert selector_of(large) == "tree"
    with pytest.raises(
        ts.ConfigError, match=r"events by selector=.linear. in models of up to 2000"
    ):
        selector_of(large, "linear")
    moving = growing()
    for i in range(LARGEST_WITH_EVENTS):
        moving.add_reaction("X -> Y" if i else "Y -> X", rate=1)
    with pytest.raises(ts.ConfigError, match=r"rate rules, and rates .* in models of up to 2000"):
        selector_of(lowered_events(moving))
    with pytest.raises(ts.ConfigError, match=r"selector=.rssa. is not for rate rules, and rates"):
        selector_of(lowered_events(growing()), "rssa")


@pytest.mark.validate
@pytest.mark.parametrize("selector", ordinary(["tree", "pdm"], "pdm"))
def test_lists_of_species_give_the_same_bits(monkeypatch, selector):
    """As in networks whose reactions have too many dependents to list them for each reaction."""
    actual = []
    for most in (plans.MOST_PLANNED, 0):
        monkeypatch.setattr(plans, "MOST_PLANNED", most)
        monkeypatch.setattr(plans, "MOST_TOUCHED", most)
        cpu = get_backend("cpu", BackendOptions(threads=1))
        actual.append(simulate(cpu, crowd(), [0.0, 0.3, 0.5], 3, selector))
    for one, other in zip(*actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:event timed:UserWarning")  # the new Z is rounded
@pytest.mark.parametrize("selector", ordinary(["pdm", "rssa"], "rssa"))
def test_what_events_end_a_trajectory_with(selector):
    sweep = {"what": [0.5, 1.0, 2.0, 3.0]}
    with pytest.warns(UserWarning, match="2 ended .* event_queue, 2 ended .* event_cascade"):
        actual = ts.run(endless(), n=2, times=[0.0, 0.9, 1.5, 3.5], sweep=sweep, device="cpu",
                       seed=1, record="trajectories", method=ts.SSA(selector=selector))  # fmt: skip
    assert actual.status[:, 0].tolist() == [0, 6, 5, 4]
    assert actual.counts("Z")[0, 0].tolist() == [5, 5, 5, 5]
    assert actual.counts("Z")[1, 0].tolist() == [5, 5, -1, -1]
    whole = ts.run(crowd(14), n=60, t_end=0.5, points=3, seed=4, device="cpu",
                   method=ts.SSA(selector=selector))  # fmt: skip
    again = ts.run(crowd(14), n=60, t_end=0.5, points=3, seed=4, device=ts.CPU(threads=1),
                   method=ts.SSA(selector=selector, team=8))  # fmt: skip
    assert digest_lines(again, None) == digest_lines(whole, None)


def cell(stages: int) -> ts.Network:
    """A cell that divides when it is old and large enough; stages are there, and empty."""
    net = ts.Network("cell")
    net.add_species("X", 0)
    net.add_species("born", 0, fixed=True)
    net.add_species("G", 0)
    net.add_reaction("-> X", rate=20)
    net.add_reaction("-> G", rate=8)
    for i in range(stages):
        net.add_species(f"L{i}", 0)
        net.add_reaction(f"L{i} ->", rate=1)
    trigger = "time - born >= 1 && G >= 6"
    net.add_event("divide", trigger=trigger, assignments={"born": "time", "G": 0})
    return net


@pytest.mark.validate
def test_large_cells_grow_and_divide_as_small_ones():
    """Two propensities that are not 0 have one sum in any order: all bits are the same."""
    options = {"times": [1.5, 4], "division": "divide", "cells": 30, "seed": 1, "device": "cpu"}
    small, large = (ts.population(cell(n), **options) for n in (0, LARGEST_WITH_EVENTS))
    assert small.growth_rate == large.growth_rate > 0
    for one, other in zip(small.snapshots, large.snapshots, strict=True):
        assert np.array_equal(one["X"], other["X"])
        assert np.array_equal(one.age, other.age)
