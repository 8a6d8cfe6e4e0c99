"""Lattice runs on surfaces against exact laws of diffusion, adsorption and pairs.

Seeds are fixed. A right program fails a test with a chance of 1e-5, beside what sites that are
not a smooth surface cost: 2 % of D, 1 % of the particles of a slab of ten sites.
"""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab import geometry

H, D = 1e-8, 1e-12
Z_LIMIT = 4.4  # two-sided 1.1e-5


@pytest.mark.validate
def test_particles_on_a_sphere_forget_where_they_were():
    """The mean of cos(theta) falls as exp(-2 D t / R^2)."""
    n = 28
    lattice = ts.Lattice("ball", shape=(n, n, n), spacing=H)
    mask = geometry.membrane(geometry.sphere(lattice, 12 * H))
    lattice.add_site_type("water")
    lattice.add_site_type("membrane", mask)
    lattice.add_species("A")
    lattice.add_diffusion("A", D, surface="membrane")
    at = np.argwhere(mask) - (n - 1) / 2
    top = np.argwhere(mask)[at[:, 0] > 9]
    lattice.place("A", positions=np.repeat(top, 4, axis=0))
    ensemble = ts.Ensemble(lattice, 10, seed=3)
    z = np.arange(n) - (n - 1) / 2

    def mean():
        profile = np.asarray(ensemble.profile("A", "z")).sum(axis=0)
        return (profile * z).sum() / profile.sum()

    before = mean()
    radius2 = (at**2).sum(axis=1).mean()
    ensemble.advance(0.5 * radius2 * H * H / (2 * D))
    left = mean() / before
    error = np.sqrt(radius2 / 3 / (len(top) * 4 * 10)) / (before * np.exp(-0.5))
    assert abs(-np.log(left) / 0.5 - 1) < 0.02 + Z_LIMIT * error / 0.5


@pytest.mark.parametrize("replicas", ordinary([10, 1], 1))
def test_a_wall_adsorbs_as_its_constant_says(replicas):
    """A slab of length L, one wall of which takes kappa c: with kappa L / D = 1, at t = L^2 / D."""
    sites = 10
    length = (sites - 0.5) * H
    lattice = ts.Lattice("slab", shape=(sites, 6, 6), spacing=H, step=8e-6)
    lattice.add_site_type("water")
    lattice.add_site_type("wall", np.indices(lattice.shape)[0] == 0)
    lattice.add_species("A")
    lattice.add_diffusion("A", D)
    lattice.add_reaction("A ->", rate=D / length * 1e6, unit="um s^-1", site_types="wall")
    start = np.repeat(np.indices(lattice.shape).reshape(3, -1).T, 8, axis=0)
    lattice.place("A", positions=start)
    actual = ts.run(lattice, t_end=length**2 / D, replicas=replicas, seed=5, quiet=True)
    left = float(actual.mean("A")[-1]) / len(start)
    exact = 0.4704  # sum of 2 / (b^2 (b^2 + 2)) exp(-b^2) over b tan(b) = 1
    error = np.sqrt(exact * (1 - exact) / (replicas * len(start)))
    assert abs(left - exact) < 0.01 + Z_LIMIT * error


@pytest.mark.validate
def test_pairs_on_a_plane_that_is_well_mixed():
    """A + B -> with k, where diffusion is fast: a network with the propensity k n_A n_B / area."""
    k, number, side, replicas = 1e-4, 400, 20, 4
    lattice = ts.Lattice("plane", shape=(3, side, side), spacing=H)
    lattice.add_site_type("water")
    lattice.add_site_type("wall", np.indices(lattice.shape)[0] == 1)
    lattice.add_species("A", "B")
    lattice.add_diffusion("*", 1e-13, surface="wall")
    lattice.add_reaction("A + B ->", rate=k, unit="um^2 s^-1", site_types="wall")
    network = ts.Network("mixed")
    network.add_reaction("A + B ->", rate=k / (side * H * 1e6) ** 2)
    for name in "AB":
        lattice.place(name, count=number, site_type="wall")
        network.add_species(name, number)
    actual = ts.run(lattice, t_end=1.0, replicas=replicas, seed=7, quiet=True)
    exact = ts.run(network, n=4000, times=[0, 1.0], seed=7, quiet=True)
    mean, spread = float(exact.mean("A")[-1]), float(np.sqrt(exact.variance("A")[-1]))
    error = spread * np.sqrt(1 / replicas + 1 / 4000)
    assert abs(float(actual.mean("A")[-1]) - mean) < Z_LIMIT * error
