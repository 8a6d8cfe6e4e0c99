"""Options that a run takes from a result file: one to resume, to add to, or to run again.

One rule for all three: an option that nobody gave is as in the file.  Which options a file holds,
and how, their definitions say (`tauslab.options.values.definition`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.diagnosis.time_breaks import has_times
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
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
from tauslab.options.sweep import POINTS_HELD, Share, Sweep, grid_of
from tauslab.options.values.definition import definitions, taken
from tauslab.options.values.sample_times import even_times, sample_times
from tauslab.options.values.texts import drawn_in_file
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.admission import existing_attributes, require_free

_OF_METHODS = {one.name for one, _ in definitions(*METHOD_CLASSES)}
_UNASKED = taken({}, {}, CommonChoices, EnsembleChoices)  # also where None is given
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
    if output is None and not options.grows:
        unasked = {n: v for n, v in _UNASKED.items() if n not in options.asked}
        if options.seed is None:
            unasked["seed"] = agreed_seed(None, lambda: None, comm)
        same = all(getattr(options, name) == value for name, value in unasked.items())
        return options if same else replace(options, **unasked)
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
    """The points of a result that has some.

    Raises
    ------
    ConfigError
        Points between them are missing, so that their numbers are no run's.
    """
    if POINTS_HELD in result.attributes:
        raise ConfigError(
            f"{result.name} lacks points in the middle, and cannot be run again or extended: "
            "merge the files of all tasks"
        )
    return Sweep(
        tuple(result.points),
        np.stack(list(result.points.values()), axis=1),
        grid_of(result.attributes.get("grid")),
        result.name,
        Share.of_file(result.attributes),
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


def times_to_resume(output: Path | None, times: FloatArray) -> FloatArray:
    """Sample times of the result to be resumed, if it has `times` that are rounded less well.

    Files before bits version 14 have the times of `numpy.linspace`.
    """
    if output is None or not output.exists():
        return times
    stored = times_to_append(output)
    plain = np.linspace(0.0, times[-1], len(times))
    return times if stored is None or not np.array_equal(stored, plain) else stored


def taken_from_result(model: Path, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Sweep | None]:
    """Read options that are not `asked` for from a result file, and the points of its sweep.

    A file of another kind says nothing, nor any file where a result is extended.
    """
    if model.suffix.lower() != ".h5" or asked.get("extend") is not None:
        return {}, None
    with open_result(model) as result:
        return taken_from(result, asked)


def taken_from(result: Result, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Sweep | None]:
    """Options that are not `asked` for as a result has them, and the points of its sweep."""
    stored = result.attributes
    collected = taken(stored, asked, NetworkKeywords)
    if asked.get("method", result.method) == result.method:
        collected |= taken(stored, asked, method_class(result.method))
    if "sample" in collected:
        collected["sample"] = drawn_in_file(str(stored["sample"]), Path(result.name))
    if not asked.keys() & set(_SAMPLE_TIMES):
        collected["times"] = result.times
    elif asked.keys() & set(_SAMPLE_TIMES) == {"t_end"} and _evenly_spaced(result.times):
        collected["points"] = len(result.times)
    if not asked.keys() & {"species", "record"}:
        collected["species"] = result.species + result.observables
    if asked.keys() & set(_POINTS):
        collected.pop("first_point", None)  # of other points
        return collected, None
    if not result.swept:
        return collected, None
    return collected, sweep_of(result)


def _evenly_spaced(times: FloatArray) -> bool:
    """Return whether times are those that an end and a number of points give."""
    return len(times) > 1 and any(
        np.array_equal(times, even(0.0, times[-1], len(times)))
        for even in (np.linspace, even_times)
    )


@contextmanager
def result_to_extend(given: Any) -> Iterator[Result]:
    """The result that is given, or at a path: a finished one of a network.

    Raises
    ------
    ConfigError
        It is something else, or unfinished.
    """
    if isinstance(given, str | os.PathLike):
        with open_result(Path(given)) as opened, result_to_extend(opened) as result:
            yield result
        return
    if not isinstance(given, Result):
        raise ConfigError(f"{opt('extend')} takes a result or its path, not {type(given).__name__}")
    if not given.complete:
        raise ConfigError(
            f"{opt('extend')}: {given.name} is unfinished; {opt('resume')} completes it"
        )
    yield given


def taken_to_extend(
    asked: Mapping[str, Any], network: Network
) -> tuple[dict[str, Any], Sweep | None]:
    """`asked`, with all else as in the result that it extends, and times that go on.

    Raises
    ------
    ConfigError
        The result has another method, seed or number of trajectories, or ends later.
    """
    with result_to_extend(asked["extend"]) as result:
        held = {"n": result.n, "seed": result.seed, "method": result.method}
        for name, value in held.items():
            if asked.get(name, value) != value:
                raise ConfigError(
                    f"{opt('extend')}: {result.name} was made with {opt(name, value)}: leave it out"
                )
        own, _ = taken_from(result, {})
        for name in ("first", "first_point", "max_steps"):
            if name in asked and name in own and asked[name] != own[name]:
                raise ConfigError(
                    f"{opt('extend')}: {result.name} was made with {opt(name, own[name])}: leave "
                    "it out"
                )
        if given := asked.keys() & {*_POINTS, "species", "record", "sample"}:
            raise ConfigError(
                f"{opt(min(given))} is as in {result.name}, which {opt('extend')} continues: leave "
                "it out"
            )
        plain = {name: value for name, value in asked.items() if name not in _SAMPLE_TIMES}
        collected, sweep = taken_from(result, {**plain, "times": None})
        longer = (asked.get(name) for name in _SAMPLE_TIMES)
        times = longer_times(result.times, *longer, decimal=has_times(network))
        held["record"] = str(result.attributes["record"])
        held["species"] = result.species + result.observables
        return {**collected, **held, **plain, "times": times}, sweep


def longer_times(
    times: FloatArray, given: Any, t_end: Any, points: Any, *, decimal: bool = False
) -> FloatArray:
    """Sample times that begin with `times`: as given, or up to an end at the same intervals.

    `decimal` as in `sample_times`.

    >>> longer_times(np.array([0.0, 0.5, 1.0]), None, 2, None)
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
    last, steps = float(times[-1]), np.diff(times)
    if given is None and (points is not None or t_end is None or not float(t_end) > last):
        raise ConfigError(
            f"{opt('extend')} needs {opt('t_end')} above {last:g}, the end of the result, without "
            f"{opt('points')}: the sample interval stays; or {opt('times')} that begin with the "
            "times of the result"
        )
    if given is None:
        step = last / (len(times) - 1) if len(times) > 1 else 0.0
        count = round(float(t_end) / step) if step else 0
        even = times[0] == 0 and len(steps) and np.allclose(steps, step, rtol=1e-9, atol=0)
        if not even or abs(count * step - float(t_end)) > 1e-9 * float(t_end):
            raise ConfigError(
                f"{opt('extend')}: the result has samples at intervals of {step:g}, of which "
                f"{opt('t_end', t_end)} is no multiple, or at uneven ones: give {opt('times')}"
            )
        longer = sample_times(None, t_end, count + 1, decimal=decimal)
        return np.concatenate([times, longer[len(times) :]])
    longer = sample_times(given)
    if len(longer) <= len(times) or (longer[: len(times)] != times).any():
        raise ConfigError(
            f"{opt('extend')}: {opt('times')} must begin with the {len(times)} sample times of the "
            "result and end later"
        )
    return longer
