"""Part a BioNetGen model (.bngl) into its blocks, which are the model, and its actions.

Blocks and options (``setOption`` and the like) are kept on their lines, so that the messages of
BioNetGen name lines of the user's file; of the actions only ``generate_network`` is kept, with
what bounds the network (``max_iter``, ``max_stoich``, ...) and without what names files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tauslab.model.bngl import end_time
from tauslab.model.errors import ModelError

_ACTION_BLOCKS = ("actions", "protocol")
_OPTIONS = ("setOption", "substanceUnits", "setModelName", "version")
_CALL = re.compile(r"(?:\d+\s+)?(\w+)\s*\((.*)\)\s*;?\Z", re.DOTALL)
_OF_FILES = re.compile(
    r"""\b(?:prefix|suffix|overwrite|write|TextSpecies|TextReaction)\s*=>\s*"""
    r"""(?:"[^"]*"|'[^']*'|\w+)\s*,?\s*"""
)


@dataclass(frozen=True)
class Action:
    """A call outside of the blocks that describe the model."""

    line: int
    name: str
    arguments: str

    @property
    def changes_values(self) -> bool:
        """Whether it sets parameters or amounts: what runs after it is another model."""
        return self.name.startswith(("set", "add"))


@dataclass(frozen=True)
class RuleModel:
    """A model in rules, ready for BioNetGen: `text` generates its network and does nothing else.

    `t_end` is that of the first simulation among the actions, `left_out` the actions but for
    ``generate_network``.
    """

    text: str
    t_end: float | None
    left_out: tuple[Action, ...]


def part(text: str) -> RuleModel:
    """Part the text of a .bngl file.

    Raises
    ------
    ModelError
        There are no blocks, or a line outside of them is not an action.
    """
    kept: list[str] = []
    actions: list[Action] = []
    inside, blocks = "", 0
    for number, raw, line in _logical_lines(text):
        words = line.split()
        stays = True
        if words[:1] == ["begin"] and words[1:] != ["model"]:
            inside = " ".join(words[1:])
            stays = inside not in _ACTION_BLOCKS
            blocks += stays
        elif words[:1] == ["end"] and words[1:] != ["model"]:
            stays, inside = inside not in _ACTION_BLOCKS, ""
        elif line and (not inside or inside in _ACTION_BLOCKS) and words[1:] != ["model"]:
            stays = line.split("(")[0].strip() in _OPTIONS
            if not stays:
                actions.append(_action(line, number))
        kept += raw if stays else [""] * len(raw)
    if not blocks:
        names = ", ".join(dict.fromkeys(action.name for action in actions)) or "nothing"
        raise ModelError(f"holds no blocks of a model, only {names}: give the file that has them")
    return _rule_model(kept, actions)


def _rule_model(kept: list[str], actions: list[Action]) -> RuleModel:
    generations = [action for action in actions if action.name == "generate_network"]
    inner = generations[0].arguments.strip() if generations else ""
    inner = _OF_FILES.sub("", inner.removeprefix("{").removesuffix("}")).strip().rstrip(",")
    kept.append(f"generate_network({{{inner}{',' if inner else ''}overwrite=>1}})")
    told = "\n".join(f"{action.name}({action.arguments})" for action in actions)
    others = tuple(action for action in actions if action.name != "generate_network")
    return RuleModel("\n".join(kept) + "\n", end_time(told), others)


def _logical_lines(text: str) -> Iterator[tuple[int, list[str], str]]:
    """Number of the first line, the lines as they are, and joined without comments."""
    lines, at = text.splitlines(), 0
    while at < len(lines):
        first, line = at, lines[at].partition("#")[0].strip()
        while line.endswith("\\") and at + 1 < len(lines):
            at += 1
            line = line[:-1] + " " + lines[at].partition("#")[0].strip()
        at += 1
        yield first + 1, lines[first:at], line.strip()


def _action(line: str, number: int) -> Action:
    match = _CALL.match(line)
    if match is None:
        raise ModelError(f"line {number}: {line!r} is neither in a block nor an action")
    return Action(number, match[1], match[2])
