"""Statistics on disk while a run goes on: two alternating slots, each with a checksum.

For runs whose sums no recorded samples can give back. A slot is written whole; the newest slot
whose checksum is right decides, so a crash during a write costs the work since the slot before.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.schema import CHECKPOINT_SLOTS
from tauslab.store.hdf5.in_place import RawFile

_DIGEST_BYTES = 32
_HEADER_BYTES = 8 + _DIGEST_BYTES


@dataclass(frozen=True)
class Checkpoint:
    """Sums over the blocks of `done`; a higher `generation` is newer."""

    generation: int
    totals: Accumulators
    done: BoolArray


def slot_bytes(layout: Layout) -> int:
    """Bytes of a slot: generation, checksum, accumulators, a bit per block; 0 where not needed."""
    if not layout.needs_checkpoint:
        return 0
    cells = sum(math.prod(shape) for shape in layout.accumulator_shapes().values())
    return _HEADER_BYTES + 8 * cells + -(-layout.n_blocks // 8)


def encode(layout: Layout, checkpoint: Checkpoint) -> npt.NDArray[np.uint8]:
    """Bytes of a slot."""
    parts = [
        np.ascontiguousarray(checkpoint.totals[name], "<u8").reshape(-1).view(np.uint8)
        for name in layout.accumulator_shapes()
    ]
    payload = np.concatenate([*parts, np.packbits(checkpoint.done)])
    generation = checkpoint.generation.to_bytes(8, "little")
    header = generation + _checksum(generation, payload)
    return np.concatenate([np.frombuffer(header, np.uint8), payload])


def decode(layout: Layout, data: npt.NDArray[np.uint8]) -> Checkpoint | None:
    """The sums in a slot; None if it was never written, or only in part."""
    generation, payload = data[:8].tobytes(), data[_HEADER_BYTES:]
    if data[8:_HEADER_BYTES].tobytes() != _checksum(generation, payload):
        return None
    totals: Accumulators = {}
    position = 0
    for name, shape in layout.accumulator_shapes().items():
        end = position + 8 * math.prod(shape)
        words = np.frombuffer(payload[position:end].tobytes(), "<u8")
        totals[name] = words.reshape(shape).astype(np.uint64)
        position = end
    done = np.unpackbits(payload[position:], count=layout.n_blocks).astype(np.bool_)
    return Checkpoint(int.from_bytes(generation, "little"), totals, done)


def _checksum(generation: bytes, payload: npt.NDArray[np.uint8]) -> bytes:
    digest = hashlib.blake2b(generation, digest_size=_DIGEST_BYTES)
    digest.update(np.ascontiguousarray(payload).data)
    return digest.digest()


class CheckpointSlots:
    """Writes checkpoints of a file in turn, never over the newest.

    Parameters
    ----------
    generation
        That of the newest checkpoint which counts; 0 for none.
    """

    def __init__(self, file: RawFile, layout: Layout, generation: int = 0) -> None:
        self._file, self._layout, self._generation = file, layout, generation

    def write(self, totals: Accumulators, done: BoolArray) -> None:
        """Write the next checkpoint and wait until it is on the device."""
        self._generation += 1
        data = encode(self._layout, Checkpoint(self._generation, totals, done))
        self._file.write(CHECKPOINT_SLOTS[self._generation % 2], 0, data)
        self._file.sync()
