"""The result of a lattice run: numbers over time, frames, pictures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.door import behind_door
from tauslab.base.errors import ConfigError
from tauslab.base.html import escape
from tauslab.base.option_names import warn
from tauslab.options.lattice import LatticeChoices
from tauslab.options.sweep import Sweep
from tauslab.options.values.definition import values_in
from tauslab.store.checking.lattice import CheckedLattice
from tauslab.store.checking.opening import METHOD_OF_LATTICES, kind_of, open_hdf5
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.results.digest import digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.store.results.lattice.tables import (
    ensemble_of,
    lattice_result_html,
    lattice_table,
    lattice_to_xarray,
)
from tauslab.store.results.result import Result
from tauslab.store.results.tables import to_pandas

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tauslab.base.view3d import View3d

METHOD = METHOD_OF_LATTICES


def is_lattice_result(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds the result of a lattice run; False also for what is not HDF5."""
    return kind_of(path) == METHOD


def stored_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The options that a lattice result was made with, by the names of `LatticeOptions`."""
    path = Path(path)
    with open_hdf5(path) as file:
        checked = CheckedLattice(path, file)
        attributes = checked.attributes
        return {
            **values_in(attributes, LatticeChoices),
            "t_end": float(attributes["steps"]) * float(attributes["step"]),
            "set": {n[4:]: float(v) for n, v in attributes.items() if n.startswith("set_")},
            "sweep": _stored_sweep(path, checked, attributes),
            "engine": attributes.get("engine", "slots"),
            "all_replicas": int(attributes.get("all_replicas", 0)),
        }


def warn_of_hooks(path: str | os.PathLike[str]) -> None:
    """Warn of a run that is made again without the hooks that the result's run had."""
    with open_hdf5(Path(path)) as file:
        hooks = CheckedLattice(Path(path), file).attributes.get("hooks", "none")
    if hooks != "none":
        warn(f"{path} was made with hooks ({hooks}), which a file does not hold: this run has none")


def _stored_sweep(path: Path, file: CheckedLattice, attributes: Mapping[str, Any]) -> Sweep | None:
    if "sweep" not in attributes:
        return None
    names, grid = tuple(str(attributes["sweep"]).split(",")), attributes.get("grid")
    values = np.stack([file[f"sweep/{name}"][()] for name in names], axis=1)
    sides = None if grid is None else tuple(map(int, str(grid).split(",")))
    return Sweep(names, values, sides, str(path))


class LatticeResult(RecordedLattice):
    """An open lattice file; ``docs/lattices.md`` describes its contents.

    `species` are the names of the species, `times` the sample times ``[sample]`` in seconds,
    `n_replicas` the number of runs at each of `n_points` points, `path` the file. A ``with`` block
    closes the file. The file of a running simulation is read as it was when it was opened.

    With a sweep, `points` are the values ``[point]`` by name, and the first axis of counts is the
    point; `at` returns the result of one point, with its frames.

    Parameters
    ----------
    path
        File that `tauslab rdme` wrote.
    replica
        Number of the replica, in a file with several.
    point
        Point of a sweep; by default all.

    Raises
    ------
    InputFileError
        The file is missing, is no lattice result, or lacks a dataset.
    ConfigError
        There is no such replica, or no such point.
    """

    def __repr__(self) -> str:
        """One line: what was run, where it lies."""
        if not self._opened:
            return f"<LatticeResult {self.path}: closed>"
        place = "in memory" if self._in_memory else self.path
        shown = ", ".join(self.species[:4]) + (", ..." if len(self.species) > 4 else "")
        replicas = (
            f"{self.n_replicas} replicas (`counts`: {self.replica}), "
            if self.n_replicas > 1
            else ""
        )
        if self.whole_sweep:
            over = ", ".join(self.points)
            replicas = f"{self.n_points} points over {over}, {replicas}"
        elif self.swept:
            at = ", ".join(f"{name} = {value:g}" for name, value in self.values.items())
            replicas = f"point {self.point} ({at}), {replicas}"
        until = f" to t = {self.times[-1]:g} s" if len(self.times) else ""
        state = "" if self.complete else f", unfinished: {self.unfinished}"
        if self.truncated_passes:
            state += f", reactions lost in {self.truncated_passes} passes of sites"
        return (
            f"<LatticeResult {place}: {replicas}{len(self.times)} samples{until}, "
            f"{len(self.frame_times)} frames, {len(self.species)} species "
            f"({shown}), seed {self.attributes['seed']}{state}>"
        )

    def _repr_html_(self) -> str:
        return lattice_result_html(self) if self._opened else f"<code>{escape(repr(self))}</code>"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a result in memory to a file, as a run with ``output=`` would have.

        All replicas and points are written.

        Parameters
        ----------
        overwrite
            Replace a file that is there.

        Raises
        ------
        ConfigError
            The result lies in a file already; or the name is that of a table or a picture.
        OutputError
            The file is there already, or cannot be written.
        """
        saves = self._folder is not None and self._folder.saves
        own = self._new_file(path, overwrite=overwrite or not saves)
        if saves:
            publish(own, Disk(), self._copy)
        return own

    def _copy(self, draft: Path) -> None:
        shutil.copyfile(self.path, draft)

    def __getitem__(self, species: str) -> IntArray | FloatArray:
        """`counts` of a species on the whole lattice; ``"time"`` gives `times`."""
        return self.times if species == "time" else self.counts(species)

    def keys(self) -> tuple[str, ...]:
        """Names that ``result[name]`` takes."""
        return ("time", *self.species)

    def at(self, point: int | None = None, *, replica: int | None = None, **values: float) -> Self:
        """The result of one point of a sweep, selected by its number or by swept values.

        ``at(replica=3)`` is the result of another replica of the same point, or of a run without a
        sweep.

        Parameters
        ----------
        replica
            Replica; by default the same.
        values
            Such as ``at(D=1e-12)``: the first point with these values, to nine digits.

        Raises
        ------
        ConfigError
            There is no such point.
        """
        number = point
        if point is None:
            number = self._point_with(values) if values or replica is None else self.point
        which = self.replica if replica is None else replica
        return type(self)(self.path, which, number, self._folder)

    def _point_with(self, values: Mapping[str, float]) -> int:
        if not values:
            raise ConfigError("at() takes the number of a point, or values of what was swept")
        return int(self.points_with(values)[0])

    def as_ensemble(self, site_type: str | None = None) -> Result:
        """Counts of all replicas as a `Result` in memory, whose trajectories are the replicas.

        Parameters
        ----------
        site_type
            Count particles in these sites only.
        """
        return ensemble_of(self, site_type)

    def __reduce__(self) -> tuple[type[LatticeResult], tuple[Path, int, int | None]]:
        """A copy, as another process gets it, opens the file for itself."""
        if self._in_memory:
            raise ConfigError(
                f"{self.path} is a temporary file that goes with this result: give the run an "
                "output= to use its result in another process"
            )
        return LatticeResult, (self.path.absolute(), self.replica, self.point)

    def digest(self) -> str:
        """SHA-256 of all replicas and points, the total that ``tauslab digest`` prints.

        Raises
        ------
        InputFileError
            The result is unfinished.
        """
        return digest_total(lattice_digest_lines(self.path))

    # ---------------------------------------------------------------- other libraries

    def to_xarray(self, frames: str | Sequence[str] = ()) -> xarray.Dataset:
        """Counts of all replicas as an `xarray.Dataset`, with dimensions replica, time, species.

        In a sweep the first dimension is ``point``, with the swept values as coordinates.

        ``counts`` and ``counts_by_site_type`` are NaN for unfinished replicas; ``time`` has its
        unit.

        Parameters
        ----------
        frames
            Species whose particles in each site are added too, of this replica: ``density``
            ``[species, frame, z, y, x]``, all in memory.
        """
        names = (frames,) if isinstance(frames, str) else tuple(frames)
        return lattice_to_xarray(self, names)

    def to_pandas(self, names: Sequence[str] = (), what: str | None = None) -> pd.DataFrame:
        """Counts as a `pandas.DataFrame`: a row per sample, replica 0 first.

        `names` selects species; ``what="counts_by_site_type"`` has a row per sample and site type.

        Raises
        ------
        ConfigError
            A name is not a species, or pandas is not installed.
        """
        return to_pandas(lattice_table(self, names, what))

    def plot(
        self, name: str | Sequence[str] | None = None, kind: str = "auto",
        path: str | os.PathLike[str] | None = None, t: float | None = None, *,
        axis: str | None = None, at: int | None = None, ax: Axes | None = None,
    ) -> Figure | Path:  # fmt: skip
        """Draw the run.

        Parameters
        ----------
        name
            One or several species; by default the first few.
        kind
            ``counts`` over time; ``mean`` of all replicas with a band; ``kymograph``: density
            along an axis over time; ``slice``: the middle plane across an axis; ``movie``: the
            slices of all frames, written to `path`. ``auto`` is ``mean`` if there are several
            replicas, otherwise ``counts``. For a sweep: ``mean``, ``heatmap`` or ``histogram``
            over the swept values.
        path
            File to write too: PNG, SVG or PDF by its suffix.
        t
            Time of a slice, by default the last frame; sample time of a sweep, by default the last.
        axis
            Axis of a kymograph, by default the longest; axis across a slice, by default the
            shortest.
        at
            Plane of a slice, from 0; by default the middle one.
        ax
            Matplotlib axes in which to draw a single panel.

        Raises
        ------
        ConfigError
            An unknown kind, name, axis or suffix, no frames, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        names = [name] if isinstance(name, str) else name
        if kind == "movie":
            if path is None or (t, at, ax) != (None, None, None):
                raise ConfigError('a movie needs path="NAME.gif" or ".mp4", and no t=, at= or ax=')
            return self.movie(path, names, axis=axis)
        place = None if path is None else Path(path)
        draw = behind_door("LatticeResult.plot")
        figure: Figure = draw(self, kind, names, t, axis, place, ax, at)
        return figure

    def movie(
        self, path: str | os.PathLike[str], name: str | Sequence[str] | None = None, *,
        axis: str | None = None, seconds: float = 8.0,
    ) -> Path:  # fmt: skip
        """Write the slices of all frames as a movie.

        Parameters
        ----------
        path
            ``.gif``, or ``.mp4`` where the program ffmpeg is installed.
        name, axis
            As for the slices of `plot`.
        seconds
            Duration of the movie.

        Raises
        ------
        ConfigError
            An unknown name, axis or suffix, no frames, no matplotlib, or no ffmpeg.
        OutputError
            It cannot be written.
        """
        names = [name] if isinstance(name, str) else name
        write = behind_door("LatticeResult.movie")
        written: Path = write(self, Path(path), names, axis, seconds)
        return written

    def view(self, t: float | None = None, name: str | Sequence[str] | None = None) -> View3d:
        """Show a frame in three dimensions, in a notebook or a browser.

        Needs plotly. If there are very many particles or sites, a part is shown, with a note.

        Parameters
        ----------
        t
            Time of the frame; by default the last.
        name
            Species to show; by default the first few.

        Returns
        -------
        An object that a notebook displays; its method `save` writes an HTML page, `figure` is the
        plotly figure.

        Raises
        ------
        ConfigError
            An unknown name, no frames, or no plotly.
        """
        names = [name] if isinstance(name, str) else name
        seen: View3d = behind_door("LatticeResult.view")(self, t, names)
        return seen
