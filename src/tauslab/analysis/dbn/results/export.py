"""Dynamic Bayesian networks for other programs: BIF text and pgmpy, unrolled over time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.store.hdf5.disk import Disk, publish

MOST_PROBABILITIES = 20_000_000  # of all tables that are written out
SUFFIX = ".bif"


def node_name(name: str, time: int) -> str:
    """Name of a variable at a time point, in the unrolled network."""
    return f"{name}_t{time}"


def unrolled(
    network: DynamicNetwork, first: int = 0, last: int | None = None
) -> Iterator[tuple[str, list[str], FloatArray]]:
    """Nodes of an ordinary Bayesian network, parents before children.

    Of every node its name, its parents' names and its probabilities, an axis per parent and the
    node's own last. Unknown parameters are one node each; at time point `first` variables have
    their marginals as sampled.

    Raises
    ------
    ConfigError
        Time points that are not there, or more probabilities than can be written out.
    """
    end = len(network.times) - 1 if last is None else last
    if not 0 <= first <= end < len(network.times):
        raise ConfigError(
            f"time points {first} to {end}: the network has 0 to {len(network.times) - 1}"
        )
    _check_size(network, end - first)
    for name in network.parameters:
        yield name, [], network.marginal(name)[0]
    for name in network.variables:
        yield node_name(name, first), [], network.marginal(name)[first]
    for time in range(first + 1, end + 1):
        for name in network.variables:
            parents = [
                p if p in network.parameters else node_name(p, time - 1)
                for p in network.structure.parents[name]
            ]
            yield node_name(name, time), parents, network.table(name, time - 1)


def _check_size(network: DynamicNetwork, steps: int) -> None:
    sizes = {
        name: math.prod(network.bins(p) for p in parents) * network.bins(name)
        for name, parents in network.structure.parents.items()
    }
    total = steps * sum(sizes.values())
    if total > MOST_PROBABILITIES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            f"{steps} steps written out have {total:.3g} probabilities, of {largest} "
            f"{float(sizes[largest]):.3g} at each: at most {MOST_PROBABILITIES}; export fewer "
            "time points"
        )


def to_bif(network: DynamicNetwork, first: int = 0, last: int | None = None) -> Iterator[str]:
    """Lines of the network between two time points in the Bayesian interchange format."""
    yield "network tauslab {\n}\n"
    nodes = list(unrolled(network, first, last))
    for name, _, table in nodes:
        states = ", ".join(f"b{b}" for b in range(table.shape[-1]))
        yield (f"variable {name} {{\n  type discrete [ {table.shape[-1]} ] {{ {states} }};\n}}\n")
    for name, parents, table in nodes:
        if not parents:
            yield f"probability ( {name} ) {{\n  table {_numbers(table)};\n}}\n"
            continue
        yield f"probability ( {name} | {', '.join(parents)} ) {{\n"
        for bins in np.ndindex(*table.shape[:-1]):
            given = ", ".join(f"b{b}" for b in bins)
            yield f"  ({given}) {_numbers(table[bins])};\n"
        yield "}\n"


def _numbers(row: FloatArray) -> str:
    return ", ".join(repr(float(x)) for x in row)


def export_network(
    network: DynamicNetwork, path: Path, first: int = 0, last: int | None = None
) -> None:
    """Write BIF text.

    Raises
    ------
    ConfigError
        Another suffix, or as `unrolled`.
    OutputError
        The file cannot be written.
    """
    if path.suffix.lower() != SUFFIX:
        raise ConfigError(f"{path}: dynamic Bayesian networks are exported as {SUFFIX}")
    lines = to_bif(network, first, last)
    head = next(lines)
    body = [head, *lines]  # errors come before the file

    def build(temporary: Path) -> None:
        with temporary.open("w", encoding="ascii") as file:
            file.writelines(body)

    publish(path, Disk(), build)


def to_pgmpy(network: DynamicNetwork, first: int = 0, last: int | None = None) -> Any:
    """The network between two time points as pgmpy's ``DiscreteBayesianNetwork`` with its tables.

    Raises
    ------
    ConfigError
        pgmpy is not installed; time points that are not there, or more probabilities than can be
        written out.
    """
    try:
        from pgmpy.factors.discrete import TabularCPD
        from pgmpy.models import DiscreteBayesianNetwork
    except ImportError:
        raise ConfigError("to_pgmpy needs pgmpy: pip install pgmpy") from None
    model = DiscreteBayesianNetwork()
    for name, parents, table in unrolled(network, first, last):
        model.add_node(name)
        model.add_edges_from((parent, name) for parent in parents)
        # One column for each configuration of parents, the last parent changing fastest.
        columns = table.reshape(-1, table.shape[-1]).T
        sizes = list(table.shape[:-1])
        model.add_cpds(TabularCPD(name, table.shape[-1], columns, parents or None, sizes or None))
    return model


def time_points(text: str) -> tuple[int, int | None]:
    """Read ``A:B`` of ``--steps``: the first and last time point.

    >>> time_points("0:5")
    (0, 5)
    """
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise ConfigError(f"{opt('steps', text)}: write A:B, the numbers of two time points")
    return int(match[1] or 0), int(match[2]) if match[2] else None
