"""Weights of a row of particles that several ranks hold, each on its device."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.shares import Shares
from tauslab.analysis.particles.sums import size_in_pieces, sums_of_parts
from tauslab.base.arrays import Array, BoolArray, FloatArray
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.particles.weights import PartWeights, Seen, bisected


class CutWeights:
    """Logarithms of weights of one row, and what follows from them. All methods are collective.

    Arrays ``[own]`` are of this rank's part of the row, which may be empty. Few numbers travel:
    sums of blocks, and the sum of the weights of the ranks before.

    Parameters
    ----------
    parts
        Places in the row that each rank has.

    Attributes
    ----------
    largest, totals, squares
        f64 ``[1]``, as of `DeviceWeights`.
    """

    def __init__(
        self, backend: Backend, parts: Sequence[slice], shares: Shares,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        self._backend, self._shares, self._parts = backend, shares, parts
        self._n, own = parts[-1].stop, parts[shares.rank]
        self._own = own
        self._part = (
            PartWeights(backend, own.start, own.stop, self._n, stream) if _size(own) else None
        )
        self.begin()

    def begin(self) -> None:
        """Let all particles weigh the same."""
        self.level(np.ones(1, bool))

    def level(self, chosen: BoolArray) -> None:
        """Let all particles weigh the same, where the one row is chosen."""
        self._leveled = bool(chosen[0])
        if not self._leveled:
            return
        if self._part:
            self._part.level(chosen)
        self.largest = np.zeros(1)
        self.totals = self.squares = np.full(1, float(self._n))
        self._forget()
        self._held = [_size(part) for part in self._parts]
        self._before = np.array([float(part.start) for part in self._parts])

    def put(self, logs: FloatArray) -> None:
        """Take logarithms ``[own]``."""
        self._divide(self._part.replace(logs) if self._part else -np.inf)()

    def logs(self) -> FloatArray:
        """Logarithms ``[own]``."""
        return self._part.logs() if self._part else np.zeros(0)

    def weigh(self, status: Array | None, counts: Any, seen: Seen | None) -> None:
        """As of `DeviceWeights`; `largest` tells whether all weights are finite."""
        self.begin_weighing(status, counts, seen)()

    def begin_weighing(
        self, status: Array | None, counts: Any, seen: Seen | None
    ) -> Callable[[], None]:
        """As of `DeviceWeights`. What it gives is collective, too."""
        return self._divide(self._part.multiply(status, counts, seen) if self._part else -np.inf)

    def _divide(self, largest: float) -> Callable[[], None]:
        """Weights over the largest, and their sums, where the largest of this rank is given."""
        most = float(self._each(largest).max())
        pieces = self._part.share(most) if self._part else lambda: np.zeros((0, 3))
        return lambda: self._know(most, pieces())

    def _know(self, most: float, pieces: FloatArray) -> None:
        """Take sums of all ranks, where those of this one are given."""
        sizes = [size_in_pieces(part) for part in self._parts]
        result = self._shares.gathered(pieces, sizes)
        ends = np.add.accumulate(sizes)
        each = np.array(  # about, but for whole numbers
            [np.ones(n) @ result[end - n : end] for end, n in zip(ends, sizes, strict=True)]
        )
        self._held = each[:, 2].astype(np.int64).tolist()
        self._before = np.add.accumulate(each[:, 0]) - each[:, 0]
        self._forget()
        if self._leveled:  # then probably again
            self._guess()
        self.largest, self._leveled = np.array([most]), False
        self.totals, self.squares, _ = sums_of_parts(result, self._parts)[:, None]

    def _forget(self) -> None:
        """Note that the device has not begun to add weights in order."""
        self._guessed = False
        self._end: Callable[[], float] | None = None

    def _guess(self) -> None:
        """Let the device begin to add weights in order; where none are before, it goes on."""
        self._guessed = True
        if self._part:
            self._part.guess(float(self._before[self._shares.rank]))
            self._end = None if self._own.start else self._part.climb(0.0)

    def moments(self, counts: Any) -> Callable[[], Callable[[], tuple[FloatArray, FloatArray]]]:
        """As of `DeviceWeights`, of ``counts [own, species]``. What it gives is collective, too."""
        none = np.zeros((int(counts.shape[1]), 1))
        if not any(self._held):
            return lambda: lambda: (none, none)
        started = self._summing(counts)
        first = started(None)

        def begin() -> Callable[[], tuple[FloatArray, FloatArray]]:
            means = first()
            second = started(means)
            return lambda: (means, second())

        return begin

    def quantiles(self, counts: Any, probabilities: Sequence[float]) -> FloatArray:
        """As of `DeviceWeights`, of ``counts [own, species]``."""
        shape = int(counts.shape[1]), 1
        if not any(self._held):
            return np.full((len(probabilities), *shape), np.nan)
        started = self._summing(counts)
        return bisected(
            lambda limits: started(limits, below=1)(), shape, probabilities,
            real=counts.dtype == np.float64,
        )  # fmt: skip

    def _summing(self, counts: Any) -> Callable[..., Callable[[], FloatArray]]:
        """What starts sums ``[species, 1]`` with the weights as they are now."""
        species, shares, part = int(counts.shape[1]), self._shares, self._part
        ends = np.add.accumulate(self._held).tolist()
        parts = [slice(end - n, end) for end, n in zip(ends, self._held, strict=True)]
        sizes, own = [size_in_pieces(one) for one in parts], parts[shares.rank]
        total = float(self.totals[0])
        if part:
            part.settle()
        held = part.held(_size(own)) if part and ends[-1] < self._n else None

        def started(means: FloatArray | None, *, below: int = 0) -> Callable[[], FloatArray]:
            pieces = None
            if part and _size(own):
                pieces = part.moment_sums(counts, total, means, held, own.start, below=below)

            def sums() -> FloatArray:
                mine = pieces() if pieces else np.zeros((0, species))
                return sums_of_parts(shares.gathered(mine, sizes), parts)[:, None]

            return sums

        return started

    def ancestors(
        self, scheme: str, *, seed: int, number: int, group: int, base: int
    ) -> tuple[Any, list[int]]:
        """Ancestors on this rank, int64 on the device, in increasing order; how many on each rank.

        Parameters
        ----------
        seed, number, group
            As of `tauslab.analysis.particles.weights.ancestors_of`.
        base
            The number of the first of this rank's particles.
        """
        if scheme == "multinomial":
            own = self._part.shares() if self._part else np.zeros(0)
            row = self._shares.gathered(own, [_size(part) for part in self._parts])
            index = particle_weights.ancestors_of(row, scheme, seed, number, group)
            bounds = np.searchsorted(index, [0, *(part.stop for part in self._parts)]).tolist()
            made = slice(bounds[self._shares.rank], bounds[self._shares.rank + 1])
            result = self._backend.upload(index[made] - self._own.start + base)
            return result, np.diff(bounds).tolist()
        stratified, rank = scheme == "stratified", self._shares.rank
        given = {
            "seed": seed,
            "purpose": particle_weights.RESAMPLING,
            "number": number,
            "group": group,
        }
        if not self._guessed:
            self._guess()
        sums = self._climbed()
        self._forget()
        first = particle_weights.uniform_at(**given, place=0)

        def place(particle: int) -> float:
            uniform = particle_weights.uniform_at(**given, place=particle) if stratified else first
            return float((particle + uniform) / self._n * sums[-1])

        bounds = [bisect_left(range(self._n), before, key=place) for before in sums[:-1]]
        last = max(rank for rank, held in enumerate(self._held) if held)
        bounds[last + 1 :] = [self._n] * (len(self._held) - last)  # with places beyond the end
        made = slice(bounds[rank], bounds[rank + 1])
        none = self._backend.empty((0,), np.int64)
        more = {"stratified": int(stratified), "base": base}
        result = self._part.copied(made, sums[-1], **given, **more) if self._part else none
        return result, np.diff(bounds).tolist()

    def all_stay(self, base: int) -> tuple[Any, list[int]]:
        """As of `ancestors`, where no particle becomes a copy of another."""
        index = np.arange(base, base + _size(self._own))
        return self._backend.upload(index), [_size(part) for part in self._parts]

    def _climbed(self) -> list[float]:
        """Sums of the weights before each rank, added one after the other; then the sum of all."""
        sums = [0.0]
        for rank, part in enumerate(self._parts):
            end = sums[-1]
            if _size(part):
                if self._part and rank == self._shares.rank:
                    end = (self._end or self._part.climb(end))()
                end = float(self._each(end)[rank])
            sums.append(end)
        return sums

    def _each(self, number: float) -> FloatArray:
        """A number of each rank."""
        return np.asarray(self._shares.gathered(np.array([number]), [1] * self._shares.ranks))


def _size(part: slice) -> int:
    return int(part.stop - part.start)
