"""The kinds of result files, and the operations on each: a new kind is one more entry here.

An operation imports what it needs, so that to open a file is not to load what draws it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.model.errors import ConfigError
from tauslab.model.option_names import opt
from tauslab.runner.output.checking.opening import (
    FILTER,
    METHOD_OF_DBNS,
    METHOD_OF_LATTICES,
    SPLITTING,
    WEIGHTED,
    kind_of,
)

if TYPE_CHECKING:
    from tauslab.runner.particles.filtering import FilterResult
    from tauslab.runner.rare.estimate import RareResult
    from tauslab.runner.results.dbn.network import DynamicNetwork
    from tauslab.runner.results.digest import Lines
    from tauslab.runner.results.lattice.result import LatticeResult
    from tauslab.runner.results.result import Result

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
    replica, point
        Number of the replica in a lattice file, and of the point of its sweep.
    what, steps
        Which table of an ensemble; time points of a network, as ``FIRST:LAST``.
    """

    species: tuple[str, ...] = ()
    summary: str | None = None
    kind: str = "auto"
    t: float | None = None
    axis: str | None = None
    replica: int = 0
    point: int | None = None
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


# --- ensembles


def _open(path: str | os.PathLike[str]) -> Result:
    from tauslab.runner.results.open import open_result

    return open_result(path)


def _facts(path: Path) -> dict[str, Any]:
    from tauslab.runner.results.info import facts

    with _open(path) as result:
        return facts(result)


def _lines(path: Path) -> list[str]:
    from tauslab.runner.results.info import describe

    with _open(path) as result:
        return describe(result)


def _digest(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.runner.results.digest import digest_lines

    with _open(path) as result:
        return digest_lines(result, species)


def _plot(path: Path, picture: Path, view: View) -> None:
    from tauslab.runner.plots.ensemble import plot_result

    names = [*view.species, *([view.summary] if view.summary else [])]
    with _open(path) as result:
        plot_result(result, view.kind, names, view.t, picture)


def _export(path: Path, table: Path, view: View) -> None:
    from tauslab.runner.results.tables import table_of, write_table

    with _open(path) as result:
        write_table(table_of(result, view.what, view.species), table)


def _report(path: Path) -> str:
    from tauslab.runner.plots.report import ensemble_report

    with _open(path) as result:
        return ensemble_report(result)


ENSEMBLE = Kind(_open, _facts, _lines, _digest, _plot, ".csv", _export, _report)


# --- lattices


def _open_lattice(
    path: str | os.PathLike[str], replica: int = 0, point: int | None = None
) -> LatticeResult:
    from tauslab.runner.results.lattice.result import LatticeResult

    return LatticeResult(path, replica, point)


def _lattice_facts(path: Path) -> dict[str, Any]:
    from tauslab.runner.results.lattice.info import facts

    with _open_lattice(path) as result:
        return facts(result)


def _lattice_lines(path: Path) -> list[str]:
    from tauslab.runner.results.lattice.info import lines

    return lines(_lattice_facts(path))


def _digest_lattice(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.runner.results.lattice.digest import lattice_digest_lines

    return lattice_digest_lines(path, species)


def _plot_lattice(path: Path, picture: Path, view: View) -> None:
    from tauslab.runner.plots.lattice import plot_lattice
    from tauslab.runner.plots.movie import write_movie

    with _open_lattice(path, view.replica, view.point) as frames:
        if view.kind == MOVIE:
            write_movie(frames, picture, view.species or None, view.axis)
            return
        plot_lattice(frames, view.kind, view.species or None, view.t, view.axis, picture)


def _export_lattice(path: Path, output: Path, view: View) -> None:
    from tauslab.runner.results.lattice.export import export_lattice
    from tauslab.runner.results.lattice.tables import lattice_table
    from tauslab.runner.results.tables import SEPARATORS, write_table

    if view.what is not None:
        raise ConfigError(f"{opt('what', view.what)}: {path} is of a lattice: leave it out")
    with _open_lattice(path, view.replica, view.point) as frames:
        if output.suffix.lower() in SEPARATORS:
            write_table(lattice_table(frames, view.species), output)
        else:
            export_lattice(frames, output, view.species or None)


def _report_lattice(path: Path) -> str:
    from tauslab.runner.plots.report import lattice_report

    with _open_lattice(path) as result:
        return lattice_report(result)


LATTICE = Kind(
    _open_lattice, _lattice_facts, _lattice_lines, _digest_lattice, _plot_lattice,
    ".vtkhdf", _export_lattice, _report_lattice,
)  # fmt: skip


# --- dynamic Bayesian networks


def _open_dbn(path: str | os.PathLike[str]) -> DynamicNetwork:
    from tauslab.runner.results.dbn.file import load

    return load(path)


def _dbn_facts(path: Path) -> dict[str, Any]:
    from tauslab.runner.results.dbn.info import facts

    return facts(path)


def _dbn_lines(path: Path) -> list[str]:
    from tauslab.runner.results.dbn.info import lines

    return lines(_dbn_facts(path))


def _digest_dbn(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.runner.results.dbn.file import network_digest_lines

    del species  # parents belong to their children: there is no digest of a part
    return network_digest_lines(path)


def _plot_dbn(path: Path, picture: Path, view: View) -> None:
    from tauslab.runner.plots.dbn import plot_network

    plot_network(_open_dbn(path), view.species, picture)


def _export_dbn(path: Path, output: Path, view: View) -> None:
    from tauslab.runner.results.dbn.export import export_network, time_points

    export_network(_open_dbn(path), output, *time_points(view.steps or ":"))


def _report_dbn(path: Path) -> str:
    from tauslab.runner.plots.dbn import plot_network
    from tauslab.runner.plots.report import network_report

    return network_report(path, _dbn_lines(path), lambda: plot_network(_open_dbn(path)))


DBN = Kind(
    _open_dbn, _dbn_facts, _dbn_lines, _digest_dbn, _plot_dbn, ".bif", _export_dbn, _report_dbn
)

# --- rare events and filters


def _open_rare(path: str | os.PathLike[str]) -> RareResult:
    from tauslab.runner.rare.estimate import RareResult

    return RareResult.load(path)


def _digest_rare(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.runner.results.arrays.file import digest_of

    del species  # what it says is not of one species
    return digest_of(_open_rare(path).arrays())


def _export_rare(path: Path, table: Path, view: View) -> None:
    from tauslab.runner.rare.tables import rare_table
    from tauslab.runner.results.tables import write_table

    del view
    write_table(rare_table(_open_rare(path)), table)


def _no_picture(path: Path, picture: Path, view: View) -> None:
    del picture, view
    raise ConfigError(f"{path}: there is no picture of such a result; tauslab export makes a table")


def _no_report(path: Path) -> str:
    raise ConfigError(f"{path}: there is no report about such a result; tauslab info tells it")


RARE = Kind(
    _open_rare, lambda path: _open_rare(path).facts(), lambda path: _open_rare(path).lines(),
    _digest_rare, _no_picture, ".csv", _export_rare, _no_report,
)  # fmt: skip


def _open_filter(path: str | os.PathLike[str]) -> FilterResult:
    from tauslab.runner.particles.filter_file import load_filter

    return load_filter(path)


def _filter_facts(path: Path) -> dict[str, Any]:
    from tauslab.runner.particles.filter_file import filter_facts

    return filter_facts(_open_filter(path))


def _filter_lines(path: Path) -> list[str]:
    from tauslab.runner.particles.filter_file import filter_lines

    return filter_lines(_open_filter(path))


def _digest_filter(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.runner.particles.filter_file import filter_arrays
    from tauslab.runner.results.arrays.file import digest_of

    del species
    return digest_of(filter_arrays(_open_filter(path)))


def _export_filter(path: Path, table: Path, view: View) -> None:
    from tauslab.runner.particles.filter_file import filter_table
    from tauslab.runner.results.tables import write_table

    del view
    write_table(filter_table(_open_filter(path)), table)


FILTERED = Kind(
    _open_filter, _filter_facts, _filter_lines, _digest_filter, _no_picture, ".csv",
    _export_filter, _no_report,
)  # fmt: skip

# Every other method is one of ensembles.
KINDS = {
    METHOD_OF_LATTICES: LATTICE, METHOD_OF_DBNS: DBN, WEIGHTED: RARE, SPLITTING: RARE,
    FILTER: FILTERED,
}  # fmt: skip
