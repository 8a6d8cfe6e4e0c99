"""Print biosimulators.json: what BioSimulators wants to know of this program.

python scripts/container/specification.py > biosimulators.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tauslab import __version__
from tauslab.exchange.sedml.execute import EQUATIONS, EXACT, LEAPS
from tauslab.options.methods import DEFAULT_EPSILON

_HOW = ["library", "command-line application", "BioSimulators Docker image"]
_AT = "/sbml:sbml/sbml:model/sbml:listOf"
_VARIABLES = {
    "species amounts or concentrations": f"{_AT}Species/sbml:species",
    "parameter values": f"{_AT}Parameters/sbml:parameter",
    "compartment sizes": f"{_AT}Compartments/sbml:compartment",
    "reaction rates": f"{_AT}Reactions/sbml:reaction",
}
_TOLERANCES = {
    "KISAO_0000209": ("relative tolerance", "float", "1e-6"),
    "KISAO_0000211": ("absolute tolerance", "float", "1e-9"),
}
_SEED = {"KISAO_0000488": ("seed", "integer", None)}
_EPSILON = {"KISAO_0000228": ("tau-leaping epsilon", "float", str(DEFAULT_EPSILON))}


def specification() -> dict[str, Any]:
    """Contents of the file."""
    image = {"url": None, "format": _term("EDAM", "format_3973"), "operatingSystemType": "Linux"}
    families = (
        (EXACT, "SBO_0000295", _SEED),
        (LEAPS, "SBO_0000295", _SEED | _EPSILON),
        (EQUATIONS, "SBO_0000293", _TOLERANCES),
    )
    return {
        "id": "tauslab",
        "name": "tauslab",
        "version": __version__,
        "description": "Stochastic chemistry on many GPUs: the same seed, the same bits, anywhere.",
        "urls": [],
        "image": image,
        "cli": None,
        "pythonApi": {"package": "tauslab", "module": "tauslab"},
        "authors": [{"firstName": None, "middleName": None, "lastName": "tauslab developers"}],
        "references": {"identifiers": [], "citations": []},
        "license": {"namespace": "SPDX", "id": "BSD-3-Clause"},
        "algorithms": [
            _algorithm(key, name, framework, parameters)
            for names, framework, parameters in families
            for key, name in names.items()
        ],
        "interfaceTypes": _HOW,
        "supportedOperatingSystemTypes": ["Linux"],
        "supportedProgrammingLanguages": [{"namespace": "Linguist", "id": "Python"}],
        "biosimulators": {
            "specificationVersion": "1.0.0",
            "imageVersion": "1.0.0",
            "validated": False,
        },
    }


def _term(namespace: str, key: str, version: str | None = None) -> dict[str, Any]:
    return {"namespace": namespace, "id": key, "version": version, "supportedFeatures": []}


def _algorithm(
    key: str, name: str, framework: str, parameters: Mapping[str, tuple[str, str, str | None]]
) -> dict[str, Any]:
    return {
        "id": name.lower().replace(" ", "-"),
        "name": name,
        "kisaoId": {"namespace": "KISAO", "id": key.replace(":", "_")},
        "modelingFrameworks": [{"namespace": "SBO", "id": framework}],
        "modelFormats": [_term("EDAM", "format_2585")],
        "modelChangePatterns": [],
        "simulationFormats": [_term("EDAM", "format_3685", f"L1V{v}") for v in (1, 2, 3, 4)],
        "archiveFormats": [_term("EDAM", "format_3686")],
        "parameters": [
            {
                "kisaoId": {"namespace": "KISAO", "id": own},
                "id": reported.replace(" ", "_"),
                "name": reported,
                "type": kind,
                "value": value,
                "recommendedRange": None,
                "availableSoftwareInterfaceTypes": _HOW,
            }
            for own, (reported, kind, value) in parameters.items()
        ],
        "outputDimensions": [{"namespace": "SIO", "id": "SIO_000418"}],
        "outputVariablePatterns": [
            *(
                {"name": reported, "type": "float", "target": path}
                for reported, path in _VARIABLES.items()
            ),
            {"name": "time", "type": "float", "symbol": "urn:sedml:symbol:time"},
        ],
        "availableSoftwareInterfaceTypes": _HOW,
        "dependencies": [],
        "citations": [],
    }


if __name__ == "__main__":
    print(json.dumps(specification(), indent=2))
