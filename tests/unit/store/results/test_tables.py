"""Results as tables: files for other programs, and pandas."""

from __future__ import annotations

import csv
from types import SimpleNamespace

import numpy as np
import pytest
import result_factory as make

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.exchange.sedml.reports import _write_csv
from tauslab.store.results.open import open_result
from tauslab.store.results.tables import ResultTable, table_of, write_table

N = 40


@pytest.fixture
def path(tmp_path):
    return make.write(tmp_path / "r.h5", make.samples(N))


@pytest.fixture
def swept(tmp_path):
    """A decay at two rates, with everything that tables are made of."""
    net = ts.Network("decay")
    net.add_parameter("k", 1.0)
    net.add_species("A", 10)
    net.add_reaction("A ->", rate="k")
    options = {"record": "trajectories,statistics,final,summary:extinction:A", "device": "cpu"}
    with ts.run(net, n=4, times=[0, 1, 50], seed=1, sweep={"k": [0.5, 2.0]},
                output=tmp_path / "s.h5", **options) as result:  # fmt: skip
        yield result


def rows(path, delimiter=","):
    with path.open(newline="") as file:
        header, *lines = csv.reader(file, delimiter=delimiter)
    return header, lines


def test_every_sample_is_in_the_table_and_what_has_ended_is_empty(path):
    out = path.with_suffix(".csv")
    assert main(["export", str(path)]) == 0
    header, lines = rows(out)
    assert header == ["trajectory", "time", "X", "Y", "total", "half"]
    assert len(lines) == N * len(make.TIMES)
    expected = make.samples(N)
    counts, real = expected["counts"].reshape(-1, 2), expected["observables"].reshape(-1, 2)
    for k, line in enumerate(lines):
        assert int(line[0]) == k // len(make.TIMES)
        assert float(line[1]) == make.TIMES[k % len(make.TIMES)]
        if counts[k, 0] < 0:
            assert line[2:] == [""] * 4
        else:
            assert [int(v) for v in line[2:4]] == counts[k].tolist()
            assert [float(v) for v in line[4:]] == real[k].tolist()


def test_final_says_how_a_trajectory_ended(path):
    out = path.with_name("final.tsv")
    words = ["export", str(path), "--what", "final", "--species", "Y", "-o", str(out)]
    assert main(words) == 0
    header, lines = rows(out, "\t")
    assert header == ["trajectory", "status", "Y"]
    assert [line[1] for line in lines[:4]] == ["done", "absorbed", "done", "overflow"]
    assert [line[2] == "" for line in lines[:4]] == [False, False, False, True]


def test_swept_values_come_first_in_every_table(swept, tmp_path):
    frames = {what: swept.to_pandas(what) for what in
              ("trajectories", "statistics", "final", "summaries")}  # fmt: skip
    assert {what: len(frame) for what, frame in frames.items()} == {
        "trajectories": 24, "statistics": 6, "final": 8, "summaries": 8,
    }  # fmt: skip
    for frame in frames.values():
        assert frame.columns[0] == "k"
        half = len(frame) // 2
        assert frame["k"].tolist() == [0.5] * half + [2.0] * half
    samples = frames["trajectories"]
    assert samples["A"].tolist() == swept.counts("A").reshape(-1).tolist()
    at_one = samples[(samples["k"] == 2.0) & (samples["time"] == 1)]["A"]
    statistics = frames["statistics"]
    assert at_one.mean() == statistics["A_mean"][4]
    assert at_one.std() == pytest.approx(statistics["A_sd"][4])
    assert frames["final"]["A"].tolist() == [0] * 8
    assert set(frames["final"]["status"]) == {"absorbed"}
    out = tmp_path / "s.csv"
    write_table(table_of(swept, "summaries"), out)
    assert [float(line[2]) for line in rows(out)[1]] == swept.summary("extinction:A").reshape(
        -1
    ).tolist()


def test_a_swept_initial_amount_has_a_column_beside_the_counts():
    """A species called as a column of every table has one of its own, under another name."""
    net = ts.Network("taken")
    net.add_species("A", 5)
    net.add_species("time", 7)
    net.add_reaction("A ->", rate=1.0)
    result = ts.run(net, n=2, times=[0, 1], seed=1, sweep={"A": [5, 9]}, device="cpu")
    frame = result.to_pandas()
    assert frame.columns.tolist() == ["A_swept", "trajectory", "time", "A", "time_species"]
    assert frame["A_swept"].tolist() == [5.0] * 4 + [9.0] * 4
    assert frame["A"].tolist() == result.counts("A").reshape(-1).tolist()
    assert frame.to_numpy()[:, [2, 4]].tolist() == [[0, 7], [1, 7]] * 4
    assert result.to_pandas("statistics").columns[0] == "A"


def test_the_first_form_that_was_recorded_is_the_default(swept, tmp_path):
    assert swept.to_pandas().columns.tolist() == ["k", "trajectory", "time", "A"]
    net = ts.Network("decay")
    net.add_species("A", 10)
    net.add_reaction("A ->", rate=1.0)
    sums = ts.run(net, n=4, times=[0, 1], seed=1, record="statistics", device="cpu").to_pandas()
    assert sums.columns.tolist() == ["time", "A_mean", "A_sd"]
    assert sums["A_mean"][0] == 10


def test_pandas_has_nan_where_a_trajectory_has_ended(path):
    with open_result(path) as result:
        frame = result.to_pandas(names=["X"])
    assert frame["X"].isna().sum() == (make.samples(N)["counts"][:, :, 0] < 0).sum() > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--species", "Z"], "'Z' is not in"),
        (["--what", "summaries"], '--record "summary'),
        (["-o", "t.xls"], ".csv, .tsv or .parquet"),
        (["-o", "no/t.csv"], "does not exist"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(path.parent)
    assert main(["export", str(path), *words]) == 2
    reported = capsys.readouterr().err
    assert message in reported
    assert reported.count("\n") == 1
    assert [p.name for p in path.parent.iterdir()] == ["r.h5"]


def test_a_table_is_not_written_over(path):
    path.with_suffix(".csv").write_text("precious")
    assert main(["export", str(path)]) == 2
    assert path.with_suffix(".csv").read_text() == "precious"
    assert main(["export", str(path), "--overwrite"]) == 0


def test_what_is_not_known_is_refused(path):
    with open_result(path) as result, pytest.raises(ConfigError, match="'all' is not known"):
        result.to_pandas("all")


def test_counts_of_a_lattice(tmp_path, capsys):
    cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=32e-9, boundary="periodic", t_end=0.001)
    cube.add_species("A", "B")
    cube.add_diffusion("*", 1e-12)
    cube.place("A", count=100)
    with ts.run(cube, seed=1, device="cpu", output=tmp_path / "c.h5") as result:
        counted = [result.times.tolist(), result.counts("A").tolist(), result.counts("B").tolist()]
    assert main(["export", str(tmp_path / "c.h5"), "-o", str(tmp_path / "c.csv")]) == 0
    header, lines = rows(tmp_path / "c.csv")
    assert header == ["time", "A", "B"]
    assert np.array(lines, float).T.tolist() == counted
    assert main(["export", str(tmp_path / "c.h5"), "--what", "final"]) == 2
    assert "--what final: " in capsys.readouterr().err


def test_no_cell_is_a_formula(tmp_path):
    """Names come from files of others: a spreadsheet would compute one that begins so."""
    words = ["=cmd|'/c calc'!A0", "+1", "-1", "@sum", "X"]
    piece = [*(np.array([word]) for word in words), np.array([-0.5])]
    table = ResultTable((*words, "n"), iter([piece]))
    write_table(table, tmp_path / "t.csv")
    header, (line,) = rows(tmp_path / "t.csv")
    plain = ["'" + word for word in words[:-1]] + ["X"]
    assert header == [*plain, "n"]
    assert line == [*plain, "-0.5"]
    output = SimpleNamespace(sets=[("a", "=1+1", None), ("b", "B", None)])
    _write_csv(tmp_path / "s.csv", output, [np.array([-1.0]), np.array([2.0])])
    assert rows(tmp_path / "s.csv") == (["'=1+1", "B"], [["-1.0", "2.0"]])


def test_an_observable_has_no_final_of_its_own():
    network = ts.Network("pair")
    network.add_species("X", 5)
    network.add_rule("T", "2*X")
    network.add_reaction("X ->", rate=1)
    result = ts.run(network, n=2, times=[0, 1], seed=1, device="cpu")
    for requested in (result.final, result.counts):
        with pytest.raises(ConfigError, match=r"'T' is an observable.*result\['T'\]"):
            requested("T")
    assert result["T"][..., -1].tolist() == (2 * result.final("X")).tolist()
