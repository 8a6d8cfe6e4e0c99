"""What the results of ensembles and of lattices have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.files.text import plain


class RunResult(ABC):
    """A run in a file or in memory: settings, points of a sweep, names; closed by ``with``.

    Both have ``data``: arrays, or HDF5 datasets, by the names that they have in a file;
    ``attributes``, what a file says of its run; ``points``, values ``[point]`` of what was swept by
    name, and their number ``n_points``, 1 without a sweep.
    """

    data: Any
    attributes: Any
    points: Any
    n_points: Any

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of this result in messages: its file, if it is there to stay."""

    @property
    def method(self) -> str:
        """Name of the method, for example ``ssa``."""
        return str(self.attributes["method"])

    @property
    def seed(self) -> int:
        """The 64-bit seed."""
        return int(self.attributes["seed"])

    @property
    def swept(self) -> bool:
        """Whether the run has an axis of points."""
        return "sweep" in self.attributes

    @property
    def profile(self) -> list[dict[str, Any]]:
        """What each rank did: its device, its speed, its planes; empty in old files."""
        prefix = "profile/"
        names = [name for name in self.data if name.startswith(prefix)]
        columns = {name.removeprefix(prefix): self.data[name][()] for name in names}
        rows = range(len(next(iter(columns.values()), ())))
        return [{name: plain(values[row]) for name, values in columns.items()} for row in rows]

    def grid(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """An array ``[point, ...]`` with an axis per swept name instead, in the order of `points`.

        Raises
        ------
        ConfigError
            The points are not all combinations of some values of each name.
        """
        array, sides = np.asarray(values), self.attributes.get("grid")
        if sides is None:
            raise ConfigError(f"{self.name} is not a sweep over all combinations of some values")
        if array.shape[:1] != (self.n_points,):
            raise ConfigError(
                f"the first axis must be the {self.n_points} points, not {array.shape}"
            )
        return array.reshape([*map(int, str(sides).split(",")), *array.shape[1:]])

    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Names that ``result[name]`` takes."""

    def __iter__(self) -> Iterator[str]:
        """Names, as of a dict."""
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        """Whether ``result[name]`` is known."""
        return name in self.keys()

    @abstractmethod
    def close(self) -> None:
        """Close the file, if there is one."""

    def __enter__(self) -> Self:
        """Use as a context manager, closing at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
