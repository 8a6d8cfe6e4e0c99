"""The command ``tauslab filter``."""

from __future__ import annotations

import argparse
from typing import Any

from tauslab.analysis.filters.keywords import FilterKeywords, read_table
from tauslab.api.inference.particles import particle_filter
from tauslab.base.errors import ConfigError
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answering, device_of, model_named
from tauslab.cli.particles.keywords import FileFlags
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (FileFlags, FilterKeywords, CPU, OverwriteFlag)


@answering
def process_filter(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    """Read a model and a time course, and filter."""
    given: dict[str, Any] = given_options(arguments, FilterKeywords)
    if "checkpoint" in given and "seed" not in given:
        raise ConfigError("--checkpoint needs --seed: another seed would begin another filter")
    model, data = on_root(comm, lambda: (model_named(arguments), read_table(arguments.table)))
    seed = agreed_seed(given.get("seed"), lambda: None, comm)
    own = given_options(arguments, FileFlags)
    given.setdefault("method", "ssa")  # as checkpoints of earlier versions say it
    given |= {"seed": seed, "set": own.get("set"), "device": device_of(arguments)}
    with stopping_at_checkpoints(comm, arguments.checkpoint):
        result = particle_filter(model, data, **given)
    settings = {"seed": seed, "n": arguments.n, "model": model.name}
    return result, settings, [f"{arguments.n} particles of {model.name}, seed {seed}"]
