"""The options of `tauslab.population` and ``tauslab population``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy.typing as npt

from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.keywords import device_option
from tauslab.options.places import Device
from tauslab.options.values.checks import whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.initial_counts import InitialCount
from tauslab.options.values.recurring import comm_option, initial_option, seed_option
from tauslab.options.values.texts import by_name, count

FOLLOW = ("population", "tree", "lineage")
_MOST_CELLS = MOST_TRAJECTORIES // 4


@declared
@dataclass(frozen=True)
class PopulationKeywords:
    """Keywords of `tauslab.population`."""

    times: npt.ArrayLike | None = None
    _: KW_ONLY
    t_end: float | None = option(
        None, doc="Last time, instead of `times`; by default the model's end time.",
    )  # fmt: skip
    points: int | None = option(
        None, doc="Number of times from 0 to `t_end`, both included (101).",
    )  # fmt: skip
    division: str = option(
        "", "the event that divides a cell", flag="--division", group="model", metavar="EVENT",
        doc="Required: name of the event that divides a cell, after its assignments.",
    )  # fmt: skip
    cells: int = option(
        1000, "initial number of cells (1000)", flag="--cells", group="sampling", type=count,
        metavar="N", check=whole(1, _MOST_CELLS), doc="Initial number of cells.",
    )  # fmt: skip
    follow: str = option(
        "population", "both daughters (default), the whole tree, or one daughter at random",
        flag="--follow", group="sampling", choices=FOLLOW,
        doc="``population``: both daughters; `cells` random cells are kept and represent the "
        "whole population. ``tree``: all cells. ``lineage``: one daughter at random.",
    )  # fmt: skip
    partition: Mapping[str, str] | None = option(
        None, "partition of a species: binomial, even, copy, first, share", flag="--partition",
        group="model", action="append", metavar="NAME=HOW",
        read=by_name("partition", 'NAME=HOW, such as "X=even"', str),
        doc="How a species is divided, by name. Counts: ``binomial`` (by `fraction`, the "
        "default), ``even``, ``copy`` or ``first``. Real quantities: ``share`` (by `fraction`, "
        "the default with a rate rule), ``copy`` (the default of others) or ``first``.",
    )  # fmt: skip
    fraction: float | str = option(
        0.5, "fraction of the first daughter: a number, or uniform(LO,HI) (0.5)",
        flag="--fraction", group="model", metavar="PART",
        doc='Fraction of the first daughter: a number, or ``"uniform(LO,HI)"``, drawn at each '
        "division.",
    )  # fmt: skip
    max_cells: int = option(
        100_000, "maximum number of cells of a tree (100000)",
        flag="--max-cells", group="sampling", type=count,
        metavar="N", check=whole(1, _MOST_CELLS), doc="Maximum number of cells of a tree.",
    )  # fmt: skip
    set: Mapping[str, float | npt.ArrayLike] | None = option(
        None, doc="Values of parameters and initial amounts by name: one for all cells, or an "
        "array ``[cell]``; daughters inherit them.",
    )  # fmt: skip
    initial: Mapping[str, InitialCount] | None = initial_option()
    seed: int | None = seed_option()
    max_steps: int | None = option(
        None, "maximum number of events between two divisions", flag="--max-steps", type=count,
        metavar="N", doc="As of `tauslab.Ensemble`.",
    )  # fmt: skip
    device: Device = device_option()
    comm: Any = comm_option()
