"""The options of `tauslab.weighted_ensemble` and ``tauslab rare``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.options.keywords import device_option
from tauslab.options.places import Device, Name
from tauslab.options.values.checks import number, whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.recurring import (
    checkpoint_every_option,
    checkpoint_option,
    comm_option,
    output_option,
    quiet_option,
    seed_option,
    set_option,
)
from tauslab.options.values.texts import count

DEFAULT_WALKERS, DEFAULT_LATTICES = 100, 10
_MOST_ROUNDS, _MOST_RUNS, _MOST_WALKERS = 1_000_000, 1_000_000, 10_000_000


def parse_bins(text: str) -> int | str | list[float]:
    """Bins as the command line spells them: a number, edges between commas, or ``adaptive:N``.

    >>> parse_bins("20"), parse_bins("1,2.5,4"), parse_bins("adaptive")
    (20, [1.0, 2.5, 4.0], 'adaptive')
    """
    if text.startswith("adaptive"):
        return text
    try:
        if "," in text:
            return [float(part) for part in text.split(",")]
        return int(text)
    except ValueError:
        raise ConfigError(
            f"{opt('bins', text)}: a number of bins, edges between commas, or adaptive:N is "
            "expected"
        ) from None


_SHARE = number(lambda x: 0 <= x < 1, "a part from 0 to less than 1")
_TIME = number(lambda x: 0 < x < math.inf, "a time above 0")


@declared
@dataclass(frozen=True, kw_only=True)
class WeightedKeywords:
    """Keywords of `tauslab.weighted_ensemble`."""

    target: str = option(
        "", 'condition, such as "X >= 100"', flag="--target", group="model", metavar="CONDITION",
        doc='A condition on counts, such as ``"X >= 100"`` (required). It is absorbing: a '
        'trajectory ends with the reaction that makes it true.',
    )  # fmt: skip
    coordinate: str | Callable[..., Any] | None = option(
        None, "progress towards the target (by default the quantity that the target bounds)",
        flag="--coordinate",
        group="model", metavar="EXPRESSION",
        doc="Progress of a state towards the target: an expression of species and parameters that "
        "increases towards the target, or a function of `values` (``values('X')`` is an array) "
        "that returns a number per state. By default the quantity that the target bounds.",
    )  # fmt: skip
    t_end: float | None = option(
        None, "time limit to reach the target; simulated time of --steady",
        flag="--t-end", group="sampling",
        type=float, metavar="T", unit="time of the model", check=_TIME,
        doc="Time limit to reach the target, or simulated time of a steady rate; by default the "
        "model's end time.",
    )  # fmt: skip
    set: Mapping[str, float] | None = set_option(
        "Values of parameters and initial amounts by name."
    )
    rounds: int = option(
        100, "number of resampling times (100)", flag="--rounds",
        group="method", type=count, metavar="N", check=whole(1, _MOST_ROUNDS),
        doc="Number of resampling times, evenly spaced up to `t_end`.",
    )  # fmt: skip
    walkers: int | None = option(
        None, f"walkers per bin ({DEFAULT_WALKERS}; lattices {DEFAULT_LATTICES})",
        flag="--walkers", group="method", type=count, metavar="N", check=whole(1, _MOST_WALKERS),
        doc=f"Walkers in each bin ({DEFAULT_WALKERS}; {DEFAULT_LATTICES} where each is a "
        "lattice).",
    )  # fmt: skip
    runs: int = option(
        20, "independent runs, for the standard error (20)", flag="--runs",
        group="sampling", type=count, metavar="N", check=whole(1, _MOST_RUNS),
        doc="Independent runs: the estimate is their mean, and its standard error follows from "
        "their spread.",
    )  # fmt: skip
    seed: int | None = seed_option()
    max_steps: int = option(
        MAX_STEPS, "maximum number of events between two rounds", flag="--max-steps",
        type=count, metavar="N", check=whole(1, MAX_STEPS),
        doc="Maximum number of events of a trajectory between two rounds.",
    )  # fmt: skip
    device: Device = device_option()
    checkpoint: Name | None = checkpoint_option(
        ", and at the end. With a `seed`, the same call continues from this file, with the same "
        "bits."
    )
    checkpoint_every: float = checkpoint_every_option()
    output: Name | None = output_option(
        "File to write, which must be new; or `RareResult.save` it later."
    )
    quiet: bool | None = quiet_option()
    comm: Any = comm_option()

    bins: int | str | Sequence[float] | FloatArray | None = option(
        None, "equal bins up to the target (25), edges a,b,c, or adaptive:N", flag="--bins",
        group="method", metavar="BINS", read=parse_bins,
        doc="A number of equal bins between the start and the target (25), edges of bins "
        '``[edge]`` in units of the coordinate, or ``"adaptive:N"`` (docs/rare-events.md). '
        "Adaptive by default where the target does not bound the coordinate.",
    )  # fmt: skip
    steady: bool = option(
        False, "estimate the steady-state rate: walkers in the target restart", flag="--steady",
        group="method", action="store_true",
        doc="Estimate the steady rate, the inverse of the mean first-passage time: walkers in the "
        "target restart (Hill relation).",
    )  # fmt: skip
    look_every: int = option(
        1, "steps of a lattice between checks of the target (1)", flag="--look-every",
        group="method", type=count, metavar="N", check=whole(1, 2**31 - 1),
        doc="Lattices: steps between checks of the target; with more than one, short visits are "
        "missed.",
    )  # fmt: skip
    max_extension: int = option(
        8, "simulate up to N times --t-end until the flux is stationary (8)",
        flag="--max-extension", group="method", type=count, metavar="N", check=whole(1, 1000),
        doc="Steady rate of a network: if the flux into the target is not stationary at `t_end`, "
        "continue, at most to `max_extension` times `t_end`, with as many times `rounds`.",
    )  # fmt: skip
    discard: float = option(
        0.5, "fraction of the time to discard, with --steady (0.5)", flag="--discard",
        group="method", type=float, metavar="PART", check=_SHARE,
        doc="Steady rate: fraction of the time to discard at the start.",
    )  # fmt: skip


def refuse_unused(given: WeightedKeywords, *, lattice: bool) -> None:
    """Refuse options of a weighted ensemble that this one would not look at.

    Raises
    ------
    ConfigError
        Names one.
    """
    usual = WeightedKeywords()
    ways = (
        (not given.steady, ("discard", "max_extension"), f"is of {opt('steady')}"),
        (lattice, ("max_steps",), "is of networks: a lattice goes in steps of its own"),
        (lattice, ("max_extension",), "is of networks: a lattice is simulated once"),
        (not lattice, ("look_every",), "is of lattices: in a network every reaction is looked at"),
    )
    for holds, names, why in ways:
        for name in names:
            value = getattr(given, name)
            if holds and value != getattr(usual, name) and (name, value) != ("max_extension", 1):
                raise ConfigError(f"{opt(name)} {why}: leave it out")
