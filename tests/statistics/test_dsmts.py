"""The stochastic cases of the SBML Test Suite on the CPU, and whether their check can fail."""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import validate
from places import TESTS
from sampling import ordinary

import tauslab as ts

dsmts = importlib.import_module("validate_dsmts")

CASES = TESTS / "data" / "dsmts"
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())
RUN = [folder.name for folder in FOLDERS if dsmts.exclusion(folder) is None]
COSTLY = {"00023": 500, "00039": 3000}  # the first has 90,000 events a trajectory


# One compilation each: of the cases that draw by package distrib, those of unlike kinds.
DRAWN = [name for name in RUN if name > "00040"]
SHORT = [name for name in RUN if name <= "00040" or name == "00064"]


def test_every_case_runs():
    assert [folder.name for folder in FOLDERS] == RUN
    assert len(RUN) == 66
    assert len(DRAWN) == 41


@pytest.mark.parametrize("name", ordinary(SHORT, *SHORT[::16]))
def test_case(name):
    """No abs(Z) or abs(Y) above 5, and nothing inexact: false alarms below 1e-3 in all cases.

    Tighter than this, the suite's own rule alarms in 1.5 % of right runs; it is applied to more
    trajectories under `validate`.
    """
    n = COSTLY.get(name, 10_000)
    case = dsmts.read_case(CASES / name)
    for comparison in dsmts.validate(case, n=n, seed=1, device="cpu", threads=2)[0]:
        assert comparison.inexact == 0
        assert max(comparison.worst) <= 5, comparison.variable


@pytest.mark.parametrize("name", ordinary(["00003", "00023", "00030", "00037"], "00037"))
def test_case_by_rejection(name):
    """As `test_case`: births and deaths, many molecules, dimers, immigrants in groups."""
    case = dsmts.read_case(CASES / name)
    options = {"n": COSTLY.get(name, 10_000), "seed": 2, "device": "cpu", "threads": 2}
    for comparison in dsmts.validate(case, **options, selector="rssa").comparisons:
        assert comparison.inexact == 0
        assert max(comparison.worst) <= 5, comparison.variable


@pytest.mark.validate
@pytest.mark.parametrize(
    ("name", "applies"),
    ordinary(
        [("00001", True), ("00007", True), ("00023", True), ("00003", True), ("00020", False)],
        ("00003", True),
    ),
)
def test_case_by_leaping(name, applies):
    """As `test_case`, with what leaping is forgiven where it leaps."""
    case = dsmts.read_case(CASES / name)
    n = COSTLY.get(name, 10_000)
    actual = dsmts.validate(case, n=n, seed=1, device="cpu", threads=2, method="tau")
    assert (actual.by_leaps >= dsmts.LEAPS_APPLY) == applies
    for comparison in actual.comparisons:
        assert comparison.inexact == 0
        assert max(comparison.worst) <= 5, comparison.variable


@pytest.mark.validate
def test_what_leaping_is_forgiven_is_little():
    """6 % of the mean is twice what epsilon allows, and half of the deviation is far too much."""
    case = dsmts.read_case(CASES / "00023")
    for mean, sd in ((1.06, 1.0), (1.0, 1.5)):
        wrong = replace(case, mean={"X": mean * case.mean["X"]}, sd={"X": sd * case.sd["X"]})
        actual = dsmts.validate(wrong, n=500, seed=1, device="cpu", threads=2, method="tau")
        assert not dsmts.passes(actual.comparisons)


@pytest.mark.validate
def test_what_is_forgiven_of_a_negative_mean_is_as_much():
    error = np.array([-0.05, -0.01, 0.02, 0.05])
    assert dsmts._beyond(error, np.full(4, 0.03)).round(12).tolist() == [-0.02, 0, 0, 0.02]
    case = dsmts.read_case(CASES / "00070")  # X has the mean -0.9, and nothing leaps
    result = ts.run(case.model, n=500, times=case.times, seed=1, device="cpu",
                    record="trajectories")  # fmt: skip
    judged, forgiven = (dsmts.compare(case, "X", result, epsilon) for epsilon in (0.0, 0.03))
    assert (np.abs(forgiven.z[1:]) <= np.abs(judged.z[1:])).all()
    assert np.abs(forgiven.z[1:]).sum() < np.abs(judged.z[1:]).sum()
    actual = dsmts.validate(case, n=100, seed=1, device="cpu", threads=2, method="tau")
    assert actual.by_leaps == 0


# Cases that draw at each time share their uniform numbers. Of seed 1 their mean at t = 35 is 4.2
# standard errors off, as one of 50 is in a thousand seeds; of the case of Rayleigh's law the
# published mean is besides off by 1.5 of them (it is 3.769167).
SEEDS = dict.fromkeys(("00060", "00066", "00087"), 2)


@pytest.mark.validate
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", RUN)
def test_case_at_length(name):
    """The suite's rule: 1.5 % false alarms per case that is not the same process as another."""
    case = dsmts.read_case(CASES / name)
    seed = SEEDS.get(name, 1)
    assert dsmts.passes(dsmts.validate(case, n=100_000, seed=seed, device="auto")[0])


@pytest.mark.validate
@pytest.mark.parametrize(("mean", "sd"), [(1.02, 1.0), (1.0, 1.05)])
def test_wrong_moments_fail(mean, sd):
    """At late times 2 % of the mean are 6 standard errors, 5 % of the standard deviation 7."""
    case = dsmts.read_case(CASES / "00020")
    wrong = replace(case, mean={"X": mean * case.mean["X"]}, sd={"X": sd * case.sd["X"]})
    assert not dsmts.passes(dsmts.validate(wrong, n=10_000, seed=1, device="cpu")[0])


def test_a_fixed_amount_that_is_missed_fails():
    case = dsmts.read_case(CASES / "00025")
    wrong = replace(case, mean={**case.mean, "Source": case.mean["Source"] + 1})
    comparisons = dsmts.validate(wrong, n=100, seed=1, device="cpu")[0]
    source = next(c for c in comparisons if c.variable == "Source")
    assert source.inexact == 51
    assert not dsmts.passes(comparisons)


def test_moments_agree_with_scipy(monkeypatch):
    monkeypatch.setattr(dsmts, "ROWS_AT_ONCE", 64)
    samples = np.random.default_rng(5).poisson([0.3, 7.0, 900.0], (1000, 3)).astype(np.int32)
    pieces = iter([samples[:333], samples[333:]])
    n, mean, variance, kurtosis = dsmts.moments(pieces, np.array([0.0, 7.0, 890.0]))
    assert n == 1000
    np.testing.assert_allclose(mean, samples.mean(0), rtol=1e-13)
    np.testing.assert_allclose(variance, samples.var(0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(kurtosis, scipy.stats.kurtosis(samples), rtol=1e-9)


@pytest.mark.validate
@pytest.mark.parametrize("passed", [True, False])
def test_the_script_writes_its_tables_and_tells_by_its_exit_code(tmp_path, monkeypatch, passed):
    monkeypatch.setattr(dsmts, "passes", lambda _: passed)
    table = tmp_path / "table.csv"
    command = ["dsmts", "--n", "100", "--device", "cpu", "--cases", "00019", "-o", str(table)]
    assert validate.main(command) == (0 if passed else 1)
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["variable"] for row in rows] == ["X", "y"]
    assert {row["verdict"] for row in rows} == {"pass" if passed else "FAIL"}
