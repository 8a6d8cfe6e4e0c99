"""Ends a run early, on a signal or at the end of its time; in order, or by force."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from glob import escape
from pathlib import Path
from types import FrameType

from tauslab.base.errors import ConfigError, StoppedAtOnce, StoppedEarly
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator

PATIENCE = 3.5  # seconds between a request and the end of a run that has not heard of it
LONG_PATIENCE = 20.0  # where the next checkpoint is worth waiting for
_LOOK_SECONDS = 0.2
_IN_A_STEP = "stopped on request in the middle of a step"
_EARLY = "stopped on request before the run had begun: the same command begins it again"
_LATE = "stopped on request after the run: its result is complete"


_noting: list[StopRequest] = []  # those of the `in_order` statements that are open


class StopRequest:
    """Return whether the run is to end early, as those are called who hear of it.

    Files of a run that ends at any moment can be resumed, so ending is always possible; a run that
    hears of the request keeps more, and takes the time it needs to write it.

    Parameters
    ----------
    comm
        Ranks that are ended with this one if it leaves what they do together; None: it is alone.
    end
        A value of `time.monotonic` at which the run is to end; None for no such time.
    patience
        Seconds after which a run that is `watched` and has not heard of the request is ended with
        its process; None where nobody may end it.
    """

    def __init__(
        self,
        comm: Communicator | None = None,
        end: float | None = None,
        patience: float | None = None,
    ) -> None:
        self._comm, self._end, self.patience = comm, end, patience
        self._asked, self._orderly, self._over = False, 0, False
        self.heard = False  # whether somebody who asked got the answer to stop

    def __call__(self) -> bool:
        """Return whether it is; who asks has heard of it then."""
        self.heard = self.heard or self.pending
        return self.heard

    @property
    def pending(self) -> bool:
        """Return whether it is, without having heard of it."""
        return self._asked or (self._end is not None and time.monotonic() > self._end)

    @property
    def reason(self) -> str:
        """Why the run stops, for messages: on request (a signal), or at the time limit."""
        return "on request" if self._asked or self._end is None else f"at {opt('max_time')}"

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """Inside, a signal is only noted: somebody asks for it soon, and leaves files in order.

        Outside, where nothing has been computed, it ends whatever this process is about at once:
        reading a model, a pilot, a compiler.
        """
        self._orderly += 1
        _noting.append(self)
        try:
            yield
            self._over = True
        finally:
            _noting.pop()
            self._orderly -= 1

    def ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Note a request, as the handler of a signal."""
        del number, frame
        self._asked = True
        if self._orderly:
            return
        reported = _LATE if self._over else _EARLY
        if self._comm is not None and self._comm.size > 1:
            sys.stderr.write(f"tauslab: rank {self._comm.rank}: {reported}\n")
            self._comm.abort(StoppedEarly.exit_code)
        raise StoppedAtOnce(reported)


def stop_requested() -> bool:
    """Return whether the `StopRequest` that is only noted now, if any, was made; it is heard."""
    return bool(_noting) and _noting[-1]()


def stop_on_signals(
    comm: Communicator | None = None, end: float | None = None, patience: float | None = None
) -> StopRequest:
    """SIGTERM, SIGUSR1 and Ctrl-C end a run early, in order; a second Ctrl-C ends it at once."""
    request = StopRequest(comm, end, patience)

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        request.ask(number, frame)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, ask)
    return request


@contextmanager
def stopping_on_sigterm(
    stop: Callable[[], bool] | None, comm: Communicator, path: Path | None
) -> Iterator[Callable[[], bool]]:
    """Inside, SIGTERM ends a run that writes `path` in order, unless the caller has a say in it.

    That is with a `stop` or a handler of the caller's, or in another thread than the main one.
    Yields the function that says whether to stop.
    """
    in_main = threading.current_thread() is threading.main_thread()
    usual = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if stop is not None or path is None or not usual:
        yield stop or (lambda: False)
        return
    request = StopRequest(comm)
    signal.signal(signal.SIGTERM, request.ask)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def stop_in_order(
    max_time: str | None, comm: Communicator | None = None, patience: float | None = None
) -> StopRequest:
    """Make a request to stop by signals, and by `max_time`.

    Raises
    ------
    ConfigError
        It is not a time.
    """
    if max_time is None:
        return stop_on_signals(comm, patience=patience)
    parts = max_time.split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\d+(\.\d*)?", part) for part in parts):
        raise ConfigError(f"{opt('max_time', max_time)}: write H:M:S, M:S or seconds")
    seconds = sum(float(p) * 60**i for i, p in enumerate(reversed(parts)))
    return stop_on_signals(comm, time.monotonic() + seconds, patience)


def in_order(stop: Callable[[], bool]) -> AbstractContextManager[None]:
    """`StopRequest.in_order` of one; any other function is left alone."""
    return stop.in_order() if isinstance(stop, StopRequest) else nullcontext()


@contextmanager
def stopping_at_checkpoints(comm: Communicator, path: Path | None) -> Iterator[None]:
    """Inside, signals end a command when its checkpoint at `path` has been written once more.

    Computations in steps call `stop_requested`. Without a path, signal handlers stay unchanged.
    """
    if path is None:
        yield
        return
    stop = stop_on_signals(comm, patience=LONG_PATIENCE)
    with stop.in_order(), watched(stop, comm, None):
        yield


@contextmanager
def watched(
    stop: Callable[[], bool], comm: Communicator, path: Path | None, *, by_asking: bool = True
) -> Iterator[None]:
    """Inside, a run that does not hear of a request is ended: all ranks, with exit code 75.

    A run in a long kernel is one that hears of nothing. Only a `StopRequest` with `patience` ends
    what does not hear; any other function is left alone.

    Parameters
    ----------
    path
        File of the result, for the message.
    by_asking
        Whether a run that asks has heard of it; else it has to be over in time.
    """
    if not isinstance(stop, StopRequest) or stop.patience is None:
        yield
        return
    request, patience, over = stop, stop.patience, threading.Event()

    def watch() -> None:
        since: float | None = None
        while not over.wait(_LOOK_SECONDS):
            if by_asking and request.heard:
                return
            if since is None and request.pending:
                since = time.monotonic()
            if since is not None and time.monotonic() - since > patience:
                reported = ": ".join(filter(None, [_IN_A_STEP, how_to_resume(path)]))
                sys.stderr.write(f"tauslab: {reported}\n")
                sys.stderr.flush()
                comm.abort(StoppedEarly.exit_code)
                return

    threading.Thread(target=watch, name="tauslab-stop", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def reason_of_stop(stop: Callable[[], bool]) -> str:
    """`StopRequest.reason` of one; any other function stands for a request."""
    return stop.reason if isinstance(stop, StopRequest) else "on request"


def stopped_early(
    blocks: int, total: int, how: str, output: Path | None, reason: str = "on request"
) -> StoppedEarly:
    """Say how many blocks are done, or counted, and how to go on."""
    done = f"stopped {reason} with {blocks} of {total} blocks {how}"
    return StoppedEarly(done, how_to_resume(output))


def how_to_resume(output: Path | None) -> str:
    """Words on how to complete a run that was stopped, by what is on disk."""
    if output is None:
        return ""
    if any_begun(output):
        return f"{opt('resume')} completes {output}"
    return f"nothing is in {output} yet: the same command begins it again"


def any_begun(output: Path) -> bool:
    """Return whether `--resume` can go on from a result, or from a part of one beside it."""
    for result in output.parent.glob(f"{escape(output.name)}*"):
        if result.is_dir() and result.name.endswith(".parts") and any(result.glob("*.h5")):
            return True
        if result.is_file() and not result.name.endswith((".tauslab-lock", ".tauslab-tmp")):
            return True
    return False
