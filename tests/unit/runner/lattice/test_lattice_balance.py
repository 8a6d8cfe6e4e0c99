"""Where lattices are cut anew: by occupied tiles, and by what slabs took."""

from __future__ import annotations

import numpy as np
import pytest
from lattice_factory import empty_lattice, lowered

from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.state import Slab
from tauslab.runner.lattice.balance import balanced, plane_costs, traced_seconds


def test_planes_cost_by_their_occupied_tiles(backend):
    model = empty_lattice((6, 30, 70), {"A": 0.1}, boundary="reflecting", slots=8)
    model.place("A", positions=[(2, 0, 0), (2, 29, 69), (3, 5, 5), (3, 5, 6)] * 3)
    engine = LatticeEngine(backend, lowered(model), seed=1, slab=Slab(1, 5, 1, 1))
    engine.load_start()
    tiles = engine.plan.tiles
    assert tiles > 2
    assert plane_costs(engine).tolist() == [tiles, tiles + 38, tiles + 19, tiles]


@pytest.mark.parametrize("least", [1, 3])
def test_measured_time_moves_the_cuts(least):
    """The last slab took four times as long for half as many planes."""
    bounds = balanced((0, 8, 16, 20), [1.0, 1.0, 2.0], [1] * 20, least)
    assert (bounds[0], bounds[-1]) == (0, 20)
    planes = np.diff(bounds)
    assert planes.min() >= least
    cost = np.repeat([1 / 8, 1 / 8, 1 / 2], [8, 8, 4])
    times = np.add.reduceat(cost, bounds[:-1])
    assert times.max() <= 1.5
    assert balanced(bounds, times, [1] * 20, least) == bounds, "a good cut stays"


def test_nothing_measured_changes_nothing():
    assert balanced((0, 1, 9), [0.0, 0.0], [5] * 9, 1) == (0, 1, 9)


class At:
    """An event at some second."""

    def __init__(self, second):
        self.second = second

    def wait(self):
        pass

    def seconds_since(self, earlier):
        return self.second - earlier.second


def test_time_is_that_in_which_anything_ran():
    marks = [("plane", 0, 1.0), ("plane", 1, 2.0), ("arrived", 1, 2.5), ("edges", 0, 5.0),
             ("column", 0, 5.5), ("edges", 1, 6.0), ("column", 1, 7.0)]  # fmt: skip
    trace = [(name, end, At(second)) for name, end, second in marks]
    assert traced_seconds(trace) == pytest.approx(3.0)
    assert traced_seconds([]) == 0.0
