"""Tau-leaping on each device: samples, limits, critical reactions, equal bits."""

from __future__ import annotations

import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.store.results.digest import digest_lines

SBML = TESTS / "data" / "sbml"


@pytest.fixture(params=ordinary(["unrolled", "tables"], "unrolled"))
def leap(device, request, monkeypatch):
    """`tauslab.run` by tau-leaping, on each device in turn, with each engine."""
    if request.param == "tables":
        monkeypatch.setattr("tauslab.kernels.leaping.choice.LARGEST_LEAPING", 0)

    def call(model, *, epsilon=0.03, threads=0, **options):
        where = ts.CPU(threads=threads) if device == "cpu" else device
        method = ts.TauLeaping(epsilon=epsilon)
        return ts.run(model, method=method, device=where, **{"seed": 1, **options})

    return call


def work(result):
    names = ("events", "leaps", "exact_events", "halved")
    return {name: int(result.data[f"profile/{name}"][()].sum()) for name in names}


def chain(n=10_000):
    """Conversion A -> B -> C; every mean is known exactly."""
    net = ts.Network("chain")
    for name, initial in (("A", n), ("B", 0), ("C", 0)):
        net.add_species(name, initial)
    net.add_reaction("A -> B", rate=1.0)
    net.add_reaction("B -> C", rate=2.0)
    return net


def test_means_of_a_linear_chain(leap):
    """A(t) = n exp(-t); leaps keep the propensity constant, so a mean may be off by epsilon."""
    result = leap(chain(), n=2000, times=[0.0, 0.5, 1.0, 2.0])
    t = result.times
    a, b = 10_000 * np.exp(-t), 10_000 * (np.exp(-t) - np.exp(-2 * t))
    np.testing.assert_allclose(result.mean("A"), a, rtol=0.03)
    np.testing.assert_allclose(result.mean("B"), b, rtol=0.03)
    assert (result.counts().sum(axis=2) == 10_000).all(), "molecules are conserved"
    done = work(result)
    assert done["leaps"] > 0
    assert done["events"] > 20 * (done["leaps"] + done["exact_events"]), "leaps pay here"


def test_a_smaller_epsilon_is_closer_and_takes_more_leaps(leap):
    """The bias of the mean falls with epsilon: 2000 trajectories have a standard error of 1."""
    exact = 10_000 * np.exp(-1.0)
    coarse, fine = (leap(chain(), n=2000, times=[1.0], epsilon=e) for e in (0.2, 0.01))
    assert abs(fine.mean("A")[0] - exact) < 0.1 * abs(coarse.mean("A")[0] - exact)
    assert work(fine)["leaps"] > 3 * work(coarse)["leaps"]


@pytest.mark.parametrize("n", [5000, pytest.param(50_000, marks=pytest.mark.validate)])
def test_counts_never_fall_below_zero(leap, n):
    """Few molecules of everything: dimers form and fall apart, X is used up again and again."""
    net = ts.Network("few")
    net.add_species("X", 40)
    net.add_species("Y", 30)
    net.add_reaction("2 X -> Y", rate=1.0)
    net.add_reaction("Y -> 2 X", rate=5.0)
    net.add_reaction("X + Y ->", rate=0.02)
    net.add_reaction("-> X", rate=30.0)
    result = leap(net, n=n, times=np.linspace(0, 2, 11), epsilon=0.5)
    assert (result.counts() >= 0).all()
    assert (result.status == 0).all()


def test_a_leap_is_cut_at_a_sample(leap):
    """Immigration alone has no limit on its leaps: each of the two spans what lies between samples.

    The counts are Poisson with means 500 and 1000; 4,000 trajectories, 5 standard errors: 1e-5.
    """
    net = ts.Network("immigration")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=1000.0)
    result = leap(net, n=4000, times=[0.0, 0.5, 1.0])
    x = result.counts("X").astype(float)
    assert work(result)["leaps"] == 2 * 4000
    assert (x[:, 0] == 0).all()
    for k, mean in ((1, 500.0), (2, 1000.0)):
        assert abs(x[:, k].mean() - mean) < 5 * np.sqrt(mean / 4000)
        assert abs(x[:, k].var(ddof=1) / mean - 1) < 5 * np.sqrt(2 / 4000)


def test_a_critical_reaction_fires_once_at_its_own_time(leap):
    """One X -> Z among fast A <-> B: P(no X at t) = 1 - exp(-t); 5 standard errors: 6e-7."""
    net = ts.Network("one")
    for name, initial in (("X", 1), ("A", 100_000), ("B", 100_000)):
        net.add_species(name, initial)
    net.add_reaction("X ->", rate=1.0)
    net.add_reaction("A -> B", rate=1.0)
    net.add_reaction("B -> A", rate=1.0)
    n = 4000
    result = leap(net, n=n, times=[0.5, 1.0, 3.0])
    for k, t in enumerate(result.times):
        p = np.exp(-t)
        assert abs(result.mean("X")[k] - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert set(np.unique(result.counts("X"))) == {0, 1}
    assert work(result)["exact_events"] < work(result)["leaps"]


def test_a_model_without_use_for_leaps_takes_exact_events(leap):
    """Ten molecules: every step is exact, so this is Gillespie's law; 5 standard errors."""
    net = ts.Network("ten")
    net.add_species("X", 10)
    net.add_reaction("X ->", rate=1.0)
    n = 20_000
    result = leap(net, n=n, times=[1.0, 50.0])
    p = np.exp(-1.0)
    assert work(result)["leaps"] == 0
    assert abs(result.mean("X")[0] - 10 * p) < 5 * np.sqrt(10 * p * (1 - p) / n)
    assert (result.status == 1).all()
    assert (result.counts("X")[:, 1] == 0).all()


def test_feeds_are_held_constant_and_limit_nothing(leap):
    net = ts.Network("fed")
    net.add_species("A", 1_000_000, fixed=True)
    net.add_species("X", 0)
    net.add_reaction("A -> X", rate=1e-3)
    result = leap(net, n=50, times=[0.0, 1.0])
    assert (result.counts("A") == 1_000_000).all()
    assert work(result)["leaps"] == 50


@pytest.mark.filterwarnings("ignore:.*trajectories ended early, so that means")
def test_a_count_that_passes_its_limit_ends_its_trajectory_alone(leap):
    net = ts.Network("growth")
    net.add_species("X", 0)
    net.add_reaction("X -> 2 X", rate=1.0)
    result = leap(net, n=2, times=[0.0, 1.0], set={"X": np.array([2.0**31 - 2, 100.0])})
    assert result.status.tolist() == [2, 0]
    assert result.counts("X")[0].tolist() == [2**31 - 2, -1]


def test_step_limit(leap):
    with pytest.warns(UserWarning, match="no trajectory reached .* 5 ended with status step_limit"):
        result = leap(chain(), n=5, times=[0.0, 5.0], max_steps=3)
    assert (result.status == 3).all()


def test_bits_do_not_depend_on_blocks_and_threads(leap):
    def lines(**options):
        return digest_lines(leap(SBML / "schlogl.xml", n=60, t_end=2.0, points=5, **options), None)

    assert lines(block=1) == lines(block=60, threads=1) == lines(threads=3)
    assert lines(epsilon=0.01) != lines()


def test_values_per_trajectory(leap):
    rates = np.array([0.5, 4.0])
    net = chain()
    net.add_parameter("k", 1.0)
    net.add_reaction("C ->", rate="k")
    varied = leap(net, n=2, times=[0.0, 1.0], set={"k": rates}).counts()
    for i, k in enumerate(rates):
        assert np.array_equal(leap(net, n=3, times=[0.0, 1.0], set={"k": k}).counts()[i], varied[i])


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1.5, float("nan")])
def test_epsilon_outside_its_range(epsilon):
    with pytest.raises(ts.ConfigError, match="epsilon="):
        ts.run(chain(), times=[1.0], method=ts.TauLeaping(epsilon=epsilon))


@pytest.mark.gpu
@pytest.mark.parametrize("largest", [160, 0])
@pytest.mark.parametrize("model", ["schlogl", "michaelis_menten", "ras_camp_pka", "toggle_switch"])
def test_cuda_gives_the_bits_of_the_cpu(model, largest, monkeypatch):
    monkeypatch.setattr("tauslab.kernels.leaping.choice.LARGEST_LEAPING", largest)
    actual = [
        digest_lines(
            ts.run(SBML / f"{model}.xml", method="tau", n=200, t_end=2.0, points=9, seed=8,
                   device=name, record="trajectories,statistics,final"),
            None,
        )
        for name in ("cpu", "cuda")
    ]  # fmt: skip
    assert actual[0] == actual[1]
