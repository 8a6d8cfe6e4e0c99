"""Tables of a network for kernels that are not unrolled: two arrays, and the places in them.

Kernels address rows by constants ``AT_...`` that stand in the generated ``model.h``, so that any
number of tables costs two kernel arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, Int32Array, IntArray
from tauslab.base.errors import ModelError

LANES = 32  # fan-out of sum trees; the canonical reduction has 32 virtual lanes
MOST_ENTRIES = 2**31 - 1  # the kernels' indices have 32 bits


@dataclass(frozen=True)
class TableRows:
    """Compressed rows of numbers: row r is ``items[start[r]:start[r + 1]]``.

    >>> TableRows.of([[1, 2], [], [3]]).expand(np.array([2, 0]))
    (array([0, 1, 1]), array([3, 1, 2]))
    """

    start: IntArray
    items: IntArray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> TableRows:
        """From lists."""
        listed = list(rows)
        sizes = np.fromiter((len(row) for row in listed), np.int64, len(listed))
        total = int(sizes.sum())
        flat = np.fromiter((item for row in listed for item in row), np.int64, total)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), flat)

    @classmethod
    def sorted_pairs(cls, row: IntArray, item: IntArray, n_rows: int, n_items: int) -> TableRows:
        """The distinct pairs, by row and then by item."""
        key = distinct(row * n_items + item)
        start = np.searchsorted(key, np.arange(n_rows + 1) * n_items)
        return cls(start, key % max(1, n_items))

    def expand(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """All items of the given rows: which of `rows` each belongs to, and the item."""
        sizes = self.start[rows + 1] - self.start[rows]
        which = np.repeat(np.arange(len(rows)), sizes)
        ends = np.cumsum(sizes)
        within = np.arange(len(which)) - np.repeat(ends - sizes, sizes)
        return which, self.items[self.start[rows][which] + within]


@dataclass(frozen=True)
class Pairs:
    """Rows of (species, number), flat: `row`, `species` and `number`, one entry a pair."""

    row: IntArray
    species: IntArray
    number: IntArray

    @classmethod
    def of(cls, rows: Iterable[tuple[tuple[int, int], ...]]) -> Pairs:
        """From lists of pairs."""
        listed = list(rows)
        sizes = np.fromiter(map(len, listed), np.int64, len(listed))
        words = chain.from_iterable(chain.from_iterable(listed))
        flat = np.fromiter(words, np.int64, 2 * int(sizes.sum())).reshape(-1, 2)
        return cls(np.repeat(np.arange(len(listed)), sizes), flat[:, 0], flat[:, 1])

    def first_of(self, n_rows: int, place: int) -> tuple[IntArray, IntArray]:
        """Species and number of every row's pair `place`; -1 and 0 where it has none."""
        start = np.searchsorted(self.row, np.arange(n_rows))
        size = np.bincount(self.row, minlength=n_rows)
        species, number = np.full(n_rows, -1), np.zeros(n_rows, np.int64)
        there = size > place
        species[there] = self.species[start[there] + place]
        number[there] = self.number[start[there] + place]
        return species, number


def distinct(numbers: IntArray) -> IntArray:
    """The different ones, sorted; several times as fast as `numpy.unique`, which hashes."""
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def distinct_pairs(part: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
    """The different pairs, sorted by their first numbers and then by their second."""
    width = int(item.max()) + 1 if len(item) else 1
    key = distinct(part * width + item)
    return key // width, key % width


class TableBook:
    """Collects tables by name into one array of whole numbers and one of reals."""

    def __init__(self) -> None:
        self._whole: list[IntArray] = []
        self._real: list[FloatArray] = []
        self._size = {"whole": 0, "real": 0}
        self._constants: dict[str, int] = {}
        self._places: dict[str, list[int]] = {}
        self._macros: dict[str, int] = {}

    def copy(self) -> TableBook:
        """A book that can be added to; the two share the numbers of their tables."""
        result = TableBook()
        for name, held in vars(self).items():
            setattr(result, name, held.copy())
        return result

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return 8 * sum(self._size.values())

    def whole(self, name: str, values: npt.ArrayLike) -> None:
        """Add int32 numbers as ``AT_<name>``."""
        array = np.asarray(values, np.int64).ravel()
        self._constants[f"AT_{name}"] = self._grow("whole", len(array), name)
        if array.size and not -MOST_ENTRIES - 1 <= array.min() <= array.max() <= MOST_ENTRIES:
            raise ModelError(f"the network is too large: table {name} needs more than 31 bits")
        self._whole.append(array)

    def real(self, name: str, values: npt.ArrayLike) -> None:
        """Add doubles as ``AT_<name>``."""
        array = np.asarray(values, np.float64).ravel()
        self._constants[f"AT_{name}"] = self._grow("real", len(array), name)
        self._real.append(array)

    def records(self, name: str, columns: Sequence[npt.ArrayLike]) -> None:
        """Add records of two or four numbers, aligned so that one instruction loads a record."""
        gap = np.zeros(-self._size["whole"] % len(columns), np.int64)
        self._grow("whole", len(gap), name)
        self._whole.append(gap)
        self.whole(name, np.stack([np.asarray(column, np.int64) for column in columns], axis=-1))

    def places(self, name: str, values: Sequence[int]) -> None:
        """Add few numbers to the header alone, as an array."""
        self._places[name] = [*values] or [0]

    def places_of(self, name: str) -> list[int]:
        """The array that `places` added."""
        return self._places[name]

    def rows(self, row_name: str, item_name: str, rows: TableRows) -> None:
        """Add compressed rows: their starts and their items."""
        self.whole(row_name, rows.start)
        self.whole(item_name, rows.items)

    def pairs(self, name: str, value: str, rows: Sequence[tuple[tuple[int, int], ...]]) -> None:
        """Add rows of (species, number): starts, species, and the numbers as ``<name>_<value>``."""
        species = TableRows.of([[index for index, _ in row] for row in rows])
        self.rows(f"{name}_ROW", f"{name}_SPECIES", species)
        self.whole(f"{name}_{value}", [number for row in rows for _, number in row])

    def constant(self, name: str, value: int) -> None:
        """Add a number to the header alone."""
        self._constants[name] = int(value)

    def macro(self, name: str, value: int) -> None:
        """Add a number that decides which files the kernel includes."""
        self._macros[name] = int(value)

    def __getitem__(self, name: str) -> int:
        """A constant or macro of the header."""
        return self._constants[name] if name in self._constants else self._macros[name]

    def __contains__(self, name: str) -> bool:
        """Return whether the header has a constant or macro."""
        return name in self._constants or name in self._macros

    def header(self) -> str:
        """The constants as C++."""
        lines = [f"#define {name} {value}\n" for name, value in self._macros.items()]
        lines += [f"constexpr i64 {k} = {v};\n" for k, v in self._constants.items()]
        for name, values in self._places.items():
            lines.append(f"constexpr i64 {name}[] = {{{', '.join(map(str, values))}}};\n")
        return "".join(lines)

    def arrays(self) -> tuple[Int32Array, FloatArray]:
        """All whole numbers and all reals; threads of a warp read 32 pairs from any place on."""
        whole = np.concatenate([*self._whole, np.zeros(2 * LANES, np.int64)]).astype(np.int32)
        return whole, np.concatenate([*self._real, np.zeros(LANES)])

    def _grow(self, kind: str, count: int, name: str) -> int:
        begin = self._size[kind]
        self._size[kind] = begin + count
        if self._size[kind] > MOST_ENTRIES - 2 * LANES:
            raise ModelError(f"the network is too large: with table {name} its tables pass 2^31")
        return begin


def padded(count: int, to: int = LANES) -> int:
    """`count` rounded up to a multiple."""
    return -(-count // to) * to
