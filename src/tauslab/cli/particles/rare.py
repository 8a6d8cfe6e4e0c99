"""The command ``tauslab rare``."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.analysis.rare.keywords import (
    BinChoices,
    KillChoices,
    SplittingKeywords,
    WeightedKeywords,
)
from tauslab.analysis.rare.run import run_splitting, run_weighted
from tauslab.analysis.rare.spatial import run_spatial
from tauslab.base.errors import ConfigError
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answer, device_of, model_named
from tauslab.cli.particles.keywords import RareFlags
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (RareFlags, WeightedKeywords, KillChoices, CPU, OverwriteFlag)


def process_rare(arguments: argparse.Namespace) -> None:
    """Read a model, find the probability or the rate, write it, say it."""
    answer(arguments, _searched)


def _searched(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    network, given = on_root(comm, lambda: _job(arguments))
    with stopping_at_checkpoints(comm, arguments.checkpoint):
        if isinstance(given, SplittingKeywords):
            assert isinstance(network, Network)
            return run_splitting(network, given, comm), {}, []
        if isinstance(network, Lattice):
            return run_spatial(network, given, comm), {}, []
        return run_weighted(network, given, comm), {}, []


def _job(
    arguments: argparse.Namespace,
) -> tuple[Network | Lattice, WeightedKeywords | SplittingKeywords]:
    network = model_named(arguments)
    splits = arguments.method == "splitting"
    if splits and isinstance(network, Lattice):
        raise ConfigError(f"--method splitting is not for lattices, as {arguments.model} holds")
    keywords = SplittingKeywords if splits else WeightedKeywords
    if others := given_options(arguments, BinChoices if splits else KillChoices):
        raise ConfigError(
            f"--{next(iter(others))} is not for --method {arguments.method}: leave it out"
        )
    given: dict[str, Any] = given_options(arguments, keywords)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return network, keywords(**given)
