"""Counts and rates of lattices that are set while they run."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.lattice import planes
from tauslab.kernels.lattice.lowering import lower_lattice, with_rates
from tauslab.model.lattice.values import rates_behind

SHAPE = (6, 5, 7)
pytestmark = pytest.mark.filterwarnings("ignore:.*particles waited")


@pytest.fixture(autouse=True, params=ordinary(["slots", "planes"], "planes"))
def _engine(request, monkeypatch):
    """All of them with either storage."""
    monkeypatch.setattr(planes, "MANY_SITES", 0 if request.param == "planes" else np.inf)
    monkeypatch.setattr(planes, "LEAST_DENSITY", 0)


def cell(slots=8):
    """A hops in the upper half alone, S stands where it is placed, F is made in the lower half."""
    made = ts.Lattice("cell", shape=SHAPE, spacing=3e-8, slots=slots, step=1e-4)
    upper = np.indices(SHAPE)[0] > 2
    made.add_site_type("low")
    made.add_site_type("up", upper)
    made.add_species("A", "S", "F", "X")
    made.add_parameter("k", 30.0)
    made.add_diffusion("A", 1e-12, within="up")
    made.add_reaction("A -> X", rate="k", name="turn")
    made.add_reaction("S -> S + F", rate=0.0, site_types="low", name="make")
    made.place("A", count=100, site_type="up")
    made.place("S", count=9, site_type="low")
    return made


def particles(n=4, seed=1, device="cpu", **given):
    return ts.Ensemble(cell(), n, seed=seed, device=device, **given)


def held(e, number):
    """Particles of a species in slots, by lattice."""
    return (np.asarray(e.device_particles) == number + 1).sum(axis=(1, 2, 3, 4))


def test_counts_come_and_go():
    with particles() as e:
        e.advance(1e-3)
        x = e.values("X")
        wanted = np.array([0, 50, 150, 300])
        e.set(A=wanted, S=20)
        assert (e.values("A") == wanted).all()
        assert (held(e, 0) >= wanted - 2).all()  # some of 300 wait
        assert (e.values("A_in_up") == wanted).all()
        assert (e.values("S_in_low") == 20).all()
        assert (e.values("X") == x).all()
        fresh = e._motion._lattices.count()
        assert (e._motion._by_type == fresh).all()
        e.fired()
        e.advance(2e-3)
        assert (wanted - e.values("A") == e.fired()[:, 0]).all()


def test_what_finds_no_slot_waits_and_goes_too():
    with particles(2) as e:
        e.set(A=2000)  # of 840 slots
        assert e.counts[:, 0].tolist() == [2000, 2000]
        assert (held(e, 0) <= 840).all()
        e.set(A=[100, 0])
        assert e.counts[:, 0].tolist() == [100, 0]
        assert (e._motion._by_type == e._motion._lattices.count()).all()
        e.advance(1e-3)
        assert e.counts[:, [0, 3]].sum(axis=1).tolist() == [100, 0]


def test_sites_and_particles_are_drawn_alike():
    """Means along x and y of 300 that came and of 50 of 300 that stay: 4.5 sd, 7e-6 each."""
    with particles(40) as e:
        e.set(A=0)
        e.set(A=300)
        many = np.argwhere(np.asarray(e.device_particles) == 1)
        e.set(A=50)
        few = np.argwhere(np.asarray(e.device_particles) == 1)
    for actual in (many, few):
        for axis in (2, 3):
            size = SHAPE[axis - 1]
            sd = np.sqrt((size**2 - 1) / 12 / len(actual))
            assert abs(actual[:, axis].mean() - (size - 1) / 2) < 4.5 * sd
    filled = len({*map(tuple, many[:, :4].tolist())})
    assert 3900 < filled < 4010  # of 4200 sites, as 1 - exp(-300 / 105)


def test_calls_draw_anew_and_go_on_from_a_file(tmp_path):
    with particles(3) as e:
        e.set(A=0)
        e.set(A=40)
        first = np.asarray(e.device_particles).copy()
        e.set(A=0)
        e.set(A=40)
        assert (np.asarray(e.device_particles) != first).any()
        e.save(tmp_path / "p.h5")
        with ts.Ensemble.load(tmp_path / "p.h5", device="cpu") as f:
            for one in (e, f):
                one.set(A=90, S=1)
                one.advance(1e-3)
            assert (np.asarray(e.device_particles) == np.asarray(f.device_particles)).all()
        e.reset()
        e.set(A=0)
        e.set(A=40)
        assert (np.asarray(e.device_particles) == first).all()


def test_rates_have_the_bits_of_the_models_own():
    """Kernels and memory stay, and the number goes back to what it was."""
    with particles(3) as e, particles(3, set={"k": 500.0}) as f:
        kept = e._motion._replicas
        e.set(k=500.0)
        for one in (e, f):
            one.advance(2e-3)
        assert e._motion._replicas is kept
        assert (e.counts == f.counts).all()
        assert (e.counts[:, 3] > 30).all()
        for one in (e, f):
            one.set(k=30.0)
            one.advance(4e-3)
        assert (e.counts == f.counts).all()
        e.set(k=0.0)
        before = e.counts
        e.advance(6e-3)
        assert (e.counts == before).all()


@pytest.mark.parametrize("value", [-1, 1.5, np.inf, [1, 2, -3, 4]])
def test_what_is_no_number_is_refused(value):
    with particles() as e, pytest.raises(ts.ConfigError, match="A: counts must be whole"):
        e.set(A=value)


@pytest.mark.gpu
def test_devices_agree():
    with particles() as e, particles(device="cuda") as f:
        for one in (e, f):
            one.advance(1e-3)
            one.set(A=[0, 50, 1500, 300], S=3)
            one.advance(2e-3)
            one.set(A=77, k=100.0)
            one.advance(3e-3)
        assert (e.counts == f.counts).all()
        assert (e.fired() == f.fired()).all()


def test_rates_alone_are_computed_where_nothing_else_follows():
    model = cell()
    model.add_parameter("twice", "2 * k")
    model.add_parameter("d", 1e-13)
    model.add_reaction("2 A -> X", rate="twice", unit="M^-1 s^-1", name="pair")
    model.add_diffusion("X", "d")
    assert rates_behind(model, {"k"}) == [0, 2]
    assert rates_behind(model, {"d"}) is None
    assert rates_behind(model, {"A"}) is None
    actual = with_rates(lower_lattice(model), model, [0, 2], {"k": 700.0})
    whole = lower_lattice(model, parameters={"k": 700.0})
    assert (actual.rates == whole.rates).all()
    assert actual.parameters == whole.parameters
    assert actual.splitting.error >= whole.splitting.error
