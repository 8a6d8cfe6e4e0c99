"""Lanes that hand over trajectories give the same bits; lanes are emulated without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, fast_at_the_end, simulate
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.exact import ssa
from tauslab.kernels.exact.ssa import UnrolledSsa
from tauslab.model.network.network import Network

LANES = 128
FEWEST = 4  # trajectories that must have been parked


def switching() -> Network:
    """A gene that is seldom on: some trajectories have a hundred times as many events as others."""
    net = Network("switching")
    for name, count in (("off", 1), ("on", 0), ("X", 3), ("Y", 0)):
        net.add_species(name, count)
    net.add_reaction("off -> on", rate=0.05)
    net.add_reaction("on -> off", rate=0.02)
    net.add_reaction("on -> on + X", rate=300.0)
    net.add_reaction("X -> Y", rate=1.7)
    net.add_reaction("Y ->", law="0.31 * Y / (1 + 0.001 * Y)")
    net.add_rule("both", "X + 2 * Y")
    return net


@compiler
@pytest.mark.parametrize(
    ("n", "order"),
    ordinary(
        [(n, order) for n in (LANES, 3 * LANES + 5) for order in (1, -1)],
        (3 * LANES + 5, -1),
    ),
)
def test_handed_over_trajectories_keep_their_bits(tmp_path, monkeypatch, n, order):
    times, queues = np.linspace(0, 10, 21), []
    scratch = UnrolledSsa.scratch

    def kept(engine, rows):
        queues.append(scratch(engine, rows))
        return queues[-1]

    monkeypatch.setattr(UnrolledSsa, "scratch", kept)
    alone = simulate(get_backend("cpu", BackendOptions(threads=1)), switching(), times, n, "linear")
    backend = EmulatedBackend(tmp_path, LANES, order)
    handed = simulate(backend, switching(), times, n, "linear")
    for actual, expected in zip(handed, alone, strict=True):
        assert np.array_equal(actual, expected)
    ((_, ready),) = queues
    assert np.count_nonzero(ready) >= FEWEST


@compiler
@pytest.mark.parametrize("lanes", ordinary([8, 32], 8))
def test_trajectories_that_lanes_share_keep_their_bits(tmp_path, monkeypatch, lanes):
    """More trajectories than there are groups of lanes, some of which end at once."""
    times, n = np.linspace(0, 4, 9), 3 * LANES // lanes + 1
    alone = simulate(
        get_backend("cpu", BackendOptions(threads=1)), fast_at_the_end(), times, n, "linear"
    )
    monkeypatch.setattr(ssa, "lanes_of", lambda *_: lanes)
    shared = simulate(EmulatedBackend(tmp_path, LANES, -1), fast_at_the_end(), times, n, "linear")
    for actual, expected in zip(shared, alone, strict=True):
        assert np.array_equal(actual, expected)
