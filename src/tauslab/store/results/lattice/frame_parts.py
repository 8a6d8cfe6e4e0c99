"""Frames of a run that is not complete, read from the parts in which they lie until then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import InputFileError
from tauslab.formats.lattice_hdf5 import read_lattice_file
from tauslab.store.lattice.parts import (
    CHECKPOINT,
    OpenPart,
    covering,
    list_parts,
    open_part,
)
from tauslab.store.targets import parts_folder

FloatArray = npt.NDArray[np.float64]
_SLAB = 1 << 22  # slots read at a time, about


class FrameParts:
    """The frames of one replica whose planes are all there.

    Parameters
    ----------
    path
        The file of the run; the parts lie beside it.
    shape
        Sites along z, y and x.
    attributes
        Of the file: seed, model, step and how often a frame is kept.

    Raises
    ------
    InputFileError
        Something else lies among the parts.
    """

    def __init__(
        self,
        path: Path,
        replica: int,
        shape: tuple[int, int, int],
        attributes: Mapping[str, Any],
    ) -> None:
        self._path, self._shape = path, shape
        self._identity = {name: attributes[name] for name in ("seed", "model_sha256")}
        every = int(attributes["frame_every"])
        own: dict[int, list[Any]] = {}
        folder = parts_folder(path)
        for part in list_parts(folder, lambda _: every) if folder.is_dir() else ():
            if part.replica == replica and part.number != CHECKPOINT:
                own.setdefault(part.number, []).append(part)
        covers = {number: covering(parts, shape[0]) for number, parts in sorted(own.items())}
        found = {number: cover for number, cover in covers.items() if cover is not None}
        self._covers = list(found.values())
        step = float(attributes["step"])
        self.times: FloatArray = np.array([number * every * step for number in found], np.float64)

    def slabs(self, frame: int, first: int, last: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Slabs of planes ``first .. last - 1``: first plane and particles ``[z, y, x, slot]``."""
        for path, lowest, highest in self._covers[frame]:
            begin, end = max(lowest, first), min(highest, last)
            if begin < end:
                yield from self._of_part(path, begin, end)

    def _of_part(self, path: Path, begin: int, end: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        for first, part in self._open(path):
            _, y, x, slots = part.particles.shape
            planes = max(1, _SLAB // (y * x * slots))
            for at in range(begin, end, planes):
                last = min(end, at + planes)
                yield at, np.asarray(part.particles[at - first : last - first])

    def sites(self, frame: int) -> npt.NDArray[np.uint8]:
        """Site types ``[z, y, x]``: those of the model, but where hooks changed them."""
        planes = []
        for path, begin, end in self._covers[frame]:
            for _, part in self._open(path):
                if part.sites is None:
                    return read_lattice_file(self._path).sites.planes(0, self._shape[0])
                own = int(part.attributes["begin"])
                planes.append(np.asarray(part.sites[begin - own : end - own], np.uint8))
        return np.concatenate(planes)

    def _open(self, path: Path) -> Iterator[tuple[int, OpenPart]]:
        """The part and its first plane, if it is of this run; frames are joined at a run's end."""
        if not path.is_file():
            raise InputFileError(f"{path} is gone: open {self._path} again, the run has gone on")
        with open_part(path) as part:
            for name, wanted in self._identity.items():
                if part.attributes.get(name) != wanted:
                    raise InputFileError(f"{path} is of another run: its {name} differs")
            yield int(part.attributes["first"]), part
