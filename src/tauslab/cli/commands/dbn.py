"""The command ``tauslab dbn``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tauslab.analysis.dbn.build import build_network
from tauslab.analysis.dbn.results.file import is_network, load
from tauslab.analysis.dbn.results.info import network_summary
from tauslab.api.model_reading import read_with_progress
from tauslab.cli.options import given_options
from tauslab.cli.tools import announce_run, ignored, warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import PATIENCE, stop_on_signals
from tauslab.model.network.network import Network
from tauslab.options.dbn import DbnChoices, DbnKeywords, DbnOptions, parse_intervals
from tauslab.options.methods import ODE, method_as_in
from tauslab.options.places import CPU, OverwriteFlag
from tauslab.options.values.definition import taken
from tauslab.options.values.sample_times import sample_times
from tauslab.options.values.texts import drawn_in_file, names

# Of whose options the arguments are made.
OPTIONS = (DbnKeywords, ODE, CPU, OverwriteFlag)


def process_dbn(arguments: argparse.Namespace) -> None:
    """``tauslab dbn``: read, count, write, say what came out."""
    comm = ranks()
    stop = stop_on_signals(comm, patience=PATIENCE)
    with warnings_on_stderr(comm.rank):
        network, options = on_root(comm, lambda: _job(arguments))
        built = build_network(network, options, comm, stop)
    if built is not None and not arguments.quiet:
        print("\n".join(network_summary(built, str(options.output))))


def _job(arguments: argparse.Namespace) -> tuple[Network, DbnOptions]:
    network = read_with_progress(arguments.model, ignored if arguments.quiet else print)
    options = _options(arguments, network)
    if options.output is not None:
        announce_run(options.output, resume=options.resume, quiet=bool(options.quiet))
    return network, options


def _options(arguments: argparse.Namespace, network: Network) -> DbnOptions:
    requested = given_options(arguments, DbnKeywords)
    own = given_options(arguments, ODE)
    stored, held = (
        _taken_from_result(arguments.model, requested) if is_network(arguments.model) else ({}, {})
    )
    requested = {**stored, **requested}
    every, some = parse_intervals(arguments.intervals)
    times = sample_times(
        requested.get("times"),
        requested.get("t_end"),
        requested.get("points"),
        model_t_end=network.t_end,
    )
    plain = {one.name for one in fields(DbnChoices)}
    method = method_as_in({**held, "method": ODE.word}, ODE.word, own)
    assert isinstance(method, ODE)
    return DbnOptions(
        times=times, unknown=names(requested["unknown"]) if requested.get("unknown") else (),
        ranges=requested.get("ranges", {}), sample=tuple(requested.get("sample", ())),
        method=method, intervals=every, own_intervals=some, edges=requested.get("edges", {}),
        set=requested.get("set", {}), device=arguments.device, threads=arguments.threads,
        output=arguments.output or Path(arguments.model.stem + ".dbn.h5"),
        overwrite=arguments.overwrite, command=shlex.join(["tauslab", *sys.argv[1:]]),
        **{name: value for name, value in requested.items() if name in plain - {"quiet"}},
        quiet=arguments.quiet,
    )  # fmt: skip


def _taken_from_result(
    model: Path, asked: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """A file reruns from itself: what the command does not say is as in the file.

    Returns what it says, and the attributes of its root.
    """
    result = load(model, unfinished=True)
    taken_over = taken(result.attributes, asked, DbnKeywords)
    if asked.keys() & {"ranges", "unknown"}:  # which say what is drawn, and from where
        taken_over.pop("sample", None)
    if "sample" in taken_over:
        taken_over["sample"] = drawn_in_file(str(result.attributes["sample"]), model)
    if not asked.keys() & {"ranges", "intervals", "edges", "unknown"}:
        taken_over["edges"] = {
            name: edges for name, edges in result.edges.items() if edges[0] < edges[-1]
        }
    if not asked.keys() & {"times", "t_end", "points"}:
        taken_over["times"] = result.times
    return taken_over, result.attributes
