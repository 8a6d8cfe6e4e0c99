"""Warps that hop in a tile each give the bits of a thread that goes through all sites."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from emulation import EmulatedLattices

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice_codegen import in_strips
from tauslab.model.placement import Start

sys.path.insert(0, str(Path(__file__).parents[1]))
from lattice_factory import binding, digest, empty_lattice, engine_on, lowered, typed

THREADS = 128


def wide():
    model = empty_lattice((3, 9, 35), {f"S{i}": 0.1 for i in range(300)}, slots=8)
    for i in range(0, 299, 2):
        model.add_reaction(f"S{i} + S{i + 1} -> S{(7 * i) % 300}", rate=3000, volume="site")
    for i in range(300):
        model.place(f"S{i}", count=4)
    return lowered(model)


# Planes that end within a tile, on it, and of which one tile is nearly empty; all faces; sites that
# fit registers, some that do not, and most that do not.
MODELS = {
    "periodic": lambda: binding((4, 21, 37), 1.6),
    "periodic, whole tiles": lambda: binding((3, 32, 64), 0.3),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "full": lambda: binding((3, 17, 32), 7.5),
    "reflecting": lambda: binding((3, 19, 40), 2.5, boundary="reflecting"),
    "absorbing": lambda: binding((3, 19, 40), 2.5, boundary="absorbing"),
    "typed": lambda: typed((4, 17, 45)),
    "typed periodic": lambda: typed((3, 16, 34), boundary="periodic", slots=8, fill=2.5),
    "wide": wide,
}


@pytest.fixture(scope="module")
def cpu():
    opened = get_backend("cpu", BackendOptions(threads=1))
    yield opened
    opened.close()


def test_only_lattices_whose_sites_fit_registers_are_done_in_lanes(cpu):
    assert in_strips(binding((4, 21, 37), 1.6))
    assert not in_strips(binding((4, 21, 37), 4.8))  # too full
    assert not in_strips(binding((4, 21, 37), 1.6, slots=32))
    assert not in_strips(binding((4, 21, 7), 1.6))  # narrower than a warp
    assert engine_on(cpu, binding((4, 21, 37), 1.6))._warps == 1


@pytest.mark.parametrize(("name", "order"), [(m, (-1) ** i) for i, m in enumerate(MODELS)])
def test_lanes_give_the_same_bits(cpu, tmp_path, name, order, monkeypatch):
    monkeypatch.setattr(Start, "crowding", 0.0)
    lattice = MODELS[name]()
    assert in_strips(lattice)
    backend = EmulatedLattices(tmp_path, THREADS, order, counter=cpu)
    expected, found = engine_on(cpu, lattice), engine_on(backend, lattice, together=False)
    assert found._warps == THREADS // 32
    counts = expected.run_sampled([3, 8])
    assert np.array_equal(found.run_sampled([3, 8]).by_type, counts.by_type)
    assert digest(found) == digest(expected)
    backend.close()
