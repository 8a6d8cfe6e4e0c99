"""Weights of particles in rows, one row a filter: kernels of csrc/particles.

They have the bits of `tauslab.analysis.particles.weights`; the host gets a few numbers a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.kernels.backends.arguments import Arguments
from tauslab.kernels.backends.base import Backend, KernelSource

KINDS = ("normal", "lognormal", "poisson", "negative_binomial", "binomial", "student_t", "given")
OBSERVED = np.dtype([
    ("kind", np.int32), ("column", np.int32), ("y", np.float64), ("log_factorial", np.float64),
    ("first", np.float64), ("second", np.float64), ("log_first", np.float64),
    ("log_more", np.float64),
])  # fmt: skip
_IN_BLOCK, _PIECE, _TOGETHER = 32, 256, 64  # as csrc/particles has them
_FEWEST = 256  # items of a thread of a CPU
_SHORT = 4096  # particles of a row that a thread of a GPU adds in order
_PIECES = ("guess_pieces", "guess_starts", "count_units", "find_starts", "add_pieces")


@dataclass(frozen=True)
class Seen:
    """The observations of a row of data.

    Attributes
    ----------
    table
        `OBSERVED` ``[column]``; ``column`` of one is that of counts, or -1 - k for `values` k.
    values
        Each f64 ``[particle]`` on the host: quantities that no column of counts has.
    own
        f64 ``[2 * column, particle]`` on the host: parameters of each particle; None where each is
        one number.
    """

    table: Array
    values: Sequence[FloatArray] = ()
    own: FloatArray | None = None


class DeviceWeights:
    """Logarithms of weights of `rows` rows of n particles, and what follows from them.

    Attributes
    ----------
    largest
        f64 ``[row]``: the largest logarithm.
    totals, squares, numbers
        f64 ``[row]``: sums of weights over the largest, of their squares, and how many are above 0.

    Parameters
    ----------
    in_pieces
        Whether to cut long rows where weights are added in order; no bit depends on it. By default
        where threads of the device run in step.
    """

    def __init__(
        self, backend: Backend, rows: int, n: int, *, in_pieces: bool | None = None
    ) -> None:
        self._backend, self._rows, self._n = backend, rows, n
        self._stream = backend.stream(waited=True)
        self._arguments: dict[str, Arguments] = {}
        self._pieces = backend.style.warp > 1 and n > _SHORT if in_pieces is None else in_pieces
        entries = {
            "particles/weigh.cc": (
                "weigh_particles", "share_weights", "reduce_sums", "reduce_maxima",
                "level_weights",
            ),
            "particles/moments.cc": ("moments", "count_held", "add_held", "list_held"),
            "particles/ancestors.cc": ("add_in_order", *_PIECES, "find_ancestors"),
        }  # fmt: skip
        self._programs = {
            entry: program
            for file, names in entries.items()
            for program in [backend.compile(KernelSource(file, names))]
            for entry in names
        }
        blocks = _parts(n, _IN_BLOCK)
        self._logs = backend.empty((rows * n,), np.float64)
        self._shares = backend.empty((rows * n,), np.float64)
        self._sums = backend.empty((3, rows, blocks), np.float64)
        self._largest = backend.empty((rows, blocks), np.float64)
        self._spare: dict[str, Any] = {}
        self.begin()

    # ---------------------------------------------------------------- weights

    def begin(self) -> None:
        """Let all particles weigh the same, with logarithms of 0."""
        self.largest = np.zeros(self._rows)
        self.totals = self.squares = self.numbers = np.full(self._rows, float(self._n))
        self.level(np.ones(self._rows, bool))

    def put(self, logs: FloatArray) -> None:
        """Take logarithms ``[particle]``, of which none is NaN or infinite above."""
        self._logs = self._backend.upload(np.array(logs))
        self._sum(self._weigh(None, None, None))

    def logs(self) -> FloatArray:
        """A copy of the logarithms ``[particle]``."""
        return np.array(self._host(self._logs))

    def shares(self) -> FloatArray:
        """A copy of the weights ``[particle]`` over the largest of their row."""
        return np.array(self._host(self._shares))

    def weigh(self, status: Array | None, counts: Any, seen: Seen | None) -> bool:
        """Multiply weights by densities; those of particles that ended become 0.

        Parameters
        ----------
        status
            u8 ``[particle]``: 2 and above have ended; None where none has.
        counts
            ``[particle, species]`` on the device, i32 or f64.

        Returns
        -------
        Whether all weights are finite numbers; where they are not, sums have no meaning.
        """
        largest = self._weigh(status, counts, seen)
        self._sum(largest)
        return bool((self.largest < np.inf).all())

    def _weigh(self, status: Array | None, counts: Any, seen: Seen | None) -> Any:
        up = self._backend.upload
        table = np.zeros(0, OBSERVED) if seen is None else seen.table
        values = None if seen is None or not seen.values else up(np.stack(seen.values))
        self._start(
            "weigh_particles", self._rows * _parts(self._n, _IN_BLOCK), rows=self._rows, n=self._n,
            status=None if status is None else up(status),
            counts=counts, **_layout(counts), values=values,
            seen=up(table.view(np.uint8)) if len(table) else None,
            own=None if seen is None or seen.own is None else up(seen.own),
            columns=len(table), logs=self._logs, largest=self._largest,
        )  # fmt: skip
        return self._reduced("reduce_maxima", self._largest)

    def _sum(self, largest: Any) -> None:
        """Weights over the largest, and their sums: three numbers a row for the host."""
        self._start(
            "share_weights", self._rows * _parts(self._n, _IN_BLOCK), rows=self._rows, n=self._n,
            logs=self._logs, largest=largest, shares=self._shares, sums=self._sums,
        )  # fmt: skip
        sums = self._reduced("reduce_sums", self._sums)
        self.largest = self._host(largest).copy()
        self.totals, self.squares, self.numbers = self._host(sums).reshape(3, self._rows).copy()

    def level(self, chosen: BoolArray) -> None:
        """Let all particles of chosen rows weigh the same."""
        self._start(
            "level_weights", self._rows * self._n, rows=self._rows, n=self._n,
            chosen=self._backend.upload(chosen.astype(np.uint8)), logs=self._logs,
            shares=self._shares,
        )  # fmt: skip
        self.largest = np.where(chosen, 0.0, self.largest)
        for name in ("totals", "squares", "numbers"):
            setattr(self, name, np.where(chosen, float(self._n), getattr(self, name)))

    # ---------------------------------------------------------------- copies

    def ancestors(
        self, chosen: BoolArray, numbers: IntArray, *, seed: int, purpose: int, group: int,
        stratified: bool,
    ) -> Any:  # fmt: skip
        """Ancestors int64 ``[particle]`` on the device, of all rows; those not chosen stay.

        Parameters
        ----------
        chosen, numbers
            ``[row]``: rows that have weight, and how many resamplings each had.
        seed, purpose, group
            Of `tauslab.analysis.particles.weights.uniform`; the first row has this group.
        """
        backend, rows, n = self._backend, self._rows, self._n
        pieces = _parts(n, _PIECE) if self._pieces else 0
        ladder = self._kept("ladder", (rows * n,), np.float64)
        given = {
            "rows": rows, "n": n, "chosen": backend.upload(chosen.astype(np.uint8)),
            "shares": self._shares, "ladder": ladder,
            "starts": self._kept("starts", (rows, pieces), np.float64) if pieces else None,
            "even": self._kept("even", (rows, pieces), np.int64) if pieces else None,
            "odd": self._kept("odd", (rows, pieces), np.int64) if pieces else None,
            "seed": seed, "purpose": purpose, "group": group, "stratified": int(stratified),
            "numbers": backend.upload(np.ascontiguousarray(numbers, np.int64)),
            "ancestors": self._kept("ancestors", (rows * n,), np.int64),
        }  # fmt: skip
        for entry in _PIECES if pieces else ("add_in_order",):
            by_row = entry in {"add_in_order", "guess_starts", "find_starts"}
            items = rows if by_row else rows * pieces
            self._start(entry, items, **given)
        self._start("find_ancestors", rows * _parts(n, _TOGETHER), **given)
        self._stream.record().wait()
        return given["ancestors"]

    # ---------------------------------------------------------------- moments

    def moments(self, counts: Any) -> tuple[FloatArray, FloatArray]:
        """Weighted means and variances ``[species, row]`` of ``counts [particle, species]``."""
        species, up = int(counts.shape[1]), self._backend.upload
        if not species:
            return np.zeros((0, self._rows)), np.zeros((0, self._rows))
        full = bool((self.numbers == self._n).all())
        given = {
            "rows": self._rows, "n": self._n, "first": 0, "size": species, "counts": counts,
            **_layout(counts), "shares": self._shares,
            "totals": up(np.where(self.totals > 0, self.totals, 1.0)),
            "held": None if full else self._held(), "numbers": up(self.numbers),
            "sums": self._kept(
                "moments", (species, self._rows, _parts(self._n, _IN_BLOCK)), np.float64
            ),
        }  # fmt: skip
        found = []
        means = None
        for _ in range(2):
            items = species * self._rows * _parts(self._n, _IN_BLOCK)
            self._start("moments", items, means=means, **given)
            means = self._reduced("reduce_sums", given["sums"])
            found.append(self._host(means).reshape(species, self._rows).copy())
        return found[0], found[1]

    def _held(self) -> Any:
        """Particles of each row that have weight, in order, int64 ``[particle]``."""
        blocks = _parts(self._n, _IN_BLOCK)
        given = {
            "rows": self._rows, "n": self._n, "shares": self._shares,
            "before": self._kept("before", (self._rows, blocks), np.int64),
            "held": self._kept("held", (self._rows * self._n,), np.int64),
        }  # fmt: skip
        self._start("count_held", self._rows * blocks, **given)
        self._start("add_held", self._rows, **given)
        self._start("list_held", self._rows * blocks, **given)
        return given["held"]

    # ---------------------------------------------------------------- inside

    def _start(self, entry: str, items: int, **values: Any) -> None:
        program = self._programs[entry]
        if entry in self._arguments:
            self._arguments[entry].set(**values)
        else:
            self._arguments[entry] = program.arguments(entry, **values)
        if self._backend.style.warp == 1:  # a thread takes as long to start as some numbers
            items = 1 + items // _FEWEST
        program.launch(entry, items, self._arguments[entry], self._stream)

    def _reduced(self, entry: str, source: Any) -> Any:
        """Sums or maxima of the last axis, by launches in turn."""
        length = int(source.shape[-1])
        rows = int(np.prod(source.shape[:-1]))
        while length > 1:
            parts = _parts(length, _IN_BLOCK)
            target = self._backend.empty((rows, parts), np.float64)
            self._start(entry, rows * parts, rows=rows, n=length, **{"from": source, "to": target})
            source, length = target, parts
        return source

    def _kept(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Device memory that is made once."""
        if name not in self._spare:
            self._spare[name] = self._backend.empty(shape, dtype)
        return self._spare[name]

    def _host(self, buffer: Any) -> Any:
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, buffer.shape[0], self._stream)
        self._stream.record().wait()
        return np.asarray(mirror).reshape(-1)


def _parts(n: int, size: int) -> int:
    return -(-n // size)


def _layout(counts: Any) -> dict[str, int]:
    """Numbers between rows of counts, and whether they are doubles."""
    if counts is None:
        return {"stride": 0, "real": 0}
    return {
        "stride": int(counts.strides[0]) // counts.dtype.itemsize,
        "real": int(counts.dtype == np.float64),
    }
