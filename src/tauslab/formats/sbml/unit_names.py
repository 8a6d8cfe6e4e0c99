"""Names of an SBML model's units of amount and time, for the axes of pictures."""

from __future__ import annotations

from typing import Any

from tauslab.formats.sbml.document import default_unit

MOLECULES = "molecules"
_PREFIXES = {-15: "f", -12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k"}
_KINDS = {"mole": "mol", "second": "s", "gram": "g"}
_COUNTED = ("item", "dimensionless")
_SECONDS = {60.0: "min", 3600.0: "h", 86400.0: "d"}


def unit_of_species(libsbml: Any, model: Any) -> str:
    """Unit of all amounts; empty where the file states none, or more than one."""
    own = {
        str(species.getSubstanceUnits() if species.isSetSubstanceUnits() else default_unit(model))
        for species in (model.getSpecies(i) for i in range(model.getNumSpecies()))
    }
    names = {unit_name(libsbml, model, unit) for unit in own}
    return names.pop() if len(names) == 1 else ""


def unit_of_time(libsbml: Any, model: Any) -> str:
    """Unit of time; that of Level 1 and 2 is the second unless the file says else."""
    if model.getLevel() == 3:
        return unit_name(libsbml, model, str(model.getTimeUnits()))
    stated = model.getUnitDefinition("time") is not None
    return unit_name(libsbml, model, "time") if stated else "s"


def unit_name(libsbml: Any, model: Any, name: str) -> str:
    """A unit as people write it: nmol, min; the file's own name where that is not plain."""
    if not name:
        return ""
    definition = model.getUnitDefinition(name)
    if definition is None:
        return MOLECULES if name in _COUNTED else _KINDS.get(name, name)
    if definition.getNumUnits() == 1:
        unit = definition.getUnit(0)
        kind = libsbml.UnitKind_toString(unit.getKind())
        factor, scale = float(unit.getMultiplier()), int(unit.getScale())
        plain = unit.getExponentAsDouble() == 1
        if plain and kind in _COUNTED and factor == 1 and scale == 0:
            return MOLECULES
        if plain and kind == "second" and scale == 0 and factor in _SECONDS:
            return _SECONDS[factor]
        if plain and kind in _KINDS and factor == 1 and scale in _PREFIXES:
            return _PREFIXES[scale] + _KINDS[kind]
    return str(definition.getName() or name)
