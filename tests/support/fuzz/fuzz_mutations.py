"""Ways to make a model file slightly or utterly wrong: text, bytes, events of SBML, and HDF5 by its objects."""

from __future__ import annotations

import copy
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Change = Callable[[str, random.Random], str]
MOST = 400_000  # characters of a text that is repeated again and again
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*(?:[eE][-+]?\d+)?|\S")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
_NUMBERS = (
    "0", "-0.0", "-1", "1", "2", "0.5", "1e-300", "1e-320", "1e300", "1e308", "-1e308", "1e400",
    "-1e400", "nan", "inf", "-inf", "NaN", "INF", "2147483647", "2147483648", "-2147483649",
    "4294967297", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1e99999", "1e-99999", "4e9", "0x10", "1_000", "1.", ".5", "1e",
    "1e+", "1" * 400, "0." + "0" * 400 + "1",
)  # fmt: skip
_TOKENS = (
    "true", "false", '""', "''", "[]", "{}", "[[]]", "(", ")", "[", "]", "{", "}", "^", "**", "/",
    "%", "=", "==", ",", ";", ":", "#", "\\", "<", ">", "&", "&amp;", "&#0;", "<!--", "-->",
    "time", "pi", "e", "if", "inf()", "nan()", "not", "min()", "max(1)", "pow(1)", "exp(1e9)",
    "x", "X", "piecewise(1,2)", "_", "__class__", "../../x", "/dev/zero", "/etc/passwd",
    "$(touch;x)", "`touch;x`", "0", "NULL", "None", "*", "2", "1.5", "", "/ 0", "\n", "\r", "\t",
    "-> X", "X ->", '"""', "A" * 3000, "begin", "end",
)  # fmt: skip
_CHARACTERS = (
    "\x00", "\x01", "\x07", "\x08", "\x1a", "\x1b[2J", "\x7f", "\xe9", "\u0301", "\u0661",
    "\u200b", "\u202e", "\ufeff", "\ufffe", "\ufffd", "\U0001f9ec", "\udc80", "\xb2", "\u2160",
    "\uff11", "\u212a", "\x0b", "\x0c", "\x85", "\xa0", "\u2028",
)  # fmt: skip
_NESTS = (("(", ")"), ("[", "]"), ("{", "}"), ("-", ""), ("!", ""), ("1+(", ")"), ("exp(", ")"))


def changed_text(text: str, dice: random.Random) -> str:
    """The text with one to three changes, of any kind."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        text = dice.choice(CHANGES)(text, dice)
    return text


def _spot(pattern: re.Pattern[str], text: str, dice: random.Random) -> re.Match[str] | None:
    """A match at random, without looking at all of a long text."""
    begin = dice.randrange(len(text) + 1)
    return pattern.search(text, begin) or pattern.search(text)


def _other_number(text: str, dice: random.Random) -> str:
    place = _spot(_NUMBER, text, dice)
    if place is None:
        return text
    return text[: place.start()] + dice.choice(_NUMBERS) + text[place.end() :]


def _other_token(text: str, dice: random.Random) -> str:
    place, other = _spot(_TOKEN, text, dice), _spot(_TOKEN, text, dice)
    if place is None or other is None:
        return dice.choice(_TOKENS)
    new = dice.choice((dice.choice(_TOKENS), other.group(), dice.choice(_NUMBERS)))
    return text[: place.start()] + new + text[place.end() :]


def _swapped_tokens(text: str, dice: random.Random) -> str:
    places = [match for match in (_spot(_TOKEN, text, dice) for _ in range(2)) if match]
    if len(places) < 2:
        return text
    first, second = sorted(places, key=lambda match: match.start())
    if first.end() > second.start():
        return text
    middle = text[first.end() : second.start()]
    return text[: first.start()] + second.group() + middle + first.group() + text[second.end() :]


def _more_text(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice((*_TOKENS, *_CHARACTERS)) + text[at:]


def _other_lines(text: str, dice: random.Random) -> str:
    """A line or a block of lines deleted, doubled, moved, or swapped with another."""
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at = dice.randrange(len(lines))
    size = dice.choice((1, 1, 1, 3, 10, len(lines)))
    block = lines[at : at + size]
    kind = dice.randrange(4)
    if kind == 0:
        del lines[at : at + size]
    elif kind == 1:
        to = dice.randrange(len(lines) + 1)
        lines[to:to] = block
    elif kind == 2:
        del lines[at : at + size]
        to = dice.randrange(len(lines) + 1)
        lines[to:to] = block
    else:
        other = dice.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def _less_text(text: str, dice: random.Random) -> str:
    begin = dice.randrange(len(text) + 1)
    return text[:begin] + text[begin + dice.choice((1, 2, 5, 40, 200, len(text))) :]


def _repeated(text: str, dice: random.Random) -> str:
    """A piece, a line or a token very many times."""
    begin = dice.randrange(len(text) + 1)
    piece = text[begin : begin + dice.choice((1, 3, 20, 200))]
    if dice.random() < 0.5:
        line = text[text.rfind("\n", 0, begin) + 1 : text.find("\n", begin) + 1]
        piece = line or piece
    if not piece:
        return text
    times = min(dice.choice((10, 100, 2000, 20_000)), MOST // len(piece))
    return text[:begin] + piece * times + text[begin:]


def _nested(text: str, dice: random.Random) -> str:
    """A token inside of very many brackets, signs or calls, or an element in very many elements."""
    depth = dice.choice((10, 100, 500, 2000, 20_000))
    if dice.random() < 0.2 and (element := _spot(re.compile(r"<(\w+)>"), text, dice)):
        tag = element.group(1)
        at = element.start()
        closing = f"</{tag}>" * depth if dice.random() < 0.7 else ""
        return text[:at] + f"<{tag}>" * depth + closing + text[at:]
    place = _spot(_TOKEN, text, dice)
    opening, closing = dice.choice(_NESTS)
    inner = place.group() if place else "1"
    begin, end = place.span() if place else (0, 0)
    return text[:begin] + opening * depth + inner + closing * depth + text[end:]


def _flipped_bytes(text: str, dice: random.Random) -> str:
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(dice.choice((1, 1, 2, 8))):
        if content:
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return content.decode("utf-8", "surrogateescape")


CHANGES: tuple[Change, ...] = (
    _other_number, _other_number, _other_number, _other_token, _other_token, _other_token,
    _swapped_tokens, _more_text, _more_text, _other_lines, _other_lines, _less_text, _repeated,
    _nested, _flipped_bytes,
)  # fmt: skip


def changed_bytes(content: bytes, dice: random.Random) -> bytes:
    """Bytes with some bits turned, a piece cut off, zeroed, doubled or replaced."""
    changed = bytearray(content)
    kind = dice.randrange(6)
    at = dice.randrange(len(changed) + 1)
    size = dice.choice((1, 2, 8, 64, 512))
    if kind == 0:
        return bytes(changed[:at])
    if kind == 1:
        changed[at : at + size] = bytes(len(changed[at : at + size]))
    elif kind == 2:
        changed[at:at] = changed[at : at + size]
    elif kind == 3:
        changed[at : at + size] = dice.randbytes(len(changed[at : at + size]))
    else:
        # Most of a small HDF5 file is metadata, of which the beginning counts most.
        most = dice.choice((len(changed), min(len(changed), 4096)))
        for _ in range(dice.choice((1, 1, 2, 8))):
            changed[dice.randrange(most)] ^= 1 << dice.randrange(8)
    return bytes(changed)


# ------------------------------------------------------------------------ events of SBML

_MATHML = "http://www.w3.org/1998/Math/MathML"
_TIME = '<csymbol encoding="text" definitionURL="http://www.sbml.org/sbml/symbols/{}">s</csymbol>'
# What may stand in a formula. {id} is a name of the model.
_CONDITIONS = (
    "<true/>", "<false/>", f"<apply><geq/>{_TIME.format('time')}<cn>0.005</cn></apply>",
    f"<apply><eq/>{_TIME.format('time')}<ci>{{id}}</ci></apply>",
    f"<apply><gt/>{_TIME.format('time')}<cn>0</cn></apply>", "<apply><and/></apply>",
    "<apply><lt/><ci>{id}</ci><cn>1e9</cn></apply>", "<apply><xor/><true/></apply>",
    "<apply><neq/><apply><floor/><ci>{id}</ci></apply><ci>{id}</ci></apply>",
    "<piecewise><otherwise><true/></otherwise></piecewise>",
    "<piecewise><piece><true/><apply><gt/><ci>{id}</ci><cn>1</cn></apply></piece></piecewise>",
    f"<apply><gt/><apply>{_TIME.format('delay')}<ci>{{id}}</ci><cn>1</cn></apply><cn>1</cn></apply>",
    "<apply><not/>" * 150 + "<true/>" + "</apply>" * 150,
)  # fmt: skip
_NUMBERED = (
    "<cn>0</cn>", "<cn>-1</cn>", "<cn>1e400</cn>", '<cn type="integer">3</cn>', "<notanumber/>",
    "<infinity/>", "<ci>{id}</ci>", _TIME.format("time"), _TIME.format("avogadro"),
    f"<apply>{_TIME.format('delay')}<ci>{{id}}</ci><cn>1</cn></apply>",
    f"<apply>{_TIME.format('rateOf')}<ci>{{id}}</ci></apply>", "<cn>2147483648</cn>",
    "<apply><divide/><ci>{id}</ci><cn>0</cn></apply>", "<apply><root/><cn>-1</cn></apply>",
    "<apply><minus/><ci>{id}</ci></apply>", "<apply><factorial/><ci>{id}</ci></apply>",
    "<piecewise><piece><ci>{id}</ci><apply><lt/><ci>{id}</ci><cn>2</cn></apply></piece></piecewise>",
    "<apply><plus/>" * 150 + "<ci>{id}</ci>" + "</apply>" * 150,
)  # fmt: skip
_ODD = (
    "<ci>nobody</ci>", "", "<cn></cn>", "<apply/>", "<pi/><pi/>", "<apply><gt/><ci>{id}</ci></apply>",
    "<apply><not/><ci>{id}</ci></apply>", "<apply><ci>{id}</ci><cn>1</cn></apply>", "<piecewise/>",
    "<piecewise><piece><true/><true/></piece><otherwise><cn>2</cn></otherwise></piecewise>",
    "<lambda><bvar><ci>x</ci></bvar><ci>x</ci></lambda>", "<semantics><cn>1</cn></semantics>",
)  # fmt: skip
_FLAGS = {
    "trigger": ("initialValue", "persistent"), "event": ("useValuesFromTriggerTime", "id"),
    "eventAssignment": ("variable",),
}  # fmt: skip
_OF_EVENTS = ("event", "trigger", "delay", "priority", "listOfEventAssignments", "eventAssignment")


def changed_events(text: str, dice: random.Random) -> str:
    """SBML with one to four changes of its events: flags, targets, formulas, elements."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - files of this project
    except ET.ParseError:
        return text
    for _ in range(dice.choice((1, 1, 2, 3, 4))):
        dice.choice(_EVENT_CHANGES)(root, dice)
    return ET.tostring(root, encoding="unicode")


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _like(element: ET.Element, name: str) -> str:
    """The tag of another element in the same namespace."""
    return element.tag.rpartition("}")[0] + "}" * ("}" in element.tag) + name


def _named(root: ET.Element, *names: str) -> list[ET.Element]:
    return [element for element in root.iter() if _local(element) in names]


def _any_name(root: ET.Element, dice: random.Random) -> str:
    """A name that something in the model has, most often a quantity."""
    quantities = _named(root, "species", "parameter", "compartment")
    actual = quantities if quantities and dice.random() < 0.8 else list(root.iter())
    return dice.choice([e.get("id") or e.get("name") or "x" for e in actual])


def _formula(root: ET.Element, dice: random.Random, where: str) -> ET.Element:
    """A formula: one of the model, a new one that may stand in `where`, or any."""
    known = _named(root, "math")
    if known and dice.random() < 0.15:
        return copy.deepcopy(dice.choice(known))
    good = _CONDITIONS if where == "trigger" else _NUMBERED
    listed = good if dice.random() < 0.85 else (*_CONDITIONS, *_NUMBERED, *_ODD)
    inside = dice.choice(listed).replace("{id}", _any_name(root, dice))
    return ET.fromstring(f'<math xmlns="{_MATHML}">{inside}</math>')  # noqa: S314


def _other_flag(root: ET.Element, dice: random.Random) -> None:
    for element in dice.sample(actual := _named(root, *_FLAGS), min(1, len(actual))):
        flag = dice.choice(_FLAGS[_local(element)])
        name = _any_name(root, dice)
        pick = dice.random()
        if pick < 0.1:
            element.attrib.pop(flag, None)
        elif pick < 0.2:
            element.set(flag, dice.choice(("", "maybe", "2", name)))
        elif flag == "variable":
            element.set(flag, name)
            for target in [e for e in root.iter() if e.get("id") == name and dice.random() < 0.8]:
                target.set("constant", "false")
        else:
            element.set(flag, name if flag == "id" else dice.choice(("true", "false", "1", "0")))


def _other_formula(root: ET.Element, dice: random.Random) -> None:
    actual = _named(root, "trigger", "delay", "priority", "eventAssignment")
    for element in dice.sample(actual, min(1, len(actual))):
        if dice.random() < 0.97:
            for math in _named(element, "math"):
                element.remove(math)
        if dice.random() < 0.97:
            element.append(_formula(root, dice, _local(element)))


def _other_part(root: ET.Element, dice: random.Random) -> None:
    """An element of an event deleted, doubled, or moved into another."""
    parents = [(above, e) for above in root.iter() for e in above if _local(e) in _OF_EVENTS]
    for above, element in dice.sample(parents, min(1, len(parents))):
        kind = dice.randrange(4)
        if kind in (0, 2):
            above.remove(element)
        if kind > 0:
            to = above if kind == 1 else dice.choice([a for a, _ in parents])
            to.insert(dice.randrange(len(to) + 1), copy.deepcopy(element))


def _more_parts(root: ET.Element, dice: random.Random) -> None:
    """A delay, a priority or a trigger that an event has not; or one of its assignments more."""
    for event in dice.sample(actual := _named(root, "event"), min(1, len(actual))):
        name = dice.choice(("delay", "priority", "trigger", "eventAssignment"))
        made = ET.Element(_like(event, name))
        made.append(_formula(root, dice, name))
        if name == "trigger":
            made.attrib.update(initialValue="false", persistent="false")
        lists = _named(event, "listOfEventAssignments")
        if name == "eventAssignment" and lists:
            made.set("variable", _any_name(root, dice))
            lists[0].append(made)
        else:
            if dice.random() < 0.8:
                for before in [e for e in event if _local(e) == name]:
                    event.remove(before)
            event.insert(dice.choice((0, 1, 1, 1, len(event))), made)


def _many_events(root: ET.Element, dice: random.Random) -> None:
    """An event very many times, with names of their own or with one."""
    lists = [e for e in _named(root, "listOfEvents") if len(e)]
    for listed in lists[:1]:
        event, same = dice.choice(list(listed)), dice.random() < 0.2
        for number in range(dice.choice((2, 40, 300))):
            again = copy.deepcopy(event)
            if not same:
                again.set("id", f"again_{number}")
            listed.append(again)


_EVENT_CHANGES: tuple[Callable[[ET.Element, random.Random], None], ...] = (
    _other_flag, _other_flag, _other_flag, _other_formula, _other_formula, _other_formula,
    _other_formula, _other_formula, _other_part, _more_parts, _more_parts, _many_events,
)  # fmt: skip


# ------------------------------------------------------------------------ HDF5 by its objects

_VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2**31, 2**32, 2**63 - 1, -(2**63), 0.5, 1e-300, 1e300, -1e300),
    *(float("nan"), float("inf"), "", "A", "A,B", "\x00", "\u00e9\u202e", "x" * 70_000),
    *(b"\xff\xfe", [], [1, 2, 3], [0.5, float("nan")], [""]),
)


def change_hdf5(path: Path, dice: random.Random) -> None:
    """Change one to three objects or attributes: deleted, of another type, shape or value."""
    with h5py.File(path, "r+") as file:
        for _ in range(dice.choice((1, 1, 2, 3))):
            names: list[str] = []
            file.visit(names.append)
            actual = file[dice.choice(names)] if names else file
            if len(actual.attrs) and dice.random() < 0.4:
                _change_attribute(actual, dice)
            elif isinstance(actual, h5py.Dataset):
                _change_dataset(file, actual, dice)
            elif actual.name != "/":
                _change_group(file, actual.name, dice)


def _change_attribute(found: Any, dice: random.Random) -> None:
    name = dice.choice(sorted(found.attrs))
    if dice.random() < 0.25:
        del found.attrs[name]
        return
    value = dice.choice(_VALUES)
    with_shape = np.asarray(value)
    try:
        found.attrs[name] = value if with_shape.dtype.kind in "US" else with_shape
    except (TypeError, ValueError, OSError):
        found.attrs[name] = 0


def _change_dataset(file: h5py.File, found: h5py.Dataset, dice: random.Random) -> None:
    name, kind = found.name, dice.randrange(6)
    values: Any = found[()]
    del file[name]
    if kind == 0:
        return
    if kind == 1:
        file.create_group(name)
    elif kind == 2:
        file[name] = (
            h5py.ExternalLink("none.h5", "/x") if dice.random() < 0.5 else h5py.SoftLink("/x")
        )
    elif (
        kind == 3 and isinstance(values, np.ndarray) and values.size and values.dtype.kind in "iuf"
    ):
        flat = values.copy().reshape(-1)
        with np.errstate(all="ignore"):
            number = dice.choice([v for v in _VALUES if isinstance(v, int | float)])
            flat[dice.randrange(flat.size)] = np.array(float(number)).astype(flat.dtype)
        file[name] = flat.reshape(values.shape)
    elif kind == 4 and isinstance(values, np.ndarray) and values.ndim:
        axis = dice.randrange(values.ndim)
        length = dice.choice((0, 1, max(values.shape[axis] - 1, 0)))
        file[name] = np.take(values, range(min(length, values.shape[axis])), axis)
    else:
        value = dice.choice([v for v in _VALUES if v not in ("\x00", [""])])
        file[name] = value if isinstance(value, str | bytes) else np.asarray(value, "f8")


def _change_group(file: h5py.File, name: str, dice: random.Random) -> None:
    kind = dice.randrange(3)
    if kind == 0:
        del file[name]
    elif kind == 1:
        del file[name]
        file[name] = 1.0
    else:
        file.move(name, name + "_")
