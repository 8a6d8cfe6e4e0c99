"""Shapes that follow quantities, against exact numbers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ModelError

SPACING = 1e-8
MIDDLE = (64.5 * SPACING, 32.5 * SPACING, 32.5 * SPACING)  # the centre of a site
GRID = ts.Lattice(shape=(128, 64, 64), spacing=SPACING)
SHELLS = {"shell": 1, "membrane": 1}


@pytest.mark.parametrize(
    ("share", "offset", "radius", "neck"),
    [
        (1.60, 42.438, 232.652, 228.75),
        (1.70, 115.359, 209.392, 174.75),
        (1.80, 151.611, 203.025, 135.03),
        (1.90, 178.262, 200.601, 92.00),
        (1.99, 197.985, 200.005, 28.36),
        (2.00, 200.0, 200.0, 0.0),
    ],
)
def test_overlapping_spheres_have_their_area_and_volume(share, offset, radius, neck):
    """Of twice the volume of a ball of 200 nm, and so many times its area."""
    area, volume = share * 4 * math.pi * 2e-7**2, 2 * 4 / 3 * math.pi * 2e-7**3
    actual = ts.shapes.overlapping_spheres(area, volume)
    assert np.allclose(1e9 * np.array(actual[:2]), [radius, offset], rtol=0, atol=1e-3)
    assert abs(1e9 * actual.neck - neck) < 6e-3
    r, h = actual.radius, actual.offset
    assert math.isclose(4 * math.pi * r * (r + h), area, rel_tol=1e-12)
    assert math.isclose(4 / 3 * math.pi * r**3 + 2 * math.pi * h * r * r - 2 / 3 * math.pi * h**3,
                        volume, rel_tol=1e-12)  # fmt: skip


def sizes(masks):
    """Sites of each type; later masks replace those before them."""
    types = np.zeros(GRID.shape, int)
    for number, mask in enumerate(masks.values(), 1):
        types[mask] = number
    return {name: int((types == number).sum()) for number, name in enumerate(masks, 1)}


@pytest.mark.parametrize(
    ("radius", "inside", "around"),
    [(20, 33401, (8042, 9074)), (21, 38911, None), (22, 44473, None), (23, 50883, None),
     (24, 57777, None), (25, 65267, (12386, 13658))],
)  # fmt: skip
def test_balls_of_voxels_have_the_known_numbers(radius, inside, around):
    actual = sizes(ts.shapes.sphere(shells=SHELLS, centre=MIDDLE)(GRID, radius=radius * SPACING))
    assert actual["cytoplasm"] == inside
    if around is not None:
        assert (actual["shell"], actual["membrane"]) == around


def test_a_ball_of_an_area_or_a_volume():
    of_radius = sizes(ts.shapes.sphere(radius=2e-7)(GRID))
    assert sizes(ts.shapes.sphere(area=4 * math.pi * 2e-7**2)(GRID)) == of_radius
    assert sizes(ts.shapes.sphere(volume=4 / 3 * math.pi * 2e-7**3)(GRID)) == of_radius


def test_voxels_change_a_few_at_a_time():
    grid = ts.Lattice(shape=(44, 44, 44), spacing=SPACING)
    ball = ts.shapes.sphere(centre=(22.5e-8, 22.41e-8, 22.27e-8))
    radii = np.linspace(2e-7, 2.0002e-7, 41)
    numbers = [int(ball(grid, radius=r)["cytoplasm"].sum()) for r in radii]
    steps = np.diff(numbers)
    assert steps.min() == 0
    assert steps.max() <= 8
    assert numbers[-1] > numbers[0] + 4


def test_a_dividing_sphere_keeps_its_volume():
    volume = 2 * 4 / 3 * math.pi * 2e-7**3
    shape = ts.shapes.dividing_sphere(volume=volume, shells=SHELLS)
    area = 4 * math.pi * 2e-7**2
    assert sizes(shape(GRID, area=area)) == sizes(ts.shapes.sphere(area=area, shells=SHELLS)(GRID))
    for share in (1.6, 1.8, 1.95, 2.0, 2.5):
        actual = shape(GRID, area=share * area)
        voxels = sizes(actual)["cytoplasm"] * SPACING**3
        assert abs(voxels / volume - 1) < 0.005
        low, high = np.split(actual["cytoplasm"], 2)
        assert low.sum() == high.sum()
    middle = shape(GRID, area=1.99 * area)["cytoplasm"][63]
    assert abs(middle.sum() - math.pi * (20.0005**2 - 19.2985**2)) < 12  # half a site from the neck


@pytest.mark.parametrize(("radius", "cut"), [(29.9, False), (31.9, True), (40.0, True)])
def test_a_shape_that_its_lattice_cuts_off_is_reported(radius, cut):
    shape = ts.shapes.dividing_sphere(volume=1e-18, shells={"shell": 1, "membrane": 1})
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        shape(GRID, area=4 * math.pi * (radius * SPACING) ** 2)
    assert ["cuts off shell, membrane" in str(one.message) for one in message] == [True] * cut


def test_a_capsule_of_an_area_or_a_volume():
    rod = ts.shapes.capsule(radius=1.5e-7)
    whole = rod(GRID, length=8e-7)["cytoplasm"]
    assert (whole == ts.geometry.capsule(GRID, length=8e-7, radius=1.5e-7)).all()
    area, volume = 2 * math.pi * 1.5e-7 * 8e-7, math.pi * 1.5e-7**2 * (8e-7 - 1e-7)
    assert (rod(GRID, area=area)["cytoplasm"] == whole).all()
    assert (rod(GRID, volume=volume)["cytoplasm"] == whole).all()
    ball = ts.shapes.sphere(radius=1.5e-7)(GRID)["cytoplasm"]
    assert (rod(GRID, area=4 * math.pi * 1.5e-7**2)["cytoplasm"] == ball).all()


def test_a_shape_of_ones_own():
    def tube(z, y, x, r):
        inside = np.hypot(y - 32e-8, x - 32e-8) < r
        return {"wall": inside & (z > 0), "core": inside & (z > 5e-7)}

    actual = ts.shapes.custom(tube, shells={"rim": 1}, r="part.radius")(GRID, r=1e-7)
    assert list(actual) == ["rim", "wall", "core"]
    assert actual["wall"].shape == GRID.shape
    assert actual["rim"].sum() > actual["core"].sum()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.shapes.sphere()(GRID), "give one of radius, area, volume, not 0"),
        (lambda: ts.shapes.sphere(area=1.0)(GRID, radius=1.0), "not 2 of them"),
        (lambda: ts.shapes.sphere(area="a.b")(GRID), "area = 'a.b': a finite number is expected"),
        (lambda: ts.shapes.sphere()(GRID, radius=0.0), "radius = 0 metres: it must be"),
        (lambda: ts.shapes.sphere(shells={"rim": 0})(GRID, radius=1e-7), "thickness of 0"),
        (lambda: ts.shapes.dividing_sphere(area=1.0)(GRID), "volume has no value"),
        (lambda: ts.shapes.custom(lambda z, y, x: {"a": z})(GRID), "returns masks"),
        (lambda: ts.shapes.custom(lambda z, y, x: None)(GRID), "returns masks"),
        (lambda: ts.shapes.custom(lambda z, y, x: {"a": z[:, :, :0] > 0})(GRID), "broadcast to"),
        (lambda: ts.shapes.sphere(radius=1e-7)(GRID, raduis=2e-7), "'raduis' is not a quantity"),
        (lambda: ts.shapes.dividing_sphere()(GRID, radius=2e-7), "it has area, volume"),
        (lambda: ts.shapes.capsule(radius=1e-7)(GRID, length=1.9e-7), "less than that of a ball"),
        (lambda: ts.shapes.capsule(radius=1e-7)(GRID, volume=4e-21), "less than that of a ball"),
        (lambda: ts.shapes.overlapping_spheres(-1.0, 1.0), "area = -1"),
    ],
)
def test_what_is_no_shape_is_refused(call, message):
    with pytest.raises(ModelError, match=message):
        call()
