"""Scripts that run the lattice examples and long tests: small runs, and how they count."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from places import SCRIPTS


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)


@pytest.mark.parametrize(("period", "phase"), [(60.0, 0.0), (43.0, 1.0)])
def test_the_period_of_a_swing_is_found(period, phase):
    from rdme_period import swings

    times = np.arange(0.0, 241.0)
    lower = 1000 * (1 + np.sin(2 * np.pi * times / period + phase))
    found = swings(times, lower, 2000 - lower)
    assert found.period == pytest.approx(period, rel=0.01)
    assert found.error < 0.02 * period
    assert found.turns.min() >= 60


def test_what_does_not_swing_has_no_period():
    from rdme_period import swings

    assert swings(np.arange(11.0), np.full(11, 5), np.full(11, 3)).period == 0


def test_boxes_keep_their_particles(backend):
    """Nothing crosses a wall; halves are told apart."""
    from rdme_laws import Boxes, engine_of

    boxes = Boxes((3, 2, 4), (2, 3, 2))
    model = boxes.model({"A": 0.2, "B": 0.1}, parts=2)
    places = np.tile([0, 1, 23, 23, 6], (boxes.number, 1))
    engine = engine_of(backend, model, boxes.start([1, 1, 1, 1, 2], places))
    assert boxes.counted(engine, 0, half=2).tolist() == [2] * boxes.number
    engine.run_sampled([50])
    assert boxes.counted(engine, 0).tolist() == [4] * boxes.number
    assert boxes.counted(engine, 1).tolist() == [1] * boxes.number
    halves = boxes.counted(engine, 0, half=2)
    assert halves.sum() == engine.count().by_type[0, 1, 0]
    assert len(set(halves.tolist())) > 1


def test_too_many_particles_for_a_site_are_refused():
    from rdme_laws import filled

    with pytest.raises(ValueError, match="a site would hold 3 particles"):
        filled((1, 1, 2), np.array([1, 1, 1]), np.array([1, 2, 1]), slots=2)


def test_small_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    import figures_lattice

    options = "--device cpu --seconds 0.005 --replicas 2 --samples 20 -o"
    monkeypatch.setattr(sys, "argv", ["figures", *options.split(), str(tmp_path), "cube"])
    figures_lattice.main()
    found = json.loads((tmp_path / "lattice-cube.json").read_text())
    assert found["steps"] == 2 * 40
    assert all(abs(r["value"] - r["expected"]) <= 6 * r["error"] + 3 for r in found["rows"])
    picture = tmp_path / "lattice-cube.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    assert "| mean of P at" in (tmp_path / "lattice.md").read_text()
    monkeypatch.setattr(sys, "argv", ["figures", "--draw", "-o", str(tmp_path)])
    figures_lattice.main()
    assert picture.exists()
