"""``tauslab run``: an ensemble of trajectories."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from tauslab.api.executor import run_job
from tauslab.api.model_reading import read_with_progress
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.cli.commands.answer import facts_of_run, summary
from tauslab.cli.options import given_options
from tauslab.cli.pipes import model_given
from tauslab.cli.tools import announce_run, ignored, mpi_hints, warn_on_rank_0, warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks_for
from tauslab.decomposition.ranks.job import prepare
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stop_in_order
from tauslab.formats.read import is_hybrid_file
from tauslab.model.network.molecules import as_chosen
from tauslab.model.network.net_laws import with_net_laws
from tauslab.model.network.network import Network
from tauslab.options.dask import dask_options
from tauslab.options.ensemble import Options
from tauslab.options.hybrid import HybridFlags
from tauslab.options.keywords import (
    AnswerFlags,
    MoleculesFlag,
    NetworkKeywords,
    ProtocolFlag,
    TimeLimitFlag,
)
from tauslab.options.methods import METHOD_CLASSES, ODE, SSA, Langevin, Partitioned, TauLeaping
from tauslab.options.places import CPU, Dask, ExecutorFlags, Output
from tauslab.runner.ensemble.from_file import taken_from_result
from tauslab.runner.ensemble.request import ensemble_options
from tauslab.store.results.result import Result
from tauslab.store.results.validity import warning_of

# Of whose options the arguments are made.
OPTIONS = (
    NetworkKeywords, HybridFlags, MoleculesFlag, SSA, TauLeaping, ODE, Partitioned, Langevin, CPU,
    ExecutorFlags, Dask, Output, AnswerFlags, TimeLimitFlag, ProtocolFlag,
)  # fmt: skip
_DASK = ("executor", "scheduler", "workers", "sbatch")
_PLACE = ("device", "threads", "overwrite", "writer", "compress", "verbose")


def process_run(arguments: argparse.Namespace) -> None:
    """``tauslab run``: read, simulate, write, say what came out."""
    if arguments.model.suffix.lower() == ".omex":
        from tauslab.exchange.sedml.command import run_experiments

        _run_all_of(run_experiments, arguments)
        return
    if arguments.protocol:
        from tauslab.exchange.bngl.command import run_protocol

        _run_all_of(run_protocol, arguments)
        return
    arguments.quiet = arguments.quiet or arguments.json
    if arguments.model.suffix.lower() == ".toml" and is_hybrid_file(arguments.model):
        from tauslab.cli.commands.hybrid import run_hybrid_file

        run_hybrid_file(arguments)
        return
    if of_hybrids := given_options(arguments, HybridFlags):
        raise ConfigError(f"{opt(min(of_hybrids))}: {arguments.model} is no hybrid: leave it out")
    comm = ranks_for(arguments.executor)
    if arguments.executor != "dask":
        prepare(arguments.device, comm)
    stop = stop_in_order(arguments.max_time, comm)
    with warnings_on_stderr(comm.rank):
        # What reads models takes more memory than all else: rank 0 reads for all.
        network, options = on_root(comm, lambda: network_job(arguments))
        result = run_job(network, options, comm, stop)
    if comm.rank == 0:
        _answer(arguments, result)
    with result:
        if (collected := warning_of(result)) and comm.rank == 0:
            warn_on_rank_0(collected)


def _run_all_of(
    run: Callable[[argparse.Namespace, Collection[str]], list[str]], arguments: argparse.Namespace
) -> None:
    """Run all that a file says, and print the lines of the answer."""
    with warnings_on_stderr():
        lines = run(arguments, given_options(arguments, *OPTIONS))
    if not arguments.quiet:
        print("\n".join(lines))


def _answer(arguments: argparse.Namespace, result: Result) -> None:
    """Print the answer of a run."""
    with warnings_on_stderr():
        if arguments.json:
            print(json.dumps(facts_of_run(result), indent=2))
        elif not arguments.quiet:
            print("\n".join(summary(result, verbose=arguments.verbose)))


def network_job(arguments: argparse.Namespace) -> tuple[Network, Options]:
    """The model and the options of a parsed ``tauslab run``."""
    with model_given(arguments):
        return _read_job(arguments)


def _read_job(arguments: argparse.Namespace) -> tuple[Network, Options]:
    network = read_with_progress(arguments.model, ignored if arguments.quiet else print)
    network = as_chosen(network, arguments.molecules, arguments.amounts)
    network = with_net_laws(network) if arguments.net_laws else network
    options = _options(arguments, network)
    if options.output is not None:
        announce_run(options.output, resume=options.resume, quiet=arguments.quiet)
    return network, options


def _options(arguments: argparse.Namespace, network: Network) -> Options:
    for flag, grows in (("--append", arguments.append), ("--append-to", arguments.append_to)):
        if grows is not None and arguments.n is not None:
            raise ConfigError(f"-n and {flag} exclude each other: {flag} says how many to add")
    requested = given_options(arguments, NetworkKeywords, *METHOD_CLASSES)
    requested["quiet"] = arguments.quiet
    stored, sweep = taken_from_result(arguments.model, requested)
    place = {
        **{name: getattr(arguments, name) for name in _PLACE},
        "output": arguments.output or _own_output(arguments),
        "dask": dask_options(
            **{name: getattr(arguments, name) for name in _DASK},
            tls=[getattr(arguments, f"dask_tls_{name}") for name in ("ca", "cert", "key")],
        ),
        "hints": mpi_hints(arguments.mpi_hint),
        "command": shlex.join(["tauslab", *sys.argv[1:]]),
    }
    return ensemble_options(network, {**stored, **requested}, place, sweep)


def _own_output(arguments: argparse.Namespace) -> Path:
    """Path of the result without ``-o``: the file that grows, or one in this folder."""
    model: Path = arguments.model
    grows = arguments.append is not None or arguments.append_to is not None
    if grows and model.suffix.lower() == ".h5":
        return model
    return Path(model.stem + ".h5")
