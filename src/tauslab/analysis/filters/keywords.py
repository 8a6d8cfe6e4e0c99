"""The options of `tauslab.particle_filter`, its kin and `tauslab.pmmh`, and ``tauslab filter``."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters.cells import COLUMN, Cells, time_courses
from tauslab.analysis.filters.filtering import DEFAULT_THRESHOLD
from tauslab.analysis.filters.observing import Observe
from tauslab.analysis.particles.weights import SCHEMES
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt, said
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.options.ensemble import MOST_TRAJECTORIES
from tauslab.options.keywords import device_option
from tauslab.options.methods import Method, MethodWord
from tauslab.options.places import Device, Name
from tauslab.options.values.checks import number, unless_none, whole
from tauslab.options.values.definition import declared, option
from tauslab.options.values.initial_counts import InitialCount
from tauslab.options.values.recurring import (
    checkpoint_every_option,
    checkpoint_option,
    comm_option,
    initial_option,
    quiet_option,
    seed_option,
)
from tauslab.options.values.texts import add_once, count

_NOT_SEEN = ("", "na", "nan")


def data_of(data: Any, cell: str | None = None) -> Any:
    """Return the columns of a CSV file at a path; other data as they are."""
    return read_table(Path(data), cell) if isinstance(data, str | os.PathLike) else data


def read_table(path: Path, cell: str | None = None) -> dict[str, Any]:
    """Columns of a CSV file with a header; an empty cell, ``NA`` or ``nan`` was not seen.

    The column `cell` may have texts.

    Raises
    ------
    ConfigError
        The file cannot be read, or a cell is no number; file and line are named.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(n, row) for n, row in enumerate(csv.reader(file), 1) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or f"it is no table ({error})"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    names = [name.strip() for name in rows[0][1]] if rows else []
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{path}: the first line must name the columns, each once")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise ConfigError(f"{path}: line {line} has {len(row)} cells, not {len(names)}")
        for name, entry in zip(names, row, strict=True):
            named = name == (cell or COLUMN)
            where = f"{path}: line {line}: {name}"
            columns[name].append(entry.strip() if named else _number(entry, where))
    return columns


def _number(cell: str, where: str) -> float:
    text = cell.strip()
    try:
        return math.nan if text.lower() in _NOT_SEEN else float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not a number") from None


_MOST = 10**9


def observations(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Read ``COLUMN=NOISE`` and ``COLUMN=NAME:NOISE``.

    >>> observations(["X=normal(10)", "gfp=X:poisson(0.3)"])
    {'X': ('X', 'normal(10)'), 'gfp': ('X', 'poisson(0.3)')}
    """
    result: dict[str, tuple[str, str]] = {}
    for text in texts:
        column, equals, reported = text.partition("=")
        if not equals or not column.strip() or not reported.strip():
            raise ConfigError(
                f'{opt("observe")} {text}: write COLUMN=NOISE, such as "X=normal(10)", or '
                'COLUMN=NAME:NOISE, such as "gfp=X:poisson(0.3)"'
            )
        name, colon, noise = reported.partition(":")
        how = (name.strip(), noise) if colon else (column.strip(), reported)
        add_once(result, column.strip(), how, "observe")
    return result


@declared
@dataclass(frozen=True)
class DataKeywords:
    """Data, and the noise with which they were seen."""

    data: Any
    _: KW_ONLY
    observe: Observe | None = option(
        None, "noise of a column: normal(sd), poisson(scale), ...; NAME: the measured species",
        flag="--observe", group="model", action="append", metavar="COLUMN=[NAME:]NOISE",
        read=observations,
        doc='For each column, the measured quantity and its noise: ``{"X": '
        '"normal(sd=10)"}``, '
        'or ``{"gfp": ("X", "poisson(scale=0.3)")}`` where names differ. Noises are '
        "``normal(sd)``, ``lognormal(sigma)``, ``poisson(scale, background)``, "
        "``negative_binomial(size, scale)``, ``binomial(p)`` and ``student_t(degrees, scale)`` "
        "(docs/inference.md); a parameter is a number, or the name of one of the model. Or a "
        "function "
        '``(values, row, t)`` that gives a log density per particle: ``values("X")`` is an array '
        '``[n]``, ``row["gfp"]`` a number.',
    )  # fmt: skip
    cell: str | None = option(
        None, doc="Column of `data` with the name of the cell of a row; by default ``cell``, if "
        "there is one. Cells are independent, and their log-likelihoods are added.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        data, several = self.data, isinstance(self.data, list | tuple)
        read = [data_of(one) for one in data] if several else data_of(data, self.cell)
        object.__setattr__(self, "data", read)

    def time_courses(self) -> dict[str, Any]:
        """Columns by name of each cell."""
        return time_courses(self.data, self.cell, self.observe)

    def observations(self) -> Cells:
        """Data of each cell with the noise of each column.

        Raises
        ------
        ConfigError
            `observe` is missing, or as of `Observations`.
        """
        if self.observe is None:
            example = said('"X=normal(10)"', '{"X": "normal(sd=10)"}')
            raise ConfigError(
                f"{opt('observe')} is missing: what is compared with the data, such as "
                f"{assigned('observe')}{example}"
            )
        return Cells(self.time_courses(), self.observe)


def max_steps_option(what: str) -> int | None:
    """The option `max_steps` of functions that run many sets of values; `what` it limits."""
    result: int | None = option(
        None, type=count, check=unless_none(whole(1, MAX_STEPS)),
        doc=f"{what} Useful if counts grow without bound.",
    )  # fmt: skip
    return result


@declared
@dataclass(frozen=True)
class HiddenKeywords(DataKeywords):
    """Keywords of all functions that compare particles with data."""

    _: KW_ONLY
    initial: Mapping[str, InitialCount] | None = initial_option()
    device: Device = device_option()
    method: MethodWord | Method | None = option(
        None, "ssa: exact (default); tau: leaps", flag="--method", group="method",
        choices=("ssa", "tau"), doc="As of `tauslab.Ensemble`.",
    )  # fmt: skip
    max_steps: int | None = max_steps_option(
        "Maximum number of steps of a particle between two rows; a particle that needs more gets "
        "weight 0, with a warning."
    )
    checkpoint: Name | None = checkpoint_option(
        ", after a row of data or a step of a chain, and at the end. If it exists, the call "
        "continues from it with the same bits; a file of another call is rejected."
    )
    checkpoint_every: float = checkpoint_every_option()
    quiet: bool | None = quiet_option()
    comm: Any = comm_option()


def _probabilities(option: str, values: Any) -> None:
    for value in np.atleast_1d(values).tolist():
        number(lambda x: 1e-6 <= x <= 1 - 1e-6, "from 0.000001 to 0.999999")(option, value)


@declared
@dataclass(frozen=True)
class FilterKeywords(HiddenKeywords):
    """Keywords of `tauslab.particle_filter`."""

    _: KW_ONLY
    n: int = option(
        1000, "number of particles (1000)", flag="-n", group="sampling", type=count,
        check=whole(1, MOST_TRAJECTORIES), doc="Particles of a filter.",
    )  # fmt: skip
    seed: int | None = seed_option()
    set: Mapping[str, float | npt.ArrayLike] | None = option(
        None, doc="Values by name: a number, or an array with a value for each particle "
        "(``particle_filters``: for each filter).",
    )  # fmt: skip
    resample: str = option(
        "systematic", "resampling scheme (systematic)", flag="--resample", group="method",
        choices=SCHEMES, doc="``systematic``, ``stratified`` or ``multinomial``.",
    )  # fmt: skip
    threshold: float = option(
        DEFAULT_THRESHOLD, "resample if the effective size is below this fraction of n (0.5)",
        flag="--threshold", group="method", type=float, metavar="PART",
        check=number(lambda x: 0 <= x <= 1, "from 0 to 1"),
        doc="Resample when the effective sample size is below this fraction of n; 1: always.",
    )  # fmt: skip
    number: int = option(
        0, type=count, doc="Number of the first filter, which determines its random numbers.",
    )  # fmt: skip
    states: bool = option(
        True, doc="Whether to record means and standard deviations of states, which takes time.",
    )  # fmt: skip
    quantiles: Sequence[float] = option(
        (), check=_probabilities, doc="Quantiles of states to record: ``(0.05, 0.95)``.",
    )  # fmt: skip


@declared
@dataclass(frozen=True)
class FiltersKeywords(FilterKeywords):
    """Keywords of `tauslab.particle_filters`."""

    _: KW_ONLY
    n: int = option(100, type=count, check=whole(1, _MOST), doc="Particles of each filter.")
    states: bool = option(
        False, doc="Whether to record means and standard deviations of states."
    )  # fmt: skip
    filters: int | None = option(
        None, type=count, check=whole(1, _MOST),
        doc="Number of filters with the same values; by default the length of the arrays.",
    )  # fmt: skip


@declared
@dataclass(frozen=True)
class ChainKeywords(HiddenKeywords):
    """Keywords of `tauslab.pmmh`."""

    priors: Mapping[str, str]
    _: KW_ONLY
    n: int = option(100, type=count, check=whole(1, _MOST), doc="Particles of a filter.")
    steps: int = option(
        1000, type=count, check=whole(2, _MOST),
        doc="Steps of each chain after the warm-up; with `target_ess`, the maximum.",
    )  # fmt: skip
    warm_up: int = option(
        500, type=count, check=whole(0, _MOST),
        doc="Number of steps before these, during which the proposal adapts.",
    )  # fmt: skip
    chains: int = option(
        8, type=count, check=whole(1, 10**6),
        doc="Number of chains.",
    )  # fmt: skip
    target_ess: float | None = option(
        None, type=float, check=number(lambda x: x > 0, "above 0"),
        doc="Stop before `steps` when all parameters have these bulk and tail effective sample "
        "sizes and an R-hat of at most 1.05; tested every 25 steps.",
    )  # fmt: skip
    seed: int | None = seed_option()
    start: Mapping[str, float | npt.ArrayLike] | None = option(
        None, doc="Values to begin with, one for all chains or ``[chain]``; by default the middle "
        "of each prior.",
    )  # fmt: skip
    proposal: npt.ArrayLike | None = option(
        None, doc="Standard deviations of the first steps, on the scale of the logarithm where the "
        "prior is ``loguniform`` or ``lognormal``.",
    )  # fmt: skip


@declared
@dataclass(frozen=True)
class Smc2Keywords(HiddenKeywords):
    """Keywords of `tauslab.smc2`."""

    priors: Mapping[str, str]
    _: KW_ONLY
    draws: int = option(
        1000, type=count, check=whole(2, 10**7), doc="Number of parameter sets, each with a "
        "filter.",
    )  # fmt: skip
    n: int = option(
        100, type=count, check=whole(1, _MOST),
        doc="Initial number of particles of a filter; it is doubled, up to 16 times `n`, after a "
        "row at which less than 15 % of the moves were accepted.",
    )  # fmt: skip
    moves: int = option(
        3, type=count, check=whole(1, 10**6),
        doc="Steps of Metropolis-Hastings of each set after a resampling.",
    )  # fmt: skip
    threshold: float = option(
        DEFAULT_THRESHOLD, type=float, check=number(lambda x: 0 <= x <= 1, "from 0 to 1"),
        doc="Resample the sets when their effective number is below this fraction of `draws`.",
    )  # fmt: skip
    seed: int | None = seed_option()


@declared
@dataclass(frozen=True)
class FitKeywords(DataKeywords):
    """Keywords of `tauslab.fit`."""

    _: KW_ONLY
    start: Mapping[str, str] | Sequence[str] | None = option(
        None, doc="Parameters to fit, by name, with distributions of the starting values: "
        "``loguniform(LO,HI)`` or ``lognormal(MU,SIGMA)``, which do not limit estimates. By "
        "default, or for a list of names, from a fifth to five times the model's value; by "
        "default all parameters that are numbers above 0.",
    )  # fmt: skip
    n: int = option(
        200, type=count, check=whole(1, _MOST),
        doc="Number of particles of a filter; at the end up to 8 times as many if log-likelihoods "
        "scatter by more than 1. Without `observe`: number of trajectories per point, at least 20 "
        "for each number of the data.",
    )  # fmt: skip
    swarm: int = option(
        1000, type=count, check=whole(2, _MOST), doc="Particles of the search."
    )  # fmt: skip
    iterations: int = option(
        20, type=count, check=whole(1, 10**6), doc="Passes of the search through the data."
    )  # fmt: skip
    quiet: bool | None = quiet_option()
    seed: int | None = seed_option()
    initial: Mapping[str, InitialCount] | None = initial_option()
    device: Device = device_option()
    method: MethodWord | Method | None = option(None, doc="As of `tauslab.Ensemble`.")
    max_steps: int | None = max_steps_option(
        "Maximum number of steps of a particle between two rows, without `observe` of a "
        "trajectory; one that needs more is ignored. With filters 1,000,000 by default."
    )
    comm: Any = comm_option()
