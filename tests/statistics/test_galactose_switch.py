"""The galactose switch of yeast as a hybrid, against an independent program."""

from __future__ import annotations

import csv
import gzip
import importlib.util

import numpy as np
import pytest
from places import ROOT
from scipy import stats

import tauslab as ts

PROMOTERS = ("DG1", "DG2", "DG3", "DGrep", "DG80")


def example():
    path = ROOT / "examples" / "galactose_switch.py"
    spec = importlib.util.spec_from_file_location("galactose_switch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(outside):
    """Totals ``[cell]`` by minute and name."""
    path = ROOT / "tests" / "data" / "hybrid" / f"galactose_{outside}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("cell", "minute")]
    found = {}
    for row in rows:
        for name in names:
            key = int(row["minute"]), name
            found.setdefault(key, []).append(float(row[name]))
    return {key: np.array(values) for key, values in found.items()}


def totals(result):
    """Totals ``[cell, minute]`` by name: states that equations hold have no noise of their own."""

    def sums(part, weights):
        return sum(w * result.values(f"{part}.{name}") for name, w in weights.items())

    gal80 = {"G80": 1, "G80C": 1, "G80d": 2, "G80Cd": 2, "G80G3i": 2}
    silent = {f"{gene}_G4d_G80d": 2 for gene in PROMOTERS}
    bound = {f"{gene}_G4d{more}": 1 for gene in PROMOTERS for more in ("", "_G80d")}
    return {
        "G1_total": sums("transport", dict.fromkeys(("G1", "G1GAI"), 1)),
        "G2_total": sums("transport", dict.fromkeys(("G2", "G2GAI", "G2GAE"), 1)),
        "GAI": result.values("transport.GAI"),
        "G80_total": sums("genes", gal80 | silent),
        "promoters": sums("genes", bound),
        **{
            name: result.values(f"genes.{name}")
            for name in ("G3", "G3i", "G80G3i", "G4d", "reporter")
        },
    }


def require_like(result, outside, minutes):
    wanted, found = reference(outside), totals(result)
    tests = 0
    worst = {"z": 0.0, "p": 1.0}
    for minute in minutes:
        for name, values in found.items():
            ours, theirs = values[:, minute], wanted[minute, name]
            error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
            z = (ours.mean() - theirs.mean()) / error if error else 0.0
            p = stats.ks_2samp(ours, theirs).pvalue
            worst = {"z": max(worst["z"], abs(z)), "p": min(worst["p"], p)}
            tests += 1
    # One in 1,000 by chance, were the tests independent.
    assert worst["z"] < stats.norm.isf(5e-4 / tests), worst
    assert worst["p"] > 1e-3 / tests, worst


def test_first_minutes():
    """30 cells: the mean of inner galactose after a minute is known to 1 in 1,000."""
    switch = example().switch()
    result = ts.run(switch, t_end=120.0, n=30, seed=1, device="cpu", pilot=0)
    require_like(result, "11.1", (1, 2))
    shared = [result.values(f"genes.{n}") <= result.values(f"transport.{n}") + 1e-6
              for n in example().SHARED]  # fmt: skip
    assert np.all(shared)


@pytest.mark.validate
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("outside", "n"), [("11.1", 100), ("0.055", 200)])
def test_one_hour(outside, n):
    switch = example().switch(float(outside))
    result = ts.run(switch, t_end=3600.0, n=n, seed=2, device="cpu", pilot=0)
    require_like(result, outside, (1, 2, 5, 10, 20, 30, 45, 60))
