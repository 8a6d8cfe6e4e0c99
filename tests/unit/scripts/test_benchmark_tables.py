"""Two sources side by side: the same source twice must give the same counts."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys

import pytest
from places import ROOT

benchmark = importlib.import_module("benchmark_tables")


@pytest.mark.slow
@pytest.mark.compiler
def test_a_source_agrees_with_itself(tmp_path):
    output = tmp_path / "tables.csv"
    script = ROOT / "scripts" / "benchmarks" / "benchmark_tables.py"
    options = ["--device", "cpu", "--rounds", "1", "--other", str(ROOT / "src")]
    command = [sys.executable, str(script), "multisite2", *options, "-o", str(output)]
    subprocess.run(command, check=True)
    (row,) = csv.DictReader(output.read_text().splitlines())
    assert (row["case"], row["selector"]) == ("multisite2", "rssa")
    assert int(row["trajectories"]) == benchmark.CASES["multisite2"].core
    assert float(row["ns"]) > 0 < float(row["other_1_ns"])


def test_other_counts_end_the_program():
    class Answering:
        """A source whose counts have this digest."""

        def __init__(self, digest):
            self.digest = digest

        def ask(self, name):
            assert name == "chain"

        def answer(self):
            given = dict.fromkeys(benchmark.COLUMNS, 1) | {"events": 10, "seconds": 1e-6}
            return {**given, "digest": self.digest}

    one, other = Answering("a" * 64), Answering("b" * 64)
    row = benchmark.compared("chain", [one, one], 2)
    assert row["ns"] == row["other_1_ns"] == pytest.approx(100.0)
    with pytest.raises(SystemExit, match="chain: final counts differ"):
        benchmark.compared("chain", [one, other], 1)
