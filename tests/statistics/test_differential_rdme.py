"""Two random small lattices against a law that is built from scratch; wrong models are told.

`differential_rdme.py` does the same with many; false alarms as there, 1e-6 for each test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from places import SCRIPTS

REPLICAS = 80
SEEDS = {1: 38, 2: 23}  # of small cases: held and absorbing faces, walls; order: seed


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)


def compare(case, order, tested=None):
    from differential_rdme import compare, limit

    message = compare(case, order, REPLICAS, 5, step=0.01, t_end=0.5, tested=tested)
    return max(one.z() for one in message), limit(len(message)), message


@pytest.mark.validate
@pytest.mark.parametrize("order", [pytest.param(1, marks=pytest.mark.validate), 2])
def test_a_random_lattice_follows_its_law(order):
    from random_lattices import draw_case

    worst, most, message = compare(draw_case(SEEDS[order], order), order)
    assert len(message) >= 6
    assert worst < most, max(message, key=lambda one: one.z())


@pytest.mark.validate
def test_a_wrong_face_is_reported():
    """The face that lets particles out is a wall in what is run."""
    from random_lattices import draw_case

    case = draw_case(SEEDS[1], 1)
    walls = tuple(("reflecting", 0, np.zeros(case.n_species)) for _ in case.faces)
    worst, most, _ = compare(case, 1, replace(case, faces=walls))
    assert worst > most
