"""Antimony files, through SBML that the package ``antimony`` makes of them."""

from __future__ import annotations

from pathlib import Path

from tauslab.formats.antimony import sbml_of_antimony
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.formats.sbml.text import read_text
from tauslab.model.network.network import Network


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
