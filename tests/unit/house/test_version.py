"""The version is written in three places, which must agree."""

from __future__ import annotations

import tomllib

from places import ROOT

import tauslab
from tauslab._version import __version__


def test_the_package_and_pyproject_name_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tauslab.__version__ == __version__ == project["version"]


def test_the_citation_names_it_too():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {__version__}" in text
