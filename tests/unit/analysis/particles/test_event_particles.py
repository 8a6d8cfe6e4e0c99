"""Particles of networks with events: what waits, what was set, and what moves between events."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.particles import weights


def dose():
    """A dose at 2 and, 1.5 after the count first falls below 8, another; `k` is set as well."""
    net = ts.Network("dose")
    net.add_species("X", 20)
    net.add_species("k", 2.0, fixed=True)
    net.add_parameter("d", 0.5)
    net.add_reaction("-> X", law="k")
    net.add_reaction("X ->", rate="d")
    net.add_event("dose", time=2, assignments={"X": "X + 10"})
    net.add_event(
        "late", trigger="X < 8", delay=1.5, initial=False,
        assignments={"X": "X + 100", "k": "k + 0.25"},
    )  # fmt: skip
    return net


def infusion():
    """A volume that grows by its rate rule and is halved at 2; X is made in proportion to it."""
    net = ts.Network("infusion")
    net.add_species("X", 0)
    net.add_species("V", 1.0)
    net.add_parameter("g", 0.5)
    net.add_rate("V", "g * V")
    net.add_reaction("-> X", law="10 * V")
    net.add_event("halve", trigger="V > 2", assignments={"V": "V / 2", "X": "floor(X / 2)"})
    return net


def particles(model, n=300, device="cpu", **given):
    return ts.Ensemble(model, n, seed=given.pop("seed", 1), device=device, **given)


def test_a_round_is_a_run_with_the_key_of_the_round():
    for model in (dose(), infusion()):
        with particles(model, 60) as e:
            e.advance(3.0)
            seed = int(weights.words(1, weights.ROUNDS, 0, 1)[0])
            run = ts.run(model, n=60, times=[3.0], seed=seed, device="cpu")
            assert (e.counts[:, 0] == run.counts("X")[:, 0]).all()
            for name in e.observables:
                assert (e.values(name) == run[name][:, 0]).all()


@pytest.mark.parametrize("model", [dose, infusion])
def test_kernels_find_a_row_of_all_species_in_every_round(model):
    """They read it also where kept states take its place; a volume is no count that is recorded."""
    with particles(model(), 5) as e:
        motion = e._motion
        for t in (1.0, 2.5):
            given = motion._initial()
            assert given.shape[1] == motion.task.initial.shape[1] == 2
            assert given.shape[0] in {1, 5}
            e.advance(t)
        assert motion._initial().shape[1] == 2


def test_what_waits_goes_with_a_particle():
    """Triggered before the copy, executed after it: only by copies of those that were below 8."""
    with particles(dose(), 4, seed=3, set={"d": 0.0}) as e:
        e.set(X=[7, 20, 20, 20])
        e.advance(1.0)
        below = e.counts[:, 0] < 12
        assert below.tolist() == [True, False, False, False]
        e.take([1, 0, 0, 2])
        e.advance(1.75)
        assert (e.values("k") == [2.0, 2.25, 2.25, 2.0]).all()
        assert (e.counts[:, 0] > 90).tolist() == [False, True, True, False]


def test_pieces_have_the_law_of_one():
    """Means of six advances and of one, of 4,000 each: four standard errors of two, 0.006 %."""
    for model, names in ((dose(), ("X", "k")), (infusion(), ("X", "V"))):
        with particles(model, 4000, seed=5) as one, particles(model, 4000, seed=6) as many:
            one.advance(4.5)
            for t in (0.1, 0.2, 1.99, 2.0, 3.0, 4.5):
                many.advance(t)
            for name in names:
                a, b = one.values(name), many.values(name)
                error = math.sqrt((a.var() + b.var()) / 4000)
                assert abs(a.mean() - b.mean()) <= 4 * error + 1e-6 * abs(a.mean())


def test_growth_is_exact_in_pieces():
    with particles(infusion(), 3) as e:
        for t in (0.3, 1.0, 1.38, 1.39, 2.0):
            e.advance(t)
        expected = math.exp(0.5 * 2.0) / 2
        np.testing.assert_allclose(e.values("V"), expected, rtol=1e-6)


def test_events_at_the_start_and_values_by_hand():
    net = ts.Network("start")
    net.add_species("X", 5)
    net.add_species("p", 1.5, fixed=True)
    net.add_reaction("X ->", rate=0.0)
    net.add_event("begin", trigger="time >= 0", initial=False, assignments={"X": "X + 1"})
    net.add_event("high", trigger="p > 3", assignments={"X": "X + 10", "p": "p - 2"})
    with particles(net, 3, set={"p": [1.0, 2.0, 2.5]}) as e:
        e.advance(0.0)
        assert e.counts[:, 0].tolist() == [6, 6, 6]
        assert e.values("p").tolist() == [1.0, 2.0, 2.5]
        e.set(p=[2.0, 4.0, 5.5], X=[6, 7, 8])  # turns triggers true
        assert e.counts[:, 0].tolist() == [6, 17, 18]
        assert e.values("p").tolist() == [2.0, 2.0, 3.5]
        with pytest.raises(ts.ConfigError, match="finite"):
            e.set(p=math.nan)
        e.reset()
        assert e.counts[:, 0].tolist() == [5, 5, 5]
        assert e.values("p").tolist() == [1.0, 2.0, 2.5]


def test_saved_particles_go_on(tmp_path):
    ssa, tau = ts.SSA(delay_queue=40), ts.TauLeaping(epsilon=0.05)
    for model, method in (
        (dose(), None),
        (infusion(), None),
        (delayed(), ssa),
        (infusion(), tau),
        (drawn(), None),
    ):
        with particles(model, 50, initial={"X": "poisson(12)"}, method=method) as e:
            e.advance(1.0)
            e.resample(e.counts[:, 0] + 1.0)
            e.save(tmp_path / "p.h5")
            with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
                for one in (e, f):
                    one.advance(2.5)
                assert (e.counts == f.counts).all()
                for name in e.observables:
                    assert (e.values(name) == f.values(name)).all()


def test_a_filter_of_an_event_model():
    """A volume that is seen: its law has no chance, and tells the likelihood."""
    times = np.array([0.5, 1.0, 2.0])
    volume = np.exp(0.5 * times) / np.where(times > 2 * math.log(2), 2, 1)
    data = {"time": times, "V": volume + np.array([0.1, -0.2, 0.05])}
    actual = ts.particle_filter(
        infusion(), data, observe={"V": "normal(0.1)"}, n=20, seed=1, device="cpu"
    )
    z = (data["V"] - volume) / 0.1
    expected = -0.5 * z * z - math.log(0.1 * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(actual.terms, expected, atol=1e-4)


def test_leaps_of_particles_are_those_of_runs():
    for model, names in ((dose(), ("X", "k")), (infusion(), ("X", "V"))):
        with particles(model, 60, method=ts.TauLeaping(epsilon=0.05)) as e:
            e.advance(3.0)
            seed = int(weights.words(1, weights.ROUNDS, 0, 1)[0])
            same = ts.TauLeaping(epsilon=0.05)
            run = ts.run(model, n=60, times=[3.0], seed=seed, device="cpu", method=same)
            for name in names:
                assert (e.values(name) == run[name][:, 0]).all()


def test_leaps_in_pieces_have_the_law_of_one():
    """As for exact steps: four standard errors of four means, 0.03 %."""
    for model, names in ((dose(), ("X", "k")), (infusion(), ("X", "V"))):
        given = {"method": "tau", "n": 2000}
        with particles(model, seed=5, **given) as one, particles(model, seed=6, **given) as many:
            one.advance(4.5)
            for t in (0.1, 0.2, 1.99, 2.0, 3.0, 4.5):
                many.advance(t)
            for name in names:
                a, b = one.values(name), many.values(name)
                error = math.sqrt((a.var() + b.var()) / 2000)
                assert abs(a.mean() - b.mean()) <= 4 * error + 1e-6 * abs(a.mean())


def delayed():
    """X waits 2 to become Y; what waits at 5 began after 3."""
    net = ts.Network("delayed")
    net.add_species("X", 30)
    net.add_species("Y", 0)
    net.add_reaction("X -> Y", rate=0.5, delay=2)
    return net


def test_delayed_reactions_wait_with_their_particle():
    """Binomial laws at 5, of X by exp(-2.5) and of Y by 1 - exp(-1.5): four errors, 0.013 %."""
    with particles(delayed(), 3000, method=ts.SSA(delay_queue=32)) as e:
        for t in (1.0, 2.5, 3.0):
            e.advance(t)
        ancestors = e.resample(method="multinomial")
        e.advance(4.9)
        assert (e.counts.sum(axis=1) < 30).any()  # some wait
        e.advance(5.0)
        assert len(set(ancestors.tolist())) < 2500
        # Copies share what waits: their number of ancestors tells the error.
        for name, p in (("X", math.exp(-2.5)), ("Y", 1 - math.exp(-1.5))):
            error = math.sqrt(30 * p * (1 - p) / 3000 * 2)
            assert abs(e.mean(name) - 30 * p) < 4 * error
        e.advance(1e9)
        assert (e.counts == [0, 30]).all()


def test_a_queue_of_a_particle_is_full():
    with particles(delayed(), 20, method=ts.SSA(delay_queue=7)) as e:
        e.advance(0.1)
        assert e.alive.any()
        e.advance(1.9)
        with pytest.raises(ts.ConfigError, match="20 by delay_queue"):
            e.advance(2.0)


def drawn():
    net = ts.Network("drawn")
    net.add_species("X", "poisson(7)")
    net.add_species("Y", "2 * X")
    net.add_reaction("X ->", rate=1.0)
    return net


def test_initial_amounts_are_drawn_at_once():
    """A Poisson mean of 7 and of 3: four standard errors, 0.013 %."""
    with particles(drawn(), 3000) as e:
        first = e.counts
        assert (e.round, e.time) == (1, 0.0)
        assert abs(first.mean() - 7) < 4 * math.sqrt(7 / 3000)
        assert (e.values("Y") == 2 * first[:, 0]).all()
        e.advance(1.0)
        assert abs(e.mean("X") - 7 * math.exp(-1)) < 4 * math.sqrt(7 * math.exp(-1) / 3000)
        e.reset()
        assert (e.counts == first).all()
        e.reset(seed=2)
        assert not (e.counts == first).all()
    with particles(drawn(), 3000, initial={"X": "poisson(3)"}) as e:
        assert abs(e.mean("X") - 3) < 4 * math.sqrt(3 / 3000)
        assert (e.values("Y") == 2 * e.values("X")).all()
    with particles(drawn(), 5, set={"X": np.arange(5)}) as e:
        assert e.counts[:, 0].tolist() == [0, 1, 2, 3, 4]
    with particles(drawn(), 4, seed=9) as alone, particles(drawn(), 8, seed=9) as beside:
        alone.in_groups(4, 1)
        beside.in_groups(4)
        assert (alone.counts == beside.counts[4:]).all()


def digest(device):
    actual = hashlib.sha256()
    tau = ts.TauLeaping(epsilon=0.05)
    models = [(dose(), None), (infusion(), None), (dose(), tau), (infusion(), tau)]
    models += [(delayed(), ts.SSA(delay_queue=40)), (drawn(), None)]
    for model, method in models:
        given = {"device": device, "method": method}
        with particles(model, 200, initial={"X": "poisson(9)"}, **given) as e:
            for round_, scheme in enumerate(weights.SCHEMES):
                e.advance(0.9 * (round_ + 1))
                actual.update(np.float64(e.weigh(-0.1 * e.values("X"))).tobytes())
                actual.update(e.resample(method=scheme).tobytes())
            actual.update(e.counts.astype("<i4").tobytes())
            actual.update(b"".join(e.values(name).tobytes() for name in e.observables))
    return actual.hexdigest()


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")
