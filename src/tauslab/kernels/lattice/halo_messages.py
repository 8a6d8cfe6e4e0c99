"""Messages of edge planes between slabs: their size, and the kernels that pack and unpack them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.arguments import Arguments, KeptArguments
from tauslab.kernels.backends.base import KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.state import WAITING

Sides = Sequence[Any]  # buffers for the slabs below and above, None where there is none

_HEAD_WORDS = 2
_LINE_WORDS = 16
_COUNTERS = 3


class HaloKernels:
    """Packs and unpacks messages of the edge planes of an engine's slab.

    Parameters
    ----------
    depth
        Planes in a message.
    room
        Waiting particles in a message; 0 where each step is followed by a message.
    """

    def __init__(self, engine: LatticeEngine, depth: int, room: int) -> None:
        self._engine, self.depth, self.room = engine, depth, room
        backend = engine.backend
        entries = ("halo_pack", "halo_wait", "halo_unpack", "halo_advance")
        self._program: Program = backend.compile(
            KernelSource("lattice/halo.cc", entries, engine.plan.header)
        )
        self._arguments = KeptArguments(self._program)
        self._counters = backend.upload(np.zeros(_COUNTERS, np.uint64))
        _, ny, nx = engine.lattice.shape
        resident = self._program.resident_blocks("halo_pack", engine.plan.tile.threads)
        self._blocks = max(1, min(resident, -(-depth * ny * nx // engine.plan.tile.threads)))

    @property
    def message_words(self) -> int:
        """64-bit words of a message: see `message_in` in csrc/lattice/halo.cc."""
        engine = self._engine
        _, ny, nx = engine.lattice.shape
        lattice = engine.lattice
        site = lattice.slots * np.dtype(lattice.particle_type).itemsize
        words = (
            _HEAD_WORDS
            + 2 * -(-self.depth * ny * nx * site // 16)
            + 2 * -(-self.depth * engine.plan.tiles // 4)
            + self.room * WAITING.itemsize // 8
        )
        return -(-words // _LINE_WORDS) * _LINE_WORDS  # so that the next begins aligned

    def pack(self, number: int, targets: Sides, signals: Sides, stream: Stream) -> None:
        """Put message `number` into `targets`; then the number into the cells `signals`."""
        below, above = targets
        below_signal, above_signal = signals
        arguments = self._arguments.of(
            "halo_pack", lattice=self._engine.arguments(), depth=self.depth, room=self.room,
            below=below, above=above, below_signal=below_signal, above_signal=above_signal,
            counters=self._counters, number=number,
        )  # fmt: skip
        self._launch("halo_pack", arguments, stream)

    def wait(self, number: int, signals: Sides, stream: Stream) -> None:
        """Let later work on the stream start when all `signals` hold `number`."""
        below, above = signals
        arguments = self._arguments.of(
            "halo_wait",
            below_signal=below,
            above_signal=above,
            work=self._engine.work,
            number=number,
        )
        self._program.launch_blocks("halo_wait", LaunchGrid(1, 32), arguments, stream)

    def unpack(self, sources: Sides, stream: Stream) -> None:
        """Put messages into the planes that are kept beside the slab."""
        below, above = sources
        arguments = self._arguments.of(
            "halo_unpack",
            lattice=self._engine.arguments(),
            depth=self.depth,
            room=self.room,
            below=below,
            above=above,
        )
        self._launch("halo_unpack", arguments, stream)

    def advance(self, steps: int, messages: int, stream: Stream) -> None:
        """Add to the numbers that launches, which were recorded once, begin from."""
        arguments = self._arguments.of(
            "halo_advance", work=self._engine.work, steps=steps % 2**64, messages=messages % 2**64
        )
        self._program.launch_blocks("halo_advance", LaunchGrid(1, 32), arguments, stream)

    def _launch(self, entry: str, arguments: Arguments, stream: Stream) -> None:
        grid = LaunchGrid(self._blocks, self._engine.plan.tile.threads)
        self._program.launch_blocks(entry, grid, arguments, stream)
