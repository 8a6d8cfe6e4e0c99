"""Errors of leaps at the default epsilon against exact laws: a small part of the table of errors.

`validate_leaps.py` makes the whole table. 20,000 trajectories: a standard deviation has a
standard error of 0.5 %, and a mean one below 0.1 %. The errors themselves are below 0.7 % and
0.2 %, so that a check raises a false alarm with a probability below 1e-5: all with one below 3e-4.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts

N = 20_000


@pytest.fixture(scope="module")
def cases():
    """The models of `leap_models` by name."""
    return {case.name: case for case in importlib.import_module("leap_models").CASES}


def check(case, samples=1, method="tau", n=N, errors=0.0):
    """Mean within 1 %, standard deviation within 3 %, and leaps carry nearly all events.

    And so many standard errors more.
    """
    times = [case.t_end] if samples == 1 else np.linspace(0, case.t_end, samples)
    result = ts.run(case.network(), n=n, times=times, method=method, seed=1, device="cpu",
                    record="final", quiet=True)  # fmt: skip
    names = list(result.species)
    x = np.asarray(result.data["final"][()], float)[:, names.index(case.species)]
    law = case.law()
    error = errors / np.sqrt(n)
    assert abs(x.mean() / law.mean - 1) < 0.01 + error * law.deviation / law.mean
    assert abs(x.std(ddof=1) / law.deviation - 1) < 0.03 + error / np.sqrt(2)
    work = {k: float(result.data[f"profile/{k}"][()].sum()) for k in ("events", "exact_events")}
    assert work["exact_events"] < 0.1 * work["events"]


@pytest.mark.validate
@pytest.mark.parametrize(
    ("name", "samples"),
    ordinary(
        [
            ("birth and death", 1),  # its flows balance
            ("growth", 1),  # errors add up
            ("decay", 1),
            ("isomers", 21),
            ("reversible dimers", 1),  # second order
            ("logistic law", 1),  # a law of another form
        ],
        ("reversible dimers", 1),
    ),
)
def test_generated_code(cases, name, samples):
    check(cases[name], samples)


def test_a_few_trajectories(cases):
    check(cases["isomers"], n=1000, errors=4.5)


@pytest.mark.validate
@pytest.mark.parametrize(
    "name", ["isomers", pytest.param("reversible dimers", marks=pytest.mark.validate)]
)
def test_tables(cases, name, monkeypatch):
    monkeypatch.setattr("tauslab.kernels.leaping.choice.LARGEST_LEAPING", 0)
    check(cases[name])


@pytest.mark.validate
def test_checked_leaps(cases):
    check(cases["isomers"], method=ts.TauLeaping(post_leap_check=True))


@pytest.mark.validate
def test_a_balance_that_is_too_stiff_is_simulated_exactly(cases):
    """No leap would span ten events, so none is tried: the law is that of exact simulation.

    300 trajectories: within 5 standard errors, 6e-7.
    """
    case = cases["stiff balance of ten"]
    result = ts.run(case.network(), n=300, times=[1.0], method="tau", seed=1, device="cpu",
                    quiet=True)  # fmt: skip
    assert result.data["profile/leaps"][()].sum() == 0
    assert abs(result.mean("X")[0] - 10.0) < 5 * np.sqrt(10.0 / 300)
