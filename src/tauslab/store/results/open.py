"""Opens a result file, after checking that it is ours and that all of it is there."""

from __future__ import annotations

import operator
import os
import re
import resource
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import SealedFile, safe_attributes
from tauslab.base.option_names import opt, warn
from tauslab.options.record import HistogramSpec
from tauslab.store.checking.ensemble import OF_AMOUNTS, checked_ensemble
from tauslab.store.checking.opening import StoredData, ended_by_signals, open_hdf5
from tauslab.store.format.layout import SAMPLES, Layout, is_row_name
from tauslab.store.format.statistics import statistics_contents
from tauslab.store.results.columns import texts
from tauslab.store.results.result import Result
from tauslab.store.results.verified import VerifiedRows
from tauslab.store.targets import part_files, parts_folder
from tauslab.store.writers.progress import Source, progress, read_source

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


_HISTOGRAMS, _EDGES = "statistics/histogram/", "_edges"


def layout_in(file: h5py.File, sealed: SealedFile) -> Layout:
    """Axes and recorded data of a file, which was checked."""
    attributes, names = sealed.attributes, sealed.names
    swept = str(attributes["sweep"]).split(",") if "sweep" in attributes else []
    recorded = [n[len(_HISTOGRAMS) : -len(_EDGES)] for n in names if n.endswith(_EDGES)]
    edges = {name: file[f"{_HISTOGRAMS}{name}{_EDGES}"][()] for name in recorded}
    return Layout(
        n=int(attributes["n"]),
        times=file["time"][()],
        species=texts(file["species"]) if "species" in names else (),
        observables=texts(file["observable"]) if "observable" in names else (),
        trajectories=any(name in names for name in SAMPLES),
        final="final" in names,
        statistics="statistics/n" in names,
        histograms=tuple(
            HistogramSpec(name, float(e[0]), float(e[-1]), len(e) - 1) for name, e in edges.items()
        ),
        summaries=tuple(n.removeprefix("summary/") for n in names if n.startswith("summary/")),
        block=int(attributes["block"]),
        sweep={name: file[f"sweep/{name}"][()] for name in swept} or None,
        group=int(attributes.get("group", 0)),
        amounts=attributes["method"] in OF_AMOUNTS,
        format_version=int(attributes["format_version"]),
    )


class FinishedBlocks:
    """Blocks of an unfinished run that `--resume` would not run again.

    A block whose sums no checkpoint holds yet is none of them, though its rows are on disk.

    Parameters
    ----------
    done
        Which they are ``[block]``, as of now.
    """

    def __init__(self, path: Path, file: h5py.File, sealed: SealedFile) -> None:
        self._path, self._sealed = path, sealed
        self._layout = layout_in(file, sealed)
        sources = list(self._sources())
        samples = replace(self._layout, statistics=False, histograms=())
        needs = self._layout.needs_checkpoint
        stored = progress(self._layout if needs else samples, sources)
        self.done: BoolArray = stored.completed
        self._restored = stored.restored

    def _sources(self, *, verify: bool = False) -> Iterator[Source]:
        plain = self._sealed.attributes["storage"] == "plain"
        files = [self._path] if plain else part_files(parts_folder(self._path))
        for where in files:
            try:
                with ended_by_signals():
                    run = str(self._sealed.attributes["run"])
                    source = read_source(where, self._layout, run, verify=verify)
            except OutputError as error:
                if plain:
                    raise InputFileError(str(error)) from None
                warn(f"{error}; {opt('resume')} runs the blocks of {where} again")
                continue
            if source is not None and source.damaged:
                raise InputFileError(
                    f"{where} is damaged, or was changed after it had been written: "
                    f"{len(source.damaged)} of its blocks do not agree with their checksums"
                )
            if source is not None:
                yield source

    @cached_property
    def statistics(self) -> dict[str, npt.NDArray[Any]]:
        """All datasets under /statistics by their names, of the trajectories of `done` alone."""
        totals = self._restored
        if totals is None:  # to be summed from samples, which are compared with their checksums
            sources = []
            for source in self._sources(verify=True):
                there = (source.blocks >= 0) & self.done[source.blocks]
                sources.append(replace(source, blocks=np.where(there, source.blocks, -1)))
            totals = progress(self._layout, sources).restored
        return {} if totals is None else statistics_contents(self._layout, totals)


_PART = re.compile(r"(?!\.\.?/)[^/\0]+\.parts/[^/\0]+\.h5")  # relative: file and folder may move
_OTHER_FILES = 256  # that a process may have open besides


class FileData(StoredData):
    """Datasets of an open file by their path, without the leading slash.

    Datasets with a row per trajectory are compared with the checksums of their blocks as they are
    read, others with their seals when they are first asked for.
    """

    def __init__(self, sealed: SealedFile, file: h5py.File) -> None:
        super().__init__(sealed.names)
        self._file, self._path, self._sealed = file, sealed.path, sealed
        self._finished: FinishedBlocks | None = None
        self._rows = sorted(name for name in self._names if is_row_name(name))
        self._verified: dict[str, VerifiedRows] = {}

    def __getitem__(self, name: str) -> Any:
        """One dataset."""
        if name not in self._names:
            raise KeyError(name)
        if self.closed:
            raise InputFileError(f"{self._path} was closed: open it again")
        if self._finished is not None and name == "progress/blocks":
            return self._finished.done.astype(np.uint8)
        if self._finished is not None and name.startswith("statistics/"):
            with reading(self._path, InputFileError):
                sums = self._finished.statistics
            if name in sums:
                return sums[name]
        if name in self._rows:
            return self._verified.setdefault(name, self._compared(name))
        with reading(self._path, InputFileError):
            self._sealed.require(name)
            return self._file[name]

    def _compared(self, name: str) -> Any:
        """The dataset `name`; of a run in parts nothing lies in the file itself."""
        attributes, dataset = self._sealed.attributes, self._file[name]
        if name in self._verified or attributes["storage"] == "parts":
            return self._verified.get(name, dataset)
        sums = self._file["progress/checksums"][:, self._rows.index(name)]
        done = self._file["progress/blocks"][()] == 1
        swept, block = "sweep" in attributes, int(attributes["block"])
        return VerifiedRows(self._path, name, dataset, sums, done, block, swept=swept)

    def verify(self) -> None:
        """Compare all that was not compared yet."""
        for name in self._names:
            dataset = self[name]
            if isinstance(dataset, VerifiedRows):
                dataset.verify()

    @property
    def closed(self) -> bool:
        """Return whether there is nothing more to read."""
        return not self._file

    def show_unfinished(self, finished: FinishedBlocks) -> None:
        """Show blocks and statistics of an unfinished run, whose file has them in other places."""
        self._finished = finished


def open_result(path: str | os.PathLike[str], *, checked: bool = False) -> Result:
    """Open a result file for reading; of large arrays nothing is read yet.

    The file's attributes are compared with its datasets, and whatever has at most 1 MiB with its
    checksum; larger arrays are compared as they are read, arrays with a row per trajectory block by
    block. An unfinished file opens too: `Result.complete` is False and `Result.completed_blocks` is
    a mask of the blocks that are there.

    Parameters
    ----------
    checked
        Whether another rank opens it too, and so looks whether its parts are all there.

    Raises
    ------
    InputFileError
        The file is missing, damaged, of another program or version, or one of the parts that it is
        made of is missing or more than this process may open: HDF5 would show such parts as fill
        values, in silence.
    """
    path = Path(path)
    file = open_hdf5(path)
    try:
        with reading(path, InputFileError):
            sealed = checked_ensemble(path, file)
            data = FileData(sealed, file)
            storage = sealed.attributes["storage"]
            if storage != "plain":
                allow_parts(path)
            if storage != "plain" and not checked:
                _check_parts(path, file, data, sealed)
            if not sealed.complete:
                data.show_unfinished(FinishedBlocks(path, file, sealed))
            return Result(data, sealed.attributes, path, file.close, open_result)
    except BaseException:
        file.close()
        raise


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
            f"but may open {hard} (ulimit -Hn): open it, or merge it, where more are allowed"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


Shape = tuple[int, ...]


def _is_shown(file: h5py.File, name: str, shown: tuple[Shape, np.dtype[Any]]) -> bool:
    """Return whether a dataset of a part has the shown rows and type, and its own data."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        return False
    shape, dtype = shown
    if dataset.dtype != dtype:
        return False
    # HDF5 keeps of a part's shape how many axes it has and how far what is shown reaches.
    reaches = len(dataset.shape) == len(shape) and all(map(operator.ge, dataset.shape, shape))
    return reaches or not shape


def _check_parts(path: Path, file: h5py.File, data: FileData, sealed: SealedFile) -> None:
    """Every file behind a virtual dataset must be there, whole, of the same run, and as shown.

    HDF5 itself crashes where a dataset that is shown has another shape than when it was.
    """
    parts: dict[str, dict[str, tuple[Shape, np.dtype[Any]]]] = {}
    run = sealed.attributes["run"]
    for name in data:
        dataset = file[name]
        if dataset.is_virtual:
            for source in dataset.virtual_sources():
                shown = tuple(source.src_space.shape), dataset.dtype
                parts.setdefault(source.file_name, {})[source.dset_name] = shown
    for part in sorted(parts):
        if _PART.fullmatch(part) is None:
            raise sealed.damaged(f"it shows data of {part!r}, which is no part of it")
        where = path.parent / part
        if not where.is_file():
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, is missing"
            )
        try:
            with open_hdf5(where) as opened, ended_by_signals():
                part_run = safe_attributes(opened).get("run")
                other = [k for k, shown in parts[part].items() if not _is_shown(opened, k, shown)]
        except OSError as error:
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, "
                f"cannot be opened: {error}"
            ) from None
        if part_run != run:
            raise InputFileError(
                f"{path} is spread over several files and one of them, {part}, "
                "belongs to another run"
            )
        if other:
            raise sealed.damaged(f"/{other[0].strip('/')} in {part} is not what it shows of it")
