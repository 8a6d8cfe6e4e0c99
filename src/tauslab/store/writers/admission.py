"""Decides before a run whether its output may be written, completed or added to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import FORMAT_VERSION
from tauslab.base.option_names import opt, replacing, warn
from tauslab.options.keywords import CommonChoices, EnsembleChoices
from tauslab.options.methods import METHOD_CLASSES
from tauslab.options.sweep import Share
from tauslab.options.values.definition import attribute_names
from tauslab.options.values.texts import drawn
from tauslab.store.checking.ensemble import checked_ensemble
from tauslab.store.checking.opening import open_hdf5, with_rerun_advice
from tauslab.store.format.layout import Layout
from tauslab.store.format.versions import (
    BESIDE_NOISE,
    CLOCKS,
    CONDITIONS,
    JUMPS,
    MIXED_EVENTS,
    PULSES,
    SET_BY_EVENTS,
    THINNED_RATES,
    UNCHANGED,
    WITHIN_STEPS,
    other_bits,
)
from tauslab.store.targets import require_place

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

# Root attributes that decide the numbers of a run: options, and what else a file says.
_IDENTITY = (
    "model_sha256", "method", *attribute_names(EnsembleChoices, CommonChoices, *METHOD_CLASSES),
    "leaper", "group",
)  # fmt: skip

_OF_EACH = 'kind = "values per trajectory"'  # in a model whose run gave each its own

_FIRST_WITH_WRITERS = 3  # version of HDF5's superblock from which on it notes an open writer


@dataclass(frozen=True)
class Existing:
    """A result that a run goes on from; `storage` and `run` as in `schema.root_attributes`.

    `shared` says that its format bears being opened for writing by a process that is killed;
    `format_version` is its own.
    """

    storage: str
    run: str
    complete: bool
    shared: bool = False
    format_version: int = FORMAT_VERSION


def examine(path: Path, layout: Layout, *, overwrite: bool, resume: bool) -> Existing | None:
    """The result at `path` to go on from; None for a new run. Nothing is changed.

    Raises
    ------
    ConfigError
        The folder is missing or not writable; the file exists and may be neither replaced nor
        resumed, or not be written; it holds another run, and the message names what differs.
    """
    require_free(path, overwrite=overwrite, resume=resume)
    if not path.exists() or overwrite:
        return None
    if not os.access(path, os.R_OK | os.W_OK):
        raise ConfigError(f"{path} cannot be resumed: the file is not readable and writable")
    with with_rerun_advice(), _open(path) as (file, attributes):
        _require_same(file, attributes, path, layout, "resume")
        if bool(file["progress/complete"][()] != 1):
            warn_of_other_bits(path, attributes, layout)
        return Existing(
            storage=str(attributes["storage"]),
            run=str(attributes["run"]),
            complete=bool(file["progress/complete"][()] == 1),
            shared=file.id.get_create_plist().get_version()[0] < _FIRST_WITH_WRITERS,
            format_version=int(attributes["format_version"]),
        )


def warn_of_other_bits(path: Path, attributes: Mapping[str, Any], layout: Layout) -> None:
    """Warn where what is there has other bits than what this program adds."""
    thinned = THINNED_RATES in layout.attributes
    own = layout.attributes
    same = thinned == (THINNED_RATES in attributes)
    same &= own.get(CONDITIONS) == attributes.get(CONDITIONS)
    kinds = {
        " of clocks that events set": own.get(CLOCKS) == SET_BY_EVENTS,
        " of clocks": CLOCKS in own,
        " of events at times beside triggers": MIXED_EVENTS in own,
        " of pulses that unchanged species move": UNCHANGED in own,
        " of noise": own.get(JUMPS) == BESIDE_NOISE,
        " of jumps within steps": own.get(JUMPS) == WITHIN_STEPS,
        " of conditions": CONDITIONS in own,
        " of pulses": own.get(CONDITIONS) == PULSES,
        " of thinned rates": thinned,
        "": True,
    }
    engines = ("ensemble" + kind for kind, applies in kinds.items() if applies)
    if difference := other_bits(attributes, *engines, same=same):
        warn(f"{path} {difference}: its trajectories are of both")


def require_free(path: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuse a path where no file can be made, or where one is that must be kept.

    Raises
    ------
    ConfigError
        As `require_place`; or the file exists and may be neither replaced nor resumed.
    """
    if overwrite and resume:
        raise ConfigError(f"{opt('overwrite')} and {opt('resume')} exclude each other")
    require_place(path)
    if path.exists() and not (overwrite or resume):
        raise ConfigError(
            f"{path} exists; use {replacing(path)}, {opt('resume')} or another {opt('output')}"
        )


def require_same_run(path: Path, layout: Layout, option: str) -> None:
    """Refuse what is not the run of the layout, in blocks of whatever size.

    Raises
    ------
    ConfigError
        It holds another run; the message names what differs, and `option`.
    """
    with _open(path) as (file, attributes):
        same = replace(layout, block=int(attributes["block"]))
        _require_same(file, attributes, path, same, option)


def _require_same(
    file: h5py.File, attributes: Mapping[str, Any], path: Path, layout: Layout, option: str
) -> None:
    for name, stored, wanted in _differences(file, attributes, layout):
        raise ConfigError(
            f"{path} holds another run: its {name} is {_short(stored)}, "
            f"not {_short(wanted)}; {opt(option)} needs the same job"
        )


def existing_attributes(path: Path) -> Mapping[str, Any]:
    """The root attributes of the result at `path`; none without a file.

    Raises
    ------
    ConfigError
        The file is not a result of tauslab.
    """
    if not path.exists():
        return {}
    with with_rerun_advice(), _open(path) as (_, attributes):
        return dict(attributes)


@contextmanager
def _open(path: Path) -> Iterator[tuple[h5py.File, Mapping[str, Any]]]:
    """The file of an ensemble, checked, and its attributes."""
    with reading(path, ConfigError), open_hdf5(path, ConfigError) as file:
        yield file, checked_ensemble(path, file, ConfigError).attributes


def _differences(
    file: h5py.File, attributes: Mapping[str, Any], layout: Layout
) -> Iterator[tuple[str, Any, Any]]:
    """Name, value in the file and value wanted, of everything that differs."""
    yield from _sweep_differences(file, attributes, layout)
    yield from _draws_differ(attributes, layout)  # before the model, which has their middles
    wanted = {key: layout.attributes.get(key) for key in _IDENTITY}
    wanted |= {"n": layout.n, "record": layout.record, "block": layout.block}
    for key, value in wanted.items():
        stored = attributes.get(key)
        if stored != value and key == "model_sha256":
            yield _model_difference(file, layout) or (key, stored, value)
        elif stored != value and key == "before":
            yield "first trajectory", stored or 0, value or 0
        elif stored != value:
            yield key, stored, value
    times = file["time"][()]
    if not np.array_equal(times, layout.times):
        if len(times) != len(layout.times):
            yield "number of sample times", len(times), len(layout.times)
        else:
            index = int(np.flatnonzero(times != layout.times)[-1])
            name = "last sample time" if index == len(times) - 1 else f"sample time {index}"
            yield name, float(times[index]), float(layout.times[index])
    texts = {"species": layout.species, "observable": layout.observables}
    for key, names in texts.items():
        stored = tuple(v.decode() for v in file[key][()]) if key in file else ()
        if stored != names:
            yield f"list of {key}", ", ".join(stored), ", ".join(names)
    # Files of versions that rounded these amounts have no such list.
    kept, keeps = (str(one.get("unrounded", "")) for one in (attributes, layout.attributes))
    if kept != keeps:
        yield "list of fixed amounts that are not rounded", kept or "empty", keeps or "empty"


def _draws_differ(attributes: Mapping[str, Any], layout: Layout) -> Iterator[tuple[str, str, str]]:
    """Differences in what is drawn, with the numbers of an older file's ``lognormal`` by name."""
    stored = str(attributes.get("sample", ""))
    drawn_before, wanted = drawn(stored), drawn(str(layout.attributes.get("sample", "")))
    if drawn_before != wanted:
        older = "; ".join(drawn_before) != stored
        name = "sample, from when lognormal began by the median," if older else "sample"
        yield name, "; ".join(drawn_before) or "empty", "; ".join(wanted) or "empty"


def _model_difference(file: h5py.File, layout: Layout) -> tuple[str, str, str] | None:
    """The first lines in which two models differ; None where their texts do not show it."""
    stored = file["model/canonical"][()].decode() if "model/canonical" in file else ""
    each, has = (_OF_EACH in text for text in (stored, layout.model_canonical))
    if each != has or (each and stored == layout.model_canonical):
        there = "another one" if has else "one of its own"
        wanted = "that of this run" if has else "empty"
        return "list of values per trajectory", there if each else "empty", wanted
    before, after = stored.splitlines(), layout.model_canonical.splitlines()
    for line, wanted in zip(before, after, strict=False) if stored else ():
        if line != wanted:
            return "model", line, wanted
    most = min(len(before), len(after))
    more = [line for line in (*before[most:], *after[most:]) if "=" in line] if stored else []
    words = ("with", "without") if len(before) > most else ("without", "with")
    return ("model", f"{words[0]} {more[0]}", f"{words[1]} it") if more else None


def _sweep_differences(
    file: h5py.File, attributes: Mapping[str, Any], layout: Layout
) -> Iterator[tuple[str, Any, Any]]:
    sweep = layout.sweep or {}
    swept = str(attributes.get("sweep", ""))
    if swept != ",".join(sweep):
        yield "sweep", swept or "of no name", ",".join(sweep) or "of no name"
        return
    own, held = (Share.of_file(each) for each in (layout.attributes, attributes))
    if own is not None and held is not None and own.sha256 != held.sha256:  # older files have none
        yield "table of all points", held.sha256[:16], own.sha256[:16]
    for name, values in sweep.items():
        stored = file[f"sweep/{name}"][()]
        if len(stored) != len(values):
            yield "number of points", len(stored), len(values)
        elif not np.array_equal(stored, values):
            point = int(np.flatnonzero(stored != values)[0])
            yield f"value of {name} at point {point}", float(stored[point]), float(values[point])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
