"""Sampled distributions against the chemical master equation, and whether their check can fail."""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import validate
from sampling import ordinary

from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.table_network import TEAMS

cme = importlib.import_module("validate_cme")

PROBLEMS = {problem.name: problem for problem in cme.PROBLEMS}
COSTLY = {"schlogl": 1000}  # 45,000 events a trajectory
N_TESTS = sum(
    len(cme.exact_distribution(problem.name, species)[0])
    for problem in cme.PROBLEMS
    for species in problem.columns
)


@pytest.mark.parametrize("name", ordinary(PROBLEMS, "michaelis_menten_small", "telegraph"))
def test_distributions(name):
    """False alarms below 1e-3 in all models together (Bonferroni)."""
    tests, _ = cme.validate(
        PROBLEMS[name], n=COSTLY.get(name, 10_000), seed=1, device="cpu", threads=2
    )
    assert tests
    assert all(test.bins >= 4 for test in tests)
    assert min(test.p_value for test in tests) >= cme.smallest_p(N_TESTS)


@pytest.mark.validate
@pytest.mark.parametrize("selector", ordinary(SELECTORS[1:], "pdm", "rssa"))
@pytest.mark.parametrize(
    "name",
    ordinary(
        ["bimolecular_100", "dimerisation", "michaelis_menten_small", "toggle_small"],
        "michaelis_menten_small",
    ),
)
def test_distributions_of_every_selector(name, selector):
    """Mass action with and without owners, homodimers, general laws: false alarms below 1e-3."""
    tests, _ = cme.validate(
        PROBLEMS[name], n=5000, seed=1, device="cpu", threads=2, selector=selector
    )
    assert min(test.p_value for test in tests) >= cme.smallest_p(len(SELECTORS) * N_TESTS)


@pytest.mark.gpu
@pytest.mark.parametrize("selector", SELECTORS[1:])
@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("name", ["bimolecular_100", "dimerisation", "toggle_small"])
def test_distributions_of_every_team(name, selector, team):
    tests, _ = cme.validate(
        PROBLEMS[name], n=20_000, seed=2, device="cuda", selector=selector, team=team
    )
    assert min(test.p_value for test in tests) >= cme.smallest_p(9 * N_TESTS)


@pytest.mark.validate
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROBLEMS)
def test_distributions_at_length(name):
    """As above, with 100,000 trajectories on the best device."""
    tests, _ = cme.validate(PROBLEMS[name], n=100_000, seed=1, device="auto")
    assert min(test.p_value for test in tests) >= cme.smallest_p(N_TESTS)


@pytest.mark.validate
def test_a_wrong_rate_fails():
    """Death at 0.103 in place of 0.1 moves the Poisson mean by 0.3 of 10: 9 standard errors."""
    wrong = replace(PROBLEMS["immigration_death"], values={"Mu": 0.103})
    tests, _ = cme.validate(wrong, n=10_000, seed=1, device="cpu", threads=2)
    assert tests[-1].p_value < 1e-9


def test_counts_beyond_the_table_count():
    """All samples at 9 where the table gives 0 and 1 half of the probability each."""
    assert cme.compared(np.full(100, 9, np.int32), np.array([0.5, 0.5])).p_value == 0


def test_bins_expect_ten_and_lose_no_sample():
    probability = scipy.stats.poisson.pmf(np.arange(60), 12.0)
    samples = np.random.default_rng(2).poisson(12.0, 5000).astype(np.int32)
    actual = cme.compared(samples, probability)
    assert 20 <= actual.bins <= 30
    assert actual.p_value > 1e-4


@pytest.mark.validate
@pytest.mark.parametrize(("alarms", "code"), [(1e-3, 0), (1e9, 1)])
def test_the_script_writes_its_tables_and_tells_by_its_exit_code(
    tmp_path, monkeypatch, alarms, code
):
    """With 1e9 false alarms asked for, every p-value is too small."""
    monkeypatch.setattr(cme, "FALSE_ALARMS", alarms)
    table = tmp_path / "table.csv"
    command = ["cme", "--n", "1000", "--device", "cpu", "--cases", "telegraph", "-o", str(table)]
    assert validate.main(command) == code
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["time"] for row in rows] == ["5", "20", "50"]
    assert {row["verdict"] for row in rows} == {"FAIL" if code else "pass"}
    assert "telegraph" in table.with_suffix(".md").read_text()
