"""The examples in docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tauslab

MODULES = [
    m.name for m in pkgutil.walk_packages(tauslab.__path__, "tauslab.") if "__main__" not in m.name
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
