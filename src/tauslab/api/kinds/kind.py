"""What can be done with a result file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
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

    def require_known(self, known: Collection[str], path: Path, told: str) -> None:
        """Refuse what `known` lacks, for the file at `path`, of which `told` says the kind.

        Raises
        ------
        ConfigError
            Names the first option that is given and means nothing there.
        """
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in known and value != one.default:
                shown = ",".join(value) if isinstance(value, tuple) else value
                raise ConfigError(f"{opt(one.name, shown)}: {path} is of {told}: leave it out")


@dataclass(frozen=True)
class Kind:
    """The operations on a file of one kind.

    Parameters
    ----------
    told
        What a file is of, with its article.
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
    of_pictures, of_tables
        Fields of `View` that `plot` and `export` take.
    parts
        Whether there are digests of some species.
    """

    told: str
    open: Callable[[str | os.PathLike[str]], Any]
    facts: Callable[[Path], dict[str, Any]]
    lines: Callable[[Path], list[str]]
    digest: Callable[[Path, Sequence[str] | None], Lines]
    plot: Callable[[Path, Path, View], object]
    suffix: str
    export: Callable[[Path, Path, View], None]
    report: Callable[[Path], str]
    of_pictures: tuple[str, ...] = ()
    of_tables: tuple[str, ...] = ()
    parts: bool = False
