"""Inputs, buffers and counters of one launch, as all engines of ensembles take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray, Uint32Array
from tauslab.kernels.backends.base import Backend, Stream

LAUNCHES_IN_FLIGHT = 3  # that share a device: one computes, one is copied, one is written
MAX_STEPS = 2**48 - 1  # the draw number has 48 bits

# Counts of a launch: firings; of tau-leaping also leaps, exact firings, and leaps
# that were halved because a count would have fallen below zero, and those that a check rejected.
WORK = ("events", "leaps", "exact_events", "halved", "rejected")

# Words of a launch's `row_counter`, ControlWord of ensemble/control.h: the next row, whether to
# stop, trajectories that were left for that reason, events so far, bits of the time reached.
CONTROL_WORDS = 8
STOP, LEFT, RUN_EVENTS, REACHED_TIME = 1, 2, 3, 4


@dataclass(kw_only=True)
class SampleBuffers:
    """Device buffers of one launch; those not recorded are None.

    status u8 ``[rows]``, row_counter u64 ``[CONTROL_WORDS]``, work u64 ``[5]`` as `WORK` names it;
    scratch is the state of trajectories in flight, where registers do not hold it.

    Of networks: counts int32 ``[rows, time, species]``, reals f64 ``[rows, time, observable]``,
    final_counts int32 ``[rows, species]``; keep f64 ``[rows, words]`` takes whole states of
    trajectories with events.

    Of equations: reals ``[rows, time, quantity]``, final_amounts f64 ``[rows, species]``; drawn f64
    ``[rows, priors]`` takes what is drawn; steps f64 ``[rows]`` are those to go on with, and those
    at the end; kept_queue and keep_queue, f64 ``[rows, words]``, are triggers and executions to go
    on from, and those at the end.

    Of some engines (`Engine.takes_turns`): lengths u64 ``[rows]`` takes steps of each.
    """

    status: DeviceArray
    row_counter: DeviceArray
    work: DeviceArray
    counts: DeviceArray | None = None
    reals: DeviceArray | None = None
    final_counts: DeviceArray | None = None
    final_amounts: DeviceArray | None = None
    scratch: Any = None
    keep: DeviceArray | None = None
    drawn: DeviceArray | None = None
    steps: DeviceArray | None = None
    kept_queue: DeviceArray | None = None
    keep_queue: DeviceArray | None = None
    lengths: DeviceArray | None = None

    @classmethod
    def of(
        cls, backend: Backend, rows: int, row_counter: DeviceArray | None = None, **recorded: Any
    ) -> SampleBuffers:
        """Buffers for `rows` trajectories, of which these are recorded."""
        if row_counter is None:
            row_counter = backend.upload(np.zeros(CONTROL_WORDS, np.uint64))
        return cls(
            status=backend.empty((rows,), np.uint8), row_counter=row_counter,
            work=backend.empty((len(WORK),), np.uint64), **recorded,
        )  # fmt: skip

    def clear_counters(self, backend: Backend, stream: Stream) -> None:
        """Set the words that kernels add to back to zero, in stream order."""
        backend.clear(self.row_counter, stream)
        backend.clear(self.work, stream)


@dataclass(frozen=True)
class Launch:
    """Trajectories ``first .. first + rows - 1`` and their inputs on the device.

    `initial` int32 ``[inputs, species]`` and `constants` f64 ``[inputs, constants]``, with one
    input for all trajectories or, without a sweep, one for each. `seed` and the trajectory's number
    give all draws; one that would take more than `max_steps` steps ends. In a sweep `per_point`
    trajectories of every point follow each other; it has one input for each of the points that
    the launch touches. Numbers of trajectories begin at `before`, within each point. `times` f64 on
    the device stand in place of those of the engine, as many. Trajectories with events go on from
    the states `kept`, where they are given, and halt when quantity number `halt` is not 0. Engines
    that take turns begin rows as `order` says, int64 ``[rows]`` on the device.
    """

    first: int
    rows: int
    initial: DeviceArray | None
    constants: DeviceArray
    per_point: int = 0
    before: int = 0
    times: DeviceArray | None = None
    kept: DeviceArray | None = None
    halt: int = -1
    order: DeviceArray | None = None
    seed: int = field(kw_only=True)
    max_steps: int = field(default=MAX_STEPS, kw_only=True)


class SeedKeys:
    """The seed as kernels take it: `PhiloxKeys` on the device, kept from launch to launch."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._seed: int | None = None
        self._kept: dict[Stream, DeviceArray] = {}

    def of(self, seed: int, stream: Stream) -> DeviceArray:
        """The buffer of a seed, for launches on a stream."""
        if seed != self._seed:
            self._seed, self._kept = seed, {}
        if stream not in self._kept:
            self._kept[stream] = self._backend.upload(philox_keys(seed), stream)
        return self._kept[stream]


_WEYL: Uint32Array = np.multiply.outer(
    np.array([0x9E3779B9, 0xBB67AE85], np.uint32), np.arange(10, dtype=np.uint32)
)


def philox_keys(seed: int) -> Uint32Array:
    """`PhiloxKeys` of random/philox.h, uint32 ``[2, 10]``: words of each round's key."""
    key: Uint32Array = np.array([[seed & 0xFFFFFFFF], [seed >> 32]], np.uint32)
    return key + _WEYL


def stride_of(rows: DeviceArray | None) -> int:
    """Elements from one row to the next; 0 where all trajectories share one row."""
    return int(rows.shape[1]) if rows is not None and rows.shape[0] > 1 else 0
