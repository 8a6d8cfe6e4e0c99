"""Files of ensembles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tauslab.api.kinds.kind import Kind, View
from tauslab.store.results import digest, info, tables
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result


class _Ensembles(Kind):
    """The operations on files of ensembles."""

    noun = "an ensemble"
    suffix = ".csv"
    parts = True
    of_pictures = ("species", "summary", "kind", "t")
    of_tables = ("species", "what")

    def open(self, path: str | os.PathLike[str]) -> Result:
        return open_result(path)

    def facts(self, path: Path) -> dict[str, Any]:
        with self.open(path) as result:
            return info.facts(result)

    def lines(self, path: Path) -> list[str]:
        with self.open(path) as result:
            return info.describe(result)

    def digest(self, path: Path, species: Sequence[str] | None) -> digest.Lines:
        with self.open(path) as result:
            return digest.digest_lines(result, species)

    def plot(self, path: Path, picture: Path, view: View) -> None:
        names = [*view.species, *([view.summary] if view.summary else [])]
        with self.open(path) as result:
            result.plot(names, view.kind, picture, view.t)

    def export(self, path: Path, output: Path, view: View) -> None:
        with self.open(path) as result:
            tables.write_table(tables.table_of(result, view.what, view.species), output)


KIND = _Ensembles()
