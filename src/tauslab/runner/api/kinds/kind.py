"""What can be done with a result file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tauslab.runner.results.digest import Lines

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
