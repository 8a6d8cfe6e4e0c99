"""Reader of StochPy's models, ``.psc``, in the language of PySCeS.

A reaction is a name, a stoichiometry and a rate equation, which is the propensity::

    R1:
        {2.0}P > D
        k1 * P * (P - 1) / 2

Rate equations and events are taken as they are written; ``$pool`` is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tauslab.base.errors import ModelError
from tauslab.model.network.network import Network

_COMMENT = re.compile(r"#.*")
_NAME = r"[A-Za-z_]\w*"
_REACTION = re.compile(rf"({_NAME})(?:@({_NAME}))?\s*:\s*(.*)\Z")
_VALUE = re.compile(rf"({_NAME})\s*=\s*(.+)\Z")
_FORCED = re.compile(rf"!F\s+({_NAME})\s*=\s*(.+)\Z")
_TERM = re.compile(rf"(?:\{{\s*([\d.eE+-]+)\s*\}})?\s*(\$?{_NAME})\Z")
_EVENT = re.compile(rf"({_NAME})\s*,(.*),\s*([^,{{]+?)\s*\{{(.*)\}}\Z", re.DOTALL)
_REMARKS = ("Modelname", "Description", "KeyWords", "Output_In_Conc", "ModelType")
_UNITS = re.compile(r"Unit\w+")
_TIME = re.compile(r"\b_TIME_\b")
_REFUSED = ("Function", "RateRule", "Compartment")


@dataclass(frozen=True)
class _Reaction:
    name: str
    equation: str
    law: str
    species: tuple[str, ...]


def read_psc(path: str | Path) -> Network:
    """Read a model of StochPy.

    Raises
    ------
    ModelError
        The file is no such model, or has what tauslab lacks: reversible reactions, compartments,
        functions, rate rules; line and element are named.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is no text: {error.reason}") from None
    network = Network(path.stem)
    network.source_path, network.source_text = path, text
    try:
        _Reader(network).read(text)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return network


class _Reader:
    """Collects the parts of a file, of which the order is free, and adds them to a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._fixed: list[str] = []
        self._reactions: list[_Reaction] = []
        self._values: dict[str, str] = {}
        self._forced: dict[str, str] = {}
        self._events: list[str] = []

    def read(self, text: str) -> None:
        """Read all lines, then add what they say."""
        lines = iter(_lines(text))
        for number, line in lines:
            where = f"line {number}"
            if forced := _FORCED.match(line):
                self._forced[forced[1]] = forced[2]
            elif value := _VALUE.match(line):
                self._values[value[1]] = value[2]
            elif head := _REACTION.match(line):
                self._read_block(head, lines, where)
            else:
                raise ModelError(f"{where}: {line!r:.60} is neither a reaction nor a value")
        self._add()

    def _read_block(
        self, head: re.Match[str], lines: Iterator[tuple[int, str]], where: str
    ) -> None:
        name, compartment, rest = head.groups()
        if name in _REMARKS or _UNITS.fullmatch(name):
            return
        if name == "FIX":
            self._fixed += rest.split()
        elif name == "Species_In_Conc":
            if rest.strip() not in ("False", "True"):
                raise ModelError(f"{where}: Species_In_Conc is False or True, not {rest!r:.30}")
        elif name == "Event":
            self._events.append(rest if "}" in rest else rest + _until_brace(lines, where))
        elif name in _REFUSED or compartment:
            what = "a compartment" if compartment else name
            raise ModelError(f"{where}: {what} is not supported")
        else:
            equation = rest or next(lines, (0, ""))[1]
            law = next(lines, (0, ""))[1]
            if not equation or not law or ":" in equation + law:
                raise ModelError(f"{where}: reaction {name} lacks its stoichiometry or its rate")
            self._reactions.append(_reaction(name, equation, law))

    def _add(self) -> None:
        network = self._network
        named = dict.fromkeys(s for one in self._reactions for s in one.species)
        species = [*named, *(name for name in self._fixed if name not in named)]
        for name in species:
            if name not in self._values:
                raise ModelError(f"species {name} has no initial amount")
            network.add_species(name, self._values[name], fixed=name in self._fixed)
        for name, value in self._values.items():
            if name not in species:
                network.add_parameter(name, value)
        for name, law in self._forced.items():
            network.add_rule(name, _timed(law))
        for one in self._reactions:
            network.add_reaction(one.equation, law=_timed(one.law), name=one.name)
        for text in self._events:
            self._add_event(text)

    def _add_event(self, text: str) -> None:
        result = _EVENT.match(text.strip())
        if result is None:
            raise ModelError(f"event {text!r:.40}: write NAME, TRIGGER, DELAY {{ X = VALUE }}")
        name, trigger, delay, body = result.groups()
        assigned = {}
        for line in filter(None, map(str.strip, re.split(r"[;\n]", body))):
            value = _VALUE.match(line)
            if value is None:
                raise ModelError(f"event {name}: {line!r:.40} is no assignment")
            assigned[value[1]] = _timed(value[2])
        late = None if delay in ("0", "0.0") else delay
        self._network.add_event(
            name, assignments=assigned, trigger=_timed(trigger.strip()), delay=late, initial=False
        )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if message := _COMMENT.sub("", line).strip():
            yield number, message


def _until_brace(lines: Iterator[tuple[int, str]], where: str) -> str:
    """The rest of an event, of several lines."""
    message = ""
    for _, line in lines:
        message += f"\n{line}"
        if "}" in line:
            return message
    raise ModelError(f"{where}: the event has no closing brace")


def _timed(law: str) -> str:
    return _TIME.sub("time", law)


def _reaction(name: str, text: str, law: str) -> _Reaction:
    if "=" in text:
        raise ModelError(
            f"reaction {name}: {text!r:.60} is reversible, which has no propensity: write two "
            "reactions with >"
        )
    sides, species = [], list[str]()
    if text.count(">") != 1:
        raise ModelError(f"reaction {name}: {text!r:.60} is no stoichiometry A + {{2.0}}B > C")
    for side in text.split(">"):
        terms = []
        for term in filter(None, map(str.strip, side.split("+"))):
            result = _TERM.match(term)
            number = float(result[1] or 1) if result else 0.5
            if result is None or number != int(number):
                raise ModelError(f"reaction {name}: {term!r:.40} is no term such as {{2.0}}B")
            if not result[2].startswith("$"):
                species.append(result[2])
                terms.append(f"{int(number)} {result[2]}" if number != 1 else result[2])
        sides.append(" + ".join(terms))
    return _Reaction(name, f"{sides[0]} -> {sides[1]}", law, tuple(dict.fromkeys(species)))
