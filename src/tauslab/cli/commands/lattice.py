"""``tauslab rdme``: particles on a lattice."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from tauslab.base.errors import ConfigError
from tauslab.cli.options import given_options
from tauslab.cli.tools import announce_run, ignored, warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.job import prepare
from tauslab.decomposition.ranks.stopping import PATIENCE, stop_in_order
from tauslab.decomposition.ranks.together import agree
from tauslab.formats import read as readers
from tauslab.model.lattice.lattice import Lattice
from tauslab.options.keywords import PointsKeywords, TimeLimitFlag
from tauslab.options.lattice import LatticeChoices, LatticeKeywords, LatticeOptions
from tauslab.options.places import CPU, GPU, OverwriteFlag
from tauslab.options.python_values import points_of
from tauslab.options.values.texts import assignments
from tauslab.runner.lattice.run import run_lattice
from tauslab.store.results.lattice.info import lattice_summary
from tauslab.store.results.lattice.result import is_lattice_result, stored_settings, warn_of_hooks

# Of whose options the arguments are made.
OPTIONS = (LatticeKeywords, CPU, GPU, OverwriteFlag, TimeLimitFlag)


def process_rdme(arguments: argparse.Namespace) -> None:
    """``tauslab rdme``: read, simulate, write, say what came out."""
    comm = ranks()
    prepare(arguments.device, comm, share=arguments.share_gpu)
    stop = stop_in_order(arguments.max_time, comm, PATIENCE)
    with warnings_on_stderr(comm.rank):
        model, options = agree(comm, lambda: lattice_job(arguments))
        if comm.rank == 0 and options.output is not None:
            announce_run(options.output, resume=options.resume, quiet=bool(options.quiet))
        report = ignored if arguments.quiet else print
        result = run_lattice(model, options, comm, stop, report)
    if comm.rank == 0 and not arguments.quiet:
        print("\n".join(lattice_summary(result)))
    result.close()


def lattice_job(arguments: argparse.Namespace) -> tuple[Lattice, LatticeOptions]:
    """The model and the options of a parsed ``tauslab rdme``."""
    model = readers.read(arguments.model)
    if not isinstance(model, Lattice):
        raise ConfigError(f"{arguments.model} holds no lattice: run it with tauslab run")
    # A result file reruns from itself: what the command does not say is as in the file.
    again = is_lattice_result(arguments.model)
    stored = stored_settings(arguments.model) if again else {}
    if again:
        warn_of_hooks(arguments.model)
    requested = given_options(arguments, LatticeChoices)
    if requested.keys() & {"replicas", "first_replica"}:
        stored.pop("all_replicas", None)  # of another array
    requested["set"] = stored.get("set", {}) | assignments(arguments.set)
    points = given_options(arguments, PointsKeywords)
    if points:
        requested["sweep"] = points_of(**{"sweep": None, "table": None, "design": None} | points)
    return model, LatticeOptions(
        **{**stored, **requested, "quiet": arguments.quiet},
        **{name: getattr(arguments, name) for name in ("device", "threads", "overwrite")},
        share_gpu=arguments.share_gpu,
        output=arguments.output or Path(arguments.model.stem + ".h5"),
        command=shlex.join(["tauslab", *sys.argv[1:]]),
    )
