"""What ``tauslab filter`` does."""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.model.readers import read as readers
from tauslab.runner.api.inference.particles import particle_filter
from tauslab.runner.api.model_reading import read_telling
from tauslab.runner.cli.options import given_options
from tauslab.runner.cli.particles.keywords import FilterFlags
from tauslab.runner.cli.particles.rare import device_of
from tauslab.runner.cli.pipes import model_given
from tauslab.runner.cli.tools import ignored, telling_warnings
from tauslab.runner.options.places import CPU, OverwriteFlag
from tauslab.runner.options.values.definition import check_values
from tauslab.runner.ranks.all_ranks import ranks
from tauslab.runner.ranks.job import agreed_seed
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.ranks.stopping import stopping_at_checkpoints
from tauslab.runner.results.arrays.file import writing_result

# Of whose options the arguments are made.
OPTIONS = (FilterFlags, CPU, OverwriteFlag)
_NOT_SEEN = ("", "na", "nan")


def process_filter(arguments: argparse.Namespace) -> None:
    """Read a model and a course, filter, write what came out, say it."""
    comm = ranks()
    with (
        telling_warnings(comm.rank),
        writing_result(arguments.output, comm, overwrite=arguments.overwrite) as write,
    ):
        network, data, given = on_root(comm, lambda: _job(arguments))
        seed = agreed_seed(given.seed, lambda: None, comm)
        with stopping_at_checkpoints(comm, given.checkpoint):
            found = particle_filter(
                network, data, observe=given.observe or {}, n=given.n, seed=seed,
                parameters=given.set, initial=given.initial, device=device_of(arguments),
                method=given.method, resample=given.resample, threshold=given.threshold,
                checkpoint=given.checkpoint,
            )  # fmt: skip
        settings = {"seed": seed, "n": given.n, "model": network.name}
        write(lambda path: found.save(path, settings))

    def answer() -> None:
        if arguments.json:
            print(json.dumps(settings | found.facts(), indent=2, ensure_ascii=False))
        elif not given.quiet:
            told = f"{given.n} particles of {network.name}, seed {seed}"
            print("\n".join([*found.lines(), told]))

    on_root(comm, answer)


def _job(
    arguments: argparse.Namespace,
) -> tuple[Network | Lattice, dict[str, list[float]], FilterFlags]:
    given = FilterFlags(**given_options(arguments, FilterFlags))
    check_values(given)
    if given.checkpoint is not None and given.seed is None:
        raise ConfigError("--checkpoint needs --seed: another seed would begin another filter")
    if not given.observe:
        raise ConfigError(
            '--observe is missing: what is compared with the data, such as --observe "X=normal(10)"'
        )
    with model_given(arguments):
        model: Network | Lattice
        if Path(arguments.model).suffix.lower() == ".bngl":
            model = read_telling(arguments.model, ignored if given.quiet else print)
        else:
            model = readers.read(arguments.model)
    return model, read_course(arguments.table), given


def read_course(path: Path) -> dict[str, list[float]]:
    """Columns of a CSV file with a header; an empty cell, ``NA`` or ``nan`` was not seen.

    Raises
    ------
    ConfigError
        The file cannot be read, or a cell is no number; file and line are named.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(n, row) for n, row in enumerate(csv.reader(file), 1) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or f"it is no table ({error})"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    names = [name.strip() for name in rows[0][1]] if rows else []
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{path}: the first line must name the columns, each once")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, row in rows[1:]:
        if len(row) != len(names):
            raise ConfigError(f"{path}: line {number} has {len(row)} cells, not {len(names)}")
        for name, cell in zip(names, row, strict=True):
            columns[name].append(_number(cell, f"{path}: line {number}: {name}"))
    return columns


def _number(cell: str, where: str) -> float:
    text = cell.strip()
    try:
        return math.nan if text.lower() in _NOT_SEEN else float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not a number") from None
