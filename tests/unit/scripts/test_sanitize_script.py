"""What scripts/sanitize.py makes of reports, and what it starts."""

from __future__ import annotations

import sanitize

ADDRESS = """=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62a0
WRITE of size 1 at 0x62a0 thread T2
    #0 0x7f in record_end ensemble/sampling.h:51
"""
UNDEFINED = "random/poisson.h:9:5: runtime error: 1e+20 is outside the range of int\n"


def test_reports_of_all_processes_are_counted(tmp_path):
    (tmp_path / "report.7").write_text(ADDRESS + UNDEFINED)
    (tmp_path / "report.8").write_text(UNDEFINED)
    (tmp_path / "harmless").write_text("race:nothing ERROR: AddressSanitizer")
    found = sanitize.reports(tmp_path)
    assert sum(found.values()) == 3
    assert any("ensemble/sampling.h:51" in text for text in found)
    assert found[next(text for text in found if text.startswith("random/poisson.h"))] == 2


def test_no_report_is_none(tmp_path):
    (tmp_path / "report.7").write_text("==7==WARNING: stacks of fibers are not known\n")
    assert not sanitize.reports(tmp_path)


def test_every_check_has_tests_that_exist(tmp_path):
    for check in sanitize.checks(tmp_path).values():
        assert check.tests
        assert all((sanitize.ROOT / name).is_file() for name in check.tests)


def test_the_flags_reach_the_tests(tmp_path):
    found = sanitize.environment(sanitize.Check("-O1 -g", settings={"A": "b"}), 7)
    assert (found["TAUSLAB_CXXFLAGS"], found["TAUSLAB_FUZZ_CASES"], found["A"]) == (
        "-O1 -g", "7", "b",
    )  # fmt: skip
    assert "LD_PRELOAD" not in found
