"""Standard output and error of a command: closed, full, or a terminal that obeys its input."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from tauslab.decomposition.ranks.printable import printable

__all__ = ["SafeStream", "discard", "printable", "safe_streams"]


class SafeStream:
    """A stream that escapes control characters, or that fails in silence.

    Attributes
    ----------
    forgiving
        Whether what cannot be written is left out: a full disk must not fail a run that is done.
    """

    def __init__(self, stream: TextIO, *, escapes: bool, forgiving: bool) -> None:
        self._stream, self._escapes, self.forgiving = stream, escapes, forgiving

    def __getattr__(self, name: str) -> Any:
        """Take any other attribute from the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        shown = printable(text) if self._escapes else text
        with self._forgiven():
            self._stream.write(shown)
        return len(text)

    def flush(self) -> None:
        """Write what is held back."""
        with self._forgiven():
            self._stream.flush()

    @contextmanager
    def _forgiven(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # the latter of a stream that is closed
            if not self.forgiving:
                raise
            discard(self._stream)


def discard(stream: TextIO) -> None:
    """Send to nowhere what a stream gets: what is left in it would fail again in the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def safe_streams() -> Iterator[SafeStream]:
    """Have streams that a command can write to, until the end of a `with` statement; gives stdout.

    One that is closed is opened on nothing: the next file would get its number else, and what is
    printed would end in a result.
    """
    _open_missing()
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that its encoding lacks
    out = SafeStream(sys.stdout, escapes=True, forgiving=False)
    # A progress bar sends control characters of its own.
    err = SafeStream(sys.stderr, escapes=False, forgiving=True)
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", err)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before


def _open_missing() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
