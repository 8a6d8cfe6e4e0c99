"""Sums in one fixed tree, also of rows that lie on several ranks.

Neighbours are added, then neighbouring sums, on any machine. A rank adds up the subtrees that lie
within its part of a row, and only the sums travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tauslab.analysis.particles.shares import Shares
from tauslab.base.arrays import Array, BoolArray, FloatArray


def fixed_sums(values: FloatArray) -> FloatArray:
    """Sums of rows by halves, of as many numbers as there are, and zeros up to a power of two."""
    groups, length = values.shape
    if not length:
        return np.zeros(groups)
    while values.shape[1] > 1:
        values = _neighbours(values)
    return np.array(values[:, 0])


def fixed_sum(values: FloatArray) -> float:
    """The sum of one row as `fixed_sums` makes it."""
    return float(fixed_sums(values[None])[0])


def _neighbours(values: FloatArray) -> FloatArray:
    """Sums of columns 0 and 1, 2 and 3, ...; 0 is added to one that is left."""
    half = values.shape[1] // 2
    found = np.empty((len(values), values.shape[1] - half))
    np.add(values[:, 0 : 2 * half : 2], values[:, 1::2], out=found[:, :half])
    if values.shape[1] % 2:
        found[:, half] = values[:, -1] + 0.0
    return found


class _Part(NamedTuple):
    """Numbers `start` to `stop` of row `row`, which has `length` of them."""

    row: int
    start: int
    stop: int
    length: int


@lru_cache(4096)
def _steps(start: int, stop: int, length: int) -> tuple[tuple[bool, bool], ...]:
    """At each level of the tree, whether the first and the last node of a part travel.

    They do where their neighbour is in another part. At the end one node may be left, the root.
    """
    found, most = [], length
    for _ in range((length - 1).bit_length() if length else 0):
        left = start < stop and start % 2 == 1
        start += left
        right = start < stop and stop % 2 == 1 and stop != most
        stop -= right
        found.append((left, right))
        start, stop = (start // 2, -(-stop // 2)) if start < stop else (0, 0)
        most = -(-most // 2)
    return (*found, (start < stop, False))


def _places(part: _Part) -> list[tuple[int, int]]:
    """Level and number of the nodes of a part that travel, in the order of `_subtrees`."""
    start, stop, found = part.start, part.stop, []
    for level, (left, right) in enumerate(_steps(part.start, part.stop, part.length)):
        if left:
            found.append((level, start))
        if right:
            found.append((level, stop - 1))
        start, stop = (start + left) // 2, -(-(stop - right) // 2)
    return found


def _subtrees(values: FloatArray, part: _Part) -> list[FloatArray]:
    """Sums of the nodes that travel, each of all rows of ``values [quantity, number]``."""
    found: list[FloatArray] = []
    for left, right in _steps(part.start, part.stop, part.length):
        if left:
            found.append(values[:, 0])
        if right:
            found.append(values[:, -1])
        values = values[:, int(left) : values.shape[1] - int(right)]
        if values.shape[1]:
            values = _neighbours(values)
    return found


@lru_cache(256)
def _additions(parts: tuple[_Part, ...]) -> tuple[tuple[int, int], ...]:
    """Additions of the nodes of all parts of a row: numbers of two nodes, -1 for 0.

    Each sum is a new node, with the next number; the last one is the sum of the row.
    """
    numbers = {place: i for i, place in enumerate(p for part in parts for p in _places(part))}
    found, made = [], len(numbers)
    for level in range((parts[0].length - 1).bit_length()):
        for node in sorted({place[1] // 2 for place in numbers if place[0] == level}):
            left, right = numbers[level, 2 * node], numbers.get((level, 2 * node + 1), -1)
            found.append((left, right))
            numbers[level + 1, node] = made
            made += 1
    return tuple(found)


class CutRows:
    """`count` rows of n numbers one after the other, one number a particle, cut where ranks end.

    All methods are collective. Arrays ``[own]`` are of the particles of this rank.
    """

    def __init__(self, count: int, n: int, shares: Shares) -> None:
        self.count, self.n, self._shares = count, n, shares
        own = shares.own
        self._start = own.start
        ranges = [shares.of(rank) for rank in range(shares.ranks)]
        self._whole = [range(-(-a.start // n), max(-(-a.start // n), a.stop // n)) for a in ranges]
        self._parts = [self._cut(a) for a in ranges]
        self.whole = self._whole[shares.rank]
        self.parts = self._parts[shares.rank]
        rows = range(own.start // n, -(-own.stop // n)) if own.stop > own.start else range(0)
        self._rows = slice(rows.start, rows.stop)
        ends = np.clip(np.arange(rows.start, rows.stop + 1) * n, own.start, own.stop)
        self._lengths = np.diff(ends)  # of this rank's parts of these rows

    def _cut(self, own: slice) -> tuple[_Part, ...]:
        n, found = self.n, []
        for row in sorted({own.start // n, (own.stop - 1) // n} if own.stop > own.start else ()):
            start, stop = max(own.start - row * n, 0), min(own.stop - row * n, n)
            if stop - start < n:
                found.append(_Part(row, start, stop, n))
        return tuple(found)

    # ---------------------------------------------------------------- of this rank

    def place(self, row: int, start: int = 0, stop: int | None = None) -> slice:
        """The place of numbers of a row in arrays ``[own]``."""
        first = row * self.n - self._start
        return slice(first + start, first + (self.n if stop is None else stop))

    @property
    def body(self) -> slice:
        """The place of rows that lie on this rank as a whole."""
        first = self.whole.start * self.n - self._start
        return slice(first, first + len(self.whole) * self.n) if self.whole else slice(0, 0)

    def spread(self, each: Array) -> Array:
        """Values ``[row]`` for the particles of this rank; one number where there is one row."""
        if self.count == 1:
            return each[:1]
        return np.repeat(each[self._rows], self._lengths)

    # ---------------------------------------------------------------- of all ranks

    def cut(self, values: FloatArray, chosen: BoolArray) -> list[tuple[int, FloatArray]]:
        """Whole rows of values ``[own]``, by number, of rows that are cut and chosen."""
        if self._shares.ranks == 1:
            return []
        parts = [[part for part in cut if chosen[part.row]] for cut in self._parts]
        if not any(parts):
            return []
        mine = [values[self.place(*part[:3])] for part in parts[self._shares.rank]]
        sizes = [sum(part.stop - part.start for part in own) for own in parts]
        found = self._shares.gathered(np.concatenate([values[:0], *mine]), sizes)
        rows = sorted({part.row for own in parts for part in own})
        return [(row, one) for row, one in zip(rows, found.reshape(-1, self.n), strict=True)]

    def largest(self, values: FloatArray) -> FloatArray:
        """The largest number ``[row]`` of each row, of values ``[own]``; NaN where one is NaN."""
        body = values[self.body].reshape(len(self.whole), self.n).max(axis=1)
        if self._shares.ranks == 1:
            return np.asarray(body)
        parts = [values[self.place(*part[:3])].max() for part in self.parts]
        sizes = [len(w) + len(p) for w, p in zip(self._whole, self._parts, strict=True)]
        found = self._shares.gathered(np.append(body, parts), sizes)
        largest, at = np.full(self.count, -np.inf), 0
        for whole, cut in zip(self._whole, self._parts, strict=True):
            largest[whole.start : whole.stop] = found[at : at + len(whole)]
            at += len(whole)
            for part in cut:
                largest[part.row] = np.maximum(largest[part.row], found[at])
                at += 1
        return largest

    def sums(self, values: FloatArray, held: BoolArray | None = None) -> FloatArray:
        """Sums ``[quantity, row]`` of values ``[quantity, own]``.

        Where `held` is given, ``[own]``, numbers that are not held are left out, and others close
        up: the tree is that of a row of held numbers alone.
        """
        size = len(values)
        body = values[:, self.body].reshape(size, len(self.whole), self.n)
        pieces = [values[:, self.place(*part[:3])] for part in self.parts]
        parts = self._parts
        if held is None or not len(self.whole):
            sums = fixed_sums(body.reshape(-1, self.n)).reshape(size, len(self.whole))
        else:
            sums = _sums_of_held(body, held[self.body].reshape(len(self.whole), self.n))
        if self._shares.ranks == 1:
            return sums
        if held is not None:
            kept = [held[self.place(*part[:3])] for part in self.parts]
            pieces = [
                piece if own.all() else piece[:, own]
                for piece, own in zip(pieces, kept, strict=True)
            ]
            parts = self._closed_up([piece.shape[1] for piece in pieces])
        mine = parts[self._shares.rank]
        nodes = [sums.T]
        for piece, part in zip(pieces, mine, strict=True):
            nodes += [node[None] for node in _subtrees(piece, part)]
        sizes = [
            len(whole) + sum(len(_places(part)) for part in cut)
            for whole, cut in zip(self._whole, parts, strict=True)
        ]
        return self._put_together(self._shares.gathered(np.concatenate(nodes), sizes), parts)

    def _closed_up(self, numbers: Sequence[int]) -> list[tuple[_Part, ...]]:
        """Parts of all ranks where each has so many numbers left, in order."""
        sizes = [len(cut) for cut in self._parts]
        left = iter(self._shares.gathered(np.array(numbers, np.int64), sizes).tolist())
        each = [[(part.row, next(left)) for part in cut] for cut in self._parts]
        total, done = dict[int, int](), dict[int, int]()
        for row, number in (one for cut in each for one in cut):
            total[row] = total.get(row, 0) + number
        found = []
        for cut in each:
            own = []
            for row, number in cut:
                start = done.get(row, 0)
                done[row] = start + number
                own.append(_Part(row, start, start + number, total[row]))
            found.append(tuple(own))
        return found

    def _put_together(self, nodes: FloatArray, parts: Sequence[tuple[_Part, ...]]) -> FloatArray:
        """Sums of all rows, of nodes ``[node, quantity]`` in the order of ranks."""
        found, at = np.zeros((nodes.shape[1], self.count)), 0
        cut: dict[int, tuple[list[_Part], list[list[float]]]] = {}
        for whole, own in zip(self._whole, parts, strict=True):
            found[:, whole.start : whole.stop] = nodes[at : at + len(whole)].T
            at += len(whole)
            for part in own:
                held, values = cut.setdefault(part.row, ([], []))
                held.append(part)
                number = len(_places(part))
                values += nodes[at : at + number].tolist()
                at += number
        for row, (held, values) in cut.items():
            for left, right in _additions(tuple(held)):
                first = values[left]
                second = values[right] if right >= 0 else [0.0] * len(first)
                values.append([a + b for a, b in zip(first, second, strict=True)])
            if values:
                found[:, row] = values[-1]
        return found


def _sums_of_held(body: FloatArray, held: BoolArray) -> FloatArray:
    """Sums ``[quantity, row]`` of the numbers of ``body [quantity, row, n]`` that are held."""
    full = held.all(axis=1)
    found = np.zeros(body.shape[:2])
    found[:, full] = fixed_sums(body[:, full].reshape(-1, body.shape[2])).reshape(len(body), -1)
    for row in np.flatnonzero(~full & held.any(axis=1)).tolist():
        found[:, row] = fixed_sums(body[:, row, held[row]])
    return found
