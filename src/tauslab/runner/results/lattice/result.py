"""What a lattice run left behind: counts over time and frames, which are read slab by slab."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError, InputFileError
from tauslab.model.files.damaged import reading
from tauslab.model.readers.toml_values import Naming, load_toml
from tauslab.runner.options.lattice import LatticeChoices
from tauslab.runner.options.values.stored import values_in
from tauslab.runner.output.checking.lattice import CheckedLattice
from tauslab.runner.output.checking.opening import kind_of, open_hdf5
from tauslab.runner.results.columns import texts

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
METHOD = "rdme"
AXES = ("z", "y", "x")
_SLAB = 1 << 22  # slots read at a time, about


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


class LatticeResult:
    """An open lattice file; ``docs/lattices.md`` tells what is in it.

    ``species`` are its names, ``times`` its sample times ``[sample]`` in seconds, ``n_replicas``
    how many runs it holds, ``path`` the file. A ``with`` block closes it at its end.

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

    def __init__(self, path: str | os.PathLike[str], replica: int = 0) -> None:
        self.path = Path(path)
        self._forget: Callable[[], object] | None = None
        self._opened: h5py.File = open_hdf5(self.path)
        try:
            with reading(self.path, InputFileError):
                self._checked = CheckedLattice(self.path, self._opened)
                self._read_axes(replica)
        except BaseException:
            self.close()
            raise

    def _read_axes(self, replica: int) -> None:
        self.species: tuple[str, ...] = tuple(texts(self._file["species"][()]))
        self.times: FloatArray = self._file["time"][()]
        replicated = self._file["counts"].ndim == 3
        self.n_replicas = self._file["counts"].shape[0] if replicated else 1
        if not 0 <= replica < self.n_replicas:
            raise ConfigError(
                f"replica {replica} is not in {self.path}: it has 0 to {self.n_replicas - 1}"
            )
        self._lead: tuple[int, ...] = (replica,) if replicated else ()

    @property
    def _file(self) -> CheckedLattice:
        if not self._opened:
            raise InputFileError(f"{self.path} was closed: open it again")
        return self._checked

    def close(self) -> None:
        """Close the file."""
        self._opened.close()
        if self._forget is not None:
            self._forget()

    def __repr__(self) -> str:
        """One line: what was run, where it lies."""
        if not self._opened:
            return f"<LatticeResult {self.path}: closed>"
        shown = ", ".join(self.species[:4]) + (", ..." if len(self.species) > 4 else "")
        replicas = f"{self.n_replicas} replicas, " if self._lead else ""
        return (
            f"<LatticeResult {self.path}: {replicas}{len(self.times)} samples to t = "
            f"{self.times[-1]:g} s, {len(self.frame_times)} frames, {len(self.species)} species "
            f"({shown}), seed {self.attributes['seed']}{'' if self.complete else ', unfinished'}>"
        )

    def __reduce__(self) -> tuple[type[LatticeResult], tuple[Path, int]]:
        """A copy, as another process gets it, opens the file for itself."""
        if self._forget is not None:
            raise ConfigError(
                f"{self.path} is a temporary file that goes with this result: give the run an "
                "output= to use its result in another process"
            )
        return LatticeResult, (self.path.absolute(), self._lead[0] if self._lead else 0)

    def keep_in(self, folder: Path) -> None:
        """Remove a temporary folder when the result is closed or no longer used."""
        self._forget = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()

    @property
    def attributes(self) -> dict[str, Any]:
        """What the file says of its run: seed, steps, choices made."""
        return dict(self._file.attributes)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self._file.complete

    @property
    def profile(self) -> list[dict[str, Any]]:
        """What each rank did: its planes, how these travelled, its speed; empty in old files."""
        prefix, file = "profile/", self._file
        names = [name for name in file.names if name.startswith(prefix)]
        if not names:
            return []
        with reading(self.path, InputFileError):
            columns = {name.removeprefix(prefix): file[name][()] for name in names}
        return [
            {name: _plain(values[row]) for name, values in columns.items()}
            for row in range(len(columns["rank"]))
        ]

    # ---------------------------------------------------------------- over time

    @property
    def site_types(self) -> tuple[str, ...]:
        """Names of the site types by number."""
        return tuple(self._model["site_types"])

    @property
    def spacing(self) -> float:
        """Edge of a site in metres."""
        return float(self._model["spacing"])

    @cached_property
    def _model(self) -> dict[str, Any]:
        """The table ``[lattice]`` of the model in the file."""
        if "model/canonical" not in self._file:
            raise InputFileError(f"{self.path} holds no model, as /model/canonical")
        value = self._file["model/canonical"][()]
        with reading(self.path, InputFileError), Naming(f"{self.path}: /model/canonical"):
            table: dict[str, Any] = load_toml(value.decode())["lattice"]
        return table

    def number(self, species: str) -> int:
        """Number of a species; a `ConfigError` if there is none of that name."""
        if species not in self.species:
            raise ConfigError(
                f"{species!r} is not a species of {self.path}; it has {', '.join(self.species)}"
            )
        return self.species.index(species)

    def counts(self, species: str, site_type: str | None = None) -> IntArray:
        """Particles of a species ``[sample]``, on the whole lattice or in a site type.

        Raises
        ------
        ConfigError
            There is no such species or site type.
        """
        which = self.number(species)
        if site_type is None:
            return np.asarray(self._read("counts", (slice(None), which)), np.int64)
        if site_type not in self.site_types:
            known = ", ".join(self.site_types) or "none"
            raise ConfigError(f"{site_type!r} is not a site type of {self.path}; it has {known}")
        index = self.site_types.index(site_type)
        return np.asarray(self._read("counts_by_site_type", (slice(None), index, which)), np.int64)

    def _read(self, name: str, index: tuple[Any, ...]) -> npt.NDArray[Any]:
        if name not in self._file:
            raise ConfigError(f"{self.path} has no /{name}")
        with reading(self.path, InputFileError):
            return np.asarray(self._file[name][(*self._lead, *index)])

    # ---------------------------------------------------------------- frames

    @property
    def frame_times(self) -> FloatArray:
        """Times of the frames ``[frame]``, in seconds; empty if none were recorded."""
        if "lattice/time" not in self._file:
            return np.zeros(0)
        times: FloatArray = self._file["lattice/time"][()]
        return times

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""
        self._need_frames()
        z, y, x = self._file["lattice/particles"].shape[-4:-1]
        return int(z), int(y), int(x)

    def frame_at(self, t: float | None) -> int:
        """Number of the last frame at or before `t`, by default the last of all."""
        self._need_frames()
        if t is None:
            return len(self.frame_times) - 1
        before = np.flatnonzero(self.frame_times <= t)
        if not len(before):
            raise ConfigError(f"t = {t:g} is before the first frame at {self.frame_times[0]:g}")
        return int(before[-1])

    def density(self, species: str, frame: int) -> npt.NDArray[np.uint8]:
        """Particles of a species in each site ``[z, y, x]``, at frame number `frame`.

        Raises
        ------
        ConfigError
            There is no such species, or no frames were recorded.
        """
        slabs = [slab for _, slab in self.slabs(species, frame)]
        return np.concatenate(slabs)

    def slabs(self, species: str, frame: int) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """First plane and `density` of slabs that together are the lattice, one after another."""
        stored = self.number(species) + 1  # 0 is an empty slot
        z, y, x = self.shape
        slots = self._file["lattice/particles"].shape[-1]
        planes = max(1, _SLAB // (y * x * slots))
        for at in range(0, z, planes):
            particles = self._read("lattice/particles", (frame, slice(at, at + planes)))
            yield at, (particles == stored).sum(axis=-1, dtype=np.uint8)

    def sites(self, frame: int) -> npt.NDArray[np.uint8] | None:
        """Site types ``[z, y, x]`` at a frame; None if they were not recorded."""
        if "lattice/sites" not in self._file:
            return None
        stored = self._file["lattice/sites"]
        lead = self._lead if stored.ndim == 5 else ()  # older files: one for all replicas
        return np.asarray(stored[(*lead, min(frame, stored.shape[-4] - 1))], np.uint8)

    def kymograph(self, species: str, axis: str | None = None) -> IntArray:
        """Particles of a species in each plane across an axis ``[frame, position]``.

        Parameters
        ----------
        axis
            ``z``, ``y`` or ``x``; by default the longest.
        """
        along = self.axis(axis, longest=True)
        others = tuple(i for i in range(3) if i != along)
        lines = np.zeros((len(self.frame_times), self.shape[along]), np.int64)
        for frame in range(len(lines)):
            for at, slab in self.slabs(species, frame):
                summed = slab.sum(axis=others, dtype=np.int64)
                if along == 0:
                    lines[frame, at : at + len(summed)] = summed
                else:
                    lines[frame] += summed
        return lines

    def axis(self, name: str | None, *, longest: bool) -> int:
        """Number of an axis; without a name, the longest or the shortest of the lattice."""
        if name is None:
            return int(np.argmax(self.shape) if longest else np.argmin(self.shape))
        if name not in AXES:
            raise ConfigError(f"{name!r} is not an axis; axes: {', '.join(AXES)}")
        return AXES.index(name)

    def _need_frames(self) -> None:
        if not self.complete and self.attributes["frame_every"]:
            raise ConfigError(
                f"{self.path} is unfinished, and its frames are joined at the end: tauslab rdme "
                "--resume completes it"
            )
        if "lattice/particles" not in self._file or not len(self.frame_times):
            raise ConfigError(f"{self.path} has no frames: run with --frame-every N")


def _plain(value: Any) -> Any:
    found = value.item() if isinstance(value, np.generic) else value
    return found.decode() if isinstance(found, bytes) else found
