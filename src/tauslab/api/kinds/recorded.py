"""Results of runs: ensembles, lattices, dynamic Bayesian networks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.api.kinds.kind import MOVIE, Kind, View

if TYPE_CHECKING:
    from tauslab.analysis.dbn.results.network import DynamicNetwork
    from tauslab.store.results.digest import Lines
    from tauslab.store.results.lattice.result import LatticeResult
    from tauslab.store.results.result import Result

# --- ensembles


def _open(path: str | os.PathLike[str]) -> Result:
    from tauslab.store.results.open import open_result

    return open_result(path)


def _facts(path: Path) -> dict[str, Any]:
    from tauslab.store.results.info import facts

    with _open(path) as result:
        return facts(result)


def _lines(path: Path) -> list[str]:
    from tauslab.store.results.info import describe

    with _open(path) as result:
        return describe(result)


def _digest(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.store.results.digest import digest_lines

    with _open(path) as result:
        return digest_lines(result, species)


def _plot(path: Path, picture: Path, view: View) -> None:
    from tauslab.views.ensemble import plot_result

    names = [*view.species, *([view.summary] if view.summary else [])]
    with _open(path) as result:
        plot_result(result, view.kind, names, view.t, picture)


def _export(path: Path, table: Path, view: View) -> None:
    from tauslab.store.results.tables import table_of, write_table

    with _open(path) as result:
        write_table(table_of(result, view.what, view.species), table)


def _report(path: Path) -> str:
    from tauslab.views.report import ensemble_report

    with _open(path) as result:
        return ensemble_report(result)


ENSEMBLE = Kind(
    "an ensemble", _open, _facts, _lines, _digest, _plot, ".csv", _export, _report,
    of_pictures=("species", "summary", "kind", "t"), of_tables=("species", "what"), parts=True,
)  # fmt: skip


# --- lattices


def _open_lattice(
    path: str | os.PathLike[str], replica: int = 0, point: int | None = None
) -> LatticeResult:
    from tauslab.store.results.lattice.result import LatticeResult

    return LatticeResult(path, replica, point)


def _lattice_facts(path: Path) -> dict[str, Any]:
    from tauslab.store.results.lattice.info import facts

    with _open_lattice(path) as result:
        return facts(result)


def _lattice_lines(path: Path) -> list[str]:
    from tauslab.store.results.lattice.info import lines

    return lines(_lattice_facts(path))


def _digest_lattice(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.store.results.lattice.digest import lattice_digest_lines

    return lattice_digest_lines(path, species)


def _plot_lattice(path: Path, picture: Path, view: View) -> None:
    from tauslab.views.lattice import plot_lattice, require_used
    from tauslab.views.movie import write_movie

    with _open_lattice(path, view.replica, view.point) as frames:
        if view.kind == MOVIE:
            require_used(view.kind, view.t, view.axis)
            write_movie(frames, picture, view.species or None, view.axis)
            return
        plot_lattice(frames, view.kind, view.species or None, view.t, view.axis, picture)


def _export_lattice(path: Path, output: Path, view: View) -> None:
    from tauslab.store.results.lattice.export import export_lattice
    from tauslab.store.results.lattice.tables import lattice_table
    from tauslab.store.results.tables import SEPARATORS, write_table

    with _open_lattice(path, view.replica, view.point) as frames:
        if output.suffix.lower() in SEPARATORS:
            write_table(lattice_table(frames, view.species), output)
        else:
            export_lattice(frames, output, view.species or None)


def _report_lattice(path: Path) -> str:
    from tauslab.views.report import lattice_report

    with _open_lattice(path) as result:
        return lattice_report(result)


LATTICE = Kind(
    "a lattice", _open_lattice, _lattice_facts, _lattice_lines, _digest_lattice, _plot_lattice,
    ".vtkhdf", _export_lattice, _report_lattice,
    of_pictures=("species", "kind", "t", "axis", "replica", "point"),
    of_tables=("species", "replica", "point"), parts=True,
)  # fmt: skip


# --- dynamic Bayesian networks


def _open_dbn(path: str | os.PathLike[str]) -> DynamicNetwork:
    from tauslab.analysis.dbn.results.file import load

    return load(path)


def _dbn_facts(path: Path) -> dict[str, Any]:
    from tauslab.analysis.dbn.results.info import facts

    return facts(path)


def _dbn_lines(path: Path) -> list[str]:
    from tauslab.analysis.dbn.results.info import lines

    return lines(_dbn_facts(path))


def _digest_dbn(path: Path, species: Sequence[str] | None) -> Lines:
    from tauslab.analysis.dbn.results.file import network_digest_lines

    del species  # parents belong to their children: there is no digest of a part
    return network_digest_lines(path)


def _plot_dbn(path: Path, picture: Path, view: View) -> None:
    from tauslab.analysis.dbn.plots import plot_network

    plot_network(_open_dbn(path), view.species, picture)


def _export_dbn(path: Path, output: Path, view: View) -> None:
    from tauslab.analysis.dbn.results.export import export_network, time_points

    export_network(_open_dbn(path), output, *time_points(view.steps or ":"))


def _report_dbn(path: Path) -> str:
    from tauslab.analysis.dbn.plots import plot_network
    from tauslab.views.report import network_report

    return network_report(path, _dbn_lines(path), lambda: plot_network(_open_dbn(path)))


DBN = Kind(
    "a dynamic Bayesian network", _open_dbn, _dbn_facts, _dbn_lines, _digest_dbn, _plot_dbn, ".bif",
    _export_dbn, _report_dbn, of_pictures=("species",), of_tables=("steps",),
)  # fmt: skip
