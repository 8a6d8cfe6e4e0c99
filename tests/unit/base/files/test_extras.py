"""Hints name packages that an index has, whatever it knows of tauslab."""

from __future__ import annotations

from importlib import metadata

import pytest

from tauslab.base.files import extras


def test_an_extra_becomes_its_packages():
    assert extras.installing("plot") == "pip install 'matplotlib>=3.8'"
    assert extras.installing("mpi") == "pip install 'mpi4py>=4.1' 'mpich>=4.3'"


@pytest.mark.parametrize("known", [None, ["numpy>=1"], ['x>=1; python_version < "4"']])
def test_what_nothing_is_known_of_comes_from_the_checkout(monkeypatch, known):
    def requires(name):
        if known is None:
            raise metadata.PackageNotFoundError(name)
        return known

    monkeypatch.setattr(metadata, "requires", requires)
    assert extras.installing("plot") == "pip install '.[plot]'"


def test_markers_of_other_extras_are_left_out(monkeypatch):
    lines = ["a; extra == 'one'", 'b[c]>=2; python_version > "3" and extra == "two"', "d"]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert extras.installing("two") == "pip install 'b[c]>=2'"
