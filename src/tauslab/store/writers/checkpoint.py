"""Statistics on disk while a run goes on: two alternating slots, each with a checksum.

For runs whose sums no recorded samples can give back. The newest slot whose checksum is right
decides, so a crash during a write costs the work since the slot before. Sums of a sweep or of
groups change at a few points from one checkpoint to the next: only these are written again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.decomposition.blocks import runs
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.schema import CHECKPOINT_SLOTS
from tauslab.store.hdf5.in_place import RawFile

_DIGEST_BYTES = 32
_HEADER_BYTES = 8 + _DIGEST_BYTES
_PIECE_BYTES = 1 << 20  # sums with a checksum of their own, and written together


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
    return _HEADER_BYTES + layout.sums_bytes + -(-layout.n_blocks // 8)


class _Pieces:
    """The sums of a layout in pieces of neighbouring points: where they lie, and their digests."""

    def __init__(self, layout: Layout) -> None:
        self.points = math.prod(layout.sum_lead)  # 1 without an axis of points
        self._bytes = {n: 8 * math.prod(s) for n, s in layout.accumulator_shapes().items()}
        self.n_bytes = layout.sums_bytes
        self.size = max(1, _PIECE_BYTES * self.points // max(1, self.n_bytes))  # points of a piece
        self.count = -(-self.points // self.size)

    def of(self, index: int, totals: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[int, Any]]:
        """Offsets of the parts of a piece in a slot, and their words."""
        first, end = index * self.size, min(self.points, (index + 1) * self.size)
        position = _HEADER_BYTES
        for name, n_bytes in self._bytes.items():
            words = totals[name].reshape(self.points, -1)[first:end]
            yield position + first * (n_bytes // self.points), np.ascontiguousarray(words, "<u8")
            position += n_bytes

    def digest(self, index: int, totals: Mapping[str, npt.NDArray[Any]]) -> bytes:
        """Digest of a piece."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for _, words in self.of(index, totals):
            digest.update(words.data)
        return digest.digest()

    def digests_of_zeros(self) -> list[bytes]:
        """Digests of all pieces of sums to which nothing was added."""
        whole, rest = divmod(self.points, self.size)
        sizes = {
            points: bytes(self.n_bytes // self.points * points) for points in (self.size, rest)
        }
        of = {n: hashlib.blake2b(b, digest_size=_DIGEST_BYTES).digest() for n, b in sizes.items()}
        return [of[self.size]] * whole + [of[rest]] * (rest > 0)


def _checksum(generation: int, digests: list[bytes], done: npt.NDArray[np.uint8]) -> bytes:
    parts = (generation.to_bytes(8, "little"), *digests, done.tobytes())
    return hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


def decode(layout: Layout, data: npt.NDArray[np.uint8]) -> Checkpoint | None:
    """The sums in a slot; None if it was never written, or only in part."""
    generation, totals, position = int.from_bytes(data[:8].tobytes(), "little"), {}, _HEADER_BYTES
    if not generation:
        return None
    for name, shape in layout.accumulator_shapes().items():
        end = position + 8 * math.prod(shape)
        totals[name] = data[position:end].view("<u8").reshape(shape)
        position = end
    pieces, bits = _Pieces(layout), data[position:]
    digests = [pieces.digest(index, totals) for index in range(pieces.count)]
    stored = data[8:_HEADER_BYTES].tobytes()
    if stored != _checksum(generation, digests, bits) and stored != _checksum_before(data):
        return None
    done = np.unpackbits(bits, count=layout.n_blocks).astype(np.bool_)
    return Checkpoint(generation, {n: v.astype(np.uint64) for n, v in totals.items()}, done)


def _checksum_before(data: npt.NDArray[np.uint8]) -> bytes:
    """Checksum of a slot as earlier versions wrote it: of all bytes at once."""
    digest = hashlib.blake2b(data[:8].data, digest_size=_DIGEST_BYTES)
    digest.update(data[_HEADER_BYTES:].data)
    return digest.digest()


@dataclass
class _Slot:
    """The data of a slot on disk: digests of its pieces, and the blocks that they include."""

    digests: list[bytes]
    done: BoolArray


class CheckpointSlots:
    """Writes checkpoints of a file in turn, never over the newest.

    Parameters
    ----------
    generation
        That of the newest checkpoint which counts; 0 for none.
    fresh
        Whether the slots are as they were laid out: zeros, as sums of no block are.
    """

    def __init__(
        self, file: RawFile, layout: Layout, generation: int = 0, *, fresh: bool = False
    ) -> None:
        self._file, self._layout, self._generation = file, layout, generation
        self._pieces = _Pieces(layout)
        self._slots: dict[str, _Slot] = {}
        if fresh:
            zeros, nothing = self._pieces.digests_of_zeros(), np.zeros(layout.n_blocks, np.bool_)
            self._slots = {name: _Slot(list(zeros), nothing) for name in CHECKPOINT_SLOTS}

    def write(self, totals: Accumulators, done: BoolArray) -> None:
        """Write the next checkpoint and wait until it is on the device.

        It writes the sums of blocks that are `done` and that the slot does not include yet.
        """
        self._generation += 1
        generation, name = self._generation, CHECKPOINT_SLOTS[self._generation % 2]
        pieces, held = self._pieces, self._slots.pop(name, None)  # none while it is written
        digests = [b""] * pieces.count if held is None else held.digests
        for index in range(pieces.count) if held is None else self._changed(done & ~held.done):
            digests[index] = pieces.digest(index, totals)
            for position, words in pieces.of(index, totals):
                self._file.write(name, position, words)
        bits = np.packbits(done)
        self._file.write(name, _HEADER_BYTES + pieces.n_bytes, bits)
        header = generation.to_bytes(8, "little") + _checksum(generation, digests, bits)
        self._file.write(name, 0, np.frombuffer(header, np.uint8))
        self._file.sync()
        self._slots[name] = _Slot(digests, done.copy())

    def _changed(self, blocks: BoolArray) -> list[int]:
        """Pieces to which these blocks add."""
        layout, size = self._layout, self._pieces.size
        changed: set[int] = set()
        for first, end in runs(np.flatnonzero(blocks).tolist()):
            points = layout.points_of(*layout.block_rows(first, end))
            last = self._pieces.points if points.stop is None else points.stop
            changed.update(range((points.start or 0) // size, -(-last // size)))
        return sorted(changed)
