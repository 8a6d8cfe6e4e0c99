"""COMBINE archives: a zip file with a manifest that says which parts are experiments."""

from __future__ import annotations

import lzma
import shutil
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree as ET

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import warn
from tauslab.formats.sbml.text import scan

_MOST_BYTES = 1 << 30
_MOST_PARTS = 10_000
_MANIFEST = "manifest.xml"
# What zipfile raises of bytes that are none, or are packed as it does not know.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, RuntimeError, EOFError, ValueError, OverflowError, IndexError),
)
_SPACE = "{http://identifiers.org/combine.specifications/omex-manifest}"
_SEDML = "identifiers.org/combine.specifications/sed-ml"


@contextmanager
def places_of_archive(root: Path) -> Iterator[None]:
    """Within it errors and warnings name files by their places in the archive.

    Parameters
    ----------
    root
        Where that is unpacked.
    """
    folders = {f"{root}/", f"{root.resolve()}/"}
    try:
        with _warnings_without(folders):
            yield
    except Exception as error:
        error.args = tuple(_without(folders, part) for part in error.args)
        if isinstance(error, OSError):  # it holds its file beside its message
            error.filename = _without(folders, error.filename)
        raise


@contextmanager
def _warnings_without(folders: set[str]) -> Iterator[None]:
    """Warnings within it come at its end, without these folders."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for one in caught:
            warn(one.category(_without(folders, str(one.message))))


def _without(folders: set[str], part: object) -> object:
    if isinstance(part, str):
        for folder in sorted(folders, key=len, reverse=True):
            part = part.replace(folder, "")
    return part


def unpack(path: Path, folder: Path) -> list[PurePosixPath]:
    """Unpack an archive; returns places of its experiments, the master ones if any is marked.

    Raises
    ------
    ModelError
        The file is no such archive, a part would lie outside the folder, or it unpacks to more than
        1 GiB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, path)
            for member in archive.infolist():
                target = folder / member.filename
                if member.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except _BROKEN as error:
        raise ModelError(f"{path}: is no COMBINE archive: {error}") from None
    return _experiments(path, folder)


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    total = 0
    if len(archive.infolist()) > _MOST_PARTS:
        raise ModelError(f"{path}: has {len(archive.infolist())} parts; {_MOST_PARTS} is the limit")
    for member in archive.infolist():
        place = PurePosixPath(member.filename)
        if place.is_absolute() or ".." in place.parts or "\\" in member.filename:
            raise ModelError(f"{path}: its part {member.filename!r} would lie outside the folder")
        total += member.file_size
    if total > _MOST_BYTES:
        raise ModelError(f"{path}: unpacks to {total} bytes, more than {_MOST_BYTES}")


def _experiments(path: Path, folder: Path) -> list[PurePosixPath]:
    manifest = folder / _MANIFEST
    if not manifest.is_file():
        raise ModelError(f"{path}: has no {_MANIFEST}")
    text = manifest.read_text(encoding="utf-8", errors="replace")
    scan(text, f"{path}: {_MANIFEST}")
    root = ET.fromstring(text)  # noqa: S314 - without a document type, so no entities
    parts = [e for e in root.iter(f"{_SPACE}content") if _SEDML in e.get("format", "")]
    masters = [e for e in parts if e.get("master", "").lower() == "true"]
    result = list(dict.fromkeys(PurePosixPath(e.get("location", "")) for e in masters or parts))
    if not result:
        raise ConfigError(f"{path}: holds no experiment in SED-ML")
    for place in result:
        if place.is_absolute() or ".." in place.parts or not (folder / place).is_file():
            raise ModelError(f"{path}: {_MANIFEST} names {str(place)!r}, which it does not hold")
    return result
