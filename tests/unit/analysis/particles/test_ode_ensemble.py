"""Particles of ordinary differential equations: bits of runs, filters of parameters."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.analysis.particles.motions import amounts
from tauslab.runner.ensemble.choices.method_choice import MethodChoice
from tauslab.runner.ensemble.choices.solver_choice import with_chosen_solver

TIMES = [0.3, 1.0, 2.0, 7.0]
METHODS = {
    "auto": "ode",
    "dopri5": ts.ODE(solver="dopri5"),
    "rosenbrock": ts.ODE(solver="rosenbrock"),
    "rk4": ts.ODE(substeps=20),
    "single": ts.ODE(solver="dopri5", precision="single"),
}


def prey():
    """Lotka and Volterra's reactions, and doses at a sample and between two."""
    net = ts.Network("prey")
    net.add_species("x", 50)
    net.add_species("y", "2 * x")
    net.add_species("F", 3, fixed=True)
    for name, value in (("a", 1.0), ("b", 0.005), ("c", 0.6)):
        net.add_parameter(name, value)
    net.add_reaction("x -> 2 x", rate="a")
    net.add_reaction("x + y -> 2 y", rate="b")
    net.add_reaction("y ->", rate="c")
    net.add_rule("s", "x + y + F")
    net.add_event("dose", time=2, assignments={"x": "x + 10"})
    net.add_event("more", time=3, assignments={"x": "x + 10"})
    return net


def decay():
    net = ts.Network("decay")
    net.add_species("A", 100)
    net.add_parameter("k", 1.0)
    net.add_reaction("A ->", rate="k")
    return net


def particles(model, n, method="ode", device="cpu", **given):
    return ts.Ensemble(model, n, seed=1, method=method, device=device, **given)


@pytest.mark.parametrize("name", ordinary(METHODS, "auto", "rosenbrock"))
@pytest.mark.parametrize("n", ordinary([1, 30], 30))  # alone, and enough for SIMD lanes
def test_an_ensemble_has_the_bits_of_a_run(name, n):
    rates = np.linspace(0.5, 1.5, n)
    given = {"device": "cpu", "method": METHODS[name], "seed": 1}
    run = ts.run(prey(), n=n, times=[0, *TIMES], set={"a": rates}, **given)
    with particles(prey(), n, METHODS[name], set={"a": rates}) as e:
        for place, t in enumerate([0.0, *TIMES]):
            e.advance(t)
            for species in e.species:
                assert (e.values(species) == run[species][:, place]).all()
            assert (e.observables["s"] == run["s"][:, place]).all()


def test_verbs(tmp_path):
    first = np.arange(10.0, 70.0, 10.0)
    given = {"a": np.linspace(0.5, 1, 6), "x": first}
    with particles(prey(), 6, set=given) as e:
        assert e.counts[:, :2].tolist() == [[x, 2 * x] for x in first]
        e.advance(1.0)
        before = e.counts
        assert e.counts.dtype == np.float64
        assert np.asarray(e.device_counts).tolist() == before.tolist()
        e.take([5, 5, 0])
        assert (e.counts == before[[5, 5, 0]]).all()
        e.set(x=1.5, c=[0.1, 0.2, 0.3])
        assert e.counts[:, 0].tolist() == [1.5] * 3
        assert (e.values("s") == e.counts.sum(axis=1)).all()
        e.advance(2.0)
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            for one in (e, f):
                one.advance(5.0)
            assert (e.counts == f.counts).all()
        with pytest.raises(ts.ConfigError, match="finite, and 0 or more"):
            e.set(x=-1.0)
        e.take(np.arange(3))
        e.reset(set={"a": 1.0, "x": 7})
        assert e.counts[:, 0].tolist() == [7] * 3
    with particles(decay(), 4, initial={"A": "uniform(3,9)"}) as e:
        start = e.counts[:, 0]
        e.advance(1.0)
        np.testing.assert_allclose(e.counts[:, 0], start * math.exp(-1), rtol=1e-5)


def timed():
    net = decay()
    net.add_species("F", 3, fixed=True)
    net.add_parameter("gain", 2.0)
    net.add_rule("seen", "gain * A + F")
    net.add_rule("clock", "time + 0 * A")
    return net


def test_rules_follow_new_values_at_once(tmp_path):
    """Of parameters and fixed amounts, and at the time of a file that was loaded."""
    with particles(timed(), 2) as e:
        e.advance(1.0)
        steps = e._motion._rows.host(e._motion._steps).tolist()
        e.set(gain=[5.0, 7.0], F=1.0)
        assert e.observables["seen"].tolist() == (np.array([5, 7]) * e.values("A") + 1).tolist()
        assert e.values("F").tolist() == [1, 1]
        assert e._motion._rows.host(e._motion._steps).tolist() == steps  # which go on
        e.save(tmp_path / "e.h5")
    with ts.Ensemble.load(tmp_path / "e.h5", device="cpu") as e:
        e.set(A=40.0)
        assert e.observables["clock"].tolist() == [1, 1]
        assert e.observables["seen"].tolist() == [201, 281]


def test_a_particle_that_is_no_number_ends_alone():
    net = ts.Network("burst")
    net.add_species("X", 1)
    net.add_parameter("k", 0.0)
    net.add_reaction("-> X", law="k * X ^ 2")
    with particles(net, 3, set={"k": [0.0, 2.0, 0.1]}) as e:
        e.advance(1.0)  # the second would be infinite at 1/2
        assert e.alive.tolist() == [True, False, True]
        assert np.isnan(e.counts[1, 0])
        np.testing.assert_allclose(e.counts[[0, 2], 0], [1, 1 / 0.9], rtol=1e-5)
        assert (e.resample() != 1).all()
        e.advance(1.5)
        assert e.alive.all()


def dosed():
    """Triggers on the state and the time, delays, amounts that are set and that grow."""
    net = ts.Network("dosed")
    net.add_species("A", 100)
    net.add_species("B", 0)
    net.add_species("V", 1.0)
    net.add_species("doses", 0)
    net.add_parameter("k", 1.0)
    net.add_parameter("low", 10.0)
    net.add_rate("V", "0.6 * V")
    net.add_reaction("A -> B", rate="k")
    net.add_reaction("B ->", rate=0.4)
    net.add_rule("ratio", "A / V")
    up = {"A": "A + 50 + B", "doses": "doses + 1"}
    net.add_event("dose", trigger="A < low", delay=0.3, assignments=up)
    net.add_event("shed", trigger="B > 40", delay=0.25, assignments={"B": "B / 2"}, early=False)
    net.add_event("back", trigger="B > 60", delay=9, assignments={"B": "0"}, persistent=False)
    net.add_event("divide", trigger="V >= 2", assignments={"V": "V / 2", "A": "A / 2"})
    net.add_event("late", trigger="time > 2.2", assignments={"B": "B + 7"})
    net.add_event("zero", trigger="A > 0", assignments={"B": "3"}, initial=False)
    return net


@pytest.mark.parametrize("name", ordinary(["auto", "dopri5", "rosenbrock", "single"], "rosenbrock"))
def test_with_triggers_too_it_has_the_bits_of_a_run(name):
    """Between samples executions wait, and triggers are watched."""
    n, rates = 12, np.linspace(0.3, 3, 12)
    times = [0.3, 1.0, 1.7, 2.0, 2.2, 3.1, 6.0, 9.0]
    given = {"device": "cpu", "method": METHODS[name], "seed": 1}
    run = ts.run(dosed(), n=n, times=[0, *times], set={"k": rates}, **given)
    with particles(dosed(), n, METHODS[name], set={"k": rates}) as e:
        for place, t in enumerate([0.0, *times]):
            e.advance(t)
            for species in e.species:
                assert (e.values(species) == run[species][:, place]).all()
            assert (e.observables["ratio"] == run["ratio"][:, place]).all()
        assert e.values("doses").sum() > n


def test_what_waits_goes_with_a_particle(tmp_path):
    """Copied, saved and loaded before its execution comes."""
    method = ts.ODE(solver="dopri5")
    with particles(dosed(), 12, method, set={"k": np.linspace(0.5, 3, 12)}) as e:
        e.advance(3.1)
        e.save(tmp_path / "e.h5")
        order = [3, 3, 11, 0, 7]
        with ts.Ensemble.load(tmp_path / "e.h5", device="cpu") as f:
            f.take(order)
            f.advance(6.0)
            e.advance(6.0)
            assert (f.counts == e.counts[order]).all()
            assert (f.counts[0] == f.counts[1]).all()
            f.reset(set={"k": 2.0})
            assert f.counts[:, 1].tolist() == [3] * 5  # the event at time 0
            f.advance(3.1)
            with particles(dosed(), 1, method, set={"k": 2.0}) as alone:
                alone.advance(3.1)
                assert f.counts.tolist() == alone.counts.tolist() * 5


def test_new_values_set_off_events_at_once():
    with particles(dosed(), 3, ts.ODE(solver="dopri5")) as e:
        e.set(V=[1.5, 2.5, 1.0])
        assert e.values("V").tolist() == [1.5, 1.25, 1.0]
        assert e.values("A").tolist() == [100, 50, 100]
        assert e.observables["ratio"].tolist() == pytest.approx([100 / 1.5, 40, 100])
        e.advance(0.1)
        before = e.values("A")
        e.set(low=[0.0, 1000.0, 0.0])  # a dose that waits 0.3
        assert (e.values("A") == before).all()
        e.advance(0.4000001)
        assert e.values("doses").tolist() == [0, 1, 0]


def test_ties_are_drawn_anew_for_each_particle_and_round():
    """Two events of one time that do not commute; 40 fair coins a round: false alarms 5e-12."""
    net = decay()
    net.add_species("first", 0)
    net.add_event("up", trigger="A < 60", assignments={"first": "2 * first + 1"}, early=False)
    net.add_event("down", trigger="A < 60", assignments={"first": "3 * first"}, early=False)
    with particles(net, 40, ts.ODE(solver="dopri5")) as e:
        e.advance(1.0)
        once = e.values("first")
        assert sorted(set(once.tolist())) == [1, 3]
        e.set(A=100.0, first=0.0)
        e.advance(2.0)
        assert sorted(set(e.values("first").tolist())) == [1, 3]
        assert (e.values("first") != once).any()


def test_a_particle_whose_events_never_end_ends_alone():
    net = decay()
    net.add_parameter("bound", 1.0)
    net.add_event("flip", trigger="A < bound", assignments={"A": "bound + 1"})
    net.add_event("flop", trigger="A > bound", assignments={"A": "bound - 1"})
    with particles(net, 3, ts.ODE(solver="dopri5"), set={"bound": [200.0, 90, 300]}) as e:
        e.advance(1.0)
        assert e.status.tolist() == [0, 6, 0]
        assert np.isnan(e.counts[1]).all()
        e.advance(2.0)
        assert e.values("A")[[0, 2]] == pytest.approx([100 * math.exp(-2)] * 2, rel=1e-5)


def test_what_particles_of_equations_cannot():
    net = decay()
    net.add_event("low", trigger="A < 10", assignments={"A": "A + 50"})
    with pytest.raises(ts.ConfigError, match="finds no trigger"):
        particles(net, 2, ts.ODE(substeps=20))
    with pytest.raises(ts.ConfigError, match=r"in set=, not in initial="):
        particles(net, 2, initial={"A": "uniform(3,9)"})
    late = ts.Network("late")
    late.add_species("X", 1)
    late.add_reaction("X ->", rate=1, delay=2)
    with pytest.raises(ts.ConfigError, match="past is not kept"):
        particles(late, 2)


DATA = {"time": [0.5, 1.0, 1.5, 2.0], "A": [60, 38, float("nan"), 13]}


def test_a_filter_weighs_parameters():
    """States have no chance: the likelihood is the mean over parameters, to the method's error."""
    rates = np.exp(np.linspace(math.log(0.2), math.log(5), 500))
    actual = ts.particle_filter(
        decay(), DATA, observe={"A": "normal(3)"}, n=500, seed=1, device="cpu", method="ode",
        set={"k": rates}, threshold=0.0,
    )  # fmt: skip
    logs = np.zeros(500)
    for t, y in zip(DATA["time"], DATA["A"], strict=True):
        if not math.isnan(y):
            z = (y - 100 * np.exp(-rates * t)) / 3
            logs += -0.5 * z * z - math.log(3 * math.sqrt(2 * math.pi))
    weights = np.exp(logs - logs.max())
    assert actual.log_likelihood == pytest.approx(math.log(weights.mean()) + logs.max(), abs=1e-5)
    mean = (weights * 100 * np.exp(-2 * rates)).sum() / weights.sum()
    assert actual.mean[-1, 0] == pytest.approx(mean, rel=1e-5)
    # Resampled or not: sets of parameters are copied, within the error of systematic resampling.
    copied = ts.particle_filter(
        decay(), DATA, observe={"A": "normal(3)"}, n=500, seed=1, device="cpu", method="ode",
        set={"k": rates}, threshold=1.0,
    )  # fmt: skip
    assert copied.log_likelihood == pytest.approx(actual.log_likelihood, abs=0.1)


@pytest.mark.validate
def test_a_chain_of_equations():
    """One particle is enough; the posterior of k is nearly normal: six errors of the mean."""
    chain = ts.pmmh(
        decay(), DATA, {"k": "loguniform(0.2,5)"}, observe={"A": "normal(3)"}, n=1, steps=100,
        warm_up=60, device="cpu", method=ts.ODE(solver="dopri5"), seed=0,
    )  # fmt: skip
    grid = np.linspace(0.8, 1.2, 4001)
    logs = -np.log(grid)
    for t, y in ((0.5, 60), (1.0, 38), (2.0, 13)):
        logs -= 0.5 * ((y - 100 * np.exp(-grid * t)) / 3) ** 2
    law = np.exp(logs - logs.max())
    law /= law.sum()
    mean = (law * grid).sum()
    sd = math.sqrt((law * (grid - mean) ** 2).sum())
    assert abs(chain["k"].mean() - mean) < 6 * sd / math.sqrt(chain.effective_size("k"))


def test_a_chain_goes_on_with_the_solver_that_was_chosen(tmp_path, monkeypatch):
    """A pilot may choose another one where the chain has come to."""
    chosen = []

    def choose(task, *_):
        chosen.append("dopri5" if len(chosen) < 2 else "rosenbrock")
        return with_chosen_solver(task, MethodChoice(chosen[-1], ""), announce=False)

    monkeypatch.setattr(amounts, "with_solver", choose)

    def chain(steps, checkpoint=None):
        return ts.pmmh(
            decay(), DATA, {"k": "loguniform(0.2,5)"}, observe={"A": "normal(3)"}, n=1, steps=steps,
            warm_up=0, device="cpu", method="ode", checkpoint=checkpoint, seed=0,
        )  # fmt: skip

    whole = chain(20)
    chain(10, tmp_path / "c.h5")
    actual = chain(20, tmp_path / "c.h5")
    assert chosen == ["dopri5", "dopri5"]
    assert actual.log_likelihood.tolist() == whole.log_likelihood.tolist()


def course(device):
    actual = []
    for method in ("dopri5", "rosenbrock"):
        given = {"set": {"a": np.linspace(0.5, 1.5, 100)}, "device": device}
        with particles(prey(), 100, ts.ODE(solver=method), **given) as e:
            for t in TIMES:
                e.advance(t)
                e.take(np.arange(100)[::-1])
            actual.append(e.counts)
    return np.concatenate(actual)


def test_bits_repeat():
    digests = {hashlib.sha256(course("cpu").tobytes()).hexdigest() for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.gpu
def test_a_gpu_repeats_itself_and_agrees():
    """Equations may contract: devices agree within errors of steps."""
    actual = [course("cuda") for _ in range(2)]
    assert (actual[0] == actual[1]).all()
    np.testing.assert_allclose(actual[0], course("cpu"), rtol=1e-6)


def looked_at(device="cpu"):
    """A rule before and after new amounts, and after a new value of a parameter."""
    net = decay()
    net.add_rule("s", "k * A")
    with particles(net, 3, device=device) as e:
        actual = [e.values("s")]
        e.set(A=np.array([1.0, 2.0, 3.0]))
        actual.append(e.values("s"))
        e.set(k=5.0)
        actual.append(e.values("s"))
    return np.array(actual)


WANTED = [[100, 100, 100], [1, 2, 3], [5, 10, 15]]


def test_rules_follow_values_that_are_set(monkeypatch):
    def copied(self, table):  # as where a device has its own memory
        if self._on_host is None:
            self._on_host = self._rows.host(table)
        return self._on_host

    assert looked_at().tolist() == WANTED
    monkeypatch.setattr(amounts.OdeMotion, "_host_table", copied)
    assert looked_at().tolist() == WANTED


@pytest.mark.gpu
def test_rules_follow_values_that_are_set_on_a_gpu():
    assert looked_at("cuda").tolist() == WANTED
