"""The command ``tauslab population``."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.analysis.populations.keywords import PopulationKeywords
from tauslab.api.populations import population
from tauslab.base.errors import ConfigError
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answering, device_of, network_given
from tauslab.cli.particles.keywords import AnalysisFlags, SamplingFlag
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (AnalysisFlags, SamplingFlag, PopulationKeywords, CPU, OverwriteFlag)


@answering
def process_population(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    """Read a model of a cell, and let cells grow and divide."""
    given: dict[str, Any] = given_options(arguments, PopulationKeywords)
    if "max_cells" in given and arguments.follow != "tree":
        raise ConfigError(f"--max-cells is not for --follow {arguments.follow}: leave it out")
    network = on_root(comm, lambda: network_given(arguments))
    own = given_options(arguments, AnalysisFlags, SamplingFlag)
    when = own.get("t", network.t_end)
    if when is None:
        raise ConfigError("--t is missing: times of snapshots, in model units")
    given |= {"set": own.get("set"), "device": device_of(arguments)}
    settings = {
        "model": network.name, "division": arguments.division, "follow": arguments.follow,
        "cells_at_start": arguments.cells, "fraction": str(arguments.fraction),
    }  # fmt: skip
    return population(network, when, **given), settings, []
