"""What a lattice run left behind: numbers over time, frames, and how they look."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.model.errors import ConfigError
from tauslab.model.pictures.html import escape
from tauslab.runner.options.lattice import LatticeChoices
from tauslab.runner.options.values.stored import values_in
from tauslab.runner.output.checking.lattice import CheckedLattice
from tauslab.runner.output.checking.opening import METHOD_OF_LATTICES, kind_of, open_hdf5
from tauslab.runner.results.lattice.recorded import FloatArray, IntArray, RecordedLattice
from tauslab.runner.results.lattice.tables import (
    lattice_result_html,
    lattice_table,
    lattice_to_xarray,
)
from tauslab.runner.results.tables import to_pandas

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tauslab.model.pictures.view import View3d

METHOD = METHOD_OF_LATTICES


def is_lattice_result(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds the result of a lattice run; False also for what is not HDF5."""
    return kind_of(path) == METHOD


def stored_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The options that a lattice result was made with, by the names of `LatticeOptions`."""
    path = Path(path)
    with open_hdf5(path) as file:
        found = CheckedLattice(path, file).attributes
        return {
            **values_in(found, LatticeChoices),
            "t_end": float(found["steps"]) * float(found["step"]),
            "set": {n[4:]: float(v) for n, v in found.items() if n.startswith("set_")},
        }


class LatticeResult(RecordedLattice):
    """An open lattice file; ``docs/lattices.md`` tells what is in it.

    ``species`` are its names, ``times`` its sample times ``[sample]`` in seconds, ``n_replicas``
    how many runs it holds, ``path`` the file. A ``with`` block closes it at its end. Of a run that
    was stopped, or still goes on, it shows what there was when it was opened.

    Parameters
    ----------
    path
        File that `tauslab rdme` wrote.
    replica
        Which one is meant, in a file with several.

    Raises
    ------
    InputFileError
        The file is missing, is no lattice result, or lacks a dataset.
    ConfigError
        There is no such replica.
    """

    def __repr__(self) -> str:
        """One line: what was run, where it lies."""
        if not self._opened:
            return f"<LatticeResult {self.path}: closed>"
        shown = ", ".join(self.species[:4]) + (", ..." if len(self.species) > 4 else "")
        replicas = f"{self.n_replicas} replicas, " if self._lead else ""
        until = f" to t = {self.times[-1]:g} s" if len(self.times) else ""
        state = "" if self.complete else f", unfinished (t_end = {self.all_times[-1]:g} s)"
        return (
            f"<LatticeResult {self.path}: {replicas}{len(self.times)} samples{until}, "
            f"{len(self.frame_times)} frames, {len(self.species)} species "
            f"({shown}), seed {self.attributes['seed']}{state}>"
        )

    def _repr_html_(self) -> str:
        return lattice_result_html(self) if self._opened else f"<code>{escape(repr(self))}</code>"

    def __getitem__(self, species: str) -> IntArray | FloatArray:
        """`counts` of a species on the whole lattice ``[sample]``; ``"time"`` gives `times`."""
        return self.times if species == "time" else self.counts(species)

    def keys(self) -> tuple[str, ...]:
        """Names that ``result[name]`` takes."""
        return ("time", *self.species)

    def __iter__(self) -> Iterator[str]:
        """Names, as of a dict."""
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        """Whether ``result[name]`` is known."""
        return name in self.keys()

    def __reduce__(self) -> tuple[type[LatticeResult], tuple[Path, int]]:
        """A copy, as another process gets it, opens the file for itself."""
        if self._forget is not None:
            raise ConfigError(
                f"{self.path} is a temporary file that goes with this result: give the run an "
                "output= to use its result in another process"
            )
        return LatticeResult, (self.path.absolute(), self._lead[0] if self._lead else 0)

    # ---------------------------------------------------------------- other libraries

    def to_xarray(self, frames: str | Sequence[str] = ()) -> xarray.Dataset:
        """Counts of all replicas as an `xarray.Dataset`, with dimensions replica, time, species.

        ``counts`` and ``counts_by_site_type`` are numbers of particles, NaN where a replica is not
        so far yet; ``time`` has its unit.

        Parameters
        ----------
        frames
            Species whose particles in each site are added too, of this replica: ``density``
            ``[species, frame, z, y, x]``, all in memory.
        """
        names = (frames,) if isinstance(frames, str) else tuple(frames)
        return lattice_to_xarray(self, names)

    def to_pandas(self, names: Sequence[str] = ()) -> pd.DataFrame:
        """Counts as a `pandas.DataFrame`: a row per sample, and first those of replica 0.

        `names` leaves out other species. Raises a `ConfigError` without pandas.
        """
        return to_pandas(lattice_table(self, names, every_replica=True))

    def plot(
        self,
        name: str | Sequence[str] | None = None,
        kind: str = "auto",
        path: str | os.PathLike[str] | None = None,
        t: float | None = None,
        *,
        axis: str | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw the run; needs matplotlib. A notebook shows what is returned.

        Parameters
        ----------
        name
            One or several; by default the first that there is room for.
        kind
            ``counts`` over time, ``mean`` of all replicas with a band, ``kymograph`` along an axis
            over time, or ``slice`` in the middle across an axis. ``auto`` is ``mean`` where there
            are several replicas, else ``counts``.
        path
            File to write too: PNG, SVG or PDF by its suffix.
        t
            Time of a slice; by default the last frame.
        axis
            Of a kymograph, by default the longest; across a slice, by default the shortest.
        ax
            Axes of a matplotlib figure of your own to draw a single panel in.

        Raises
        ------
        ConfigError
            An unknown kind, name, axis or suffix, no frames, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        from tauslab.runner.plots.lattice import plot_lattice  # only who draws waits for it

        names = [name] if isinstance(name, str) else name
        return plot_lattice(self, kind, names, t, axis, None if path is None else Path(path), ax)

    def movie(
        self,
        path: str | os.PathLike[str],
        name: str | Sequence[str] | None = None,
        *,
        axis: str | None = None,
        seconds: float = 8.0,
    ) -> Path:
        """Write the slices of all frames as a movie; needs matplotlib, and ffmpeg for MP4.

        Parameters
        ----------
        path
            ``.gif``, or ``.mp4`` where the program ffmpeg is installed.
        name, axis
            As for the slices of `plot`.
        seconds
            How long it takes.

        Raises
        ------
        ConfigError
            An unknown name, axis or suffix, no frames, no matplotlib, or no ffmpeg.
        OutputError
            It cannot be written.
        """
        from tauslab.runner.plots.movie import write_movie  # only who draws waits for it

        names = [name] if isinstance(name, str) else name
        return write_movie(self, Path(path), names, axis, seconds)

    def view(self, t: float | None = None, name: str | Sequence[str] | None = None) -> View3d:
        """A picture in three dimensions of a frame, to be turned in a notebook or a browser.

        Needs plotly. Of many particles or sites some are left out, and a line says how many.

        Parameters
        ----------
        t
            Time of the frame; by default the last.
        name
            Species to show; by default the first that there is room for.

        Returns
        -------
        What a notebook shows; its `save` writes a page of HTML, and `figure` is plotly's.

        Raises
        ------
        ConfigError
            An unknown name, no frames, or no plotly.
        """
        from tauslab.runner.plots.view import view_frame  # only who draws waits for it

        return view_frame(self, t, [name] if isinstance(name, str) else name)
