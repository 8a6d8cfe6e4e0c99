"""Particles that are lattices: the same verbs, exact laws, filters."""

from __future__ import annotations

import hashlib
import math
import warnings

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.analysis.particles import weights
from tauslab.cli.main import main
from tauslab.kernels.lattice import planes

STEP = 2e-3
pytestmark = pytest.mark.filterwarnings("ignore:pairs. reaction R1 .* is so fast")


@pytest.fixture(autouse=True, params=["slots", pytest.param("planes", marks=pytest.mark.validate)])
def _engine(request, monkeypatch):
    """All of them in slots; in planes with `-m validate`, and those that ask for `EITHER`."""
    monkeypatch.setattr(planes, "MANY_SITES", 0 if request.param == "planes" else np.inf)
    monkeypatch.setattr(planes, "LEAST_DENSITY", 0)


EITHER = pytest.mark.parametrize("_engine", ordinary(["slots", "planes"], "planes"), indirect=True)


def pairs(count=30, **given):
    """A + B <-> C in two halves, of which A and B begin in the lower one."""
    given = {"shape": (4, 6, 5), "boundary": "periodic", "step": 1e-4} | given
    lattice = ts.Lattice("pairs", spacing=3e-8, **given)
    lattice.add_species("A", "B", "C")
    lattice.add_parameter("k", 50.0)
    upper = np.zeros(lattice.shape, bool)
    upper[2:] = True
    lattice.add_site_type("low")
    lattice.add_site_type("up", upper)
    lattice.add_diffusion("*", 1e-12)
    lattice.add_parameter("meet", 1e8)
    lattice.add_reaction("A + B -> C", rate="meet", unit="M^-1 s^-1")
    lattice.add_reaction("C -> A + B", rate="k")
    lattice.place("A", count=count, site_type="low")
    lattice.place("B", count=count, site_type="low")
    return lattice


def decay(n=60):
    """Nothing but diffusion and decay: of all particles each goes by itself."""
    lattice = ts.Lattice("decay", shape=(4, 4, 4), spacing=1e-7, boundary="periodic", step=STEP)
    lattice.add_species("A")
    lattice.add_parameter("k", 2.0)
    lattice.add_diffusion("A", 1e-14)
    lattice.add_reaction("A ->", rate="k")
    lattice.place("A", count=n)
    return lattice


def particles(model, n=20, device="cpu", **given):
    return ts.Ensemble(model, n, seed=given.pop("seed", 3), device=device, **given)


def test_a_start_is_that_of_a_run():
    run = ts.run(pairs(), seed=3, replicas=3, t_end=1e-4, frame_every=1, device="cpu")
    with particles(pairs(), 3) as e, particles(pairs(), 2) as few:
        for replica in range(3):
            for number, name in enumerate(("A", "B")):
                held = np.asarray(e.device_particles[replica]) == number + 1
                assert (held.sum(axis=3) == run.at(0, replica=replica).density(name, 0)).all()
        assert e.species == ("A", "B", "C")
        for one in (e, few):
            one.advance(0.002)
        assert (few.counts == e.counts[:2]).all()
        assert e.counts.sum() < 3 * 60


@pytest.mark.validate
def test_counts_that_are_set_again_are_kept_where_some_wait():
    """Of those that wait some go, and others come behind them."""
    model = ts.Lattice("full", shape=(1, 1, 2), spacing=3e-8, slots=8, step=1e-4)
    model.add_species("A")
    with particles(model, 4) as e:
        for count in (40, 10, 60):
            e.set(A=count)
        e.advance(0.001)
        assert (e.counts == 60).all()


def test_rates_that_are_set_are_judged_once():
    """The error by turns of hops and reactions, with the largest rate that a particle has."""
    slow = pairs()
    slow.parameters["meet"] = pairs().parameters["k"]
    with warnings.catch_warnings(record=True) as message, particles(slow, 2) as e:
        warnings.simplefilter("always")
        e.set(k=60.0)
        assert not message
        e.set(meet=[1e6, 1e8])
        e.set(meet=2e8)
        assert len(message) == 1
        assert "reaction R1 in low is so fast" in str(message[0].message)


@EITHER
def test_everything_is_counted_somewhere():
    with particles(pairs(count=230, slots=8), 6) as e:
        for t in (0.0003, 0.003):
            e.advance(t)
            for name in "ABC":
                for axis in "zyx":
                    profile = e.profile(name, axis)
                    assert (profile.sum(axis=1) == e.values(name)).all()
                assert profile.shape == (6, 5)
                up = e.profile(name, "z")[:, 2:].sum(axis=1)
                assert (e.values(f"{name}_in_up") == up).all()
            assert (e.values("A") + e.values("C") == 230).all()
        assert set(e.observables) == {f"{s}_in_{kind}" for s in "ABC" for kind in ("low", "up")}
        assert e.mean("A") == pytest.approx(e.counts[:, 0].mean())
        assert np.asarray(e.device_counts).tolist() == e.counts.tolist()
        assert np.asarray(e.device_particles).shape == (6, 4, 6, 5, 8)


def test_time_is_that_of_the_last_step():
    with particles(decay(), 3) as e, particles(decay(), 3) as f:
        for t in (STEP / 3, STEP * 0.999):
            e.advance(t)
            assert (e.time, e.counts[:, 0].tolist()) == (t, [60] * 3)
        e.advance(STEP)
        f.advance(3 * STEP)
        assert f.n == 3
        with pytest.raises(ts.ConfigError, match="cannot be advanced"):
            e.advance(0.0)
        e.advance(1e-3 * math.floor(0.3 / 1e-3))  # no step is lost to rounding
        assert e._motion._done == 150


@pytest.mark.validate
def test_decay_has_its_law():
    """Binomial by steps; three standard errors, 0.3 % of false alarms each of two."""
    with particles(decay(), 400, set={"k": [1.0] * 200 + [4.0] * 200}) as e:
        e.advance(0.1)
        e.advance(0.25)
        e.take(np.arange(400)[::-1])  # values go with their particle
        e.advance(0.4)
        for k, part in ((4.0, e.counts[:200, 0]), (1.0, e.counts[200:, 0])):
            p = math.exp(-k * 0.4)
            assert abs(part.mean() - 60 * p) < 3 * math.sqrt(60 * p * (1 - p) / 200)


@EITHER
def test_verbs(tmp_path):
    with particles(pairs(), 12, set={"k": np.linspace(1, 400, 12)}) as e:
        e.advance(0.002)
        before, where = e.counts, e.profile("A")
        ancestors = e.resample(e.values("C") + 1, "multinomial")
        assert (e.counts == before[ancestors]).all()
        assert (e.profile("A") == where[ancestors]).all()
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            for one in (e, f):
                one.advance(0.004)
                one.take([3, 3, 0, 11], weights=[1, 2, 3, 4])
                one.set(k=5.0)
                one.advance(0.006)
            assert (e.counts == f.counts).all()
            assert (e.profile("C", "x") == f.profile("C", "x")).all()
            assert (e.n, f.n) == (4, 4)
        with pytest.raises(ts.ConfigError, match="A: counts must be whole numbers"):
            e.set(A=-3)
        with pytest.raises(ts.ConfigError, match="no parameter or species"):
            e.set(q=3)
    with particles(pairs(), 5, initial={"A": "uniform(0,50)"}, set={"B": range(5)}) as e:
        assert e.counts[:, 1].tolist() == [0, 1, 2, 3, 4]
        first = e.counts
        assert len(set(first[:, 0].tolist())) > 1
        e.advance(0.002)
        e.reset()
        assert (e.counts == first).all()


def test_what_is_refused():
    with pytest.raises(ts.DeviceError, match=r"50000 particles of pairs take .* are free"):
        particles(pairs(shape=(200, 200, 200)), 50_000)
    with pytest.raises(ts.ConfigError, match="65536 at most"):
        particles(decay(), 65_537)
    with pytest.raises(ts.ConfigError, match="of networks"):
        particles(pairs(), method="tau")
    model = pairs()
    model.add_parameter("D", 1e-12)
    model.add_diffusion("A", "D")
    with pytest.raises(ts.ConfigError, match="D change how particles hop"):
        particles(model, 2, set={"D": [1e-12, 2e-12]})
    net = ts.Network("n")
    net.add_species("A", 1)
    with particles(net, 2) as e, pytest.raises(ts.ConfigError, match="profile is of lattices"):
        e.profile("A")


DATA = {"time": [0.1, 0.25, 0.5, 0.8], "A": [50, 37, 21, float("nan")]}


@pytest.mark.validate
def test_a_filter_has_the_exact_likelihood(tmp_path, capsys):
    """Of eight filters the mean likelihood over the exact one: four standard errors, 0.6 %."""
    net = ts.Network("decay")
    net.add_species("A", 60)
    net.add_reaction("A ->", rate=2.0)
    observe = {"A": "normal(3)"}
    exact = ts.exact_filter(net, DATA, observe=observe)
    actual = ts.particle_filters(
        decay(), DATA, observe=observe, n=60, filters=8, seed=1, device="cpu", states=True
    )
    ratios = np.exp(actual.log_likelihood - exact.log_likelihood)
    assert abs(ratios.mean() - 1) < 4 * ratios.std(ddof=1) / math.sqrt(8) < 0.6
    np.testing.assert_allclose(actual.mean.mean(axis=0), exact.mean, atol=1.0)
    one = ts.particle_filter(decay(), DATA, observe=observe, n=60, seed=1, number=5, device="cpu")
    assert (one.terms == actual.terms[5]).all()
    decay().write(tmp_path / "decay.h5")
    table = tmp_path / "data.csv"
    table.write_text("time,A\n0.1,50\n0.25,37\n")
    words = ["filter", str(tmp_path / "decay.h5"), str(table), "--observe", "A=normal(3)", "-n",
             "20", "--seed", "1", "--device", "cpu"]  # fmt: skip
    assert main(words) == 0
    assert "log-likelihood" in capsys.readouterr().out


@pytest.mark.validate
def test_fast_diffusion_is_well_stirred():
    """As above, of a reaction of two; its chance is that of the well-stirred network."""
    lattice = ts.Lattice("meet", shape=(4, 4, 4), spacing=5e-8, boundary="periodic", step=1e-4)
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 4e-12)
    lattice.add_reaction("A + B -> B", rate=3e7, unit="M^-1 s^-1")
    lattice.place("A", count=25)
    lattice.place("B", count=3)
    data = {"time": [0.01, 0.03], "A": [16, 9]}
    observe = {"A": "normal(1.5)"}
    exact = ts.exact_filter(lattice.well_stirred(), data, observe=observe)
    actual = ts.particle_filters(
        lattice, data, observe=observe, n=50, filters=8, seed=2, device="cpu"
    )
    ratios = np.exp(actual.log_likelihood - exact.log_likelihood)
    assert abs(ratios.mean() - 1) < 4 * ratios.std(ddof=1) / math.sqrt(8) < 0.8


@EITHER
def test_a_filter_that_was_ended_goes_on(tmp_path, monkeypatch):
    given = {"observe": {"A": "normal(3)"}, "n": 20, "seed": 1, "device": "cpu"}
    whole = ts.particle_filter(decay(), DATA, **given)
    path = tmp_path / "filter.h5"
    usual = ts.Ensemble.advance_while

    def killed(self, t, *work):
        if t > 0.3:
            raise KeyboardInterrupt
        usual(self, t, *work)

    monkeypatch.setattr(ts.Ensemble, "advance_while", killed)
    with pytest.raises(KeyboardInterrupt):
        ts.particle_filter(decay(), DATA, checkpoint=path, checkpoint_every=0, **given)
    monkeypatch.setattr(ts.Ensemble, "advance_while", usual)
    again = ts.particle_filter(decay(), DATA, checkpoint=path, **given)
    assert (again.terms == whole.terms).all()
    with pytest.raises(ts.ConfigError, match="another model"):
        ts.particle_filter(decay(61), DATA, checkpoint=path, checkpoint_every=0, **given)


def digest(device):
    actual = hashlib.sha256()
    for model in (pairs(), pairs(count=230, slots=8)):
        with particles(model, 9, device=device, set={"k": np.linspace(1, 90, 9)}) as e:
            for round_, scheme in enumerate(weights.SCHEMES):
                e.advance(0.001 * (round_ + 1))
                actual.update(np.float64(e.weigh(-0.1 * e.values("A_in_up"))).tobytes())
                actual.update(e.resample(method=scheme).tobytes())
            actual.update(e.counts.astype("<i4").tobytes() + e.profile("A", "y").tobytes())
    return actual.hexdigest()


@pytest.mark.parametrize("_engine", ["slots"], indirect=True)
def test_bits_stay_what_they_are():
    assert digest("cpu") == "0227102a4ef4f4b6b1c6c24ecdb987f1f4cf827438ef21217ec1aebd6f9b7184"


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")


@pytest.mark.validate
def test_a_copy_keeps_rates_that_were_set():
    box = ts.Lattice("box", shape=(3, 3, 3), spacing=1e-7, step=1e-3)
    box.add_species("A")
    box.add_parameter("k", 1.0)
    box.add_reaction("A ->", rate="k")
    box.place("A", count=200)
    with ts.Ensemble(box, 2, seed=1, device="cpu") as lattices:
        lattices.set(k=0.0)
        lattices.take([0, 1, 1])
        lattices.advance(1.0)
        assert (lattices.counts == 200).all()
