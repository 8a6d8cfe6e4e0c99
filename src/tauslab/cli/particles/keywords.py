"""Options that commands of particles, pairs and cells have beside those of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tauslab.analysis.sensitivity.keywords import parse_times
from tauslab.options.values.definition import declared, option
from tauslab.options.values.recurring import output_option, set_option


@declared
@dataclass(frozen=True, kw_only=True)
class JsonFlag:
    """Flag of every command whose answer is a few numbers."""

    json: bool = option(
        False, "print only the result, as JSON", flag="--json",
        group="output", action="store_true", python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class FileFlags(JsonFlag):
    """Flags of commands whose function writes no file, and calls `set` its parameters."""

    set: Mapping[str, float] | None = set_option(python=False)
    output: Path | None = output_option(python=False)


@declared
@dataclass(frozen=True, kw_only=True)
class AnalysisFlags(FileFlags):
    """The same of commands whose function shows no progress."""

    quiet: bool = option(
        False, "no summary", flag="--quiet", group="output", action="store_true", python=False,
    )  # fmt: skip


@declared
@dataclass(frozen=True, kw_only=True)
class SamplingFlag:
    """When ``tauslab population`` looks at cells."""

    t: Sequence[float] | None = option(
        None, "times of snapshots (the model's end time)", flag="--t", group="sampling",
        metavar="T1,T2", read=parse_times, python=False,
    )  # fmt: skip
