"""Results of analyses: rare events, filters, chains, derivatives, populations, probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.api.kinds.kind import Kind, View
from tauslab.store.checking.opening import (
    ABC,
    CHAINS,
    CME,
    FILTER,
    FILTERS,
    FIT,
    HYBRID,
    OTHER_KINDS,
    POPULATION,
    SENSITIVITY,
    SMC2,
    SPLITTING,
    WEIGHTED,
)
from tauslab.store.results.digest import Lines
from tauslab.store.results.tables import write_table

if TYPE_CHECKING:
    from tauslab.store.results.array_result import ArrayResult


class _Analyses(Kind):
    """Files of one class of `ArrayResult`, which is imported when a file of it is opened.

    Parameters
    ----------
    method
        That a file names.
    home
        ``module:class``.
    of_pictures
        Fields of `View` that its `plot` takes before the path.
    """

    suffix = ".csv"
    of_tables = ("what",)

    def __init__(self, method: str, home: str, of_pictures: tuple[str, ...] = ()) -> None:
        self.noun, self._home, self.of_pictures = OTHER_KINDS[method], home, of_pictures

    def open(self, path: str | os.PathLike[str]) -> ArrayResult:
        module, _, name = self._home.partition(":")
        result: ArrayResult = getattr(import_module(f"tauslab.analysis.{module}"), name).load(path)
        return result

    def facts(self, path: Path) -> dict[str, Any]:
        return self.open(path).facts()

    def lines(self, path: Path) -> list[str]:
        return self.open(path).lines()

    def digest(self, path: Path, species: Sequence[str] | None) -> Lines:
        del species  # it is not of one species
        return self.open(path).digest_lines()

    def plot(self, path: Path, picture: Path, view: View) -> None:
        self._draw(self.open(path), view, picture)

    def export(self, path: Path, output: Path, view: View) -> None:
        write_table(self.open(path).table(view.what), output)

    def _draw(self, result: Any, view: View, picture: Path | None) -> Any:
        return result.plot(*(getattr(view, name) for name in self.of_pictures), picture)


# By the method that a file names.
KINDS: dict[str, Kind] = {
    **dict.fromkeys((WEIGHTED, SPLITTING), _Analyses(WEIGHTED, "rare.estimate:RareResult")),
    FILTER: _Analyses(FILTER, "filters.result:FilterResult", ("species",)),
    FILTERS: _Analyses(FILTERS, "filters.result:FilterResults"),
    ABC: _Analyses(ABC, "filters.abc.result:AbcResult", ("species",)),
    SMC2: _Analyses(SMC2, "filters.smc2.result:Smc2Result", ("species",)),
    FIT: _Analyses(FIT, "filters.fitting.result:FitResult", ("species",)),
    CHAINS: _Analyses(CHAINS, "filters.chains:Chain", ("species",)),
    SENSITIVITY: _Analyses(SENSITIVITY, "sensitivity.result:SensitivityResult", ("species",)),
    POPULATION: _Analyses(POPULATION, "populations.result:PopulationResult", ("species", "t")),
    HYBRID: _Analyses(HYBRID, "hybrids.result:HybridResult", ("species",)),
    CME: _Analyses(CME, "cme.result:CmeResult", ("species",)),
}
