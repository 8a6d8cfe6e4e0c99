"""What the functions of several commands share: settings, signals, warnings."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tauslab.model.errors import ConfigError


def assignment(text: str) -> tuple[str, float]:
    """Read ``NAME=VALUE``."""
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ConfigError(f"--set {text}: write NAME=VALUE with a number") from None


def stop_on_signals() -> Callable[[], bool]:
    """SIGTERM, SIGUSR1 and Ctrl-C end a run early, in order; a second Ctrl-C ends it at once."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)
        # Python would wait for the kernel that runs; the file stays good without that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, ask)
    return lambda: bool(asked)


def warn_on_rank_0(message: Warning | str, *_: Any, **__: Any) -> None:
    """A line for the user, in place of Python's."""
    print(f"tauslab: warning: {message}", file=sys.stderr)


def ignored(*_: Any, **__: Any) -> None:
    """Rank 0 speaks for all, or nobody."""


def mpi_hint(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` of ``--mpi-hint``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigError(f"--mpi-hint {text}: write NAME=VALUE")
    return name, value
