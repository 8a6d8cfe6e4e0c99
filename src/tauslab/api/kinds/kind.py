"""Operations on a result file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt

if TYPE_CHECKING:
    from tauslab.store.results.digest import Lines

MOVIE = "movie"  # a kind of picture that is a file of its own


@dataclass(frozen=True)
class View:
    """Options of a picture or a table; each kind takes some, and others are refused.

    Parameters
    ----------
    species
        Names; without any the kind takes its own.
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
    replica: int | None = None
    point: int | None = None
    what: str | None = None
    steps: str | None = None

    def require_known(self, known: Collection[str], path: Path, noun: str) -> None:
        """Refuse what `known` lacks, for the file at `path`, of which `noun` says the kind.

        Raises
        ------
        ConfigError
            Names the first option that is given and means nothing there.
        """
        if not path.is_file():
            return  # its kind is unknown, and whoever opens it says so
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in known and value != one.default:
                shown = ",".join(value) if isinstance(value, tuple) else value
                raise ConfigError(f"{opt(one.name, shown)}: {path} is of {noun}: leave it out")


class Kind(ABC):
    """The operations on files of one kind.

    Attributes
    ----------
    noun
        What a file is of, with its article.
    suffix
        Suffix of the file that `export` writes, unless the user names one.
    of_pictures, of_tables
        Fields of `View` that `plot` and `export` take.
    parts
        Whether there are digests of some species.
    """

    noun: str
    suffix: str
    of_pictures: tuple[str, ...] = ()
    of_tables: tuple[str, ...] = ()
    parts = False

    @abstractmethod
    def open(self, path: str | os.PathLike[str]) -> Any:
        """The object that `tauslab.open` gives."""

    @abstractmethod
    def facts(self, path: Path) -> dict[str, Any]:
        """The result as ``tauslab info --json`` prints it."""

    @abstractmethod
    def lines(self, path: Path) -> list[str]:
        """The result in the lines that ``tauslab info`` prints."""

    @abstractmethod
    def digest(self, path: Path, species: Sequence[str] | None) -> Lines:
        """Name and SHA-256 of every dataset that counts; of these species alone, if some."""

    @abstractmethod
    def plot(self, path: Path, picture: Path, view: View) -> None:
        """Draw the file into a picture."""

    @abstractmethod
    def export(self, path: Path, output: Path, view: View) -> None:
        """Write the file in another format."""
