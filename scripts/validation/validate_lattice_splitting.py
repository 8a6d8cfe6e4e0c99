"""What it costs that hops and reactions of a lattice take turns: exact, for a pair in a small one.

One A and one B in a periodic lattice of 6^3 sites, by the chain of their distances: a pass is hops,
then the master equation of the site for its length; beside it the master equation of all, which has
no passes. No random number is drawn. Columns: the constant of a pair times a pass, hop
probabilities of both in a pass; of A + B -> 0 the error of the mean time to react, the bound of it
that `tauslab check` tells, and the largest error of the mean number of A, in parts of its start; of
A + B <-> C, half of the time bound, the largest error of the mean number of C, in parts of its
equilibrium, and the error of the equilibrium.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from outcome import Outcome
from scipy.linalg import expm

from tauslab.model.lattice.diagnosis.time_step import pair_error

SIDE = 6
SITES = SIDE**3
HOPS = ((1 / 6, 1 / 6), (1 / 6, 0.0))
CONSTANTS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
TIMES = 40  # at which means are compared
Matrix = npt.NDArray[np.float64]


def _along(matrix_of_an_axis: Matrix, axis: int) -> Matrix:
    """The same of all sites, which changes one coordinate."""
    parts = [np.eye(SIDE)] * 3
    parts[axis] = matrix_of_an_axis
    return np.kron(np.kron(parts[0], parts[1]), parts[2])


def _turns() -> Matrix:
    """Hops of a ring to both sides, less staying."""
    ring = np.roll(np.eye(SIDE), 1, axis=1)
    return np.asarray(ring + ring.T - 2 * np.eye(SIDE))


def with_c(matrix: Matrix) -> Matrix:
    """With the state C behind the distances, which nothing changes yet."""
    found = np.eye(SITES + 1)
    found[:SITES, :SITES] = matrix
    return found


def by_turns(hops: tuple[float, float], x: float, back: float) -> Matrix:
    """A pass ``[from, to]``: the hops, then the reactions of the site with distance 0."""
    walk = np.eye(SITES)
    for axis, hop in itertools.product(range(3), hops):
        walk = walk @ _along(np.eye(SIDE) + hop * _turns(), axis)
    react = np.eye(SITES + 1)
    here = np.ix_([0, SITES], [0, SITES])
    react[here] = expm(np.array([[-x, x], [back, -back]]))
    return np.asarray(with_c(walk) @ react)


def all_at_once(hops: tuple[float, float], x: float, back: float) -> Matrix:
    """The generator ``[from, to]``, for passes as the unit of time."""
    found = np.zeros((SITES + 1, SITES + 1))
    for axis, hop in itertools.product(range(3), hops):
        found[:SITES, :SITES] += _along(hop * _turns(), axis)
    found[0, 0] -= x
    found[0, SITES] += x
    found[SITES, SITES] -= back
    found[SITES, 0] += back
    return found


def courses(
    hops: tuple[float, float], x: float, back: float, until: float
) -> tuple[Matrix, Matrix]:
    """P(C) over time by turns and all at once, from a start at any distance."""
    every = max(1, round(until / TIMES))
    jumps = np.linalg.matrix_power(by_turns(hops, x, back), every)
    flow = expm(every * all_at_once(hops, x, back))
    start = np.append(np.full(SITES, 1 / SITES), 0.0)
    found = []
    for step in (jumps, flow):
        state, course = start, []
        for _ in range(TIMES):
            state = state @ step
            course.append(float(state[SITES]))
        found.append(np.array(course))
    return found[0], found[1]


def mean_time(hops: tuple[float, float], x: float) -> tuple[float, float]:
    """Passes until the pair reacts, by turns (at the time in its pass) and all at once."""
    jump = by_turns(hops, x, 0.0)[:SITES, :SITES]
    hop = by_turns(hops, 1e-300, 0.0)[:SITES, 0]  # who comes to distance 0 in a pass
    happens = -math.expm1(-x)
    # A pass lasts 1 unless the pair reacts in it: then its time is 1/x - (1 - p) / p on average.
    spent = 1 - hop * happens * (1 - 1 / x + (1 - happens) / happens)
    turns = np.linalg.solve(np.eye(SITES) - jump, spent)
    exact = np.linalg.solve(-all_at_once(hops, x, 0.0)[:SITES, :SITES], np.ones(SITES))
    return float(turns.mean()), float(exact.mean())


def rows() -> Iterator[tuple[float, ...]]:
    """Numbers of a row: x, both hops, and errors as parts."""
    for hops, x in itertools.product(HOPS, CONSTANTS):
        turns, exact = mean_time(hops, x)
        ours, theirs = courses(hops, x, 0.0, 3 * exact)
        back = x / SITES  # C for half of the time in the end
        bound, all_bound = courses(hops, x, back, 3 * exact)
        yield (
            x, *hops, turns / exact - 1, pair_error(x, *hops, (SIDE,) * 3),
            float(abs(ours - theirs).max()),
            float(abs(bound - all_bound).max()) / 0.5, float(bound[-1] / all_bound[-1] - 1),
        )  # fmt: skip


def run(given: Any) -> Outcome:
    """The errors of every constant."""
    del given
    columns = (
        "k tau",
        "q of A, of B",
        "mean time",
        "bound",
        "mean of A",
        "mean of C",
        "C in the end",
    )
    table = [
        [f"{x:g}", f"{one:.3g}, {other:.3g}", *(f"{100 * error:.2f} %" for error in errors)]
        for x, one, other, *errors in rows()
    ]
    return Outcome("Passes of hops and reactions", "A pair in 6³ sites.", columns, table)
