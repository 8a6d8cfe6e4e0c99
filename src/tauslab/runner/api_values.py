"""What callers from Python may write in several ways."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.runner import texts
from tauslab.runner.sweep import Design, Sweep, choose_points, parse_design

FloatArray = npt.NDArray[np.float64]


def points_of(
    sweep: Mapping[str, str | Sequence[float] | FloatArray] | None,
    table: Mapping[str, Sequence[float] | FloatArray] | str | os.PathLike[str] | None,
    design: tuple[str, int] | str | None,
) -> Sweep | Design | None:
    """The points that a call asks for."""
    columns = Path(table) if isinstance(table, str | os.PathLike) else table
    return choose_points(
        sweep, columns, parse_design(design) if isinstance(design, str) else design
    )


def names_of(species: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Names, given one by one or separated by commas."""
    if species is None:
        return None
    return texts.names(species) if isinstance(species, str) else tuple(species)
