"""Cells that grow and divide, and obstacles in them, beside exact numbers.

Each comparison allows 4.9 standard deviations: a false alarm in a million.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts

SPACING, STEP = 1e-8, 1e-5
MOST = 4.9


def hop(probability):
    """Coefficient of that probability of a hop to one side in a step."""
    return probability * SPACING**2 / STEP


@pytest.mark.validate
def test_rates_follow_a_volume_that_grows():
    """H5, H10: pairs that have not reacted, and what is made in proportion to the volume.

    V = V0 2^(t / 4020 s); a pair in V0 would react at 1e-4 / s; after 6,000 s exp(-0.3739) are
    left, where 0.549 would be at constant volume. 20,000 steps stand for these, 100 shapes.
    """
    n, steps, shapes = 600, 20_000, 100
    ball = ts.shapes.sphere(shells={})
    radius = 5.0
    volumes = [2 ** (6000 * i / shapes / 4020) for i in range(shapes)]
    made = ts.Lattice("cell", shape=(18, 18, 18), spacing=SPACING, step=STEP, slots=16)
    made.add_site_type("out")
    inside = ball(made, radius=radius * SPACING)["cytoplasm"]
    made.add_site_type("cytoplasm", inside)
    first = int(inside.sum())
    per_step = 1e-4 * 6000 / steps  # of a pair in the first volume
    for i in range(n):
        made.add_species(f"A{i}", f"B{i}")
        rate = per_step * first / STEP
        made.add_reaction(f"A{i} + B{i} ->", rate=rate, volume="site", site_types="cytoplasm")
        made.place(f"A{i}", count=1, site_type="cytoplasm")
        made.place(f"B{i}", count=1, site_type="cytoplasm")
    made.add_species("X")
    birth = 400 / steps / STEP / first
    made.add_reaction("-> X", rate=birth, volume="site", site_types="cytoplasm")
    made.add_diffusion("*", hop(0.15), within="cytoplasm")
    sites = [first]

    def grow(view):
        factor = volumes[view.step * shapes // steps] if view.step < steps else volumes[-1]
        masks = ball(view, radius=radius * SPACING * factor ** (1 / 3))
        view.reshape(masks)
        sites.append(int(masks["cytoplasm"].sum()))

    with ts.run(
        made, t_end=steps * STEP, hooks=[(steps // shapes, grow)], seed=11, device="cpu",
        quiet=True, count_every=steps,
    ) as result:  # fmt: skip
        left = sum(int(result.counts(f"A{i}")[-1]) for i in range(n))
        born = int(result.counts("X")[-1])
    share = steps / shapes
    survival = math.exp(-sum(per_step * first / one * share for one in sites[:shapes]))
    assert abs(survival - 0.688079) < 0.02  # by voxels, in steps
    assert abs(left - n * survival) < MOST * math.sqrt(n * survival * (1 - survival))
    assert MOST * math.sqrt(n * survival * (1 - survival)) < n * (survival - math.exp(-0.6))
    mean = birth * STEP * share * sum(sites[:shapes])
    assert abs(born - mean) < MOST * math.sqrt(mean)
    assert mean > 400 + 2 * MOST * math.sqrt(mean)  # more than at constant volume


@pytest.mark.parametrize("every", ordinary([20, 100], 100))
def test_a_division_shares_particles_by_volume(every):
    """H8: a sphere becomes two; the numbers in the halves are binomial, by their sites."""
    shape = ts.shapes.dividing_sphere(area=0.0, volume=0.0, shells={})
    radius = 6e-8
    volume, area = 2 * 4 / 3 * math.pi * radius**3, 4 * math.pi * radius**2
    grid = ts.Lattice("cell", shape=(30, 18, 18), spacing=SPACING, step=STEP)
    grid.add_site_type("out")
    masks = shape(grid, area=area * 2 ** (2 / 3), volume=volume)
    grid.add_site_type("cytoplasm", masks["cytoplasm"])
    grid.add_species("P")
    grid.add_diffusion("P", hop(1 / 6), within="cytoplasm")
    grid.place("P", count=2000, site_type="cytoplasm")
    actual = []

    def divide(view):
        share = 2 ** (2 / 3) + (2 - 2 ** (2 / 3)) * min(1.0, view.step / 1000)
        view.reshape(shape(view, area=area * share, volume=volume))
        own = np.asarray(view.sites == 1)
        inside = np.asarray(view.particles > 0).sum(axis=-1)
        actual.append((inside[:15].sum(), inside.sum(), own[:15].sum() / own.sum()))

    ts.run(
        grid, t_end=1200 * STEP, hooks=[(every, divide)], seed=5, device="cpu", quiet=True
    ).close()  # fmt: skip
    lower, total, share = actual[-1]
    assert total == 2000
    assert abs(share - 0.5) < 0.01
    assert abs(lower - total * share) < MOST * math.sqrt(total * share * (1 - share))


def spread(density, open_, probability, steps):
    """Mean numbers after hops along x, y and z in turn, which end where a site is not open."""
    for _ in range(steps):
        for axis in (2, 1, 0):
            after = density.copy()
            for side in (1, -1):
                passes = open_ & np.roll(open_, side, axis)
                coming = np.where(passes, np.roll(density, side, axis), 0.0)
                after += probability * coming
                after -= probability * np.where(open_ & np.roll(open_, -side, axis), density, 0.0)
            density = after
    return density


@pytest.mark.validate
def test_obstacles_slow_tracers_as_their_sites_say():
    """Fixed objects of 18 sites: the profile of tracers is that of the blocked lattice."""
    shape, probability, steps = (48, 6, 6), 0.15, 400
    made = ts.Lattice("gel", shape=shape, spacing=SPACING, step=STEP, boundary="periodic")
    made.add_species("R", "P")
    made.add_diffusion("P", hop(probability))
    made.add_object("rod", sites=[[z, y, x] for z in (0, 1) for y in range(3) for x in range(3)],
                    follows="R")  # fmt: skip
    centres = [(z, y, 1) for z in range(2, 48, 6) for y in (1,)]
    made.place("R", positions=centres)
    open_ = np.ones(shape, bool)
    for z, y, x in centres:
        open_[z : z + 2, y : y + 3, x : x + 3] = False
    start = np.zeros(shape)
    start[:24][open_[:24]] = 6
    made.place("P", positions=np.repeat(np.argwhere(start > 0), 6, axis=0))
    seen = []

    def look(view):
        seen.append(np.asarray(view.particles == view.number("P") + 1).sum(axis=(1, 2, 3)))

    ts.run(
        made, t_end=steps * STEP, hooks=[(steps, look)], seed=9, device="cpu", quiet=True
    ).close()  # fmt: skip
    expected = spread(start, open_, probability, steps).sum(axis=(1, 2))
    free = spread(start * 0 + (np.arange(48) < 24)[:, None, None] * expected.sum() / 864,
                  np.ones(shape, bool), probability, steps).sum(axis=(1, 2))  # fmt: skip
    assert expected.sum() == seen[0].sum()

    def squared(means):
        return float(((seen[0] - means) ** 2 / means).sum())

    assert squared(expected) < 47 + MOST * math.sqrt(2 * 47)
    assert squared(free) > 47 + MOST * math.sqrt(2 * 47)  # a lattice without obstacles
