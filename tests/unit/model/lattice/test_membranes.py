"""What check says of sites that hops confine: pieces, and diffusion on staircases."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab import geometry
from tauslab.model.lattice.diagnosis import membranes
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report

SPACING, D = 1e-8, 1e-12


def confined(mask, hop, boundary="periodic"):
    """A species that stays in a mask, and hops with this probability."""
    step = hop * SPACING**2 / D
    lattice = ts.Lattice("m", shape=mask.shape, spacing=SPACING, step=step, boundary=boundary)
    lattice.add_species("A")
    lattice.add_site_type("water")
    lattice.add_site_type("membrane", mask)
    lattice.add_diffusion("A", D, within="membrane")
    lattice.place("A", count=10, site_type="membrane")
    return lattice


def told(lattice):
    (found,) = lattice_facts(lattice)["confined"]
    return found


def along_a_staircase(hop):
    """D of passes of hops along x, then y, on sites A - B = A' - B' ..., over that of a line.

    A wave of the phase k from A to A' decays by its largest eigenvalue: exp(-q D (k / 2)^2).
    """
    phase = 1e-3
    along_x = np.array([[1 - hop, hop], [hop, 1 - hop]])
    turn = hop * np.exp(1j * phase)
    along_y = np.array([[1 - hop, turn.conjugate()], [turn, 1 - hop]])
    decay = np.abs(np.linalg.eigvals(along_x @ along_y)).max()
    return -4 * np.log(decay) / (hop * phase**2)


@pytest.mark.parametrize("hop", [0.001, 0.1, 1 / 6])
def test_a_diagonal_staircase(hop):
    """Along it a walk needs two hops for sqrt(2) h, so D is halved; along z it is as it is."""
    exact = along_a_staircase(hop)
    assert exact == pytest.approx(1 / (1 - hop), rel=1e-4)
    _, y, x = np.indices((30, 30, 30))
    found = told(confined(np.isin((y - x) % 30, (0, 1)), hop))
    (ratio,) = [ratio for _, ratio in found["effective"]]
    assert ratio == pytest.approx((exact / 2 + 1) / 2, rel=1e-3)


def test_a_flat_membrane_is_as_fast_as_free_space():
    mask = np.zeros((5, 20, 20), bool)
    mask[2] = True
    assert told(confined(mask, 0.1))["effective"][0][1] == pytest.approx(1, rel=1e-9)
    assert not [line for line in lattice_report(confined(mask, 0.1)) if "staircase" in line]


@pytest.mark.parametrize(("neighbours", "eigenvalue"), [(26, 0.708), (18, 0.637)])
def test_the_membrane_of_a_sphere(neighbours, eigenvalue):
    """The lowest eigenvalue of the graph of its sites is 2 D_eff / <r^2>, as SciPy computes it."""
    grid = ts.Lattice("g", shape=(24, 24, 24), spacing=SPACING)
    mask = geometry.membrane(geometry.sphere(grid, 10 * SPACING), neighbours=neighbours)
    lattice = confined(mask, 0.001)
    found = told(lattice)
    assert found["pieces"] == 1
    assert found["effective"][0][1] == pytest.approx(eigenvalue, rel=0.05)
    assert [line for line in lattice_report(lattice) if line.startswith("warning: A diffuses")]


def test_sites_that_hops_do_not_join():
    grid = ts.Lattice("g", shape=(20, 20, 20), spacing=SPACING)
    mask = geometry.membrane(geometry.sphere(grid, 8 * SPACING), neighbours=6)
    from scipy import ndimage

    lattice = confined(mask, 0.1)
    found = told(lattice)
    assert found["pieces"] == ndimage.label(mask)[1] > 1
    assert found["touching"] == ndimage.label(mask, np.ones((3, 3, 3)))[1] == 1
    assert found["effective"] == ()
    assert any("do not join" in line for line in lattice_report(lattice))
    two = np.zeros((6, 6, 12), bool)
    two[2:4, 2:4, 2:4] = two[2:4, 2:4, 8:10] = True
    assert (told(confined(two, 0.1))["pieces"], told(confined(two, 0.1))["touching"]) == (2, 2)
    assert not any("do not join" in line for line in lattice_report(confined(two, 0.1)))
    across = np.roll(two, 3, 2)  # over the periodic face
    assert told(confined(across, 0.1))["pieces"] == 2
    assert told(confined(across, 0.1, "reflecting"))["pieces"] == 3


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MOST_SITES", "nor D_eff/D were estimated, for the lattice has more than 100 sites"),
        ("_MOST_CONFINED", "nor D_eff/D were estimated, for more than 100 sites"),
        ("_MOST_WALKED", "400 sites in 1 piece; D_eff/D was not estimated, for more than 100"),
    ],
)
def test_what_is_too_large_to_look_at_is_said(monkeypatch, limit, words):
    monkeypatch.setattr(membranes, limit, 100)
    mask = np.zeros((5, 20, 20), bool)
    mask[2] = True
    (line,) = [one for one in lattice_report(confined(mask, 0.1)) if one.startswith("hops of A")]
    assert words in line
