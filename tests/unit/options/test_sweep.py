"""Points of a sweep: grids, designs and tables, and what is refused in one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tauslab import ConfigError
from tauslab.options.ensemble import Options
from tauslab.options.sweep import (
    Design,
    Range,
    Sweep,
    choose_points,
    parse_design,
    parse_sweep,
    read_table,
)


def test_a_grid_has_all_combinations_the_first_name_the_slowest():
    sweep = choose_points(parse_sweep(["a=lin:0:1:3", "b = list:5,7", "c=log:1:1000:4"]))
    assert sweep.names == ("a", "b", "c")
    assert sweep.grid == (3, 2, 4)
    columns = sweep.columns()
    assert columns["a"].tolist() == [0.0] * 8 + [0.5] * 8 + [1.0] * 8
    assert columns["b"].tolist() == ([5.0] * 4 + [7.0] * 4) * 3
    assert columns["c"].tolist() == [1.0, 10.0, 100.0, 1000.0] * 6


def test_ranges_include_both_ends_and_do_not_drift():
    tenths = choose_points({"a": "lin:0:1:11"}).values[:, 0]
    assert tenths.tolist() == [k / 10 for k in range(11)]
    for low, high in ((6.9e-4, 1.4e-3), (0.1, 0.7), (3.0, 1.0)):
        for scale in ("lin", "log"):
            values = choose_points({"a": f"{scale}:{low!r}:{high!r}:10"}).values[:, 0]
            assert (values[0], values[-1]) == (low, high)
            steps = np.diff(values if scale == "lin" else np.log(values))
            np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert choose_points({"a": "lin:2:8:1"}).values.tolist() == [[2.0]]


def test_arrays_and_columns_from_python():
    sweep = choose_points({"a": [1, 2], "b": np.linspace(0, 1, 3)})
    assert sweep.values.shape == (6, 2)
    table = choose_points(None, {"a": [1, 2, 4], "b": np.array([5.0, 5.0, 6.0])})
    assert table.grid is None
    assert table.values.tolist() == [[1, 5], [2, 5], [4, 6]]
    assert choose_points(None) is None
    assert choose_points({}) is None


@pytest.mark.parametrize("kind", ["sobol", "lhs"])
@pytest.mark.parametrize("points", [1, 7, 32])
def test_designs_fill_their_ranges_and_repeat_themselves(kind, points):
    pytest.importorskip("scipy")
    design = choose_points({"a": "log:1e-3:10", "b": (-2, 3)}, None, (kind, points))
    assert isinstance(design, Design)
    drawn = design.draw(5)
    assert drawn.values.shape == (points, 2)
    a, b = drawn.values.T
    assert ((a >= 1e-3) & (a <= 10) & (b >= -2) & (b <= 3)).all()
    assert np.array_equal(design.draw(5).values, drawn.values)
    assert not np.array_equal(design.draw(6).values, drawn.values)
    if points == 32:  # one point in each of 32 equal parts, of the logarithm where the scale is one
        for values, low, high in ((np.log(a), np.log(1e-3), np.log(10)), (b, -2, 3)):
            part = np.floor((values - low) / (high - low) * 32).astype(int)
            assert sorted(part) == list(range(32))


def test_a_design_without_scipy_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ConfigError, match=r"SciPy.*pip install .scipy"):
        Design("lhs", 4, {"a": Range("lin", 0.0, 1.0)}).draw(1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (({"a": "lin:0:1"},), "needs design="),
        (({"a": "lin:0:1:0"},), "N must be a whole"),
        (({"a": "lin:0:1:1.5"},), "N must be a whole"),
        (({"a": "lin:0:x:2"},), "must be numbers"),
        (({"a": "lin:0:inf:2"},), "finite"),
        (({"a": "log:0:1:3"},), "above 0"),
        (({"a": "log:-1:1:3"},), "above 0"),
        (({"a": "list:"},), "must be numbers"),
        (({"a": "list:1,nan"},), "nan at point 1"),
        (({"a": "cube:1:2:3"},), "lin:LO:HI:N"),
        (({"a": []},), "0 points"),
        (({"a": [[1.0]]},), "a list of values"),
        (({"a": ["one"]},), "must be numbers"),
        (({"a": "lin:0:1:5000", "b": "lin:0:1:5000"},), "25000000 points"),
        (({"a": "lin:0:1:3"}, None, ("sobol", 4)), "lin:LO:HI or"),
        (({"a": "lin:1:1"}, None, ("sobol", 4)), "less than HI"),
        (({"a": "lin:0:b"}, None, ("sobol", 4)), "must be numbers"),
        (({"a": "log:0:1"}, None, ("lhs", 4)), "above 0"),
        (({"a": "lin:0:1"}, None, ("lhs", 0)), "0 points"),
        (({"a": "lin:0:1"}, None, ("halton", 4)), "sobol, lhs"),
        ((None, None, ("lhs", 4)), "needs ranges"),
        (({"a": [1]}, {"b": [1]}), "excludes"),
        ((None, {"a": [1, 2], "b": [1]}), "equally long"),
        ((None, {}), "at least one column"),
    ],
)
def test_bad_sweeps_are_refused(arguments, word):
    with pytest.raises(ConfigError, match=word):
        choose_points(*arguments)


@pytest.mark.parametrize(
    ("texts", "word"),
    [(["a=list:1", "a=list:2"], "is given twice"), (["a"], "NAME="), (["=list:1"], "NAME=")],
)
def test_bad_sweep_options(texts, word):
    with pytest.raises(ConfigError, match=word):
        parse_sweep(texts)


def test_bad_design_option():
    assert parse_design("lhs:12") == ("lhs", 12)
    for text in ("lhs", "lhs:", "lhs:x"):
        with pytest.raises(ConfigError, match="sobol:N or lhs:N"):
            parse_design(text)


def test_a_table_is_read(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("k, X\n1,5\n\n 2.5e0 ,7\n")
    table = read_table(path)
    assert table.names == ("k", "X")
    assert table.values.tolist() == [[1, 5], [2.5, 7]]
    assert str(path) in table.origin


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "line 1 must name every column"),
        ("k,\n1,2\n", "line 1 must name every column"),
        ("k,k\n1,2\n", "column k is there twice"),
        ("k,X\n1,2\n3\n", "line 3 has 1 cells, not 2; X is missing"),
        ("k\n1\n2,3\n", "line 3 has 2 cells, not 1"),
        ("k,X\n1,2\n\n1,many\n", "line 4: column X: 'many' is not a number"),
        ("k,X\n1,\n", "line 2: column X: '' is not a number"),
        ("k\n1\ninf\n", "inf at point 1"),
        ("k\n", "0 points"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, word):
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=word) as caught:
        read_table(path)
    assert "points.csv" in str(caught.value)


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nope.csv.: cannot be read"):
        read_table(tmp_path / "nope.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00k")
    with pytest.raises(ConfigError, match=r"binary.csv.: cannot be read"):
        read_table(binary)


def test_a_parquet_table_is_read_or_its_reader_named(tmp_path, monkeypatch):
    path = tmp_path / "points.parquet"
    path.write_bytes(b"not parquet")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ConfigError, match=r"pip install .pyarrow"):
            read_table(path)
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with pytest.raises(ConfigError, match=r"points.parquet.: cannot be read"):
        read_table(path)
    parquet.write_table(pyarrow.table({"k": [1.0, 2.0], "X": [5, 7]}), path)
    assert read_table(path).values.tolist() == [[1, 5], [2, 7]]


def test_options_check_a_sweep_against_the_rest():
    sweep = Sweep(("k",), np.ones((4, 1)))
    times = np.array([0.0, 1.0])
    assert Options(times=times, n=10, sweep=sweep).total == 40
    for options, word in (
        ({"set": {"k": 1.0}}, "k has one value for all points and is swept"),
        ({"set": {"d": np.ones(1000)}}, "exclude each other"),
        ({"n": 2**40, "sweep": Sweep(("k",), np.ones((2**14, 1)))}, "at most"),
    ):
        with pytest.raises(ConfigError, match=word):
            Options(times=times, **{"sweep": sweep, **options})
