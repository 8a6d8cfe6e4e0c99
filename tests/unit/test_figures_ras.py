"""The script of the Ras/cAMP/PKA figures runs, small, and writes what it says."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "figures_ras.py"


def test_small_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    options = "--device cpu --points 2 --rates 3 --runs 2 --t-end 15 -o"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options.split(), str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    for name in ("ras-fig12.png", "ras-fig13.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    seconds = json.loads((tmp_path / "ras-seconds.json").read_text())
    assert seconds["figure 12"]["points"] == 4
    assert seconds["figure 12"]["wall"] > 0
    assert len(seconds["figure 13"]["wall"]) == len(seconds["figure 13"]["c3"]) == 3
