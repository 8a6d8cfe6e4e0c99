"""Particles of ordinary differential equations: bits of runs, filters of parameters."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.runner.ensemble.choices.method_choice import MethodChoice
from tauslab.runner.ensemble.choices.solver_choice import with_chosen_solver
from tauslab.runner.particles.motions import amounts

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


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n", [1, 30])  # alone, and on SIMD lanes
def test_an_ensemble_has_the_bits_of_a_run(name, n):
    rates = np.linspace(0.5, 1.5, n)
    given = {"device": "cpu", "method": METHODS[name], "seed": 1}
    run = ts.run(prey(), n=n, times=[0, *TIMES], set={"a": rates}, **given)
    with particles(prey(), n, METHODS[name], parameters={"a": rates}) as e:
        for place, t in enumerate([0.0, *TIMES]):
            e.advance(t)
            for species in e.species:
                assert (e.values(species) == run[species][:, place]).all()
            assert (e.observables["s"] == run["s"][:, place]).all()


def test_verbs(tmp_path):
    first = np.arange(10.0, 70.0, 10.0)
    given = {"a": np.linspace(0.5, 1, 6), "x": first}
    with particles(prey(), 6, parameters=given) as e:
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
        e.reset(parameters={"a": 1.0, "x": 7})
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
    with particles(net, 3, parameters={"k": [0.0, 2.0, 0.1]}) as e:
        e.advance(1.0)  # the second would be infinite at 1/2
        assert e.alive.tolist() == [True, False, True]
        assert np.isnan(e.counts[1, 0])
        np.testing.assert_allclose(e.counts[[0, 2], 0], [1, 1 / 0.9], rtol=1e-5)
        assert (e.resample() != 1).all()
        e.advance(1.5)
        assert e.alive.all()


def test_triggers_and_delays_are_refused():
    net = decay()
    net.add_event("low", trigger="A < 10", assignments={"A": "A + 50"})
    with pytest.raises(ts.ConfigError, match=r"triggers.*ssa does"):
        particles(net, 2)
    late = ts.Network("late")
    late.add_species("X", 1)
    late.add_reaction("X ->", rate=1, delay=2)
    with pytest.raises(ts.ConfigError, match="past is not kept"):
        particles(late, 2)


DATA = {"time": [0.5, 1.0, 1.5, 2.0], "A": [60, 38, float("nan"), 13]}


def test_a_filter_weighs_parameters():
    """States have no chance: the likelihood is the mean over parameters, to the method's error."""
    rates = np.exp(np.linspace(math.log(0.2), math.log(5), 500))
    found = ts.particle_filter(
        decay(), DATA, observe={"A": "normal(3)"}, n=500, seed=1, device="cpu", method="ode",
        parameters={"k": rates}, threshold=0.0,
    )  # fmt: skip
    logs = np.zeros(500)
    for t, y in zip(DATA["time"], DATA["A"], strict=True):
        if not math.isnan(y):
            z = (y - 100 * np.exp(-rates * t)) / 3
            logs += -0.5 * z * z - math.log(3 * math.sqrt(2 * math.pi))
    weights = np.exp(logs - logs.max())
    assert found.log_likelihood == pytest.approx(math.log(weights.mean()) + logs.max(), abs=1e-5)
    mean = (weights * 100 * np.exp(-2 * rates)).sum() / weights.sum()
    assert found.mean[-1, 0] == pytest.approx(mean, rel=1e-5)
    # Resampled or not: sets of parameters are copied, within the error of systematic resampling.
    copied = ts.particle_filter(
        decay(), DATA, observe={"A": "normal(3)"}, n=500, seed=1, device="cpu", method="ode",
        parameters={"k": rates}, threshold=1.0,
    )  # fmt: skip
    assert copied.log_likelihood == pytest.approx(found.log_likelihood, abs=0.1)


def test_a_chain_of_equations():
    """One particle is enough; the posterior of k is nearly normal: six errors of the mean."""
    chain = ts.pmmh(
        decay(), DATA, {"k": "loguniform(0.2,5)"}, observe={"A": "normal(3)"}, n=1, steps=100,
        warm_up=60, device="cpu", method=ts.ODE(solver="dopri5"),
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
        return with_chosen_solver(task, MethodChoice(chosen[-1], ""), tell=False)

    monkeypatch.setattr(amounts, "with_solver", choose)

    def chain(steps, checkpoint=None):
        return ts.pmmh(
            decay(), DATA, {"k": "loguniform(0.2,5)"}, observe={"A": "normal(3)"}, n=1, steps=steps,
            warm_up=0, device="cpu", method="ode", checkpoint=checkpoint,
        )  # fmt: skip

    whole = chain(20)
    chain(10, tmp_path / "c.h5")
    found = chain(20, tmp_path / "c.h5")
    assert chosen == ["dopri5", "dopri5"]
    assert found.log_likelihood.tolist() == whole.log_likelihood.tolist()


def course(device):
    found = []
    for method in ("dopri5", "rosenbrock"):
        given = {"parameters": {"a": np.linspace(0.5, 1.5, 100)}, "device": device}
        with particles(prey(), 100, ts.ODE(solver=method), **given) as e:
            for t in TIMES:
                e.advance(t)
                e.take(np.arange(100)[::-1])
            found.append(e.counts)
    return np.concatenate(found)


def test_bits_repeat():
    digests = {hashlib.sha256(course("cpu").tobytes()).hexdigest() for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.gpu
def test_a_gpu_repeats_itself_and_agrees():
    """Equations may contract: devices agree within errors of steps."""
    found = [course("cuda") for _ in range(2)]
    assert (found[0] == found[1]).all()
    np.testing.assert_allclose(found[0], course("cpu"), rtol=1e-6)
