"""The benchmark program: its table of cases, and what it makes of rounds."""

from __future__ import annotations

import benchmark
import pytest
from benchmark_cases import CASES, GROUPS, UNITS
from machine import Machine


def test_every_case_has_a_group_and_a_unit():
    assert {case.group for case in CASES.values()} == set(GROUPS)
    assert {case.unit for case in CASES.values()} <= set(UNITS)
    listed = benchmark.listed()
    assert all(f"    {name}\n" in listed for name in list(CASES)[:-1])


def test_cases_are_chosen_by_name_and_device():
    names = [case.name for case in benchmark.chosen("start", "cupy", "cuda")]
    assert names == ["start-cupy"]
    assert benchmark.chosen("start", "cupy", "cpu") == []


@pytest.mark.compiler
def test_a_case_is_measured():
    (rate,) = CASES["dosed-ssa"].measured(Machine("cpu", 1, 1e-5)).values()
    assert 0 < rate < 10


def test_rounds_become_a_row():
    rows = {"egfr": {"now": [0.3, 0.1, 0.2], "before": [0.4, 0.5, 0.3]}, "gone": {"before": [1.0]}}
    (line,) = benchmark.page(rows).splitlines()[2:]
    assert line.split(" | ")[1:] == ["ns an event", "0.4", "0.2", "2.00", "0.15", "75 % |"]
    rows = {"schlogl": {"now": [0.9], "before": [1.8]}}
    assert benchmark.page(rows).splitlines()[2].split(" | ")[4:] == ["0.50", "1.8", "50 % |"]
