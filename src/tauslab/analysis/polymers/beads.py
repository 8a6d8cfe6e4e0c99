"""Beads in space at a time: what a lattice needs of a chain, whoever moves it."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.unknown import checks_keywords
from tauslab.model.geometry.shapes import Grid
from tauslab.model.names import check_name
from tauslab.options.hook_view import LatticeView

_ROUNDING = 2.0**-40  # of times, beside frames

Coordinates: TypeAlias = npt.ArrayLike | str | os.PathLike[str] | Callable[[float], npt.ArrayLike]


class Beads(ABC):
    """Positions of beads as a function of time."""

    name: str

    @property
    @abstractmethod
    def time(self) -> float:
        """Current time in seconds."""

    @property
    @abstractmethod
    def positions(self) -> FloatArray:
        """Positions ``[bead, 3]`` (z, y, x) in metres; NaN for a bead that does not exist yet."""

    @abstractmethod
    def advance(self, t: float) -> None:
        """Move to time `t` in seconds."""

    def sites(self, grid: Grid) -> IntArray:
        """Site of each bead: the position divided by the spacing, rounded down.

        Parameters
        ----------
        grid
            A `tauslab.Lattice`, or the view of a hook.

        Returns
        -------
        int64 ``[bead, 3]`` (z, y, x); -1 for a bead that does not exist yet.

        Raises
        ------
        ConfigError
            A bead is outside of the lattice.
        """
        result = np.floor(self.positions / grid.spacing)
        outside = ((result < 0) | (result >= np.array(grid.shape))).any(axis=1)
        if outside.any():
            raise ConfigError(
                f"{self.name}: {int(outside.sum())} beads are outside of the lattice of "
                f"{list(grid.shape)} sites, such as bead {int(np.argmax(outside))}"
            )
        return np.where(np.isnan(result), -1.0, result).astype(np.int64)

    def mask(self, grid: Grid) -> BoolArray:
        """Sites that hold a bead, bool ``[z, y, x]``, for example for `LatticeView.paint`."""
        mask = np.zeros(grid.shape, bool)
        sites = self.sites(grid)
        mask[tuple(sites[sites[:, 0] >= 0].T)] = True
        return mask

    def move_genes(self, view: LatticeView, genes: Mapping[str, int]) -> None:
        """Move particles to the sites of their beads, in a hook.

        Parameters
        ----------
        view
            The lattice.
        genes
            Bead by species. All particles of the species move to this bead's site, unless the bead
            does not exist yet.
        """
        sites = self.sites(view)
        for name, bead in genes.items():
            if not 0 <= bead < len(sites):
                raise ConfigError(f"{self.name}: {name} is at bead {bead} of {len(sites)}")
        local = {name: bead for name, bead in genes.items() if sites[bead, 0] >= 0}
        removed = view.remove(list(local))
        view.add({name: np.tile(sites[bead], (removed[name], 1)) for name, bead in local.items()})


class BeadTrack(Beads):
    """Positions of beads computed by another program, with the interface of `tauslab.Polymer`.

    Parameters
    ----------
    name
        Name of the chain.
    coordinates
        Positions ``[bead, 3]`` or frames ``[frame, bead, 3]`` (z, y, x) in metres: an array or a
        ``.npy`` file; or a function ``f(t) -> [bead, 3]``.
    every
        Time between frames in seconds. At each time the latest frame is used.

    Raises
    ------
    ConfigError
        The shape is another, or `every` does not fit.
    InputFileError
        The file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import tauslab as ts
    >>> track = ts.BeadTrack("dna", np.full((3, 5, 3), [[[0]], [[1e-8]], [[2e-8]]]), every=4.0)
    >>> track.advance(6.0)
    >>> track.sites(ts.Lattice(shape=(4, 4, 4), spacing=1e-8))[0].tolist()
    [1, 1, 1]
    """

    @checks_keywords
    def __init__(self, name: str, coordinates: Coordinates, *, every: float | None = None) -> None:
        check_name(name, "the name of a chain")
        self.name, self._time = name, 0.0
        self._source = coordinates if callable(coordinates) else _in_frames(coordinates, every)
        if callable(coordinates) and every is not None:
            raise ConfigError("every= is for frames: a function has the time")
        self._positions = self._at(0.0)

    @property
    def time(self) -> float:
        """Current time in seconds."""
        return self._time

    @property
    def positions(self) -> FloatArray:
        """A copy of the positions ``[bead, 3]`` (z, y, x) in metres."""
        return self._positions.copy()

    def advance(self, t: float) -> None:
        """Take the positions of time `t` in seconds.

        Raises
        ------
        ConfigError
            `t` is before the current time.
        """
        require_later(self.name, t, self.time)
        self._positions, self._time = self._at(t), float(t)

    def _at(self, t: float) -> FloatArray:
        return as_positions(self._source(t), self.name)


def require_later(name: str, t: float, now: float) -> None:
    """Refuse a time that is before `now`, or no number."""
    if not isinstance(t, Real) or not now <= t < math.inf:
        raise ConfigError(f"{name}: t = {t!r} is not allowed: a time from {now:g} s on")


def as_positions(values: npt.ArrayLike, name: str) -> FloatArray:
    """Positions ``[bead, 3]``, copied; a `ConfigError` for anything else."""
    try:
        result = np.array(values, np.float64)
    except (TypeError, ValueError):
        result = np.zeros(0)
    if result.ndim != 2 or result.shape[1:] != (3,) or np.isinf(result).any():
        raise ConfigError(
            f"{name}: positions are numbers [bead, 3], z, y and x in metres, not an array of "
            f"{list(result.shape)}"
        )
    return result


def _in_frames(coordinates: Any, every: float | None) -> Callable[[float], Any]:
    """Positions as a function of time, of an array or a file."""
    if isinstance(coordinates, str | os.PathLike):
        path = Path(coordinates)
        try:
            coordinates = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputFileError(f"{path}: cannot be read as .npy: {error}") from None
    frames = np.asarray(coordinates)
    if frames.ndim == 2 and every is None:
        return lambda _: frames
    if frames.ndim != 3 or not len(frames) or not isinstance(every, Real) or not every > 0:
        raise ConfigError(
            f"coordinates of {list(frames.shape)} with every={every!r}: [bead, 3], or "
            "[frame, bead, 3] with every= above 0, is expected"
        )
    last = len(frames) - 1
    # A time that rounding puts just before a frame has that frame: 3 * 0.1 > 0.3.
    return lambda t: frames[int(min(last, t / float(every) * (1 + _ROUNDING)))]
