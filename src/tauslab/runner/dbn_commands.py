"""What ``tauslab dbn`` does, and the other commands where a file holds such a network."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.model.network import Network
from tauslab.runner.dbn_export import SUFFIX, export_network, time_points
from tauslab.runner.dbn_file import load
from tauslab.runner.dbn_info import network_facts, network_lines
from tauslab.runner.dbn_job import (
    DbnOptions,
    parse_edges,
    parse_intervals,
    parse_ranges,
    parse_samples,
)
from tauslab.runner.dbn_plot import plot_network
from tauslab.runner.job import read_times, sample_times
from tauslab.runner.ode_task import told_integration


def dbn_options(
    arguments: argparse.Namespace, network: Network, settings: dict[str, float]
) -> DbnOptions:
    """The settings that a command line gives; `settings` are those of ``--set``."""
    given = None if arguments.times is None else read_times(arguments.times)
    every, own = parse_intervals(arguments.intervals)
    return DbnOptions(
        times=sample_times(given, arguments.t_end, arguments.points, model_t_end=network.t_end),
        unknown=_names(arguments.unknown),
        ranges=parse_ranges(arguments.range),
        sample=tuple(arguments.sample),
        integration=told_integration({**vars(arguments), "method": "ode"}),
        samples=parse_samples(arguments.samples),
        intervals=every,
        own_intervals=own,
        spacing=arguments.spacing,
        edges=parse_edges(arguments.edges),
        set=settings,
        seed=arguments.seed,
        device=arguments.device,
        threads=arguments.threads,
        block=arguments.block,
        output=arguments.output or Path(arguments.model.stem + ".dbn.h5"),
        overwrite=arguments.overwrite,
        resume=arguments.resume,
        quiet=arguments.quiet,
        command=shlex.join(["tauslab", *sys.argv[1:]]),
    )


def plot_file(path: Path, arguments: argparse.Namespace) -> None:
    """``tauslab plot``."""
    plot_network(load(arguments.file), _names(arguments.species), path)


def export_file(arguments: argparse.Namespace) -> Path:
    """``tauslab export``: BIF text."""
    path: Path = arguments.output or arguments.file.with_suffix(SUFFIX)
    if path.exists() and not arguments.overwrite:
        raise ConfigError(f"{path} exists: give --overwrite or another -o")
    first, last = time_points(arguments.steps or ":")
    export_network(load(arguments.file), path, first, last)
    return path


def told_file(path: Path, *, as_json: bool) -> str:
    """``tauslab info``."""
    found = network_facts(path)
    return json.dumps(found, indent=2) if as_json else "\n".join(network_lines(found))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()
