"""The exact SSA engine: which kernel a network gets, and how a launch is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.exact.selectors import mean_dependents, selector_of
from tauslab.kernels.exact.table_network import NOTHING_KNOWN, Expected, LargeNetwork, team_of
from tauslab.kernels.network.codegen import unrolled_header
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.arrays import FloatArray, Uint32Array

LAUNCHES_IN_FLIGHT = 3  # that share a device: one computes, one is copied, one is written
MAX_STEPS = 2**48 - 1  # the draw number has 48 bits

# What a launch counts: reactions that fired; of tau-leaping also leaps, exact events, and leaps
# that were halved because a count would have fallen below zero, and those that a check rejected.
WORK = ("events", "leaps", "exact_events", "halved", "rejected")

# Words of a launch's `row_counter`, ControlWord of ensemble/control.h: the next row, whether to
# stop, trajectories that were left for that reason, events so far, bits of the time reached.
CONTROL_WORDS = 8
STOP, LEFT, RUN_EVENTS, REACHED_TIME = 1, 2, 3, 4


@dataclass
class SampleBuffers:
    """Device buffers of one launch; those not recorded are None.

    counts int32 ``[rows, time, species]``, observables f64 ``[rows, time, observable]``, final
    int32 ``[rows, species]``, status u8 ``[rows]``, row_counter u64 ``[CONTROL_WORDS]``,
    work u64 ``[5]`` as `WORK` names it; scratch is the state of trajectories in flight, for
    networks that are not unrolled; drawn f64 ``[rows, priors]`` takes what an ODE ensemble draws.
    """

    counts: Any
    observables: Any
    final: Any
    status: Any
    row_counter: Any
    work: Any
    scratch: Any = None
    drawn: Any = None


@dataclass(frozen=True)
class Launch:
    """Trajectories ``first .. first + rows - 1`` and their inputs on the device.

    `initial` int32 ``[inputs, species]`` and `constants` f64 ``[inputs, constants]``, with one
    input for all trajectories or, without a sweep, one for each. In a sweep `per_point`
    trajectories of every point follow each other; it has one input for each of the points that
    the launch touches. Numbers of trajectories begin at `before`, within each point.
    """

    first: int
    rows: int
    initial: Any
    constants: Any
    per_point: int = 0
    before: int = 0


class ExactSsa:
    """Gillespie's direct method on one backend for one network.

    Parameters
    ----------
    selector
        How the next reaction is found; None chooses by the network.
    team
        Threads that run one trajectory; 0 chooses by device and trajectories. Changes no result.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``, see
        `tauslab.kernels.exact.presimulation`; for large networks.
    pilot
        Of large networks: count firings, with the pilot's own random numbers.
    expected
        How many trajectories this device will run, and from which counts, where that is known.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        *,
        selector: str | None = None,
        team: int = 0,
        firings: FloatArray | None = None,
        pilot: bool = False,
        expected: Expected = NOTHING_KNOWN,
    ) -> None:
        self.backend = backend
        self._firings, self._pilot, self._expected = firings, pilot, expected
        self.selector = selector_of(network, selector)
        self.team = team if backend.style.warps else 1
        self._times = backend.upload(np.asarray(times, np.float64))
        self._n_times = len(times)
        self._round_keys: dict[int, Any] = {}
        self._large: LargeNetwork | None = None
        self.entry = ""
        self.program: Program = backend.compile(self._source(network))

    def _source(self, network: LoweredNetwork) -> KernelSource:
        """The kernel for the network; sets `entry` and makes the tables it reads."""
        if self.selector == "linear":
            header = unrolled_header(network, self.backend.style)
            self.entry, file = "ssa", "ensemble/ssa.cc"
        else:
            many = 0 if self.selector == "rssa" else self._expected.trajectories
            self.team = self.team or team_of(
                self.backend.style, self.backend.processors, many, mean_dependents(network)
            )
            self._large = LargeNetwork(
                self.backend, network, self.selector, self.team,
                firings=self._firings, pilot=self._pilot, expected=self._expected,
            )  # fmt: skip
            header = self._large.header
            self.entry, file = entry_of(self.selector), file_of(self.selector)
        fast = self._large.lane_bytes if self._large else 0
        return KernelSource(file, (self.entry,), {"model.h": header}, lane_bytes=fast)

    @property
    def firings(self) -> Any:
        """Of a pilot: what it counts on the device, u64 ``[reaction + 2]``: see `LargeNetwork`."""
        return None if self._large is None else self._large.firings

    @property
    def bytes_per_trajectory(self) -> int:
        """Device memory that a trajectory in flight takes; 0 where registers hold its state."""
        return 0 if self._large is None else self._large.bytes_per_trajectory

    def resident(self, launches: int = 1) -> int:
        """Trajectories that run at the same time when `launches` share the device's memory."""
        most = self.program.resident(self.entry)
        if self._large is None:
            return most
        # Half of the memory that is free, so that sample buffers find room beside it.
        share = self.backend.free_memory() // (2 * launches)
        teams = min(most // self.team, share // self._large.bytes_per_trajectory)
        return max(1, int(teams)) * self.team

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time; each takes a team of threads."""
        return self.resident(launches) // self.team if self._large else self.resident(launches)

    def scratch(self, rows: int) -> Any:
        """State of at most `rows` trajectories in flight, or None where registers hold it."""
        if self._large is None:
            return None
        items = min(rows * self.team, self.resident(LAUNCHES_IN_FLIGHT))
        return self._large.scratch(self.backend.launched_items(items) // self.team)

    def start(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        *,
        seed: int,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        backend = self.backend
        backend.clear(buffers.row_counter, stream)
        backend.clear(buffers.work, stream)
        arguments = [
            self._key(seed), launch.per_point, launch.before, launch.first, launch.rows,
            self._times, self._n_times,
            launch.initial, stride_of(launch.initial),
            launch.constants, stride_of(launch.constants),
            np.uint64(max_steps), buffers.row_counter, buffers.counts, buffers.observables,
            buffers.final, buffers.status, buffers.work, *self._own_arguments(launch.rows, buffers),
        ]  # fmt: skip
        items = self._items(launch.rows)
        if self._large is not None:
            arguments += self._large.arguments(buffers.scratch)
            items = min(launch.rows, int(buffers.scratch[0].shape[0])) * self.team
        self._launch(items, arguments, stream)

    def _launch(self, items: int, arguments: list[Any], stream: Stream) -> None:
        self.program.launch(self.entry, items, arguments, stream)

    def _items(self, rows: int) -> int:
        """Work items that take turns at `rows` trajectories."""
        return self.backend.taking_turns(rows, self.program.resident(self.entry))

    def _own_arguments(self, rows: int, buffers: SampleBuffers) -> list[Any]:
        """Kernel arguments that only this engine has."""
        del rows, buffers
        return []

    def _key(self, seed: int) -> Any:
        """The seed as the kernel takes it: `PhiloxKeys` on the device."""
        if seed not in self._round_keys:
            self._round_keys = {seed: self.backend.upload(philox_keys(seed))}
        return self._round_keys[seed]


def entry_of(selector: str) -> str:
    """The kernel of a selector of large networks."""
    return "ssa_rejection" if selector == "rssa" else "ssa_table"


def file_of(selector: str) -> str:
    """The file of that kernel."""
    if selector == "rssa":
        return "tables/rejection/ssa_rejection.cc"
    return "tables/ssa_table.cc"


def philox_keys(seed: int) -> Uint32Array:
    """`PhiloxKeys` of random/philox.h, uint32 ``[2, 10]``: words of each round's key."""
    rounds = np.arange(10, dtype=np.uint32)
    low, high = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
    return np.stack([low + rounds * np.uint32(0x9E3779B9), high + rounds * np.uint32(0xBB67AE85)])


def stride_of(rows: Any) -> int:
    """Elements from one row to the next; 0 where all trajectories share one row."""
    return int(rows.shape[1]) if rows.shape[0] > 1 else 0
