"""Weighted ensembles of lattices."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main
from tauslab.kernels.lattice import planes

SITES, RATE, STEP = 64, 0.05, 0.01


def births(decay=0.0):
    """Each site and step makes a particle with the same probability, whatever is there."""
    cube = ts.Lattice("births", shape=(4, 4, 4), spacing=1e-7, boundary="periodic", step=STEP)
    cube.add_species("A")
    cube.add_diffusion("A", 1e-14)
    cube.add_reaction("-> A", rate=RATE, volume=1e-21)
    if decay:
        cube.add_reaction("A ->", rate=decay)
    cube.t_end = 1.0
    return cube


def tail(least, tries):
    """P(at least so many particles): binomial."""
    p = -math.expm1(-RATE * STEP)
    terms = [math.comb(tries, k) * p**k * (1 - p) ** (tries - k) for k in range(least)]
    return 1 - math.fsum(terms)


def walk(lattice=None, **given):
    given = {"target": "A >= 8", "seed": 1, "device": "cpu", "look_every": 25} | given
    return ts.weighted_ensemble(lattice or births(), **given)


def test_births_have_the_exact_law():
    """Few walkers and many runs: three standard errors, false alarms 0.3 %."""
    with pytest.warns(UserWarning, match="4.2 of 12 runs determine the estimate"):
        actual = walk(target="A >= 6", runs=12, walkers=3, bins=3, rounds=3)
    exact = tail(6, SITES * 100)
    assert abs(actual.estimate - exact) < 3 * actual.standard_error < 1.0 * exact
    assert actual.rounding < 1e-13
    assert (np.diff(actual.reached, axis=1) >= 0).all()


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:.* runs determine the estimate", "ignore:no walker reached")
def test_births_in_planes_have_the_exact_law(monkeypatch, tmp_path):
    """As above; a checkpoint of lattices in slots is that of another search."""
    path = tmp_path / "births.h5"
    few = {"checkpoint": path, "runs": 2, "walkers": 2, "rounds": 2, "bins": 2}
    walk(**few)
    monkeypatch.setattr(planes, "MANY_SITES", 0)
    monkeypatch.setattr(planes, "LEAST_DENSITY", 0)
    actual = walk(target="A >= 6", runs=12, walkers=3, bins=3, rounds=3)
    exact = tail(6, SITES * 100)
    assert abs(actual.estimate - exact) < 3 * actual.standard_error < 1.0 * exact
    with pytest.raises(ts.ConfigError, match="was begun with another"):
        walk(**few)


def test_everything_else_of_lattices(tmp_path, capsys):
    small = {"runs": 2, "walkers": 2, "rounds": 2, "bins": 2}
    # A start in the target needs no bins.
    assert walk(target="A >= 0", **small).bounds == (1.0, 1.0)
    with pytest.warns(UserWarning, match="no walker reached"):
        assert walk(target="A >= 1000", **small).estimate == 0
    with pytest.warns(UserWarning, match="within a round"):
        assert walk(target="A >= 1", steady=True, **small).quantity == "rate"
    with pytest.raises(ts.ConfigError, match="B_in_default"):
        walk(target="B_in_default > 3", **small)
    with pytest.raises(ts.ConfigError, match="t_end is 100 steps"):
        walk(**small | {"rounds": 101})
    with pytest.raises(ts.ConfigError, match="max_steps= is of networks"):
        walk(max_steps=5)
    with pytest.raises(ts.ConfigError, match="max_extension= is of networks"):
        walk(steady=True, max_extension=3)
    with pytest.raises(ts.ConfigError, match="at most 65536 lattices"):
        walk(walkers=40_000, bins=2)
    path = tmp_path / "births.h5"
    births().write(path)
    words = ["rare", str(path), "--target", "A >= 2", "--runs", "2", "--walkers", "2", "--bins",
             "1", "--rounds", "2", "--seed", "1", "--device", "cpu"]  # fmt: skip
    assert main(words) == 0
    assert "probability of A >= 2" in capsys.readouterr().out


def digest(device):
    """With sites of two types, as targets and coordinates see them."""
    lattice = ts.Lattice("halves", shape=(4, 8, 8), spacing=1e-7, step=STEP, t_end=0.4)
    upper = np.zeros(lattice.shape, bool)
    upper[2:] = True
    lattice.add_site_type("low")
    lattice.add_site_type("up", upper)
    lattice.add_species("A")
    lattice.add_diffusion("*", 2e-13)
    lattice.place("A", count=12, site_type="low")
    actual = walk(
        lattice, target="A_in_up >= 7", runs=2, walkers=4, rounds=4, bins=5, look_every=5,
        device=device,
    )  # fmt: skip
    assert actual.estimate > 0
    return hashlib.sha256(actual.runs.astype("<f8").tobytes()).hexdigest()


def test_bits_stay_what_they_are():
    assert digest("cpu") == "13b1b1c10f8a7e2c59e2f39cfd8318ee6e0f94f2518449aee48bec85bbffed59"


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")


@pytest.mark.validate
def test_a_target_that_is_left_again():
    """Against plain replicas that are looked at in every step: four standard errors."""
    lattice = births(decay=5.0)
    lattice.t_end = 0.5
    plain = ts.run(lattice, replicas=200, count_every=1, seed=2, device="cpu")
    there = plain.to_xarray()["counts"].sel(species="A").max("time").values >= 3
    actual = walk(lattice, target="A >= 3", runs=30, walkers=4, bins=3, rounds=5, look_every=1)
    error = math.hypot(actual.standard_error, there.std() / math.sqrt(200))
    assert abs(actual.estimate - there.mean()) < 4 * error
