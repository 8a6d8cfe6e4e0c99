"""The options of `tauslab.run` of a hybrid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

from tauslab.base.errors import ConfigError
from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.keywords import device_option
from tauslab.options.places import Device, Name, Output
from tauslab.options.values.checks import whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.recurring import (
    checkpoint_every_option,
    comm_option,
    quiet_option,
    seed_option,
)
from tauslab.options.values.texts import count

Splitting: TypeAlias = Literal["strang", "lie"]
SPLITTINGS: tuple[str, ...] = get_args(Splitting)


@declared
@dataclass(frozen=True, kw_only=True)
class HybridFlags:
    """Options of hybrids only."""

    splitting: Splitting = option(
        "strang", "operator splitting of a hybrid: strang or lie (strang)",
        flag="--splitting", group="sampling",
        choices=SPLITTINGS,
        doc="For parts that influence each other: ``strang``, of second order in the "
        "interval, or ``lie``, of first order.",
    )  # fmt: skip
    pilot: int = option(
        20, "hybrids: number of intervals of the pilot (20)",
        flag="--pilot-intervals", group="sampling",
        type=count, metavar="K", check=whole(0, 1_000_000),
        doc="Intervals that a pilot of up to 32 cells simulates before the run, with the given "
        "interval and with half of it, to estimate the error of means; 0: no pilot.",
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class HybridKeywords(HybridFlags):
    """Keywords of `tauslab.run` that a `tauslab.Hybrid` has."""

    t_end: float | None = option(None, doc="End time, a whole multiple of every interval.")
    n: int = option(1, type=count, check=whole(1, MOST_TRAJECTORIES), doc="Number of cells.")
    seed: int | None = seed_option()
    output: Name | Output | None = option(
        None, doc="Result file. During the run, the state is saved in ``<output>.checkpoint``."
    )
    resume: bool = option(False, doc="Continue from the checkpoint of `output`, with equal bits.")
    hooks: Sequence[tuple[float, Callable[[Any], Any]]] = option(
        (),
        doc="Pairs ``(seconds, function)``: the function is called with a `HybridView` at t = 0 "
        "and at this interval, on every rank.",
    )  # fmt: skip
    checkpoint_every: float = checkpoint_every_option()
    quiet: bool | None = quiet_option()
    device: Device = device_option()
    comm: Any = comm_option()

    def __post_init__(self) -> None:
        """Check pairs of hooks."""
        for one in self.hooks or ():
            if not (isinstance(one, tuple | list) and len(one) == 2 and callable(one[1])):
                raise ConfigError("hooks: each is (seconds, function)")
            if not (isinstance(one[0], Real) and 0 < one[0] < math.inf):
                raise ConfigError(f"hooks: {one[0]!r} is not a number of seconds above 0")
