"""Weights of the particles of filters, on the devices of all ranks.

A rank weighs the filters that lie on it as a whole, and its parts of those that ranks share. No
bit depends on where ranks are cut. Arrays ``[own]`` are of the particles of this rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.filters.observing import Constants, Observations, Values
from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.cut import CutWeights
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.shares import Copies
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.kernels.particles.weights import KINDS as DEVICE_KINDS
from tauslab.kernels.particles.weights import OBSERVED, DeviceWeights, Seen


@dataclass(frozen=True)
class _Piece:
    """Filters `rows`, and the place of their particles among those of this rank."""

    rows: slice
    own: slice
    weights: DeviceWeights | CutWeights


class Weighing:
    """Weights of the particles of `count` filters of n particles each. All methods are collective.

    Parameters
    ----------
    number
        Number of the first filter.
    cells
        Into how many equal parts filters are split, each of which has data of its own.
    """

    def __init__(self, particles: Ensemble, count: int, number: int, cells: int = 1) -> None:
        self._particles, self._count, self._number = particles, count, number
        self._per = count // cells
        self._n, shares = particles.n // count, particles.shares
        self._means: FloatArray | None = None
        ranges = [shares.of(rank) for rank in range(shares.ranks)]
        self._whole = [_whole(own, self._n) for own in ranges]
        self._pieces = [self._cut(row, ranges) for row in _rows_cut(ranges, self._n)]
        whole = self._whole[shares.rank]
        for cell in range(cells):
            rows = range(*np.clip([cell * self._per, (cell + 1) * self._per],
                                  whole.start, whole.stop).tolist())  # fmt: skip
            if rows:
                first = rows.start * self._n - shares.own.start
                weights = DeviceWeights(
                    particles.backend, len(rows), self._n, stream=particles.stream
                )
                own = slice(first, first + len(rows) * self._n)
                self._pieces.append(_Piece(slice(rows.start, rows.stop), own, weights))
        self._pieces.sort(key=lambda piece: piece.rows.start)
        self._know()

    def _cut(self, row: int, ranges: list[slice]) -> _Piece:
        """The piece of a filter that ranks share."""
        first, own = row * self._n, self._particles.own
        parts = [
            slice(*np.clip([r.start - first, r.stop - first], 0, self._n).tolist()) for r in ranges
        ]
        mine = parts[self._particles.shares.rank]
        start = first + mine.start - own.start if mine.start < mine.stop else 0
        place = slice(start, start + mine.stop - mine.start)
        weights = CutWeights(
            self._particles.backend, parts, self._particles.shares, self._particles.stream
        )
        return _Piece(slice(row, row + 1), place, weights)

    def begin(self) -> None:
        """Let all particles weigh the same."""
        for piece in self._pieces:
            piece.weights.begin()
        self._know()

    def put(self, logs: FloatArray) -> None:
        """Take logarithms of weights ``[own]``."""
        for piece in self._pieces:
            piece.weights.put(logs[piece.own])
        self._know()

    def logs(self) -> FloatArray:
        """Logarithms of weights ``[own]``."""
        return np.concatenate([np.zeros(0), *(piece.weights.logs() for piece in self._pieces)])

    def means(self) -> Callable[[], FloatArray]:
        """What computes logarithms of the means of weights ``[filter]`` as they are now, later."""
        known, totals, largest = self._means, self._totals, self._largest
        if known is not None:
            return lambda: known
        return lambda: particle_weights.means_of(totals, self._n, largest)

    @property
    def sizes(self) -> FloatArray:
        """Effective sizes ``[filter]``."""
        return particle_weights.sizes_of(self._totals, self._squares)

    def drop(self) -> None:
        """Let particles that have ended weigh nothing."""
        self._weigh(None, None)

    def multiply(self, factors: FloatArray) -> bool:
        """Multiply weights by factors, given as their logarithms ``[own]``.

        Returns
        -------
        Whether all weights are finite numbers.
        """
        table = np.zeros(1, OBSERVED)
        table["kind"], table["column"] = DEVICE_KINDS.index("given"), -1
        return self._weigh(Seen(table, [factors]), None)

    def begin_observing(
        self, cells: Sequence[Observations], row: int, values: Values, constants: Constants
    ) -> Callable[[], bool] | None:
        """Multiply weights by the densities of a row that no function observes.

        Returns
        -------
        What waits for the device and says as much as `multiply`; weights stay what they are if it
        is not called. None where nothing was seen of any cell.
        """
        if not any(data.seen(row) for data in cells):
            return None
        species, counts = self._particles.species, self._particles.device_counts
        if len(cells) == 1:
            seen = cells[0].seen_of(row, species, values, constants)
            return self._begin_weighing([(one, _part(seen, one)) for one in self._pieces], counts)
        each = []
        for piece in self._pieces:
            data, own = cells[piece.rows.start // self._per], piece.own
            if own.stop - own.start > 1:  # numbers of one particle would be those of all
                seen = data.seen_of(row, species, *part_of(own, values, constants))
            elif seen := data.seen_of(row, species, values, constants):
                seen = seen.of(own)
            if seen:
                each.append((piece, seen))
        return self._begin_weighing(each, counts)

    def _weigh(self, seen: Seen | None, counts: Any) -> bool:
        each = [(piece, _part(seen, piece)) for piece in self._pieces]
        return self._begin_weighing(each, counts)()

    def _begin_weighing(
        self, each: Sequence[tuple[_Piece, Seen | None]], counts: Any
    ) -> Callable[[], bool]:
        particles = self._particles
        status = None if particles.none_ended else particles.status[particles.own]
        takes = [
            piece.weights.begin_weighing(
                None if status is None else status[piece.own],
                None if counts is None else counts[piece.own], seen,
            )
            for piece, seen in each
        ]  # fmt: skip

        def weighed() -> bool:
            for take in takes:
                take()
            self._know()
            return bool((self._largest < np.inf).all())

        return weighed

    def ancestors_ahead(self, numbers: IntArray, scheme: str) -> Copies | None:
        """Launch `ancestors` of all filters, by weights that `begin_observing` launched.

        None where the host takes part in it: of several ranks or cells, or by ``multinomial``.
        """
        piece, alone = self._pieces[0], self._particles.shares.ranks == len(self._pieces) == 1
        if not alone or scheme == "multinomial" or isinstance(piece.weights, CutWeights):
            return None
        every = np.ones(self._count, bool)
        rows = self._ancestors_of(piece.weights, piece, every, numbers, scheme, ahead=True)
        return Copies([0, len(rows)], rows)

    def ancestors(self, chosen: BoolArray, numbers: IntArray, scheme: str) -> Copies:
        """Ancestors of particles of all filters; those of filters not chosen stay.

        Particles of chosen filters weigh the same afterwards, by `level`. ``numbers [filter]`` say
        how often each was resampled.
        """
        sizes = np.array([self._n * len(rows) for rows in self._whole])
        result = []
        for piece in self._pieces:
            if isinstance(piece.weights, CutWeights):
                part, each = self._found_of_cut(piece.weights, piece, chosen, numbers, scheme)
                sizes += each
            else:
                part = self._ancestors_of(piece.weights, piece, chosen, numbers, scheme)
            result.append(part)
        backend, rows = self._particles.backend, result[0]
        if len(result) > 1:
            rows, at = backend.empty((sum(map(len, result)),), np.int64), 0
            for part in result:
                backend.copy(part, rows[at : at + len(part)], self._particles.stream)
                at += len(part)
            self._particles.stream.record().wait()
        return Copies([0, *np.add.accumulate(sizes).tolist()], rows)

    def level(self, chosen: BoolArray) -> None:
        """Let all particles of chosen filters weigh the same."""
        means = np.zeros(self._count)
        if not chosen.all():
            means = np.where(chosen, 0.0, self.means()())
        for piece in self._pieces:
            piece.weights.level(chosen[piece.rows])
        self._know()
        self._means = means

    def _found_of_cut(
        self, weights: CutWeights, piece: _Piece, chosen: BoolArray, numbers: IntArray, scheme: str
    ) -> tuple[Any, list[int]]:
        """As of `CutWeights.ancestors`."""
        row, base = piece.rows.start, piece.own.start
        if not chosen[row]:
            return weights.all_stay(base)
        return weights.ancestors(
            scheme, seed=self._particles.seed, number=int(numbers[row]), group=self._number + row,
            base=base,
        )  # fmt: skip

    def _ancestors_of(
        self, weights: DeviceWeights, piece: _Piece, chosen: BoolArray, numbers: IntArray,
        scheme: str, *, ahead: bool = False,
    ) -> Any:  # fmt: skip
        """Ancestors int64 on the device among the particles of this rank, in increasing order."""
        rows, base = piece.rows, piece.own.start
        seed, group = self._particles.seed, self._number + rows.start
        if scheme != "multinomial":
            return weights.ancestors(
                chosen[rows], numbers[rows], seed=seed, purpose=particle_weights.RESAMPLING,
                group=group, stratified=scheme == "stratified", base=base, ahead=ahead,
            )  # fmt: skip
        shares = weights.shares()
        index = np.arange(len(shares)).reshape(-1, self._n)
        for f in np.flatnonzero(chosen[rows]).tolist():
            own = shares[f * self._n : (f + 1) * self._n]
            number = int(numbers[rows.start + f])
            index[f] = index[f, 0] + particle_weights.ancestors_of(
                own, scheme, seed, number, group + f
            )
        return self._particles.backend.upload(index.reshape(-1) + base)

    def moments(self) -> Callable[[], Callable[[], tuple[FloatArray, FloatArray]]]:
        """Weighted means and variances ``[species, filter]`` of counts as they are now.

        The returned function launches the kernels; call it after the next resampling at the latest.
        It returns a function that waits for the results. Both are collective.
        """
        counts = self._particles.device_counts
        starts = [piece.weights.moments(counts[piece.own]) for piece in self._pieces]

        def begin() -> Callable[[], tuple[FloatArray, FloatArray]]:
            each = [start() for start in starts]

            def moments() -> tuple[FloatArray, FloatArray]:
                result = np.zeros((2, int(counts.shape[1]), self._count))
                for piece, those in zip(self._pieces, each, strict=True):
                    result[:, :, piece.rows] = those()
                means, variances = self._everywhere(result)
                return means, variances

            return moments

        return begin

    def quantiles(self, probabilities: Sequence[float]) -> FloatArray:
        """Weighted quantiles ``[probability, species, filter]`` of counts as they are now."""
        counts = self._particles.device_counts
        result = np.zeros((len(probabilities), int(counts.shape[1]), self._count))
        for piece in self._pieces:
            of = piece.weights.quantiles(counts[piece.own], probabilities)
            result[:, :, piece.rows] = of
        return self._everywhere(result)

    def _know(self) -> None:
        """Take sums of all filters to all ranks."""
        table = np.empty((3, self._count))
        for piece in self._pieces:
            weights = piece.weights
            table[:, piece.rows] = weights.largest, weights.totals, weights.squares
        self._largest, self._totals, self._squares = self._everywhere(table)
        self._means = None

    def _everywhere(self, table: FloatArray) -> FloatArray:
        """Numbers ``[..., filter]`` where those of filters of other ranks come from these."""
        shares, sizes = self._particles.shares, [len(rows) for rows in self._whole]
        if not any(sizes) or min(sizes) == self._count:  # all ranks know all
            return table
        own = self._whole[shares.rank]
        result = shares.gathered(np.moveaxis(table[..., own.start : own.stop], -1, 0), sizes)
        places = np.concatenate([np.array(rows, np.int64) for rows in self._whole])
        table[..., places] = np.moveaxis(result, 0, -1)
        return table


def _part(seen: Seen | None, piece: _Piece) -> Seen | None:
    return None if seen is None else seen.of(piece.own)


def part_of(own: slice, values: Values, constants: Constants) -> tuple[Values, Constants]:
    """Values and constants of some of the particles."""
    return (
        lambda name: values(name)[own],
        {k: v[own] if isinstance(v, np.ndarray) else v for k, v in constants.items()},
    )


def _whole(own: slice, n: int) -> range:
    """Filters of n particles that lie in a rank's particles as a whole."""
    first = -(-own.start // n)
    return range(first, max(first, own.stop // n))


def _rows_cut(ranges: list[slice], n: int) -> list[int]:
    """Filters of n particles that a boundary of ranks cuts."""
    return sorted({own.start // n for own in ranges if own.start % n})
