"""Frames of a lattice run, read slab by slab: from its file, or from parts until it is complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.opening import reading
from tauslab.formats.lattice_hdf5 import read_lattice_file
from tauslab.options.values.texts import formula_hint
from tauslab.store.checking.lattice import CheckedLattice
from tauslab.store.lattice.parts import CHECKPOINT, OpenPart, covering, list_parts, open_part
from tauslab.store.targets import parts_folder

Slab = tuple[int, npt.NDArray[Any]]  # the first plane, and an array [z, y, x, ...]
AXES = ("z", "y", "x")
_SLAB = 1 << 22  # slots read at a time, about


def species_number(name: str, species: Sequence[str], of: str) -> int:
    """Number of a species; a `ConfigError` where the result `of` has none of that name."""
    if name not in species:
        raise ConfigError(
            f"{name!r} is not a species of {of}; it has {', '.join(species)}"
            f"{formula_hint(name, species)}"
        )
    return species.index(name)


def axis_number(name: str | None, shape: Sequence[int], *, longest: bool) -> int:
    """Number of an axis; without a name, the longest or the shortest of the lattice."""
    if name is None:
        return int(np.argmax(shape) if longest else np.argmin(shape))
    if name not in AXES:
        raise ConfigError(f"{name!r} is not an axis; axes: {', '.join(AXES)}")
    return AXES.index(name)


@dataclass(frozen=True)
class Dimensions:
    """Name of a result in messages, its sites along z, y and x, and its species."""

    name: str
    shape: tuple[int, int, int]
    species: tuple[str, ...]


class Frames(ABC):
    """The frames of one replica at one point.

    Attributes
    ----------
    times
        Times of the frames ``[frame]``, in seconds.
    """

    times: FloatArray

    def __init__(self, of: Dimensions) -> None:
        self._of = of

    @abstractmethod
    def _particles(self, frame: int, first: int, last: int) -> Iterator[Slab]:
        """Slabs of planes ``first .. last - 1`` with particles ``[z, y, x, slot]``."""

    @abstractmethod
    def sites(self, frame: int) -> npt.NDArray[np.uint8] | None:
        """Site types ``[z, y, x]`` at a frame; None if they were not recorded."""

    def at(self, t: float | None) -> int:
        """Number of the last frame at or before `t`, by default the last of all."""
        if t is None:
            return len(self.times) - 1
        before = np.flatnonzero(self.times <= t)
        if not len(before):
            raise ConfigError(f"t = {t:g} is before the first frame at {self.times[0]:g}")
        return int(before[-1])

    def slabs(
        self, species: str, frame: int, planes: tuple[int, int] | None = None
    ) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Slabs with particles of a species ``[z, y, x]``, which together are the lattice.

        `planes` restricts them to planes along z: the first, and the one behind the last.
        """
        stored = species_number(species, self._of.species, self._of.name) + 1  # 0 is an empty slot
        frames = len(self.times)
        if not -frames <= frame < frames:
            known = f"it has 0 to {frames - 1}"
            raise ConfigError(f"frame {frame} is not in {self._of.name}: {known}")
        for at, particles in self._particles(frame, *(planes or (0, self._of.shape[0]))):
            yield at, (particles == stored).sum(axis=-1, dtype=np.uint8)

    def plane(self, species: str, frame: int, axis: int, at: int) -> npt.NDArray[np.uint8]:
        """Particles of a species in the sites of one plane across an axis (number 0, 1, 2)."""
        planes = (at, at + 1) if axis == 0 else None
        slabs = self.slabs(species, frame, planes)
        cut = 0 if planes else at
        joined: npt.NDArray[np.uint8] = np.concatenate([one.take(cut, axis) for _, one in slabs])
        return joined


class StoredFrames(Frames):
    """The frames in the file of a run that is complete; none if none were recorded.

    Parameters
    ----------
    data
        Gives the datasets.
    lead
        Index of replica and point.
    """

    def __init__(
        self, of: Dimensions, path: Path, data: Callable[[], CheckedLattice], lead: Sequence[Any]
    ) -> None:
        super().__init__(of)
        self._path, self._data, self._lead = path, data, tuple(lead)
        self.times = data()["lattice/time"][()] if "lattice/time" in data() else np.zeros(0)

    def _particles(self, frame: int, first: int, last: int) -> Iterator[Slab]:
        stored = self._data()["lattice/particles"]
        count = max(1, _SLAB // int(np.prod(stored.shape[-3:])))
        for at in range(first, last, count):
            with reading(self._path, InputFileError):
                planes = stored[(*self._lead, frame, slice(at, min(last, at + count)))]
            yield at, np.asarray(planes)

    def sites(self, frame: int) -> npt.NDArray[np.uint8] | None:
        """Site types; None if they were not recorded."""
        if "lattice/sites" not in self._data():
            return None
        stored = self._data()["lattice/sites"]
        lead = self._lead if stored.ndim > 4 else ()  # older files: one for all replicas
        return np.asarray(stored[(*lead, min(frame, stored.shape[-4] - 1))], np.uint8)


class FrameParts(Frames):
    """The frames of an unfinished run whose planes are all there, in parts until its end.

    Parameters
    ----------
    path
        The file of the run; the parts lie beside it.
    run
        Number of the replica, all points of a sweep in one row.
    attributes
        Of the file: seed, model, step and how often a frame is kept.

    Raises
    ------
    InputFileError
        Something else lies among the parts.
    """

    def __init__(self, of: Dimensions, path: Path, run: int, attributes: Mapping[str, Any]) -> None:
        super().__init__(of)
        self._path = path
        self._identity = {name: attributes[name] for name in ("seed", "model_sha256")}
        every = int(attributes["frame_every"])
        own: dict[int, list[Any]] = {}
        folder = parts_folder(path)
        for part in list_parts(folder, lambda _: every) if folder.is_dir() else ():
            if part.replica == run and part.number != CHECKPOINT:
                own.setdefault(part.number, []).append(part)
        covers = {number: covering(parts, of.shape[0]) for number, parts in sorted(own.items())}
        whole = {number: cover for number, cover in covers.items() if cover is not None}
        self._covers = list(whole.values())
        step = float(attributes["step"])
        self.times = np.array([number * every * step for number in whole], np.float64)

    def _particles(self, frame: int, first: int, last: int) -> Iterator[Slab]:
        for path, lowest, highest in self._covers[frame]:
            begin, end = max(lowest, first), min(highest, last)
            if begin < end:
                yield from self._of_part(path, begin, end)

    def _of_part(self, path: Path, begin: int, end: int) -> Iterator[Slab]:
        for first, part in self._open(path):
            _, y, x, slots = part.particles.shape
            planes = max(1, _SLAB // (y * x * slots))
            for at in range(begin, end, planes):
                last = min(end, at + planes)
                yield at, np.asarray(part.particles[at - first : last - first])

    def sites(self, frame: int) -> npt.NDArray[np.uint8]:
        """Site types: of the model, but where hooks changed them."""
        planes = []
        for path, begin, end in self._covers[frame]:
            for _, part in self._open(path):
                if part.sites is None:
                    return read_lattice_file(self._path).sites.planes(0, self._of.shape[0])
                own = int(part.attributes["begin"])
                planes.append(np.asarray(part.sites[begin - own : end - own], np.uint8))
        return np.concatenate(planes)

    def _open(self, path: Path) -> Iterator[tuple[int, OpenPart]]:
        """The part and its first plane, if it is of this run; frames are joined at a run's end."""
        if not path.is_file():
            raise InputFileError(
                f"{path} is missing, the run went further: open {self._path} again"
            )
        with open_part(path) as part:
            for name, wanted in self._identity.items():
                if part.attributes.get(name) != wanted:
                    raise InputFileError(f"{path} is of another run: its {name} differs")
            yield int(part.attributes["first"]), part
