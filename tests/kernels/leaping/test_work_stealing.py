"""Leaps by warps that exchange trajectories: the same numbers as those of one thread."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, leap

from tauslab.kernels.backends.base import BackendOptions
from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.leaping import tau_leap
from tauslab.kernels.leaping.tau_leap import TauLeap
from tauslab.runner.cli.bench import michaelis_menten, schlogl

STEALING = CSRC / "device" / "work_stealing_cuda.h"
TIMES = [0.0, 0.5, 2.0, 6.0]


@compiler
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("model", "n", "trajectories"),
    [
        (schlogl, 300, 0),
        (schlogl, 64, 64),
        (michaelis_menten, 700, 700),
        (schlogl, 256, 1000),
        (schlogl, 12, 12),
    ],
)
def test_warps_give_the_numbers_of_a_thread(
    tmp_path, monkeypatch, model, n, trajectories, order
) -> None:
    # A block of two warps; in the last case with launches beside it.
    monkeypatch.setattr(tau_leap, "leaps_on_lanes", lambda *_: False)
    device = EmulatedBackend(tmp_path, 64, order)
    found = leap(device, model(), TIMES, n, engine=TauLeap, trajectories=trajectories)
    wanted = leap(CpuBackend(BackendOptions(threads=1)), model(), TIMES, n, engine=TauLeap)
    for array, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert found[-1][1] > 0
    assert found[-1][2] > 0


def test_a_queue_has_room_for_all_trajectories_of_a_block() -> None:
    assert f"QUEUE = {tau_leap.MOST_PER_LANE} * THREADS_PER_BLOCK;" in STEALING.read_text()
