"""The script of the Ras/cAMP/PKA figures runs, small, and writes what it says."""

from __future__ import annotations

import json
import runpy
import sys

import pytest
from places import script

SCRIPT = script("figures_ras.py")


@pytest.mark.validate  # leaps and sweeps have tests of their own
def test_small_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    options = "--device cpu --points 2 --rates 3 --runs 2 --t-end 15 -o"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options.split(), str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    for name in ("ras-fig12.png", "ras-fig13.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    amplitudes, times = (
        json.loads((tmp_path / f"ras-fig{figure}.json").read_text()) for figure in (12, 13)
    )
    assert amplitudes["points"] == 4
    assert amplitudes["wall"] > 0
    assert len(times["wall"]) == len(times["c3"]) == 3
