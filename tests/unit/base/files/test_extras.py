"""Hints name packages that an index has, whatever it knows of tauslab."""

from __future__ import annotations

from importlib import metadata

import pytest

from tauslab.base.files import extras


def test_packages_are_named_with_the_versions_that_are_needed():
    assert extras.installing("plotly") == "pip install 'plotly>=5.18'"
    assert extras.installing("mpi4py", "mpich") == "pip install 'mpi4py>=4.1' 'mpich>=4.3'"


@pytest.mark.parametrize("known", [None, ["numpy>=1"], ['x>=1; python_version < "4"']])
def test_a_package_of_which_nothing_is_known_is_named_alone(monkeypatch, known):
    def requires(name):
        if known is None:
            raise metadata.PackageNotFoundError(name)
        return known

    monkeypatch.setattr(metadata, "requires", requires)
    assert extras.installing("plotly") == "pip install plotly"


def test_options_and_markers_of_a_requirement(monkeypatch):
    lines = ["a; extra == 'one'", 'b[c]>=2; python_version > "3" and extra == "two"', "d"]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert extras.installing("a", "b") == "pip install a 'b[c]>=2'"
