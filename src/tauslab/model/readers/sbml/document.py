"""Opening an SBML file: text, libsbml's errors, packages, units, notes.

Nothing here builds a network; `tauslab.model.readers.sbml.reader` does.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.network.network import Feature
from tauslab.model.portable.host_math import value_of

_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)""")
_ROOT = re.compile(r"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
# libsbml's check of formulas grows with the square of the model (2.6 s at 4000 reactions), and of
# the terms of one formula; the reader finds undefined names by itself, only without the line.
_MATH_CHECKED = 2000
_DEEPEST_ELEMENT = 2000  # libsbml reads XML by recursion: near 6000 it has taken all of the stack
_NO_ENCODINGS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
_TAG = re.compile(r"<[^>]*>")
_WIDE = ("apply", "piecewise")
_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
_END_TIME = re.compile(
    rf"\bt_?end\s*[=:]\s*{_NUMBER}|\bto t\s*=\s*{_NUMBER}"
    rf"|\bsimulate (?:for )?{_NUMBER} ?s(?:ec\w*)?\b",
    re.IGNORECASE,
)


def each(items: Any) -> Iterator[Any]:
    """Elements of one of libsbml's lists."""
    return (items.get(i) for i in range(items.size()))


def shorten(names: list[str], limit: int = 6) -> str:
    """Names for a message, at most `limit` of them."""
    return ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")


def import_libsbml() -> Any:
    """Return the libsbml module.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    try:
        return importlib.import_module("libsbml")
    except ImportError:
        raise ConfigError(
            "reading SBML needs python-libsbml, which is not installed: pip install python-libsbml"
        ) from None


def read_text(path: Path) -> str:
    """Text of an XML file in the encoding it declares (UTF-8 if it declares none)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    declared = _ENCODING.match(data)
    encoding = declared[1].decode("ascii") if declared else "utf-8-sig"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    if encoding.lower().replace("_", "-") in _NO_ENCODINGS:  # Python's own, of no text in a file
        raise ModelError(f"{path}: {encoding!r} is no encoding of a text file")
    try:
        return data.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding)
    except (UnicodeError, LookupError) as error:
        raise ModelError(f"{path}: is not text in the encoding {encoding}: {error}") from None


def open_document(libsbml: Any, text: str, label: str) -> Any:
    """Parse and check SBML text; returns libsbml's document, which holds a model.

    Raises
    ------
    ModelError
        libsbml finds an error: its own message, with file and line; or the level is not 2 or 3.
    """
    root = _ROOT.search(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    if root is not None and root[1] != "sbml":
        raise ModelError(f"{label}: is not SBML: its first element is <{root[1]}>, not <sbml>")
    body = _DECLARATION.sub("", text, count=1)
    # Text is already decoded, so whatever encoding was declared no longer holds.
    whole = f'<?xml version="1.0" encoding="UTF-8"?>{body}'
    most_children = _scan(whole, label)
    document = libsbml.readSBMLFromString(whole)
    if document.getLevel() == 1:
        raise ModelError(f"{label}: SBML level 1 is not supported; levels 2 and 3 are")
    _raise_first_error(document, label)
    for category in (
        libsbml.LIBSBML_CAT_UNITS_CONSISTENCY,
        libsbml.LIBSBML_CAT_MODELING_PRACTICE,
        libsbml.LIBSBML_CAT_SBO_CONSISTENCY,
        libsbml.LIBSBML_CAT_OVERDETERMINED_MODEL,
    ):
        document.setConsistencyChecks(category, False)
    model = document.getModel()
    if model is not None and max(model.getNumReactions(), most_children) > _MATH_CHECKED:
        document.setConsistencyChecks(libsbml.LIBSBML_CAT_MATHML_CONSISTENCY, False)
    document.checkConsistency()
    _raise_first_error(document, label)
    if model is None:
        raise ModelError(f"{label}: there is no model in this file")
    return document


def _scan(text: str, label: str) -> int:
    """Go through XML without recursion; returns the most children that an element of math has.

    Raises
    ------
    ModelError
        Elements are nested too deep for libsbml, a document type is declared (its entities can
        make a small file endless, or read others), or the text is no XML.
    """
    children: list[int] = []
    most = 0
    parser = expat.ParserCreate("UTF-8")

    def start(*_: object) -> None:
        if len(children) >= _DEEPEST_ELEMENT:
            raise ModelError(
                f"{label}, line {parser.CurrentLineNumber}: elements are nested more than "
                f"{_DEEPEST_ELEMENT} deep, which is the limit"
            )
        if children:
            children[-1] += 1
        children.append(0)

    def end(name: str) -> None:
        nonlocal most
        count = children.pop()
        if name.rpartition(":")[2] in _WIDE:
            most = max(most, count)

    def declares(*_: object) -> None:
        raise ModelError(
            f"{label}, line {parser.CurrentLineNumber}: declares a document type, which SBML files "
            "do not have"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = declares
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise ModelError(
            f"{label}, line {error.lineno}: is not well-formed XML: {reason}"
        ) from None
    except UnicodeEncodeError:
        raise ModelError(f"{label}: holds half of a surrogate pair, which is no text") from None
    return most


def _raise_first_error(document: Any, label: str) -> None:
    found = [document.getError(i) for i in range(document.getNumErrors())]
    found = [error for error in found if error.isError() or error.isFatal()]
    if found:
        message = " ".join(found[0].getMessage().split()) or found[0].getShortMessage()
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ModelError(f"{label}, line {found[0].getLine()}: {message}{more}")


def end_time(model: Any) -> float | None:
    """End time named in the model's notes.

    Read are ``t_end = 50``, ``to t = 50`` and ``simulate 50 s``, in any case.
    """
    match = _END_TIME.search(_TAG.sub(" ", model.getNotesString() or ""))
    value = float(next(filter(None, match.groups()))) if match else 0.0
    return value if value > 0 else None


def package_features(document: Any) -> Iterator[Feature]:
    """List packages that the file says are required to understand its mathematics."""
    if document.getLevel() != 3:
        return
    plugins = [document.getPlugin(i).getPackageName() for i in range(document.getNumPlugins())]
    # libsbml counts the functions new in Version 2 as a package; `mathml` reads them.
    names = [n for n in plugins if n != "l3v2extendedmath" and document.getPackageRequired(n)]
    for i in range(document.getNumUnknownPackages()):
        prefix = document.getUnknownPackagePrefix(i)
        if document.getPackageRequired(prefix):
            names.append(prefix)
    for name in names:
        how = (
            "; write the model without submodels (libsbml: flatten comp)" if name == "comp" else ""
        )
        yield Feature("package", f"package {name}", f"the file marks it as required{how}")


def substance_features(libsbml: Any, model: Any) -> Iterator[Feature]:
    """Amounts that are not single molecules, as far as the file states its units."""
    default = default_unit(model)
    own: dict[str, list[str]] = {}
    for i in range(model.getNumSpecies()):
        species = model.getSpecies(i)
        unit = species.getSubstanceUnits() if species.isSetSubstanceUnits() else ""
        own.setdefault(unit or "", []).append(species.getId())
    for stated, names in own.items():
        unit = stated or default
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        element = f"species {names[0]}{more}" if stated else "model"
        kind = _unit_trouble(libsbml, model, unit)
        if kind:
            yield Feature(kind, element, f"its substance unit is {_shown_unit(model, unit)}")
    extent = model.getExtentUnits() if model.getLevel() == 3 else ""
    kind = _unit_trouble(libsbml, model, extent) if extent != default else None
    if kind:
        yield Feature(kind, "model", f"its extent unit is {_shown_unit(model, extent)}")


def default_unit(model: Any) -> str:
    """Name of the model's substance unit, or empty where the file does not state it."""
    if model.getLevel() == 3:
        return str(model.getSubstanceUnits())
    return "substance" if model.getUnitDefinition("substance") is not None else ""


def _unit_trouble(libsbml: Any, model: Any, name: str) -> str | None:
    """Feature kind of a substance unit, None if it counts molecules or is not stated."""
    if not name:
        return None
    definition = model.getUnitDefinition(name)
    if definition is None:
        return {"mole": "mole", "avogadro": "mole", "gram": "mass", "kilogram": "mass"}.get(name)
    scale = 1.0
    for i in range(definition.getNumUnits()):
        unit = definition.getUnit(i)
        kind = libsbml.UnitKind_toString(unit.getKind())
        if kind in ("mole", "avogadro"):
            return "mole"
        if kind in ("gram", "kilogram"):
            return "mass"
        exponent = unit.getExponentAsDouble()
        one = unit.getMultiplier() * value_of("pow", 10.0, unit.getScale())
        scale *= value_of("pow", one, exponent)
    return None if scale == 1.0 else "scaled unit"


def _shown_unit(model: Any, name: str) -> str:
    definition = model.getUnitDefinition(name)
    title = definition.getName() if definition is not None else ""
    return f"{name!r} ({title})" if title and title != name else repr(name)
