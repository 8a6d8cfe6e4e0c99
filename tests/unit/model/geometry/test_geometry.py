"""Shapes against counts that can be made by hand, and against volumes; obstacles; labels."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import tauslab as ts
from tauslab import geometry
from tauslab.base.errors import ConfigError, ModelError


@dataclass(frozen=True)
class Grid:
    shape: tuple[int, int, int]
    spacing: float


UNIT = Grid((9, 10, 11), 1.0)
FINE = Grid((80, 80, 100), 0.5)


def test_a_box_holds_the_centres_between_its_corners():
    mask = geometry.box(UNIT, (1, 2, 3), (4, 4.5, 3.5))
    expected = np.zeros(UNIT.shape, bool)
    expected[1:4, 2:5, 3:4] = True
    assert (mask == expected).all()


def test_a_sphere_is_the_sites_within_its_radius():
    """Around a centre 1 + 6 + 12 sites lie within sqrt(2), 27 within sqrt(3)."""
    centre = (4.5, 4.5, 4.5)
    counts = [geometry.sphere(UNIT, r, centre).sum() for r in (0.5, 1.0, 2**0.5, 3**0.5, 2.0)]
    assert counts == [1, 7, 19, 27, 33]
    assert geometry.sphere(UNIT, 1.0, centre)[4, 4, 3:6].all()


@pytest.mark.parametrize(
    ("mask", "volume"),
    [
        (geometry.sphere(FINE, 15.0), 4 / 3 * math.pi * 15**3),
        (geometry.ellipsoid(FINE, (10.0, 14.0, 20.0)), 4 / 3 * math.pi * 10 * 14 * 20),
        (geometry.cylinder(FINE, 30.0, 12.0, "y"), math.pi * 12**2 * 30),
        (geometry.capsule(FINE, 45.0, 9.0, "x"), math.pi * 81 * 27 + 4 / 3 * math.pi * 9**3),
    ],
)
def test_volumes(mask, volume):
    """Sites are centres inside, so the error is of the order of the surface's roughness."""
    assert mask.dtype == np.bool_
    assert mask.sum() * 0.125 == pytest.approx(volume, rel=4e-3)


def test_axes_are_z_y_x():
    along_z = geometry.capsule(Grid((20, 8, 8), 1.0), 18.0, 3.0, "z")
    assert along_z[1:19, 4, 4].all()
    assert not along_z[:, 0].any()
    along_x = geometry.capsule(Grid((8, 8, 20), 1.0), 18.0, 3.0, "x")
    assert (along_x == along_z.transpose(2, 1, 0)).all()


def test_sets_of_sites():
    a, b = geometry.box(UNIT, (0, 0, 0), (4, 4, 4)), geometry.box(UNIT, (2, 2, 2), (6, 6, 6))
    assert geometry.union(a, b).sum() == 64 + 64 - 8
    assert geometry.intersection(a, b).sum() == 8
    assert geometry.difference(a, b).sum() == 56
    assert geometry.difference(a).sum() == 64


def test_growing_and_shrinking():
    cube = geometry.box(UNIT, (2, 2, 2), (7, 7, 7))
    assert geometry.dilate(cube).sum() == 7**3
    assert geometry.dilate(cube, neighbours=6).sum() == 5**3 + 6 * 25
    assert geometry.erode(cube, 2).sum() == 1
    assert geometry.shell(cube).sum() == 7**3 - 5**3
    assert geometry.membrane(cube).sum() == 5**3 - 3**3
    edge = np.ones(UNIT.shape, bool)
    assert geometry.membrane(edge).sum() == 9 * 10 * 11 - 7 * 8 * 9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geometry.capsule(UNIT, 1.0, 1.0), "less than twice its radius"),
        (lambda: geometry.sphere(UNIT, -1.0), "radius = -1"),
        (lambda: geometry.sphere(UNIT, 1.0, (1, 2)), "three coordinates"),
        (lambda: geometry.cylinder(UNIT, 1.0, 1.0, "w"), "axis 'w'"),
        (lambda: geometry.dilate(np.ones((2, 2, 2), bool), neighbours=8), "neighbours = 8"),
        (lambda: geometry.dilate(np.ones((2, 2, 2), bool), 0), "steps = 0"),
        (lambda: geometry.dilate(np.ones((2, 2, 2), bool), "1"), "steps = '1': a whole number"),
        (lambda: geometry.dilate([True]), r"a mask is an array of booleans \[z, y, x\], not"),
        (lambda: geometry.sphere(np.ones((2, 2, 2)), 1.0), "a lattice is expected, not ndarray"),
        (lambda: geometry.sphere(UNIT, "big"), "radius = 'big': a number"),
        (lambda: geometry.sphere(UNIT, 1.0, 3), "3: three coordinates, z, y, x, are expected"),
        (lambda: geometry.ellipsoid(UNIT, 2.0), "2.0: three coordinates, z, y, x, are expected"),
        (lambda: geometry.box(UNIT, (0, 0), (1, 1)), r"\(0, 0\): three coordinates, z, y, x, are"),
        (
            lambda: geometry.union(np.ones((2, 2, 2), bool), np.ones((3, 3, 3), bool)),
            r"masks must have one shape, not \[2, 2, 2\] and \[3, 3, 3\]",
        ),
        (
            lambda: geometry.obstacles(UNIT, np.ones((2, 2, 2), bool), 1.0, 0.1, seed=1),
            r"inside must be booleans \[9, 10, 11\]",
        ),
        (
            lambda: geometry.obstacles(UNIT, np.ones(UNIT.shape, bool), 1.0, "half", seed=1),
            "fraction 'half'; it must be from 0 to 1",
        ),
        (lambda: geometry.resample_labels(UNIT, np.ones((2, 2, 2)), "a"), "voxel 'a': one edge"),
        (lambda: geometry.resample_labels(UNIT, [1], 1.0), "labels have 1 axes; a volume has thr"),
        (
            lambda: geometry.paint_labels(UNIT, np.ones(UNIT.shape, int), ["in"]),
            "site_types: a mapping such as",
        ),
    ],
)
def test_wrong_shapes(call, message):
    with pytest.raises(ModelError, match=message):
        call()


# ---------------------------------------------------------------- obstacles


@pytest.mark.parametrize(("radius", "fraction"), [(0.2, 0.5), (1.3, 0.2), (2.0, 0.13)])
def test_obstacles_fill_their_fraction_inside_the_region(radius, fraction):
    grid = Grid((20, 20, 20), 1.0)
    inside = geometry.sphere(grid, 8.0)
    covered = geometry.obstacles(grid, inside, radius, fraction, seed=3)
    assert covered.sum() == round(fraction * inside.sum())
    assert not (covered & ~inside).any()


def test_obstacles_are_the_same_for_the_same_seed():
    """Positions pinned, so that no version of NumPy may change them."""
    grid = Grid((6, 6, 6), 1.0)
    inside = np.ones(grid.shape, bool)
    covered = geometry.obstacles(grid, inside, 0.3, 5 / 216, seed=2**63 + 11)
    assert np.flatnonzero(covered).tolist() == PINNED_OBSTACLES
    wide = geometry.obstacles(grid, inside, 1.1, 14 / 216, seed=2**63 + 11)
    assert np.flatnonzero(wide).tolist() == PINNED_SPHERES
    dense = geometry.obstacles(grid, inside, 1.1, 0.5, seed=2**63 + 11)
    assert np.packbits(dense).tobytes().hex() == PINNED_DENSE
    other = geometry.obstacles(grid, inside, 0.3, 5 / 216, seed=12)
    assert (other != covered).any()


PINNED_SPHERES = [25, 95, 96, 97, 101, 102, 103, 130, 131, 132, 136, 137, 138, 139]
PINNED_DENSE = "018643fbe00025beff432799df643618fbf218b3baf8618b3b3886"
PINNED_OBSTACLES = [12, 102, 110, 137, 214]


def test_obstacles_are_spread_evenly():
    """Octants of a cube get equal shares: chi-square of 8 cells below its 1e-6 quantile, 40.5.

    Single sites without replacement vary less than a multinomial, so the level is an upper bound.
    """
    grid = Grid((16, 16, 16), 1.0)
    covered = geometry.obstacles(grid, np.ones(grid.shape, bool), 0.4, 0.2, seed=5)
    shares = covered.reshape(2, 8, 2, 8, 2, 8).sum(axis=(1, 3, 5)).ravel()
    expected = covered.sum() / 8
    assert ((shares - expected) ** 2 / expected).sum() < 40.5


def test_spheres_do_not_share_sites_unless_they_may(monkeypatch):
    monkeypatch.setattr("tauslab.model.geometry.obstacles.HOPELESS", 500)
    grid = Grid((12, 12, 12), 1.0)
    inside = np.ones(grid.shape, bool)
    with pytest.raises(ModelError, match=r"fill 0\.\d+ of the region, not 0\.9, and 500 tries"):
        geometry.obstacles(Grid((3, 3, 3), 1.0), np.ones((3, 3, 3), bool), 1.2, 0.9, seed=1)
    packed = geometry.obstacles(grid, inside, 2.2, 0.7, seed=1, overlap=True)
    assert packed.sum() == round(0.7 * 12**3)


@pytest.mark.parametrize(("radius", "fraction"), [(1.0, 1.5), (1.0, -0.1), (0.0, 0.1)])
def test_wrong_obstacles(radius, fraction):
    with pytest.raises(ModelError, match="obstacles"):
        geometry.obstacles(UNIT, np.ones(UNIT.shape, bool), radius, fraction, seed=1)


# ---------------------------------------------------------------- labels

LABELS = np.arange(24).reshape(2, 3, 4) % 3


def labelled():
    return ts.Lattice(shape=(2, 3, 4), spacing=1e-8)


def write_volume(path, volume):
    if path.suffix == ".npy":
        np.save(path, volume)
    elif path.suffix == ".tif":
        pytest.importorskip("tifffile").imwrite(path, volume.astype(np.uint8))
    elif path.suffix == ".mrc":
        pytest.importorskip("mrcfile").write(path, volume.astype(np.float32))
    else:
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(str(path), mode="w")
        group.create_array("labels", shape=volume.shape, dtype=volume.dtype)[:] = volume
    return path


@pytest.mark.parametrize("name", ["v.npy", "v.tif", "v.mrc", "v.zarr"])
def test_labels_become_site_types(tmp_path, name):
    path = write_volume(tmp_path / name, LABELS)
    component = "labels" if name.endswith("zarr") else None
    lattice = labelled()
    volume = geometry.read_labels(path, component)
    geometry.paint_labels(lattice, volume, {0: "out", 2: "in", 1: "edge"})
    assert lattice.type_names == ("out", "in", "edge")
    assert (lattice.site_array() == np.array([0, 2, 1])[LABELS]).all()


def test_wrong_labels(tmp_path):
    path = write_volume(tmp_path / "v.npy", LABELS)
    volume = geometry.read_labels(path)
    with pytest.raises(ModelError, match="label 2 has no site type; labels with one: 0, 1"):
        geometry.paint_labels(labelled(), volume, {0: "a", 1: "b"})
    with pytest.raises(ModelError, match=r"labels have the shape \[2, 3\]"):
        geometry.paint_labels(labelled(), volume[:, :, 0], {0: "a"})
    with pytest.raises(ModelError, match="label volumes are one of"):
        geometry.read_labels(tmp_path / "v.raw")
    with pytest.raises(ModelError, match="no such file"):
        geometry.read_labels(tmp_path / "w.npy")
    with pytest.raises(ModelError, match="labels are whole numbers"):
        geometry.read_labels(write_volume(tmp_path / "f.npy", LABELS + 0.5))
    with pytest.raises(ModelError, match="has 2 axes"):
        geometry.read_labels(write_volume(tmp_path / "g.npy", LABELS[0]))


def test_a_library_that_is_missing_is_named(tmp_path, monkeypatch):
    (tmp_path / "v.tif").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tifffile", None)
    with pytest.raises(ConfigError, match=r"tifffile: pip install 'tifffile>=2024\.1'"):
        geometry.read_labels(tmp_path / "v.tif")


def far(grid):
    return geometry.box(grid, (0, 0, 0), (20.0, 20.0, 20.0))


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda grid: geometry.sphere(grid, radius=200), "sphere of radius 200 m holds all 512"),
        (lambda grid: geometry.sphere(grid, 1e-9), "sphere of radius 1e-09 m holds no site"),
        (lambda grid: geometry.ellipsoid(grid, (20, 20, 9)), "ellipsoid .* holds all 512"),
        (lambda grid: geometry.cylinder(grid, 200, 90), "cylinder of length 200 m .* all 512"),
        (lambda grid: geometry.capsule(grid, 200, 90), "capsule of length 200 m .* all 512"),
        (far, "box .* holds all 512"),
        (lambda grid: geometry.box(grid, (1, 1, 1), (2, 2, 2)), "box .* holds no site"),
        (lambda grid: geometry.erode(geometry.sphere(grid, 2e-8), 3), "eroded by 3 steps"),
        (lambda grid: geometry.shell(np.ones(grid.shape, bool)), "has no site"),
    ],
)
def test_a_shape_that_fills_or_misses_the_lattice_is_reported(build, what):
    with pytest.warns(UserWarning, match=what):
        build(ts.Lattice("g", shape=(8, 8, 8), spacing=1e-8))


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda grid: geometry.capsule(grid, 2.6e-7, 2e-8), "capsule .* is cut along z by a"),
        (lambda grid: geometry.sphere(grid, 6e-8), r"sphere .* is cut along z, y, x by a"),
        (lambda grid: geometry.ellipsoid(grid, (3e-8, 9e-8, 3e-8)), "is cut along y by a"),
    ],
)
def test_a_shape_that_the_lattice_cuts_is_named(build, what):
    with pytest.warns(UserWarning, match=what):
        build(ts.Lattice("g", shape=(8, 8, 8), spacing=1e-8))


def test_a_shape_whose_centre_is_given_may_be_cut():
    grid = ts.Lattice("g", shape=(8, 8, 8), spacing=1e-8)
    assert geometry.sphere(grid, 3e-8, centre=(0, 4e-8, 4e-8)).any()
    assert geometry.capsule(grid, 8e-8, 4e-8).any()


def test_a_box_of_the_whole_lattice_is_meant():
    grid = ts.Lattice("g", shape=(8, 8, 8), spacing=1e-8)
    assert geometry.box(grid, (0, 0, 0), (8e-8, 8e-8, 8e-8)).all()


def test_a_centre_may_be_an_array() -> None:
    middle = np.array([4.5, 5, 5.5])
    for shape in (
        lambda centre: geometry.sphere(UNIT, 3.0, centre),
        lambda centre: geometry.ellipsoid(UNIT, (2.0, 3.0, 4.0), centre),
        lambda centre: geometry.capsule(UNIT, 8.0, 2.0, centre=centre),
    ):
        assert np.array_equal(shape(middle), shape(None))
