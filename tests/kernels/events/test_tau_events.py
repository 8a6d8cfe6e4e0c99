"""Events under tau-leaping: known laws among many molecules, SBML's rules of order, equal bits."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from event_models import everything, growing, many

import tauslab as ts
from tauslab.kernels.events import ssa as events_ssa
from tauslab.kernels.leaping import event_codegen
from tauslab.store.results.digest import digest_lines

N = 2000
TIMES = [0.5, 1.0, 1.5, 2.0]
P_SMALLEST = 1e-4  # of each law: ten of them raise a false alarm in one of 1,000 seeds


def run(net, **options):
    defaults = {
        "n": N, "times": TIMES, "seed": 1, "device": "cpu", "record": "trajectories",
        "method": "tau",
    }  # fmt: skip
    return ts.run(net, **{**defaults, **options})


@pytest.fixture(scope="module")
def result():
    return run(many())


def p_of(found, law) -> float:
    """Chi-square of counts against a discrete law, in ten bins."""
    edges = np.unique(law.ppf(np.linspace(0, 1, 11)[1:-1]))
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * len(found)
    observed = np.bincount(np.searchsorted(edges, found), minlength=len(expected))
    assert expected.min() >= 5
    return float(scipy.stats.chisquare(observed, expected).pvalue)


@pytest.mark.validate
def test_a_wash_out_leaves_a_poisson_law(result):
    a = result.counts("A")
    before, after = 4000 * (1 - np.exp(-0.25)), 8000 * (1 - np.exp(-0.5))
    assert p_of(a[:, TIMES.index(0.5)], scipy.stats.poisson(before)) > P_SMALLEST
    assert p_of(a[:, TIMES.index(2.0)], scipy.stats.poisson(after)) > P_SMALLEST
    assert not a[:, TIMES.index(1.0)].any()


@pytest.mark.parametrize("t", [0.5, 2.0])
def test_no_molecule_passes_a_threshold_unseen(result, t):
    """An event that is late by one firing would leave a count of 1000 or lose it."""
    k = TIMES.index(t)
    made = 1000 * result.counts("C")[:, k].astype(np.int64) + result.counts("X")[:, k]
    assert p_of(made, scipy.stats.poisson(3000 * t)) > P_SMALLEST
    assert result.counts("X").max() < 1000


@pytest.mark.parametrize("t", TIMES)
def test_a_threshold_that_noise_reaches_is_seen(result, t):
    """The reflection principle holds exactly for a symmetric walk of single steps."""
    walk = scipy.stats.skellam(500 * t, 500 * t)
    hit = 2 * walk.sf(60) + walk.pmf(60)
    actual = int(result.counts("F")[:, TIMES.index(t)].sum())
    assert scipy.stats.binomtest(actual, N, hit).pvalue > P_SMALLEST


def test_doses_that_are_closer_than_a_leap_all_come(result):
    counts = result.counts("D")
    assert (counts == counts[0]).all()
    assert counts[0].tolist() == [0, 0, 1, 103]


def test_leaps_are_taken(tmp_path):
    """And exact events near thresholds: what the file counts."""
    actual = run(many(), n=20, output=ts.Output(tmp_path / "many.h5"))
    with h5py.File(actual.path) as file:
        work = {name: int(np.sum(file["profile"][name])) for name in ("leaps", "exact_events")}
    fired = 20 * 2 * (3000 + 1000 + 2 * 3000)
    assert 0 < work["exact_events"] < fired / 2
    assert 20 * 8 < work["leaps"] < fired / 20


def test_bits_do_not_depend_on_threads(result):
    again = run(many(), n=100, device=ts.CPU(threads=2))
    assert (again.counts("W") == result.counts("W")[:100]).all()
    assert (again.counts("X") == result.counts("X")[:100]).all()


def test_sbml_rules_of_order_hold_under_leaps():
    """All that `everything` says of queues, delays, priorities and chance."""
    times = [0.0, 1.0, 2.0, 2.5, 2.999, 3.0, 4.0, 6.0, 6.5, 7.0]
    actual = run(everything(), times=times)
    for name, solution in (
        ("D", [1, 1, 7, 7, 7, 10, 10, 10, 10, 10]),
        ("D2", [1, 1, 7, 7, 7, 70, 70, 70, 70, 70]),
        ("T", [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]),
        ("P", [0] * 7 + [321] * 3),
        ("S", [100] * 7 + [101, 111, 111]),
    ):
        counts = actual.counts(name)
        assert (counts == counts[0]).all()
        assert counts[0].tolist() == solution
    ones = int((actual.counts("Q")[:, -1] == 1).sum())
    assert scipy.stats.binomtest(ones, N).pvalue > P_SMALLEST


def test_events_that_fire_for_ever_end_their_trajectory():
    net = ts.Network("endless")
    net.add_species("X", 0)
    net.add_species("Z", 5)
    net.add_reaction("-> X", rate=10_000)
    net.add_event("up", trigger="time > 1 && Z < 6", assignments={"Z": 6})
    net.add_event("down", trigger="time > 1 && Z > 5", assignments={"Z": 5})
    with pytest.warns(UserWarning, match="3 ended with status event_cascade"):
        actual = run(net, n=3, times=[0.5, 2.0])
    assert actual.status.tolist() == [6] * 3
    assert (actual.counts("X")[:, 0] > 4000).all()


@pytest.mark.validate
@pytest.mark.parametrize("t", [1.0, 3.0])
def test_what_moves_by_itself_gives_poisson_laws_of_many(t):
    """As in test_ssa_flow.py, with a thousand times as many molecules."""
    actual = run(growing(1000.0), times=[1.0, 3.0], seed=3)
    s = np.linspace(0, t, 200_001)
    for name, rate in (
        ("X", 1e4 * np.exp(0.5 * np.mod(s, 2 * np.log(2)))),
        ("Y", 2e4 * (1 + np.sin(3 * s))),
    ):
        mean = scipy.integrate.simpson(rate * np.exp(-0.3 * (t - s)), x=s)
        counts = actual.counts(name)[:, [1.0, 3.0].index(t)]
        # Leaps may be wrong by 0.1 % of the mean and 3 % of the standard deviation.
        assert counts.mean() == pytest.approx(mean, rel=1e-3 + 4 / np.sqrt(mean * N))
        assert counts.std() == pytest.approx(np.sqrt(mean), rel=0.03 + 4 / np.sqrt(2 * N))


@pytest.mark.filterwarnings("ignore:event .* never fires")
@pytest.mark.gpu
@pytest.mark.parametrize("net", [many(), everything(), growing(), growing(1000.0)])
def test_a_gpu_gives_the_bits_of_the_cpu(net):
    actual = [digest_lines(run(net, n=500, device=device), None) for device in ("cpu", "cuda")]
    assert actual[0] == actual[1]


@pytest.mark.parametrize("method", ["ssa", "tau"])
def test_firings_from_tables_have_the_bits_of_those_in_text(monkeypatch, method):
    def digest():
        net = ts.Network("ring")
        for i in range(6):
            net.add_species(f"S{i}", 40 * i)
        for i in range(6):
            net.add_reaction(f"S{i} -> S{(i + 1) % 6}", rate=1.0 + 0.1 * i)
            net.add_reaction(f"S{i} + S{(i + 2) % 6} -> S{(i + 4) % 6}", rate=0.001)
        net.add_reaction("2 S4 -> S1", rate=0.001)
        net.add_reaction("3 S5 -> S2", rate=1e-5)
        net.add_reaction("S3 -> S0", law="20 * S3 / (10 + S3)")
        net.add_reaction("-> S0", rate=3.0)
        net.add_event("dose", 0.5, {"S0": "S0 + 100"})
        net.add_event("high", trigger="S1 > 60", assignments={"S1": "30"})
        return run(net, n=5, times=[0.5, 1.0], method=method).digest()

    updated, requested = digest(), []
    for module in (event_codegen, events_ssa):
        monkeypatch.setattr(module, "in_tables", lambda *_: not requested.append(True))
    assert digest() == updated
    assert requested


def test_more_reactions_than_a_compiler_takes_as_text():
    """Births and deaths of 85 species in balance, of which one gets a dose: 5 standard errors.

    Of leaps 0.1 % of the mean and 1 % of the variance besides; a false alarm in 10^5 seeds.
    """
    net, n, species = ts.Network("balances"), 200, 85
    for i in range(species):
        net.add_species(f"S{i}", 1000)
        net.add_reaction(f"-> S{i}", rate=1000.0)
        net.add_reaction(f"S{i} ->", rate=1.0)
    net.add_event("dose", 0.5, {"S0": "S0 + 300"})
    actual = run(net, n=n, times=[1.0])
    counts = np.array([actual.counts(f"S{i}")[:, 0] for i in range(species)])
    variance = 1000 * (1 - np.exp(-2))
    dosed = 1000 + 300 * np.exp(-0.5)
    assert counts[0].mean() == pytest.approx(dosed, abs=1 + 5 * np.sqrt(variance / n))
    others = counts[1:].ravel()
    assert others.mean() == pytest.approx(1000, abs=1 + 5 * np.sqrt(variance / others.size))
    assert others.var() == pytest.approx(variance, rel=0.01 + 5 * np.sqrt(2 / others.size))
