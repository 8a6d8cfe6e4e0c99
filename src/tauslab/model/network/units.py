"""Names of the units of a network's amounts and time, for files, tables and pictures."""

from __future__ import annotations

import math
from typing import Any

from tauslab.model.network.molecules import AVOGADRO
from tauslab.model.network.network import Network

MOLECULES = "molecules"
_PREFIXES = {0: "", -3: "m", -6: "u", -9: "n", -12: "p", -15: "f", 3: "k"}
_OTHER_AMOUNTS = ("mole", "mass", "scaled unit")  # kinds of features that say so
_SECONDS = {1.0: "s", 60.0: "min", 3600.0: "h", 86400.0: "d", 1e-3: "ms", 1e-6: "us"}
_NEAR = 1e-9


def amount_unit(network: Network) -> str:
    """Unit of species: ``molecules``, ``nmol`` and the like; empty where nobody knows.

    >>> amount_unit(Network("n"))
    'molecules'
    """
    if not any(feature.kind in _OTHER_AMOUNTS for feature in network.features):
        return MOLECULES
    per_unit = network.molecules_per_unit
    if per_unit is None or per_unit <= 0:
        return ""
    power = math.log10(per_unit / AVOGADRO)
    whole = round(power)
    known = abs(power - whole) < _NEAR and whole in _PREFIXES
    return f"{_PREFIXES[whole]}mol" if known else ""


def sbml_time_unit(libsbml: Any, model: Any) -> str:
    """Unit of time that an SBML model states; empty where it states none, or one without a name.

    Level 2 means seconds where a file does not define ``time``.
    """
    stated = str(model.getTimeUnits()) if model.getLevel() == 3 else "time"
    definition = model.getUnitDefinition(stated)
    if definition is None:
        return "s" if stated == "second" or (stated == "time" and model.getLevel() == 2) else ""
    if definition.getNumUnits() != 1:
        return ""
    unit = definition.getUnit(0)
    if libsbml.UnitKind_toString(unit.getKind()) != "second" or unit.getExponent() != 1:
        return ""
    size = unit.getMultiplier() * 10.0 ** unit.getScale()
    near = (name for s, name in _SECONDS.items() if math.isclose(size, s, rel_tol=_NEAR))
    return next(near, "")
