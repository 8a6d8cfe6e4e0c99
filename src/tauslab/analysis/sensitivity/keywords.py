"""The options of `tauslab.sensitivity` and ``tauslab sensitivity``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from tauslab.analysis.sensitivity.result import METHODS
from tauslab.analysis.sensitivity.steps import DEFAULT_STEP, DIFFERENCES
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.keywords import device_option
from tauslab.options.places import Device, Name
from tauslab.options.values.checks import whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.recurring import (
    comm_option,
    output_option,
    quiet_option,
    seed_option,
    set_option,
)
from tauslab.options.values.texts import add_once, count, names

Estimator: TypeAlias = Literal["coupled", "likelihood-ratio"]
Difference: TypeAlias = Literal["centred", "forward", "backward"]

DEFAULT_PAIRS = 10_000


def parse_times(text: str) -> list[float]:
    """Times between commas.

    >>> parse_times("1,2.5")
    [1.0, 2.5]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"{opt('t', text)}: write times between commas, such as {assigned('t')}1,5,10"
        ) from None


def parse_steps(texts: Sequence[str]) -> float | dict[str, float]:
    """One part of all values, or steps by name.

    >>> parse_steps(["0.05"]), parse_steps(["k1=1e-4", "A=2"])
    (0.05, {'k1': 0.0001, 'A': 2.0})
    """
    result: dict[str, float] = {}
    try:
        if not all("=" in text for text in texts):
            (part,) = texts
            return float(part)
        steps = [(name, float(value)) for name, value in (text.split("=") for text in texts)]
    except ValueError:
        raise ConfigError(
            f"{opt('step', key=' '.join(texts))}: write one fraction of all values, such as 0.05, "
            "or steps by name, such as k1=1e-4"
        ) from None
    for name, step in steps:
        add_once(result, name.strip(), step, "step")
    return result


@declared
@dataclass(frozen=True)
class DerivativeKeywords:
    """Keywords of `tauslab.sensitivity` and `tauslab.expectation`."""

    parameters: Sequence[str] | str | None = option(
        None, "parameters, or species for initial amounts (all parameters that are not 0)",
        flag="--parameters", group="model", metavar="A,B", read=names,
        doc="Names of parameters, or of species for their initial amounts; by default all "
        "parameters that are numbers other than 0.",
    )  # fmt: skip
    outputs: Sequence[str] | str | None = option(
        None, "species, observables or expressions (all species that change)",
        flag="--outputs", group="model", metavar="A,B", read=names,
        doc='Names of species and observables, or expressions of them such as ``"A * B"`` or '
        '``"X > 10"`` for a probability; by default all species that reactions change.',
    )  # fmt: skip
    _: KW_ONLY
    times: npt.ArrayLike | None = option(
        None, unit="time of the model",
        doc="One time or several ``[time]``, increasing; by default the model's own end.",
    )  # fmt: skip
    t: npt.ArrayLike | None = option(
        None, "one time or several (the model's end time)", flag="--t", group="sampling",
        metavar="T1,T2", read=parse_times, doc="Another name of `times`.",
    )  # fmt: skip
    n: int = option(
        DEFAULT_PAIRS, f"pairs of trajectories for each parameter; likelihood-ratio: trajectories "
        f"({DEFAULT_PAIRS})", flag="-n", group="sampling", type=count,
        check=whole(1, MOST_TRAJECTORIES),
        doc="Number of pairs of trajectories for each parameter; of trajectories for all "
        "parameters with ``likelihood-ratio``.",
    )  # fmt: skip
    step: float | Mapping[str, float] = option(
        DEFAULT_STEP, "fraction of every value (0.02), or a step by name",
        flag="--step", group="method", action="append", metavar="PART|NAME=STEP", read=parse_steps,
        doc="Step of differences: a fraction of each value (of initial amounts at least one "
        "molecule), or steps by name in the parameter's unit, required for a parameter of 0; "
        "parameters without a name have 2 %.",
    )  # fmt: skip
    seed: int | None = seed_option()
    set: Mapping[str, float] | None = set_option(
        "Values of parameters and initial amounts by name, one number each."
    )
    max_steps: int = option(
        MAX_STEPS, "maximum number of events per trajectory", flag="--max-steps", type=count,
        metavar="N", check=whole(1, MAX_STEPS),
        doc="Maximum number of events; pairs with a trajectory that needs more are omitted.",
    )  # fmt: skip
    device: Device = device_option()
    comm: Any = comm_option()

    def __post_init__(self) -> None:
        """Make one of the two names of `times`."""
        if self.times is not None and self.t is not None:
            raise ConfigError("times= and t= are two names of one thing: give one of them")
        object.__setattr__(self, "times", self.t if self.times is None else self.times)
        object.__setattr__(self, "t", None)


@declared
@dataclass(frozen=True)
class SensitivityKeywords(DerivativeKeywords):
    """Keywords of `tauslab.sensitivity`."""

    _: KW_ONLY
    method: Estimator = option(
        "coupled", "coupled (default): coupled pairs; likelihood-ratio: without a step",
        flag="--method", group="method", choices=METHODS,
        doc="``coupled``: split coupling (Anderson, SIAM J. Numer. Anal. 50, 2237, 2012), the "
        "default. ``likelihood-ratio``: without step and bias, and with more "
        "variance (Plyasunov and Arkin, J. Comput. Phys. 221, 724, 2007); not for initial amounts.",
    )  # fmt: skip
    difference: Difference = option(
        "centred", "kind of difference (centred)", flag="--difference", group="method",
        choices=DIFFERENCES,
        doc="``centred``, ``forward`` or ``backward``. A centred one whose lower side would be "
        "negative is forward.",
    )  # fmt: skip
    output: Name | None = output_option(
        "File to write, which must be new; or `SensitivityResult.save` it later."
    )
    quiet: bool | None = quiet_option()


@declared
@dataclass(frozen=True)
class ExpectationKeywords(DerivativeKeywords):
    """Keywords of `tauslab.expectation`."""

    parameters: Sequence[str] | str | None = option(
        None, doc="Names of parameters, or of species for their initial amounts: the elements of "
        "theta.",
    )  # fmt: skip
    _: KW_ONLY
    n: int = option(
        1000, type=count, check=whole(1, MOST_TRAJECTORIES),
        doc="Pairs of trajectories for each parameter, and condition, in a call.",
    )  # fmt: skip
    seed: int | None = option(
        None, type=int, check=whole(0, 2**64 - 1),
        doc="64-bit seed, from which each call derives its own; drawn by default.",
    )  # fmt: skip
    conditions: Mapping[str, npt.ArrayLike] | None = option(
        None, doc="Values of other parameters and initial amounts by name, arrays of one length: "
        "the experiments that share theta.",
    )  # fmt: skip
