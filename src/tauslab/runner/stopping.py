"""What ends a run early, in order: signals, and the end of its time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from tauslab.model.errors import ConfigError, StoppedEarly
from tauslab.runner.command_tools import stop_on_signals


def stop_in_order(max_time: str | None) -> Callable[[], bool]:
    """What ends a run early, in order: a signal, or that `max_time` is over.

    Raises
    ------
    ConfigError
        It is not a time.
    """
    signalled = stop_on_signals()
    if max_time is None:
        return signalled
    parts = max_time.split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\d+(\.\d*)?", part) for part in parts):
        raise ConfigError(f"--max-time {max_time}: write H:M:S, M:S or seconds")
    end = time.monotonic() + sum(float(p) * 60**i for i, p in enumerate(reversed(parts)))
    return lambda: signalled() or time.monotonic() > end


def stopped_early(done: int, blocks: int, output: Path | None) -> StoppedEarly:
    """Say how far a run came, and how to go on."""
    how = f": --resume completes {output}" if output is not None else ""
    return StoppedEarly(f"stopped on request with {done} of {blocks} blocks done{how}")
