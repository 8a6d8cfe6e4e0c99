"""Files of state: sealed arrays from which an ensemble, a filter, a chain or a search goes on.

They are written and read as results are: under a random name and renamed, every array with a
checksum that is compared before it is used, and no link or external storage is followed. Whoever
goes on takes each array by type and shape, so that a file that fits nothing is refused by a
sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab._version import __version__
from tauslab.base.arrays import Array
from tauslab.base.errors import InputFileError
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import SealedFile, safe_attributes, seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.store.checking.opening import ended_by_signals, open_hdf5
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk, publish

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_NOTHING: Mapping[str, Any] = {}


def write_sealed(
    path: Path,
    attributes: Mapping[str, Any],
    arrays: Mapping[str, npt.ArrayLike],
    extend: Callable[[h5py.File], None] | None = None,
) -> None:
    """Write attributes of the root and arrays by name, sealed; a file that is there is replaced.

    Truth values are stored as 0 and 1, in bytes. `extend` adds more before all is sealed.

    Raises
    ------
    OutputError
        It cannot be written; `path` is what it was.
    """
    disk = Disk()

    def build(draft: Path) -> None:
        with Hdf5OnDisk(draft, disk, libver=("v110", "v110")) as opened:
            put_attributes(opened.file, attributes)
            for name, values in arrays.items():
                array = np.asarray(values)
                if array.dtype.kind == "U":
                    put_text(opened.file, name, array.tolist())
                else:
                    opened.file[name] = array.astype("u1") if array.dtype.kind == "b" else array
            if extend is not None:
                extend(opened.file)
            seal(opened.file)

    publish(path, disk, build)


class State(Mapping[str, Array]):
    """Contents of a file of state: arrays by name, and attributes of its root."""

    def __init__(
        self,
        path: Path = Path(),
        attributes: Mapping[str, Any] = _NOTHING,
        arrays: Mapping[str, Array] = _NOTHING,
    ) -> None:
        self.path, self.attributes, self._arrays = path, attributes, arrays

    def __getitem__(self, name: str) -> Array:
        """An array as it is, whatever it is."""
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        """Names of all arrays."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """Number of arrays."""
        return len(self._arrays)

    def below(self, group: str) -> State:
        """The arrays of a group, by their names in it."""
        under = f"{group}/"
        own = {k.removeprefix(under): v for k, v in self._arrays.items() if k.startswith(under)}
        return State(self.path, self.attributes, own)

    def damaged(self, what: str) -> InputFileError:
        """The error to raise."""
        return InputFileError(f"{self.path} is damaged, or was changed: {what}")

    def take(
        self, name: str, dtype: npt.DTypeLike, *shape: int | None, nan: bool = False,
        low: float = -math.inf, high: float = math.inf,
    ) -> Array:  # fmt: skip
        """An array of this type and shape, where None is any length.

        Its numbers are from `low` to `high`, and no NaN unless it may hold some.

        Raises
        ------
        InputFileError
            It is missing, or another.
        """
        if name not in self._arrays:
            raise self.damaged(f"it has no {name}")
        array, wanted = self._arrays[name], np.dtype(dtype)
        stored = np.dtype("u1") if wanted.kind == "b" else wanted
        fits = array.dtype.newbyteorder("=") == stored and array.ndim == len(shape)
        if not fits or any(w not in (None, n) for w, n in zip(shape, array.shape, strict=True)):
            lengths = ["any" if w is None else w for w in shape]
            raise self.damaged(
                f"its {name} is {array.dtype} of shape {list(array.shape)}, and not {stored} of "
                f"shape {lengths}".replace("'", "")
            )
        if wanted.kind == "f" and not nan and np.isnan(array).any():
            raise self.damaged(f"its {name} holds NaN")
        if array.size and (array.min() < low or array.max() > high):
            raise self.damaged(f"its {name} holds numbers that are not from {low} to {high}")
        return array.astype(wanted)

    def whole(self, name: str, low: int = 0, high: float = math.inf) -> int:
        """A whole number from `low` to `high`; an `InputFileError` for anything else."""
        return int(self._number(name, "iu", low, high))

    def real(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A number from `low` to `high`; an `InputFileError` for anything else, NaN too."""
        return float(self._number(name, "iuf", low, high))

    def text(self, name: str) -> str:
        """A text; an `InputFileError` for anything else."""
        stored = self._arrays.get(name)
        if stored is None and isinstance(self.attributes.get(name), str):
            return str(self.attributes[name])
        if stored is None or stored.ndim or stored.dtype.kind != "S":
            raise self.damaged(f"it has no text {name}")
        return str(stored.item().decode(errors="replace"))

    def _number(self, name: str, kinds: str, low: float, high: float) -> Any:
        stored = self._arrays.get(name, self.attributes.get(name))
        value = None if stored is None else np.asarray(stored)
        if value is None or value.ndim or value.dtype.kind not in kinds:
            raise self.damaged(f"it has no number {name}")
        if not low <= value <= high:
            raise self.damaged(f"its {name} is {value}, and not from {low} to {high}")
        return value.item()


class StateFile:
    """A file of state of one kind.

    Parameters
    ----------
    kind
        What it holds, such as ``particles``: attribute ``format`` is ``tauslab particles``.
    what
        What a file of another kind is not, for an error.
    """

    def __init__(self, path: Path, kind: str, what: str) -> None:
        self.path, self._format, self._what = path, f"tauslab {kind}", what

    def write(
        self,
        arrays: Mapping[str, npt.ArrayLike],
        attributes: Mapping[str, Any] = _NOTHING,
        extend: Callable[[h5py.File], None] | None = None,
    ) -> None:
        """Put a new file in place when it is complete; as `write_sealed`."""
        own = {"format": self._format, "tauslab_version": __version__}
        write_sealed(self.path, own | dict(attributes), arrays, extend)

    def read(self, left_out: str = "") -> State:
        """All arrays, but for a large one that is read elsewhere; all agree with their checksums.

        Raises
        ------
        InputFileError
            The file is missing, damaged, of another kind, or of a version without checksums.
        """
        path = self.path
        with open_hdf5(path) as file, reading(path, InputFileError), ended_by_signals():
            attributes, unsealed = safe_attributes(file), not file.id.links.exists(b"progress")
            kind = attributes.get("format", "")  # None in a file of an earlier version
            if kind != self._format and not (unsealed and kind is None):
                raise InputFileError(f"{path} is no {self._what}")
            if unsealed:
                raise InputFileError(
                    f"{path} is of an earlier version of tauslab, which kept no checksums, so "
                    "it cannot be verified: start again with another file"
                )
            sealed = SealedFile(path, file, attributes=attributes)
            for name in sealed.names:
                sealed.require(name)
            names = [n for n in sealed.names if not n.startswith("progress/") and n != left_out]
            return State(path, attributes, {name: np.asarray(file[name][()]) for name in names})
