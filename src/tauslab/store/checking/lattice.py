"""Checks of the file of a lattice run: that it holds what it says, and what was written.

Samples have a checksum each, and so have the compressed chunks of frames; both are compared before
the first of them is read.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array
from tauslab.base.errors import InputFileError, TauslabError, of_damage
from tauslab.base.files.direct_chunks import read_chunk
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import SealedFile
from tauslab.kernels.fields import Field
from tauslab.kernels.lattice.state import RECORDED, SAMPLED, TRACKED
from tauslab.store.checking.ensemble import points_axis
from tauslab.store.checking.opening import (
    METHOD_OF_LATTICES,
    StoredData,
    ended_by_signals,
    known_attributes,
)

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

MARKS = "progress/samples"
COMPLETE = "progress/complete"
CHECKSUMS = "progress/checksums"
_SUMS = np.dtype("<u4")
OF_POINTS = ("seed", "diffusion_substeps", "reaction_substeps")  # datasets of /points
FRAMES = {"lattice/particles": "lattice/checksums", "lattice/sites": "lattice/site_checksums"}
_NEEDED = ("time", "species", "site_type", "reaction", MARKS, COMPLETE, CHECKSUMS)
_NUMBERS = {
    "seed": (0, 2**64 - 1), "steps": (0, 2**63 - 1), "replicas": (1, 2**31 - 1),
    "count_every": (1, 2**63 - 1), "frame_every": (0, 2**63 - 1),
    "diffusion_substeps": (0, 2**63 - 1), "reaction_substeps": (0, 2**63 - 1),
}  # fmt: skip
_READ = 1 << 10  # samples at a time


def sample_sum(replica: int, sample: int, values: Iterator[Array]) -> int:
    """CRC-32 of a sample: the numbers of replica and sample, and what is counted."""
    checksum = zlib.crc32(replica.to_bytes(8, "little") + sample.to_bytes(8, "little"))
    for value in values:
        checksum = zlib.crc32(np.ascontiguousarray(value, "<i8").tobytes(), checksum)
    return checksum


def chunk_sum(data: bytes) -> int:
    """CRC-32 of a chunk as it lies in the file, compressed."""
    return zlib.crc32(data)


def chunk_grid(dataset: h5py.Dataset) -> tuple[int, ...]:
    """Number of chunks along every axis."""
    return tuple(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))


def chunk_sums(dataset: h5py.Dataset) -> npt.NDArray[np.uint32]:
    """Checksums of all chunks, read from the file; the shape is that of the grid of chunks."""
    dataset.flush()  # a chunk in HDF5's cache is not compressed yet
    sums = np.zeros(chunk_grid(dataset), np.uint32)
    for place in np.ndindex(*sums.shape):
        sums[place] = chunk_sum(_chunk(dataset, place))
    return sums


def _chunk(dataset: h5py.Dataset, place: tuple[int, ...]) -> bytes:
    corner = tuple(at * size for at, size in zip(place, dataset.chunks, strict=True))
    return read_chunk(dataset, corner)


class VerifiedChunks:
    """A dataset of compressed chunks that never gives values of a damaged chunk.

    Parameters
    ----------
    sums
        Checksums of the chunks, in the shape of their grid.
    """

    def __init__(
        self,
        path: Path,
        dataset: h5py.Dataset,
        sums: npt.NDArray[np.uint32],
        kind: type[TauslabError] = InputFileError,
    ) -> None:
        self._path, self._dataset, self._sums, self._kind = path, dataset, sums, kind
        self._left = np.ones(sums.shape, np.bool_)

    def __getattr__(self, name: str) -> Any:
        """All but the values is the dataset's."""
        return getattr(self._dataset, name)

    def __getitem__(self, key: Any) -> Any:
        """Some values, by whole numbers and slices with step 1.

        Raises
        ------
        TauslabError
            A chunk that they lie in is not what was written.
        """
        keys = key if isinstance(key, tuple) else (key,)
        sides = []
        for axis, (size, chunk) in enumerate(
            zip(self._dataset.shape, self._dataset.chunks, strict=True)
        ):
            chosen = keys[axis] if axis < len(keys) else slice(None)
            if isinstance(chosen, slice):
                start, stop, _ = chosen.indices(size)
            else:
                start = int(chosen) % max(1, size)
                stop = start + 1
            sides.append(range(start // chunk, -(-stop // chunk)))
        for place in itertools.product(*sides):
            self.chunk(place)
        return self._dataset[key]

    def chunk(self, place: tuple[int, ...]) -> bytes | None:
        """A chunk as it lies in the file, by its place in the grid; None if it was compared."""
        if not self._left[place]:
            return None
        try:
            data = _chunk(self._dataset, place)
        except (OSError, RuntimeError, ValueError) as error:
            raise self._damaged(place) from error
        if chunk_sum(data) != int(self._sums[place]):
            raise self._damaged(place)
        self._left[place] = False
        return data

    def require_all(self) -> None:
        """Compare all chunks.

        Raises
        ------
        TauslabError
            One is not what was written.
        """
        for place in np.ndindex(*self._left.shape):
            self.chunk(place)

    def _damaged(self, place: tuple[int, ...]) -> TauslabError:
        return of_damage(
            self._kind(
                f"{self._path} is damaged, or was changed after it had been written: chunk "
                f"{list(place)} of {self._dataset.name} does not agree with its checksum"
            )
        )


class CheckedLattice(StoredData):
    """The open file of a lattice run, checked: names, attributes and datasets.

    Raises
    ------
    InputFileError
        The file is another program's, of another version or kind, or not what was written.
    """

    def __init__(self, path: Path, file: h5py.File) -> None:
        self._path, self._file = path, file
        self._compared = False
        self._chunks: dict[str, VerifiedChunks] = {}
        with reading(path, InputFileError), ended_by_signals():
            attributes = known_attributes(path, file, InputFileError)
            method = attributes.get("method")
            if method != METHOD_OF_LATTICES:
                raise InputFileError(f"{path} is not a lattice result: its method is {method!r}")
            self._sealed = SealedFile(path, file, attributes=attributes)
            super().__init__(self._sealed.names)
            self.attributes: Mapping[str, Any] = self._sealed.attributes
            for wrong in self._wrong():
                raise self._sealed.damaged(wrong)

    @property
    def complete(self) -> bool:
        """Return whether the run is complete."""
        return self._sealed.complete

    @property
    def sampled(self) -> tuple[Field, ...]:
        """Fields of every sample in the file: an earlier version recorded fewer."""
        return tuple(each for each in RECORDED if each.name in self)

    def __getitem__(self, name: str) -> Any:
        """A dataset, compared with its checksums; frames are when they are read."""
        if name not in self:
            raise KeyError(name)
        if name in (each.name for each in RECORDED):
            self.require_samples()
        if name in FRAMES:
            if name not in self._chunks:
                sums = self._file[FRAMES[name]][()]
                self._sealed.require(FRAMES[name])
                self._chunks[name] = VerifiedChunks(self._path, self._file[name], sums)
            return self._chunks[name]
        self._sealed.require(name)
        return self._file[name]

    def require_samples(self) -> None:
        """Compare all samples that were written with their checksums, once.

        Raises
        ------
        TauslabError
            One is not what was written.
        """
        if self._compared:
            return
        marks = self._file[MARKS][()].tolist()
        for replica, (whole, done) in enumerate(zip(self.whole_samples(), marks, strict=True)):
            if whole < done:
                raise self._sealed.damaged(
                    f"sample {whole} of replica {replica} does not agree with its checksum"
                )
        self._compared = True

    def whole_samples(self) -> list[int]:
        """For each run, the number of samples before the first that is not what was written."""
        stored, marks = self._file[CHECKSUMS][()], self._file[MARKS][()]
        shape = self._file["counts"].shape[:-2]
        whole = []
        for replica, done in enumerate(marks.tolist()):
            lead = tuple(map(int, np.unravel_index(replica, shape))) if shape else ()
            whole.append(self._whole_samples(replica, lead, done, stored[replica]))
        return whole

    def _whole_samples(self, replica: int, lead: tuple[int, ...], done: int, stored: Array) -> int:
        for start in range(0, done, _READ):
            part = (*lead, slice(start, min(done, start + _READ)))
            columns = [self._file[each.name][part] for each in self.sampled]
            for at in range(len(columns[0])):
                checksum = sample_sum(replica, start + at, (column[at] for column in columns))
                if checksum != int(stored[start + at]):
                    return start + at
        return done

    def _wrong(self) -> Iterator[str]:
        """Contradictions in the file; the first one is reported."""
        names, attributes, file = self._sealed.names, self.attributes, self._file
        of_version = [s.name for s in SAMPLED if s.since <= int(attributes["format_version"])]
        yield from (f"it has no /{name}" for name in (*_NEEDED, *of_version) if name not in names)
        for name, (least, most) in _NUMBERS.items():
            value = attributes.get(name)
            if not isinstance(value, int) or not least <= value <= most:
                yield f"its attribute {name!r} is {value!r}, not a whole number from {least} on"
        for name in ("step", "max_hop"):
            value = attributes.get(name)
            if not isinstance(value, float) or not 0 < value < np.inf:
                yield f"its attribute {name!r} is {value!r}, not a positive number"
        for name in ("model_sha256", "command", "tauslab_version"):
            if not isinstance(attributes.get(name), str):
                yield f"its attribute {name!r} is no text"
        yield from self._wrong_shapes(file, attributes["replicas"])

    def _wrong_shapes(self, file: h5py.File, replicas: int) -> Iterator[str]:
        sizes = {name: len(file[name]) for name in ("time", "species", "site_type", "reaction")}
        if TRACKED.name in self._sealed.names:
            sizes |= {"object": len(file["object"]) if "object" in file else 0, "axis": 3}
        samples = sizes["time"]
        if not samples or file["time"].dtype.kind != "f":
            yield "/time is not a list of times"
        swept = [name for name in self._sealed.names if name.startswith("sweep/")]
        points, wrong = points_axis(self.attributes, file, swept)
        yield from wrong
        lead = (*points, *((replicas,) if replicas > 1 else ()))
        runs = math.prod(lead)
        for each in self.sampled:
            dataset, wanted = file[each.name], (*lead, *each.shape(sizes))
            if dataset.shape != wanted or dataset.dtype != np.dtype(each.dtype):
                is_now = f"{dataset.dtype} {list(dataset.shape)}"
                yield f"/{each.name} is {is_now}, not {each.dtype} {wanted}"
        yield from self._wrong_points(file, points)
        yield from self._wrong_marks(file, runs, samples)
        names = self._sealed.names
        if self.complete and self.attributes["frame_every"]:
            yield from (f"it has no /{name}" for name in FRAMES if name not in names)
        for name, sums in FRAMES.items():
            if name not in names:
                continue
            if sums not in names or file[name].chunks is None:
                yield f"/{name} has no checksums"
            elif file[sums].shape != chunk_grid(file[name]) or file[sums].dtype != _SUMS:
                yield f"/{name} has not a checksum for each chunk"

    def _wrong_marks(self, file: h5py.File, runs: int, samples: int) -> Iterator[str]:
        """Contradictions in the marks of the samples that are there, and in their checksums."""
        marks = file[MARKS][()]
        if (marks.dtype.kind, marks.shape) != ("i", (runs,)):
            yield f"/{MARKS} is {marks.dtype} {list(marks.shape)}, not a number for each run"
        if (marks < 0).any() or (marks > samples).any():
            yield f"/{MARKS} is not what was written"
        if self.complete and (marks != samples).any():
            yield f"/{MARKS} lacks samples of a run that is complete"
        if file[CHECKSUMS].shape != (runs, samples) or file[CHECKSUMS].dtype != _SUMS:
            yield "it has not a checksum for each sample"

    def _wrong_points(self, file: h5py.File, points: tuple[int, ...]) -> Iterator[str]:
        """Contradictions in the datasets of the points of a sweep."""
        for name in (f"points/{one}" for one in OF_POINTS if points):
            if name not in self._sealed.names:
                yield f"it has no /{name}"
            elif file[name].shape != points:
                yield f"/{name} has not a number for each point"
