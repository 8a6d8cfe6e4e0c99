"""A sweep of diffusion against the exact law of a pair that reacts where it meets.

Walls cut a lattice into boxes of 4 x 4 x 4 sites, each with one A in a corner and one B near it.
So a run follows many pairs that know nothing of each other. Of one pair, the places of both are a
Markov chain of 64 x 64 states, whose survival is computed here step by step: from diffusion-limited
(slow) to well mixed (fast, several passes a step). Seeds are fixed; each test states its
false-alarm rate.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from lattice_factory import SPACING, STEP, coefficient

import tauslab as ts

BOX = 4
RATE = 3000.0  # of a pair in a site, 1/s
SLOW, MIDDLE, FAST = (coefficient(q) for q in (0.01, 0.1, 0.45))  # hop probabilities of a step


def boxes(edge: int) -> ts.Lattice:
    """A cube of `edge` sites in boxes of two types in turn, which no particle leaves."""
    lattice = ts.Lattice(
        "boxes", shape=(edge,) * 3, spacing=SPACING, step=STEP, slots=8, reaction_substeps=12
    )
    turn = (np.indices((edge,) * 3) // BOX).sum(axis=0) % 2 == 1
    lattice.add_site_type("even")
    lattice.add_site_type("odd", turn)
    lattice.add_species("A", "B", "C")
    lattice.add_parameter("D", MIDDLE)
    for name in ("even", "odd"):
        lattice.add_diffusion(("A", "B"), "D", within=name)
    lattice.add_reaction("A + B -> C", rate=RATE, volume="site")
    corners = np.moveaxis(np.indices((edge // BOX,) * 3) * BOX, 0, -1).reshape(-1, 3)
    lattice.place("A", positions=corners)
    lattice.place("B", positions=corners + np.array([1, 1, 0]))
    return lattice


def survival(diffusion: float, passes: int, steps: int) -> np.ndarray:
    """P(a pair has not reacted) after each step ``[step]``."""
    hop = diffusion * STEP / passes / SPACING**2
    line = np.zeros((BOX, BOX))
    for site in range(BOX):
        for other in (site - 1, site + 1):
            line[min(max(other, 0), BOX - 1), site] += hop
        line[site, site] += 1 - 2 * hop
    state = np.zeros((BOX,) * 6)
    state[0, 0, 0, 1, 1, 0] = 1.0
    meeting = math.exp(-RATE * STEP / passes)  # no reaction in what passes of a pass of hops
    same = np.ones((BOX,) * 6)
    for z, y, x in np.ndindex(BOX, BOX, BOX):
        same[z, y, x, z, y, x] = meeting
    left = []
    for _ in range(steps):
        for _ in range(passes):
            for axis in range(6):
                state = np.moveaxis(np.tensordot(line, state, (1, axis)), 0, axis)
            state = state * same
        left.append(float(state.sum()))
    return np.array(left)


def z_scores(edge: int, replicas: int, values: list[float], steps: int) -> np.ndarray:
    """Of the pairs left at a third, two thirds and the end ``[point, time]``."""
    times = [steps // 3, 2 * steps // 3, steps]
    with ts.run(
        boxes(edge), t_end=steps * STEP, sweep={"D": values}, replicas=replicas, count_every=1,
        seed=20, device="cpu",
    ) as result:  # fmt: skip
        left = result.replica_counts("A").sum(axis=1)[:, times]
        passes = result.data["points/diffusion_substeps"][()].tolist()
    pairs = replicas * (edge // BOX) ** 3
    exact = np.stack([
        survival(value, own, steps)[np.array(times) - 1]
        for value, own in zip(values, passes, strict=True)
    ])  # fmt: skip
    assert passes[0] < passes[-1]
    assert exact[0, -1] > exact[-1, -1] + 0.1  # diffusion limits the first and not the last
    return np.asarray((left - pairs * exact) / np.sqrt(pairs * exact * (1 - exact)))


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:.*meet too seldom in so small sites")
def test_pairs_meet_as_often_as_they_must_at_each_point():
    """3 points, 3 times, |z| < 4.4 each: a false alarm in 1e4."""
    assert np.abs(z_scores(24, 2, [SLOW, MIDDLE, FAST], 90)).max() < 4.4


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:.*meet too seldom in so small sites")
def test_many_pairs_meet_as_often_as_they_must():
    """6 points, 3 times, |z| < 4.4 each, and the sum of squares at the end: 3e-4."""
    values = np.geomspace(SLOW, FAST, 6).tolist()
    actual = z_scores(32, 8, values, 150)
    assert np.abs(actual).max() < 4.4
    assert (actual[:, -1] ** 2).sum() < scipy.stats.chi2.isf(1e-4, 6)
