"""A result file as the model of a run: what the command does not say is as in the file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.options.keywords import NetworkKeywords
from tauslab.options.methods import method_class
from tauslab.options.sweep import Sweep
from tauslab.options.values.definition import taken
from tauslab.options.values.texts import drawn_again
from tauslab.runner.ensemble.from_file import sweep_of
from tauslab.store.results.open import open_result

_SAMPLE_TIMES = ("times", "t_end", "points")
_POINTS = ("sweep", "design", "table")


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


def own_output(arguments: argparse.Namespace) -> Path:
    """Path of the result without ``-o``: the file that grows, or one in this folder."""
    model: Path = arguments.model
    grows = arguments.append is not None or arguments.append_to is not None
    if grows and model.suffix.lower() == ".h5":
        return model
    return Path(model.stem + ".h5")
