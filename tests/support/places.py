"""Where things are: the root of the checkout, its tests, its scripts."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
SCRIPTS = ROOT / "scripts"


def script(name: str) -> Path:
    """The program ``scripts/*/name`` or ``tests/support/*/name``."""
    (path,) = (*SCRIPTS.rglob(name), *(TESTS / "support").rglob(name))
    return path
