"""Signals while a library computes that returns to Python late."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tauslab.base.option_names import at_command_line


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM end the process of a command, which has written nothing yet.

    Handlers of Python run when the library returns, which may take many seconds. A Python program
    that calls tauslab keeps its handlers, and so does a command that ignores a signal.
    """
    before = {}
    if at_command_line() and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
