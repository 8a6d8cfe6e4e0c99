"""The command line: parses arguments and hands each sub-command to one function."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

import h5py
import numpy as np

from tauslab.model.check import report
from tauslab.model.errors import ConfigError, TauslabError
from tauslab.model.network import Network
from tauslab.model.sbml import read_sbml
from tauslab.runner.ensemble import Samples, run_ensemble

_STATUS = ("done", "absorbed", "overflow", "step_limit", "nan")


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
    write_samples(output, samples, network)
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


def write_samples(path: Path, samples: Samples, network: Network) -> None:
    """Write the HDF5 file under a temporary name and rename it when it is whole."""
    scratch = path.with_name(f".{path.name}.writing")
    try:
        with h5py.File(scratch, "w") as file:
            file.attrs.update(
                {"format": "tauslab", "format_version": 0, "method": "ssa",
                 "selector": samples.selector, "seed": np.uint64(samples.seed)}
            )  # fmt: skip
            file["time"] = samples.times
            width = max(len(name.encode()) for name in samples.species)
            file["species"] = np.array([s.encode() for s in samples.species], f"S{width}")
            file["counts"] = samples.counts
            kinds = {name: i for i, name in enumerate(_STATUS)}
            file.create_dataset("status", data=samples.status, dtype=h5py.enum_dtype(kinds, "u1"))
            file["model/source"] = network.source_text or ""
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


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


