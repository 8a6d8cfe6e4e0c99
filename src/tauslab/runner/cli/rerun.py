"""A result file as the model of a run: what the command does not say is as in the file."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.runner.ensemble.from_file import sweep_of
from tauslab.runner.options.sweep import Sweep
from tauslab.runner.results.open import open_result


def take_from_result(arguments: argparse.Namespace) -> Sweep | None:
    """A result file reruns from itself: what the command does not say is as in the file.

    Returns the points of its sweep, if the command gives no others.
    """
    if arguments.model.suffix.lower() != ".h5":
        return None
    with open_result(arguments.model) as result:
        stored = result.attributes
        own = arguments.method in (None, result.method)
        integration: tuple[str, ...] = ("precision", "ode_solver", "substeps", "rtol", "atol")
        if arguments.ode_solver not in (None, stored.get("ode_solver")):
            integration = ("precision",)  # the others belong to the solver of the file
        if arguments.t_end is arguments.points is arguments.times is None:
            arguments.times = result.times
        if arguments.species is None and arguments.record is None:
            arguments.species = ",".join(result.species + result.observables)
        for name, value in (
            ("n", result.n),
            ("seed", result.seed),
            ("method", result.method),
            ("epsilon", stored.get("epsilon") if own else None),
            ("post_leap_check", stored.get("post_leap_check") if own else None),
            ("record", stored.get("record")),
            ("max_steps", stored.get("max_steps")),
            *((name, stored.get(name) if own else None) for name in integration),
        ):
            if getattr(arguments, name) is None:
                setattr(arguments, name, value)
        if arguments.selector is None and arguments.method == "ssa":
            arguments.selector = stored.get("selector")
            if arguments.presimulation is None:
                arguments.presimulation = stored.get("presimulation", 0)
        if own and not arguments.sample and "sample" in stored:
            arguments.sample = str(stored["sample"]).split("; ")
        if not result.swept or arguments.sweep or arguments.design or arguments.table:
            return None
        return sweep_of(result)


def own_output(arguments: argparse.Namespace) -> Path:
    """Where the result goes without ``-o``: to the file that grows, or into this folder."""
    model: Path = arguments.model
    if arguments.append is not None and model.suffix.lower() == ".h5":
        return model
    return Path(model.stem + ".h5")
