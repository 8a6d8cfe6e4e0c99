"""What ``tauslab population`` does."""

from __future__ import annotations

import argparse
import json

from tauslab.model.errors import ConfigError
from tauslab.model.network.network import Network
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.api.populations import population
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.particles.keywords import PopulationFlags
from tauslab.runner.cli.particles.rare import device_of
from tauslab.runner.cli.pipes import model_given
from tauslab.runner.cli.tools import ignored, telling_warnings
from tauslab.runner.options.places import CPU, OverwriteFlag
from tauslab.runner.options.values.definition import check_values
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.ranks.job import agreed_seed
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.results.arrays.file import writing_result

# Of whose options the arguments are made.
OPTIONS = (PopulationFlags, CPU, OverwriteFlag)


def process_population(arguments: argparse.Namespace) -> None:
    """Read a model of a cell, let cells grow and divide, write them, say it."""
    comm = ranks()
    with (
        telling_warnings(comm.rank),
        writing_result(arguments.output, comm, overwrite=arguments.overwrite) as write,
    ):
        network, given = on_root(comm, lambda: _job(arguments))
        seed = agreed_seed(given.seed, lambda: None, comm)
        when = given.t if given.t is not None else network.t_end
        if when is None:
            raise ConfigError("--t is missing: when to look at all cells, in model units")
        found = population(
            network, when, division=given.division or "", cells=given.cells, follow=given.follow,
            partition=given.partition, fraction=given.fraction, most=given.most,
            parameters=given.set, initial=given.initial, seed=seed, device=device_of(arguments),
            max_steps=given.max_steps,
        )  # fmt: skip
        settings = {
            "model": network.name, "division": given.division, "follow": given.follow,
            "cells_at_start": given.cells, "fraction": given.fraction,
        }  # fmt: skip
        write(lambda path: found.save(path, settings))

    def answer() -> None:
        if arguments.json:
            print(json.dumps(settings | found.facts(), indent=2, ensure_ascii=False))
        elif not given.quiet:
            print("\n".join(found.lines()))

    on_root(comm, answer)


def _job(arguments: argparse.Namespace) -> tuple[Network, PopulationFlags]:
    asked = given_options(arguments, PopulationFlags)
    given = PopulationFlags(**asked)
    check_values(given)
    if "most" in asked and given.follow != "tree":
        raise ConfigError(f"--most is not for --follow {given.follow}: leave it out")
    with model_given(arguments):
        network = read_telling(arguments.model, ignored if given.quiet else print)
    if given.division is None:
        events = ", ".join(one.name for one in network.events) or "none"
        raise ConfigError(
            f"--division is missing: the event that divides a cell; {network.name} has {events}"
        )
    return network, given
