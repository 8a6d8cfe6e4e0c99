"""The exceptions tauslab raises on purpose.

::

    TauslabError
    |-- ModelError            a model that is wrong, or that an engine cannot honour  (ValueError)
    |-- ConfigError           an option, a name or a value the user gave              (ValueError)
    |   `-- UnknownKeyword    a keyword that a function does not have                 (TypeError)
    |-- DecompositionError    work that cannot be cut over the ranks there are        (ValueError)
    |-- DeviceError           a device, compiler or driver that is not there          (RuntimeError)
    |-- DeviceFailed          a device that failed while it worked                    (RuntimeError)
    |-- ExecutorError         workers or a scheduler that died or never came          (RuntimeError)
    |-- KernelCompileError    a kernel the compiler refused                           (RuntimeError)
    |-- NoValidTrajectory     a run in which every trajectory ended early             (RuntimeError)
    |-- OutputError           a file that cannot be written, read or trusted          (OSError)
    |   `-- InputFileError    a result file given by the user that is missing or foreign
    `-- StoppedEarly          stopped on request; what is on disk can be resumed      (RuntimeError)

Each message is one sentence that names the file and the element, says what was given and what is
allowed.  ``exit_code`` is what the command line returns.
"""

from __future__ import annotations

import difflib
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tauslab.base.option_names import assigned, opt

R = TypeVar("R")

_UNSHOWN = ("tauslab", "IPython", "contextlib")  # in notebooks


class TauslabError(Exception):
    """Base of every error that tauslab raises on purpose.

    IPython and Jupyter show the frames of the user's code and the message; with ``%xmode Verbose``
    they show all frames and the causes.
    """

    exit_code = 1
    raised_by = 1  # so many ranks that agreed on it: one of them prints it
    of_damage = False  # whether a file is not what was written

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """Return the function that IPython calls for a traceback; absent in verbose mode."""
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is None or shell.InteractiveTB.mode == "Verbose":
            raise AttributeError("_render_traceback_")
        return self._short_traceback

    def _short_traceback(self) -> list[str]:
        """Lines of a traceback without the frames of tauslab and of IPython, and no causes."""
        shown = (
            (frame, line)
            for frame, line in traceback.walk_tb(self.__traceback__)
            if str(frame.f_globals.get("__name__")).split(".")[0] not in _UNSHOWN
        )
        frames = traceback.format_list(traceback.StackSummary.extract(shown))
        return [*"".join(frames).splitlines(), f"{type(self).__name__}: {self}"]


def briefly(call: str, function: Callable[..., R], args: Any, options: Any) -> R:
    """Call a function; tracebacks of interrupts and of the user's own functions are short.

    They leave out frames of tauslab, which an error in tauslab itself keeps.
    """
    __tracebackhide__ = True  # IPython leaves this frame out
    try:
        return function(*args, **options)
    except KeyboardInterrupt as error:
        if error.args:
            raise
        then = "" if options.get("output") is None else ": resume=True continues it"
        raise KeyboardInterrupt(f"{call} was interrupted{then}") from None
    except Exception as error:
        if isinstance(error, TauslabError) or not (frames := _of_user(error)):
            raise
        trace = None
        for one in reversed(frames):
            trace = TracebackType(trace, one.tb_frame, one.tb_lasti, one.tb_lineno)
        raise error.with_traceback(trace) from error.__cause__


def _of_user(error: Exception) -> list[TracebackType]:
    """Frames of a function that tauslab was given, and that raised; empty if tauslab raised."""
    frames = list[TracebackType]()
    trace = error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__")).split(".")[0]
        frames = [] if name in _UNSHOWN else [*frames, trace]
        trace = trace.tb_next
    if not frames:
        return []
    libraries = {sysconfig.get_path(one) for one in ("stdlib", "purelib", "platlib")}
    file = frames[0].tb_frame.f_code.co_filename
    return [] if file.startswith((*libraries, "<frozen")) else frames


E = TypeVar("E", bound=TauslabError)

# Words of other programs, and what the choice is called here.
_CALLED: Mapping[str, str] = {
    "gpu": "cuda", "nvidia": "cuda", "gillespie": "ssa", "direct": "ssa", "exact": "ssa",
    "leap": "tau", "tau-leaping": "tau", "tauleaping": "tau",
    "tau-leap": "tau", "tauleap": "tau", "nrm": "ssa",
    "hist": "histogram", "lines": "trajectories", "deterministic": "ode",
    "pdmp": "hybrid", "langevin": "cle",
    "float": "single", "float32": "single", "float64": "double",
}  # fmt: skip


def of_damage(error: E) -> E:
    """Mark an error as that of a file which is not what was written; return it."""
    error.of_damage = True
    return error


class ModelError(TauslabError, ValueError):
    """A model is malformed, or needs something that the method does not support.

    `where` names the table and key of the file, if known; the message begins with it.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class ConfigError(TauslabError, ValueError):
    """An option, name or value given by the user is not allowed."""

    exit_code = 2


class UnknownKeyword(ConfigError, TypeError):
    """A function has no keyword of that name."""


class DecompositionError(TauslabError, ValueError):
    """Work or space cannot be divided among the ranks as requested."""

    exit_code = 2


class DeviceError(TauslabError, RuntimeError):
    """A device, compiler or driver is missing: another machine may have it."""


class DeviceFailed(TauslabError, RuntimeError):
    """A device reported an error during a run, which can be resumed."""


class ExecutorError(TauslabError, RuntimeError):
    """Dask workers or their scheduler have failed."""


class KernelCompileError(TauslabError, RuntimeError):
    """A kernel does not compile; the message holds flags, source path and the first error."""


class NoValidTrajectory(TauslabError, RuntimeError):
    """No trajectory reached the end: all overflowed, became NaN or needed too many steps."""


class OutputError(TauslabError, OSError):
    """A result file cannot be written, read or trusted."""


class InputFileError(OutputError):
    """A file given by the user is missing, damaged, unfinished or of another kind."""

    exit_code = 2


class StoppedEarly(TauslabError, RuntimeError):
    """The run was stopped on request before its end; it can be resumed.

    `done` describes the completed part; the message explains how to resume.
    """

    exit_code = 75

    def __init__(self, done: str, how: str = "") -> None:
        super().__init__(f"{done}: {how}" if how else done)
        self.done = done


class StoppedAtOnce(BaseException):
    """A request to stop that came before there was anything to keep.

    A signal raises it wherever this process is, so it is no `Exception`: nobody who handles the
    errors of a library, a thread or a file may take it for one.
    """

    exit_code = 75


def reason_of(error: BaseException) -> str:
    """Return the message of a library's exception as one line; its class where it says nothing.

    >>> reason_of(KeyError("no entry")), reason_of(ValueError()), reason_of(ValueError("not 'x'"))
    ('no entry', 'ValueError', "not 'x'")
    """
    text = str(error).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return " ".join(text.split()) or type(error).__name__


def first_line_of(error: BaseException) -> str:
    """Return the first line of a message; some libraries go on for their own developers."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_of(option: str, value: object, allowed: Iterable[str]) -> None:
    """A `ConfigError` that names the option of field `option`, unless `value` is in `allowed`."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        if isinstance(value, type):
            name = value.__name__
            raise ConfigError(f"{opt(option)} is the class {name}: give its settings, ts.{name}()")
        near = f" (is {meant} meant?)" if (meant := meant_word(value, words)) else ""
        raise ConfigError(
            f"{assigned(option)}{value!r} is not known{near}; allowed are {', '.join(words)}"
        )


def meant_word(value: object, words: Sequence[str]) -> str | None:
    """Return the choice that is likely meant; None if none is near.

    >>> meant_word("GPU", ["cpu", "cuda"]), meant_word("Gillespie", ["ssa"]), meant_word(3, ["ssa"])
    ('cuda', 'ssa', None)
    """
    if not isinstance(value, str):
        return None
    text = value.lower().replace("_", "-")
    called = _CALLED.get(text)
    return (
        called if called in words else next(iter(difflib.get_close_matches(text, words, 1)), None)
    )
