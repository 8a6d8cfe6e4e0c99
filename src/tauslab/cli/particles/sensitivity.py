"""The command ``tauslab sensitivity``."""

from __future__ import annotations

import argparse

from tauslab.analysis.sensitivity.keywords import SensitivityKeywords
from tauslab.analysis.sensitivity.run import run_sensitivity
from tauslab.cli.particles.answering import Answer, answering, keywords_given, network_given
from tauslab.cli.particles.keywords import JsonFlag
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, SensitivityKeywords, CPU, OverwriteFlag)


@answering
def process_sensitivity(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    """Read a model and estimate derivatives."""
    network, given = on_root(
        comm, lambda: (network_given(arguments), keywords_given(arguments, SensitivityKeywords))
    )
    return run_sensitivity(network, given, comm), {}, []
