"""Antimony, a language for models, by the package of its authors, which takes and gives SBML."""

from __future__ import annotations

import importlib
from typing import Any

from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.network.data import NetworkData
from tauslab.model.writers.sbml import sbml_text


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
            "Antimony needs the package antimony, which is not installed: "
            'pip install "tauslab[antimony]"'
        ) from None


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
    if antimony.loadSBMLString(sbml_text(network)) < 0:
        raise ModelError(f"{network.name}: antimony cannot take it: {_error(antimony)}")
    return str(antimony.getAntimonyString(antimony.getMainModuleName()))


def sbml_of_antimony(text: str, label: str) -> str:
    """SBML of a model in Antimony, submodels put together; `label` names it in messages.

    Raises
    ------
    ModelError
        The package's message, with the line.
    ConfigError
        The package is not installed.
    """
    antimony = import_antimony()
    antimony.clearPreviousLoads()
    if antimony.loadAntimonyString(text) < 0:
        raise ModelError(f"{label}: {_error(antimony)}")
    return str(antimony.getSBMLString(antimony.getMainModuleName()))


def _error(antimony: Any) -> str:
    return " ".join(str(antimony.getLastError()).split())
