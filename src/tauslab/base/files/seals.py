"""Checksums of a file of ours, and the one place that looks at a file before others read it.

``/progress/sealed`` lists what a file holds and ``/progress/seals`` has a CRC-32 for each entry: of
name, type, shape and values of a dataset, or of the root's attributes (entry ``/``).  Two marks may
stand before a name: ``~`` for a dataset whose values are written while a run goes on, and have
checksums of their own (name, type and shape count), and ``?`` for one whose values are sealed when
the run is complete.

What HDF5 itself reads of a file, its headers and indices, has checksums of the library in the
formats that we write.  So a file is either what was written, or an error of one sentence says that
it is not.  Whoever changes a file on purpose can make seals anew: they are no signature.
"""

from __future__ import annotations

import math
import mmap
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import Array, Uint32Array
from tauslab.base.errors import InputFileError, ModelError, TauslabError, of_damage
from tauslab.base.files.hdf5 import create_at, simple_attributes, stored_at, write_all
from tauslab.base.files.text import plain, text_array

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

SEALED, SEALS = "progress/sealed", "progress/seals"
FORMAT, FORMAT_VERSION = "tauslab", 3
OLDEST_FORMAT = 2  # that is read
ROOT = "/"
OPEN, LATER = "~", "?"
AT_ONCE = 1 << 20  # bytes of a dataset that is compared when a file is opened
_PIECE = 16 << 20
_MOST_PACKED, _LEAST = 1100, 1 << 16  # deflate makes at most 1032 bytes of one
_NAME = "name"  # the one attribute of a dataset that is read: the file name of a model's text


def dataset_sum(
    name: str, dtype: np.dtype[Any], shape: Iterable[int], pieces: Iterable[Any], label: str = ""
) -> int:
    """CRC-32 of a dataset: of what it is, its attribute `label`, and its values in C order."""
    head = f"{name}\n{dtype.str}\n{[int(size) for size in shape]}\n{label}\n"
    value = zlib.crc32(head.encode())
    for piece in pieces:
        data = np.ascontiguousarray(piece).reshape(-1)
        value = zlib.crc32(data.view(np.uint8).data, value) if data.nbytes else value
    return value


def attributes_sum(attributes: Mapping[str, Any]) -> int:
    """CRC-32 of the root's attributes: names, kinds and values."""
    lines = []
    for name, value in sorted(attributes.items()):
        result = plain(value)
        lines.append(f"{name}\0{type(result).__name__}\0{result!r}\n")
    return zlib.crc32("".join(lines).encode())


def seal(file: h5py.File, opened: Collection[str] = (), later: Collection[str] = ()) -> None:
    """Seal all that a file holds; no dataset and no attribute of the root may follow.

    Parameters
    ----------
    opened, later
        Names of the datasets with the marks ``~`` and ``?``; those `later` are not read.
    """
    opened = {*opened, SEALS}
    names = sorted({*dataset_names(file), SEALED, SEALS})
    marks = {name: OPEN if name in opened else LATER if name in later else "" for name in names}
    entries = [ROOT, *(marks[name] + name for name in names)]
    listed = text_array(entries)
    _put(file, SEALED, listed)
    sums = np.zeros(len(entries), "<u4")
    known = {ROOT: attributes_sum(file.attrs)}
    for name, mark in marks.items():
        if name == SEALS:
            known[OPEN + name] = dataset_sum(name, sums.dtype, sums.shape, ())
        elif mark != LATER:
            known[mark + name] = sum_in_file(stored_at(file, name), name, values=mark != OPEN)
    sums[:] = [known.get(entry, 0) for entry in entries]
    _put(file, SEALS, sums)


def dataset_names(file: h5py.File) -> list[str]:
    """Names of all datasets of a file of ours."""
    from h5py import h5o

    names: list[str] = []

    def note(name: bytes, info: Any) -> None:
        if info.type == h5o.TYPE_DATASET:
            names.append(name.decode())

    h5o.visit(file.id, note, info=True)
    return names


def _put(file: h5py.File, name: str, values: Array) -> None:
    """A contiguous dataset whose place in the file does not change."""
    from h5py import h5d, h5p

    settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    write_all(create_at(file, name, values.dtype, values.shape, settings), values)


def sum_in_file(dataset: h5py.Dataset, name: str, *, values: bool) -> int:
    """The checksum of a dataset of an open file; without `values`, of what it is."""
    from h5py import h5a

    dtype, shape, label = dataset.dtype, dataset.shape, ""
    if dtype.kind == "S" and not shape and h5a.exists(dataset.id, _NAME.encode()):
        label = plain(dataset.attrs[_NAME])
    pieces = _pieces(dataset) if values else ()
    return dataset_sum(name, dtype, shape, pieces, label)


def _pieces(dataset: h5py.Dataset) -> Iterator[Array]:
    row = max(1, dataset.dtype.itemsize * math.prod(dataset.shape[1:]))
    if not dataset.shape or row * dataset.shape[0] <= _PIECE:
        yield np.asarray(dataset[()])
        return
    chunk = (dataset.chunks or (1,))[0]
    step = max(chunk, _PIECE // row // chunk * chunk)
    for start in range(0, dataset.shape[0], step):
        yield np.asarray(dataset[start : start + step])


# ---------------------------------------------------------------- reading


def safe_attributes(file: h5py.Group) -> dict[str, Any]:
    """Attributes that are numbers or texts of fixed length, as Python values; others are None.

    Nothing else is read of a file that may be damaged or another program's.
    """
    result = dict(simple_attributes(file))
    for name, value in result.items():
        try:
            result[name] = plain(value)
        except UnicodeDecodeError:
            result[name] = None
    return result


class SealedFile:
    """An open file that is compared with its seals, when it is opened and as it is read.

    Opening compares the root's attributes and all datasets of at most 1 MiB, and of larger ones
    name, type and shape; `require` compares a larger one when it is needed.

    Parameters
    ----------
    kind
        Of the errors.
    views
        Whether datasets may be views of other files.
    attributes
        What `safe_attributes` found, if it was asked already.

    Raises
    ------
    TauslabError
        A `kind`: the file is not what was written.
    """

    def __init__(
        self, path: Path, file: h5py.File, kind: type[TauslabError] = InputFileError, *,
        views: bool = False, attributes: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.path, self._file, self._kind, self._views = path, file, kind, views
        self.attributes = self._attributes(attributes)
        self._groups: dict[str, h5py.Group] = {"": file}
        self._compared: set[str] = set()
        self._entries = self._read_entries()
        self.complete = self._is_complete()
        for name in self._entries:
            if name not in self._compared:
                self._verify(name)

    @property
    def names(self) -> list[str]:
        """Datasets that belong to the file, in alphabetical order; others do not count."""
        return sorted(self._entries)

    def damaged(self, what: str) -> TauslabError:
        """The error to raise."""
        return of_damage(
            self._kind(f"{self.path} is damaged, or was changed after it had been written: {what}")
        )

    def require(self, name: str) -> None:
        """Compare a dataset with its seal, once."""
        if name not in self._compared:
            self._compare(name, stored_at(self._file, name))

    def _compare(self, name: str, dataset: h5py.Dataset) -> None:
        mark, wanted = self._entries[name]
        if mark != OPEN and not dataset.is_virtual:
            stored = max(_LEAST, dataset.id.get_storage_size())
            if dataset.nbytes > _MOST_PACKED * stored:
                raise self.damaged(f"/{name} claims {dataset.nbytes} bytes and has {stored}")
        waits = mark == LATER and not self.complete
        if not waits and sum_in_file(dataset, name, values=mark != OPEN) != wanted:
            raise self.damaged(f"/{name} does not agree with its checksum")
        self._compared.add(name)

    def _attributes(self, known: Mapping[str, Any] | None) -> dict[str, Any]:
        result = safe_attributes(self._file) if known is None else dict(known)
        for name, value in result.items():
            if value is None:
                raise self.damaged(f"its attribute {name!r} is neither a number nor a plain text")
        return result

    def _read_entries(self) -> dict[str, tuple[str, int]]:
        listed, stored = (self._plain(name) for name in (SEALED, SEALS))
        if (
            listed.dtype.kind != "S"
            or stored.dtype.kind != "u"
            or listed.ndim != 1
            or listed.shape != stored.shape
        ):
            raise self.damaged("its list of checksums is not one")
        sums = [int(value) for value in stored[()]]
        own = sum_in_file(listed, SEALED, values=True)
        entries: dict[str, tuple[str, int]] = {}
        for text, value in zip(listed[()].tolist(), sums, strict=True):
            entry = text.decode(errors="replace")
            mark = entry[:1] if entry[:1] in (OPEN, LATER) else ""
            entries[entry[len(mark) :]] = mark, value
        root = entries.pop(ROOT, None)
        if entries.get(SEALED) != ("", own):
            raise self.damaged("its list of checksums is not what was written")
        self._compared.add(SEALED)
        if root is None or root[1] != attributes_sum(self.attributes):
            raise self.damaged("its attributes do not agree with their checksum")
        return entries

    def _is_complete(self) -> bool:
        name = "progress/complete"
        if name not in self._entries:
            return True
        self._verify(name)
        value = stored_at(self._file, name)[()]
        if np.ndim(value) or value not in (0, 1):
            raise self.damaged(f"/{name} is neither 0 nor 1")
        return bool(value)

    def _verify(self, name: str) -> None:
        dataset = self._plain(name)
        mark, wanted = self._entries[name]
        if dataset.dtype.kind not in "iufS":
            raise self.damaged(f"/{name} holds neither numbers nor plain text")
        if mark == OPEN:
            if sum_in_file(dataset, name, values=False) != wanted:
                raise self.damaged(f"/{name} has another type or shape than it was written with")
            self._compared.add(name)
        elif dataset.nbytes <= AT_ONCE:
            self._compare(name, dataset)

    def _plain(self, name: str) -> h5py.Dataset:
        """A dataset; one that is missing, or whose values lie in other files, is refused."""
        import h5py

        parent = ""
        for part in name.split("/")[:-1]:
            path = f"{parent}/{part}" if parent else part
            if path not in self._groups:
                group = self._own(path)
                if not isinstance(group, h5py.Group):
                    raise self.damaged(f"/{path} is not a group")
                self._groups[path] = group
            parent = path
        dataset = self._own(name)
        if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
            raise self.damaged(f"/{name} is not a dataset")
        if dataset.external:
            raise self.damaged(f"the values of /{name} lie in another file")
        if dataset.is_virtual and not self._views:
            raise self.damaged(f"/{name} is a view of other data")
        return dataset

    def _own(self, path: str) -> Any:
        """Return the object at a path whose groups were checked; refuse a link elsewhere."""
        from h5py import h5l

        above, _, last = path.rpartition("/")
        group = self._groups[above]  # which must live while its links are looked at
        links = group.id.links
        if not links.exists(last.encode()):
            raise self.damaged(f"it has no /{path}")
        if links.get_info(last.encode()).type != h5l.TYPE_HARD:
            raise self.damaged(f"/{path} is a link to something else")
        return stored_at(group, last)


def require_format(
    path: Path, attributes: Mapping[str, Any], what: str, kind: type[TauslabError] = InputFileError
) -> None:
    """Refuse a file of another program or of another version.

    Parameters
    ----------
    what
        What the file should be, such as ``a result``.
    """
    result = attributes.get("format_version")
    read = OLDEST_FORMAT <= result <= FORMAT_VERSION if isinstance(result, int) else True
    if not read and "format" in attributes:
        reads = f"{OLDEST_FORMAT} to {FORMAT_VERSION}"
        raise kind(f"{path} has format version {result}; this tauslab reads {reads}")
    form = attributes.get("format")
    if form != FORMAT:
        raise kind(
            f"{path} is not {what} of tauslab: attribute 'format' is {form!r}, not {FORMAT!r}"
        )
    if not isinstance(result, int):
        raise kind(f"{path} is not {what} of tauslab: it has no format version")


def require_undamaged(path: Path, file: h5py.File) -> None:
    """Compare the model in a file of ours with its checksums; another program's file passes.

    Raises
    ------
    ModelError
        It is not what was written, or of another version.
    """
    result = safe_attributes(file)
    if "format_version" in result:
        require_format(path, result, "a result", ModelError)
    elif result.get("format") != FORMAT or SEALED not in file:
        return
    views = result.get("storage") == "virtual"
    if views:
        require_sound_heaps(path, ModelError)
    sealed = SealedFile(path, file, ModelError, views=views)
    for name in sealed.names:
        if name.startswith("model/"):
            sealed.require(name)


# ---------------------------------------------------------------- heaps

_COLLECTION, _HEAD = b"GCOL\x01\0\0\0", 16


def require_sound_heaps(path: Path, kind: type[TauslabError] = InputFileError) -> None:
    """Refuse a file in whose heaps HDF5 could go round without end.

    Only views of other files need a heap; these files are small, for they hold no rows.
    """
    if not path.stat().st_size:
        return
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_COLLECTION)
        while at >= 0:
            end = at + int.from_bytes(data[at + 8 : at + 16], "little")
            place = at + _HEAD
            while place + _HEAD <= min(end, len(data)):
                index = int.from_bytes(data[place : place + 2], "little")
                size = int.from_bytes(data[place + 8 : place + 16], "little")
                # Object 0 is the free space at the end, and counts its own head.
                step = size if index == 0 else _HEAD + -(-size // 8) * 8
                if step < _HEAD or place + step > end:
                    raise kind(f"{path} is damaged: a heap of it is")
                place += step
            at = data.find(_COLLECTION, at + 1)


def final_seals(file: h5py.File, contents: Mapping[str, Array]) -> Uint32Array:
    """The seals of a file whose run ends, with those of what it then gets, by dataset."""
    sums: Uint32Array = file[SEALS][()]
    for at, entry in enumerate(file[SEALED][()].tolist()):
        name = entry.decode().removeprefix(LATER)
        if name in contents:
            stored = stored_at(file, name)
            values = np.asarray(contents[name]).astype(stored.dtype, copy=False)
            sums[at] = dataset_sum(name, stored.dtype, stored.shape, [values])
    return sums
