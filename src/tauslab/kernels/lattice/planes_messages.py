"""Messages between slabs in bit planes: what hops over a cut, packed and unpacked by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import PLANES_OF_SLOTS, THREADS, planes_header
from tauslab.kernels.lattice.planes_engine import PlanesEngine

Sides = Sequence[Any]  # buffers for the slabs below and above, None where there is none

_ENTRIES = ("planes_pack", "planes_wait", "planes_unpack")
_LINE_WORDS = 16


def messages_program(backend: Backend, lattice: LoweredLattice) -> Program:
    """Return the kernels of messages of a lattice in bit planes."""
    header = {"model.h": planes_header(lattice)}
    return backend.compile(KernelSource("lattice/planes/messages.cc", _ENTRIES, header))


class PlanesMessages:
    """Packs and unpacks what leaves an engine's slab along z.

    Attributes
    ----------
    buffer
        Of the engine's `moved`, in which the last pass put what leaves.
    """

    def __init__(self, engine: PlanesEngine) -> None:
        self._engine, self.buffer = engine, 0
        backend = engine.backend
        self._program: Program = messages_program(backend, engine.lattice)
        self._arguments = KeptArguments(self._program)
        self._counter = backend.upload(np.zeros(1, np.uint64))
        resident = self._program.resident_blocks("planes_pack", THREADS)
        self._blocks = max(1, min(resident, -(-engine.plane_words // THREADS)))

    @property
    def message_words(self) -> int:
        """64-bit words of a message: flags, then the planes of each species."""
        lattice = self._engine.lattice
        planes = 1 + len(lattice.species) * PLANES_OF_SLOTS[lattice.slots]
        words = -(-planes * self._engine.plane_words // 2)
        return -(-words // _LINE_WORDS) * _LINE_WORDS  # so that the next begins aligned

    def pack(self, number: int, targets: Sides, signals: Sides, stream: Stream) -> None:
        """Put message `number` into `targets`; then the number into the cells `signals`."""
        below, above = map(_narrow, targets)
        below_signal, above_signal = signals
        self._launch(
            "planes_pack", stream, below=below, above=above, below_signal=below_signal,
            above_signal=above_signal, counter=self._counter, number=number,
        )  # fmt: skip

    def wait(self, number: int, signals: Sides, stream: Stream) -> None:
        """Let later work on the stream start when all `signals` hold `number`."""
        below, above = signals
        arguments = self._arguments.of(
            "planes_wait", below_signal=below, above_signal=above, number=number
        )
        self._program.launch_blocks("planes_wait", LaunchGrid(1, 32), arguments, stream)

    def unpack(self, sources: Sides, stream: Stream) -> None:
        """Put messages into the planes beside the slab."""
        below, above = map(_narrow, sources)
        self._launch("planes_unpack", stream, below=below, above=above)

    def _launch(self, entry: str, stream: Stream, **values: Any) -> None:
        lattice = self._engine.arguments()
        arguments = self._arguments.of(entry, lattice=lattice, buffer=self.buffer, **values)
        self._program.launch_blocks(entry, LaunchGrid(self._blocks, THREADS), arguments, stream)


def _narrow(message: Any) -> Any:
    """Return a message as words of 32 bits."""
    return None if message is None else message.view(np.uint32)
