"""The command line: parses arguments and hands each sub-command to one function.

A command that is given imports what it needs, the others nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tauslab._version import __version__
from tauslab.base.errors import ConfigError, StoppedAtOnce, TauslabError
from tauslab.base.option_names import command_line
from tauslab.cli.help import EPILOG, Parser, completion_script, examples, speaks
from tauslab.cli.streams import SafeStream, discard, printable, safe_streams
from tauslab.cli.table import COMMANDS
from tauslab.cli.tools import (
    code_alone,
    reading_result,
    require_safe_output,
    require_text,
    shortened,
)
from tauslab.decomposition.ranks.launcher import under_launcher

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT = 2
# Words of a command that computes on no GPU of this process.
_ELSEWHERE = frozenset(("cpu", "--device=cpu", "dask", "--executor=dask", "-h", "--help"))


def main(argv: list[str] | None = None) -> int:
    """Run a sub-command.

    Returns
    -------
    0 done, 1 failure, 2 bad input, 75 stopped early on request and resumable, 130 interrupted
    before there was anything to resume.
    """
    try:
        with safe_streams() as out, command_line():
            return _main(argv, out)
    finally:
        if argv is None:
            gc.freeze()  # the process ends, and nobody needs to look for garbage once more


def _main(argv: list[str] | None, out: SafeStream) -> int:
    try:
        words = sys.argv[1:] if argv is None else argv
        require_text(words)
        if argv is None:
            _begin_context(words)
        arguments = _parsed(words, alone=argv is None)
        out.forgiving = hasattr(arguments, "resume")  # its answer is a file
        require_safe_output(arguments)
        with reading_result(arguments):
            arguments.process(arguments)
        sys.stdout.flush()
    except TauslabError as error:
        if speaks():
            reported = printable(shortened(str(error)), one_line=error.exit_code == BAD_INPUT)
            print(f"tauslab: {reported}", file=sys.stderr)
        return error.exit_code
    except StoppedAtOnce as stopped:
        print(f"tauslab: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except BrokenPipeError:  # the reader of our output, such as head, had enough
        discard(sys.stdout)
        return 0
    except (KeyboardInterrupt, OSError, RuntimeError) as error:
        code = code_alone(error)
        if code is None or _has_company():  # the other ranks end when this one fails
            raise
        return code
    return 0


def _has_company() -> bool:
    """Return whether this is one of several ranks."""
    if not under_launcher():
        return False
    from tauslab.decomposition.ranks.all_ranks import ranks

    return ranks().size > 1


def _begin_context(words: Sequence[str]) -> None:
    """Start what takes long before a GPU can be opened, before the modules of a run are imported.

    Of several ranks each has to find its GPU first, and does it when it knows the others.
    """
    if words[:1] not in (["run"], ["rdme"]) or under_launcher() or not _ELSEWHERE.isdisjoint(words):
        return
    from tauslab.kernels.cuda_context import begin_context

    begin_context(lambda _: 0)


def _parsed(words: Sequence[str], *, alone: bool) -> argparse.Namespace:
    """Parse a command line.

    A process that is `alone` with it ends with it, and keeps its modules until then: the garbage
    collector leaves them out, for it would go through them again and again.
    """
    if not words:
        raise ConfigError(f"give a command: {', '.join(COMMANDS)}; see tauslab --help")
    if alone:
        gc.disable()
    try:
        return _parser(words).parse_args(words)
    finally:
        if alone:
            gc.freeze()
            gc.enable()


def _parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser; with the words of a command line, options of the commands among them alone."""
    parser = Parser(
        prog="tauslab",
        description="Stochastic chemistry on CPUs and GPUs; a seed gives equal numbers on both.",
        allow_abbrev=False, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"tauslab {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        text = command.help
        added = subparsers.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False,
            epilog=examples(name), formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if words is None or name in words:
            command.add_to(added)
    return parser


def write_batch_script(arguments: argparse.Namespace) -> None:
    """``tauslab slurm``; a misspelt option is refused now, not when the job starts."""
    from tauslab.cli.slurm import process_slurm

    if arguments.command[:1] in (["run"], ["rdme"]):
        _parser(arguments.command).parse_args(arguments.command)
    process_slurm(arguments)


def precompile(arguments: argparse.Namespace) -> None:
    """``tauslab precompile``; its words are those of ``run`` or ``rdme``."""
    from tauslab.cli.commands.precompile import full_command, process_precompile

    words = full_command(arguments.command)
    given = _parser(words).parse_args(words)
    process_precompile(words[0], given, arguments.arch, arguments.ranks)


def print_completion(arguments: argparse.Namespace) -> None:
    """``tauslab completion``."""
    print(completion_script(_parser(), arguments.shell))


def print_help(arguments: argparse.Namespace) -> None:
    """``tauslab help run`` is ``tauslab run --help``; of a word that is no command it says so."""
    words = [arguments.about] if arguments.about else []
    with suppress(SystemExit):
        _parser(words).parse_args([*words, "--help"])
