"""Frames of a lattice file that are put into it while the run goes on.

To join all frames at the end would take some per cent of a run on a GPU. So what one rank wrote
whole is written a second time, into a file that becomes the finished one. Nothing depends on it:
the parts stay until the end, and a run that is resumed joins them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tauslab.base.files.direct_chunks import write_chunk
from tauslab.base.files.drafts import draft_of
from tauslab.options.lattice import LatticeTask
from tauslab.store.checking.lattice import chunk_sum
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk
from tauslab.store.lattice.frames import FrameSums, make_frames
from tauslab.store.lattice.layout import place_of
from tauslab.store.lattice.parts import CHECKPOINT, Piece


class EarlyFrames:
    """The beginning of a finished file, for one thread at a time.

    Attributes
    ----------
    done
        Places of the frames that are in it, with the checksums of their chunks.
    changed
        Whether hooks changed site types in one of them.
    """

    def __init__(self, path: Path, task: LatticeTask, chunk: int, disk: Disk) -> None:
        self._path = draft_of(path)
        self._task, self._chunk, self._disk = task, chunk, disk
        self._open: Hdf5OnDisk | None = None
        self.done: FrameSums = {}
        self.changed = False

    def add(self, piece: Piece, chunks: Sequence[bytes]) -> None:
        """Write a frame whose chunks are compressed; nothing if it is part of one."""
        planes = self._task.lattice.shape[0]
        if piece.number == CHECKPOINT or (piece.begin, piece.end) != (0, planes):
            return
        where = (*place_of(self._task, piece.replica), piece.number)
        opened = self._opened()
        particles = opened.file["lattice/particles"]
        for index, data in enumerate(chunks):
            write_chunk(particles, (*where, index * self._chunk, 0, 0, 0), data)
        opened.sync()  # now and not all at the end
        self.done[where] = [chunk_sum(data) for data in chunks]
        self.changed |= piece.hooks.sites is not None

    def _opened(self) -> Hdf5OnDisk:
        if self._open is None:
            self._disk.create(self._path)
            self._open = Hdf5OnDisk(self._path, self._disk, libver=("v110", "v110"))
            make_frames(self._open.file, self._task, self._chunk)
        return self._open

    def become(self, path: Path) -> None:
        """Close, and take the place of another file; not if there is nothing in it."""
        if self._open is not None:
            self._open.close()
            self._open.check()
            self._open = None
            self._disk.replace(self._path, path)

    def drop(self) -> None:
        """Close, and remove what did not become anything."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._disk.remove(self._path)
