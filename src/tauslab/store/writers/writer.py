"""The interface of writers that the driver uses, and the choice of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.store.format.layout import Accumulators, Chunk, Layout
from tauslab.store.hdf5.disk import Disk
from tauslab.store.targets import parts_folder, remove_parts, remove_portions
from tauslab.store.writers.admission import Existing, examine
from tauslab.store.writers.memory import MemoryWriter
from tauslab.store.writers.single import SingleWriter

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator
    from tauslab.store.writers.parts import PartsOptions


class Writer(Protocol):
    """Takes the data that a rank records.

    Attributes
    ----------
    completed
        Blocks that need not be run ``[block]``, the same on every rank.
    restored
        Statistics of these blocks, on rank 0 only; None elsewhere, and for a new run.
    """

    completed: BoolArray
    restored: Accumulators | None

    def write(self, chunk: Chunk) -> None:
        """Write whole storage blocks and mark them; called by one thread of the rank.

        The chunk's arrays may be used again afterwards.

        Raises
        ------
        OutputError
            Writing failed; blocks that are marked stay good.
        """

    def checkpoint(self, totals: Accumulators, done: BoolArray) -> None:
        """Save this rank's statistics so far; never while `write` or another checkpoint runs.

        `done` ``[block]`` are the blocks that `totals` include, and each of them was written. What
        was restored may be among them on rank 0. Does nothing where samples are recorded.
        """

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Complete the result; collective.

        `totals` are the sums over all ranks with what was restored, and `profile` has a row per
        rank; rank 0's are used.

        Raises
        ------
        OutputError
            Blocks are missing, or writing failed.
        """

    def abort(self) -> None:
        """Close files and leave what is complete for --resume; not collective."""


@dataclass(frozen=True)
class Storage:
    """Settings of writing: the writer, hints to MPI-IO, and the level of gzip.

    `run` is the identity of a new run, where it belongs to one that there is.
    """

    writer: str = "auto"
    hints: Mapping[str, str] = field(default_factory=dict)
    compress: int = 0
    run: str | None = None


class FinishedWriter:
    """Stands for a result that is complete: there is nothing to run or write."""

    def __init__(self, layout: Layout) -> None:
        self.completed: BoolArray = np.ones(layout.n_blocks, np.bool_)
        self.restored: Accumulators | None = None

    def write(self, chunk: Chunk) -> None:
        """Refuse."""
        raise ValueError(f"trajectory {chunk.start} is in the finished result already")

    def checkpoint(self, totals: Accumulators, done: BoolArray) -> None:
        """Leave the result as it is."""

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Leave the result as it is."""

    def abort(self) -> None:
        """Leave the result as it is."""


def open_writer(
    path: Path | None, layout: Layout, comm: Communicator, *, overwrite: bool = False,
    resume: bool = False, how: Storage | None = None, disk: Disk | None = None,
    parts: PartsOptions | None = None,
) -> Writer:  # fmt: skip
    """The writer for a job; collective.

    Parameters
    ----------
    path
        The result's file; None keeps it in memory.
    overwrite
        Replace a file that is there, once the new one has been created.
    resume
        Go on from an unfinished file; begin anew if there is none.
    how
        By which writer, and in which form.
    disk, parts
        Stand-ins for tests: what changes files, and the sizes of parts.

    Raises
    ------
    ConfigError
        The path cannot be used, or the file there holds another run.
    OutputError
        The file cannot be written, for example for want of space.
    """
    disk = disk or Disk()
    how = how or Storage()
    run = how.run or os.urandom(8).hex()
    together = _writes_together(how, comm, path)
    if path is None:
        return MemoryWriter(layout, comm, run)
    place = path
    existing: Existing | None = on_root(
        comm, lambda: examine(place, layout, overwrite=overwrite, resume=resume)
    )
    if overwrite:
        on_root(comm, lambda: remove_portions(place, disk))
    if existing is not None:  # it lacks what came after its version
        layout = replace(layout, format_version=existing.format_version)
    if existing is not None and existing.complete:
        if existing.storage == "plain" and comm.rank == 0:
            remove_parts(path, disk)  # left by a run that was killed after it had merged them
        return FinishedWriter(layout)
    fits = existing is None or existing.storage == "plain"
    if comm.size == 1 and fits and not how.compress and not parts_folder(path).is_dir():
        return SingleWriter(path, layout, disk, existing, run)
    if together and not how.compress and (existing is None or (fits and existing.shared)):
        from tauslab.store.writers.mpio import MpioWriter

        return MpioWriter(path, layout, comm, disk, existing, run, how.hints)
    from tauslab.store.writers.parts import PartsOptions, PartsWriter

    parts = replace(parts or PartsOptions(), compress=how.compress)
    return PartsWriter(path, layout, comm, disk, existing, run, parts)


def _writes_together(how: Storage, comm: Communicator, path: Path | None) -> bool:
    """Return whether several ranks write one file; refuses mpio where there is none."""
    if path is None or how.writer == "parts":
        return False
    if how.writer != "mpio" and comm.size == 1:
        return False
    from tauslab.store.writers.mpio import mpio_refusal

    reason = mpio_refusal(comm)
    if how.writer == "mpio" and reason is not None:
        raise ConfigError(
            f"{opt('writer')} mpio: {reason}; use {opt('writer', 'parts')}, or an h5py built with "
            "MPI (scripts/build_parallel_h5py)"
        )
    return comm.size > 1 and reason is None
