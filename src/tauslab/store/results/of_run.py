"""The base of the results of ensembles and of lattices."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ConfigError, InputFileError, OutputError
from tauslab.base.files.opening import at_home
from tauslab.base.files.text import plain
from tauslab.base.option_names import opt, warn
from tauslab.base.unknown import Hinting
from tauslab.model.names import require_mapping
from tauslab.options.values.result_name import require_result_name
from tauslab.store.targets import require_place


class Ranks(list[dict[str, Any]]):
    """Rows of ranks, with an error that names where particles along an axis are."""

    def __call__(self, *_: Any, **__: Any) -> None:
        """Refuse to be called.

        Raises
        ------
        ConfigError
            Always: it names the methods that may be meant.
        """
        raise ConfigError(
            "profile has a row per rank with its device and speed, and is not called: particles "
            "along an axis of a lattice are kymograph(name, axis)[frame]"
        )


class RunResult(Hinting, ABC):
    """A run in a file or in memory: settings, points of a sweep, names; closed by ``with``.

    Both have ``data``: arrays, or HDF5 datasets, by the names that they have in a file;
    ``attributes``, what a file says of its run; ``points``, values ``[point]`` of what was swept by
    name, and their number ``n_points``, 1 without a sweep.
    """

    path: Any
    data: Any
    attributes: Any
    points: Any
    n_points: Any
    complete: Any
    unfinished: Any
    warned: bool  # that it is unfinished

    @property
    @abstractmethod
    def _in_memory(self) -> bool:
        """Return whether it has no file that stays."""

    @property
    def name(self) -> str:
        """Name of this result in messages: its file, if it has one."""
        return "the result in memory" if self._in_memory else str(self.path)

    @property
    def state(self) -> str:
        """Return whether the run is complete, or how much of it is there, in words."""
        if self.complete:
            return "complete"
        return f"unfinished: {self.unfinished}; {opt('resume')} completes it"

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
        """Return whether the run has an axis of points."""
        return "sweep" in self.attributes

    @property
    def profile(self) -> Ranks:
        """A row for each rank: its device, its speed, its planes; empty in old files."""
        prefix = "profile/"
        names = [name for name in self.data if name.startswith(prefix)]
        columns = {name.removeprefix(prefix): self.data[name][()] for name in names}
        rows = range(len(next(iter(columns.values()), ())))
        return Ranks({name: plain(v[row]) for name, v in columns.items()} for row in rows)

    def _new_file(self, path: str | os.PathLike[str], *, overwrite: bool) -> Path:
        """The file to save to; refuses a result that lies in a file, and a place that is taken."""
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(f"save takes the name of a file, not {path!r}")
        own = at_home(path)
        if not self._in_memory:
            raise ConfigError(f"{self.path} holds this result already: copy the file")
        require_result_name(own)
        require_place(own)
        if own.exists() and not overwrite:
            raise OutputError(f"{own} exists; overwrite=True replaces it")
        return own

    def grid(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """An array ``[point, ...]`` with one axis per swept name instead of ``point``.

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

    def points_with(self, values: Mapping[str, float]) -> IntArray:
        """Numbers of the points with these swept values.

        Raises
        ------
        ConfigError
            A name that was not swept, what is no number, or values of no point.
        """
        require_mapping(values, "swept values", '{"k": 2.0}')
        same = np.ones(self.n_points, np.bool_)
        for name, value in values.items():
            if name not in self.points:
                known = ", ".join(self.points) or "nothing"
                raise ConfigError(f"{name!r} was not swept in {self.name}: {known} was")
            if np.ndim(value) or np.asarray(value).dtype.kind not in "biuf":
                raise ConfigError(f"{name}={value!r:.60} is not allowed: one number")
            same &= np.isclose(self.points[name], value, rtol=1e-9, atol=0)
        if not same.any():
            requested = ", ".join(f"{name}={value:g}" for name, value in values.items())
            near = {n: float(v[np.argmin(abs(v - values[n]))]) for n, v in self.points.items()
                    if n in values}  # fmt: skip
            nearest = ", ".join(f"{name} = {value:.10g}" for name, value in near.items())
            raise ConfigError(f"{self.name} has no point with {requested}; near is {nearest}")
        return np.flatnonzero(same)

    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Names that ``result[name]`` takes."""

    def __iter__(self) -> Iterator[str]:
        """Names, as of a dict."""
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        """Return whether ``result[name]`` is known."""
        return name in self.keys()

    @abstractmethod
    def close(self) -> None:
        """Close the file, if there is one."""

    def __enter__(self) -> Self:
        """Use as a context manager, closing at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def require_some(result: RunResult, unit: str, *, there: bool) -> None:
    """Refuse an unfinished run of which no `unit` is `there`; warn, once, of another.

    Raises
    ------
    InputFileError
        There is nothing that could be averaged.
    """
    if result.complete:
        return
    if not there:
        raise InputFileError(
            f"{result.name} is unfinished and holds no {unit} yet: complete it with {opt('resume')}"
        )
    if not result.warned:
        result.warned = True
        warn(
            f"{result.name} is unfinished: its numbers are of {result.unfinished}; "
            f"{opt('resume')} completes it"
        )
