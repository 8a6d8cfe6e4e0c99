"""Progress of a run: a bar on a terminal or in a notebook, a line every 30 s in a batch log."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from html import escape, unescape
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from tauslab.decomposition.ranks.printable import printable
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
def showing_compilers(
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


_REDRAWN = 0.2  # seconds between the pictures of a bar in a notebook
LOG_INTERVAL = 30.0  # seconds between the lines of a batch log


class _Display(Protocol):
    def show(self, state: _State) -> None:
        """Draw the state, if it is time to."""

    def finish(self, state: _State) -> None:
        """Draw the last state and let go of the stream."""


class _State:
    """The work that is done, and its rate since the start of this process."""

    def __init__(self, total: int, started_at: int, unit: str, work: str) -> None:
        self.total, self.started_at, self.unit, self.work = total, started_at, unit, work
        self.done, self.events, self.seconds = started_at, 0, 0.0
        self.running, self.reached = 0, 0.0  # events in launches that run, latest time of these
        self.expected, self.last_time = 0.0, 0.0  # events of the whole run, its last sample time
        self.note = ""  # what else is shown after the rates

    def rates(self) -> str:
        """Units and events, if there are any, per second; a resumed run counts what it did."""
        if self.seconds <= 0:
            return "starting"
        if self.unit != "trajectories":
            return f"{short_number(self._fresh() / self.seconds)} {self.unit}/s{self.note}"
        rate = f"{short_number(self._events() / self.seconds)} {self.work}/s"
        if self._fresh() or not self.running:
            return f"{short_number(self._fresh() / self.seconds)} {self.unit}/s, {rate}"
        # Before the first trajectory has ended: how far those are that run.
        so_far = f"{short_number(self._events())} {self.work}"
        return f"{so_far}, at t = {self.reached:.3g} of {self.last_time:.6g}, {rate}"

    def _fresh(self) -> int:
        return self.done - self.started_at

    def _events(self) -> int:
        return self.events + self.running

    def time_left(self) -> str:
        """Seconds to the end at the present rate, as ``h:mm:ss``."""
        if self.seconds <= 0:
            return "?"
        if self._fresh() > 0:
            return clock_time((self.total - self.done) * self.seconds / self._fresh())
        left = self.expected - self._events()
        return (
            clock_time(left * self.seconds / self._events()) if self.running and left > 0 else "?"
        )

    def percent(self) -> int:
        """Whole per cent, rounded down: 100 only when all is done."""
        return 100 * self.done // self.total if self.total else 100


PATIENCE = 2.0  # seconds that a program waits without a word


class _LogLines:
    """Lines for files and pipes: no control characters, and few."""

    def __init__(self, stream: TextIO, description: str, interval: float) -> None:
        self._stream, self._description, self._interval = stream, description, interval
        self._last = 0.0

    def show(self, state: _State) -> None:
        if state.seconds - self._last >= self._interval:
            self._last = state.seconds
            self._line(state, f"{state.time_left()} left")

    def finish(self, state: _State) -> None:
        self._line(state, f"after {clock_time(state.seconds)}")

    def _line(self, state: _State, end: str) -> None:
        print(
            f"{self._description}: {state.done}/{state.total} {state.unit} ({state.percent()} %), "
            f"{state.rates()}, {end}",
            file=self._stream,
            flush=True,
        )


class _Bar:
    """A bar for people, of rich."""

    def __init__(self, stream: TextIO, description: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rates]}  {task.fields[left]}"),
            console=Console(file=stream),
        )
        self._task = self._progress.add_task(
            description.replace("[", r"\["), total=total, rates="", left=""
        )
        self._progress.start()

    def show(self, state: _State) -> None:
        self._draw(state, f"{state.time_left()} left")

    def finish(self, state: _State) -> None:
        self._draw(state, f"after {clock_time(state.seconds)}")
        self._progress.stop()

    def _draw(self, state: _State, end: str) -> None:
        self._progress.update(self._task, completed=state.done, rates=state.rates(), left=end)


class _NotebookBar:
    """A bar in the output of a notebook's cell, which IPython changes in place."""

    def __init__(self, description: str) -> None:
        from IPython.display import display

        self._description, self._shown_at = description, 0.0
        self._handle: Any = display(_Html(""), display_id=True)

    def show(self, state: _State) -> None:
        if state.seconds - self._shown_at >= _REDRAWN:
            self._shown_at = state.seconds
            self._draw(state, f"{state.time_left()} left")

    def finish(self, state: _State) -> None:
        self._draw(state, f"after {clock_time(state.seconds)}")

    def _draw(self, state: _State, end: str) -> None:
        words = (
            f"{state.done:,} of {state.total:,} {state.unit} ({state.percent()} %)"
            f", {state.rates()}, {end}"
        )
        bar = f'<progress value="{state.done}" max="{max(1, state.total)}"></progress>'
        self._handle.update(_Html(f"{escape(self._description)} {bar} {escape(words)}"))


class _Html:
    """A text that a notebook shows as HTML."""

    def __init__(self, page: str) -> None:
        self._page = page

    def _repr_html_(self) -> str:
        return f'<div style="font-family: monospace">{self._page}</div>'

    def __repr__(self) -> str:
        return re.sub("<[^>]*>", "", unescape(self._page))


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook; IPython in a terminal is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _display(stream: TextIO | None, description: str, total: int, interval: float) -> _Display:
    """A bar in a notebook and on a terminal, else lines."""
    out = sys.stderr if stream is None else stream
    if stream is None and in_notebook():
        return _NotebookBar(description)
    if out.isatty():
        return _Bar(out, description, total)
    return _LogLines(out, description, interval)


class Progress:
    """Shows how many of `total` trajectories are done; a context manager.

    Only rank 0 shows anything, and nothing with `quiet`.

    Parameters
    ----------
    total
        Trajectories of the whole job.
    comm_rank
        Rank of this process.
    quiet
        True: show nothing. None: show nothing in the first two seconds, and nothing at all of what
        is done by then. False: show it from the start.
    description
        Put before the figures: the model's name.
    unit
        What is counted, in the plural; events are shown with trajectories.
    work
        What events are called: of differential equations they are steps.
    started_at
        Trajectories that were done before a run was resumed; they do not count in the rates.
    stream
        Where to show it, standard error by default. A bar in a notebook and where this is a
        terminal, else a line every `interval` seconds and one at the end.
    clock
        Seconds that only ever grow.
    """

    def __init__(  # noqa: PLR0913 - what a display shows, by keyword
        self,
        total: int,
        comm_rank: int = 0,
        *,
        quiet: bool | None = False,
        description: str = "run",
        unit: str = "trajectories",
        work: str = "events",
        started_at: int = 0,
        stream: TextIO | None = None,
        interval: float = LOG_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        description = printable(description, one_line=True)
        self._state, self._clock = _State(total, started_at, unit, work), clock
        self._began = clock()
        self._display: _Display | None = None
        self._opening: Callable[[], _Display] | None = None
        if comm_rank == 0 and quiet is not True:
            self._opening = partial(_display, stream, description, total, interval)
            self._after = self._began + (PATIENCE if quiet is None else 0.0)
            self._open_display()

    def update(self, done: int, events: int) -> None:
        """Say how many trajectories are done in all, and how many events this run has fired."""
        self._state.done, self._state.events, self._state.running = done, events, 0
        self._show()

    def show(self, note: str) -> None:
        """Show `note` after the rates from now on."""
        self._state.note = f", {note}"

    def expect(self, events: float, last_time: float) -> None:
        """Say how many events the run may have (0: not known), and its last sample time."""
        self._state.expected, self._state.last_time = events, last_time

    def running(self, events: int, reached: float) -> None:
        """Say how many events launches that run have fired, and the latest time they reached."""
        self._state.running, self._state.reached = events, reached
        self._show()

    def close(self) -> None:
        """Show the last figures; a second call does nothing."""
        self._state.seconds = self._clock() - self._began
        if self._display is not None:
            self._display.finish(self._state)
        self._display = self._opening = None

    def _show(self) -> None:
        self._state.seconds = self._clock() - self._began
        self._open_display()
        if self._display is not None:
            self._display.show(self._state)

    def _open_display(self) -> None:
        if self._opening is not None and self._clock() >= self._after:
            self._display, self._opening = self._opening(), None

    def __enter__(self) -> Self:
        """Use as a context."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, also after an error, so that the terminal is left in order."""
        self.close()


def short_number(value: float) -> str:
    """Three digits with a power of a thousand: 41.2M."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds as ``h:mm:ss``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"
