"""Tau-leaping against exact SSA and the master equation: fixed seeds, stated false-alarm rates."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.cli.commands.machine import michaelis_menten, schlogl

EPSILON = 0.03


@pytest.fixture
def scripts(monkeypatch):
    """`scripts/validate.py tau` as a module."""
    return importlib.import_module("validate_tau")


@pytest.mark.validate
def test_schlogl_at_t_10_against_the_master_equation():
    """P(X < 300) = 0.51347 and the mean 316.592 at t = 10 (exact), 2,000 trajectories.

    Within 5 standard errors, 6e-7 each, plus 0.5 % for the error of leaping.
    """
    n = 2000
    result = ts.run(
        schlogl(), method=ts.TauLeaping(epsilon=EPSILON), n=n, times=[10.0], seed=2, device="cpu"
    )
    x = result.counts("X")[:, 0]
    assert abs((x < 300).mean() - 0.51347) < 5 * 0.5 / np.sqrt(n) + 0.005
    assert abs(x.mean() - 316.592) < 5 * 238.07 / np.sqrt(n) + 0.005 * 316.592


@pytest.mark.parametrize(
    "values", ordinary([{"E": 1000, "S": 4000}, {"E": 750, "S": 1000}], {"E": 750, "S": 1000})
)
def test_michaelis_menten_against_exact_ssa(values):
    """Means and variances at 10 times, 2,000 trajectories of each kind.

    Means within 5 standard errors plus a sixth of epsilon, variances within 5 standard errors plus
    3 %: false alarms below 1e-4 in all.
    """
    n = 2000
    options = {"n": n, "times": np.linspace(0.2, 2, 10), "set": values, "device": "cpu"}
    exact = ts.run(michaelis_menten(), method="ssa", seed=3, **options)
    leaped = ts.run(michaelis_menten(), method=ts.TauLeaping(epsilon=EPSILON), seed=4, **options)
    for name in exact.species:
        mean, variance = exact.mean(name), exact.variance(name)
        error = np.sqrt((variance + leaped.variance(name)) / n)
        assert np.all(np.abs(leaped.mean(name) - mean) < 5 * error + EPSILON / 6 * (mean + 10))
        spread = variance * np.sqrt(2 / n) * np.sqrt(2)
        assert np.all(np.abs(leaped.variance(name) - variance) < 5 * spread + 0.03 * variance + 1)


def test_conserved_sums_are_conserved():
    """Enzyme in both forms, and substrate in all three, whatever the leaps."""
    x = ts.run(michaelis_menten(), method="tau", n=500, t_end=5.0, seed=1, device="cpu").counts()
    e, s, es, p = np.moveaxis(x, 2, 0)
    assert (e + es == 1000).all()
    assert (s + es + p == 4000).all()
    assert (x >= 0).all()


@pytest.mark.parametrize(
    ("model", "n"),
    ordinary(
        [("schlogl", 100), ("michaelis_menten", 2000), ("prokaryotic_gene_network", 1000),
         ("ras_camp_pka", 5)],
        ("michaelis_menten", 2000), ("prokaryotic_gene_network", 1000),
    ),
)  # fmt: skip
@pytest.mark.parametrize("epsilon", [EPSILON, 1.0])
def test_no_sample_of_the_papers_models_is_negative(scripts, model, n, epsilon):
    """Also with leaps far too long, many of which would have taken more than there is."""
    row = scripts.below_zero(model, epsilon, n, "cpu", 1)
    assert row[-1] == "pass"
    assert row[5] == 0


def test_leaps_that_would_take_too_much_are_made_and_halved():
    """Without this the test above would tell nothing."""
    result = ts.run(
        michaelis_menten(), method=ts.TauLeaping(epsilon=1.0), n=200, t_end=5.0, points=3, seed=1,
        device="cpu",
    )  # fmt: skip
    assert result.data["profile/halved"][()].sum() > 0


def test_a_negative_sample_is_found(scripts, monkeypatch):
    """The script's check can fail: cells below zero, and samples that are missing."""
    for cells in ([1, 4, 0], [0, 4, 0]):
        counted = np.tile(np.array(cells, np.uint64), (50, 1))
        data = {f"statistics/histogram/{s}": {(): counted} for s in ("E", "S", "ES", "P")}
        fake = SimpleNamespace(data=data)
        monkeypatch.setattr(scripts.ts, "run", lambda *_, fake=fake, **__: fake)
        assert scripts.below_zero("michaelis_menten", 0.03, 5, "cpu", 1)[-1] == "FAIL"
        monkeypatch.undo()
