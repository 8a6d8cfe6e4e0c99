"""One file that all ranks write together, through an h5py that was built with MPI.

Ranks finish launches at different times, but a collective write needs all of them. So a thread of
each rank meets the others' every few hundredths of a second: they say how much each has, and then
write together; ranks with nothing take part with empty selections. The file was laid out whole
before, so no HDF5 metadata changes and a killed rank leaves a file that opens.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import OutputError
from tauslab.base.files.drafts import make_own_folder
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.store.format.layout import Accumulators, Chunk, Layout, Selection, chunk_blocks
from tauslab.store.format.schema import file_specs, root_attributes
from tauslab.store.hdf5.disk import Disk, publish, write_error
from tauslab.store.hdf5.in_place import RawFile, note_writer
from tauslab.store.hdf5.skeleton import build_file
from tauslab.store.targets import remove_parts
from tauslab.store.writers.admission import Existing
from tauslab.store.writers.checkpoint import slot_bytes
from tauslab.store.writers.parts import AttemptStart, PartsOptions, PartsWriter
from tauslab.store.writers.progress import Source, distrust, marked_blocks, progress, read_source
from tauslab.store.writers.rows import CHECKSUMS, MARKS, block_checksums
from tauslab.store.writers.single import complete_in_place, names_in_place, require_all

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

_IDLE_SECONDS = 0.05  # how long a rank with nothing to write lets the others wait
_ABORT_SECONDS = 3.0


def mpio_refusal(comm: Communicator) -> str | None:
    """Return the reason for which the ranks cannot write one file together; None if they can."""
    if importlib.util.find_spec("h5py") is None:
        return "h5py is not installed"
    import h5py

    if not h5py.get_config().mpi:
        return "this h5py was built without MPI"
    if comm.size > 1 and not comm.threads_multiple():
        return "MPI was started without MPI_THREAD_MULTIPLE"
    return None


def write_box(
    target: Any, box: Selection | None, data: npt.NDArray[Any] | None, *, together: bool = True
) -> None:
    """Write a box of a dataset, rows of it, with all ranks together or alone; None for nothing."""
    from h5py import h5fd, h5p, h5s

    dataset = target.id
    transfer = h5p.create(h5p.DATASET_XFER)
    transfer.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE if together else h5fd.MPIO_INDEPENDENT)
    space = dataset.get_space()
    if box is None or data is None:
        space.select_none()
        memory = h5s.create_simple((1,))
        memory.select_none()
        data = np.zeros(1, np.dtype(target.dtype))
    else:
        shape = space.get_simple_extent_dims()
        start = [side.start for side in box] + [0] * (len(shape) - len(box))
        count = [side.stop - side.start for side in box] + list(shape[len(box) :])
        space.select_hyperslab(tuple(start), tuple(count))
        # Of the same shape: else HDF5 would look for the place of each number in turn.
        memory = h5s.create_simple(tuple(count))
        data = data.reshape(count)
    dataset.write(memory, space, data, mtype=dataset.get_type(), dxpl=transfer)


@dataclass
class _Request:
    """A chunk that a thread waits for to be written, with the checksums of its blocks."""

    chunk: Chunk
    sums: npt.NDArray[np.uint32]
    done: threading.Event = field(default_factory=threading.Event)


class MpioWriter(PartsWriter):
    """Writes the final file of a run on several ranks, in place; all construct it together.

    Parameters
    ----------
    existing
        An unfinished result of this writer; None makes a new file.
    hints
        Of MPI-IO, by name.

    Raises
    ------
    OutputError
        The file cannot be written or read.
    """

    def __init__(
        self, path: Path, layout: Layout, comm: Communicator, disk: Disk, existing: Existing | None,
        run: str, hints: Mapping[str, str],
    ) -> None:  # fmt: skip
        super().__init__(path, layout, comm, disk, existing, run, PartsOptions())
        self._queue: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._closing = False
        self._failure: BaseException | None = None
        self._ranks = comm.for_files()
        self._file = self._open(hints)
        self._datasets = {name: self._file[name] for name in self._names()}
        self._thread = threading.Thread(target=self._serve, name="tauslab-mpio", daemon=True)
        self._thread.start()

    def _names(self) -> list[str]:
        return [*(array.name for array in self._layout.row_arrays()), CHECKSUMS, MARKS]

    def _start(self, existing: Existing | None, run: str) -> AttemptStart:
        """On rank 0: lay the file out, or see what an earlier attempt left in it."""
        layout, disk = self._layout, self._disk
        run = existing.run if existing is not None else run
        if existing is None:
            specs = file_specs(
                layout, self._comm.size, in_place=True, checkpoint_bytes=slot_bytes(layout)
            )
            attributes = root_attributes(layout, "plain", run)
            publish(
                self._path,
                disk,
                lambda temporary: build_file(temporary, specs, attributes, disk, shared=True),
            )
            remove_parts(self._path, disk)
        else:
            note_writer(self._path, disk)
            self._check_own(run)
        if layout.needs_checkpoint:
            make_own_folder(self._folder)
        done = progress(layout, self._sources(run))
        if existing is not None:
            self.restored = done.restored
        names = tuple(p.name for p in self._folder.glob("*.h5"))
        return AttemptStart(run, names, done.completed, done.generation)

    def _check_own(self, run: str) -> None:
        """Take marks of damaged blocks of an earlier attempt away."""
        own = read_source(self._path, self._layout, run, verify=True)
        if own is not None:
            distrust(own, self._disk)

    def _sources(self, run: str) -> list[Source]:
        own = read_source(self._path, self._layout, run)
        return [*([own] if own is not None else []), *super()._sources(run)]

    def _open(self, hints: Mapping[str, str]) -> Any:
        import h5py

        info = self._ranks.info(hints)
        try:
            return h5py.File(self._path, "r+", driver="mpio", comm=self._ranks.comm, info=info)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be opened through MPI-IO: {error}") from None
        finally:
            info.Free()

    # --- the thread that writes

    def _serve(self) -> None:
        try:
            while self._round():
                pass
            self._file.close()
        except BaseException as error:  # noqa: BLE001 - raised again by `write` and `finish`
            self._failure = error

    def _round(self) -> bool:
        """Meet the other ranks and write what there is; False when all have ended."""
        request = self._next_request()
        chunk = None if request is None else request.chunk
        pieces = [] if chunk is None else list(self._layout.selections(*chunk.span))
        most, left = self._ranks.largest([len(pieces), request is not None or not self._closing])
        for index in range(most):
            self._write_piece(chunk, pieces[index] if index < len(pieces) else None)
        if most:
            self._file.flush()  # what is marked below is on the device
        if request is not None:
            self._mark(request)
            request.done.set()
        return bool(left)

    def _next_request(self) -> _Request | None:
        try:
            return self._queue.get(timeout=0 if self._closing else _IDLE_SECONDS)
        except queue.Empty:
            return None

    def _write_piece(self, chunk: Chunk | None, piece: tuple[Selection, slice] | None) -> None:
        for array in self._layout.row_arrays():
            if chunk is None or piece is None:
                self._write(array.name, None, None)
            else:
                box, rows = piece
                self._write(array.name, box, np.ascontiguousarray(chunk.arrays[array.name][rows]))

    def _mark(self, request: _Request) -> None:
        """Alone: these are few bytes, and nobody need wait for them."""
        box = (slice(*chunk_blocks(self._layout, request.chunk)),)
        self._write(CHECKSUMS, box, request.sums, together=False)
        self._write(MARKS, box, np.ones(len(request.sums), np.uint8), together=False)

    def _write(
        self, name: str, box: Selection | None, data: npt.NDArray[Any] | None, *,
        together: bool = True,
    ) -> None:  # fmt: skip
        write_box(self._datasets[name], box, data, together=together)

    # --- the writer

    def write(self, chunk: Chunk) -> None:
        """Write whole blocks and mark them, with whatever other ranks have."""
        request = _Request(chunk, block_checksums(self._layout, chunk))
        self._queue.put(request)
        while not request.done.wait(_IDLE_SECONDS):
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise write_error(self._path, self._failure) from self._failure

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Close the file together; rank 0 then completes it. Collective.

        Raises
        ------
        OutputError
            Some block was never written, or writing failed.
        """
        self._closing = True
        self._thread.join()
        self._raise_failure()
        super().abort()
        self._comm.barrier()
        on_root(self._comm, lambda: self._complete(totals, profile))

    def _complete(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        layout = self._layout
        require_all(self._path, marked_blocks(layout, self._sources(self._run)))
        names = names_in_place(file_specs(layout, self._comm.size))
        others = [name for name in names if name not in self._names()]
        file = RawFile(self._path, others, self._disk)
        complete_in_place(file, layout, totals, profile)
        remove_parts(self._path, self._disk)

    def abort(self) -> None:
        """Close if the others do so too; complete blocks stay for --resume."""
        self._closing = True
        self._thread.join(_ABORT_SECONDS)
        super().abort()
