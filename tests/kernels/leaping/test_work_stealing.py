"""Leaps by warps that exchange trajectories: the same numbers as those of one thread."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, leap, lowered, recording
from hypothesis import given
from hypothesis import strategies as st
from sampling import ordinary

from tauslab.cli.commands.machine import michaelis_menten, schlogl
from tauslab.kernels.backends.base import BackendOptions
from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.ensemble.launch import Launch
from tauslab.kernels.leaping import tau_leap
from tauslab.kernels.leaping.tau_leap import TauLeap

STEALING = CSRC / "device" / "work_stealing_cuda.h"
TIMES = [0.0, 0.5, 2.0, 6.0]


@compiler
@pytest.mark.parametrize(
    ("model", "n", "trajectories", "order"),
    ordinary(
        [
            (*case, order)
            for case in (
                (schlogl, 300, 0),
                (schlogl, 64, 64),
                (michaelis_menten, 200, 200),
                (schlogl, 12, 12),
            )
            for order in (1, -1)
        ],
        (schlogl, 64, 64, -1),
        (michaelis_menten, 200, 200, -1),
        (schlogl, 12, 12, 1),
    ),
)
def test_warps_give_the_numbers_of_a_thread(
    tmp_path, monkeypatch, model, n, trajectories, order
) -> None:
    # A block of two warps; in the last case with launches beside it.
    monkeypatch.setattr(tau_leap, "leaps_on_lanes", lambda *_: False)
    device = EmulatedBackend(tmp_path, 64, order)
    actual = leap(device, model(), TIMES, n, engine=TauLeap, trajectories=trajectories)
    wanted = leap(CpuBackend(BackendOptions(threads=1)), model(), TIMES, n, engine=TauLeap)
    for array, expected in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert actual[-1][1] > 0
    assert actual[-1][2] > 0


def test_a_queue_has_room_for_all_trajectories_of_a_block() -> None:
    assert f"QUEUE = {tau_leap.MOST_PER_LANE} * THREADS_PER_BLOCK;" in STEALING.read_text()


@compiler
def test_a_launch_of_fewer_rows_stays_in_its_buffer(tmp_path, monkeypatch) -> None:
    # Of 4 blocks, 17 rows begin on 2 lanes of each warp, and 16 on one: more warps.
    monkeypatch.setattr(tau_leap, "leaps_on_lanes", lambda *_: False)
    device, space, rows = EmulatedBackend(tmp_path, 128, blocks=4), 17, 16
    model, initial = lowered(schlogl())
    engine = TauLeap(device, model, TIMES, 0.03, rows)
    slots, words = engine.scratch(space).shape
    guard, mark = 2048, np.uint32(0xABCDABCD)
    memory = np.full((slots + guard, words), mark, np.uint32)
    buffers = recording(device, engine, model, len(TIMES), space)
    buffers.scratch = memory[:slots]
    stream = device.stream()
    launch = Launch(0, rows, device.upload(initial), device.upload(np.zeros((1, 1))), seed=1)
    engine.start(launch, buffers, stream)
    stream.record().wait()
    assert np.any(memory[:slots] != mark)
    assert np.all(memory[slots:] == mark)


class _Device:
    """A GPU as far as the sizes of launches ask for it; it gives shapes, not memory."""

    style = CudaBackend.style

    def __init__(self, multiprocessors: int) -> None:
        self.multiprocessors = multiprocessors

    def launched_items(self, items: int) -> int:
        return max(1, -(-items // 128)) * 128

    def empty(self, shape, _) -> SimpleNamespace:
        return SimpleNamespace(shape=shape)


@given(
    st.integers(1, 140), st.integers(1, 9), st.booleans(), st.integers(0, 400_000),
    st.integers(1, 400_000), st.floats(0, 1),
)  # fmt: skip
def test_no_launch_has_more_turns_than_its_buffer(
    multiprocessors, blocks, large, trajectories, room, part
) -> None:
    engine = object.__new__(TauLeap)
    resident = 128 * blocks * multiprocessors
    engine.backend, engine.entry = _Device(multiprocessors), "tau_leap"
    engine.program = SimpleNamespace(resident=lambda _: resident)
    engine._is_large, engine._trajectories, engine._parked_words = large, trajectories, 1
    slots = engine.scratch(room).shape[0]
    fewer = max(1, min(room, int(part * room)))
    for rows in {fewer, max(1, room - 1), min(room, trajectories or 1), min(room, resident)}:
        threads = engine.backend.launched_items(engine._lanes(rows))
        assert threads * engine._per_lane(rows) <= slots
