"""What is given twice is refused, and what is no number: nothing is overridden in silence."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.analysis.dbn.results.estimate import read_measurements
from tauslab.analysis.filters.keywords import observations
from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.sensitivity.keywords import parse_steps
from tauslab.base.arrays import doubles
from tauslab.base.errors import ConfigError
from tauslab.cli.main import _parsed
from tauslab.cli.tools import mpi_hints
from tauslab.exchange.sedml.execute import method_of
from tauslab.options.dbn import parse_edges, parse_intervals, parse_ranges
from tauslab.options.python_values import numbers
from tauslab.options.sampling import Sampling
from tauslab.options.sweep import choose_points, parse_sweep, read_table
from tauslab.options.values.sample_times import sample_times
from tauslab.options.values.texts import assignments, by_name


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (assignments, ["k=1", "k=2"]),
        (parse_ranges, ["k=1:2", "k=1:3"]),
        (parse_edges, ["k=1,2", "k=1,3"]),
        (parse_intervals, ["k=3", "k=4"]),
        (parse_intervals, ["3", "4"]),
        (parse_sweep, ["k=list:1", "k=list:2"]),
        (by_name("initial", "NAME=LAW", str), ["k=poisson(1)", "k=poisson(2)"]),
        (observations, ["k=normal(1)", "k=normal(2)"]),
        (parse_steps, ["k=1", "k=2"]),
        (mpi_hints, ["k=1", "k=2"]),
        (Sampling.parse, ["k=normal(0,1)", "k=normal(0,2)"]),
    ],
)
def test_a_name_has_one_value(read, texts):
    with pytest.raises(ConfigError, match="twice"):
        read(texts)
    read(texts[:1])


@pytest.mark.parametrize(
    "words",
    [
        ["run", "m.toml", "--seed", "1", "--seed", "2"],
        ["run", "m.toml", "-o", "a.h5", "--output", "b.h5"],
        ["rdme", "m.toml", "--t-end=1", "--t-end=2"],
        ["slurm", "--nodes", "1", "--nodes", "2", "--", "run", "m.toml"],
    ],
)
def test_a_flag_with_two_values_is_reported(words, capsys):
    _parsed(words, alone=False)
    assert "twice" in capsys.readouterr().err


def test_a_flag_may_repeat_its_value(capsys):
    assert _parsed(["run", "m.toml", "--seed", "1", "--seed", "1"], alone=False).seed == 1
    assert not capsys.readouterr().err


def test_files_name_each_value_once(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("k=1\nk=2\n")
    with pytest.raises(ConfigError, match="twice"):
        assignments([f"@{path}"])
    path.write_text("k=1\ng=3\n")
    assert assignments(["k=2", f"@{path}"]) == {"k": 2.0, "g": 3.0}
    path.write_text("k,k\n1,2\n")
    for read in (
        lambda: read_table(path),
        lambda: Sampling.parse([f"k=table({path})"]),
    ):
        with pytest.raises(ConfigError, match="twice"):
            read()
    path.write_text("variable,time,value,value\nX,1,2,3\n")
    with pytest.raises(ConfigError, match="twice"):
        read_measurements(path)


DATES = np.array(["2026-01-01", "2026-01-02"], "M8[ns]")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (DATES, "dates"),
        (DATES - DATES[0], "durations"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "masked"),
        ([1, 10**400], r"below 1\.8e308"),
        (["one", 2], "numbers"),
    ],
)
def test_what_is_no_number_is_refused_everywhere(values, why):
    for read in (
        lambda: numbers("k", values),
        lambda: choose_points({"k": values}),
        lambda: choose_points(None, {"k": values}),
        lambda: sample_times(values, None, None),
        lambda: Observations({"time": [1, 2], "X": values}, {"X": "normal(1)"}),
    ):
        with pytest.raises(ConfigError, match=why):
            read()
    assert doubles(["1", 2]).tolist() == [1.0, 2.0]


def test_columns_of_parquet_are_numbers_named_once(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "points.parquet"
    parquet.write_table(pyarrow.table({"k": pyarrow.array(DATES)}), path)
    with pytest.raises(ConfigError, match="dates"):
        read_table(path)
    parquet.write_table(pyarrow.table([pyarrow.array([1.0])] * 2, ["k", "k"]), path)
    with pytest.raises(ConfigError, match="twice"):
        read_table(path)


@pytest.mark.parametrize("seed", ["nan", "1e400", "1.5", "one"])
def test_a_seed_of_sedml_is_a_whole_number(seed):
    with pytest.raises(ConfigError, match="whole number"):
        method_of("KISAO:0000029", {"KISAO:0000488": seed}, "task")


def test_a_seed_of_sedml_keeps_its_digits():
    largest = 2**64 - 1
    assert method_of("KISAO:0000029", {"KISAO:0000488": str(largest)}, "task")[1] == largest
