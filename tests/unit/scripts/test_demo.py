"""The demo says what is near the exact answer, and its seed is."""

from __future__ import annotations

import re

import demo_summary
import pytest
from places import ROOT

import tauslab as ts

N = 500


def run(path, seed, rate):
    model = ts.read(ROOT / "examples" / "schlogl.xml")
    given = {"species": ["X"], "record": "trajectories", "device": "cpu"}
    ts.run(model, n=N, times=[0, 10], set={"c3": rate}, seed=seed, output=path, **given).close()
    return str(path)


def test_the_demo_is_near(tmp_path, capsys):
    demo_summary.main(run(tmp_path / "a.h5", 7, 1e-3))
    shown = capsys.readouterr().out
    assert re.search(r"mean .* standard errors of 10\.65: near", shown)
    assert shown.count(": near") == 2
    assert "Near is within 2 standard errors: so are 95 of 100 seeds" in shown


@pytest.mark.validate
def test_another_model_is_not_near(tmp_path, capsys):
    demo_summary.main(run(tmp_path / "a.h5", 7, 1.3e-3))
    assert ": not near" in capsys.readouterr().out


def test_the_script_runs_the_seed_that_was_looked_at():
    assert "-n 10000 --t-end 10 --points 101 --seed 7 " in (ROOT / "scripts" / "demo").read_text()


@pytest.mark.validate
def test_the_demo_at_its_full_size_is_nearer_than_most(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(f"{__name__}.N", 10_000)
    demo_summary.main(run(tmp_path / "a.h5", 7, 1e-3))
    off = [
        abs(float(x)) for x in re.findall(r"([+-]\d\.\d) standard errors", capsys.readouterr().out)
    ]
    assert max(off) < 1
