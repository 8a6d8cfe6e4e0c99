"""Attributes, texts and names of a ``.lm`` file, for the readers of its two kinds of model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ModelError
from tauslab.model.lattice.parts import MOST_SPECIES, VOLUMES

LARGEST = 2**31 - 1  # of whole numbers
MOST_NAMES = 1_000_000  # that are made up
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
        if count > MOST_NAMES:
            raise ModelError(f"{len(given)} names for {count} {what}")
        names = [f"{what}{i}" for i in range(count)]
        trouble = "no names" if not given else f"{len(given)} names"
        kinds = "species" if what == "species" else "site types"
        notes.append(f"{trouble} for {count} {kinds}: called {', '.join(names[:1])}, ...")
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
    result = np.asarray(() if value is None else value).ravel()
    return result[0] if len(result) else None


def need(item: Any, name: str) -> Any:
    """The scalar attribute `name`; a `ModelError` if it is not there."""
    value = one(item, name)
    if value is None:
        raise ModelError(f"{item.name} has no attribute {name}")
    return value


def whole(item: Any, name: str) -> int:
    """The scalar attribute `name`, a whole number from 0 to 2^31 - 1.

    Raises
    ------
    ModelError
        It is not there, or something else.
    """
    value = real(item, name)
    if not (0 <= value <= LARGEST and value == int(value)):
        raise ModelError(f"{item.name}: {name} is {value:g}, not a whole number of 0 or more")
    return int(value)


def real(item: Any, name: str) -> float:
    """The scalar attribute `name`, a number.

    Raises
    ------
    ModelError
        It is not there, or something else.
    """
    value = need(item, name)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ModelError(f"{item.name}: {name} is not a number") from None


def numbers(group: Any, name: str, axes: int) -> FloatArray:
    """The dataset `name`, an array of numbers with so many axes.

    Raises
    ------
    ModelError
        It is something else.
    """
    result = _array(group, name)
    if result.dtype.kind not in "iufb" or result.ndim != axes:
        raise ModelError(f"{group.name}/{name} is not an array of numbers with {axes} axes")
    return result.astype(np.float64)


def _array(group: Any, name: str) -> Array:
    """Read a whole dataset, which must lie in the file itself: a model may read no other file."""
    result = group[name]
    if not hasattr(result, "dtype"):
        raise ModelError(f"{group.name}/{name} is not an array")
    if result.external or result.is_virtual or result.file.filename != group.file.filename:
        raise ModelError(f"{group.name}/{name} lies in another file: write the model as one file")
    return np.asarray(result[...])


def whole_numbers(group: Any, name: str, axes: int) -> IntArray:
    """The dataset `name`, an array of whole numbers, at most 2^31 - 1, with so many axes.

    Raises
    ------
    ModelError
        It is something else.
    """
    result = numbers(group, name, axes)
    if not (np.abs(result) <= LARGEST).all() or (result != np.floor(result)).any():
        raise ModelError(f"{group.name}/{name} holds what is not a whole number below 2^31")
    return result.astype(np.int64)


def indices(group: Any, name: str, axes: int, largest: int = LARGEST) -> npt.NDArray[np.integer]:
    """The dataset `name`, an array of whole numbers from 0 to `largest`, in the type it has.

    Raises
    ------
    ModelError
        It is something else.
    """
    result = _array(group, name)
    if result.dtype.kind not in "iu" or result.ndim != axes:
        raise ModelError(f"{group.name}/{name} is not an array of whole numbers with {axes} axes")
    if result.size and not (result.min() >= 0 and result.max() <= largest):
        raise ModelError(f"{group.name}/{name} holds numbers that are not from 0 to {largest}")
    return result


def text(value: Any) -> str:
    """Text of a parameter: bytes, str, or an array of one."""
    first: Any = value
    if isinstance(value, np.ndarray):
        first = value.ravel()[0] if value.size else ""
    return first.decode().rstrip("\0") if isinstance(first, bytes) else str(first)


def listed(names: str) -> list[str]:
    """Names of a list with commas."""
    return [name.strip() for name in names.split(",")] if names.strip() else []
