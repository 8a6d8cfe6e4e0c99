"""Options that commands of particles and pairs alone have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.runner.options.keywords import device_option
from tauslab.runner.options.methods import MethodWord
from tauslab.runner.options.places import Device
from tauslab.runner.options.values.checks import whole
from tauslab.runner.options.values.definition import declared, option
from tauslab.runner.options.values.recurring import output_option, seed_option, set_option
from tauslab.runner.options.values.texts import add_once, count
from tauslab.runner.sensitivity.keywords import parse_times

RARE_METHODS = ("weighted", "splitting")
FOLLOW = ("population", "tree", "lineage")


def observations(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Read ``COLUMN=NOISE`` and ``COLUMN=NAME:NOISE``.

    >>> observations(["X=normal(10)", "gfp=X:poisson(0.3)"])
    {'X': ('X', 'normal(10)'), 'gfp': ('X', 'poisson(0.3)')}
    """
    found: dict[str, tuple[str, str]] = {}
    for text in texts:
        column, equals, told = text.partition("=")
        if not equals or not column.strip() or not told.strip():
            raise ConfigError(
                f'--observe {text}: write COLUMN=NOISE, such as "X=normal(10)", or '
                'COLUMN=NAME:NOISE, such as "gfp=X:poisson(0.3)"'
            )
        name, colon, noise = told.partition(":")
        how = (name.strip(), noise) if colon else (column.strip(), told)
        add_once(found, column.strip(), how, "observe")
    return found


def initial_laws(texts: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=LAW``."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, law = text.partition("=")
        if not equals:
            raise ConfigError(f'--initial {text}: write NAME=LAW, such as "X=poisson(50)"')
        add_once(found, name.strip(), law, "initial")
    return found


def partitions(texts: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=HOW``.

    >>> partitions(["X=even"])
    {'X': 'even'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, how = text.partition("=")
        if not equals:
            raise ConfigError(f'--partition {text}: write NAME=HOW, such as "X=even"')
        add_once(found, name.strip(), how.strip(), "partition")
    return found


def _initial_option() -> Mapping[str, str] | None:
    return option(
        None, "law of an initial count: poisson(50), uniform(0,10)", flag="--initial",
        group="model", action="append", metavar="NAME=LAW", read=initial_laws, python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class JsonFlag:
    """What every command has whose answer is a few numbers."""

    json: bool = option(
        False, "for programs: the result as JSON, and nothing else", flag="--json",
        group="output", action="store_true", python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class RareFlags(JsonFlag):
    """What the command line has beside the keywords of both methods."""

    method: str = option(
        "weighted", "weighted ensemble (default), or adaptive multilevel splitting",
        flag="--method", group="method", choices=RARE_METHODS, python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class PopulationFlags(JsonFlag):
    """The options of ``tauslab population``; Python has those of `tauslab.population`."""

    division: str | None = option(
        None, "the event that divides a cell", flag="--division", group="model", metavar="EVENT",
        python=False,
    )  # fmt: skip
    partition: Mapping[str, str] | None = option(
        None, "how daughters share: binomial, even, copy, first, share", flag="--partition",
        group="model", action="append", metavar="NAME=HOW", read=partitions, python=False,
    )  # fmt: skip
    fraction: str = option(
        "0.5", "part of the first daughter: a number, or uniform(LO,HI) (0.5)",
        flag="--fraction", group="model", metavar="PART", python=False,
    )  # fmt: skip
    set: Mapping[str, float] | None = set_option(python=False)
    initial: Mapping[str, str] | None = _initial_option()
    t: Sequence[float] | None = option(
        None, "when to look at all cells (the model's own end)", flag="--t", group="sampling",
        metavar="T1,T2", read=parse_times, python=False,
    )  # fmt: skip
    cells: int = option(
        1000, "cells at the start (1000)", flag="--cells", group="sampling", type=count,
        metavar="N", check=whole(1, 2**31 - 1), python=False,
    )  # fmt: skip
    follow: str = option(
        "population", "both daughters, a tree of all, or one by chance (population)",
        flag="--follow", group="sampling", choices=FOLLOW, python=False,
    )  # fmt: skip
    most: int = option(
        100_000, "cells of a tree at most (100000)", flag="--most", group="sampling", type=count,
        metavar="N", check=whole(1, 2**31 - 1), python=False,
    )  # fmt: skip
    seed: int | None = seed_option(python=False)
    max_steps: int | None = option(
        None, "events of a cell between two divisions at most", flag="--max-steps", type=count,
        metavar="N", python=False,
    )  # fmt: skip
    device: Device = device_option(python=False)
    output: Path | None = output_option(python=False)
    quiet: bool = option(
        False, "no summary", flag="--quiet", group="output", action="store_true", python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class FilterFlags(JsonFlag):
    """The options of ``tauslab filter``; Python has those of `tauslab.particle_filter`."""

    observe: Mapping[str, tuple[str, str]] | None = option(
        None, "noise of a column: normal(sd), poisson(scale), ...; NAME: what it measures",
        flag="--observe", group="model", action="append", metavar="COLUMN=[NAME:]NOISE",
        read=observations, python=False,
    )  # fmt: skip
    set: Mapping[str, float] | None = set_option(python=False)
    initial: Mapping[str, str] | None = _initial_option()
    n: int = option(
        1000, "particles (1000)", flag="-n", group="sampling", type=count,
        check=whole(1, 2**31 - 1), python=False,
    )  # fmt: skip
    seed: int | None = seed_option(python=False)
    method: MethodWord = option(
        "ssa", "ssa (default): exact; tau: leaping", flag="--method", group="method",
        choices=("ssa", "tau"), python=False,
    )  # fmt: skip
    resample: str = option(
        "systematic", "how particles are copied (systematic)", flag="--resample", group="method",
        choices=("systematic", "stratified", "multinomial"), python=False,
    )  # fmt: skip
    threshold: float = option(
        0.5, "part of n below which the effective number leads to copies (0.5)",
        flag="--threshold", group="method", type=float, metavar="PART", python=False,
    )  # fmt: skip
    checkpoint: Path | None = option(
        None, "keep how far it is, and go on from there; with --seed", flag="--checkpoint",
        group="output", type=Path, metavar="FILE", python=False,
    )  # fmt: skip
    device: Device = device_option(python=False)
    output: Path | None = output_option(python=False)
    quiet: bool = option(
        False, "no summary", flag="--quiet", group="output", action="store_true", python=False,
    )  # fmt: skip
