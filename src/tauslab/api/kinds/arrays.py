"""Results of analyses: rare events, filters, chains, derivatives, populations, laws."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.api.kinds.kind import Kind, View
from tauslab.store.checking.opening import (
    CHAINS,
    CME,
    FILTER,
    FILTERS,
    OTHER_KINDS,
    POPULATION,
    SENSITIVITY,
    SPLITTING,
    WEIGHTED,
)

if TYPE_CHECKING:
    from tauslab.store.results.arrays.result import ArrayResult
    from tauslab.store.results.digest import Lines


def _rare() -> type[ArrayResult]:
    from tauslab.analysis.rare.estimate import RareResult

    return RareResult


def _filter() -> type[ArrayResult]:
    from tauslab.analysis.filters.result import FilterResult

    return FilterResult


def _filters() -> type[ArrayResult]:
    from tauslab.analysis.filters.result import FilterResults

    return FilterResults


def _chain() -> type[ArrayResult]:
    from tauslab.analysis.filters.chains import Chain

    return Chain


def _sensitivity() -> type[ArrayResult]:
    from tauslab.analysis.sensitivity.result import SensitivityResult

    return SensitivityResult


def _population() -> type[ArrayResult]:
    from tauslab.analysis.populations.result import PopulationResult

    return PopulationResult


def _law() -> type[ArrayResult]:
    from tauslab.analysis.cme.law import CmeResult

    return CmeResult


# Draws a result into a file, or for a page into none.
Draw = Callable[[Any, View, Path | None], Any]


def _whole(result: Any, _: View, picture: Path | None) -> Any:
    return result.plot(picture)


def _species(result: Any, view: View, picture: Path | None) -> Any:
    return result.plot(view.species, picture)


def _species_at(result: Any, view: View, picture: Path | None) -> Any:
    return result.plot(view.species, view.t, picture)


def _kind(
    method: str,
    class_of: Callable[[], type[ArrayResult]],
    draw: Draw,
    of_pictures: tuple[str, ...] = (),
    of_tables: tuple[str, ...] = (),
) -> Kind:
    """The operations on files of a class, which is imported when one of them is used."""

    def load(path: str | os.PathLike[str]) -> ArrayResult:
        return class_of().load(path)

    def digest(path: Path, species: Sequence[str] | None) -> Lines:
        del species  # it is not of one species
        return load(path).digest_lines()

    def plot(path: Path, picture: Path, view: View) -> None:
        draw(load(path), view, picture)

    def export(path: Path, output: Path, view: View) -> None:
        from tauslab.store.results.tables import write_table

        write_table(load(path).table(view.what), output)

    def report(path: Path) -> str:
        from tauslab.views.report import picture_report

        result = load(path)
        return picture_report(path, told, result.lines(), lambda: draw(result, View(), None))

    told = OTHER_KINDS[method]
    return Kind(
        told, load, lambda path: load(path).facts(), lambda path: load(path).lines(), digest, plot,
        ".csv", export, report, of_pictures=of_pictures, of_tables=of_tables,
    )  # fmt: skip


# By the method that a file names.
ARRAYS = {
    **dict.fromkeys((WEIGHTED, SPLITTING), _kind(WEIGHTED, _rare, _whole)),
    FILTER: _kind(FILTER, _filter, _species, ("species",)),
    FILTERS: _kind(FILTERS, _filters, _whole),
    CHAINS: _kind(CHAINS, _chain, _species, ("species",)),
    SENSITIVITY: _kind(SENSITIVITY, _sensitivity, _species, ("species",)),
    POPULATION: _kind(POPULATION, _population, _species_at, ("species", "t"), ("what",)),
    CME: _kind(CME, _law, _species, ("species",)),
}
