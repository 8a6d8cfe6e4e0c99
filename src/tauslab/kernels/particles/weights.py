"""Weights of particles in rows, one row a filter: kernels of csrc/particles.

They have the bits of `tauslab.analysis.particles.weights`; the host gets a few numbers a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.kernels.backends.arguments import Arguments
from tauslab.kernels.backends.base import Backend, KernelSource, Stream

KINDS = ("normal", "lognormal", "poisson", "negative_binomial", "binomial", "student_t", "given")
OBSERVED = np.dtype([
    ("kind", np.int32), ("column", np.int32), ("y", np.float64), ("log_factorial", np.float64),
    ("first", np.float64), ("second", np.float64), ("log_first", np.float64),
    ("log_more", np.float64),
])  # fmt: skip
IN_BLOCK, _CHUNK, _PIECE, _GROUP = 32, 512, 256, 64  # as csrc/particles has them
_FEWEST = 256  # items of a thread of a CPU
_SHORT = 4096  # particles of a row that a thread of a GPU adds in order
_GUESSES = (
    "guess_pieces", "guess_groups", "guess_row", "guess_starts", "count_units", "join_units",
)  # fmt: skip
_SUMS = ("find_row", "find_starts", "add_pieces")
_LADDERS: dict[str, type[np.generic]] = {  # memory of rows that are cut into pieces
    f"{before}{name}": kind
    for before in ("", "group_")
    for name, kind in (("starts", np.float64), ("even", np.int64), ("odd", np.int64))
}
_OF_PLACES = (  # arguments of `find_ancestors` that kernels before it do not read, but `start`
    "start", "first", "made", "whole", "base", "seed", "purpose", "group", "stratified",
)  # fmt: skip
_BY_ROW = {"add_in_order", "guess_row", "find_row"}
_BY_PIECE = {"guess_pieces", "count_units", "add_pieces"}  # others by group of pieces
_TO_WARPS = {  # whose items are of all lanes of a warp
    "weigh_particles", "share_weights", "reduce_sums", "reduce_maxima", "moments", "find_row",
    "find_starts",
}  # fmt: skip
BLOCK = IN_BLOCK**2  # particles of a part of a row that are summed together
_Level = tuple[int, slice, slice, slice]  # as `in_levels` has it


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

    def of(self, part: slice) -> Seen:
        """The same of some of the particles."""
        own = None if self.own is None else self.own[:, part]
        return Seen(self.table, [values[part] for values in self.values], own)


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
    stream
        On which kernels run, in order with what else it has: then nobody waits for ancestors here.
    in_pieces
        Whether to cut long rows where weights are added in order; no bit depends on it. By default
        where threads of the device run in step.
    """

    def __init__(
        self, backend: Backend, rows: int, n: int, *, stream: Stream | None = None,
        in_pieces: bool | None = None,
    ) -> None:  # fmt: skip
        self._backend, self._rows, self._n = backend, rows, n
        self._alone = stream is None
        self._stream: Any = backend.stream(waited=True) if stream is None else stream
        self._arguments: dict[str, Arguments] = {}
        self._pieces = backend.style.warp > 1 and n > _SHORT if in_pieces is None else in_pieces
        entries = {
            "particles/weigh.cc": (
                "weigh_particles", "share_weights", "reduce_sums", "reduce_maxima",
                "level_weights",
            ),
            "particles/moments.cc": (
                "moments", "terms", "count_held", "add_blocks", "add_chunks", "list_held",
            ),
            "particles/ancestors.cc": (
                "add_in_order", *_GUESSES, *_SUMS, "find_ancestors",
            ),
        }  # fmt: skip
        self._programs = {
            entry: program
            for file, names in entries.items()
            for program in [backend.compile(KernelSource(file, names))]
            for entry in names
        }
        blocks = _parts(n, IN_BLOCK)
        self._logs, self._after = (backend.empty((rows * n,), np.float64) for _ in range(2))
        self._shares = backend.empty((rows * n,), np.float64)
        self._sums = backend.empty((3, rows, blocks), np.float64)
        self._largest = backend.empty((rows, blocks), np.float64)
        self._spare: dict[str, Any] = {}
        self._leveled: BoolArray | None = None  # rows for which the device has not done it
        self.begin()

    # ---------------------------------------------------------------- weights

    def begin(self) -> None:
        """Let all particles weigh the same, with logarithms of 0."""
        self.largest = np.zeros(self._rows)
        self.totals = self.squares = self.numbers = np.full(self._rows, float(self._n))
        self.level(np.ones(self._rows, bool))

    def put(self, logs: FloatArray) -> None:
        """Take logarithms ``[particle]``, of which none is NaN or infinite above."""
        self._level()
        self._logs = self._backend.upload(np.array(logs))
        self.weigh(None, None, None)

    def logs(self) -> FloatArray:
        """A copy of the logarithms ``[particle]``."""
        self._level()
        return np.array(self._host(self._logs))

    def shares(self) -> FloatArray:
        """A copy of the weights ``[particle]`` over the largest of their row."""
        self._level()
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
        self.begin_weighing(status, counts, seen)()
        return bool((self.largest < np.inf).all())

    def begin_weighing(
        self, status: Array | None, counts: Any, seen: Seen | None
    ) -> Callable[[], None]:
        """Launch `weigh`; what it returns waits for it. Unless called, the logarithms stay."""
        largest = self._weigh(status, counts, seen)
        sums = self._sums_over(largest)

        def take() -> None:
            self._take_weighed()
            self._know(sums())

        return take

    def _weigh(self, status: Array | None, counts: Any, seen: Seen | None) -> Any:
        """The largest logarithms of rows; `_take_weighed` makes the weights that come out ours."""
        up, leveled = self._up, self._leveled
        table = np.zeros(0, OBSERVED) if seen is None else seen.table
        values = None if seen is None or not seen.values else up(np.stack(seen.values))
        self._start(
            "weigh_particles", self._rows * _parts(self._n, IN_BLOCK), rows=self._rows, n=self._n,
            leveled=None if leveled is None else up(leveled.astype(np.uint8)),
            status=None if status is None else up(status),
            counts=counts, **_layout(counts), values=values,
            seen=up(table.view(np.uint8)) if len(table) else None,
            own=None if seen is None or seen.own is None else up(seen.own),
            columns=len(table), logs=self._logs, after=self._after, largest=self._largest,
        )  # fmt: skip
        return self._reduced("reduce_maxima", self._largest, "maxima")

    def _take_weighed(self) -> None:
        self._logs, self._after, self._leveled = self._after, self._logs, None

    def _sums_over(self, largest: Any) -> Callable[[], list[Any]]:
        """Weights that come out over the largest: the largest and three sums of each row."""
        self._start(
            "share_weights", self._rows * _parts(self._n, IN_BLOCK), rows=self._rows, n=self._n,
            logs=self._after, largest=largest, shares=self._shares, sums=self._sums,
        )  # fmt: skip
        return self._later(largest, self._reduced("reduce_sums", self._sums, "sums"))

    def _know(self, values: list[Any]) -> None:
        most, result = values
        self.largest = most.copy()
        self.totals, self.squares, self.numbers = result.reshape(3, self._rows).copy()

    def level(self, chosen: BoolArray) -> None:
        """Let all particles of chosen rows weigh the same: moments of before may begin later."""
        self._level()
        self._leveled = chosen
        self.largest = np.where(chosen, 0.0, self.largest)
        for name in ("totals", "squares", "numbers"):
            setattr(self, name, np.where(chosen, float(self._n), getattr(self, name)))

    def _level(self) -> None:
        """Do on the device what `level` was asked for."""
        chosen, self._leveled = self._leveled, None
        if chosen is not None:
            self._start(
                "level_weights", self._rows * self._n, rows=self._rows, n=self._n,
                chosen=self._up(chosen.astype(np.uint8)), logs=self._logs, shares=self._shares,
            )  # fmt: skip

    # ---------------------------------------------------------------- copies

    def ancestors(
        self, chosen: BoolArray, numbers: IntArray, *, seed: int, purpose: int, group: int,
        stratified: bool, base: int = 0, ahead: bool = False,
    ) -> Any:  # fmt: skip
        """Ancestors int64 ``[particle]`` on the device, of all rows; those not chosen stay.

        Parameters
        ----------
        chosen, numbers
            ``[row]``: rows that have weight, and how many resamplings each had.
        seed, purpose, group
            Of `tauslab.analysis.particles.weights.uniform`; the first row has this group.
        base
            The number of the first particle.
        ahead
            By the weights that come out of the last `begin_weighing`, before they are taken.
        """
        if not ahead:
            self._level()
        self._begin_ladder(chosen)
        self._guess(0.0)
        self._add(0.0)
        return self._find(
            slice(0, self._n), numbers, seed=seed, purpose=purpose, group=group,
            stratified=int(stratified), base=base, whole=self._n,
        )  # fmt: skip

    def _begin_ladder(self, chosen: BoolArray) -> None:
        """Arguments of all kernels that add weights in order."""
        rows, n = self._rows, self._n
        kept: dict[str, Any] = dict.fromkeys((*_LADDERS, "numbers", "ancestors"))
        if self._pieces:
            pieces = _parts(n, _PIECE)
            for name, kind in _LADDERS.items():
                size = _parts(pieces, _GROUP) if name.startswith("group_") else pieces
                kept[name] = self._kept(name, (rows, size), kind)
        self._set(
            "find_ancestors", rows=rows, n=n, chosen=self._up(chosen.astype(np.uint8)),
            shares=self._shares, ladder=self._kept("ladder", (rows * n,), np.float64),
            ends=self._kept("ends", (rows,), np.float64), **kept, **dict.fromkeys(_OF_PLACES, 0),
        )  # fmt: skip

    def _guess(self, start: float) -> None:
        """Sums of pieces of rows, where the sum before the first is about `start`."""
        for entry in _GUESSES if self._pieces else ():
            self._climb(entry, start)

    def _add(self, start: float) -> None:
        """Sums in order, of which `start` is the one before the first."""
        for entry in _SUMS if self._pieces else ("add_in_order",):
            self._climb(entry, start)

    def _climb(self, entry: str, start: float) -> None:
        pieces = _parts(self._n, _PIECE)
        each = 1 if entry in _BY_ROW else pieces if entry in _BY_PIECE else _parts(pieces, _GROUP)
        self._set("find_ancestors", start=start)
        self._launch(entry, self._rows * each, "find_ancestors")

    def _find(self, made: slice, numbers: IntArray, **given: Any) -> Any:
        """Ancestors of particles of each row, in order."""
        size = made.stop - made.start
        result = self._backend.empty((self._rows * size,), np.int64)
        numbers = self._up(np.ascontiguousarray(numbers, np.int64))
        self._set(
            "find_ancestors", first=made.start, made=size, ancestors=result, numbers=numbers,
            **given,
        )  # fmt: skip
        if size:
            together = 16 if self._backend.style.warp > 1 else 64  # as csrc/particles has it
            self._launch("find_ancestors", self._rows * _parts(size, together), "find_ancestors")
        if self._alone:
            self._stream.record().wait()
        return result

    # ---------------------------------------------------------------- moments

    def moments(self, counts: Any) -> Callable[[], Callable[[], tuple[FloatArray, FloatArray]]]:
        """Weighted means and variances ``[species, row]`` of ``counts [particle, species]``.

        The returned function launches the kernels; call it after the next `level` at the latest.
        It returns a function that waits for the results.
        """
        self._level()
        species, given = int(counts.shape[1]), self._weighted(counts)

        def begin() -> Callable[[], tuple[FloatArray, FloatArray]]:
            arguments = given()
            means = self._summed(arguments, "moments")
            variances = self._summed(arguments, "variances", means=means)
            reported = self._later(means, variances, used=[arguments])

            def moments() -> tuple[FloatArray, FloatArray]:
                means, variances = (each.reshape(species, self._rows).copy() for each in reported())
                return means, variances

            return moments

        none = np.zeros((0, self._rows))
        return begin if species else lambda: lambda: (none, none)

    def quantiles(self, counts: Any, probabilities: Sequence[float]) -> FloatArray:
        """Quantiles ``[probability, species, row]`` of ``counts [particle, species]``.

        As `bisected` defines them.
        """
        self._level()
        shape = int(counts.shape[1]), self._rows
        arguments = self._weighted(counts)() if shape[0] else {}

        def reached(limits: FloatArray) -> FloatArray:
            sums = self._summed(arguments, "quantiles", means=self._up(limits), below=1)
            return np.asarray(self._host(sums)).reshape(shape)

        return bisected(reached, shape, probabilities, real=counts.dtype == np.float64)

    def _weighted(self, counts: Any) -> Callable[[], dict[str, Any]]:
        """What gives arguments of `moments` by the weights as they are now."""
        totals, numbers = np.where(self.totals > 0, self.totals, 1.0), self.numbers
        return lambda: {
            "rows": self._rows, "n": self._n, "first": 0, "size": int(counts.shape[1]),
            "counts": counts, **_layout(counts), "shares": self._shares, "totals": self._up(totals),
            "held": None if (numbers == self._n).all() else self._held(),
            "numbers": self._up(numbers),
        }  # fmt: skip

    def _summed(
        self, given: Mapping[str, Any], name: str, *, means: Any = None, below: int = 0
    ) -> Any:
        """Launch sums ``[species, row]`` of `moments` into memory of this name.

        A CPU does not copy them: those of moments are read after quantiles of the next row.
        """
        blocks = _parts(self._n, IN_BLOCK)
        sums = self._kept(name, (given["size"], self._rows, blocks), np.float64)
        items = given["size"] * self._rows * blocks
        self._start("moments", items, means=means, below=below, sums=sums, **given)
        return self._reduced("reduce_sums", sums, f"sums of {name}")

    def _held(self) -> Any:
        """Particles of each row that have weight, in order, int64 ``[particle]``."""
        blocks = _parts(self._n, IN_BLOCK)
        given = {
            "rows": self._rows, "n": self._n, "shares": self._shares,
            "before": self._kept("before", (self._rows, blocks), np.int64),
            "chunks": self._kept("chunks", (self._rows, _parts(blocks, _CHUNK)), np.int64),
            "held": self._kept("held", (self._rows * self._n,), np.int64),
        }  # fmt: skip
        self._start("count_held", self._rows * blocks, **given)
        self._start("add_blocks", self._rows * _parts(blocks, _CHUNK), **given)
        self._start("add_chunks", self._rows, **given)
        self._start("list_held", self._rows * blocks, **given)
        return given["held"]

    # ---------------------------------------------------------------- inside

    def _start(self, entry: str, items: int, **values: Any) -> None:
        self._set(entry, **values)
        self._launch(entry, items, entry)

    def _set(self, entry: str, **values: Any) -> None:
        if entry in self._arguments:
            self._arguments[entry].set(**values)
        else:
            self._arguments[entry] = self._programs[entry].arguments(entry, **values)

    def _launch(self, entry: str, items: int, arguments: str) -> None:
        """Run a kernel with the arguments of another one that takes the same struct."""
        if entry in _TO_WARPS:
            items *= self._backend.style.warp
        if self._backend.style.warp == 1:  # a thread takes as long to start as some numbers
            items = 1 + items // _FEWEST
        self._programs[entry].launch(entry, items, self._arguments[arguments], self._stream)

    def _reduced(self, entry: str, source: Any, name: str) -> Any:
        """Sums or maxima of the last axis, by launches in turn; memory of this name has them."""
        while source.shape[-1] > 1:
            source = self._reduced_once(entry, source, name, IN_BLOCK)
        return source

    def _reduced_once(self, entry: str, source: Any, name: str, each: int = 1) -> Any:
        """Sums or maxima ``[rows, part]`` of the last axis, of `each` blocks together.

        They are in memory that is kept by `name`, if it has one.
        """
        rows, length = int(np.prod(source.shape[:-1])), int(source.shape[-1])
        shape = rows, _parts(length, IN_BLOCK * each)
        target = (
            self._kept(f"{name} {shape}", shape, np.float64)
            if name
            else self._backend.empty(shape, np.float64)
        )
        self._start(
            entry, rows * shape[1], rows=rows, n=length, each=each,
            stride=int(source.strides[-2]) // source.itemsize, **{"from": source, "to": target},
        )  # fmt: skip
        return target

    def _kept(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Device memory that is made once."""
        if name not in self._spare:
            self._spare[name] = self._backend.empty(shape, dtype)
        return self._spare[name]

    def _up(self, array: Array) -> Any:
        """A few numbers on the device, in stream order."""
        return self._backend.upload(array, self._stream)

    def _later(self, *buffers: Any, used: Sequence[Any] = ()) -> Callable[[], list[Any]]:
        """Start copies of buffers to the host; the returned function waits for the flat arrays.

        Until then the buffers and those that earlier launches have `used` are kept, because work
        on other streams could write to freed memory.
        """
        mirrors = [self._backend.mirror(buffer) for buffer in buffers]
        for buffer, mirror in zip(buffers, mirrors, strict=True):
            self._backend.download(buffer, mirror, buffer.shape[0], self._stream)
        event = self._stream.record()
        kept = [*buffers, *used]

        def wait() -> list[Any]:
            event.wait()
            kept.clear()
            return [np.asarray(mirror).reshape(-1) for mirror in mirrors]

        return wait

    def _host(self, buffer: Any) -> Any:
        return self._later(buffer)()[0]


class PartWeights(DeviceWeights):
    """Weights of the part `start` to `stop` of one row, of which other devices have the rest.

    A device returns its sums in pieces: for each level of `in_levels`, the entries before and after
    the whole blocks. Values of the whole row, such as the largest weight, are passed to it.
    """

    def __init__(
        self, backend: Backend, start: int, stop: int, whole: int, stream: Stream | None = None
    ) -> None:
        self._levels, self._whole = list(in_levels(start, stop)), whole
        super().__init__(backend, 1, stop - start, stream=stream)

    def multiply(self, status: Array | None, counts: Any, seen: Seen | None) -> float:
        """Do as `weigh`, and return the largest logarithm; infinity where one is no number."""
        return float(self._host(self._weigh(status, counts, seen))[0])

    def replace(self, logs: FloatArray) -> float:
        """Take logarithms ``[particle]``, and return the largest."""
        self._level()
        self._logs = self._backend.upload(np.array(logs))
        return self.multiply(None, None, None)

    def share(self, largest: float) -> Callable[[], FloatArray]:
        """Divide weights that come out by the largest of the row, whose logarithm is given.

        Returns
        -------
        What makes them ours, and waits for pieces ``[piece, 3]`` of sums of weights, of their
        squares, and how many are above 0.
        """
        given = {"rows": 1, "largest": self._up(np.array([largest]))}
        (_, *ranges), *levels = self._levels
        numbers, blocks = [], list[Any]()
        for own in filter(_size, ranges):
            shares, parts = self._shares[own], _parts(_size(own), IN_BLOCK)
            sums = self._sums.reshape(-1)[: 3 * parts].reshape(3, parts)
            self._start(
                "share_weights", parts, n=_size(own), logs=self._after[own], shares=shares,
                sums=sums, **given,
            )  # fmt: skip
            if own is ranges[1]:
                blocks = self._in_levels(sums, levels, "sums")
            else:
                numbers.append(shares)
        reported = self._later(*numbers, *blocks)

        def take() -> FloatArray:
            self._take_weighed()
            tables = reported()
            for i, x in enumerate(tables[: len(numbers)]):
                tables[i] = np.stack([x, x * x, x > 0])
            return _pieces_of(tables, levels, 3)

        return take

    def settle(self) -> None:
        """Do what `level` was asked for; `held` and `moment_sums` may be read later."""
        self._level()

    def held(self, number: int) -> Any:
        """Particles of this part that have weight, in order: so many. As of `settle`."""
        return self._held()[:number]

    def moment_sums(
        self, counts: Any, total: float, means: FloatArray | None, held: Any, first: int,
        *, below: int = 0,
    ) -> Callable[[], FloatArray]:  # fmt: skip
        """Start pieces of sums of weighted counts, or of squares around `means`. As of `settle`.

        Parameters
        ----------
        counts
            ``[particle, species]`` on the device.
        total
            The sum of the weights of the row.
        means
            ``[species]``.
        below
            1: sums of weights of particles whose counts are at most `means`.
        held, first
            What `held` returned, and the place of its first among those of the row; None where
            all of the row have weight.

        Returns
        -------
        What waits for them ``[piece, species]``.
        """
        species, up = int(counts.shape[1]), self._up
        given = {
            "rows": 1, "first": 0, "size": species, **_layout(counts),
            "totals": up(np.array([total])), "means": None if means is None else up(means),
            "below": below,
        }  # fmt: skip
        (_, *ranges), *levels = in_levels(first, first + (self._n if held is None else len(held)))
        numbers, blocks = [], list[Any]()
        used: list[Any] = [given, counts, held]
        for own in filter(_size, ranges):
            whole, local = own is ranges[1], own if held is None else slice(None)
            each = _parts(_size(own), IN_BLOCK) if whole else _size(own)
            number = up(np.array([1.0 * _size(own)]))
            sums = self._backend.empty((species, each), np.float64)
            self._start(
                "moments" if whole else "terms", species * each, n=_size(own),
                counts=counts[local], shares=self._shares[local],
                held=None if held is None else held[own], numbers=number, sums=sums, **given,
            )  # fmt: skip
            used += [number, sums]
            if whole:
                blocks = self._in_levels(sums, levels)
            else:
                numbers.append(sums)
        reported = self._later(*numbers, *blocks, used=used)
        return lambda: _pieces_of(reported(), levels, species)

    def _in_levels(self, sums: Any, levels: Sequence[_Level], name: str = "") -> list[Any]:
        """Sums ``[quantity, block]`` of all levels, of those of 32 numbers."""
        whole, result = slice(None), []
        for level in levels:
            sums = self._reduced_once("reduce_sums", sums[:, whole], name)
            result.append(sums)
            whole = level[2]
        return result

    def guess(self, start: float) -> None:
        """Prepare `climb`, where the sum of the weights before these is about `start`."""
        self._level()
        self._begin_ladder(np.ones(1, bool))
        self._guess(start)

    def climb(self, start: float) -> Callable[[], float]:
        """Add weights in order to `start`, the sum of those before.

        Returns
        -------
        A function that waits for the sum and returns it. The device then computes the cumulative
        sum of each particle.
        """
        entries = _SUMS if self._pieces else ("add_in_order",)
        self._climb(entries[0], start)
        reported = self._later(self._spare["ends"])
        for entry in entries[1:]:
            self._climb(entry, start)
        return lambda: float(reported()[0][0])

    def copied(self, made: slice, total: float, number: int, **given: Any) -> Any:
        """Ancestors int64 ``[particle]`` on the device of particles which find their place here.

        `total` is the sum of all weights; what else is given as of `ancestors`.
        """
        return self._find(
            made, np.array([number]), ends=self._up(np.array([total])), whole=self._whole, **given
        )


def bisected(
    reached: Callable[[FloatArray], FloatArray], shape: tuple[int, ...],
    probabilities: Sequence[float], *, real: bool,
) -> FloatArray:  # fmt: skip
    """The least values ``[probability, *shape]`` that are reached with at least a probability.

    `reached` gives the distribution function ``[*shape]`` at values ``[*shape]``. Values are whole
    numbers of 32 bits, or doubles if `real`, whose bits count them in order.
    """
    last = int(np.array(np.inf).view(np.int64)) if real else 2**31 - 1
    result = np.empty((len(probabilities), *shape))
    for probability, values in zip(probabilities, result, strict=True):
        low, high = np.full(shape, -last - 2), np.full(shape, last)  # one is not reached, one is
        for _ in range((2 * last + 2).bit_length() if values.size else 0):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            enough = reached(_value_at(middle, real=real)) >= probability
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        values[:] = _value_at(high, real=real)
    return result


def _value_at(place: IntArray, *, real: bool) -> FloatArray:
    """Whole numbers, or doubles at places in the order of all doubles, of which 0 is that of 0."""
    if not real:
        return place.astype(np.float64)
    return np.where(place < 0, np.iinfo(np.int64).min - place, place).view(np.float64)


def in_levels(start: int, stop: int) -> Iterator[_Level]:
    """Levels of the tree that adds a part of a row: numbers, blocks, blocks of blocks, ...

    A block has `BLOCK` numbers, or 32 blocks of the level below. For each level: the position of
    the part's first entry in the row, and, counted from it, the entries before the first whole
    block of the next level, the entries in whole blocks (none at the last level), and the rest.
    """
    each, whole = BLOCK, slice(0, 1)
    while whole.start < whole.stop:
        size = stop - start
        head = min(-start % each, size)
        whole = slice(head, head + (size - head) // each * each)
        yield start, slice(0, head), whole, slice(whole.stop, size)
        start, stop, each = -(-start // each), stop // each, IN_BLOCK


def _pieces_of(tables: Sequence[Array], levels: Sequence[_Level], quantities: int) -> FloatArray:
    """Pieces ``[piece, quantity]`` of numbers, and of sums of all further levels of a part."""
    columns = [table.reshape(quantities, -1) for table in tables]
    pieces = columns[: len(columns) - len(levels)]
    for (_, before, _, behind), sums in zip(levels, columns[len(pieces) :], strict=True):
        pieces += [sums[:, before], sums[:, behind]]
    return np.concatenate(pieces, axis=1).T


def _size(part: slice) -> int:
    return int(part.stop - part.start)


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
