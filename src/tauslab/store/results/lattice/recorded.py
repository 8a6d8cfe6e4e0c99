"""Records of a lattice run: counts over time and frames, which are read slab by slab."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.opening import reading
from tauslab.base.option_names import Spelling, assigned, know, opt
from tauslab.formats.toml.values import Naming, load_toml
from tauslab.kernels.lattice.state import GONE, TRACKED
from tauslab.store.checking.lattice import MARKS, CheckedLattice
from tauslab.store.checking.opening import open_hdf5
from tauslab.store.format.versions import writers_of
from tauslab.store.results.columns import quantile_levels, sorted_quantiles, texts
from tauslab.store.results.lattice.frames import (
    Dimensions,
    FrameParts,
    Frames,
    StoredFrames,
    axis_number,
    species_number,
)
from tauslab.store.results.of_run import RunResult, require_some

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


know("point", Spelling("--point", python=lambda point: f"result.at({point})"))


class TemporaryFolder:
    """The folder of a result in memory, which goes with the last object that reads its file.

    Of several ranks that with `saves` removes it, and writes the result where it is saved.
    """

    def __init__(self, path: Path, *, saves: bool) -> None:
        self.saves = saves
        self._remove = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        if not saves:
            self._remove.detach()

    def remove(self) -> None:
        """Remove it now."""
        self._remove()


class RecordedLattice(RunResult):
    """Counts and frames in the file of a lattice run; users get a `LatticeResult`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        replica: int = 0,
        point: int | None = None,
        folder: TemporaryFolder | None = None,
    ) -> None:
        self.path, self.warned = Path(path), False
        self._folder = folder
        self._opened: h5py.File = open_hdf5(self.path)
        try:
            with reading(self.path, InputFileError):
                self._checked = CheckedLattice(self.path, self._opened)
                self._read_axes(replica, point)
        except BaseException:
            self.close()
            raise

    def _read_axes(self, replica: int, point: int | None) -> None:
        file = self.data
        self.species: tuple[str, ...] = tuple(texts(file["species"][()]))
        self.all_times: FloatArray = file["time"][()]
        names = str(file.attributes["sweep"]).split(",") if "sweep" in file.attributes else []
        self.points: dict[str, FloatArray] = {name: file[f"sweep/{name}"][()] for name in names}
        self.n_points = len(self.points[names[0]]) if names else 1
        self.n_replicas = int(file.attributes["replicas"])
        self.replica, self.point = replica, point
        if not 0 <= replica < self.n_replicas:
            raise ConfigError(
                f"replica {replica} is not in {self.name}: it has 0 to {self.n_replicas - 1}"
            )
        if point is not None and not 0 <= point < self.n_points:
            raise ConfigError(
                f"point {point} is not in {self.name}: it has 0 to {self.n_points - 1}"
            )
        self._lead: tuple[Any, ...] = (replica,) if self.n_replicas > 1 else ()
        if self.swept:
            self._lead = (slice(None) if point is None else point, *self._lead)
        marks = file[MARKS][()].reshape(self.n_points, self.n_replicas)
        reached = marks[:, replica] if point is None else marks[point, replica]
        self.times: FloatArray = self.all_times[: int(np.max(reached))]

    @property
    def whole_sweep(self) -> bool:
        """Return whether all points of a sweep are meant, so that arrays have an axis of points."""
        return self.swept and self.point is None

    @property
    def values(self) -> dict[str, float]:
        """Value of each swept name at the point that is meant; empty without one."""
        if self.point is None:
            return {}
        return {name: float(values[self.point]) for name, values in self.points.items()}

    @cached_property
    def truncated_passes(self) -> int:
        """Passes of a site that lost reactions, of all replicas and points: see ``docs/rdme.md``.

        0 in files of versions that did not count them.
        """
        if "truncated_passes" not in self.data:
            return 0
        return int(np.maximum(self.data["truncated_passes"][()].max(axis=-1), 0).sum())

    @cached_property
    def most_waiting(self) -> int | None:
        """Maximum number of waiting particles at a sample of any replica and point."""
        if "waiting" not in self.data:
            return None
        return int(self.data["waiting"][()].max(initial=0))

    @property
    def data(self) -> CheckedLattice:
        """Datasets of the file by name, each compared with its checksum."""
        if not self._opened:
            raise InputFileError(f"{self.path} was closed: open it again")
        return self._checked

    def close(self) -> None:
        """Close the file."""
        self._opened.close()
        if self._folder is not None and self.point is None:  # points are of the same file
            self._folder.remove()

    @property
    def _in_memory(self) -> bool:
        return self._folder is not None

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the file: seed, steps, choices made."""
        return dict(self.data.attributes)

    @property
    def complete(self) -> bool:
        """Return whether the run is complete."""
        return self.data.complete

    @property
    def written_by(self) -> tuple[str, ...]:
        """Versions of the program that wrote the file, the first one first."""
        return writers_of(self.data) or (str(self.attributes["tauslab_version"]),)

    @property
    def unfinished(self) -> str:
        """Description of the finished part of an unfinished run; empty for a complete run."""
        if self.complete:
            return ""
        marks, samples = self.data[MARKS][()], len(self.all_times)
        reached = self.times[-1] if len(self.times) else 0
        return (
            f"{int(marks.sum()):,} of {marks.size * samples:,} samples, t = {reached:g} of "
            f"{self.all_times[-1]:g} s"
        )

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
        if "model/canonical" not in self.data:
            raise InputFileError(f"{self.path} holds no model, as /model/canonical")
        value = self.data["model/canonical"][()]
        with reading(self.path, InputFileError), Naming(f"{self.path}: /model/canonical"):
            table: dict[str, Any] = load_toml(value.decode())["lattice"]
        return table

    def counts(self, species: str, site_type: str | None = None) -> IntArray:
        """Particles of a species ``[sample]``, on the whole lattice or in a site type.

        For several replicas, these are the counts of the first, or of the one that
        ``at(replica=)`` selected; `replica_counts` has all. In a sweep ``[point, sample]``.

        Raises
        ------
        ConfigError
            There is no such species or site type.
        InputFileError
            The run is unfinished and has no sample yet, or has unfinished points.
        """
        return self._all_there(self.samples_of(species, site_type))

    @property
    def waiting(self) -> IntArray:
        """Number of particles that wait for a slot ``[sample]``; `counts` includes them.

        In a sweep ``[point, sample]``.

        Raises
        ------
        InputFileError
            The run is unfinished, as of `counts`; or a version of tauslab wrote the file that did
            not record them.
        """
        if "waiting" not in self.data:
            raise InputFileError(
                f"{self.name} has no /waiting: tauslab {self.written_by[0]} wrote it, which did "
                "not record particles that wait"
            )
        require_some(self, "sample", there=len(self.times) > 0)
        return self._all_there(np.asarray(self._read("waiting", (slice(len(self.times)),))))

    @cached_property
    def reactions(self) -> tuple[str, ...]:
        """Names of the reactions, in the order of the model."""
        return tuple(texts(self.data["reaction"][()])) if "reaction" in self.data else ()

    def fired(self, reaction: str) -> IntArray:
        """Number of firings of a reaction since t = 0 ``[sample]``.

        In a sweep ``[point, sample]``.

        Raises
        ------
        ConfigError
            There is no such reaction.
        InputFileError
            The run is unfinished, as of `counts`.
        """
        if reaction not in self.reactions:
            known = ", ".join(self.reactions[:12]) or "none"
            raise ConfigError(f"{reaction!r} is no reaction of {self.name}; reactions: {known}")
        require_some(self, "sample", there=len(self.times) > 0)
        column = self.reactions.index(reaction)
        rows = self._read("reactions_fired", (slice(len(self.times)), column))
        return self._all_there(np.asarray(rows))

    def object_positions(self, name: str) -> FloatArray:
        """Positions ``[sample, object, 3]`` (z, y, x) in metres of the objects of t = 0.

        These are the centres of the sites of their particles, unwrapped across periodic faces; NaN
        after an object has disappeared.

        Raises
        ------
        ConfigError
            The name is of no object.
        """
        names = texts(self.data["object"][()]) if "object" in self.data else []
        own = [at for at, one in enumerate(names) if one.rpartition(" ")[0] == name]
        if not own:
            known = sorted({one.rpartition(" ")[0] for one in names})
            raise ConfigError(f"{name!r} is no object of {self.name}: {', '.join(known) or 'none'}")
        result = self._read(TRACKED.name, (slice(len(self.times)),))[..., own, :]
        return np.where(result == GONE, np.nan, (result + 0.5) * self.spacing)

    def samples_of(self, species: str, site_type: str | None = None) -> IntArray:
        """Numbers as of `counts`, with -1 where a point of an unfinished sweep is not so far."""
        name, index = self._counted(species, site_type)
        return np.asarray(self._read(name, (slice(len(self.times)), *index)), np.int64)

    def _all_there(self, values: IntArray) -> IntArray:
        if (values < 0).any():
            raise InputFileError(
                f"{self.name} is unfinished ({self.unfinished}), and not all of its runs are so "
                "far: take mean(), quantile(), to_pandas() or to_xarray(), or complete it with "
                f"{opt('resume')}"
            )
        return values

    def replica_counts(self, species: str, site_type: str | None = None) -> IntArray:
        """Counts of all replicas ``[replica, sample]``; in a sweep ``[point, replica, sample]``."""
        return self._all_there(self.replica_samples_of(species, site_type))

    def replica_samples_of(self, species: str, site_type: str | None = None) -> IntArray:
        """Numbers as of `replica_counts`, with -1 where a replica is not so far yet."""
        name, index = self._counted(species, site_type)
        lead = self._lead[:1] if self.swept else ()
        with reading(self.path, InputFileError):
            values = self.data[name][(*lead, ..., slice(len(self.times)), *index)]
        points = (self.n_points,) if self.whole_sweep else ()
        return np.asarray(values, np.int64).reshape(*points, self.n_replicas, len(self.times))

    def mean(self, species: str, site_type: str | None = None) -> FloatArray:
        """Mean of `counts` over the replicas ``[sample]``; of a sweep ``[point, sample]``."""
        values = self._of_replicas(species, site_type)
        return np.asarray(values.mean(axis=-2).filled(np.nan), np.float64)

    def variance(self, species: str, site_type: str | None = None) -> FloatArray:
        """Variance over the replicas (divided by n - 1) ``[sample]``; NaN for one.

        In a sweep ``[point, sample]``.
        """
        values = self._of_replicas(species, site_type)
        if self.n_replicas < 2:
            return np.full((*values.shape[:-2], values.shape[-1]), np.nan)
        return np.asarray(values.var(axis=-2, ddof=1).filled(np.nan), np.float64)

    def std(self, species: str, site_type: str | None = None) -> FloatArray:
        """Square root of `variance`, ``[sample]``."""
        return np.sqrt(self.variance(species, site_type))

    def sem(self, species: str, site_type: str | None = None) -> FloatArray:
        """Standard error of `mean`, `std` over the root of the number of replicas ``[sample]``."""
        number = self._of_replicas(species, site_type).count(axis=-2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.std(species, site_type) / np.sqrt(number))

    def quantile(
        self, species: str, q: float | Sequence[float], site_type: str | None = None
    ) -> FloatArray:
        """Quantiles over the replicas, ``[sample]`` or ``[level, sample]``, as `Result.quantile`.

        In a sweep the first axis is the point.

        Raises
        ------
        ConfigError
            A level outside 0 to 1, or an unknown name.
        """
        levels = quantile_levels(q)
        quantiles = sorted_quantiles(self.replica_samples_of(species, site_type), levels)
        return quantiles if np.ndim(q) else quantiles[..., 0, :]

    def _of_replicas(self, species: str, site_type: str | None) -> Any:
        values = self.replica_samples_of(species, site_type)
        return np.ma.masked_less(values, 0)

    def _counted(self, species: str, site_type: str | None) -> tuple[str, tuple[int, ...]]:
        """Dataset of counts, and the index behind that of samples."""
        which = species_number(species, self.species, self.name)
        require_some(self, "sample", there=len(self.times) > 0)
        if site_type is None:
            return "counts", (which,)
        if site_type not in self.site_types:
            known = ", ".join(self.site_types) or "none"
            raise ConfigError(f"{site_type!r} is not a site type of {self.name}; it has {known}")
        return "counts_by_site_type", (self.site_types.index(site_type), which)

    def _read(self, name: str, index: tuple[Any, ...]) -> npt.NDArray[Any]:
        if name not in self.data:
            raise ConfigError(f"{self.name} has no /{name}")
        with reading(self.path, InputFileError):
            return np.asarray(self.data[name][(*self._lead, *index)])

    # ---------------------------------------------------------------- frames

    @property
    def frame_times(self) -> FloatArray:
        """Times of the frames ``[frame]``, in seconds; empty if none were recorded."""
        return self._frames.times

    @cached_property
    def _frames(self) -> Frames:
        attributes, of = self.attributes, Dimensions(self.name, self.shape, self.species)
        if self.complete or not attributes["frame_every"]:
            return StoredFrames(of, self.path, lambda: self.data, self._lead)
        run = (self.point or 0) * self.n_replicas + self.replica
        return FrameParts(of, self.path, run, attributes)

    @property
    def frames(self) -> Frames:
        """The frames of this replica, of which there is one at least.

        Raises
        ------
        ConfigError
            No frames were recorded, none is there yet, or all points of a sweep are meant.
        """
        if self.whole_sweep:
            raise ConfigError(
                f"{self.name} is a sweep of {self.n_points} points: name one, {opt('point', 0)}"
            )
        if len(self.frame_times):
            return self._frames
        if isinstance(self._frames, FrameParts):
            raise ConfigError(f"{self.name} is unfinished, and has no frame of this replica yet")
        raise ConfigError(f"{self.name} has no frames: run with {assigned('frame_every')}N")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""
        z, y, x = self._model["shape"]
        return int(z), int(y), int(x)

    def density(self, species: str, frame: int) -> npt.NDArray[np.int32]:
        """Particles of a species in each site ``[z, y, x]``, at frame number `frame`.

        Raises
        ------
        ConfigError
            There is no such species or frame, or no frames were recorded.
        """
        slabs = [slab for _, slab in self.frames.slabs(species, frame)]
        return np.concatenate(slabs, dtype=np.int32)  # signed: differences do not wrap

    def sites(self, frame: int) -> npt.NDArray[np.uint8] | None:
        """Site types ``[z, y, x]`` at a frame; None if they were not recorded."""
        return self._frames.sites(frame)

    def kymograph(self, species: str, axis: str | None = None) -> IntArray:
        """Particles of a species in each plane across an axis ``[frame, position]``.

        Parameters
        ----------
        axis
            ``z``, ``y`` or ``x``; by default the longest.
        """
        frames, along = self.frames, axis_number(axis, self.shape, longest=True)
        others = tuple(i for i in range(3) if i != along)
        lines = np.zeros((len(frames.times), self.shape[along]), np.int64)
        for frame in range(len(lines)):
            for at, slab in frames.slabs(species, frame):
                summed = slab.sum(axis=others, dtype=np.int64)
                if along == 0:
                    lines[frame, at : at + len(summed)] = summed
                else:
                    lines[frame] += summed
        return lines
