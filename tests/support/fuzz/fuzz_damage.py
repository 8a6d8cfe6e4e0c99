"""Command lines that are slightly wrong, and what a command may answer."""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_ODD_VALUES = (
    "", "0", "-1", "1", "1.5", "5 ", "1_000", "0x10", "1e400", "1e-320", "nan", "-inf", "50",
    "2147483648", "99999999999999999999", "100000000", "abc", ",", "M", "M,M", "M,", "M=1", "M=",
    "=1", "M=nan", "M=2:1", "M=lin:1:2:3", "M=lin:2:1:0", "M=log:0:1:3", "M=list:", "M=list:1,a",
    "lin:1", "sobol:4", "lhs:0", "histogram:M:0:10:5", "histogram:M:0:1:99999999999",
    "histogram:M:5:1:3", "summary:mean:M", "summary:x", "trajectories", "statistics,final",
    "mean(M) rel 0.5", "mean(M) rel 0", "mean(", "1:2:3", "0:0:0", "1:", "M=uniform(1,0)",
    "M=normal(1,-1)", "M=table(none)", "auto", "/", "/dev/null", ".", "none/x.h5", "é", "\u202e",
    "a\nb", "\x1b[2J", "(", "1" * 400, "A" * 2000,
)  # fmt: skip
# They ask for help, for other machines, for many threads, or for time.
_NOT_ODD = ("help", "executor", "scheduler", "workers", "sbatch", "device", "threads", "max_time")


@dataclass(frozen=True)
class Answer:
    """What a command did: its exit code, or how it ended; what it said."""

    ended: str
    said: str

    @property
    def is_right(self) -> bool:
        """Done, or one sentence and exit code 2."""
        return self.ended == "0" or (self.ended == "2" and is_one_sentence(self.said))


def is_one_sentence(said: str) -> bool:
    """Whether a message of ours, after warnings, is what a user reads."""
    lines = [line for line in said.splitlines() if not line.startswith("tauslab: warning:")]
    usage = bool(lines) and lines[0].startswith("usage:")
    return (len(lines) == 1 and lines[0].startswith("tauslab")) or usage


def odd_options(command: Sequence[str], dice: random.Random) -> list[str]:
    """The command with one to three options that it knows, of odd values."""
    from tauslab.cli.main import _parser

    choices = next(a.choices for a in _actions(_parser()) if isinstance(a.choices, dict))
    known = [
        action
        for action in _actions(choices[command[0]])
        if action.option_strings and action.dest not in _NOT_ODD
    ]
    changed = list(command)
    if dice.random() < 0.1:
        changed[1] = dice.choice(_ODD_VALUES)
    for _ in range(dice.choice((1, 1, 2, 3))):
        action = dice.choice(known)
        chosen = list(action.choices) if action.choices and dice.random() < 0.7 else _ODD_VALUES
        value = [] if action.nargs == 0 else [str(dice.choice(chosen))]
        at = changed.index("--") if "--" in changed else len(changed)
        changed[at:at] = [dice.choice(action.option_strings), *value]
    return changed


def _actions(parser: argparse.ArgumentParser) -> list[Any]:
    return list(parser._actions)


def answer(arguments: Sequence[str]) -> Answer:
    """Call the command line in this process."""
    from tauslab.cli.main import main

    message = io.StringIO()
    with contextlib.redirect_stderr(message), contextlib.redirect_stdout(io.StringIO()):
        try:
            ended = str(main(list(arguments)))
        except SystemExit as left:  # argparse
            ended = str(left.code)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a fault
            ended = "traceback"
            message.write(traceback.format_exc())
    return Answer(ended, message.getvalue())
