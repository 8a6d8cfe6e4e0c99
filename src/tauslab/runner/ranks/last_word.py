"""Ends a run that was asked to stop and does not hear of it, such as one in a long kernel."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from tauslab.model.errors import StoppedEarly
from tauslab.runner.ranks.mpi import Communicator

PATIENCE = 3.5  # seconds between a request and the end of a run that has not heard of it
_LOOK_SECONDS = 0.2


class LastWord:
    """Whether a run is to stop, for the thread that runs it, and who ends it if it never asks.

    Files of a run that ends at any moment can be resumed, so ending is always possible; a run that
    hears of the request keeps more, and takes the time it needs to write it.

    Parameters
    ----------
    by_asking
        Whether a run that asks has heard of it; else it says so by `hear`.
    """

    def __init__(self, stop: Callable[[], bool], *, by_asking: bool = True) -> None:
        self._stop, self._ended = stop, threading.Event()
        self.heard, self._by_asking = False, by_asking

    def __call__(self) -> bool:
        """Whether the run is to stop."""
        asked = self._stop()
        self.heard = self.heard or (asked and self._by_asking)
        return asked

    def in_order(self) -> AbstractContextManager[None]:
        """Inside, a signal is only noted: see `tauslab.runner.ranks.stopping.StopRequest`."""
        orderly: Callable[[], AbstractContextManager[None]] | None = getattr(
            self._stop, "in_order", None
        )
        return nullcontext() if orderly is None else orderly()

    def hear(self) -> None:
        """What is being done ends in order, and soon."""
        self.heard = True

    def watch(self, patience: float, end: Callable[[], None]) -> None:
        """Call `end` when the run has not heard of a request for `patience` seconds."""
        since: float | None = None
        while not self._ended.wait(_LOOK_SECONDS):
            if self.heard:
                return
            if since is None and self._stop():
                since = time.monotonic()
            if since is not None and time.monotonic() - since > patience and not self.heard:
                end()
                return

    def over(self) -> None:
        """There is nothing left to end."""
        self._ended.set()


@contextmanager
def last_word(
    stop: Callable[[], bool],
    comm: Communicator,
    path: Path | None,
    patience: float | None,
    *,
    by_asking: bool = True,
) -> Iterator[LastWord]:
    """Inside, ask what is given in place of `stop`, or be ended with all ranks and exit code 75.

    Parameters
    ----------
    path
        Of the result, for the message.
    patience
        Seconds; None where nobody may end the process: it is a user's program.
    by_asking
        See `LastWord`.
    """
    asked = LastWord(stop, by_asking=by_asking)

    def end() -> None:
        how = f": --resume goes on from what is in {path}" if path is not None else ""
        sys.stderr.write(f"tauslab: stopped on request in the middle of a step{how}\n")
        sys.stderr.flush()
        comm.abort(StoppedEarly.exit_code)

    if patience is not None:
        threading.Thread(
            target=asked.watch, args=(patience, end), name="tauslab-stop", daemon=True
        ).start()
    try:
        yield asked
    finally:
        asked.over()
