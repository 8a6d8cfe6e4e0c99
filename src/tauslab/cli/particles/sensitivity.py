"""The command ``tauslab sensitivity``."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.analysis.sensitivity.keywords import SensitivityKeywords
from tauslab.analysis.sensitivity.run import run_sensitivity
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answer, device_of, network_given
from tauslab.cli.particles.keywords import JsonFlag
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.model.network.network import Network
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, SensitivityKeywords, CPU, OverwriteFlag)


def process_sensitivity(arguments: argparse.Namespace) -> None:
    """Read a model, estimate derivatives, write them, say them."""
    answer(arguments, _derived)


def _derived(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    network, given = on_root(comm, lambda: _job(arguments))
    return run_sensitivity(network, given, comm), {}, []


def _job(arguments: argparse.Namespace) -> tuple[Network, SensitivityKeywords]:
    network = network_given(arguments)
    given: dict[str, Any] = given_options(arguments, SensitivityKeywords)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return network, SensitivityKeywords(**given)
