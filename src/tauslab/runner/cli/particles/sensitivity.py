"""What ``tauslab sensitivity`` does."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.model.network.network import Network
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.particles.answering import Found, answer, device_of, network_given
from tauslab.runner.cli.particles.keywords import JsonFlag
from tauslab.runner.options.places import CPU, OverwriteFlag
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.sensitivity.keywords import SensitivityKeywords
from tauslab.runner.sensitivity.run import run_sensitivity

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, SensitivityKeywords, CPU, OverwriteFlag)


def process_sensitivity(arguments: argparse.Namespace) -> None:
    """Read a model, estimate derivatives, write them, say them."""
    answer(arguments, _derived)


def _derived(arguments: argparse.Namespace, comm: Communicator) -> Found:
    network, given = on_root(comm, lambda: _job(arguments))
    return run_sensitivity(network, given, comm), {}, []


def _job(arguments: argparse.Namespace) -> tuple[Network, SensitivityKeywords]:
    network = network_given(arguments)
    given: dict[str, Any] = given_options(arguments, SensitivityKeywords)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return network, SensitivityKeywords(**given)
