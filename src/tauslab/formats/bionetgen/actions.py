"""Part a BioNetGen model (.bngl) into its blocks, which are the model, and its actions.

Of the blocks and options (``setOption`` and the like) a file is written that BioNetGen may be
given: `tauslab.formats.bionetgen.lines` says what may stand in it.  Of the actions only
``generate_network`` is kept, with what bounds the network (``max_iter``, ``max_stoich``, ...).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tauslab.base.errors import ModelError
from tauslab.formats.bionetgen.lines import (
    BLOCKS,
    OPTIONS,
    Line,
    Names,
    bounds,
    checked,
    is_edge,
    lines_of,
    option,
)
from tauslab.formats.bionetgen.net import end_time

_ACTION_BLOCKS = ("actions", "protocol")
_CALL = re.compile(r"\s*(?:\d+\s+)?(\w+)\s*\((.*)\)\s*;?\s*\Z", re.DOTALL | re.ASCII)
_SHOWN = 200  # characters of a line that a message repeats


@dataclass(frozen=True)
class Action:
    """A call outside of the blocks that describe the model."""

    line: int
    name: str
    arguments: str

    @property
    def changes_values(self) -> bool:
        """Return whether it sets parameters or amounts: a later action then runs another model."""
        return self.name.startswith(("set", "add"))


@dataclass(frozen=True)
class RuleModel:
    """A model in rules, ready for BioNetGen: `text` generates its network and does nothing else.

    `name` is what ``setModelName`` says, or empty, `t_end` that of the first simulation among the
    actions, `left_out` the actions but for ``generate_network``.
    """

    text: str
    name: str
    t_end: float | None
    left_out: tuple[Action, ...]


def part(text: str) -> RuleModel:
    """Part the text of a .bngl file.

    Raises
    ------
    ModelError
        There are no blocks; a block, a line of one or an option is not what BioNetGen may be
        given; or a line outside of blocks is not an action.
    """
    parts = list(_parts(text))
    if not any(block for block, _ in parts):
        called = [_action(line).name for _, line in parts if not is_edge(line)]
        told = ", ".join(dict.fromkeys(called)) or "nothing"
        raise ModelError(f"holds no blocks of a model, only {told}: give the file that has them")
    names = Names(parts)
    kept: list[str] = []
    actions: list[Action] = []
    name = ""
    for block, line in parts:
        given = ""
        if is_edge(line):
            given = " ".join(line.words)
        elif block:
            given = checked(block, line, names)
        else:
            action = _action(line)
            if action.name in OPTIONS:
                given, name = _option(action, name)
            else:
                actions.append(action)
        kept += [""] * (line.last - 1 - len(kept)) + [given]
    return _rule_model(kept, name, actions)


def _parts(text: str) -> Iterator[tuple[str, Line]]:
    """Lines with the block that they belong to, without the edges of blocks of actions."""
    inside = ""
    opened = Line(0, 0, "")
    for line in lines_of(text):
        words = line.words
        if is_edge(line) and words[1:] == ["model"]:
            if inside:
                raise ModelError(f"line {line.first}: {line.text.strip()!r} inside of {inside!r}")
            yield "", line
        elif words[0] == "begin":
            if inside:
                raise ModelError(f"line {line.first}: 'begin' inside of the block {inside!r}")
            inside, opened = " ".join(words[1:]), line
            if inside in BLOCKS:
                yield inside, line
            elif inside not in _ACTION_BLOCKS:
                known = ", ".join((*BLOCKS, *_ACTION_BLOCKS))
                raise ModelError(f"line {line.first}: no block is called {inside!r}; {known} are")
        elif words[0] == "end":
            if " ".join(words[1:]) != inside:
                raise ModelError(f"line {line.first}: {_shown(line)} ends no block that is open")
            if inside in BLOCKS:
                yield inside, line
            inside = ""
        else:
            yield ("" if inside in _ACTION_BLOCKS else inside), line
    if inside:
        raise ModelError(f"line {opened.first}: the block {inside!r} has no end")


def _option(action: Action, name: str) -> tuple[str, str]:
    """Return the words for BioNetGen of an option, and the name of the model after it."""
    try:
        given, values = option(action.name, action.arguments)
    except ModelError as error:
        raise ModelError(f"line {action.line}: {error}") from None
    return given, values[0] if action.name == "setModelName" else name


def _rule_model(kept: list[str], name: str, actions: list[Action]) -> RuleModel:
    generations = [action for action in actions if action.name == "generate_network"]
    try:
        kept.append(bounds(generations[0].arguments if generations else ""))
    except ModelError as error:
        raise ModelError(f"line {generations[0].line}: {error}") from None
    told = "\n".join(f"{action.name}({action.arguments})" for action in actions)
    others = tuple(action for action in actions if action.name != "generate_network")
    return RuleModel("\n".join(kept) + "\n", name, end_time(told), others)


def _action(line: Line) -> Action:
    match = _CALL.match(line.text)
    if match is None:
        raise ModelError(f"line {line.first}: {_shown(line)} is neither in a block nor an action")
    return Action(line.first, match[1], match[2])


def _shown(line: Line) -> str:
    text = line.text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
