"""The kinds of result files, and the operations on each: a new kind is one more entry here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauslab.model.errors import ConfigError
from tauslab.runner.output.checking.opening import kind_of
from tauslab.runner.particles.filter_file import (
    filter_arrays,
    filter_facts,
    filter_lines,
    filter_table,
    load_filter,
)
from tauslab.runner.plots.dbn import plot_network
from tauslab.runner.plots.ensemble import plot_result
from tauslab.runner.plots.lattice import plot_lattice
from tauslab.runner.plots.movie import write_movie
from tauslab.runner.plots.report import ensemble_report, lattice_report, network_report
from tauslab.runner.rare.estimate import RareResult
from tauslab.runner.rare.tables import rare_table
from tauslab.runner.results.arrays.file import FILTER, SPLITTING, WEIGHTED, digest_of
from tauslab.runner.results.dbn import info as dbn_info
from tauslab.runner.results.dbn.export import SUFFIX, export_network, time_points
from tauslab.runner.results.dbn.file import METHOD, load, network_digest_lines
from tauslab.runner.results.digest import Lines, digest_lines
from tauslab.runner.results.info import describe, facts
from tauslab.runner.results.lattice import info as lattice_info
from tauslab.runner.results.lattice.digest import lattice_digest_lines
from tauslab.runner.results.lattice.export import export_lattice
from tauslab.runner.results.lattice.result import METHOD as RDME
from tauslab.runner.results.lattice.result import LatticeResult
from tauslab.runner.results.lattice.tables import lattice_table
from tauslab.runner.results.open import open_result
from tauslab.runner.results.tables import SEPARATORS, table_of, write_table

MOVIE = "movie"  # a kind of picture that is a file of its own


@dataclass(frozen=True)
class View:
    """Options of a picture or a table; each kind uses those that it knows.

    Parameters
    ----------
    species
        Names; none for those that the kind takes by default.
    summary
        A summary to draw too.
    kind, t, axis
        Options of a picture: how it is drawn, at which time, across which axis of a lattice.
    replica
        Number of the replica in a lattice file.
    what, steps
        Which table of an ensemble; time points of a network, as ``FIRST:LAST``.
    """

    species: tuple[str, ...] = ()
    summary: str | None = None
    kind: str = "auto"
    t: float | None = None
    axis: str | None = None
    replica: int = 0
    what: str | None = None
    steps: str | None = None


@dataclass(frozen=True)
class Kind:
    """The operations on a file of one kind.

    Parameters
    ----------
    open
        Makes the object that `tauslab.open` returns.
    facts, lines
        Make the output of ``tauslab info``, for programs and for people.
    digest
        Name and SHA-256 of every dataset that counts; of these species alone, if some are given.
    plot
        Draws the file into a picture.
    suffix
        Suffix of the file that `export` writes, unless the user names one.
    export
        Writes the file in another format.
    report
        Makes the page of ``tauslab report``.
    """

    open: Callable[[str | os.PathLike[str]], Any]
    facts: Callable[[Path], dict[str, Any]]
    lines: Callable[[Path], list[str]]
    digest: Callable[[Path, Sequence[str] | None], Lines]
    plot: Callable[[Path, Path, View], object]
    suffix: str
    export: Callable[[Path, Path, View], None]
    report: Callable[[Path], str]


def kind_at(path: str | os.PathLike[str]) -> Kind:
    """The kind of a result file, by the method that it names; an ensemble where it names none."""
    return KINDS.get(kind_of(path) or "", ENSEMBLE)


# --- ensembles ---


def _facts(path: Path) -> dict[str, Any]:
    with open_result(path) as result:
        return facts(result)


def _lines(path: Path) -> list[str]:
    with open_result(path) as result:
        return describe(result)


def _digest(path: Path, species: Sequence[str] | None) -> Lines:
    with open_result(path) as result:
        return digest_lines(result, species)


def _plot(path: Path, picture: Path, view: View) -> None:
    names = [*view.species, *([view.summary] if view.summary else [])]
    with open_result(path) as result:
        plot_result(result, view.kind, names, view.t, picture)


def _export(path: Path, table: Path, view: View) -> None:
    with open_result(path) as result:
        write_table(table_of(result, view.what, view.species), table)


def _report(path: Path) -> str:
    with open_result(path) as result:
        return ensemble_report(result)


ENSEMBLE = Kind(open_result, _facts, _lines, _digest, _plot, ".csv", _export, _report)


# --- lattices ---


def _lattice_facts(path: Path) -> dict[str, Any]:
    with LatticeResult(path) as result:
        return lattice_info.facts(result)


def _lattice_lines(path: Path) -> list[str]:
    return lattice_info.lines(_lattice_facts(path))


def _plot_lattice(path: Path, picture: Path, view: View) -> None:
    with LatticeResult(path, view.replica) as frames:
        if view.kind == MOVIE:
            write_movie(frames, picture, view.species or None, view.axis)
            return
        plot_lattice(frames, view.kind, view.species or None, view.t, view.axis, picture)


def _export_lattice(path: Path, output: Path, view: View) -> None:
    if view.what is not None:
        raise ConfigError(f"--what {view.what}: {path} is of a lattice: leave it out")
    with LatticeResult(path, view.replica) as frames:
        if output.suffix.lower() in SEPARATORS:
            write_table(lattice_table(frames, view.species), output)
        else:
            export_lattice(frames, output, view.species or None)


def _report_lattice(path: Path) -> str:
    with LatticeResult(path) as result:
        return lattice_report(result)


LATTICE = Kind(
    LatticeResult, _lattice_facts, _lattice_lines, lattice_digest_lines, _plot_lattice,
    ".vtkhdf", _export_lattice, _report_lattice,
)  # fmt: skip


# --- dynamic Bayesian networks ---


def _dbn_lines(path: Path) -> list[str]:
    return dbn_info.lines(dbn_info.facts(path))


def _dbn_digest(path: Path, species: Sequence[str] | None) -> Lines:
    del species  # parents belong to their children: there is no digest of a part
    return network_digest_lines(path)


def _plot_dbn(path: Path, picture: Path, view: View) -> None:
    plot_network(load(path), view.species, picture)


def _export_dbn(path: Path, output: Path, view: View) -> None:
    export_network(load(path), output, *time_points(view.steps or ":"))


def _report_dbn(path: Path) -> str:
    return network_report(path, _dbn_lines(path), lambda: plot_network(load(path)))


DBN = Kind(
    load, dbn_info.facts, _dbn_lines, _dbn_digest, _plot_dbn, SUFFIX, _export_dbn, _report_dbn
)

# --- rare events and filters ---


def _rare_digest(path: Path, species: Sequence[str] | None) -> Lines:
    del species  # what it says is not of one species
    return digest_of(RareResult.load(path).arrays())


def _export_rare(path: Path, table: Path, view: View) -> None:
    del view
    write_table(rare_table(RareResult.load(path)), table)


def _no_picture(path: Path, picture: Path, view: View) -> None:
    del picture, view
    raise ConfigError(f"{path}: there is no picture of such a result; tauslab export makes a table")


def _no_report(path: Path) -> str:
    raise ConfigError(f"{path}: there is no report about such a result; tauslab info tells it")


RARE = Kind(
    RareResult.load, lambda path: RareResult.load(path).facts(),
    lambda path: RareResult.load(path).lines(), _rare_digest, _no_picture, ".csv", _export_rare,
    _no_report,
)  # fmt: skip


def _export_filter(path: Path, table: Path, view: View) -> None:
    del view
    write_table(filter_table(load_filter(path)), table)


FILTERED = Kind(
    load_filter, lambda path: filter_facts(load_filter(path)),
    lambda path: filter_lines(load_filter(path)),
    lambda path, _: digest_of(filter_arrays(load_filter(path))), _no_picture, ".csv",
    _export_filter, _no_report,
)  # fmt: skip

# Every other method is one of ensembles.
KINDS = {RDME: LATTICE, METHOD: DBN, WEIGHTED: RARE, SPLITTING: RARE, FILTER: FILTERED}
