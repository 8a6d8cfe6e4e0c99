"""Submodels (package comp) made into one model by libsbml, files beside it included.

libsbml replaces, deletes and renames as the package says: element `X` of submodel `A` becomes
``A__X``. Files that a model takes submodels from are scanned as the model itself before libsbml
reads them, and must lie at a path relative to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.sbml.text import each, first_error, parsed, read_text

_MOST_FILES = 1000
_MOST_SUBMODELS = 10_000  # submodels of submodels included; libsbml makes one after the other
_Key = tuple[Path, str]  # file, and identifier of a model definition; empty for the main model


def has_submodels(document: Any) -> bool:
    """Return whether the file uses the package comp in a way that has to be understood."""
    return document.getPlugin("comp") is not None and document.getPackageRequired("comp")


def scan_sources(
    libsbml: Any, document: Any, path: Path, scan: Callable[[str, str], object]
) -> bool:
    """Look into all files that submodels come from; whether there is any.

    Raises
    ------
    ModelError
        A file is missing, is no path relative to the model, `scan` refuses its text, or there are
        more submodels than anybody writes.
    """
    left = [(document, path)]
    seen: set[Path] = set()
    inside: dict[_Key, list[_Key]] = {}
    while left:
        inner, place = left.pop()
        inside |= _inside(inner, place)
        for source in _sources(inner):
            found = place.parent / source
            if "://" in source or source.startswith(("file:", "urn:", "/")) or not found.is_file():
                raise ModelError(
                    f"{path}: a submodel comes from {source!r}, which is no file at that place "
                    "beside the model"
                )
            found = found.resolve()
            if found in seen:
                continue
            seen.add(found)
            if len(seen) > _MOST_FILES:
                raise ModelError(f"{path}: submodels come from more than {_MOST_FILES} files")
            text = read_text(found)
            scan(text, str(found))
            left.append((parsed(libsbml, text), found))
    if (count := _submodels(inside, (path, ""))) > _MOST_SUBMODELS:
        raise ModelError(f"{path}: has {count} submodels; {_MOST_SUBMODELS} is the limit")
    return bool(seen)


def _inside(document: Any, place: Path) -> dict[_Key, list[_Key]]:
    """Submodels of every model of a file."""
    plugin = document.getPlugin("comp")
    if plugin is None:
        return {}
    sources: dict[str, _Key] = {}
    for definition in each(plugin.getListOfExternalModelDefinitions()):
        file = (place.parent / definition.getSource()).resolve()
        sources[definition.getId()] = file, definition.getModelRef()
    main = document.getModel()
    definitions = each(plugin.getListOfModelDefinitions())
    models = {definition.getId(): definition for definition in definitions}
    if main is not None:
        models |= {"": main, main.getId(): main}
    return {
        (place, name): [
            sources.get(own.getModelRef(), (place, own.getModelRef()))
            for own in each(model.getPlugin("comp").getListOfSubmodels())
        ]
        for name, model in models.items()
    }


def _submodels(inside: dict[_Key, list[_Key]], root: _Key) -> int:
    """Number of submodels of a model; of a circle, which libsbml refuses, each once."""
    found: dict[_Key, int] = {}
    opened: set[_Key] = set()
    stack = [root]
    while stack:
        key = stack[-1]
        if key in opened:
            stack.pop()
            found[key] = sum(1 + found.get(own, 0) for own in inside.get(key, ()))
        else:
            opened.add(key)
            stack += [own for own in inside.get(key, ()) if own not in opened]
    return found[root]


def _sources(document: Any) -> Iterator[str]:
    plugin = document.getPlugin("comp")
    if plugin is not None:
        for definition in each(plugin.getListOfExternalModelDefinitions()):
            yield definition.getSource()


def flatten(libsbml: Any, document: Any, label: str) -> None:
    """Put one model without submodels in place of the document's.

    Raises
    ------
    ModelError
        libsbml cannot: its message.
    """
    properties = libsbml.ConversionProperties()
    properties.addOption("flatten comp", True)
    properties.addOption("leavePorts", False)
    properties.addOption("performValidation", False)
    properties.addOption("stripUnflattenablePackages", False)
    properties.addOption("abortIfUnflattenable", "requiredOnly")
    status = document.convert(properties)
    if status != libsbml.LIBSBML_OPERATION_SUCCESS:
        message = first_error(document) or libsbml.OperationReturnValue_toString(status)
        raise ModelError(f"{label}: submodels cannot be put together: {message}")
