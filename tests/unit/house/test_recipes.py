"""Recipes of other package managers name the version, the dependencies and the commands of ours."""

from __future__ import annotations

import re
import tomllib

import pytest
from places import ROOT

from tauslab._version import __version__

FOLDER = ROOT / "scripts" / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = dict(line.split(">=") for line in PROJECT["dependencies"])


def test_conda_and_spack_need_what_the_package_needs():
    conda = dict(
        re.findall(r"(?m)^    - ([\w-]+) >=([\d.]+)", (FOLDER / "recipe.yaml").read_text())
    )
    spack = dict(re.findall(r'"py-([\w-]+)@([\d.]+):"', (FOLDER / "package.py").read_text()))
    conda["matplotlib"] = conda.pop("matplotlib-base")
    python = PROJECT["requires-python"].removeprefix(">=")
    assert conda == NEEDED | {"python": python, "setuptools": "77"}
    assert {name: spack[name] for name in NEEDED} == NEEDED


@pytest.mark.parametrize("name", ["recipe.yaml", "package.py"])
def test_recipes_name_the_version(name):
    text = (FOLDER / name).read_text()
    assert set(re.findall(r"[\"-](\d+\.\d+\.\d+)(?:\"|\.tar)", text)) == {__version__}


def test_conda_makes_the_commands():
    text = (FOLDER / "recipe.yaml").read_text()
    made = [f"- {name} = {place}\n" in text for name, place in PROJECT["scripts"].items()]
    assert made == [True, True]


def test_images_take_extras_that_there_are():
    files = [FOLDER / "tauslab.def", ROOT / "scripts" / "container" / "Dockerfile"]
    for file in files:
        (extras,) = re.findall(r"/(?:src|source)\[([\w,]+)\]", file.read_text())
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
