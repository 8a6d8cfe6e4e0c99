"""Report that a compiler runs, and how long it took: the first run of a model waits for it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tauslab.kernels.backends.cache import listeners

_LEAST = 0.5  # seconds of compiling that are worth a line
_WORDS = "compiling the model"


class _Watch:
    """Seconds in which at least one compiler runs."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._running, self._began = 0, 0.0
        self.seconds, self.shown = 0.0, False

    def __call__(self, starts: bool) -> None:  # noqa: FBT001 - a listener
        """A compiler starts or has ended."""
        with self._lock:
            now = self._clock()
            if starts:
                self._began = now if self._running == 0 else self._began
                self._running += 1
                self._show()
                return
            self._running -= 1
            if self._running == 0:
                self.seconds += now - self._began

    def _show(self) -> None:
        """On a terminal at once: people wait."""
        if self._stream.isatty() and not self.shown:
            self.shown = True
            self._stream.write(f"{_WORDS} ...")
            self._stream.flush()


@contextmanager
def telling_of_compilers(
    *, quiet: bool, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Report compilers that run within a ``with`` statement; nothing with `quiet`.

    A terminal shows it while they run. In a log one line says how long they took.
    """
    if quiet:
        yield
        return
    out = sys.stderr if stream is None else stream
    watch = _Watch(out, clock)
    listeners.append(watch)
    try:
        yield
    finally:
        listeners.remove(watch)
        if watch.shown or watch.seconds >= _LEAST:
            start = "\r" if watch.shown else ""
            out.write(f"{start}{_WORDS} ({watch.seconds:.2g} s, once)\n")
            out.flush()
