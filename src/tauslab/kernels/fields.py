"""Recorded fields of a run, as data: sums, datasets, checks and joins follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Field:
    """A recorded quantity.

    Parameters
    ----------
    axes
        Names of its axes, after those of points, replicas or groups.
    dtype
        In a file; on a device all are 64-bit integers.
    merge
        How values of ranks, or of launches, become one: they are added, the largest is kept, or
        they follow from others.
    since
        The version of the file format from which on every file has it. In a file of an earlier
        version it may be absent, which is no damage.
    unit
        As the attribute ``units`` has it.
    """

    name: str
    axes: tuple[str, ...] = ()
    dtype: str = "<u8"
    merge: Literal["sum", "max", "derived"] = "sum"
    since: int = 2
    unit: str = ""

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape, by the sizes of axes.

        >>> Field("counts", ("time", "species")).shape({"time": 3, "species": 2})
        (3, 2)
        """
        return tuple(sizes[axis] for axis in self.axes)
