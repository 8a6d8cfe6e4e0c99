"""Events under exact SSA: known laws, SBML's rules of order, and equal bits where due."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from event_models import endless, everything

import tauslab as ts
from tauslab.store.results.digest import digest_lines

N = 20_000
TIMES = [0.0, 1.0, 2.0, 2.5, 2.999, 3.0, 4.0, 6.0, 6.5, 7.0]
P_SMALLEST = 1e-4  # of each law: four of them raise a false alarm in one of 2,500 seeds


def run(net, **options):
    defaults = {"n": N, "times": TIMES, "seed": 1, "device": "cpu", "record": "trajectories"}
    return ts.run(net, **{**defaults, **options})


@pytest.fixture(scope="module")
def result():
    return run(everything())


def p_of(found, law) -> float:
    """Chi-square of counts against a discrete law, in bins of at least five."""
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * len(found)
    observed = np.bincount(np.searchsorted(edges, found), minlength=len(expected))
    assert expected.min() >= 5
    return float(scipy.stats.chisquare(observed, expected).pvalue)


def test_a_wash_out_leaves_a_poisson_law(result):
    a = result.counts("A")
    before, after = 11 * (1 - np.exp(-1.25)), 40 * (1 - np.exp(-1.5))
    assert p_of(a[:, TIMES.index(2.5)], scipy.stats.poisson(before)) > P_SMALLEST
    assert p_of(a[:, TIMES.index(7.0)], scipy.stats.poisson(after)) > P_SMALLEST
    assert not a[:, TIMES.index(4.0)].any()
    assert result.mean("k").tolist() == [5.5] * 6 + [20.0] * 4


@pytest.mark.parametrize("t", [3.0, 7.0])
def test_an_event_on_the_state_resets_a_counter(result, t):
    k = TIMES.index(t)
    made = 10 * result.counts("C")[:, k].astype(np.int64) + result.counts("X")[:, k]
    assert p_of(made, scipy.stats.poisson(9 * t)) > P_SMALLEST
    assert result.counts("X").max() == 9


def course(result, name):
    """The course that all trajectories have."""
    counts = result.counts(name)
    assert (counts == counts[0]).all()
    return counts[0].tolist()


def test_delays_keep_values_or_find_them(result):
    assert course(result, "D") == [1, 1, 7, 7, 7, 10, 10, 10, 10, 10]
    assert course(result, "D2") == [1, 1, 7, 7, 7, 70, 70, 70, 70, 70]
    assert course(result, "T") == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]  # 1 + 1.5 is 2.5, just after


def test_equal_priorities_are_drawn_and_others_decide(result):
    last = result.counts("Q")[:, -1]
    ones = int((last == 1).sum())
    assert set(np.unique(last)) == {1, 2}
    assert scipy.stats.binomtest(ones, N).pvalue > P_SMALLEST
    assert course(result, "P") == [0] * 7 + [321] * 3


def test_a_sample_at_an_event(result):
    assert course(result, "S") == [100] * 7 + [101, 111, 111]


def test_bits_do_not_depend_on_threads_blocks_or_what_is_recorded(result, tmp_path):
    net = everything()
    lines = digest_lines(result, None)
    assert digest_lines(run(net, device=ts.CPU(threads=3)), None) == lines
    few = run(net, n=300, output=ts.Output(tmp_path / "few.h5"))
    assert (few.counts("Q") == result.counts("Q")[:300]).all()
    both = run(net, record="statistics,histogram:C:0:10:10")
    assert both.mean("A") == pytest.approx(result.mean("A"), rel=1e-12)
    assert both.mean("k").tolist() == result.mean("k").tolist()
    assert both.stored_histogram("C")[0][-1].sum() == N


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu(result):
    assert digest_lines(run(everything(), device="cuda"), None) == digest_lines(result, None)


def test_what_goes_by_counts_alone_refuses_events():
    """A master equation."""
    with pytest.raises(ts.ModelError, match="does not support"):
        ts.cme(everything(), [1.0])


@pytest.mark.filterwarnings("ignore:event timed:UserWarning")  # the new Z is rounded
def test_what_events_end_a_trajectory_with_and_times_that_are_swept():
    """Events that fire each other for ever, a queue that is full, a count below zero."""
    sweep = {"what": [0.5, 1.0, 2.0, 3.0]}
    with pytest.warns(UserWarning, match="2 ended .* event_queue, 2 ended .* event_cascade"):
        actual = run(endless(), n=2, times=[0.0, 0.9, 1.5, 3.5], sweep=sweep)
    assert actual.status[:, 0].tolist() == [0, 6, 5, 4]
    assert actual.counts("Z")[0, 0].tolist() == [5, 5, 5, 5]
    assert actual.counts("Z")[1, 0].tolist() == [5, 5, -1, -1]
    assert actual.counts("Z")[3, 0].tolist() == [5, 5, -1, -1]


def test_a_trajectory_of_events_alone():
    net = ts.Network("clock")
    net.add_species("V", 1, fixed=True)
    net.add_species("last", 0, fixed=True)
    net.add_rule("late", "time - last")
    net.add_event(
        "divide", trigger="time - last >= 0.7", assignments={"V": "V / 2", "last": "time"}
    )
    actual = run(net, n=2, times=[0.0, 0.6, 0.7, 1.3, 1.5, 2.2])
    assert actual.status.tolist() == [0, 0]
    assert actual.mean("V").tolist() == [1, 1, 0.5, 0.5, 0.25, 0.125]
    assert actual.mean("late")[1] == 0.6
