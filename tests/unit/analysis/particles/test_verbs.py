"""Verbs of particles do what they say once for a call, not once for a name or a number."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.analysis.particles.motions import amounts, network
from tauslab.analysis.particles.motions.motion import DeviceRows
from tauslab.kernels.backends.cpu import CpuBackend

SIZE = 12


def ring(size=SIZE):
    """Molecules that go round, and Y, whose initial amount a parameter says."""
    net = ts.Network("ring")
    net.add_parameter("first", 4)
    for i in range(size):
        net.add_species(f"X{i}", 10)
        net.add_parameter(f"k{i}", 0.5)
    for i in range(size):
        net.add_reaction(f"X{i} -> X{(i + 1) % size}", rate=f"k{i}")
    net.add_species("Y", "first")
    net.add_reaction("Y ->", law="k0 * Y / (1 + Y)")
    net.add_rule("both", "X0 + k1 * Y")
    return net


def particles(n, method=None, model=None, **given):
    return ts.Ensemble(model or ring(), n, seed=3, device="cpu", method=method, **given)


@pytest.fixture
def calls(monkeypatch):
    """How often what costs is done, by name."""
    actual = dict.fromkeys(("walks", "uploads", "copies", "tasks"), 0)

    def count(owner, attribute, name):
        inner = getattr(owner, attribute)

        def counted(*args, **options):
            actual[name] += 1
            return inner(*args, **options)

        monkeypatch.setattr(owner, attribute, counted)

    count(ts.Network, "constant_species", "walks")
    count(CpuBackend, "upload", "uploads")
    count(DeviceRows, "host", "copies")
    count(network.NetworkMotion, "_host_counts", "copies")  # that of a CPU is its memory
    count(network, "prepare", "tasks")
    count(amounts, "prepare_ode", "tasks")
    count(amounts, "Ode", "tasks")
    return actual


def taken(calls, act):
    before = dict(calls)
    act()
    return {name: calls[name] - before[name] for name in calls if calls[name] > before[name]}


@pytest.mark.parametrize("each", [False, True])
def test_counts_of_a_call_are_one_upload(calls, each):
    with particles(3) as e:
        e.advance(0.1)
        column = np.array([5, 6, 7]) if each else 5
        for names in (1, SIZE):
            given = {f"X{i}": column for i in range(names)}
            assert taken(calls, lambda given=given: e.set(given)) == {"uploads": 1, "copies": 1}
            assert (e.values(list(given)) == np.broadcast_to(column, (names, 3)).T).all()


@pytest.mark.parametrize("method", ordinary(["ssa", "tau", "ode"], "ssa"))
def test_rates_are_prepared_once(calls, method):
    """And what is compiled is kept by new rates, a new beginning and fewer particles."""
    rates = {f"k{i}": 0.1 + i / SIZE for i in range(SIZE)}
    with particles(4, ts.ODE(solver="dopri5") if method == "ode" else method) as e:
        e.advance(0.1)
        e.set(rates)
        e.advance(0.2)
        engine = e._motion._engine

        def go_on():
            e.set({name: 2 * rate for name, rate in rates.items()}, X1=3)
            e.advance(0.3)
            e.set(k0=1.0, k1=2.0)
            e.reset()
            e.advance(0.2)

        done = taken(calls, go_on)
        assert not {"tasks", "walks"} & done.keys()
        assert e._motion._engine is engine
        assert e.given == {}


@pytest.mark.parametrize("solver", ["dopri5", "rosenbrock"])
def test_equations_are_prepared_once(calls, solver):
    with particles(2, ts.ODE(solver=solver)) as e:
        e.advance(0.1)

        def go_on():
            for t in (0.2, 0.3, 0.4):
                e.set({f"X{i}": 5.0 for i in range(SIZE)})
                e.advance(t)

        done = taken(calls, go_on)
        assert not {"tasks", "walks"} & done.keys()


TREE = ts.SSA(selector="tree")


@pytest.mark.parametrize("method", ordinary(["ssa", TREE, ts.SSA(selector="pdm"), "tau"], "ssa"))
def test_rates_that_are_set_have_the_bits_of_the_models_own(method):
    """Whether they are in the text of a kernel, in a row for all or in a row of each particle."""
    given = {"k0": 2.5, "k1": 0.75, "k7": 0.0}
    actual = []
    for how in ("text", "row", "rows"):
        with particles(5, method, set=given if how == "text" else None) as e:
            if how == "row":
                e.set(given)
                assert len(e._motion.task.constants) == 1
            elif how == "rows":
                e.set({name: np.full(5, rate) for name, rate in given.items()})
                assert len(e._motion.task.constants) == 5
            e.advance(1.5)
            actual.append((e.counts.tolist(), e.observables["both"].tolist()))
    assert actual[0] == actual[1] == actual[2]


def test_initial_amounts_follow_what_they_are_computed_from():
    with particles(2) as e:
        for before, first in ((4, 7), (7, 9)):
            e.set(first=first)
            assert e.values("Y").tolist() == [before] * 2
            e.reset(set={"first": first})
            assert e.values("Y").tolist() == [first] * 2
        e.set(k0=[1.0, 2.0])
        e.reset()
        assert e.values("Y").tolist() == [4, 4]
        e.reset(set={"first": [1, 2]})
        assert e.values("Y").tolist() == [1, 2]


def test_new_rates_follow_particles_that_are_copied():
    with particles(3) as e:
        e.set({f"k{i}": [0.0, 0.0, 1e3] for i in range(SIZE)})
        e.take([0, 1, 1])
        before = e.counts[:, :SIZE]
        e.advance(2.0)
        assert (e.counts[:, :SIZE] == before).all()
        e.set(k0=1e3)
        e.advance(3.0)
        assert e.values("X0").tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"k3": 2.0, "X5": -1}, "X5: counts must be"),
        ({"X2": 3, "X5": [1, 0.5, 2]}, "X5: counts must be"),
        ({"X2": 3, "k3": -1.0}, "rate constant is -1"),
        ({"k3": np.inf}, "inf"),
        ({"X2": 3, "Z": 1}, "no parameter or species"),
    ],
)
def test_a_call_that_is_refused_changes_nothing(bad, what):
    with particles(3) as e, particles(3) as other:
        for one in (e, other):
            one.set(k3=1.5)
        with pytest.raises((ts.ConfigError, ts.ModelError), match=what):
            e.set(bad)
        for one in (e, other):
            one.advance(1.0)
        assert (e.counts == other.counts).all()


def test_values_of_several_names_are_one_copy(calls):
    with particles(4) as e:
        e.advance(0.5)
        names = ["Y", "X3", "X0"]
        assert taken(calls, lambda: e.values([f"X{i}" for i in range(SIZE)])) == {"copies": 1}
        assert (e.values(names) == np.stack([e.values(name) for name in names], axis=1)).all()
        assert (e.values(["both", "X3"])[:, 0] == e.observables["both"]).all()
        assert e.values([]).shape == (4, 0)
        with pytest.raises(ts.ConfigError, match="'X77' is neither"):
            e.values(["X1", "X77"])


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_rates_that_were_set_are_stored(tmp_path, method):
    with particles(3, ts.ODE(solver="dopri5") if method == "ode" else method) as e:
        e.set(k0=2.5, k4=0.1)
        e.advance(0.7)
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            for one in (e, f):
                one.advance(1.5)
            assert (e.counts == f.counts).all()
            f.set(k0=0.25)
            assert f.given["k4"] == 0.1


def test_names_that_are_words_of_the_call():
    net = ts.Network("words")
    net.add_species("values", 1)
    net.add_parameter("self", 1.0)
    net.add_reaction("values ->", rate="self")
    with particles(2, model=net) as e:
        e.set({"self": 0.0}, values=8)
        e.advance(9.0)
        assert e.counts.tolist() == [[8], [8]]


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_an_exponent_that_is_set_stays_a_number_of_the_kernel(method, tmp_path):
    """A whole one is multiplied out, which has other bits than a power."""
    net = ts.Network("powers")
    net.add_species("X", 40)
    net.add_parameter("p", 7.0)
    net.add_reaction("-> X", rate=40.0)
    net.add_reaction("X ->", law="(X / 7) ^ p * 0.000137")
    net.add_rule("power", "(X / 7) ^ p / 3")

    def made() -> ts.Ensemble:
        return ts.Ensemble(net, 50, seed=3, device="cpu", method=method)

    def found(particles: ts.Ensemble) -> list[float]:
        particles.advance(2.0)
        return particles.values("power").tolist()

    expected = found(made())
    again = made()
    again.set(p=2.0)
    again.reset()
    again.save(tmp_path / "a.h5")
    assert found(ts.Ensemble.load(tmp_path / "a.h5", device="cpu")) == expected
    assert found(again) == expected


def test_a_value_that_was_set_and_saved_is_one_for_any_number_of_particles(tmp_path):
    net = ts.Network("decay")
    net.add_species("X", 40)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    first = ts.Ensemble(net, 8, seed=1, device="cpu")
    first.set(k=2.0)
    first.save(tmp_path / "a.h5")
    loaded = ts.Ensemble.load(tmp_path / "a.h5", device="cpu")
    loaded.take([0, 1, 2])
    loaded.reset()
    assert loaded.values("X").tolist() == [40.0] * 3


def test_values_of_other_particles_are_refused_by_reset():
    net = ts.Network("decay")
    net.add_species("X", 40)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    particles = ts.Ensemble(net, 4, seed=1, device="cpu", set={"k": [1.0, 2.0, 3.0, 4.0]})
    particles.take([0, 1])
    with pytest.raises(ts.ConfigError, match=r"k: give one value or one per particle \(2\)"):
        particles.reset()
