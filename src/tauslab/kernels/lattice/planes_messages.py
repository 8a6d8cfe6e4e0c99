"""Messages between slabs in bit planes: what hops over a cut, of the passes along z."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Stream
from tauslab.kernels.lattice.planes import PLANES_OF_SLOTS
from tauslab.kernels.lattice.planes_engine import PlanesEngine

Sides = Sequence[Any]  # buffers for the slabs below and above, None where there is none

_LINE_WORDS = 16


class PlanesMessages:
    """Passes of an engine's slab; those along z write messages, and take them in.

    Parameters
    ----------
    mark
        Called before (0) and after (1) each pass.

    Attributes
    ----------
    departs
        The axis along which particles leave in the pass that takes messages in; -1: none.
    """

    def __init__(self, engine: PlanesEngine, mark: Callable[[int], None]) -> None:
        self._engine, self._mark, self._buffer = engine, mark, 0
        self.departs = -1
        self._counter = engine.backend.upload(np.zeros(1, np.uint64))

    @property
    def message_words(self) -> int:
        """64-bit words of a message: flags, then the planes of each species."""
        lattice = self._engine.lattice
        planes = 1 + len(lattice.species) * PLANES_OF_SLOTS[lattice.slots]
        words = -(-planes * self._engine.plane_words // 2)
        return -(-words // _LINE_WORDS) * _LINE_WORDS  # so that the next begins aligned

    def start_pass(self, arrives: int, departs: int, **edges: Any) -> None:
        """Put a pass on the engine's stream, which reads what the last one wrote."""
        self._mark(0)
        self._engine.start_pass(arrives, departs, self._buffer, **edges)
        self._mark(1)
        self._buffer = 1 - self._buffer

    def start_steps(self, steps: int, even: Sequence[Sides], number: int) -> None:
        """Put whole steps on the engine's stream, with messages from `number` on.

        `even` says where messages of even number lie, those of odd number behind them: targets, the
        cells that they signal, sources and the cells that are signalled.
        """
        (to_below, to_above), signals, (from_below, from_above), from_signals = even
        self._engine.start_steps(
            steps, to_below=_narrow(to_below), to_above=_narrow(to_above),
            from_below=_narrow(from_below), from_above=_narrow(from_above),
            apart=2 * self.message_words, below_signal=signals[0], above_signal=signals[1],
            from_below_signal=from_signals[0], from_above_signal=from_signals[1],
            counter=self._counter, number=number,
        )  # fmt: skip

    def pack(self, number: int, targets: Sides, signals: Sides, stream: Stream) -> None:  # noqa: ARG002
        """Start the pass in which message `number` leaves; then the number for `signals`."""
        below, above = map(_narrow, targets)
        below_signal, above_signal = signals
        self.start_pass(
            1, 2, to_below=below, to_above=above, below_signal=below_signal,
            above_signal=above_signal, counter=self._counter, number=number,
        )  # fmt: skip

    def wait(self, number: int, signals: Sides, stream: Stream) -> None:  # noqa: ARG002
        """Let later passes start when all `signals` hold `number`."""
        self._engine.start_wait(number, signals)

    def unpack(self, sources: Sides, stream: Stream) -> None:  # noqa: ARG002
        """Start the pass that takes messages in."""
        below, above = map(_narrow, sources)
        self.start_pass(2, self.departs, from_below=below, from_above=above)


def _narrow(message: Any) -> Any:
    """Return a message as words of 32 bits."""
    return None if message is None else message.view(np.uint32)
