"""The options of `tauslab.cme`, and the ones that `tauslab.exact_filter` shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

import numpy.typing as npt

from tauslab.options.values.checks import number, whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.initial_counts import InitialCount
from tauslab.options.values.recurring import quiet_option, set_option


@declared
@dataclass(frozen=True, kw_only=True)
class ProjectionChoices:
    """Options of a finite state projection."""

    initial: Mapping[str, InitialCount] | None = option(
        None, doc="Probability distributions of initial counts by species, independent of each "
        'other: ``"poisson(50)"``, ``"uniform(0,10)"``, or probabilities of the counts 0, 1, .... '
        "Other species begin with their initial amounts.",
    )  # fmt: skip
    tolerance: float = option(
        1e-8, check=number(lambda x: 0 < x < 1, "a number above 0 and below 1"),
        doc="Maximum probability that may be lost by the last time (by `exact_filter` relative "
        "to the likelihood). If `bound` of the result is larger, a warning appears.",
    )  # fmt: skip
    max_states: int | None = option(
        None, check=whole(1, sys.maxsize),
        doc="Maximum number of states; their memory is also limited to half of the free memory.",
    )  # fmt: skip
    max_seconds: float = option(
        600.0, check=number(lambda x: 0 < x <= math.inf, "a number above 0"),
        doc="Calculations estimated to take longer are rejected.",
    )  # fmt: skip
    quiet: bool | None = quiet_option()


@declared
@dataclass(frozen=True)
class CmeKeywords(ProjectionChoices):
    """Keywords of `tauslab.cme`."""

    times: npt.ArrayLike | None = None
    _: KW_ONLY
    t_end: float | None = option(
        None, doc="Last time, instead of `times`; by default the model's end time.",
    )  # fmt: skip
    points: int | None = option(
        None, doc="Number of times from 0 to `t_end`, both included (101).",
    )  # fmt: skip
    set: Mapping[str, float] | None = set_option(
        "Values of parameters and initial amounts by name."
    )
