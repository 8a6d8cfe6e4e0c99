"""The options of `tauslab.abc_smc`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy.typing as npt

from tauslab.analysis.filters.abc.distances import NORMS, DistanceFunction
from tauslab.analysis.filters.keywords import data_of, max_steps_option
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned
from tauslab.options.keywords import device_option
from tauslab.options.methods import Method, MethodWord
from tauslab.options.places import Device, Name
from tauslab.options.values.checks import number, whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.recurring import (
    checkpoint_every_option,
    checkpoint_option,
    comm_option,
    quiet_option,
    seed_option,
)
from tauslab.options.values.texts import count

ADAPTIVE = "adaptive"


@declared
@dataclass(frozen=True)
class AbcKeywords:
    """Keywords of `tauslab.abc_smc`."""

    data: Any
    priors: Mapping[str, str]
    _: KW_ONLY
    observe: Mapping[str, str | tuple[str, str]] | None = option(
        None, doc="Noise of columns of a time course, as of `tauslab.particle_filter`, added to "
        "simulations. By default a column is compared with the quantity of its name, without "
        "noise.",
    )  # fmt: skip
    summary: Callable[[Any], npt.ArrayLike] | None = option(
        None, doc="A function of a `Result` of m trajectories that gives ``[m, k]``.",
    )  # fmt: skip
    t_end: float | None = option(
        None, type=float, check=number(lambda x: x > 0, "above 0"),
        doc="Last sample time, where `data` are summaries.",
    )  # fmt: skip
    times: Sequence[float] | None = option(
        None, doc="Sample times, where `data` are summaries.",
    )  # fmt: skip
    n: int = option(
        1000, type=count, check=whole(2, 10**7), doc="Particles of a generation."
    )  # fmt: skip
    generations: int = option(
        10, type=count, check=whole(1, 10**6), doc="Maximum number."
    )  # fmt: skip
    quantile: float = option(
        0.5, type=float, check=number(lambda x: 0 < x < 1, "between 0 and 1"),
        doc="Fraction of the particles of a generation whose distance is within the threshold of "
        "the next.",
    )  # fmt: skip
    epsilon: Sequence[float] | None = option(
        None, doc="Thresholds of all generations, instead of `quantile`; needs `scale`.",
    )  # fmt: skip
    scale: str | float | npt.ArrayLike = option(
        ADAPTIVE, doc="Number by which each summary is divided: ``adaptive``, the median absolute "
        "deviation of the simulations of the last generation; or one number; or a number for each "
        "summary.",
    )  # fmt: skip
    distance: float | DistanceFunction = option(
        2, doc="Norm of the differences: 1, 2 or infinity; or a function of simulations ``[m, k]`` "
        "and data ``[k]`` that gives distances ``[m]``.",
    )  # fmt: skip
    target_epsilon: float = option(
        0.0, type=float, check=number(lambda x: x >= 0, "0 or more"),
        doc="A generation with this threshold or less is the last.",
    )  # fmt: skip
    least_acceptance: float = option(
        1e-3, type=float, check=number(lambda x: 0 < x <= 1, "above 0, up to 1"),
        doc="Stop if a smaller fraction of candidates is accepted; the previous generation is the "
        "result.",
    )  # fmt: skip
    seed: int | None = seed_option()
    quiet: bool | None = quiet_option()
    device: Device = device_option()
    method: MethodWord | Method | None = option(None, doc="As of `tauslab.run`.")
    max_steps: int | None = max_steps_option(
        "Maximum number of steps of a simulation; one that needs more ends early, with a warning."
    )
    checkpoint: Name | None = checkpoint_option(
        ", after a launch, and at the end. If it exists, the call continues from it with the same "
        "bits; only more `generations`, further `epsilon` and another `target_epsilon` may differ."
    )
    checkpoint_every: float = checkpoint_every_option()
    comm: Any = comm_option()

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", data_of(self.data))

    def check(self) -> None:
        """Refuse options that do not belong together.

        Raises
        ------
        ConfigError
            The message says which.
        """
        if not callable(self.distance) and self.distance not in NORMS:
            raise ConfigError(
                f"{assigned('distance')}{self.distance!r} is not allowed: 1, 2, infinity "
                f"({math.inf}) or a function"
            )
        adapts = isinstance(self.scale, str)
        if adapts and self.scale != ADAPTIVE:
            raise ConfigError(
                f'{assigned("scale")}{self.scale!r} is not allowed: "{ADAPTIVE}" or numbers'
            )
        if self.epsilon is not None and adapts and not callable(self.distance):
            raise ConfigError(
                f"{assigned('epsilon')}... needs {assigned('scale')}numbers: with adaptive scales "
                "distances of two generations are not the same"
            )
