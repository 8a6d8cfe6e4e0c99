"""Devices know nothing of networks, lattices or methods."""

from __future__ import annotations

import ast

from places import ROOT

BACKENDS = ROOT / "src" / "tauslab" / "kernels" / "backends"
# A part of the CUDA device that stands alone, for a command that begins with it.
CONTEXT = ROOT / "src" / "tauslab" / "kernels" / "cuda_context.py"


def test_backends_import_themselves_and_the_base_only():
    actual = {
        node.module
        for path in [*BACKENDS.glob("*.py"), CONTEXT]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tauslab.")
    }
    assert actual  # the test sees imports
    allowed = ("tauslab.kernels.backends", "tauslab.kernels.cuda_context", "tauslab.base.")
    assert [name for name in sorted(actual) if not name.startswith(allowed)] == []
