"""Data of many cells: a time course of each, whose log-likelihoods add."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.filters.observing import BAD_TIMES, Observations, Observe
from tauslab.base.errors import ConfigError

MOST_PARTICLES = 1 << 21  # of filters of many cells in a launch; no bit depends on it
COLUMN = "cell"  # that names the cell of a row, unless another is given


def time_courses(data: Any, column: str | None, observe: Observe | None) -> dict[str, Any]:
    """Columns by name of each cell; of a single time course `data` itself, by an empty name.

    Parameters
    ----------
    data
        A table as `Observations` takes it, or a sequence of tables, one for each cell.
    column
        The column that says of which cell a row is. By default ``cell``, where the table has one
        that is not observed.

    Raises
    ------
    ConfigError
        No such column, or a row without a cell.
    """
    if isinstance(data, list | tuple):
        if column is not None:
            raise ConfigError("cell= is the column of a table, and data= is a list: a table a cell")
        if not data:
            raise ConfigError("data= is an empty list: one table for each cell is needed")
        return {str(number): table for number, table in enumerate(data)}
    names = [str(name) for name in data] if hasattr(data, "__iter__") else []
    observed = () if observe is None or callable(observe) else observe
    if column is None and (COLUMN not in names or COLUMN in observed):
        return {"": data}
    column = column or COLUMN
    if column not in names:
        raise ConfigError(f"data= has no column {column!r}; it has {', '.join(names)}")
    labels = np.asarray(data[column])
    if labels.ndim != 1:
        raise ConfigError(f"data: column {column} must have one value per row")
    of = [label.strip() if isinstance(label, str) else label for label in labels.tolist()]
    empty = [row for row, x in enumerate(of) if x is None or x != x or x == ""]  # noqa: PLR0124
    if empty:
        raise ConfigError(f"data: {column} of row {empty[0]} is missing")
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(of):
        rows.setdefault(label, []).append(row)
    columns = {name: np.asarray(data[name]) for name in names if name != column}
    for name, values in columns.items():
        if len(values) != len(of):
            raise ConfigError(f"data: {name} has {len(values)} rows, and {column} has {len(of)}")
    return {
        _name(label): {name: values[own] for name, values in columns.items()}
        for label, own in rows.items()
    }


def _name(label: object) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


@dataclass(frozen=True)
class Run:
    """Cells with equal times, as far as each goes: their filters share launches.

    Attributes
    ----------
    first
        Number of the first cell among all.
    """

    first: int
    cells: tuple[Observations, ...]

    @property
    def longest(self) -> Observations:
        """Return the data that go farthest."""
        return max(self.cells, key=len)


class Cells(Sequence[Observations]):
    """Observations of cells in their order.

    Filter s of m of cell c has the number ``c m + s``, which decides its random numbers: they do
    not depend on how many cells there are.

    Raises
    ------
    ConfigError
        As of `Observations`; the message begins with the cell.
    """

    def __init__(self, courses: dict[str, Any], observe: Observe) -> None:
        result = []
        for name, data in courses.items():
            try:
                result.append(Observations(data, observe))
            except ConfigError as error:
                if name:
                    raise ConfigError(f"cell {name}: {error}") from None
                if str(error) == BAD_TIMES:
                    raise ConfigError(
                        f'{error}; data of many cells need a column "cell", or a table per cell in '
                        "a list"
                    ) from None
                raise
        self._cells = tuple(result)

    def __len__(self) -> int:
        """Number of cells."""
        return len(self._cells)

    def __getitem__(self, number: Any) -> Any:
        """The observations of a cell."""
        return self._cells[number]

    def __iter__(self) -> Iterator[Observations]:
        """Observations in the order of the cells."""
        return iter(self._cells)

    def digest(self) -> bytes:
        """A digest of all data; of one cell that of its observations."""
        each = [cell.digest() for cell in self._cells]
        return each[0] if len(each) == 1 else hashlib.sha256(b"".join(each)).digest()

    def runs(self, most: int) -> list[Run]:
        """Neighbours with equal times, at most so many (one at least) in each run.

        One may end earlier, after half the rows at least: till the end it is simulated in vain.
        """
        result: list[Run] = []
        for number, cell in enumerate(self._cells):
            last = result[-1] if result else Run(0, ())
            both = Run(last.first, (*last.cells, cell))
            if last.cells and len(both.cells) <= most and _side_by_side(both, cell):
                result[-1] = both
            else:
                result.append(Run(number, (cell,)))
        return result


def _side_by_side(run: Run, last: Observations) -> bool:
    """Whether the last cell has the times of the others, and none is too short."""
    before = max(run.cells[:-1], key=len).times[: len(last)]
    enough = 2 * len(min(run.cells, key=len)) >= len(run.longest)
    return enough and bool(np.array_equal(last.times[: len(before)], before))
