"""What ``tauslab rare`` does."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tauslab.kernels.backends import choose_backend
from tauslab.model.errors import ConfigError
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.model.readers import read as readers
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.particles.keywords import RareFlags
from tauslab.runner.cli.pipes import model_given
from tauslab.runner.cli.tools import ignored, telling_warnings
from tauslab.runner.options.places import CPU, Device, OverwriteFlag
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.ranks.stopping import stopping_at_checkpoints
from tauslab.runner.rare.keywords import (
    BinChoices,
    KillChoices,
    SplittingKeywords,
    WeightedKeywords,
)
from tauslab.runner.rare.run import run_splitting, run_weighted
from tauslab.runner.rare.spatial import run_spatial
from tauslab.runner.results.arrays.file import writing_result

# Of whose options the arguments are made.
OPTIONS = (RareFlags, WeightedKeywords, KillChoices, CPU, OverwriteFlag)


def process_rare(arguments: argparse.Namespace) -> None:
    """Read a model, find the probability or the rate, write it, say it."""
    comm = ranks()
    arguments.quiet = arguments.quiet or arguments.json
    with (
        telling_warnings(comm.rank),
        writing_result(arguments.output, comm, overwrite=arguments.overwrite) as write,
    ):
        network, given = on_root(comm, lambda: _job(arguments))
        with stopping_at_checkpoints(comm, arguments.checkpoint):
            if isinstance(given, SplittingKeywords):
                assert isinstance(network, Network)
                result = run_splitting(network, given, comm)
            elif isinstance(network, Lattice):
                result = run_spatial(network, given, comm)
            else:
                result = run_weighted(network, given, comm)
        write(result.save)

    def answer() -> None:
        if arguments.json:
            print(json.dumps(result.facts(), indent=2, ensure_ascii=False))
        elif not arguments.quiet:
            print("\n".join(result.lines()))

    on_root(comm, answer)


def _job(
    arguments: argparse.Namespace,
) -> tuple[Network | Lattice, WeightedKeywords | SplittingKeywords]:
    with model_given(arguments):
        network = _model(arguments)
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


def _model(arguments: argparse.Namespace) -> Network | Lattice:
    if arguments.model.suffix.lower() == ".bngl":
        return read_telling(arguments.model, ignored if arguments.quiet else print)
    return readers.read(arguments.model)


def device_of(arguments: argparse.Namespace) -> Device:
    """The device, and the threads where it is a CPU."""
    name: Device = arguments.device
    if arguments.threads and choose_backend(arguments.device) == CPU.word:
        return CPU(threads=arguments.threads)
    return name
