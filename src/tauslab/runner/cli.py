"""The command line: parses arguments and hands each sub-command to one function."""

from __future__ import annotations

import argparse
import hashlib
import secrets
import sys
import time
from pathlib import Path

import numpy as np

from tauslab.decomposition.blocks import storage_block_size
from tauslab.model.check import report
from tauslab.model.errors import ConfigError, TauslabError
from tauslab.model.network import Network
from tauslab.model.sbml import read_sbml
from tauslab.runner.digest import digest_lines, digest_total
from tauslab.runner.ensemble import Samples, run_ensemble
from tauslab.runner.info import describe
from tauslab.runner.mpi import SerialCommunicator
from tauslab.runner.output.base import open_writer
from tauslab.runner.output.layout import Chunk, Layout
from tauslab.runner.output.reader import open_result
from tauslab.runner.plot import plot_result


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command; the exit code is 0, 1 (failure) or 2 (bad input)."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.process(arguments)
    except TauslabError as error:
        print(f"tauslab: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tauslab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="simulate an ensemble of exact trajectories")
    run.add_argument("model", type=Path)
    run.add_argument("-n", type=int, default=1000, help="trajectories")
    run.add_argument("--t-end", type=float)
    run.add_argument("--points", type=int, default=101, help="sample times from 0 to t-end")
    run.add_argument("--seed", type=int)
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    run.add_argument("--species", help="record these only, separated by commas")
    run.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    run.add_argument("--threads", type=int, default=0)
    run.add_argument("-o", "--output", type=Path)
    run.add_argument("--overwrite", action="store_true")
    run.set_defaults(process=process_run)
    check = commands.add_parser("check", help="say what a model holds and which engines refuse it")
    check.add_argument("model", type=Path)
    check.set_defaults(process=process_check)
    digest = commands.add_parser("digest", help="digest of a result, the same on every machine")
    digest.add_argument("file", type=Path)
    digest.add_argument("--species")
    digest.set_defaults(process=process_digest)
    info = commands.add_parser("info", help="say what a result file holds")
    info.add_argument("file", type=Path)
    info.set_defaults(process=process_info)
    plot = commands.add_parser("plot", help="draw a result file (needs the plot extra)")
    plot.add_argument("file", type=Path)
    kinds = ("auto", "trajectories", "mean", "histogram", "heatmap")
    plot.add_argument("--kind", choices=kinds, default="auto")
    plot.add_argument("--species")
    plot.add_argument("--t", type=float)
    plot.add_argument("-o", "--output", type=Path)
    plot.add_argument("--overwrite", action="store_true")
    plot.set_defaults(process=process_plot)
    return parser


def process_run(arguments: argparse.Namespace) -> None:
    """``tauslab run``: read, simulate, write."""
    network = _read(arguments.model)
    output = arguments.output or Path(arguments.model.stem + ".h5")
    if output.exists() and not arguments.overwrite:
        raise ConfigError(f"{output} exists: give --overwrite or another -o")
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: the folder {output.parent} does not exist")
    t_end = arguments.t_end if arguments.t_end is not None else network.t_end
    if t_end is None or not (0 < t_end < float("inf")):
        raise ConfigError("give an end time above 0, for instance --t-end 10")
    if arguments.points < 2:
        raise ConfigError(f"--points {arguments.points} is not allowed: at least 2")
    seed = secrets.randbits(63) if arguments.seed is None else arguments.seed
    if not 0 <= seed < 2**64:
        raise ConfigError(f"--seed {seed} is not allowed: 0 to 2^64 - 1")
    began = time.perf_counter()
    samples = run_ensemble(
        network,
        n=arguments.n,
        times=np.linspace(0, t_end, arguments.points).tolist(),
        seed=seed,
        device=arguments.device,
        threads=arguments.threads,
        overrides=dict(_assignment(text) for text in arguments.set),
        recorded=arguments.species.split(",") if arguments.species else None,
    )
    write_samples(output, samples, network, overwrite=arguments.overwrite)
    seconds = time.perf_counter() - began
    print(f"{output}: {arguments.n} trajectories, {samples.events} events, seed {seed}, "
          f"{samples.device}, {seconds:.2f} s")  # fmt: skip
    for k, name in enumerate(samples.species):
        last = samples.counts[samples.status <= 1, -1, k]
        if last.size:
            print(f"  {name} at t = {t_end:g}: mean {last.mean():.6g}, sd {last.std():.6g}")


def process_check(arguments: argparse.Namespace) -> None:
    """``tauslab check``: print what the model holds."""
    print("\n".join(report(_read(arguments.model))))


def write_samples(path: Path, samples: Samples, network: Network, *, overwrite: bool) -> None:
    """Write the result file through the crash-safe writer."""
    source = network.source_text or ""
    layout = Layout(
        n=len(samples.status),
        times=samples.times,
        species=samples.species,
        observables=(),
        trajectories=True,
        final=False,
        statistics=False,
        histograms=(),
        observable_scale=(),
        block=storage_block_size(len(samples.status), samples.counts[0].nbytes),
        attributes={
            "method": "ssa",
            "seed": samples.seed,
            "selector": samples.selector,
            "model_sha256": hashlib.sha256(source.encode()).hexdigest(),
            "command": " ".join(sys.argv),
        },
        model_name=network.name,
        model_source=source,
        model_canonical=source,
    )
    writer = open_writer(path, layout, SerialCommunicator(), overwrite=overwrite)
    writer.write(Chunk(0, {"counts": samples.counts, "status": samples.status}))
    writer.finish({}, [{"device": samples.device, "events": samples.events}])


def process_digest(arguments: argparse.Namespace) -> None:
    """``tauslab digest``: SHA-256 per dataset, the total last."""
    chosen = arguments.species.split(",") if arguments.species else None
    lines = digest_lines(open_result(arguments.file), chosen)
    for name, digest in lines:
        print(digest, name)
    print(digest_total(lines), "total")


def process_info(arguments: argparse.Namespace) -> None:
    """``tauslab info``: what a result file holds."""
    print("\n".join(describe(open_result(arguments.file))))


def process_plot(arguments: argparse.Namespace) -> None:
    """``tauslab plot``: a picture of a result file."""
    path = arguments.output or arguments.file.with_suffix(".png")
    if path.exists() and not arguments.overwrite:
        raise ConfigError(f"{path} exists: give --overwrite or another -o")
    result = open_result(arguments.file)
    plot_result(result, arguments.kind, arguments.species, arguments.t, path)
    print(path)


def _read(path: Path) -> Network:
    if path.suffix not in (".xml", ".sbml"):
        raise ConfigError(f"{path}: a model is an SBML file, .xml or .sbml")
    network = read_sbml(path)
    network.validate()
    return network


def _assignment(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name, float(value)
    except ValueError:
        raise ConfigError(f"--set {text}: write NAME=VALUE with a number") from None


