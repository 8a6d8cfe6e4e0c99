"""Options that a run takes from a result file: one to resume, to add to, or to run again.

One rule for all three: an option that nobody gave is as in the file.  Which options a file holds,
and how, their definitions say (`tauslab.options.values.definition`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.together import agree
from tauslab.options.ensemble import FloatArray, Options
from tauslab.options.keywords import CommonChoices, EnsembleChoices, NetworkKeywords
from tauslab.options.methods import (
    DEFAULT_METHOD,
    METHOD_CLASSES,
    ODE,
    SSA,
    Auto,
    Method,
    TauLeaping,
    method_as_in,
    method_class,
)
from tauslab.options.record import Record
from tauslab.options.sweep import Sweep
from tauslab.options.values.definition import definitions, taken
from tauslab.options.values.texts import drawn_again
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.admission import existing_attributes, require_free

_OF_METHODS = {one.name for one, _ in definitions(*METHOD_CLASSES)}
_SAMPLE_TIMES = ("times", "t_end", "points")
_POINTS = ("sweep", "design", "table")


def require_output(options: Options, comm: Communicator) -> None:
    """Refuse an output that cannot be, before anything is compiled or tried. Collective."""
    path = options.output
    if path is not None:
        keep = {"overwrite": options.overwrite, "resume": options.resume}
        on_root(comm, lambda: require_free(path, **keep))


def with_stored_choices(options: Options, comm: Communicator) -> Options:
    """The options with a seed, and with the choices of the run to resume. Collective."""
    output = options.output if options.resume else None
    stored = {} if output is None else on_root(comm, lambda: existing_attributes(output))
    n = int(stored["n"]) if "n" in stored and "n" not in options.asked else options.n
    chosen = {"seed": options.seed, **agree(comm, lambda: as_stored(options, stored)), "n": n}
    chosen["seed"] = agreed_seed(chosen["seed"], lambda: None, comm)
    return agree(comm, lambda: replace(options, **chosen))


def as_stored(options: Options, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a file with these attributes for what nobody gave: method, and plain options."""
    given = options.asked
    chosen = taken(attributes, given, CommonChoices, EnsembleChoices)
    return chosen | {"method": method_in(attributes, given)}


def method_in(attributes: Mapping[str, Any], given: Mapping[str, Any]) -> Method:
    """The method of a run that goes on with a file of these attributes.

    Raises
    ------
    ConfigError
        An option is given that this method refuses.
    """
    own = {name: value for name, value in given.items() if name in _OF_METHODS}
    held = str(attributes.get("method", ""))
    word = given.get("method") or held or DEFAULT_METHOD
    if word == Auto.word and held in (SSA.word, TauLeaping.word):
        word = held  # what was chosen
        names = {one.name for one in fields(method_class(word))}
        own = {name: value for name, value in own.items() if name in names}
    if held == ODE.word and own.get("solver") == "auto":
        del own["solver"]  # one was chosen
    return method_as_in(attributes, word, own)


def left_open(options: Options, result: Result) -> dict[str, Any]:
    """Values from the result for options that the user left open."""
    stored = result.attributes
    chosen = as_stored(options, stored)
    if options.record is None:
        chosen["record"] = Record.parse(str(stored["record"]))
    if options.species is None:
        chosen["species"] = result.species + result.observables
    if options.sweep is None and result.swept:
        chosen["sweep"] = sweep_of(result)
    return chosen


def sweep_of(result: Result) -> Sweep:
    """The points of a result that has some."""
    grid = result.attributes.get("grid")
    return Sweep(
        tuple(result.points),
        np.stack(list(result.points.values()), axis=1),
        None if grid is None else tuple(map(int, str(grid).split(","))),
        result.name,
    )


def times_to_append(output: Path | None, *given: object) -> FloatArray | None:
    """Sample times of the result that trajectories are added to; None if others are `given`.

    Raises
    ------
    InputFileError
        The file is no result, or damaged.
    """
    if output is None or not output.exists() or any(g is not None for g in given):
        return None
    with open_result(output) as result:
        return result.times


def taken_from_result(model: Path, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Sweep | None]:
    """Read options that are not `asked` for from a result file, and the points of its sweep.

    A file of another kind says nothing.
    """
    if model.suffix.lower() != ".h5":
        return {}, None
    with open_result(model) as result:
        stored = result.attributes
        found = taken(stored, asked, NetworkKeywords)
        if asked.get("method", result.method) == result.method:
            found |= taken(stored, asked, method_class(result.method))
        if "sample" in found:
            found["sample"] = drawn_again(str(stored["sample"]), model)
        if not asked.keys() & set(_SAMPLE_TIMES):
            found["times"] = result.times
        if not asked.keys() & {"species", "record"}:
            found["species"] = result.species + result.observables
        if not result.swept or asked.keys() & set(_POINTS):
            return found, None
        return found, sweep_of(result)
