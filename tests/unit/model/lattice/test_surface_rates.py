"""Rate constants on surfaces: per area, of particles that come from the volume, of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import tauslab as ts
from tauslab import geometry
from tauslab.model.lattice.values import lattice_values

H = 1e-8  # m; a site of a plane has 1e-4 um^2


def plane(depth=5):
    """Sites of a wall at z = 0, under water."""
    lattice = ts.Lattice("plane", shape=(depth, 4, 4), spacing=H)
    lattice.add_site_type("water")
    lattice.add_site_type("wall", np.indices(lattice.shape)[0] == 0)
    lattice.add_species("A", "B", "C")
    return lattice


def rate_of(lattice, number=0, site_type=1):
    return lattice_values(lattice).rates[number, site_type]


@pytest.mark.parametrize(
    ("equation", "rate", "unit", "constant"),
    [
        ("-> A", 3.0, "um^-2 s^-1", 3e-4),  # k s
        ("A -> B", 0.5, "um s^-1", 50.0),  # k / h
        ("A + B -> C", 2e-3, "um^2 s^-1", 20.0),  # k / s
        ("2 A -> C", 2e-3, "um^2 s^-1", 40.0),  # twice, as events are k [A]^2
    ],
)
def test_constants_of_a_site(equation, rate, unit, constant):
    lattice = plane()
    lattice.add_reaction(equation, rate=rate, unit=unit, site_types="wall")
    assert rate_of(lattice) == pytest.approx(constant, rel=1e-12)
    assert rate_of(lattice, site_type=0) == 0


def test_an_area_of_ones_own_is_shared_by_the_sites():
    lattice = plane()
    given = {"rate": 1.0, "unit": "um^2 s^-1", "site_types": "wall", "area": 32e-16}
    lattice.add_reaction("A + B -> C", **given)
    assert rate_of(lattice) == pytest.approx(1 / 2e-4)
    lattice.paint("wall", np.indices(lattice.shape)[0] < 2)  # 32 sites, each with the area of 16
    with pytest.raises(ts.ModelError, match=r"reaction R1: wall had 16 sites .* 32 now"):
        rate_of(lattice)


def test_there_and_back():
    lattice = plane()
    unit = {"unit": "um s^-1", "site_types": "wall"}
    lattice.add_reaction("A <-> B", rate=(0.5, 3.0), name="bind", **unit)
    assert [rate_of(lattice, j) for j in range(2)] == pytest.approx([50.0, 3.0])
    assert rate_of(lattice, 1, 0) == 0


@pytest.mark.parametrize(("radius", "off"), [(8, 0.025), (12, 0.01), (20, 0.005)])
def test_the_area_of_a_sphere_is_measured(radius, off):
    n = 2 * radius + 4
    lattice = ts.Lattice("ball", shape=(n, n, n), spacing=H)
    lattice.add_site_type("water")
    mask = geometry.membrane(geometry.sphere(lattice, radius * H))
    lattice.add_site_type("membrane", mask)
    lattice.add_species("A")
    lattice.add_reaction("-> A", rate=1.0, unit="um^-2 s^-1", site_types="membrane")
    squared = ((np.argwhere(mask) - (n - 1) / 2) ** 2).sum(axis=1).mean() * H * H
    assert mask.sum() * rate_of(lattice) == pytest.approx(4 * np.pi * squared * 1e12, rel=off)


def test_files_keep_units_of_surfaces(tmp_path):
    lattice = plane()
    lattice.add_diffusion("A", 1e-12)
    lattice.add_reaction("A <-> B", rate=(0.5, 3.0), unit="um s^-1", site_types="wall")
    lattice.add_reaction("2 B -> C", rate=0.1, unit="um^2 s^-1", site_types="wall", area=1e-15)
    again = ts.read(lattice.write(tmp_path / "plane.h5"))
    assert again.reactions == lattice.reactions
    assert "0.1 um^2 s^-1 in wall" in str(again)
    text = """[lattice]
shape = [5, 4, 4]
spacing = 1e-8
site_types = ["water", "wall"]
[[regions]]
site_type = "wall"
shape = "box"
low = [0, 0, 0]
high = [1e-8, 4e-8, 4e-8]
[species]
A = 0
B = 0
C = 0
[[diffusion]]
species = "*"
coefficient = 1e-12
[[reactions]]
equation = "2 B -> C"
rate = 0.1
unit = "um^2 s^-1"
area = 1e-15
site_types = "wall"
"""
    (tmp_path / "plane.toml").write_text(text)
    (one,) = ts.read(tmp_path / "plane.toml").reactions
    assert one.site_area == lattice.reactions[2].site_area


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unit": "um s^-1", "site_types": "wall"}, "'um\\^2 s\\^-1'"),
        ({"unit": "um^2 s^-1"}, "site_types= are to say"),
        ({"unit": "M^-1 s^-1", "area": 1e-12}, "area= needs a unit of a surface"),
        ({"unit": "um^2 s^-1", "site_types": "wall", "area": -1.0}, "area = -1 m\\^2"),
        ({"unit": "um^2 s^-1", "site_types": "wall", "volume": "site"}, "either unit="),
    ],
)
def test_what_is_refused(given, words):
    with pytest.raises(ts.ModelError, match=words):
        plane().add_reaction("A + B -> C", rate=1.0, **given)


def left_in_a_slab(bi, time):
    """Part of a uniform start that a wall with D c' = kappa c has not adsorbed.

    bi = kappa L / D, time = D t / L^2; the other wall reflects.
    """
    total = 0.0
    for k in range(40):
        low, high = k * np.pi + 1e-12, (k + 0.5) * np.pi - 1e-12
        b = brentq(lambda b: b * np.sin(b) - bi * np.cos(b), low, high)
        total += 2 * bi**2 / (b**2 * (b**2 + bi**2 + bi)) * np.exp(-(b**2) * time)
    return total


@pytest.mark.parametrize("bi", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("sites", "off"), [(20, 0.02), (80, 0.005)])
def test_adsorption_is_that_of_a_wall(sites, off, bi):
    """Sites of a column against the exact part; the wall is in the middle of its sites."""
    lattice, d = plane(sites), 1e-12
    length = (sites - 0.5) * H
    kappa = bi * d / length * 1e6  # um/s
    lattice.add_diffusion("A", d)
    lattice.add_reaction("A -> B", rate=kappa, unit="um s^-1", site_types="wall")
    hop = lattice_values(lattice).diffusion[0, 1, 0] / H**2
    rates = hop * (np.eye(sites, k=1) + np.eye(sites, k=-1))
    rates -= np.diag(rates.sum(axis=0))
    rates[0, 0] -= rate_of(lattice)
    for time in (0.2, 1.0):
        left = expm(rates * time * length**2 / d).sum() / sites
        assert left == pytest.approx(left_in_a_slab(bi, time), rel=off)
