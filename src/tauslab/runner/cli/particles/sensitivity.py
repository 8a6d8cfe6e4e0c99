"""What ``tauslab sensitivity`` does."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tauslab.model.network.network import Network
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.particles.keywords import JsonFlag
from tauslab.runner.cli.particles.rare import device_of
from tauslab.runner.cli.pipes import model_given
from tauslab.runner.cli.tools import ignored, telling_warnings
from tauslab.runner.options.places import CPU, OverwriteFlag
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.results.arrays.file import writing_result
from tauslab.runner.sensitivity.keywords import SensitivityKeywords
from tauslab.runner.sensitivity.run import run_sensitivity

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, SensitivityKeywords, CPU, OverwriteFlag)


def process_sensitivity(arguments: argparse.Namespace) -> None:
    """Read a model, estimate derivatives, write them, say them."""
    comm = ranks()
    arguments.quiet = arguments.quiet or arguments.json
    with (
        telling_warnings(comm.rank),
        writing_result(arguments.output, comm, overwrite=arguments.overwrite) as write,
    ):
        network, given = on_root(comm, lambda: _job(arguments))
        found = run_sensitivity(network, given, comm)
        write(found.save)

    def answer() -> None:
        if arguments.json:
            print(json.dumps(found.facts(), indent=2, ensure_ascii=False))
        elif not arguments.quiet:
            print("\n".join(found.lines()))

    on_root(comm, answer)


def _job(arguments: argparse.Namespace) -> tuple[Network, SensitivityKeywords]:
    with model_given(arguments):
        network = read_telling(arguments.model, ignored if arguments.quiet else print)
    given: dict[str, Any] = given_options(arguments, SensitivityKeywords)
    given |= {"quiet": arguments.quiet, "output": None, "device": device_of(arguments)}
    return network, SensitivityKeywords(**given)
