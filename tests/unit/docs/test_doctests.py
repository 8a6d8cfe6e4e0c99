"""The examples in docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib

from places import ROOT

PACKAGE = ROOT / "src"


def modules_with_examples():
    """Dotted names of modules whose text has an example."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(
                ".__init__"
            )


def test_docstring_examples():
    ran = [doctest.testmod(importlib.import_module(name)) for name in modules_with_examples()]
    assert sum(result.attempted for result in ran) > 100
    assert sum(result.failed for result in ran) == 0
