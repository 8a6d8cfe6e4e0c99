"""`tauslab.Ensemble`: what particles do, whatever moves, weighs or copies them."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.particles import weights
from tauslab.analysis.particles.sums import fixed_sum


def turnover():
    net = ts.Network("turnover")
    net.add_species("X", 3)
    net.add_species("F", 2, fixed=True)
    net.add_parameter("k", 5.0)
    net.add_reaction("-> X", rate="k * F")
    net.add_reaction("X ->", rate=1.0)
    net.add_rule("twice", "2 * X")
    return net


def bursts():
    """A jump of a billion at rate z, so that three overflow."""
    net = ts.Network("bursts")
    net.add_species("X", 7)
    net.add_parameter("z", 0.0)
    net.add_reaction("-> 1000000000 X", rate="z")
    return net


def particles(n=500, model=None, device="cpu", **given):
    return ts.Ensemble(model or turnover(), n, seed=given.pop("seed", 1), device=device, **given)


def test_large_networks_go_on_from_counts_beyond_those_of_the_model():
    net = ts.Network("partners")
    net.add_species("A", 1000)
    for name in ("B", "C", "D"):
        net.add_species(name, 10)
        net.add_reaction(f"A + {name} -> {name}", rate=1e-10)
    actual = []
    for selector in ("tree", "pdm"):
        ensemble = particles(20, net, method=ts.SSA(selector=selector))
        ensemble.set(B=10**9, C=10**9, D=10**9)
        ensemble.advance(1)
        assert ensemble.alive.all()
        actual.append(ensemble.mean("A"))
    assert actual == pytest.approx([1000 * math.exp(-0.3)] * 2, rel=0.03)


def test_means_follow_the_law():
    """Poisson and binomial parts: three standard errors, false alarms 0.3 % each of four."""
    with particles(4000, seed=5) as e:
        for t in (0.5, 3.0):
            e.advance(t)
            stays = math.exp(-t)
            mean, variance = (
                10 * (1 - stays) + 3 * stays,
                10 * (1 - stays) + 3 * stays * (1 - stays),
            )
            assert abs(e.mean("X") - mean) < 3 * math.sqrt(variance / 4000)
            assert e.mean("twice") == 2 * e.mean("X")
        assert (e.time, e.round, e.species) == (3.0, 2, ("X", "F"))


def test_a_round_is_a_run_with_the_key_of_the_round():
    with particles(40) as e:
        e.advance(1.5)
        seed = int(weights.words(1, weights.ROUNDS, 0, 1)[0])
        run = ts.run(turnover(), n=40, times=[1.5], seed=seed, device="cpu")
        assert (e.counts[:, 0] == run.counts("X")[:, 0]).all()
        before = e.counts
        e.advance(1.5)  # nothing happens, and no round is counted
        assert e.round == 1
        assert (e.counts == before).all()
        e.advance(1.5 + 1e-300)
        assert e.time == 1.5


def test_numbers_of_particles_do_not_matter():
    with particles(10) as few, particles(300) as many:
        for e in (few, many):
            e.advance(1.0)
            e.advance(2.5)
        assert (few.counts == many.counts[:10]).all()


@pytest.mark.parametrize("method", ["systematic", "stratified", "multinomial"])
def test_resampling(method):
    with particles(2000) as e:
        e.advance(2.0)
        before = e.counts
        factors = np.where(before[:, 0] > 8, 0.0, -np.inf)
        share = (before[:, 0] > 8).mean()
        assert e.weigh(factors) == pytest.approx(math.log(share))
        assert e.effective_size == pytest.approx(2000 * share)
        assert e.weights.sum() == pytest.approx(1)
        ancestors = e.resample(method=method)
        assert (np.diff(ancestors) >= 0).all()
        assert (e.counts == before[ancestors]).all()
        assert (e.counts[:, 0] > 8).all()
        assert e.effective_size == 2000
        if method == "systematic":  # each is copied as often as its weight says, up to one
            copies = np.bincount(ancestors, minlength=2000)
            assert np.abs(copies - (factors == 0) / share).max() < 1
        again = e.resample(method=method)
        assert not (again == ancestors).all()


def test_weights_in_place_of_own_and_taking():
    with particles(4) as e:
        e.set(X=[1, 2, 3, 4])
        assert e.resample([0, 0, 5, 0]).tolist() == [2, 2, 2, 2]
        e.set(X=[1, 2, 3, 4])
        e.take([3, 0, 0], weights=[0.5, 0.25, 0.25])
        assert e.counts[:, 0].tolist() == [4, 1, 1]
        assert e.n == 3
        np.testing.assert_allclose(e.weights, [0.5, 0.25, 0.25])
        assert e.mean("X") == 2.5
        e.advance(1.0)
        assert len(e.status) == 3


@pytest.mark.parametrize("scale", [1e308, 5e-324])
def test_weights_may_have_any_sum(scale):
    """Of weights whose sum is infinite all were copies of the last particle."""
    with particles(4) as e, particles(4) as other:
        expected = other.resample([1, 0, 1, 1])
        assert e.resample([scale, 0, scale, scale]).tolist() == expected.tolist()
    assert len(set(expected.tolist())) == 3


def test_values_of_each_particle_follow_it():
    rates = np.linspace(0, 40, 400)
    with particles(400, set={"k": rates, "X": 0}) as e:
        assert e.counts[:, 0].max() == 0
        e.advance(1.0)
        keep = rates > 30
        ancestors = e.resample(keep)
        e.advance(20.0)
        expected = 2 * rates[ancestors]
        z = (e.counts[:, 0] - expected) / np.sqrt(expected)
        assert abs(z.mean()) < 0.2  # four standard errors
        e.set(k=0.0, F=1)
        e.advance(60.0)
        assert e.counts[:, 0].max() == 0


def test_reset_begins_again():
    with particles(30, initial={"X": "poisson(20)"}) as e:
        first = e.counts
        assert 15 < first[:, 0].mean() < 25
        e.advance(2.0)
        after = e.counts
        e.set(k=9.0)
        e.resample()
        e.reset()
        assert (e.counts == first).all()
        e.advance(2.0)
        assert (e.counts == after).all()
        e.reset(seed=2)
        assert not (e.counts == first).all()


def test_saved_particles_go_on(tmp_path):
    with particles(200, set={"k": np.linspace(0, 9, 200)}, initial={"X": "poisson(4)"}) as e:
        e.advance(1.0)
        e.weigh(-0.1 * e.counts[:, 0])
        with pytest.raises(ts.ConfigError, match="X is also given one amount"):
            e.reset(set={"X": 4})
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            for one in (e, f):
                one.resample()
                one.advance(4.0)
            assert (e.counts == f.counts).all()
            assert f.time == 4.0
            assert (e.resample() == f.resample()).all()
    damaged = (tmp_path / "p.h5").read_bytes()[:3000]
    (tmp_path / "q.h5").write_bytes(damaged)
    for name in ("q.h5", "none.h5"):
        with pytest.raises(ts.InputFileError, match=name):
            ts.Ensemble.load(tmp_path / name)


def test_loaded_particles_begin_again_by_their_laws(tmp_path):
    with particles(40, initial={"X": "poisson(20)"}) as e:
        first = e.counts
        e.advance(1.0)
        e.save(tmp_path / "p.h5")
    with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
        f.reset()
        assert (f.counts == first).all()


def test_fewer_or_more_particles_begin_again_by_their_laws():
    """As an ensemble of that number does."""
    for n in (7, 61):
        with particles(40, initial={"X": "poisson(20)"}) as e:
            e.advance(1.0)
            e.take(np.arange(n) % 40)
            e.reset()
            with particles(n, initial={"X": "poisson(20)"}) as f:
                assert (e.counts == f.counts).all()


def test_a_particle_that_overflows_ends_alone():
    with particles(6, bursts(), set={"z": [0, 90, 0, 90, 90, 0]}) as e:
        e.advance(1.0)
        assert e.counts[:, 0].tolist() == [7, -1, 7, -1, -1, 7]
        assert e.status.tolist() == [1, 2, 1, 2, 2, 1]
        assert e.weights.tolist() == [1 / 3, 0, 1 / 3, 0, 0, 1 / 3]
        assert np.isnan(e.values("X")[1])
        e.advance(2.0)
        assert e.counts[:, 0].tolist() == [7, -1, 7, -1, -1, 7]
        with pytest.raises(ts.ConfigError, match="particle 1 has ended"):
            e.take([1])
        e.resample()
        assert e.counts[:, 0].tolist() == [7] * 6
        assert e.alive.all()


def test_no_particle_is_left():
    with particles(3, bursts(), set={"z": 90.0}) as e:
        e.advance(1.0)
        with pytest.raises(ts.ConfigError, match="3 by overflow"):
            e.advance(2.0)
        with pytest.raises(ts.ConfigError, match="all weights are 0"):
            e.resample()
        assert e.effective_size == 0
        assert math.isnan(e.mean("X"))
        assert e.weigh(np.zeros(3)) == -math.inf


def test_one_particle():
    with particles(1) as e:
        e.advance(1.0)
        before = e.counts
        assert e.resample().tolist() == [0]
        assert (e.counts == before).all()
        assert e.weights.tolist() == [1]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda e: e.advance(-1), "cannot be advanced to -1"),
        (lambda e: e.advance(math.nan), "cannot be advanced to nan"),
        (lambda e: e.resample([0, 0, 0]), "all weights are 0"),
        (lambda e: e.resample([1, math.nan, 1]), "particle 1 is nan"),
        (lambda e: e.resample([1, -1, 1]), "particle 1 is -1"),
        (lambda e: e.resample([1, 1]), "one value per particle"),
        (lambda e: e.resample(method="residual"), "systematic"),
        (lambda e: e.weigh([0, math.nan, 0]), "particle 1 is nan"),
        (lambda e: e.weigh(0.0), "one value per particle"),
        (lambda e: e.take([0, 3]), "from 0 to 2"),
        (lambda e: e.take([0.0]), "whole numbers"),
        (lambda e: e.take([]), "whole numbers"),
        (lambda e: e.set(Y=1), "Y"),
        (lambda e: e.set(X=-1), "whole numbers"),
        (lambda e: e.set(X=0.5), "whole numbers"),
        (lambda e: e.set(X=2, Y=1), "Y"),
        (lambda e: e.set(k=2, X=-1), "whole numbers"),
        (lambda e: e.set(k=[1, 2]), "one per particle"),
        (lambda e: e.values("Y"), "neither a species"),
    ],
)
def test_bad_calls_change_nothing(ask, message):
    with particles(3) as e:
        with pytest.raises((ts.ConfigError, ts.ModelError), match=message):
            ask(e)
        e.advance(1.0)
        with particles(3) as other:
            other.advance(1.0)
            assert (e.counts == other.counts).all()


@pytest.mark.parametrize(
    ("n", "given", "message"),
    [
        (0, {}, "not allowed"),
        (2.5, {}, "not allowed"),
        (3, {"method": "auto"}, "ssa, tau or ode"),
        (3, {"set": {"k": [1, 2]}}, "one per trajectory"),
        (3, {"initial": {"F": "poisson(2)"}}, "fixed"),
    ],
)
def test_bad_ensembles(n, given, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.Ensemble(turnover(), n, device="cpu", **given)


def test_more_than_the_memory_is_refused_with_its_bytes():
    with pytest.raises(ts.DeviceError, match="TiB on the device"):
        ts.Ensemble(turnover(), 10**12, device="cpu")


def digest(device):
    """A course of all verbs, as a hash."""
    actual = hashlib.sha256()
    for method in ("ssa", "tau"):
        with particles(700, device=device, method=method, initial={"X": "poisson(9)"}) as e:
            for round_, scheme in enumerate(weights.SCHEMES):
                e.advance(0.4 * (round_ + 1))
                actual.update(np.float64(e.weigh(-0.3 * e.values("X"))).tobytes())
                actual.update(e.resample(method=scheme).tobytes())
                e.set(k=np.linspace(1, 2, 700))
            actual.update(e.counts.astype("<i4").tobytes() + e.observables["twice"].tobytes())
    return actual.hexdigest()


def test_bits_stay_what_they_are():
    assert digest("cpu") == "c3a6569e053c9e3db0839783b43021da37c7fe81bd6f445671361bc60fff8af4"


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")


def test_names_that_the_model_does_not_have():
    net = ts.Network("decay")
    net.add_species("Protein", 3)
    net.add_parameter("k_off", 1.0)
    net.add_reaction("Protein ->", rate="k_off")
    with ts.Ensemble(net, 2, seed=1, device="cpu") as e:
        before = e.counts
        for name, near in (("koff", "; did you mean 'k_off'?"), ("zz", "")):
            known = (
                f"no parameter or species of that name; parameters: k_off; species: Protein{near}"
            )
            for call, spelled in (
                (lambda given: e.set(**given), f"set['{name}']"),
                (lambda given: e.reset(set=given), f"set['{name}']"),
                (lambda given: ts.Ensemble(net, 2, set=given), f"set['{name}']"),
            ):
                with pytest.raises(ts.ConfigError) as message:
                    call({name: 1.0})
                assert str(message.value) == f"{spelled}: decay has {known}"
        with pytest.raises(ts.ConfigError, match=r"it has Protein; did you mean 'Protein'\?"):
            e.values("protein")
        assert (e.counts == before).all()


def test_sums_have_one_shape():
    values = np.array([1.0, 1e16, -1e16, 1.0, 3.0])
    assert fixed_sum(values) == (1.0 + 1e16) + (-1e16 + 1.0) + 3.0
    assert fixed_sum(values[:0]) == 0.0
    assert weights.log_mean(np.array([-np.inf, -np.inf])) == -np.inf
    assert weights.log_mean(np.array([-2000.0, -2000.0])) == pytest.approx(-2000)
    assert weights.effective_size(np.zeros(7)) == 7
