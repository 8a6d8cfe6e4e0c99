"""The writer that keeps a result in memory, under the names that a file would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base import host
from tauslab.base.arrays import BoolArray
from tauslab.base.errors import ConfigError, OutputError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.store.format.layout import Accumulators, Chunk, Layout, chunk_blocks
from tauslab.store.format.schema import TEXT, known_specs, profile_contents, root_attributes
from tauslab.store.format.statistics import statistics_contents
from tauslab.store.writers.rows import COMPLETE, MARKS

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

Arrays = dict[str, npt.NDArray[Any]]

_SMALL = 64 << 20  # bytes for which nobody is asked


class MemoryWriter:
    """Collects chunks; after `finish` every rank holds the whole result.

    Attributes
    ----------
    result_arrays
        Arrays by the dataset names of a file; empty until `finish`.
    attributes
        Root attributes of a file.

    Raises
    ------
    ConfigError
        Memory is too small for all rows.
    """

    def __init__(self, layout: Layout, comm: Communicator, run: str) -> None:
        copies = 1 if comm.size == 1 else 2  # chunks, and arrays that are put together from them
        on_root(comm, lambda: _check_memory(layout, copies))
        self._layout, self._comm = layout, comm
        self._chunks: list[Chunk] = []
        self._whole: Arrays = {}  # of a rank alone: the result, of which its chunks are parts
        self.completed: BoolArray = np.zeros(layout.n_blocks, np.bool_)
        self.restored: Accumulators | None = None
        self.result_arrays: Arrays = {}
        self.attributes: dict[str, Any] = root_attributes(layout, "memory", run)

    def write(self, chunk: Chunk) -> None:
        """Keep a copy of a chunk, since its buffers are used again."""
        chunk_blocks(self._layout, chunk)
        arrays: Arrays = {}
        for array in self._layout.row_arrays():
            rows = chunk.arrays[array.name]
            if self._comm.size > 1:
                arrays[array.name] = rows.copy()
                continue
            if array.name not in self._whole:
                shape = (self._layout.total, *array.inner)
                self._whole[array.name] = np.empty(shape, rows.dtype)
            arrays[array.name] = self._whole[array.name][slice(*chunk.span)]
            arrays[array.name][...] = rows
        self._chunks.append(Chunk(chunk.start, arrays))

    def checkpoint(self, totals: Accumulators, done: BoolArray) -> None:
        """Do nothing: no state outlives this process."""

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Gather all chunks and share the result. Collective.

        Raises
        ------
        OutputError
            Some trajectories are missing.
        """
        gathered = self._comm.gather(self._chunks)
        self._chunks = []
        arrays: Arrays = {}
        if gathered is not None:
            chunks = sorted((c for own in gathered for c in own), key=lambda c: c.start)
            arrays = self._assemble(chunks, totals, profile)
        self.result_arrays = self._comm.bcast(arrays)
        if not self.result_arrays:
            raise OutputError("the run cannot be finished: some trajectories are missing")

    def _assemble(
        self, chunks: list[Chunk], totals: Accumulators, profile: list[dict[str, float | str]]
    ) -> Arrays:
        layout = self._layout
        ends = [0, *(chunk.start + chunk.rows for chunk in chunks)]
        if ends != [*(chunk.start for chunk in chunks), layout.total]:
            return {}
        arrays: Arrays = {}
        for array in layout.row_arrays():
            rows = self._whole.pop(array.name, None)
            if rows is None:
                rows = np.concatenate([chunk.arrays.pop(array.name) for chunk in chunks])
            arrays[array.name] = rows.reshape(*layout.lead, layout.n, *array.inner)
        arrays |= statistics_contents(layout, totals) | profile_contents(profile)
        arrays[MARKS] = np.ones(layout.n_blocks, np.uint8)
        arrays[COMPLETE] = np.ones((), np.uint8)
        return with_axes(layout, arrays)

    def abort(self) -> None:
        """Forget what was collected."""
        self._chunks, self._whole = [], {}


def with_axes(layout: Layout, arrays: Arrays) -> Arrays:
    """Arrays of a result, with axes and model as the specification of its file has them."""
    for spec in known_specs(layout, len(arrays["profile/device"])):
        if spec.name not in arrays and spec.allocated:
            arrays[spec.name] = np.asarray(spec.data, object if spec.dtype == TEXT else spec.dtype)
    return arrays


def _check_memory(layout: Layout, copies: int) -> None:
    """Refuse, before anything runs, rows that are more than memory can take."""
    needed = copies * layout.payload_bytes
    if needed <= _SMALL:
        return
    free = host.available_memory()
    if needed > free:
        raise ConfigError(
            f"results of {layout.total} trajectories need {host.in_bytes(needed)} of memory "
            f"and {host.in_bytes(free)} can be taken: give a file ({opt('output')}), "
            f"or keep sums only ({opt('record', 'statistics')})"
        )
