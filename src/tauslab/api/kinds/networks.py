"""Files of dynamic Bayesian networks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tauslab.analysis.dbn.results import export, file, info
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.api.kinds.kind import Kind, View
from tauslab.store.results.digest import Lines


class _Networks(Kind):
    """The operations on files of dynamic Bayesian networks."""

    noun = "a dynamic Bayesian network"
    suffix = ".bif"
    of_pictures = ("species",)
    of_tables = ("steps",)

    def open(self, path: str | os.PathLike[str]) -> DynamicNetwork:
        return file.load(path)

    def facts(self, path: Path) -> dict[str, Any]:
        return info.facts(path)

    def lines(self, path: Path) -> list[str]:
        return info.lines(self.facts(path))

    def digest(self, path: Path, species: Sequence[str] | None) -> Lines:
        del species  # parents belong to their children: there is no digest of a part
        return file.network_digest_lines(path)

    def plot(self, path: Path, picture: Path, view: View) -> None:
        from tauslab.analysis.dbn.plots import plot_network  # only who draws waits for it

        plot_network(self.open(path), view.species, picture)

    def export(self, path: Path, output: Path, view: View) -> None:
        times = export.time_points(view.steps or ":")
        export.export_network(self.open(path), output, *times)


KIND = _Networks()
