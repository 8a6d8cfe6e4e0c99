"""The command ``tauslab rare``."""

from __future__ import annotations

import argparse

from tauslab.analysis.rare.keywords import WeightedKeywords
from tauslab.analysis.rare.run import run_weighted
from tauslab.analysis.rare.spatial import run_spatial
from tauslab.cli.particles.answering import Answer, answering, keywords_given, model_named
from tauslab.cli.particles.keywords import JsonFlag
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.model.lattice.lattice import Lattice
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (JsonFlag, WeightedKeywords, CPU, OverwriteFlag)


@answering
def process_rare(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    """Read a model and estimate the probability or the rate."""
    model, given = on_root(
        comm, lambda: (model_named(arguments), keywords_given(arguments, WeightedKeywords))
    )
    with stopping_at_checkpoints(comm, arguments.checkpoint):
        if isinstance(model, Lattice):
            return run_spatial(model, given, comm), {}, []
        return run_weighted(model, given, comm), {}, []
