"""Antimony, a language for models, by the package of its authors, which takes and gives SBML."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tauslab.model.errors import ConfigError, ModelError, OutputError
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


def write_text(text: str, path: str | Path | None, suffixes: tuple[str, ...]) -> str:
    """Write a text if there is a path, which must end in one of `suffixes`; returns the text.

    Raises
    ------
    ConfigError
        It ends otherwise.
    OutputError
        The file cannot be written.
    """
    if path is not None:
        path = Path(path)
        if path.suffix.lower() not in suffixes:
            raise ConfigError(f"{path}: this is written as {' or '.join(suffixes)}")
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    return text
