"""The command ``tauslab filter``."""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import Any

from tauslab.analysis.filters.keywords import FilterKeywords
from tauslab.api.inference.particles import particle_filter
from tauslab.base.errors import ConfigError
from tauslab.cli.options import given_options
from tauslab.cli.particles.answering import Answer, answer, device_of, model_named
from tauslab.cli.particles.keywords import AnswerFlags
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stopping_at_checkpoints
from tauslab.options.places import CPU, OverwriteFlag

# Of whose options the arguments are made.
OPTIONS = (AnswerFlags, FilterKeywords, CPU, OverwriteFlag)
_NOT_SEEN = ("", "na", "nan")


def process_filter(arguments: argparse.Namespace) -> None:
    """Read a model and a time course, filter, write the result, print it."""
    answer(arguments, _filtered)


def _filtered(arguments: argparse.Namespace, comm: Communicator) -> Answer:
    given: dict[str, Any] = given_options(arguments, FilterKeywords)
    if "checkpoint" in given and "seed" not in given:
        raise ConfigError("--checkpoint needs --seed: another seed would begin another filter")
    model, data = on_root(comm, lambda: (model_named(arguments), read_course(arguments.table)))
    seed = agreed_seed(given.get("seed"), lambda: None, comm)
    own = given_options(arguments, AnswerFlags)
    given.setdefault("method", "ssa")  # as checkpoints of earlier versions say it
    given |= {"seed": seed, "parameters": own.get("set"), "device": device_of(arguments)}
    with stopping_at_checkpoints(comm, arguments.checkpoint):
        found = particle_filter(model, data, **given)
    settings = {"seed": seed, "n": arguments.n, "model": model.name}
    return found, settings, [f"{arguments.n} particles of {model.name}, seed {seed}"]


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
