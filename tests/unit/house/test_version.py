"""The version is written in two places, which must agree."""

from __future__ import annotations

import tomllib

from places import ROOT

import tauslab


def test_the_package_and_pyproject_name_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tauslab.__version__ == project["version"]


def test_the_citation_names_it_too():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {tauslab.__version__}" in text
