"""Models in rules (.bngl): BioNetGen, where it is installed, generates the network that is read."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tauslab.base.errors import ModelError
from tauslab.base.option_names import opt, warn
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
from tauslab.formats.bionetgen.net import end_time, parse_net, read_net
from tauslab.formats.bionetgen.tables import without_tables
from tauslab.formats.limited import Done, Limits, run_limited
from tauslab.model.network.network import Network

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
        reported = f", only {', '.join(dict.fromkeys(called))}" if called else ""
        raise ModelError(f"holds no blocks of a model{reported}: give the file that has them")
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
    reported = "\n".join(f"{action.name}({action.arguments})" for action in actions)
    others = tuple(action for action in actions if action.name != "generate_network")
    return RuleModel("\n".join(kept) + "\n", name, end_time(reported), others)


def _action(line: Line) -> Action:
    match = _CALL.match(line.text)
    if match is None:
        raise ModelError(f"line {line.first}: {_shown(line)} is neither in a block nor an action")
    return Action(line.first, match[1], match[2])


def _shown(line: Line) -> str:
    text = line.text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


PROGRAM = "BNG2.pl"
SECONDS, MEMORY = 3600, 8  # that it may take, and GiB, where TAUSLAB_BNGL_* say nothing else
_PACKAGED = {"linux": "bng-linux", "darwin": "bng-mac", "win32": "bng-win"}
_VERSION = re.compile(r"Created by BioNetGen (\S+)")
_TROUBLE = re.compile(r"(?:ERROR|ABORT):\s*([^\n]+)(?:\n\s*(at line \d+))?")


@dataclass(frozen=True)
class Generated:
    """The network that BioNetGen made of a .bngl file: text of a .net, so that ranks can pass it.

    `source` is the text of the .bngl file, `program` and `version` say what made the network.
    """

    text: str
    source: str
    rules: RuleModel
    program: str
    version: str


def find_bionetgen() -> Path | None:
    """``BNG2.pl`` in the folder ``BNGPATH``, on ``PATH``, or in the Python package ``bionetgen``.

    Raises
    ------
    ModelError
        ``BNGPATH`` is set and has none.
    """
    folder = os.environ.get("BNGPATH")
    if folder:
        if not Path(folder, PROGRAM).is_file():
            raise ModelError(f"BNGPATH is {folder!r}, which holds no {PROGRAM}")
        return Path(folder, PROGRAM)
    result = shutil.which(PROGRAM)
    if result is not None:
        return Path(result)
    package = importlib.util.find_spec("bionetgen")
    for place in (package and package.submodule_search_locations) or ():
        packaged = Path(place, _PACKAGED.get(sys.platform, ""), PROGRAM)
        if packaged.is_file():
            return packaged
    return None


def read_bngl(path: str | Path) -> Network:
    """Read a .bngl file: `generate` its network, then `network_of` it.

    Raises
    ------
    ModelError
        As those two.
    """
    return network_of(generate(path), path)


def generate(path: str | Path) -> Generated:
    """Let BioNetGen generate the network, in a temporary folder, with limits of time and memory.

    It is given a file that is written anew, of the blocks and options that are known.  The actions
    of the file are not run, but for ``generate_network``, whose bounds count.

    Raises
    ------
    ModelError
        The file cannot be read, BioNetGen is not there, or says that the model is wrong.
    """
    path = Path(path)
    try:
        source = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        rules, program = part(without_tables(source)), _program(path)
        text = _run(program, rules.text)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    version = _VERSION.search(text)
    return Generated(text, source, rules, str(program), version[1] if version else "(no version)")


def read_with_actions(path: Path) -> tuple[Network, tuple[Action, ...]]:
    """Read a network and the actions to run on it.

    The actions of a .net file are its own, or those of the .bngl file of its name beside it.

    Raises
    ------
    ModelError
        The file is of another kind, or as `read_bngl` and `read_net`.
    """
    if path.suffix.lower() == ".bngl":
        generated = generate(path)
        return network_of(generated, path, runs_actions=True), generated.rules.left_out
    if path.suffix.lower() != ".net":
        raise ModelError(f"{path}: a protocol stands in a .bngl or .net file")
    network, beside = read_net(path), path.with_suffix(".bngl")
    for own in (path, beside):
        if own.is_file() and (actions := _actions_in(own)):
            return network, actions
    raise ModelError(f"{path}: neither it nor {beside} holds actions")


def _actions_in(path: Path) -> tuple[Action, ...]:
    try:
        return actions_of(path.read_text(encoding="utf-8-sig", errors="replace"))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def actions_of(text: str) -> tuple[Action, ...]:
    """Actions in the text of a .net or .bngl file, but for ``generate_network``."""
    result = [_action(line) for block, line in _parts(text) if not block and not is_edge(line)]
    return tuple(one for one in result if one.name not in (*OPTIONS, "generate_network"))


def network_of(generated: Generated, path: str | Path, *, runs_actions: bool = False) -> Network:
    """Read what BioNetGen generated from the file `path`.

    Unless the caller runs the actions, `Network.notes` has them all, and a warning appears where
    one sets parameters or amounts.

    Raises
    ------
    ModelError
        The network has what a .net file may not have.
    """
    path, rules = Path(path), generated.rules
    by = f"BioNetGen {generated.version}"
    try:
        network = parse_net(generated.text, rules.name or path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: in the network that {by} generated: {error}") from None
    network.source_path, network.source_text = path, generated.source
    network.t_end = network.t_end if rules.t_end is None else rules.t_end
    network.notes.insert(0, f"the network was generated by {by}, {generated.program}")
    if runs_actions:
        return network
    if rules.left_out:
        reported = ", ".join(f"{action.name} of line {action.line}" for action in rules.left_out)
        network.notes.insert(1, f"actions of the file are not run: {reported}")
    changes = [action for action in rules.left_out if action.changes_values]
    if changes:
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        message = f"{path}: line {changes[0].line}: {changes[0].name}{more} is not run"
        warn(f"{message}; set values by options, or run all actions with {opt('protocol')}")
    return network


def _run(program: Path, text: str) -> str:
    """Text of the .net file that `program` makes of a model."""
    command = [str(program)] if os.access(program, os.X_OK) else ["perl", str(program)]
    environment = {"PERL_HASH_SEED": "0"}  # the same order of everything
    if os.environ.get("BNGPATH"):
        environment["BNGPATH"] = os.environ["BNGPATH"]
    seconds = _limit("TAUSLAB_BNGL_SECONDS", SECONDS)
    limits = Limits(seconds, _limit("TAUSLAB_BNGL_GIB", MEMORY) << 30)
    with tempfile.TemporaryDirectory(prefix="tauslab-") as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        (work / "network.bngl").write_text(text, encoding="ascii")
        done = run_limited([*command, "network.bngl"], folder, limits, environment)
        if done.cannot_run:
            raise ModelError(f"{program} cannot run: {done.cannot_run}; it needs perl")
        if done.overdue:
            raise ModelError(
                f"{program} has not made its network in {seconds} s; give generate_network bounds "
                "(max_iter, max_stoich), or TAUSLAB_BNGL_SECONDS a higher number"
            )
        made = work / "network.net"
        if done.code or not made.is_file():
            raise ModelError(f"{program} made no network of it: {_trouble(done)}")
        return made.read_text(encoding="utf-8", errors="replace")


def _limit(name: str, usual: int) -> int:
    """A limit that the environment may change."""
    given = os.environ.get(name, "")
    if not given:
        return usual
    if not (given.isascii() and given.isdigit() and int(given[:10]) > 0 and len(given) < 10):
        raise ModelError(f"{name} is {given!r}, not a whole number from 1 to 999999999")
    return int(given)


def _trouble(done: Done) -> str:
    """First complaint of BioNetGen, or how it ended."""
    message = done.out + "\n" + done.error
    match = _TROUBLE.search(message)
    if match is not None:
        return f"{match[1].strip().rstrip('.')} {match[2] or ''}".strip()
    if "Out of memory" in message:
        return "it needs more memory than TAUSLAB_BNGL_GIB allows"
    if done.code < 0:
        return f"it was ended by {signal.Signals(-done.code).name}"
    lines = message.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _program(path: Path) -> Path:
    """BioNetGen, or what to do without it."""
    program = find_bionetgen()
    if program is not None:
        return program
    missing = "BioNetGen, which makes a network of rules, is not found"
    ready = path.with_suffix(".net")
    if ready.is_file():
        raise ModelError(f"{missing}; {ready} may be one: run it")
    raise ModelError(
        f"{missing}: 'pip install bionetgen' (or set BNGPATH to the folder of {PROGRAM}), or "
        f"generate_network() elsewhere and run {ready.name}"
    )
