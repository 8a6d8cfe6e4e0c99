"""The version is written in one module and in the citation, which must agree."""

from __future__ import annotations

import tomllib

from places import ROOT

import tauslab
from tauslab._version import __version__


def test_pyproject_takes_the_version_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    source = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    assert source == "tauslab._version.__version__"
    assert tauslab.__version__ == __version__


def test_the_citation_names_it_too():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {__version__}" in text
