"""The interface of devices.

A backend is made by `get_backend`; the names are ``cpu`` and ``cuda``.  Importing this package
starts nothing: heavy imports live in the backends' constructors.  Streams, events and buffers are
handed back to the backend they came from; streams and events are `Any` as arguments, since each
backend knows its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray
from tauslab.kernels.backends.arguments import Arguments


@dataclass(frozen=True)
class Style:
    """Sizes by which code and launches suit a device; no result depends on them.

    Attributes
    ----------
    branches
        Unrolled code has one branch per reaction that updates only what the reaction changes
        (cheap where threads run apart: a CPU); otherwise everything is recomputed without a branch
        (a warp).
    warp
        Threads that run in step, each waiting for the others; 1 where threads run apart.
    block
        Threads of a block, at most.
    blocks_together
        Blocks that may run one trajectory together, at most.
    team, small_team
        Threads that run one trajectory of a network in tables; the second where trajectories are
        many.
    literals
        Numbers of rate laws that a kernel keeps in registers of their own, at most.
    most_parking
        Threads that hand over trajectories in the end, at most: those of a warp gain by it.
    simd
        Whether a thread can run several trajectories together, one on each SIMD lane.
    """

    branches: bool
    warp: int = 1
    block: int = 1
    blocks_together: int = 1
    team: int = 1
    small_team: int = 1
    literals: int = 0
    most_parking: int = 0
    simd: bool = False

    def on_lanes(self, each: float, fewest: float) -> bool:
        """Return whether SIMD lanes serve `each` trajectories of a thread; 0 for very many."""
        return self.simd and not 0 < each < fewest


@dataclass(frozen=True)
class KernelSource:
    """A kernel file of ``csrc`` with the headers generated for it.

    `file` is its name in ``csrc``; `entries` are its kernels; `generated` maps header names (for
    instance ``model.h``) to their text; `lane_bytes` is the fast memory that a work item needs
    where the device has such; `block_bytes` the same of a block, for `Program.launch_blocks`.
    `first` is the same kernels in a text that compiles sooner and may run slower. A device whose
    compiler takes seconds runs them until this one is compiled; both give the same bits.
    """

    file: str
    entries: tuple[str, ...]
    generated: Mapping[str, str] = field(default_factory=dict)
    lane_bytes: int = 0
    block_bytes: int = 0
    first: KernelSource | None = None


@dataclass(frozen=True)
class LaunchGrid:
    """Blocks of threads that share memory; a device may take fewer, each doing the work of several.

    With `together` all blocks run at the same time, so that they may wait for each other.
    """

    blocks: int
    threads: int
    together: bool = False


class Event(Protocol):
    """A point in a stream's work."""

    def done(self) -> bool:
        """Return whether everything before it has ended, without waiting."""

    def wait(self) -> None:
        """Block until everything before it has ended; raises what went wrong there."""

    def seconds_since(self, earlier: Any) -> float:
        """Device seconds from `earlier`, an event of the same backend, to this one."""


class Stream(Protocol):
    """Work on a stream runs in the order it was given; streams run beside each other."""

    def record(self) -> Event:
        """Mark the work given so far."""

    def wait_for(self, event: Any) -> None:
        """Let later work on this stream start after `event`."""


class Graph(Protocol):
    """Launches that were recorded once, with the arguments they then had."""

    def launch(self, stream: Any) -> None:
        """Run them all, in stream order."""


class Program(Protocol):
    """A compiled `KernelSource`."""

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry`: a value for every field of the struct that it takes.

        A buffer of this device, None for a null pointer, a number, or, for a struct in the struct,
        a dict of names to values. TypeError for a name too many, too few, or a wrong type.
        """

    def launch(self, entry: str, items: int, arguments: Arguments, stream: Any) -> None:
        """Run kernel `entry` with room for `items` concurrent work items.

        The arguments are those of now: what `Arguments.set` does later is for later launches.
        """

    def resident(self, entry: str) -> int:
        """Work items of `entry` that the device runs at the same time."""

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: Any
    ) -> None:
        """Run a kernel whose threads work in blocks, as the grid says."""

    def resident_blocks(self, entry: str, threads: int) -> int:
        """Blocks of `threads` threads that the device runs at the same time."""


class Backend(Protocol):
    """One device: memory, streams and programs."""

    name: str
    style: Style
    multiprocessors: int  # that run independently of each other
    fast_memory: int  # bytes of a processor that blocks of a launch may share out; 0: none
    # Up to how many sites a launch does many steps of a lattice, and how many sites at least a
    # block has there, which waits for the others twice in a step.
    sites_together: int
    sites_of_a_block: int
    # About the seconds that a processor takes for a site of a lattice, and the least of a step; and
    # what it takes more to start a launch than to go on with one.
    site_seconds: float
    step_seconds: float
    launch_seconds: float
    # How many small lattices take steps at the same time at most, and up to how many sites each.
    concurrent_lattices: int
    sites_beside: int
    waiting_is_free: bool  # whether a kernel that waits for another device takes nobody's time

    def describe(self) -> str:
        """Name of the device for people, for instance ``NVIDIA H200``."""

    def identity(self) -> str:
        """A name that no other device of its node has; empty where ranks may well share it."""

    def compile(self, source: KernelSource) -> Program:
        """Compile, or load from the cache."""

    def stream(self, *, urgent: bool = False, waited: bool = False) -> Stream:
        """Open a stream; work on an urgent one goes before that on others.

        Who gives short work to a `waited` one waits for it soon: a device may do it at once.
        """

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike) -> DeviceArray:
        """Device memory, not initialised."""

    def upload(self, array: Array, stream: Any = None) -> DeviceArray:
        """Copy a host array to new device memory, or put that on a stream.

        Memory that a stream fills must live until work there has read it.
        """

    def clear(self, buffer: DeviceArray, stream: Any) -> None:
        """Set every byte of `buffer` to zero."""

    def copy(self, source: DeviceArray, target: DeviceArray, stream: Any) -> None:
        """Copy a buffer to another of the same size, in stream order."""

    def mirror(self, buffer: DeviceArray) -> Array:
        """Host memory of the shape of `buffer` that `download` fills fast."""

    def download(self, buffer: DeviceArray, mirror: Array, rows: int, stream: Any) -> None:
        """Copy the first `rows` rows of `buffer` to its mirror."""

    def upload_mirror(self, mirror: Array, buffer: DeviceArray, stream: Any) -> None:
        """Copy a mirror back to its buffer, in stream order."""

    def write_now(self, buffer: DeviceArray, word: int, value: int) -> None:
        """Write a word of a u64 buffer at once, beside kernels that run and may be reading it."""

    def read_now(self, buffer: DeviceArray) -> Array:
        """Read a small u64 buffer at once, beside kernels that run and may be writing it."""

    def shareable(self, words: int) -> DeviceArray:
        """Zeroed device memory of 64-bit words that another process may open."""

    def export_memory(self, buffer: DeviceArray) -> bytes:
        """A handle of `shareable` memory; DeviceError where the device has none."""

    def open_memory(self, handle: bytes, words: int) -> DeviceArray:
        """Another process's `shareable` memory; DeviceError where it cannot be reached."""

    def close_memory(self, buffer: DeviceArray) -> None:
        """Give back what `open_memory` gave."""

    def map_host(self, memory: Array) -> DeviceArray:
        """Host memory of whole pages as a buffer; DeviceError where kernels cannot reach it."""

    def unmap_host(self, buffer: DeviceArray) -> None:
        """Give back what `map_host` gave; the memory stays."""

    def record_launches(self, work: Callable[[], None], stream: Any) -> Graph | None:
        """Record what `work` launches from `stream` on, without running it; None: not possible.

        Other streams take part from where they wait for it until it waits for them.
        """

    def use(self) -> None:
        """Let the calling thread work with this device."""

    def free_memory(self) -> int:
        """Bytes of device memory that can still be taken."""

    def work_stealing_items(
        self, rows: int, resident: int, each: int = 8, *, parks: bool = False
    ) -> int:
        """Work items for `rows` trajectories that take turns, of `resident` that fit.

        An item has up to `each` of many trajectories. `parks`: items hand over what they have.
        """

    def long_launch(self, together: int, events_each: float, most: int) -> int:
        """Rows with which a launch is long against its start and its end.

        `together` rows run at the same time, and each takes about so many events. `most` is a
        bound where the end of a launch leaves threads with nothing to do.
        """

    def launched_items(self, items: int) -> int:
        """Threads that a launch of at most `items` work items really starts."""

    def rest(self) -> None:
        """Leave threads to other devices of this process until the next launch; all is done."""

    def close(self) -> None:
        """Give threads and memory back."""


@dataclass(frozen=True)
class BackendOptions:
    """Choice of a device of its kind, and of how much of it.

    `index` is the node-local GPU; `threads` the CPU threads (0: all that are allowed).
    """

    index: int = 0
    threads: int = 0


# Gigabytes a second that copies between two devices reach, [from][to]; None where they cannot.
PeerMatrix = list[list[float | None]]
