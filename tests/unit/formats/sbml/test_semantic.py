"""Differential equations against cases of the SBML Test Suite: a few of what the script takes."""

from __future__ import annotations

import csv
import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import validate
from places import TESTS

CASES = TESTS / "data" / "semantic"
semantic = importlib.import_module("validate_semantic")


@pytest.mark.parametrize("name", [path.name for path in sorted(CASES.glob("[0-9]" * 5))])
def test_a_case_meets_its_tolerances(name: str) -> None:
    actual = semantic.validate(CASES / name)
    assert actual.verdict == "pass", actual


def test_the_script_tells_what_is_wrong(tmp_path: Path, capsys) -> None:
    shutil.copytree(CASES / "01779", tmp_path / "01779")
    table = tmp_path / "01779" / "01779-results.csv"
    table.write_text(
        table.read_text(encoding="utf-8").replace("1,0.2,0.1,0.5", "1,0.2,0.1,0.6"),
        encoding="utf-8",
    )
    output = tmp_path / "table.csv"
    assert validate.main(["semantic", "--files", str(tmp_path), "-o", str(output)]) == 1
    assert "1 wrong" in capsys.readouterr().out
    with output.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["verdict"] == "FAIL"
    assert row["message"] == "x is outside the tolerance"


def test_a_difference_is_in_units_of_what_is_allowed() -> None:
    case = semantic.read_case(CASES / "01779")
    expected = np.array([1.0, np.nan, np.inf])
    assert semantic.difference(case, expected.copy(), expected) == 0
    assert semantic.difference(case, np.array([1.0004, np.nan, np.inf]), expected) == pytest.approx(
        2.0
    )
    assert semantic.difference(case, np.array([1.0, 0.0, np.inf]), expected) == np.inf
