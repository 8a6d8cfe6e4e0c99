"""What check says of sites that hops confine: pieces, and diffusion on staircases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix, diags, identity
from scipy.sparse.linalg import eigsh

import tauslab as ts
from tauslab import geometry
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.lattice.diagnosis import membranes
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report, model_warnings
from tauslab.model.lattice.values import lattice_values

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
    (actual,) = lattice_facts(lattice)["confined"]
    return actual


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
    actual = told(confined(np.isin((y - x) % 30, (0, 1)), hop))
    (ratio,) = [ratio for _, ratio in actual["effective"]]
    assert ratio == pytest.approx((exact / 2 + 1) / 2, rel=2e-3)


def test_a_flat_membrane_is_as_fast_as_free_space():
    mask = np.zeros((5, 20, 20), bool)
    mask[2] = True
    assert told(confined(mask, 0.1))["effective"][0][1] == pytest.approx(1, rel=1e-9)
    assert not [line for line in lattice_report(confined(mask, 0.1)) if "staircase" in line]


@pytest.mark.parametrize("planes", [1, 2])
def test_edges_of_a_flat_sheet_are_no_slower_hops(planes):
    """Walls and rims end a walk; a small floor of a box, and a disc, have D as it is given."""
    floor = np.zeros((6, 24, 24), bool)
    floor[:planes] = True
    y, x = np.indices((24, 24)) - 11.5
    for mask in (floor, floor & (y * y + x * x < 121)):
        lattice = confined(mask, 0.1, "reflecting")
        assert not membranes.surface_warnings(lattice, lattice_values(lattice))
        lattice.add_diffusion("A", 1e-12, surface="membrane")
        surface = lattice.diffusion[-1].surface
        assert (surface.ratio, surface.quickening) == (1.0, 0.0)


def test_walls_at_the_ends_of_a_cylinder_take_nothing_of_its_diffusion():
    _, y, x = np.indices((20, 40, 40)) - 19.5
    cylinder = abs(np.hypot(y, x) - 14) < 0.9
    ratios = []
    for boundary in ("periodic", "reflecting"):
        lattice = confined(cylinder, 0.1, boundary)
        lattice.add_diffusion("A", D, surface="membrane")
        ratios.append(lattice.diffusion[-1].surface.ratio)
    assert ratios[1] == ratios[0]


@pytest.mark.parametrize(("shape", "part"), [((16, 16, 16), 0.25), ((1, 64, 64), 0.3)])
def test_pockets_between_obstacles_are_no_torn_membrane(shape, part):
    mask = np.random.default_rng(1).random(shape) > part
    lattice = confined(mask, 0.1, "reflecting")
    assert told(lattice)["pieces"] > told(lattice)["touching"]
    assert not membranes.surface_warnings(lattice, lattice_values(lattice))


def test_a_curve_is_no_sheet():
    y, x = np.indices((64, 64)) - 31.5
    ring = (abs(np.hypot(y, x) - 25) < 1)[None]
    for mask in (ring, np.arange(600).reshape(1, 1, 600) < 300):
        lattice = confined(mask, 0.1, "reflecting")
        assert not membranes.surface_warnings(lattice, lattice_values(lattice))
        with pytest.raises(ts.ModelError, match="are a curve"):
            lattice.add_diffusion("A", 1e-12, surface="membrane")


@pytest.mark.parametrize(("neighbours", "eigenvalue"), [(26, 0.708), (18, 0.637)])
def test_the_membrane_of_a_sphere(neighbours, eigenvalue):
    """The lowest eigenvalue of the graph of its sites is 2 D_eff / <r^2>, as SciPy computes it."""
    grid = ts.Lattice("g", shape=(24, 24, 24), spacing=SPACING)
    mask = geometry.membrane(geometry.sphere(grid, 10 * SPACING), neighbours=neighbours)
    lattice = confined(mask, 0.001)
    actual = told(lattice)
    assert actual["pieces"] == 1
    assert actual["effective"][0][1] == pytest.approx(eigenvalue, rel=0.05)
    assert [line for line in lattice_report(lattice) if line.startswith("warning: A diffuses")]


def test_sites_that_hops_do_not_join():
    grid = ts.Lattice("g", shape=(20, 20, 20), spacing=SPACING)
    mask = geometry.membrane(geometry.sphere(grid, 8 * SPACING), neighbours=6)
    from scipy import ndimage

    lattice = confined(mask, 0.1)
    actual = told(lattice)
    assert actual["pieces"] == ndimage.label(mask)[1] > 1
    assert actual["touching"] == ndimage.label(mask, np.ones((3, 3, 3)))[1] == 1
    assert actual["effective"] == ()
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


# ---------------------------------------------------------------- surfaces


def ball(radius, neighbours=26):
    """A lattice with the membrane of a sphere of this radius, in sites."""
    n = 2 * radius + 4
    lattice = ts.Lattice("ball", shape=(n, n, n), spacing=SPACING)
    cell = geometry.sphere(lattice, radius=radius * SPACING)
    lattice.add_site_type("water")
    lattice.add_site_type("membrane", geometry.membrane(cell, neighbours=neighbours))
    lattice.add_species("A")
    return lattice


def rod(radius):
    """A lattice along which a cylinder's membrane runs, in two types by turns across it."""
    n = 2 * radius + 4
    lattice = ts.Lattice("rod", shape=(12, n, n), spacing=SPACING)
    lattice.set_boundary("z", "periodic")
    y, x = np.indices((n, n))
    disc = (y - (n - 1) / 2) ** 2 + (x - (n - 1) / 2) ** 2 <= radius**2
    wall = np.broadcast_to(geometry.membrane(np.stack([disc] * 5))[2], lattice.shape)
    lattice.add_site_type("water")
    lattice.add_site_type("even", wall)
    lattice.add_site_type("odd", wall & ((y + x) % 2 == 1))
    lattice.add_species("A")
    return lattice


def pass_of_hops(lattice, types):
    """What a pass of hops does to a quantity of sites, and coordinates from the middle."""
    hop = lower_lattice(lattice).hop[:, :, 0]
    kinds = lattice.site_array()
    mask = np.isin(kinds, [lattice.type_number(name, "") for name in types])
    numbers = np.full(mask.shape, -1)
    numbers[mask] = np.arange(mask.sum())
    passes = []
    for axis in range(3):
        other = np.roll(numbers, -1, axis)
        if lattice.boundary[f"{'zyx'[axis]}-"].kind != "periodic":
            np.moveaxis(other, axis, 0)[-1] = -1
        both = (numbers >= 0) & (other >= 0)
        one, two = numbers[both], other[both]
        q = hop[kinds[mask][one], kinds[mask][two]]
        among = coo_matrix((q, (one, two)), shape=(mask.sum(),) * 2).tocsr()
        among = among + among.T
        passes.append(identity(mask.sum()) - diags(np.asarray(among.sum(axis=1)).ravel()) + among)
    at = np.argwhere(mask) - (np.array(mask.shape) - 1) / 2
    return passes[2] @ passes[1] @ passes[0], at


def slowest(matrix, start):
    """Mean rate at which quantities like the columns of `start` decay in a pass."""
    for _ in range(60):
        start = np.linalg.qr(matrix @ (matrix @ (matrix @ start)))[0]
    return -np.log(np.linalg.eigvals(start.T @ (matrix @ start)).real).mean()


@pytest.mark.parametrize("step", [None, 1e-7])
@pytest.mark.parametrize("radius", [8, 12])
def test_coordinates_on_a_sphere_decay_as_on_the_surface(radius, step):
    """cos(theta) decays by 2 D / R^2, whether hops are as likely as they may be or hardly so."""
    lattice = ball(radius)
    lattice.step = step
    lattice.add_diffusion("A", D, surface="membrane")
    matrix, at = pass_of_hops(lattice, ["membrane"])
    rate = slowest(matrix, at) if step is None else slowest_eigenvalue(matrix)
    seconds = lower_lattice(lattice).step
    exact = 2 * D * seconds / ((at**2).sum(axis=1).mean() * SPACING**2)
    assert rate == pytest.approx(exact, rel=0.015)


def slowest_eigenvalue(matrix):
    """The same of passes so short that they commute."""
    one = identity(matrix.shape[0]) - (matrix + matrix.T) / 2
    return eigsh(one.tocsc(), 4, sigma=-1e-9)[0][1:].mean()


def test_both_directions_of_a_cylinder_are_right():
    """Hops along it are within each type, those around it between both types."""
    lattice = rod(12)
    lattice.step = 1e-7
    lattice.add_diffusion("A", D, surface=("even", "odd"))
    within, between = (rule.surface.ratio for rule in lattice.diffusion[:2])
    assert within == 1
    matrix, at = pass_of_hops(lattice, ["even", "odd"])
    around = (at[:, 1:] ** 2).sum(axis=1).mean() * SPACING**2
    one = identity(matrix.shape[0]) - (matrix + matrix.T) / 2
    actual = eigsh(one.tocsc(), 3, sigma=-1e-9)[0][1:]
    assert actual == pytest.approx(D * 1e-7 / around, rel=0.01)
    assert 0.55 < between < 0.65


def test_a_surface_is_written_and_read(tmp_path):
    lattice = ball(8)
    lattice.add_parameter("D", D)
    lattice.add_diffusion("A", "D", surface="membrane")
    lattice.place("A", count=10, site_type="membrane")
    assert ts.read(lattice.write(tmp_path / "ball.h5")).diffusion == lattice.diffusion
    assert "coefficients of hops are D / 0.706" in str(lattice.check())
    assert "D_eff/D = 1 with hop probability" in str(lattice.check())
    assert "slower by 0.706" in str(lattice)


def test_a_surface_in_toml(tmp_path):
    text = """[lattice]
shape = [20, 20, 20]
spacing = 1e-8
site_types = ["water", "cell", "membrane"]
[[regions]]
site_type = "cell"
shape = "sphere"
radius = 8e-8
[[regions]]
site_type = "membrane"
shape = "membrane"
of = "cell"
[species]
A = {count = 10, site_type = "membrane"}
[[diffusion]]
species = "A"
surface = "membrane"
coefficient = 1e-12
"""
    (tmp_path / "ball.toml").write_text(text)
    same = ball(8)
    same.add_diffusion("A", D, surface="membrane")
    assert ts.read(tmp_path / "ball.toml").diffusion == same.diffusion


def test_what_is_no_surface_is_refused():
    with pytest.raises(ts.ModelError, match=r"74 pieces.* sites are outside it, such as \[\[2, "):
        ball(12, neighbours=6).add_diffusion("A", D, surface="membrane")
    with pytest.raises(ts.ModelError, match="sites thick on average"):
        ball(8).add_diffusion("A", D, surface="water")
    with pytest.raises(ts.ModelError, match="takes the place"):
        ball(8).add_diffusion("A", D, surface="membrane", within="membrane")
    with pytest.raises(ts.ModelError, match="has 128 sites"):
        ball(3).add_diffusion("A", D, surface="membrane")
    lattice = ball(8)
    lattice.add_diffusion("A", D, surface="membrane")
    lattice.paint("water", np.indices(lattice.shape)[0] < 5)
    with pytest.raises(ts.ModelError, match="call it after the last mask"):
        lattice.validate()


def test_a_run_warns_of_a_slow_membrane():
    lattice = ball(8)
    lattice.add_diffusion("A", D, within="membrane")
    lattice.place("A", count=1, site_type="membrane")
    (sentence,) = model_warnings(lattice)
    assert sentence.startswith("A in membrane: D_eff/D = 0.71, ")
    unjoined = ball(8, neighbours=6)
    unjoined.add_diffusion("A", D, within="membrane")
    (sentence,) = model_warnings(unjoined)
    assert "hops do not join its sites" in sentence
    lattice = ball(8)
    lattice.add_diffusion("A", D, surface="membrane")
    assert model_warnings(lattice) == []
