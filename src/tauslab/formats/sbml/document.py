"""Opening an SBML file: text, libsbml's errors, packages, units, notes.

Nothing here builds a network; `tauslab.formats.sbml.reader` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.base.interrupts import ends_at_once
from tauslab.base.option_names import warn
from tauslab.formats.sbml.text import (
    each,
    first_error,
    message_of,
    parsed,
    raise_first_error,
    read_text,
    scan,
)
from tauslab.model.expressions.host_math import value_of
from tauslab.model.network.network import Feature
from tauslab.model.network.parts import unit_message

_MOST_FILES = 1000
_MOST_SUBMODELS = 10_000  # submodels of submodels included; libsbml makes one after the other
_Key = tuple[Path, str]  # file, and identifier of a model definition; empty for the main model


def has_submodels(document: Any) -> bool:
    """Return whether the file uses the package comp in a way that has to be understood."""
    return document.getPlugin("comp") is not None and document.getPackageRequired("comp")


def scan_sources(
    libsbml: Any, document: Any, path: Path, scan: Callable[[str, str], object]
) -> bool:
    """Look into all files that submodels come from; whether there is any.

    Raises
    ------
    ModelError
        A file is missing, is no path relative to the model, `scan` refuses its text, or there are
        more submodels than anybody writes.
    """
    left = [(document, path)]
    seen: set[Path] = set()
    inside: dict[_Key, list[_Key]] = {}
    while left:
        inner, place = left.pop()
        inside |= _inside(inner, place)
        for source in _sources(inner):
            result = place.parent / source
            if "://" in source or source.startswith(("file:", "urn:", "/")) or not result.is_file():
                raise ModelError(
                    f"{path}: a submodel comes from {source!r}, which is no file at that place "
                    "beside the model"
                )
            result = result.resolve()
            if result in seen:
                continue
            seen.add(result)
            if len(seen) > _MOST_FILES:
                raise ModelError(f"{path}: submodels come from more than {_MOST_FILES} files")
            text = read_text(result)
            scan(text, str(result))
            left.append((parsed(libsbml, text), result))
    if (count := _submodels(inside, (path, ""))) > _MOST_SUBMODELS:
        raise ModelError(f"{path}: has {count} submodels; {_MOST_SUBMODELS} is the limit")
    return bool(seen)


def _inside(document: Any, place: Path) -> dict[_Key, list[_Key]]:
    """Submodels of every model of a file."""
    plugin = document.getPlugin("comp")
    if plugin is None:
        return {}
    sources: dict[str, _Key] = {}
    for definition in each(plugin.getListOfExternalModelDefinitions()):
        file = (place.parent / definition.getSource()).resolve()
        sources[definition.getId()] = file, definition.getModelRef()
    main = document.getModel()
    definitions = each(plugin.getListOfModelDefinitions())
    models = {definition.getId(): definition for definition in definitions}
    if main is not None:
        models |= {"": main, main.getId(): main}
    return {
        (place, name): [
            sources.get(own.getModelRef(), (place, own.getModelRef()))
            for own in each(model.getPlugin("comp").getListOfSubmodels())
        ]
        for name, model in models.items()
    }


def _submodels(inside: dict[_Key, list[_Key]], root: _Key) -> int:
    """Number of submodels of a model; of a circle, which libsbml refuses, each once."""
    result: dict[_Key, int] = {}
    opened: set[_Key] = set()
    stack = [root]
    while stack:
        key = stack[-1]
        if key in opened:
            stack.pop()
            result[key] = sum(1 + result.get(own, 0) for own in inside.get(key, ()))
        else:
            opened.add(key)
            stack += [own for own in inside.get(key, ()) if own not in opened]
    return result[root]


def _sources(document: Any) -> Iterator[str]:
    plugin = document.getPlugin("comp")
    if plugin is not None:
        for definition in each(plugin.getListOfExternalModelDefinitions()):
            yield definition.getSource()


def flatten(libsbml: Any, document: Any, label: str) -> None:
    """Put one model without submodels in place of the document's.

    Raises
    ------
    ModelError
        libsbml cannot: its message.
    """
    properties = libsbml.ConversionProperties()
    properties.addOption("flatten comp", True)
    properties.addOption("leavePorts", False)
    properties.addOption("performValidation", False)
    properties.addOption("stripUnflattenablePackages", False)
    properties.addOption("abortIfUnflattenable", "requiredOnly")
    status = document.convert(properties)
    if status != libsbml.LIBSBML_OPERATION_SUCCESS:
        message = first_error(document) or libsbml.OperationReturnValue_toString(status)
        raise ModelError(f"{label}: submodels cannot be put together: {message}")


_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_ROOT = re.compile(r"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")
# libsbml's check of formulas grows with the square of the model (2.6 s at 4000 reactions), and of
# the terms of one formula; the reader finds undefined names by itself, only without the line.
_MATH_CHECKED = 2000
# Pairs of definitions, one of which needs the other.
_MOST_OF_RULES, _MOST_OF_FUNCTIONS = 20_000, 800
_MOST_TERMS = 10_000  # its other checks take the square of them
_TAG = re.compile(r"<[^>]*>")
_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
_END_TIME = re.compile(
    rf"\bt_?end\s*[=:]\s*{_NUMBER}|\bto t\s*=\s*{_NUMBER}"
    rf"|\bsimulate (?:for )?{_NUMBER} ?s(?:ec\w*)?\b",
    re.IGNORECASE,
)


def open_document(libsbml: Any, text: str, path: Path) -> tuple[Any, str]:
    """Parse and check SBML text; returns libsbml's document, which holds a model, and its text.

    The text is another where submodels come from other files: it then needs none. Level 1 is
    converted to Level 2, which means the same by it. Errors that do not touch what is simulated are
    reported in one warning.

    Raises
    ------
    ModelError
        libsbml finds an error: its own message, with file and line.
    """
    document, harmless, alone = _checked(libsbml, text, path)
    if harmless:
        more = f" (and {len(harmless) - 1} more)" if len(harmless) > 1 else ""
        warn(f"{path}, {message_of(harmless[0])}{more}: this does not touch what is simulated")
    return document, text if alone else libsbml.writeSBMLToString(document)


def _checked(libsbml: Any, text: str, path: Path) -> tuple[Any, list[Any], bool]:
    """Document without errors, errors that do not matter, and whether it needs no other file."""
    label = str(path)
    if (root := _first_element(text)) not in ("", "sbml"):
        raise ModelError(f"{label}: is not SBML: its first element is <{root}>, not <sbml>")
    body = _DECLARATION.sub("", text, count=1)
    # Text is already decoded, so whatever encoding was declared no longer holds.
    whole = f'<?xml version="1.0" encoding="UTF-8"?>{body}'
    most_children = scan(whole, label)
    document = parsed(libsbml, whole)
    document.setLocationURI(f"file:{path.absolute()}")  # where files of submodels are relative to
    raise_first_error(document, label)
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
    if model is not None and (most_children > _MOST_TERMS or _has_long_chains(model)):
        document.setConsistencyChecks(libsbml.LIBSBML_CAT_GENERAL_CONSISTENCY, False)
    alone = not (has_submodels(document) and scan_sources(libsbml, document, path, scan))
    with ends_at_once():
        document.checkConsistency()
    harmless = raise_first_error(document, label)
    if model is None:
        raise ModelError(f"{label}: there is no model in this file")
    if unknown := _unknown_amounts(libsbml, model) if harmless else "":
        raise ModelError(f"{label}: there is no unit {unknown!r}, which amounts are in")
    if document.getLevel() == 1:
        _to_level_2(document, label)
    if has_submodels(document):
        flatten(libsbml, document, label)
        if _has_long_chains(document.getModel()):
            document.setConsistencyChecks(libsbml.LIBSBML_CAT_GENERAL_CONSISTENCY, False)
        with ends_at_once():
            document.checkConsistency()
        raise_first_error(document, label)
    return document, harmless, alone


def _first_element(text: str) -> str:
    """Name of the first element behind comments; empty where there is none."""
    at = text.find("<")
    while at >= 0:
        if text.startswith("<!--", at):
            at = text.find("-->", at)
        elif result := _ROOT.match(text, at):
            return result[1]
        at = text.find("<", at + 1) if at >= 0 else at
    return ""


def _to_level_2(document: Any, label: str) -> None:
    """Convert a file of Level 1, where a volume that is not given is 1."""
    for compartment in each(document.getModel().getListOfCompartments()):
        if not compartment.isSetSize():
            compartment.setSize(1.0)
    if not document.setLevelAndVersion(2, 4, False):
        raise ModelError(f"{label}: cannot be converted to SBML level 2: {first_error(document)}")


def _unknown_amounts(libsbml: Any, model: Any) -> str:
    """Name of a unit of amounts that the file does not define; empty if there is none."""
    names = [species.getSubstanceUnits() for species in each(model.getListOfSpecies())]
    if model.getLevel() == 3:
        names += [model.getSubstanceUnits(), model.getExtentUnits()]
    for name in filter(None, names):
        known = libsbml.UnitKind_forName(name) != libsbml.UNIT_KIND_INVALID
        known |= model.getLevel() < 3 and name == "substance"
        if not known and model.getUnitDefinition(name) is None:
            return str(name)
    return ""


def _has_long_chains(model: Any) -> bool:
    """Return whether rules, or functions, need each other so much that libsbml never ends.

    Its search for circles takes the third power of a chain of rules (0.7 s of 200, 11 s of 500),
    and more than the fourth of one of functions (0.07 s of 30, minutes of 100). The reader refuses
    circles itself.
    """
    functions = {one.getId(): one for one in each(model.getListOfFunctionDefinitions())}
    laws: dict[str, Any] = {one.getVariable(): one for one in each(model.getListOfRules())}
    laws |= {one.getSymbol(): one for one in each(model.getListOfInitialAssignments())}
    laws |= {one.getId(): one.getKineticLaw() for one in each(model.getListOfReactions())}
    return _exceeds(_uses(functions), _MOST_OF_FUNCTIONS) or _exceeds(_uses(laws), _MOST_OF_RULES)


def _uses(definitions: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the other definitions that each definition names."""
    result = {}
    for name, one in definitions.items():
        math = None if one is None else one.getMath()
        result[name] = {own for own in _names(math) if own in definitions and own != name}
    return result


def _names(math: Any) -> Iterable[str]:
    stack = [] if math is None else [math]
    while stack:
        node = stack.pop()
        if (name := node.getName()) is not None:
            yield name
        stack += [node.getChild(i) for i in range(node.getNumChildren())]


def _exceeds(uses: Mapping[str, set[str]], most: int) -> bool:
    """Return whether more than `most` pairs need each other, directly or through others."""
    pairs = 0
    for name, first in uses.items():
        seen, stack = set(first), list(first)
        while stack:
            for own in uses[stack.pop()] - seen - {name}:
                seen.add(own)
                stack.append(own)
        pairs += len(seen)
        if pairs > most:
            return True
    return False


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
    # libsbml counts the functions new in Version 2 as a package; `mathml` reads them, and those of
    # distrib. What else distrib has, uncertainties of values, no simulation reads.
    known = ("l3v2extendedmath", "distrib")
    names = [n for n in plugins if n not in known and document.getPackageRequired(n)]
    for i in range(document.getNumUnknownPackages()):
        prefix = document.getUnknownPackagePrefix(i)
        if document.getPackageRequired(prefix):
            names.append(prefix)
    for name in names:
        yield Feature("package", f"package {name}", "the file marks it as required")


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
            yield Feature(kind, element, _unit_message(model, "substance", unit))
    extent = model.getExtentUnits() if model.getLevel() == 3 else ""
    kind = _unit_trouble(libsbml, model, extent) if extent != default else None
    if kind:
        yield Feature(kind, "model", _unit_message(model, "extent", extent))


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


def _unit_message(model: Any, what: str, name: str) -> str:
    definition = model.getUnitDefinition(name)
    return unit_message(what, name, definition.getName() if definition is not None else "")
