"""Antimony, a language for models, by the package of its authors, which takes and gives SBML."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from itertools import count
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.files.extras import installing
from tauslab.base.option_names import warn
from tauslab.formats.limited import Limits, run_limited
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.formats.sbml.text import read_text
from tauslab.formats.sbml.writer import sbml_text
from tauslab.formats.text_files import write_text
from tauslab.model.network.network import Network
from tauslab.model.network.parts import NetworkData

_SECONDS, _STATEMENTS = 8, 400  # of a core; statements for each second more
_MEMORY = 8 << 30
_SAYS = "antimony: "
_DIGITS = 15  # of a number that antimony writes
_POWERS = 400  # of ten: doubles have fewer
_FIRST_SHORT = 6_128_470_000  # before .00001 it stands for a longer number, in as many digits
_LITERAL = re.compile(r"(?<![\w.])[0-9.]{16,}(?:[eE][-+]?[0-9]+)?(?![\w.])")  # in Antimony
_NUMBER = re.compile(  # a value of an attribute, or in MathML
    r'(?P<before>"|<cn(?: type="[a-z-]+")?>)(?P<sign>-?)(?P<digits>[0-9.]{16,})'
    r'(?P<power>(?:<sep/>|[eE])[-+]?[0-9]+)?(?P<after>"|</cn>)'
)
# It may go round for hours, or end with its process, and answers no Ctrl-C: so it has its own.
_PROGRAM = f"""
import sys, antimony
if antimony.loadAntimonyString(open("model.ant", encoding="utf-8").read()) < 0:
    sys.stdout.write({_SAYS!r} + antimony.getLastError())
    sys.exit(1)
with open("model.xml", "w", encoding="utf-8") as file:
    file.write(antimony.getSBMLString(antimony.getMainModuleName()))
"""


def import_antimony() -> Any:
    """Return the module ``antimony``.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    try:
        return importlib.import_module("antimony")
    except ImportError:
        raise ConfigError(
            f"Antimony needs the package antimony, which is not installed: {installing('antimony')}"
        ) from None


def read_antimony(path: str | Path) -> Network:
    """Read an Antimony file, as the SBML that it stands for.

    Raises
    ------
    ModelError
        The file is missing or is no Antimony (the package's message, with the line), or as
        `tauslab.formats.sbml.reader.read_sbml`.
    ConfigError
        The package ``antimony`` is not installed.
    """
    path = Path(path)
    text = read_text(path)
    network = read_sbml_text(sbml_of_antimony(text, str(path)), path)
    network.source_text = text
    return network


def write_antimony(network: NetworkData, path: str | Path | None = None) -> str:
    """Antimony of a network, written to a file if there is one; see `Network.to_antimony`."""
    return write_text(antimony_text(network), path, (".ant",))


def antimony_text(network: NetworkData) -> str:
    """Antimony of a network.

    Raises
    ------
    ModelError
        The network cannot be written as SBML, or the package refuses that.
    ConfigError
        The package is not installed.
    """
    antimony = import_antimony()
    antimony.clearPreviousLoads()
    sbml, held = _with_short_numbers(sbml_text(network))
    if antimony.loadSBMLString(sbml) < 0:
        raise ModelError(f"{network.name}: antimony cannot take it: {_error(antimony)}")
    text = str(antimony.getAntimonyString(antimony.getMainModuleName()))
    for short, number in held.items():
        if short not in text:
            raise ModelError(f"{network.name}: antimony loses digits of {number}: give SBML")
        text = text.replace(short, number)
    if lost := _lost(network):
        warn(f"{network.name}: Antimony cannot store these, SBML can: {', '.join(lost)}")
    return text


def _with_short_numbers(sbml: str) -> tuple[str, dict[str, str]]:
    """SBML in which short numbers stand for those of which antimony writes 15 digits alone.

    With what each stands for.
    """
    held: dict[str, str] = {}
    names = _short_numbers(sbml)

    def short(found: re.Match[str]) -> str:
        before, sign, digits, power, after = found.groups(default="")
        if len(digits.replace(".", "").strip("0")) <= _DIGITS:
            return found[0]
        name = next(names)
        held[name] = digits + power.replace("<sep/>", "e")
        return f"{'<cn>' if after == '</cn>' else before}{sign}{name}{after}"

    return _NUMBER.sub(short, sbml), held


def _short_numbers(text: str) -> Iterator[str]:
    """Numbers of which antimony writes all digits, none of which is in a text."""
    names = (f"{_FIRST_SHORT + i}.00001" for i in count())
    return (name for name in names if name not in text)


def _lost(network: NetworkData) -> list[str]:
    """Say what annotations of SBML hold."""
    result = [
        f"rule {rule.name} is not recorded" for rule in network.rules.values() if not rule.recorded
    ]
    result += [
        f"reaction {one.name} has a limit for many molecules"
        for one in network.reactions
        if one.limit is not None
    ]
    return result


def sbml_of_antimony(text: str, label: str) -> str:
    """SBML of a model in Antimony, submodels put together; `label` names it in messages.

    Raises
    ------
    ModelError
        The package's message, with the line.
    ConfigError
        The package is not installed.
    """
    if importlib.util.find_spec("antimony") is None:
        import_antimony()
    names, held = _short_numbers(text), dict[str, str]()
    for number in dict.fromkeys(_LITERAL.findall(text)):
        with suppress(InvalidOperation):  # no number: antimony says so
            if abs(Decimal(number).adjusted()) < _POWERS:
                held[number] = f"{Decimal(number):f}"
    short = dict(zip(held, names, strict=False))
    text = _LITERAL.sub(lambda found: short.get(found[0], found[0]), text)
    computing = max(_SECONDS, (text.count("\n") + text.count(";")) // _STATEMENTS)
    limits = Limits(10 * computing, _MEMORY, computing=computing)
    places = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with tempfile.TemporaryDirectory(prefix="tauslab-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "work" / "model.ant").write_text(text, encoding="utf-8")
        done = run_limited([sys.executable, "-c", _PROGRAM], folder, limits, places)
        if done.code == 0:
            sbml = (folder / "work" / "model.xml").read_text(encoding="utf-8")
            for number, written in short.items():
                sbml = sbml.replace(written, held[number])
            return sbml
    if done.code == 1 and done.out.startswith(_SAYS):
        raise ModelError(f"{label}: {' '.join(done.out.removeprefix(_SAYS).split())}")
    if done.overdue or done.code in (-signal.SIGXCPU, -signal.SIGKILL):
        raise ModelError(
            f"{label}: antimony has not read it in {computing} s: it takes the square of the terms "
            "of a formula, and more of rules that use each other; SBML is read faster"
        )
    raise ModelError(
        f"{label}: antimony ended with code {done.code}, without a message: {done.error}"
    )


def _error(antimony: Any) -> str:
    return " ".join(str(antimony.getLastError()).split())
