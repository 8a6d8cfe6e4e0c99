"""``tauslab run ARCHIVE.omex``: a COMBINE archive, whose experiments say themselves what to run."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.exchange.sedml.reports import run_archive

# What SED-ML does not say.
_HONOURED = ("device", "seed", "output", "overwrite", "quiet")


def run_experiments(arguments: argparse.Namespace, given: Collection[str]) -> list[str]:
    """Run what the SED-ML of an archive asks for.

    Parameters
    ----------
    given
        Names of the options that the command gives.

    Returns
    -------
    A line for each output.

    Raises
    ------
    ConfigError
        An option is given that an archive states itself, or several ranks run.
    """
    if others := [name for name in given if name not in _HONOURED]:
        raise ConfigError(
            f"{opt(others[0])} is not for {arguments.model}: an archive says itself what to run"
        )
    if ranks().size > 1:
        raise ConfigError(f"{arguments.model}: COMBINE archives run on one rank")
    options = {"device": arguments.device, "seed": arguments.seed}
    folder = arguments.output or Path(arguments.model.stem)
    given_here = {name: value for name, value in options.items() if value is not None}
    return run_archive(arguments.model, folder, given_here, overwrite=arguments.overwrite)
