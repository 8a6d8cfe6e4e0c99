"""What ends a run early, in order: signals, and the end of its time."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from tauslab.model.errors import ConfigError, StoppedEarly
from tauslab.runner.ranks.mpi import Communicator

_EARLY = "stopped on request before the run had begun: the same command begins it again"


class StopRequest:
    """Whether the run is to end early, as those are called who hear of it.

    Parameters
    ----------
    comm
        Ranks that are ended with this one if it leaves what they do together; None: it is alone.
    end
        Of `time.monotonic`: from then on the run is to end; None for no such time.
    """

    def __init__(self, comm: Communicator | None = None, end: float | None = None) -> None:
        self._comm, self._end, self._asked, self._orderly = comm, end, False, 0

    def __call__(self) -> bool:
        """Whether it is."""
        return self._asked or (self._end is not None and time.monotonic() > self._end)

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Inside, a signal is only noted: somebody asks for it soon, and leaves files in order.

        Outside, where nothing has been computed, it ends whatever this process is about at once:
        reading a model, a pilot, a compiler.
        """
        self._orderly += 1
        try:
            yield
        finally:
            self._orderly -= 1

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Note a request, as the handler of a signal."""
        del number, frame
        self._asked = True
        if self._orderly:
            return
        if self._comm is not None and self._comm.size > 1:
            sys.stderr.write(f"tauslab: rank {self._comm.rank}: {_EARLY}\n")
            self._comm.abort(StoppedEarly.exit_code)
        raise StoppedEarly(_EARLY)


def stop_on_signals(comm: Communicator | None = None, end: float | None = None) -> StopRequest:
    """SIGTERM, SIGUSR1 and Ctrl-C end a run early, in order; a second Ctrl-C ends it at once."""
    request = StopRequest(comm, end)

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        request.ask(number, frame)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, ask)
    return request


def stop_in_order(max_time: str | None, comm: Communicator | None = None) -> StopRequest:
    """What ends a run early, in order: a signal, or that `max_time` is over.

    Raises
    ------
    ConfigError
        It is not a time.
    """
    if max_time is None:
        return stop_on_signals(comm)
    parts = max_time.split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\d+(\.\d*)?", part) for part in parts):
        raise ConfigError(f"--max-time {max_time}: write H:M:S, M:S or seconds")
    seconds = sum(float(p) * 60**i for i, p in enumerate(reversed(parts)))
    return stop_on_signals(comm, time.monotonic() + seconds)


def in_order(stop: Callable[[], bool]) -> AbstractContextManager[None]:
    """`StopRequest.in_order` of one, or of what asks one; any other function is left alone."""
    orderly: Callable[[], AbstractContextManager[None]] | None = getattr(stop, "in_order", None)
    return nullcontext() if orderly is None else orderly()


def stopped_early(done: int, blocks: int, output: Path | None) -> StoppedEarly:
    """Say how far a run came, and how to go on."""
    how = f": --resume completes {output}" if output is not None else ""
    return StoppedEarly(f"stopped on request with {done} of {blocks} blocks done{how}")
