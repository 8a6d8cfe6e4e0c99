"""Opens a result file, after checking that it is ours and that all of it is there."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.model.damaged import reading
from tauslab.model.errors import InputFileError
from tauslab.runner.output.resume import parts_folder
from tauslab.runner.output.schema import FORMAT, WITH_DIGITS
from tauslab.runner.result import Result

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


_OTHER_FILES = 256  # that a process may have open besides


class FileData(Mapping[str, Any]):
    """Datasets of an open file by their path, without the leading slash."""

    def __init__(self, file: h5py.File) -> None:
        import h5py

        self._file, self._path = file, file.filename
        self._instead: dict[str, Any] = {}
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        self._names = frozenset(names)

    def __getitem__(self, name: str) -> Any:
        """One dataset."""
        if name not in self._names:
            raise KeyError(name)
        if self.closed:
            raise InputFileError(f"{self._path} was closed: open it again")
        return self._instead[name] if name in self._instead else self._file[name]

    @property
    def closed(self) -> bool:
        """Whether there is nothing more to read."""
        return not self._file

    def show(self, name: str, values: Any) -> None:
        """Show other values than the file holds."""
        self._instead[name] = values

    def __contains__(self, name: object) -> bool:
        """Whether there is such a dataset; the file is not touched."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Names in alphabetical order."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        """Number of datasets."""
        return len(self._names)


def open_result(path: str | os.PathLike[str], *, checked: bool = False) -> Result:
    """Open a result file for reading; nothing but names and attributes is read yet.

    An unfinished file opens too: `Result.complete` is False and `Result.completed_blocks` tells
    what is there.

    Parameters
    ----------
    checked
        Whether another rank opens it too, and so looks whether its parts are all there.

    Raises
    ------
    InputFileError
        The file is missing, damaged, of another program or of a later format, or one of the parts
        that it is made of is missing or more than this process may open: HDF5 would show such parts
        as fill values, in silence.
    """
    path = Path(path)
    file = _open(path)
    try:
        with reading(path, InputFileError):
            _check_format(path, file)
            data = FileData(file)
            storage = file.attrs.get("storage")
            if storage != "plain":
                allow_parts(path)
            if storage != "plain" and not checked:
                _check_parts(path, data, file.attrs.get("run"))
            if storage == "parts":
                data.show("progress/blocks", _marks_in_parts(path, file))
            return Result(data, dict(file.attrs), path, file.close)
    except BaseException:
        file.close()
        raise


def _open(path: Path) -> h5py.File:
    import h5py

    if not path.exists():
        raise InputFileError(f"{path}: there is no such file")
    if not path.is_file():
        raise InputFileError(f"{path} is not a file")
    if not os.access(path, os.R_OK):
        raise InputFileError(f"{path} cannot be read: permission denied")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        reason = str(error)
        if "truncated" in reason:
            raise InputFileError(f"{path} is truncated: {reason}") from None
        if not h5py.is_hdf5(path):
            raise InputFileError(f"{path} is not an HDF5 file, so not a result") from None
        raise InputFileError(f"{path} cannot be opened: {reason}") from None


_OTHER_KINDS = {"rdme": "a lattice run", "dbn": "a dynamic Bayesian network"}


def _check_format(path: Path, file: h5py.File) -> None:
    found = file.attrs.get("format")
    if isinstance(found, bytes):
        found = found.decode()
    if found != FORMAT:
        raise InputFileError(
            f"{path} is not a result of tauslab: attribute 'format' is {found!r}, not {FORMAT!r}"
        )
    method = file.attrs.get("method", "")
    kind = _OTHER_KINDS.get(method.decode() if isinstance(method, bytes) else method)
    if kind is not None:
        raise InputFileError(f"{path} holds {kind}, not an ensemble of trajectories")
    version = int(file.attrs.get("format_version", 0))
    if not 1 <= version <= WITH_DIGITS:
        raise InputFileError(
            f"{path} has format version {version}; this tauslab reads 1 to {WITH_DIGITS}"
        )


def _marks_in_parts(path: Path, file: h5py.File) -> npt.NDArray[np.uint8]:
    """Marks of an unfinished run of several ranks, which lie in its parts."""
    marks: npt.NDArray[np.uint8] = file["progress/blocks"][()]
    run = file.attrs["run"]
    for where in sorted(parts_folder(path).glob("*.h5")):
        try:
            _note_marks(where, run, marks)
        except (OSError, RuntimeError, KeyError, ValueError, IndexError) as error:
            warnings.warn(f"{error}; --resume runs the blocks of {where} again", stacklevel=2)
    return marks


def _note_marks(where: Path, run: Any, marks: npt.NDArray[np.uint8]) -> None:
    with _open(where) as part:
        if part.attrs.get("run") != run or "progress/blocks" not in part:
            return
        done = part["progress/blocks"][()] == 1
        # A part without ids was the whole file of an earlier attempt on one rank.
        ids = part.get("progress/block_ids", np.arange(len(done)))
        marks[ids[()][done]] = 1


def allow_parts(path: Path) -> None:
    """Let this process open all parts of a result at the same time, as HDF5 does to read it.

    Raises
    ------
    InputFileError
        It may not have so many files open.
    """
    folder = parts_folder(path)
    parts = sum(1 for _ in folder.glob("*.h5")) if folder.is_dir() else 0
    needed = parts + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise InputFileError(
            f"{path} is spread over {parts} files, and to read them a process must open {needed}, "
            f"but may open {hard} here (ulimit -Hn): open it, or merge it, where more are allowed"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _check_parts(path: Path, data: FileData, run: Any) -> None:
    """Every file behind a virtual dataset must be there, readable, whole and of the same run."""
    import h5py

    parts: set[str] = set()
    for name in data:
        dataset = data[name]
        if dataset.is_virtual:
            parts.update(source.file_name for source in dataset.virtual_sources())
    for part in sorted(parts - {"."}):
        where = path.parent / part
        if not where.is_file():
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, is missing"
            )
        try:
            with h5py.File(where, "r") as file:
                found = file.attrs.get("run")
        except OSError as error:
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, "
                f"cannot be opened: {error}"
            ) from None
        if found != run:
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, "
                "belongs to another run"
            )
