"""Firings of reactions since the last look, of particles that have the same bits without them."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts

KINDS = {
    "linear": "ssa",
    "tree": ts.SSA(selector="tree"),
    "pdm": ts.SSA(selector="pdm"),
    "rssa": ts.SSA(selector="rssa"),
    "leaps": "tau",
    "checked": ts.TauLeaping(post_leap_check=True),
}


def exchange():
    """Reactions that each change something else."""
    net = ts.Network("exchange")
    for name, count in (("A", 1000), ("B", 0), ("C", 50)):
        net.add_species(name, count)
    net.add_parameter("k", 1.0)
    net.add_reaction("A -> B", rate="k", name="to_b")
    net.add_reaction("B -> A", rate=0.5, name="to_a")
    net.add_reaction("A + C -> B", rate=0.002, name="with_c")
    net.add_reaction("-> C", rate=40.0, name="made")
    net.add_reaction("C ->", law="C * 2 / (1 + 0.01 * C)", name="gone")
    return net


def ring(size):
    net = ts.Network("ring")
    for i in range(size):
        net.add_species(f"X{i}", 400)
        net.add_reaction(f"X{i} -> X{(i + 1) % size}" if i else "X0 -> X1", rate=1.0 + i / size)
    return net


def growing(delay=None):
    """An equation, an event that waits, and a reaction that completes later."""
    net = ts.Network("growing")
    net.add_species("X", 40)
    net.add_species("V", 1.0)
    net.add_rate("V", "0.4 * V")
    net.add_reaction("-> X", law="60 * V")
    net.add_reaction("X ->", rate=0.5)
    net.add_reaction("2 X ->", rate=0.001, **({} if delay is None else {"delay": delay}))
    net.add_event("high", trigger="X > 60", delay=0.3, assignments={"V": "V / 2"})
    return net


def stepwise():
    """Events in tables, where nothing moves between them."""
    net = ring(70)
    net.add_event("half", trigger="X0 > 405", assignments={"X0": "floor(X0 / 2)"})
    return net


def particles(net, n=5, method="ssa", device="cpu", **given):
    return ts.Ensemble(net, n, seed=3, device=device, method=method, **given)


def stoichiometry(net):
    actual = np.zeros((len(net.reactions), len(net.species)), np.int64)
    for row, reaction in zip(actual, net.reactions, strict=True):
        for name, by in reaction.net_change().items():
            row[list(net.species).index(name)] = by
    return actual


@pytest.mark.parametrize("n", [1, 60])
@pytest.mark.parametrize("kind", ordinary(KINDS, "linear"))
def test_bits_are_those_without(kind, n):
    net = exchange()
    with (
        particles(net, n, KINDS[kind]) as e,
        particles(net, n, KINDS[kind], count_reactions=True) as f,
    ):
        begin, total = f.counts, np.zeros((n, 5), np.int64)
        for t in (0.2, 0.5, 1.5):
            for one in (e, f):
                one.advance(t)
                one.set(k=1.0 + t)
            fired = f.fired()
            assert fired.dtype == np.int64
            assert (f.fired() == 0).all()
            total += fired
            assert (e.counts == f.counts).all()
            assert (np.asarray(f.device_counts) == f.counts).all()
            assert (f.counts - begin == total @ stoichiometry(net)).all()
        assert f.species == e.species == ("A", "B", "C")
        assert f.reaction_names == ("to_b", "to_a", "with_c", "made", "gone")
        assert (f.values("C") == f.counts[:, 2]).all()


@pytest.mark.parametrize(
    ("net", "method"),
    [
        (growing(0.2), "ssa"),
        pytest.param(growing(), "tau", marks=pytest.mark.validate),
        (stepwise(), "ssa"),
        pytest.param(ring(300), "tau", marks=pytest.mark.validate),
    ],
)
def test_all_kernels_count(net, method):
    with particles(net, 3, method) as e, particles(net, 3, method, count_reactions=True) as f:
        total = 0
        for t in (0.4, 0.9, 1.7):
            for one in (e, f):
                one.advance(t)
            total = total + f.fired()
            assert (e.counts == f.counts).all()
            for name in ("X", "V"):
                if name in e.species or name in e.observables:
                    assert (e.values(name) == f.values(name)).all()
        assert total.min() >= 0
        assert total.sum() > 100
        if not net.events:
            changed = total @ stoichiometry(net)
            assert (f.counts - 400 == changed).all()


def test_some_reactions_in_the_order_given():
    with (
        particles(exchange(), count_reactions=True) as e,
        particles(exchange(), count_reactions=["made", "to_b"]) as f,
    ):
        for one in (e, f):
            one.advance(1.0)
        assert f.reaction_names == ("made", "to_b")
        assert (f.fired() == e.fired()[:, [3, 0]]).all()
        f.advance(2.0)
        f.reset()
        assert (f.fired() == 0).all()


@pytest.mark.parametrize("net", [exchange(), growing(0.2)])
def test_copies_and_files_keep_them(tmp_path, net):
    with particles(net, 6, count_reactions=True) as e:
        e.advance(0.7)
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            assert f.reaction_names == e.reaction_names
            for one in (e, f):
                one.take([5, 5, 0, 2])
                one.advance(1.1)
            actual = e.fired()
            assert (actual == f.fired()).all()
            assert (e.counts == f.counts).all()
            assert (actual[0] != actual[1]).any()
    with particles(net, 6, count_reactions=True) as e:
        e.advance(0.7)
        before = e.fired()
        e.take([3, 3, 1])
        e.advance(1.1)
        assert (before[[5, 5, 0]] + e.fired()[[0, 1, 2]] >= 0).all()


def test_one_that_has_ended():
    net = ts.Network("grows")
    net.add_species("X", 1)
    net.add_parameter("k", 1.0)
    net.add_reaction("X -> 2 X", rate="k")
    with particles(net, 2, set={"k": [0.0, 60.0]}, count_reactions=True, max_steps=50) as e:
        e.advance(1.0)
        assert e.fired().tolist() == [[0], [-1]]


def alike():
    """Two reactions that change the same: leaps draw one number for both."""
    net = ts.Network("alike")
    net.add_species("A", 10_000)
    net.add_reaction("A ->", rate=1.0)
    net.add_reaction("A ->", rate=3.0)
    net.add_reaction("-> A", rate=2e4)
    return net


@pytest.mark.validate
def test_leaps_that_are_drawn_apart_are_reported():
    with particles(alike(), count_reactions=True) as e:
        e.advance(0.1)
        assert (e.fired()[:, 1] > e.fired()[:, 0]).all()
    with (
        particles(alike(), 4, "tau", count_reactions=["R3"]) as e,
        particles(alike(), 4, "tau") as f,
    ):
        for one in (e, f):
            one.advance(0.1)
        assert (e.counts == f.counts).all()
    with pytest.warns(UserWarning, match="R1, R2 change the same"):
        e = particles(alike(), 4, "tau", count_reactions=True)
    with e:
        e.advance(0.1)
        fired = e.fired()
        assert (e.counts[:, 0] - 10_000 == fired[:, 2] - fired[:, :2].sum(axis=1)).all()


def test_what_is_refused():
    with particles(exchange()) as e, pytest.raises(ts.ConfigError, match="count_reactions=True"):
        e.fired()
    with pytest.raises(ts.ConfigError, match="'to_c' is not a reaction of exchange"):
        particles(exchange(), count_reactions=["to_c"])
    with pytest.raises(ts.ConfigError, match="count_reactions=None is not allowed"):
        particles(exchange(), count_reactions=None)
    with pytest.raises(ts.ConfigError, match="in ode nothing fires"):
        particles(exchange(), method="ode", count_reactions=True)


def cube():
    lattice = ts.Lattice("cube", shape=(3, 5, 6), spacing=3e-8, slots=8, step=1e-4)
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 1e-12)
    lattice.add_reaction("2 A -> B", rate=1e7, unit="M^-1 s^-1", name="meet")
    lattice.add_reaction("B -> 2 A", rate=60.0, name="part")
    lattice.place("A", count=200)
    return lattice


def test_lattices(tmp_path):
    with ts.Ensemble(cube(), 4, seed=1, device="cpu") as e:
        assert e.reaction_names == ("meet", "part")
        e.advance(0.002)
        first = e.fired()
        assert (first[:, 0] - first[:, 1] == e.values("B")).all()
        e.take([3, 1, 1])
        e.advance(0.004)
        e.save(tmp_path / "c.h5")
        second = e.fired()
        assert (first[[3, 1, 1]] + second) @ [1, -1] == pytest.approx(e.values("B"))
        with ts.Ensemble.load(tmp_path / "c.h5", device="cpu") as f:
            assert (f.fired() == second).all()
    with ts.Ensemble(cube(), 2, seed=1, device="cpu", count_reactions=["part"]) as e:
        e.advance(0.002)
        assert (e.fired()[:, 0] == first[:2, 1]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_devices_agree(kind):
    with (
        particles(exchange(), 40, KINDS[kind], count_reactions=True) as e,
        particles(exchange(), 40, KINDS[kind], device="cuda", count_reactions=True) as f,
    ):
        for t in (0.3, 0.8):
            for one in (e, f):
                one.advance(t)
            assert (e.counts == f.counts).all()
            assert (e.fired() == f.fired()).all()
