"""The command ``tauslab rare``."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.analysis.rare.keywords import WeightedKeywords
from tauslab.analysis.rare.run import run_weighted
from tauslab.analysis.rare.spatial import run_spatial
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answer, device_of, model_named
from tauslab.cli.particles.keywords import JsonFlag
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, WeightedKeywords, CPU, OverwriteFlag)


def process_rare(arguments: argparse.Namespace) -> None:
    """Read a model, find the probability or the rate, write it, say it."""
    answer(arguments, _searched)


def _searched(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    model, given = on_root(comm, lambda: _job(arguments))
    with stopping_at_checkpoints(comm, arguments.checkpoint):
        if isinstance(model, Lattice):
            return run_spatial(model, given, comm), {}, []
        return run_weighted(model, given, comm), {}, []


def _job(arguments: argparse.Namespace) -> tuple[Network | Lattice, WeightedKeywords]:
    model = model_named(arguments)
    given: dict[str, Any] = given_options(arguments, WeightedKeywords)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return model, WeightedKeywords(**given)
