"""The settings of ``tauslab dbn``, checked; an error names option, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.dbn.count_tables import MOST_BINS
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.keywords import Numbers, Times, device_option, sample_option
from tauslab.options.methods import ODE
from tauslab.options.places import Device, Name, Output, check_threads
from tauslab.options.values.checks import whole, within, word
from tauslab.options.values.definition import Stored, check_values, declared, option
from tauslab.options.values.recurring import comm_option, quiet_option
from tauslab.options.values.texts import add_once, assignments, by_name, whole_number

Spacing: TypeAlias = Literal["equal", "quantile"]
SPACINGS: tuple[str, ...] = get_args(Spacing)
DEFAULT_SAMPLES = 100_000
DEFAULT_SOLVER = "dopri5"
DEFAULT_INTERVALS = 5  # as in Hagiescu et al. (2013)
MOST_TIMES, MOST_SUBSTEPS = 20_000, 1_000_000
PILOT = 4096  # trajectories that decide ranges which are not given


def parse_samples(text: str | int) -> int:
    """Read a number of trajectories, which may be written as ``3e6``."""
    number = whole_number(text)
    if number is None:
        raise ConfigError(f"{opt('samples', text)}: a whole number is needed, such as 3e6")
    return number


@declared
@dataclass(frozen=True, kw_only=True)
class DbnChoices:
    """Options that a build takes as they are."""

    samples: int = option(
        DEFAULT_SAMPLES, "number of trajectories (1e5)",
        flag="--samples", group="sampling", metavar="N",
        stored=Stored(always=True, read=int), read=parse_samples,
        check=whole(1, MOST_TRAJECTORIES), doc="Number of trajectories.",
    )  # fmt: skip
    seed: int | None = option(
        None, "64-bit seed; drawn and stored by default", flag="--seed", group="sampling", type=int,
        metavar="S", stored=Stored(always=True), check=whole(0, 2**64 - 1),
        doc="64-bit seed; drawn and stored by default.",
    )  # fmt: skip
    spacing: Spacing = option(
        "equal", "intervals of equal width (default) or at quantiles",
        flag="--spacing", group="method", choices=SPACINGS,
        check=word(*SPACINGS),
        doc="Intervals of ``equal`` width, or at ``quantile`` positions of the pilot.",
    )  # fmt: skip
    resume: bool = option(
        False, "continue a stopped build", flag="--resume", group="output",
        action="store_true",
        doc="Continue a stopped build.",
    )  # fmt: skip
    quiet: bool | None = quiet_option()
    block: int | None = option(
        None, "trajectories per block; --resume continues after a block",
        flag="--block", type=int, metavar="N",
        check=whole(1, MOST_TRAJECTORIES),
        doc="Number of trajectories per block; a stopped build continues after its last block.",
    )  # fmt: skip


@dataclass(frozen=True)
class DbnOptions(DbnChoices):
    """Everything a user may choose for ``tauslab dbn``, checked: `DbnChoices`, and these.

    Parameters
    ----------
    times
        Time points ``[time]``, two or more, in the model's time unit.
    unknown
        Parameters, and species whose initial amounts are unknown.
    ranges
        Of an unknown: the range it is drawn from, uniformly. Of a variable: the range that is cut
        into intervals.
    sample
        Other distributions of unknowns, as ``tauslab run --sample`` takes them.
    method
        How equations are integrated; its solver is ``dopri5`` by default.
    intervals
        Number of intervals of every node, or by name for some.
    edges
        Edges of the intervals of some nodes, given.

    Raises
    ------
    ConfigError
        A value outside what is allowed.
    """

    times: FloatArray
    unknown: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    sample: tuple[str, ...] = ()
    method: ODE = field(default_factory=ODE)
    intervals: int = DEFAULT_INTERVALS
    own_intervals: Mapping[str, int] = field(default_factory=dict)
    edges: Mapping[str, FloatArray] = field(default_factory=dict)
    set: Mapping[str, float] = field(default_factory=dict)
    device: str = "auto"
    threads: int = 0
    output: Path | None = None
    overwrite: bool = False
    command: str = "tauslab.dbn.build"

    def __post_init__(self) -> None:
        """Check the values."""
        self._check_by_name()
        if not 2 <= len(self.times) <= MOST_TIMES:
            raise ConfigError(
                f"a dynamic Bayesian network has 2 to {MOST_TIMES} time points, each with tables "
                f"of its own; {len(self.times)} are given"
            )
        check_values(self)
        check_threads("threads", self.threads)
        if self.integration.substeps is not None:
            within("substeps", self.integration.substeps, 1, MOST_SUBSTEPS)
        for name, value in [("", self.intervals), *self.own_intervals.items()]:
            within("intervals", value, 1, MOST_BINS, key=name)
        if len(set(self.unknown)) < len(self.unknown):
            raise ConfigError(f"{opt('unknown')} names {_twice(self.unknown)} twice")
        if self.overwrite and self.resume:
            raise ConfigError(f"{opt('overwrite')} and {opt('resume')} exclude each other")

    @property
    def integration(self) -> OdeSettings:
        """The settings of the integrator of equations."""
        return self.method.settings(DEFAULT_SOLVER)

    def _check_by_name(self) -> None:
        """Check lists and what is given by name, of whatever kind a program gives it."""
        for name, texts in (("unknown", self.unknown), ("sample", self.sample)):
            listed = isinstance(texts, tuple | list)
            if not listed or not all(isinstance(text, str) for text in texts):
                raise ConfigError(f"{assigned(name)}{texts!r}: a list of texts is expected")
        for given, values, kind in (
            ("ranges", self.ranges, "pairs of numbers"),
            ("intervals", self.own_intervals, "whole numbers"),
            ("edges", self.edges, "lists of numbers"),
            ("set", self.set, "numbers"),
        ):
            if not isinstance(values, Mapping) or not all(isinstance(n, str) for n in values):
                raise ConfigError(f"{assigned(given)}{values!r}: {kind} by name are expected")
        for name, pair in self.ranges.items():
            if len(_numbers(opt("ranges", key=name), pair)) != 2:
                raise ConfigError(
                    f"{opt('ranges', key=name)}: two numbers are expected, not {pair!r}"
                )
        for name, value in self.set.items():
            _numbers(opt("set", key=name), [value])
        for name, (low, high) in self.ranges.items():
            if not (low < high and math.isfinite(high - low)):
                raise ConfigError(
                    f"{assigned('ranges', key=name)}{low:g}:{high:g}: the lower end must be "
                    "below the upper, and both finite"
                )
        for name, own in self.edges.items():
            check_edges(name, own)


def check_edges(name: str, edges: FloatArray) -> None:
    """Refuse edges of intervals that are not increasing finite numbers."""
    edges = _numbers(opt("edges", key=name), edges)
    good = 2 <= len(edges) <= MOST_BINS + 1 and np.isfinite(edges).all()
    if not good or not (np.diff(edges) > 0).all():
        raise ConfigError(
            f"{assigned('edges', key=name)}{','.join(f'{x:g}' for x in edges)}: give 2 to "
            f"{MOST_BINS + 1} finite numbers that increase"
        )


def _pair(text: str) -> tuple[float, float]:
    low, high = (float(word) for word in text.split(":"))
    return low, high


def _row(text: str) -> FloatArray:
    return np.array([float(word) for word in text.split(",")])


parse_ranges = by_name("ranges", "NAME=LO:HI with two numbers", _pair)
parse_edges = by_name("edges", "NAME=a,b,c with numbers", _row)


def parse_intervals(texts: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Read ``K`` for all nodes, and ``NAME=K`` for some."""
    every: dict[str, int] = {}
    own: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            number = int(value)
        except ValueError:
            raise ConfigError(
                f"{opt('intervals', key=text)}: write K or NAME=K, a whole number"
            ) from None
        add_once(own if equals else every, name.strip(), number, "intervals")
    return every.get("", DEFAULT_INTERVALS), own


def _numbers(option: str, values: Any) -> FloatArray:
    """Several numbers, in one row."""
    try:
        result = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        result = np.zeros(())
    if result.ndim != 1:
        raise ConfigError(f"{option}: numbers are expected, not {values!r}")
    return result


def _twice(names: Sequence[str]) -> str:
    return next(name for name in names if list(names).count(name) > 1)


@declared
@dataclass(frozen=True, kw_only=True)
class DbnKeywords(Times, DbnChoices):
    """The keywords of `tauslab.dbn.build`."""

    unknown: Sequence[str] = option(
        (), "unknown parameters, or initial amounts of species", flag="--unknown", group="model",
        metavar="A,B", stored=Stored(separate=True),
        doc="Parameters, and species whose initial amounts are unknown.",
    )  # fmt: skip
    ranges: Mapping[str, tuple[float, float]] | None = option(
        None, "range of an unknown, or range of a variable to divide", flag="--range",
        group="model", action="append", metavar="NAME=LO:HI",
        read=parse_ranges,
        doc="Ranges of unknowns, sampled uniformly (half to twice the value by default), or of "
        "variables, divided into intervals (by default the range of a pilot of 4096 trajectories).",
    )  # fmt: skip
    sample: Sequence[str] = sample_option(
        'Other distributions of unknowns, such as ``["k1=lognormal(0,0.3)"]``.'
    )
    set: Mapping[str, float] | None = option(
        None, "value of a parameter or initial amount; @FILE: one per line", flag="--set",
        group="model", action="append", metavar="NAME=VALUE", read=assignments,
        doc="Values by name.",
    )  # fmt: skip
    method: ODE | None = option(
        None,
        doc="Settings of the integration, `tauslab.ODE`; by default ``dopri5``.",
    )  # fmt: skip
    intervals: int | Mapping[str, int] = option(
        DEFAULT_INTERVALS, "number of intervals of all nodes (5), or of one", flag="--intervals",
        group="method", action="append", metavar="[NAME=]K",
        doc="Number of intervals of every node, or by name (5).",
    )  # fmt: skip
    edges: Mapping[str, Numbers] | None = option(
        None, "edges of the intervals of a variable",
        flag="--edges", group="method", action="append",
        metavar="NAME=a,b,c", read=parse_edges, doc="Increasing edges of intervals, by name.",
    )  # fmt: skip
    output: Name | Output | None = option(
        None, "result file (the name of MODEL with .dbn.h5)",
        flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5", doc="File to write, or `tauslab.Output`.",
    )  # fmt: skip
    device: Device = device_option()
    comm: Any = comm_option()
