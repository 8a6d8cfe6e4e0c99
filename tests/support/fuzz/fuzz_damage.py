"""Files and command lines that are slightly wrong, and what a command may answer to them."""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*(?:[eE][-+]?\d+)?|\S")
_ODD_TOKENS = (
    "", "0", "-1", "1e400", "-1e308", "nan", "inf", "-0.0", "1e-320", "9223372036854775808",
    "2147483648", "99999999999999999999999999", "4e9", "true", '""', "''", "[]", "{}", "[[]]",
    "(", ")", "]", "}", "^", "**", "/", "/ 0", "%", "é", "\u202e", "\x00", "\ufeff", "<", "&",
    "&#0;", "time", "e", "pi", "if", "*", "2", "1.5", "A" * 3000, "(" * 400, "-" * 300,
    "1" * 5000, "9" * 40, "\n", "\r", "\t", "#", "=", ",", ";", ":",
)  # fmt: skip
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


def damaged_text(text: str, dice: random.Random) -> str:
    """The text with one to three words, lines or pieces changed."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        text = dice.choice(_TEXT_CHANGES)(text, dice)
    return text


def _another_token(text: str, dice: random.Random) -> str:
    found = list(_TOKEN.finditer(text))
    if not found:
        return dice.choice(_ODD_TOKENS)
    place = dice.choice(found)
    other = dice.choice((dice.choice(_ODD_TOKENS), dice.choice(found).group()))
    return text[: place.start()] + other + text[place.end() :]


def _more_text(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(_ODD_TOKENS) + text[at:]


def _another_line(text: str, dice: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at = dice.randrange(len(lines))
    kind = dice.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(dice.randrange(len(lines)), lines[at])
    else:
        other = dice.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def _less_text(text: str, dice: random.Random) -> str:
    begin = dice.randrange(len(text) + 1)
    return text[:begin] + text[begin + dice.choice((1, 5, 40, len(text))) :]


_TEXT_CHANGES = (
    _another_token,
    _another_token,
    _another_token,
    _more_text,
    _another_line,
    _less_text,
)


def damaged_bytes(content: bytes, dice: random.Random) -> bytes:
    """Bytes with some bits turned, a piece cut off, zeroed or repeated."""
    changed = bytearray(content)
    kind = dice.randrange(5)
    if kind == 0:
        return bytes(changed[: dice.randrange(len(changed) + 1)])
    if kind == 1:
        begin = dice.randrange(len(changed))
        end = begin + dice.choice((1, 8, 64, 512))
        changed[begin:end] = bytes(len(changed[begin:end]))
        return bytes(changed)
    # Most of a small HDF5 file is metadata, of which the beginning counts most.
    most = dice.choice((len(changed), min(len(changed), 4096)))
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(most)
        changed[at] = changed[at] ^ (1 << dice.randrange(8)) if kind < 4 else dice.randrange(256)
    return bytes(changed)


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

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            ended = str(main(list(arguments)))
        except SystemExit as left:  # argparse
            ended = str(left.code)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a fault
            ended = "traceback"
            said.write(traceback.format_exc())
    return Answer(ended, said.getvalue())
