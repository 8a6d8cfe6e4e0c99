"""``tauslab petab``: the objective of a PEtab problem, and its simulation table."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.cli.tools import making_new
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.exchange.petab.likelihood import unscaled
from tauslab.exchange.petab.problem import Problem, load
from tauslab.options.values.checks import within
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.results.array_result import numbers_or_none
from tauslab.store.results.tables import plain_text
from tauslab.store.targets import require_no_input


def process_petab(arguments: argparse.Namespace) -> None:
    """Read a problem, compute, write what was asked for, say it."""
    if ranks().size > 1:
        raise ConfigError("tauslab petab runs on one rank")
    output = arguments.output
    if output is not None and output.suffix.lower() != ".tsv":
        raise ConfigError(f"{output}: tables of PEtab are written as .tsv")
    with making_new(output, overwrite=arguments.overwrite):
        _compute(arguments)


def _compute(arguments: argparse.Namespace) -> None:
    if arguments.particles is None:
        for name, default in (("seed", None), ("molecules", False), ("amounts", None)):
            if getattr(arguments, name) != default:
                raise ConfigError(f"--{name} needs --particles")
    else:
        within("particles", arguments.particles, 1, 10**9)
    problem = load(arguments.problem, device=arguments.device)
    require_no_input(arguments.output, problem.files)
    given = arguments.parameters
    vectors = problem.scaled({})[None] if given is None else read_vectors(problem, given)
    result = {
        "llh": problem.log_likelihood(vectors),
        "chi2": problem.chi2(vectors),
        "log_posterior": problem.log_posterior(vectors),
    }
    if arguments.particles is not None:
        result["stochastic_llh"] = problem.stochastic_log_likelihood(
            vectors, n=arguments.particles, seed=arguments.seed, molecules=arguments.molecules,
            amounts=arguments.amounts,
        )  # fmt: skip
    if arguments.output is not None:
        publish(arguments.output, Disk(), lambda path: _write(path, problem, vectors, result))
    if arguments.json:
        print(json.dumps({key: numbers_or_none(own) for key, own in result.items()}, indent=2))
        return
    for row in range(len(vectors)):
        reported = ", ".join(f"{key} {own[row]:.10g}" for key, own in result.items())
        print(f"vector {row + 1}: {reported}" if len(vectors) > 1 else reported)
    if arguments.output is not None:
        print(arguments.output)


def read_vectors(problem: Problem, path: Path) -> FloatArray:
    """Vectors ``[n, p]`` of a table (.tsv, .csv): a row for each, a column for each parameter.

    Values are on the linear scale; a parameter without a column is nominal. A table with the
    columns parameterId and nominalValue, such as a parameter table of PEtab, is one vector.

    Raises
    ------
    ConfigError
        The file cannot be read, or a cell is no number.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or f"it is no text ({error})"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    reader = csv.DictReader(text.splitlines(), delimiter=delimiter)
    rows, names = list(reader), list(reader.fieldnames or ())
    if not rows:
        raise ConfigError(f"{path}: has no row")
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: a column is there twice")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ConfigError(f"{path}: line {number} has not one cell for each of the columns")
    if {"parameterId", "nominalValue"} <= rows[0].keys():
        cells = {row["parameterId"]: (row["nominalValue"], i) for i, row in enumerate(rows, 2)}
        own = {name: _value(path, name, *cells[name]) for name in problem.names if name in cells}
        return problem.scaled(own)[None]
    return np.stack(
        [
            problem.scaled({name: _value(path, name, text, i) for name, text in row.items()})
            for i, row in enumerate(rows, 2)
        ]
    )


def _value(path: Path, name: str, text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{path}: line {line}: {name} is {text!r}, not a number") from None


def _write(path: Path, problem: Problem, vectors: FloatArray, found: dict[str, FloatArray]) -> None:
    """PEtab's simulation table of one vector; of several a row for each."""
    if len(vectors) == 1:
        problem.simulation_table(vectors[0]).to_csv(path, sep="\t", index=False)
        return
    columns = {
        name: unscaled(vectors[:, i], scale)
        for i, (name, scale) in enumerate(zip(problem.names, problem.scales, strict=True))
    } | found
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(map(plain_text, columns))
        writer.writerows(zip(*(map(float, own) for own in columns.values()), strict=True))
