"""Attributes, texts and names of a ``.lm`` file, for the readers of its two kinds of model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.errors import ModelError
from tauslab.model.lattice_parts import MOST_SPECIES, VOLUMES

_VERSIONS = (2, 3, 4)
_MARK = b"LMH5"
# Keys of /Parameters that do not decide how a model behaves in time.
_DROPPED = ("fptTrackingList", "speciesLowerLimitList", "speciesUpperLimitList")


def check_format(file: Any, path: Path, notes: list[str]) -> None:
    """Refuse other versions of the format; note a file that lacks the mark of its program."""
    version = one(file, "formatVersion")
    if version not in _VERSIONS:
        raise ModelError(f"formatVersion is {version}; 2 to 4 can be read")
    with path.open("rb") as raw:
        if raw.read(len(_MARK)) != _MARK:
            notes.append("the file does not begin with LMH5, as Lattice Microbes writes it")


def parameters_of(file: Any) -> dict[str, str]:
    """Attributes of /Parameters, which are texts, numbers too."""
    group = file.get("Parameters")
    return {k: text(v) for k, v in group.attrs.items()} if group is not None else {}


def number(parameters: Mapping[str, str], key: str) -> float | None:
    """A parameter that is a number; None if it is not there."""
    if key not in parameters:
        return None
    try:
        return float(parameters[key])
    except ValueError:
        raise ModelError(f"/Parameters {key} = {parameters[key]!r} is not a number") from None


def species_names(
    file: Any, parameters: Mapping[str, str], count: int, notes: list[str]
) -> list[str]:
    """Names of the species, as pyLM and jLM write them, or as older files have them."""
    if "Parameters/SpeciesNames" in file:
        names = file["Parameters/SpeciesNames"]
        if names.size > MOST_SPECIES:
            raise ModelError(
                f"SpeciesNames is {list(names.shape)}; at most {MOST_SPECIES} are read"
            )
        given = [text(v) for v in names[...].ravel()]
    else:
        given = listed(parameters.get("speciesNames", ""))
    return usable_names(given, count, "species", notes)


def usable_names(given: Sequence[str], count: int, what: str, notes: list[str]) -> list[str]:
    """Names that a model may use, in place of those in the file; `what` is species or type."""
    if not 0 <= count <= MOST_SPECIES:
        raise ModelError(f"{count} {what}: 0 to {MOST_SPECIES} are allowed")
    if len(given) != count:
        names = [f"{what}{i}" for i in range(count)]
        trouble = "no names" if not given else f"{len(given)} names"
        kinds = "species" if what == "species" else "site types"
        notes.append(f"{trouble} for {count} {kinds}: called {names[0]}, ...")
        return names
    names = []
    for name in given:
        usable = re.sub(r"\W", "_", name, flags=re.ASCII) or what
        usable = f"_{usable}" if usable[0].isdigit() else usable
        usable = f"{usable}_" if usable in VOLUMES else usable
        while usable in names:
            usable += "_"
        if usable != name:
            notes.append(f"{what} {name!r} is called {usable}")
        names.append(usable)
    return names


def note_what_is_dropped(file: Any, parameters: Mapping[str, str], notes: list[str]) -> None:
    """Note lists of limits and first passages, and the output of earlier runs."""
    notes += [
        f"{key} = {parameters[key]}: not used, the run does not end there"
        for key in _DROPPED
        if parameters.get(key)
    ]
    runs = len(file.get("Simulations", ()))
    if runs:
        notes.append(f"output of {runs} runs in the file is not read")


def one(item: Any, name: str) -> Any:
    """The scalar attribute `name`, stored with shape (1,) or (), or None."""
    value = item.attrs.get(name)
    return None if value is None else np.asarray(value).ravel()[0]


def need(item: Any, name: str) -> Any:
    """The scalar attribute `name`; a `ModelError` if it is not there."""
    value = one(item, name)
    if value is None:
        raise ModelError(f"{item.name} has no attribute {name}")
    return value


def text(value: Any) -> str:
    """Text of a parameter: bytes, str, or an array of one."""
    first = value.ravel()[0] if isinstance(value, np.ndarray) else value
    return first.decode().rstrip("\0") if isinstance(first, bytes) else str(first)


def listed(names: str) -> list[str]:
    """Names of a list with commas."""
    return [name.strip() for name in names.split(",")] if names.strip() else []
