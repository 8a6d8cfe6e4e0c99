"""Results that are arrays alone: rare events, filters, derivatives, populations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.runner.api.kinds.kind import Kind, View

if TYPE_CHECKING:
    from tauslab.model.arrays import Array
    from tauslab.runner.results.digest import Lines
    from tauslab.runner.results.tables import ResultTable


@dataclass(frozen=True)
class _Room:
    """The functions of a room; all but `load` take what it gives."""

    load: Callable[[str | os.PathLike[str]], Any]
    facts: Callable[[Any], dict[str, Any]]
    lines: Callable[[Any], list[str]]
    arrays: Callable[[Any], Mapping[str, Array]]
    table: Callable[[Any, View], ResultTable]
    draw: Callable[[Any, View, Path | None], Any]


def _rare() -> _Room:
    from tauslab.runner.plots.estimates import plot_rare
    from tauslab.runner.rare.estimate import RareResult
    from tauslab.runner.rare.tables import rare_table

    return _Room(
        RareResult.load, RareResult.facts, RareResult.lines, RareResult.arrays,
        lambda found, _: rare_table(found),
        lambda found, _, picture: plot_rare(found, picture),
    )  # fmt: skip


def _filtered() -> _Room:
    from tauslab.runner.particles import filter_file as file
    from tauslab.runner.plots.states import plot_filter

    return _Room(
        file.load_filter, file.filter_facts, file.filter_lines,
        file.filter_arrays, lambda found, _: file.filter_table(found),
        lambda found, view, picture: plot_filter(found, view.species, picture),
    )  # fmt: skip


def _derived() -> _Room:
    from tauslab.runner.plots.estimates import plot_derivatives
    from tauslab.runner.sensitivity import tables
    from tauslab.runner.sensitivity.result import SensitivityResult

    return _Room(
        SensitivityResult.load, tables.sensitivity_facts,
        tables.sensitivity_lines, SensitivityResult.arrays,
        lambda found, _: tables.sensitivity_table(found),
        lambda found, view, picture: plot_derivatives(found, view.species, picture),
    )  # fmt: skip


def _population() -> _Room:
    from tauslab.runner.plots.states import plot_population
    from tauslab.runner.populations import tables
    from tauslab.runner.populations.result import PopulationResult

    return _Room(
        PopulationResult.load, tables.population_facts,
        tables.population_lines, PopulationResult.arrays,
        lambda found, view: tables.population_table(found, view.what),
        lambda found, view, picture: plot_population(found, view.species, view.t, picture),
    )  # fmt: skip


def _kind(
    told: str, room: Callable[[], _Room], drawn: tuple[str, ...] = (), table: tuple[str, ...] = ()
) -> Kind:
    """The operations by the functions of a room, which is imported when one of them is used."""

    def digest(path: Path, species: Sequence[str] | None) -> Lines:
        from tauslab.runner.results.arrays.file import digest_of

        del species  # what it says is not of one species
        here = room()
        return digest_of(here.arrays(here.load(path)))

    def plot(path: Path, picture: Path, view: View) -> None:
        here = room()
        here.draw(here.load(path), view, picture)

    def export(path: Path, output: Path, view: View) -> None:
        from tauslab.runner.results.tables import write_table

        here = room()
        write_table(here.table(here.load(path), view), output)

    def report(path: Path) -> str:
        from tauslab.runner.plots.report import picture_report

        here = room()
        found = here.load(path)
        return picture_report(path, told, here.lines(found), lambda: here.draw(found, View(), None))

    return Kind(
        told, lambda path: room().load(path), lambda path: room().facts(room().load(path)),
        lambda path: room().lines(room().load(path)), digest, plot, ".csv", export, report,
        of_pictures=drawn, of_tables=table,
    )  # fmt: skip


RARE = _kind("a rare event", _rare)
FILTERED = _kind("a filtered course", _filtered, ("species",))
DERIVED = _kind("derivatives of means", _derived, ("species",))
POPULATIONS = _kind("a population of cells", _population, ("species", "t"), ("what",))
