"""Settings, signals and warnings of several commands."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.opening import reading
from tauslab.cli.streams import discard, printable
from tauslab.options.values.result_name import require_result_name
from tauslab.store.targets import inputs_of, require_no_input, require_place

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_OF_THE_NAME = (errno.ENAMETOOLONG, errno.EACCES)
_LONG = 60  # letters of a file's name
_LONG_MESSAGE = 2000  # characters


def require_text(words: Sequence[str]) -> None:
    """Refuse names that are not UTF-8: a result, which keeps them, could not be written.

    Raises
    ------
    ConfigError
        Names the first of them.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = ascii(os.fsencode(word))[1:]
            raise ConfigError(
                f"{shown} is not UTF-8: give the file another name, or set LC_ALL=C.UTF-8"
            ) from None


@contextmanager
def reading_result(arguments: argparse.Namespace) -> Iterator[None]:
    """Turn a damaged result, or means that lack samples, into a sentence."""
    file = getattr(arguments, "file", None)
    if file is None and "files" not in vars(arguments):
        yield
        return
    with warnings_on_stderr(), nullcontext() if file is None else reading(file, InputFileError):
        yield


def require_safe_output(arguments: argparse.Namespace) -> None:
    """Refuse an output that this command reads, unless it goes on with that result.

    Raises
    ------
    ConfigError
        Names both.
    """
    reported = vars(arguments)
    model, output = reported.get("model"), reported.get("output")
    if output is not None and "resume" in reported:
        require_result_name(output)
    if reported.get("resume") or any(reported.get(n) is not None for n in ("append", "append_to")):
        return
    if output is None and reported.get("overwrite") and isinstance(model, Path):
        output = Path(f"{model.stem}.dbn.h5" if reported.get("unknown") else f"{model.stem}.h5")
    require_no_input(output, inputs_of(reported))


def code_alone(error: BaseException) -> int | None:
    """Report what ended a command of one process; its exit code, or None for a fault of ours."""
    if isinstance(error, KeyboardInterrupt):
        print("tauslab: interrupted", file=sys.stderr)
        return 130
    if isinstance(error, RuntimeError):
        if "new thread" not in str(error):
            return None
        print(
            "tauslab: no more threads can be started: raise the limit of memory (ulimit -v) or of "
            "processes (ulimit -u)",
            file=sys.stderr,
        )
        return 1
    if not isinstance(error, OSError):
        return None
    if error.errno in _OF_THE_NAME and error.filename is not None:
        name = str(error.filename)
        shown = name if len(name) <= _LONG else name[:_LONG] + "..."
        print(f"tauslab: {printable(shown, one_line=True)}: {error.strerror}", file=sys.stderr)
        return 2
    if error.errno not in _FULL or error.filename is not None:
        return None
    # What is left in the buffer would fail once more when Python ends.
    discard(sys.stdout)
    print(f"tauslab: the answer cannot be printed: {error.strerror}", file=sys.stderr)
    return 1


def shortened(message: str) -> str:
    """The message; of one that repeats a very long piece of a file the beginning and the end."""
    if len(message) <= _LONG_MESSAGE:
        return message
    half = _LONG_MESSAGE // 2
    left_out = len(message) - 2 * half
    return f"{message[:half]} ... ({left_out} characters) ... {message[-half:]}"


@contextmanager
def warnings_on_stderr(rank: int = 0) -> Iterator[None]:
    """Within it a warning is a line for the user, in place of Python's; rank 0 speaks for all."""
    with warnings.catch_warnings():
        warnings.showwarning = warn_on_rank_0 if rank == 0 else ignored
        yield


def warn_on_rank_0(message: Warning | str, *_: Any, **__: Any) -> None:
    """A line for the user, in place of Python's."""
    print(f"tauslab: warning: {printable(shortened(str(message)))}", file=sys.stderr)


def require_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be made, or that is there and must be kept.

    Raises
    ------
    ConfigError
        Says which.
    """
    require_place(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists: give --overwrite or another -o")


@contextmanager
def making_new(path: Path | None, *, overwrite: bool) -> Iterator[None]:
    """Be the only command that makes a file, until the end of a `with` statement.

    Raises
    ------
    ConfigError
        As `require_new`, or another command makes it.
    """
    from tauslab.decomposition.ranks.mpi import Communicator
    from tauslab.store.locks import written_by_us

    with written_by_us(path, Communicator()):
        if path is not None:
            require_new(path, overwrite=overwrite)
        yield


def announce_run(output: Path, *, resume: bool, quiet: bool) -> None:
    """Say that there is nothing to resume: a batch job means it, a slip does not.

    What a run keeps until its file is made lies beside it, under names that begin with the file's.
    """
    from tauslab.decomposition.ranks.stopping import any_begun

    if resume and not quiet and not any_begun(output):
        print(
            f"tauslab: {printable(str(output))} does not exist: there is nothing to resume, and "
            "a new run starts",
            file=sys.stderr,
        )


def ignored(*_: Any, **__: Any) -> None:
    """Rank 0 speaks for all, or nobody."""


def mpi_hints(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` of every ``--mpi-hint``."""
    from tauslab.options.values.texts import add_once

    result: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--mpi-hint {text}: write NAME=VALUE")
        add_once(result, name, value, "mpi_hints")
    return result
