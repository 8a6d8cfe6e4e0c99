"""``tauslab run ARCHIVE.omex``: a COMBINE archive, whose experiments say themselves what to run."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.sedml.reports import run_archive

# What SED-ML says itself.
_OF_AN_EXPERIMENT = (
    "n", "method", "t_end", "points", "times", "set", "sweep", "table", "design", "sample",
    "record", "species", "resume", "append", "until", "molecules", "epsilon", "threads", "json",
)  # fmt: skip
_UNSAID: tuple[object, ...] = (None, False, [], (), {})


def run_experiments(arguments: argparse.Namespace) -> list[str]:
    """Run what the SED-ML of an archive asks for; returns a line for each output."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in _OF_AN_EXPERIMENT
        if getattr(arguments, name, None) not in _UNSAID
    ]
    if given:
        raise ConfigError(f"{given[0]}: {arguments.model} says itself what to run")
    if ranks().size > 1:
        raise ConfigError(f"{arguments.model}: COMBINE archives run on one rank")
    options = {"device": arguments.device, "seed": arguments.seed}
    folder = arguments.output or Path(arguments.model.stem)
    given_here = {name: value for name, value in options.items() if value is not None}
    return run_archive(arguments.model, folder, given_here, overwrite=arguments.overwrite)
