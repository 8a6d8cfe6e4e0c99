"""Files of lattice runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tauslab.api.kinds.kind import MOVIE, Kind, View
from tauslab.store.results import tables
from tauslab.store.results.digest import Lines
from tauslab.store.results.lattice import info
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.lattice.export import export_lattice
from tauslab.store.results.lattice.result import LatticeResult
from tauslab.store.results.lattice.tables import lattice_table

_OF_FRAMES = ("species", "replica", "point")


class _Lattices(Kind):
    """The operations on files of lattice runs."""

    noun = "a lattice"
    suffix = ".vtkhdf"
    parts = True
    of_pictures = ("species", "kind", "t", "axis", "replica", "point")
    of_tables = ("species", "what", "replica", "point")

    def open(self, path: str | os.PathLike[str], view: View | None = None) -> LatticeResult:
        return (
            LatticeResult(path)
            if view is None
            else LatticeResult(path, view.replica or 0, view.point)
        )

    def facts(self, path: Path) -> dict[str, Any]:
        with self.open(path) as result:
            return info.facts(result)

    def lines(self, path: Path) -> list[str]:
        return info.lines(self.facts(path))

    def digest(self, path: Path, species: Sequence[str] | None) -> Lines:
        return lattice_digest_lines(path, species)

    def plot(self, path: Path, picture: Path, view: View) -> None:
        from tauslab.views.lattice import require_used  # only who draws waits for it

        with self.open(path, view) as frames:
            if view.kind == MOVIE:
                require_used(view.kind, view.t, view.axis)
                frames.movie(picture, view.species or None, axis=view.axis)
                return
            frames.plot(view.species or None, view.kind, picture, view.t, axis=view.axis)

    def export(self, path: Path, output: Path, view: View) -> None:
        with self.open(path, view) as frames:
            if output.suffix.lower() in tables.SUFFIXES:
                table = lattice_table(frames, view.species, view.what, replica=view.replica)
                tables.write_table(table, output)
            else:
                view.require_known(_OF_FRAMES, path, f"{self.noun}, and {output} has frames")
                export_lattice(frames, output, view.species or None)


KIND = _Lattices()
