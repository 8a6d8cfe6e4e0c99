"""Lattices of hybrids whose site types follow shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.hybrids.driver import HybridRun
from tauslab.base.errors import ConfigError
from tauslab.store.state import StateFile

SPACING, STEP = 1e-8, 5e-3
RADIUS = 6e-8
AREA = 4 * math.pi * 60**2  # nm^2
BALL = ts.shapes.sphere(area="1e-18 * lipids.area", shells={"membrane": 1})


def box(shape=(30, 26, 28), **numbers):
    made = ts.Lattice("box", shape=shape, spacing=SPACING, step=STEP)
    made.add_site_type("out")
    for name, mask in BALL(made, area=1e-18 * AREA).items():
        made.add_site_type(name, mask)
    made.add_species("P", "M")
    made.add_diffusion("P", 1e-14, within="cytoplasm")
    made.add_diffusion("M", 1e-15, within="membrane")
    for name, where in (("P", "cytoplasm"), ("M", "membrane")):
        made.place(name, count=numbers.get(name, 400), site_type=where)
    return made


def lipids(growth=0.4):
    made = ts.Network("lipids")
    made.add_species("area", AREA)
    made.add_parameter("growth", growth)
    made.add_rate("area", "growth * area")
    return made


def growing(model=None, growth=0.4, every=0.2, particles=None):
    made = ts.Hybrid("cell", tick=0.1)
    made.add_part("lipids", lipids(growth), method="ode")
    made.add_part("space", model or box())
    made.shape("space", BALL, every=every, particles=particles)
    return made


def run(hybrid, t_end=2.0, **given):
    return ts.run(hybrid, **{"t_end": t_end, "seed": 4, "pilot": 0, "device": "cpu"} | given)


def test_particles_go_with_a_cell_that_grows_and_volumes_follow():
    hybrid = growing()
    hybrid.add_part("size", lambda t, dt, v: {}, values={"volume": 0.0})
    hybrid.drive("size.volume", "space.volume(cytoplasm)", over="end")
    result = run(hybrid, t_end=1.2, n=2)
    for name, where in (("P", "cytoplasm"), ("M", "membrane")):
        assert (result.values(f"space.{name}") == 400).all()
        assert (result.values(f"space.{name}_in_{where}") == 400).all()
    volume = result.values("size.volume")[:, -1]
    area = 1e-18 * AREA * math.exp(0.4 * 1.0)  # at the last shape
    grid = ts.Lattice(shape=(30, 26, 28), spacing=SPACING)
    sites = int(BALL(grid, area=area)["cytoplasm"].sum())
    assert volume == pytest.approx(sites * SPACING**3 * 1e3, rel=1e-12)
    assert volume == pytest.approx(1e3 * area**1.5 / (6 * math.sqrt(math.pi)), rel=0.02)


def test_the_species_of_a_wall_are_refused():
    shrinking = growing(growth=-20.0)
    with pytest.raises(ConfigError, match="no site left where P may be"):
        run(shrinking, n=1)


def test_a_cell_goes_on_from_its_checkpoint(tmp_path):
    def begun():
        return HybridRun(growing(), n=2, seed=4, t_end=0.6, splitting="strang", device="cpu")

    class EnoughError(Exception):
        """The run is left."""

    half, kept = begun(), []

    def keep(now, last):
        if now._reached[0] >= 5:
            kept.append({name: np.array(value) for name, value in now.stored().items()})
            raise EnoughError

    with pytest.raises(EnoughError):
        half.run(keep)
    half.close()
    assert kept[0]["parts/space/part/state/site_types"].shape == (2, 30 * 26 * 28)
    file = StateFile(tmp_path / "cell.h5", "hybrid", "state")
    file.write(kept[0])
    again, straight = begun(), begun()
    again.take_up(file.read())
    again.run()
    straight.run()
    assert np.array_equal(again.series["space"], straight.series["space"])
    actual, expected = again.stored(), straight.stored()
    again.close()
    straight.close()
    for name, value in expected.items():
        assert np.array_equal(np.asarray(actual[name]), np.asarray(value)), name


@pytest.mark.validate
def test_dilution_by_growth():
    """Production k V without decay: Poisson numbers whose mean is k times the integral of V."""
    model = box(P=0, M=0)
    model.add_species("Q")
    model.add_diffusion("Q", 1e-14, within="cytoplasm")
    model.add_reaction("-> Q", rate=0.8, volume="site", site_types="cytoplasm")
    result = run(growing(model, every=0.1), n=2)
    grid = ts.Lattice(shape=(30, 26, 28), spacing=SPACING)
    mean = 0.0
    for tick in range(20):
        area = 1e-18 * AREA * math.exp(0.4 * 0.1 * tick)
        mean += 0.8 * 0.1 * int(BALL(grid, area=area)["cytoplasm"].sum())
    total = result.values("space.Q")[:, -1].sum()
    assert abs(total - 2 * mean) < 4.5 * math.sqrt(2 * mean)  # 7e-6 of false alarms


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.shape("lipids", BALL, every=0.1), "no lattice of several site types"),
        (lambda c: c.shape("space", BALL, every=0.1), "follows two shapes"),
        (lambda c: c.shape("no", BALL, every=0.1), "there is no part 'no'"),
    ],
)
def test_what_is_no_shape_of_a_part_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        change(growing())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"particles": {"X": "stay"}}, "'X' is not a species"),
        ({"particles": {"P": "fly"}}, "particles='fly' is not known"),
        ({"reach": 0}, "reach = 0"),
        ({"shape": "ball"}, "is none of tauslab.shapes"),
        ({"shape": ts.shapes.sphere(area="lipids.mass")}, "no 'mass'"),
    ],
)
def test_arguments_of_shapes_are_checked(given, message):
    hybrid = ts.Hybrid("cell", tick=0.1)
    hybrid.add_part("lipids", lipids(), method="ode")
    hybrid.add_part("space", box())
    with pytest.raises(ConfigError, match=message):
        hybrid.shape("space", **{"shape": BALL, "every": 0.1} | given)


def test_intervals_of_shapes_are_whole():
    with pytest.raises(ConfigError, match="whole multiple"):
        run(growing(every=0.15), n=1)


@pytest.mark.validate
def test_objects_stay_in_a_cell_that_grows():
    """Their sites are no part of the cytoplasm's volume, and all particles stay inside."""
    model = box(P=300)
    model.add_species("R")
    model.add_diffusion("R", 2e-15, within="cytoplasm")
    model.add_object("ribosome", sites=1, follows="R", within="cytoplasm")
    model.place("R", count=9, site_type="cytoplasm")
    hybrid = growing(model)
    hybrid.add_part("size", lambda t, dt, v: {}, values={"volume": 0.0})
    hybrid.drive("size.volume", "space.volume(ribosome)", over="end")
    result = run(hybrid, n=1)
    assert (result.values("space.R_in_ribosome") == 9).all()
    assert (result.values("space.P_in_cytoplasm") == 300).all()
    assert result.values("size.volume")[:, -1] == pytest.approx(63 * SPACING**3 * 1e3, rel=1e-12)
