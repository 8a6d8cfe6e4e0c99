"""What a run takes over from a result file: one to resume, to add to, or to run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.runner.options.ensemble import DEFAULT_EPSILON, FloatArray, Options, Record
from tauslab.runner.options.sweep import Sweep
from tauslab.runner.output.writers.resume import existing_attribute, existing_text, require_free
from tauslab.runner.ranks.job import agreed_seed
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.results.open import open_result
from tauslab.runner.results.result import Result


def require_output(options: Options, comm: Communicator) -> None:
    """Refuse an output that cannot be, before anything is compiled or tried. Collective."""
    path = options.output
    if path is not None:
        keep = {"overwrite": options.overwrite, "resume": options.resume}
        on_root(comm, lambda: require_free(path, **keep))


def with_stored_choices(options: Options, comm: Communicator) -> Options:
    """The options with a seed, and with the choices of the run to resume. Collective."""
    return _with_seed(_with_check(_with_choices(options, comm), comm), comm)


def _with_seed(options: Options, comm: Communicator) -> Options:
    """The options with a seed: the one given, that of the run to resume, or one drawn."""
    output = options.output if options.resume else None

    def stored() -> int | None:
        return None if output is None else existing_attribute(output, "seed")

    return replace(options, seed=agreed_seed(options.seed, stored, comm))


def _with_check(options: Options, comm: Communicator) -> Options:
    """The options with the check after leaps that the run to resume has."""
    output = options.output
    if (
        not options.resume
        or output is None
        or options.post_leap_check
        or options.method in ("ssa", "ode")
    ):
        return options
    stored = on_root(comm, lambda: existing_text(output, "post_leap_check"))
    return replace(options, post_leap_check=stored is not None)


def _with_choices(options: Options, comm: Communicator) -> Options:
    """The options with the choices of the run to resume, where they are not given."""
    output = options.output
    if options.method_left_open and options.resume and output is not None:
        stored = on_root(comm, lambda: existing_text(output, "method"))
        options = replace(options, method=stored) if stored in ("ssa", "tau") else options
    if options.method == "auto" and options.selector is not None:
        options = replace(options, method="ssa")  # the only method that has selectors
    if options.method in ("tau", "ode") or not options.resume or output is None:
        return options
    selector = on_root(comm, lambda: existing_text(output, "selector"))
    events = on_root(comm, lambda: existing_text(output, "presimulation"))
    if options.presimulation is None and selector is not None:
        options = replace(options, presimulation=int(events or 0))
    if options.selector is None and selector is not None:
        options = replace(options, selector=selector, method="ssa", post_leap_check=False)
    return options


def left_open(options: Options, result: Result) -> dict[str, Any]:
    """Values from the result for options that the user left open."""
    stored = result.attributes
    chosen: dict[str, Any] = {}
    if options.seed is None:
        chosen["seed"] = result.seed
    if options.record is None:
        chosen["record"] = Record.parse(str(stored["record"]))
    if options.method_left_open or options.method == "auto":
        chosen["method"] = result.method
        chosen["post_leap_check"] = "post_leap_check" in stored
    if options.epsilon == DEFAULT_EPSILON and "epsilon" in stored:
        chosen["epsilon"] = float(stored["epsilon"])
    if options.max_steps == MAX_STEPS:
        chosen["max_steps"] = int(stored["max_steps"])
    if options.species is None:
        chosen["species"] = result.species + result.observables
    if options.sweep is None and result.swept:
        chosen["sweep"] = sweep_of(result)
    if "selector" in stored:
        chosen["selector"] = options.selector or str(stored["selector"])
        if options.presimulation is None:
            chosen["presimulation"] = int(stored.get("presimulation", 0))
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


def times_to_append(output: Path | None, append: int | None, *given: object) -> FloatArray | None:
    """Sample times of the result that trajectories are added to; None if others are `given`.

    Raises
    ------
    InputFileError
        The file is no result, or damaged.
    """
    if append is None or output is None or not output.exists() or any(g is not None for g in given):
        return None
    with open_result(output) as result:
        return result.times
