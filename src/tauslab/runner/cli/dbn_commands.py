"""What ``tauslab dbn`` does."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from pathlib import Path

from tauslab.model.network.network import Network
from tauslab.runner.api.api import ranks
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.cli.tools import (
    ignored,
    warn_on_rank_0,
)
from tauslab.runner.dbn.build import build_network
from tauslab.runner.options.dbn import (
    DEFAULT_SAMPLES,
    DbnOptions,
    parse_edges,
    parse_intervals,
    parse_ranges,
    parse_samples,
)
from tauslab.runner.options.integration import told_integration
from tauslab.runner.options.values.sample_times import sample_times
from tauslab.runner.options.values.texts import assignments, names, read_times
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.ranks.stopping import PATIENCE, stop_on_signals
from tauslab.runner.results.dbn.file import is_network, load
from tauslab.runner.results.dbn.info import network_summary
from tauslab.runner.results.dbn.network import FloatArray


def build_and_tell(arguments: argparse.Namespace) -> None:
    """Read a model, build its network on all ranks, say what came out."""
    comm = ranks()
    stop = stop_on_signals(comm, patience=PATIENCE)
    with warnings.catch_warnings():
        warnings.showwarning = warn_on_rank_0 if comm.rank == 0 else ignored
        network, options = on_root(comm, lambda: _job(arguments))
        built = build_network(network, options, comm, stop)
    if built is not None and not arguments.quiet:
        print("\n".join(network_summary(built, str(options.output))))


def _job(arguments: argparse.Namespace) -> tuple[Network, DbnOptions]:
    network = read_telling(arguments.model, ignored if arguments.quiet else print)
    return network, _options(arguments, network)


def _options(arguments: argparse.Namespace, network: Network) -> DbnOptions:
    times = _stored(arguments) if is_network(arguments.model) else None
    if times is None:
        given = None if arguments.times is None else read_times(arguments.times)
        times = sample_times(given, arguments.t_end, arguments.points, model_t_end=network.t_end)
    every, own = parse_intervals(arguments.intervals)
    return DbnOptions(
        times=times,
        unknown=names(arguments.unknown) if arguments.unknown else (),
        ranges=parse_ranges(arguments.range),
        sample=tuple(arguments.sample),
        integration=told_integration({**vars(arguments), "method": "ode"}, "dopri5"),
        samples=parse_samples(DEFAULT_SAMPLES if arguments.samples is None else arguments.samples),
        intervals=every,
        own_intervals=own,
        spacing=arguments.spacing,
        edges=parse_edges(arguments.edges),
        set=assignments(arguments.set),
        seed=arguments.seed,
        device=arguments.device,
        threads=arguments.threads,
        block=arguments.block,
        counting=arguments.counting,
        output=arguments.output or Path(arguments.model.stem + ".dbn.h5"),
        overwrite=arguments.overwrite,
        resume=arguments.resume,
        quiet=arguments.quiet,
        command=shlex.join(["tauslab", *sys.argv[1:]]),
    )


def _stored(arguments: argparse.Namespace) -> FloatArray | None:
    """A file reruns from itself: what the command does not say is as in the file.

    Returns its time points, if the command gives no others.
    """
    found = load(arguments.model, unfinished=True)
    stored = found.attributes
    if not any((arguments.range, arguments.intervals, arguments.edges, arguments.unknown)):
        arguments.edges = [
            f"{name}={','.join(map(repr, edges.tolist()))}"
            for name, edges in found.edges.items()
            if edges[0] < edges[-1]
        ]
    if arguments.unknown is None:
        arguments.unknown = str(stored["unknown"])
        if not arguments.sample and not arguments.range and stored["sample"]:
            arguments.sample = str(stored["sample"]).split("; ")
    if not any((arguments.ode_solver, arguments.substeps, arguments.rtol, arguments.atol)):
        for name in ("ode_solver", "substeps", "rtol", "atol"):
            setattr(arguments, name, stored.get(name))
    for name in ("seed", "samples", "precision"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, stored[name])
    given = (arguments.times, arguments.t_end, arguments.points)
    return found.times if given == (None, None, None) else None
