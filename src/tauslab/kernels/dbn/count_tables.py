"""Conditional probability tables of a dynamic Bayesian network, counted on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.kernels.backends.base import Backend, Event, KernelSource, Program, Stream
from tauslab.kernels.dbn.entries import Entries, Keys, NodeFamily

MOST_BINS = 250  # a bin is a byte, and 255 stands for none
_ENTRIES = ("bin_double", "bin_single", "count_dense", "count_sparse", "move_entries")
_MANY = 32  # trajectories of a work item: most add to few cells, and so share their additions
_DENSE_BYTES = 1 << 26  # a table of up to this size has a cell for every entry
_LARGEST_LOAD = 0.7  # of a hash table with linear probing


class CountTables:
    """Tables of all nodes on a device, for batches of up to `rows` trajectories.

    Parameters
    ----------
    edges
        Edges of the intervals ``[bins + 1]`` of each variable, then of each parameter.
    variables
        How many of them are variables.
    families
        One per variable, in order.
    times
        Number of time points; there is a table per family and step between them.
    rows
        Trajectories that a batch may have.

    Raises
    ------
    ConfigError
        A table has more entries than can be numbered, or than the device has memory for.
    """

    def __init__(
        self, backend: Backend, edges: Sequence[FloatArray], variables: int,
        families: Sequence[NodeFamily], times: int, rows: int,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._families = tuple(families)
        self._rows = rows
        self._times = times
        self._variables = variables
        self.bins = [len(own) - 1 for own in edges]
        self.keys = [Keys.of(family, self.bins, times) for family in families]
        self._program = backend.compile(KernelSource("dbn/count.cc", _ENTRIES))
        self._edges = [_Edges(backend, edges[:variables]), _Edges(backend, edges[variables:])]
        n_parameters = len(edges) - variables
        self._planes = backend.empty((2 * variables + n_parameters, rows), np.uint8)
        cells = [sum(self.bins[:variables]) + 3 * variables]
        cells += [sum(self.bins[variables:]) + 3 * n_parameters]
        self._cells = [
            backend.empty((times, cells[0]), np.uint64),
            backend.empty((1, max(1, cells[1])), np.uint64),
        ]
        shares = {"many": _MANY, "side_by_side": backend.style.warp > 1}
        where = _Where(rows, variables, self.bins, shares)
        sizes = [8 * (times - 1) * keys.entries for keys in self.keys]
        dense = [i for i, n_bytes in enumerate(sizes) if n_bytes <= _DENSE_BYTES]
        entries = [self.keys[i].entries for i in dense]
        self._dense = _Dense(
            backend, self._program, [families[i] for i in dense], entries, times, where
        )
        self._sparse = [
            _Sparse(backend, self._program, families[i], self.keys[i], times, where)
            for i in range(len(families))
            if i not in set(dense)
        ]
        self._counted: Event | None = None
        self._shares = shares

    def clear(self, stream: Stream) -> None:
        """Set all counts to zero."""
        for buffer in self._cells:
            self._backend.clear(buffer, stream)
        self._dense.clear(stream)
        for table in self._sparse:
            table.clear(stream)

    def begin(self, parameters: DeviceArray, rows: int, stream: Stream) -> None:
        """Bin the parameters of a batch: reals ``[parameter, rows]`` on the device, or more."""
        assert rows <= self._rows
        if len(self.bins) > self._variables:
            planes = self._planes[2 * self._variables :]
            self._bin(parameters, self._edges[1], planes, self._cells[1][0], rows, stream)

    def add(self, values: DeviceArray, time: int, rows: int, stream: Stream) -> None:
        """Bin the variables of a batch at a time point, and count the step that leads to it.

        `values` are real ``[variable, rows]`` on the device, doubles or floats. Time points come
        in order from 0.
        """
        odd = time % 2
        planes = self._planes[odd * self._variables : (odd + 1) * self._variables]
        self._bin(values, self._edges[0], planes, self._cells[0][time], rows, stream)
        if time == 0:
            return
        self._dense.count(self._planes, time, rows, stream)
        for table in self._sparse:
            table.count(self._planes, time, rows, stream)
        if self._sparse:
            self._counted = stream.record()

    @property
    def planes(self) -> int:
        """Planes of bins: of the variables of two time points, and of the parameters."""
        return len(self.bins) + self._variables

    def arguments(self, planes: Any | None) -> dict[str, Any]:
        """Arguments with which a kernel that integrates counts: `CountJob` of count_samples.h.

        It bins, and counts the small tables; `planes` u8 ``[parameters + times * variables, rows]``
        take the bins for `add_binned`, where tables grow.
        """
        variables, parameters = self._edges
        stride = 0 if planes is None else int(planes.shape[1])
        return {
            "variables": variables.intervals(self._cells[0]),
            "n_parameters": parameters.quantities,
            "parameters": parameters.intervals(self._cells[1]),
            **self._dense.arguments(),
            "counts": self._dense.counts,
            "planes": planes,
            "stride": stride,
        }

    def add_binned(self, planes: DeviceArray, time: int, rows: int, stream: Stream) -> None:
        """Count the step that leads to a time point in the tables that grow.

        `planes` are those of `arguments`, of a launch that has ended on the stream.
        """
        for table in self._sparse:
            table.count_binned(planes, time, rows, stream)
        self._counted = stream.record()

    def counted(self) -> bool:
        """Return whether `make_room` would not wait."""
        return self._counted is None or self._counted.done()

    @property
    def grows(self) -> bool:
        """Return whether `make_room` must be called after each time point."""
        return bool(self._sparse)

    def make_room(self, stream: Stream) -> None:
        """Let tables grow that the next step might fill; waits for the last step's counts.

        Raises
        ------
        ConfigError
            The device has no memory for a larger table.
        """
        if self._counted is None:
            return
        self._counted.wait()
        self._counted = None
        for table in self._sparse:
            table.make_room(self._rows, stream)

    def cells(self, stream: Stream) -> tuple[UintArray, UintArray]:
        """Counts of bins after the stream's work, ``[time, cell]`` and ``[cell]`` of parameters.

        For each quantity its bins, then how many values lay below, above, and were not finite.
        """
        result = [_on_host(self._backend, buffer, stream) for buffer in self._cells]
        return result[0], result[1][0]

    def tables(self, stream: Stream) -> list[Entries]:
        """Entries that occur, a table per family, after the stream's work."""
        result = {table.name: table.result(stream) for table in self._sparse}
        result |= self._dense.results(stream)
        return [result[family.name] for family in self._families]

    def _bin(
        self, values: DeviceArray, edges: _Edges, planes: DeviceArray, cells: DeviceArray,
        rows: int, stream: Stream,
    ) -> None:  # fmt: skip
        entry = "bin_double" if values.dtype == np.float64 else "bin_single"
        items = edges.quantities * -(-rows // _MANY)
        arguments = self._program.arguments(
            entry, values=values, rows=rows, quantities=edges.quantities,
            intervals=edges.intervals(cells), shares=self._shares, bins=planes, stride=self._rows,
        )  # fmt: skip
        self._program.launch(entry, items, arguments, stream)


class _Edges:
    """Edges of some quantities on the device."""

    def __init__(self, backend: Backend, edges: Sequence[FloatArray]) -> None:
        self.quantities = len(edges)
        lengths = [0, *(len(own) for own in edges)]
        self.first = backend.upload(np.cumsum(lengths).astype(np.int64))
        self.edges = backend.upload(np.concatenate([*edges, np.zeros(1)]))

    def intervals(self, cells: DeviceArray) -> dict[str, Any]:
        """`Intervals` of csrc/dbn/tables.h, with the cells that count their bins."""
        return {"edges": self.edges, "first": self.first, "cells": cells}


@dataclass(frozen=True)
class _Where:
    """Places of bins, and shares of trajectories."""

    rows: int
    variables: int
    bins: Sequence[int]
    shares: dict[str, int]  # `Shares` of csrc/dbn/count.cc

    def digits(self, family: NodeFamily) -> list[tuple[int, int, int]]:
        """Plane of each digit at even times, the step to that of odd ones, and its bins."""
        variables, result = self.variables, []
        for parent in family.parents:
            # Before an odd time lies an even one; parameters lie behind both.
            turns = (variables, -variables) if parent < variables else (variables, 0)
            result.append((parent + turns[0], turns[1], self.bins[parent]))
        return [*result, (family.node, variables, self.bins[family.node])]

    def digits_of_all_times(self, family: NodeFamily) -> list[tuple[int, int, int]]:
        """Digits in planes of the parameters, and behind them of the variables of all times."""
        variables, parameters, result = self.variables, len(self.bins) - self.variables, []
        for parent in family.parents:
            place = (parameters - variables, variables) if parent < variables else (-variables, 0)
            result.append((parent + place[0], place[1], self.bins[parent]))
        return [*result, (parameters + family.node, variables, self.bins[family.node])]


class _Dense:
    """Tables with a cell for every entry, side by side."""

    def __init__(
        self, backend: Backend, program: Program, families: Sequence[NodeFamily],
        entries: Sequence[int], times: int, where: _Where,
    ) -> None:  # fmt: skip
        self._backend, self._program, self._where = backend, program, where
        self._names = [family.name for family in families]
        digits = [where.digits(family) for family in families]
        self._first_digit = backend.upload(_starts([len(own) for own in digits]))
        flat = [number for own in digits for digit in own for number in digit]
        self._digits = backend.upload(np.array(flat or [0], np.int64))
        self._first = _starts(entries)
        self._first_cell = backend.upload(self._first)
        self._counts: Any = None
        if families:
            shape = (times - 1, int(self._first[-1]))
            largest = int(np.argmax(entries))
            what = (
                f"counting {len(families)} tables of {float(math.prod(shape)):.3g} entries, the "
                f"largest that of {self._names[largest]} with "
                f"{float((times - 1) * entries[largest]):.3g},"
            )
            _require_memory(backend, 8 * math.prod(shape), what)
            self._counts = backend.empty(shape, np.uint64)

    def clear(self, stream: Stream) -> None:
        if self._counts is not None:
            self._backend.clear(self._counts, stream)

    def count(self, planes: DeviceArray, time: int, rows: int, stream: Stream) -> None:
        if self._counts is None:
            return
        arguments = self._program.arguments(
            "count_dense", **self.arguments(), bins=planes, stride=self._where.rows, rows=rows,
            turn=time % 2, shares=self._where.shares, counts=self._counts[time - 1],
        )  # fmt: skip
        items = len(self._names) * -(-rows // _MANY)
        self._program.launch("count_dense", items, arguments, stream)

    @property
    def counts(self) -> Any:
        """Cells ``[step, entry]`` of all tables; None where there is none."""
        return self._counts

    def arguments(self) -> dict[str, Any]:
        """Number of tables, their digits, and where digits and cells begin."""
        return {
            "n_tables": len(self._names),
            "digits": self._digits,
            "first_digit": self._first_digit,
            "first_cell": self._first_cell,
        }

    def results(self, stream: Stream) -> dict[str, Entries]:
        if self._counts is None:
            return {}
        counts = _on_host(self._backend, self._counts, stream)
        result = {}
        for index, name in enumerate(self._names):
            # C order of [step, entry] is the order of keys.
            own = counts[:, self._first[index] : self._first[index + 1]].ravel()
            where = np.flatnonzero(own)
            step, entry = np.divmod(where, own.size // len(counts))
            result[name] = Entries(step.astype(np.uint64), entry.astype(np.uint64), own[where])
        return result


class _Sparse:
    """A hash table of the entries of one node that occur."""

    def __init__(
        self, backend: Backend, program: Program, family: NodeFamily, keys: Keys, times: int,
        where: _Where,
    ) -> None:  # fmt: skip
        self.name = family.name
        self._backend, self._program, self._where = backend, program, where
        self._split = keys.split
        self._most = keys.entries * (times - 1)
        self._n_digits = len(keys.sizes)
        self._digits = [
            backend.upload(np.array(digits, np.int64).ravel())
            for digits in (where.digits(family), where.digits_of_all_times(family))
        ]
        self._used = backend.empty((1,), np.uint64)
        self._mirror = backend.mirror(self._used)
        self._take(_capacity_for(min(where.rows, self._most)))

    def _take(self, capacity: int) -> None:
        what = f"the table of {self.name}, of {float(self._most):.3g} entries,"
        _require_memory(self._backend, 24 * capacity, what)
        self._capacity = capacity
        self._slots = [self._backend.empty((capacity,), np.uint64) for _ in range(3)]

    def _table(self) -> dict[str, Any]:
        """`TableMemory` of csrc/dbn/count.cc."""
        high, low, counts = self._slots
        return {"high": high, "low": low, "counts": counts, "capacity": self._capacity}

    def clear(self, stream: Stream) -> None:
        for buffer in (*self._slots, self._used):
            self._backend.clear(buffer, stream)

    def count(self, planes: DeviceArray, time: int, rows: int, stream: Stream) -> None:
        turn, digits = time % 2, self._digits[0]
        bins = {"bins": planes, "stride": self._where.rows, "turn": turn, "digits": digits}
        self._count(bins, time - 1, rows, stream)

    def count_binned(self, planes: DeviceArray, time: int, rows: int, stream: Stream) -> None:
        """From the planes of all times."""
        stride, digits = int(planes.shape[1]), self._digits[1]
        bins = {"bins": planes, "stride": stride, "turn": time, "digits": digits}
        self._count(bins, time - 1, rows, stream)

    def _count(self, bins: dict[str, Any], step: int, rows: int, stream: Stream) -> None:
        arguments = self._program.arguments(
            "count_sparse", **bins, rows=rows, step=step, split=self._split,
            n_digits=self._n_digits, shares=self._where.shares, slots=self._table(),
            used=self._used,
        )  # fmt: skip
        self._program.launch("count_sparse", -(-rows // _MANY), arguments, stream)
        self._backend.download(self._used, self._mirror, 1, stream)

    def make_room(self, rows: int, stream: Stream) -> None:
        """Make room for `rows` more entries; the stream must be done with the table."""
        needed = _capacity_for(min(int(self._mirror[0]) + rows, self._most))
        if needed <= self._capacity:
            return
        old, capacity = self._table(), self._capacity
        self._take(needed)
        self.clear(stream)
        arguments = self._program.arguments(
            "move_entries", old=old, slots=self._table(), used=self._used
        )
        self._program.launch("move_entries", capacity, arguments, stream)
        stream.record().wait()  # the old buffers may go

    def result(self, stream: Stream) -> Entries:
        high, low, counts = (_on_host(self._backend, b, stream) for b in self._slots)
        taken = np.flatnonzero(low)
        one = np.uint64(1)
        return Entries.merged([Entries(high[taken] - one, low[taken] - one, counts[taken])])


def _capacity_for(entries: int) -> int:
    """Slots, a power of two, for so many entries."""
    return 1 << max(10, math.ceil(math.log2(max(1, entries) / _LARGEST_LOAD)))


def _require_memory(backend: Backend, n_bytes: int, what: str) -> None:
    free = backend.free_memory()
    if n_bytes > free:
        raise ConfigError(
            f"{what} needs {n_bytes / 2**30:.3g} GiB, and {backend.describe()} has "
            f"{free / 2**30:.3g} GiB left: take fewer {opt('intervals')}, {opt('unknown')} or "
            f"{opt('points')}"
        )


def _starts(lengths: Sequence[int]) -> IntArray:
    return np.cumsum([0, *lengths]).astype(np.int64)


def _on_host(backend: Backend, buffer: DeviceArray, stream: Stream) -> Array:
    """A copy of a buffer, made in stream order."""
    mirror = backend.mirror(buffer)
    backend.download(buffer, mirror, len(mirror), stream)
    stream.record().wait()
    return mirror.copy()
