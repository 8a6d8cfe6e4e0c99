"""What calls from Python may be given, and what is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError


@pytest.fixture
def decay():
    network = ts.Network("decay")
    network.add_species("A", 10)
    network.add_reaction("A ->", rate=1.0)
    return network


def test_whole_numbers_may_be_floats(decay):
    assert ts.run(decay, n=1e1, times=[0, 1], seed=1, device="cpu").n == 10
    assert ts.run(decay, n=np.float64(3), times=[0, 1], seed=1, device="cpu").n == 3
    given = {"points": 3.0, "max_steps": 1e6, "block": 2.0, "set": [("A", 5)], "device": "cpu"}
    result = ts.run(decay, n=4, t_end=1, seed=np.uint64(2**64 - 1), **given)
    assert result.times.tolist() == [0, 0.5, 1]
    assert (result.block, result.seed, result.mean("A")[0]) == (2, 2**64 - 1, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1.5}, "n=1.5 is not allowed"),
        ({"n": "many"}, "n='many' is not allowed"),
        ({"n": True}, "n=True is not allowed"),
        ({"seed": "1"}, "seed='1' is not allowed: a whole number"),
        ({"seed": -1}, "seed=-1 is not allowed"),
        ({"set": {"A": None}}, "A: values must be numbers, not None"),
        ({"tend": 1}, "tend= is no option of run: did you mean t_end="),
        ({"t_eval": [0, 1]}, "t_eval= is no option of run: did you mean times="),
        ({"sweep": [1]}, r"sweep= is a list: give \{NAME: values\}"),
        ({"table": [1]}, r"table= is a list: give \{NAME: values\}"),
        ({"zzz": 1}, "zzz= is no option of run$"),
        ({"A": 1}, r"""A= is no option of run: set=\{"A": ...\} gives it a value"""),
        ({"number_of_trajectories": 9}, "is no option of run: did you mean n="),
        ({"t": 20}, "t= is no option of run: did you mean times= or t_end="),
        ({"threads": 2}, r"threads=.* belongs to ts.CPU\(threads=...\), for device=$"),
        ({"n_threads": 2}, r"n_threads=.* belongs to ts.CPU\(threads=...\), for device=$"),
        ({"species": 5}, "species= takes texts in a list or between commas, not 5"),
        ({"record": 5}, "record= takes texts in a list or between commas, not 5"),
        ({"record": []}, "record='' is not known"),
        ({"epsilon": 0.1}, r"epsilon= is no option of run: it belongs to ts.TauLeaping"),
        ({"method": "euler"}, "method='euler' is not known; allowed"),
        ({"method": "Gillespie"}, r"method='Gillespie' is not known \(is ssa meant\?\); allowed"),
        ({"method": ts.ODE}, r"method= is the class ODE: give its settings, ts.ODE\(\)"),
        ({"n_jobs": 2}, r"n_jobs=.* belongs to ts.CPU\(threads=...\), for device=$"),
        ({"t_end": "late"}, "t_end='late' is not allowed"),
        ({"set": {"A": "few"}}, "A: values must be numbers, not 'few'"),
        ({"set": {"A": [1, 2, 3]}}, r"one per trajectory \(2\)"),
    ],
)
def test_what_is_no_number_is_refused(decay, options, message):
    with pytest.raises(ConfigError, match=message):
        ts.run(decay, **{"n": 2, "t_end": 1, "device": "cpu", **options})


@pytest.mark.parametrize("bins", [0, -1, 2.5, [3, 1], "many", [[1, 2]]])
def test_bins_that_are_none(decay, bins):
    result = ts.run(decay, n=5, times=[0, 1], seed=1, device="cpu")
    with pytest.raises(ConfigError, match="a number of 1 or more, or edges that increase"):
        result.histogram("A", t=1, bins=bins)


def test_what_numpy_pandas_and_a_shell_give(decay, tmp_path, monkeypatch):
    """Arrays without axes, a series in place of a mapping, a path with a tilde."""
    monkeypatch.setenv("HOME", str(tmp_path))
    pandas = pytest.importorskip("pandas")
    given = {"n": 3, "seed": 1, "device": "cpu", "set": pandas.Series({"A": 5.0})}
    made = ts.run(decay, t_end=np.array(1.0), points=2, output="~/a.h5", **given)
    assert (made.mean("A")[0], made.times.tolist()) == (5, [0, 1])
    assert (tmp_path / "a.h5").exists()
    assert ts.open("~/a.h5").digest() == made.digest()
    with pytest.raises(ConfigError, match="sweep= is a table: give table="):
        ts.run(decay, n=3, t_end=1, sweep=pandas.DataFrame({"A": [1]}))
    with pytest.raises(ConfigError, match="not Result: run its model with initial= or extend="):
        ts.run(made)
    with pytest.raises(TypeError, match=r"ts.run takes only model by position; .* n=, t_end="):
        ts.run(decay, 3, 1.0)
    decay.write("~/m.toml")
    assert ts.read("~/m.toml").species.keys() == {"A"}


def test_one_time_is_a_list_of_one(decay):
    one, row = (ts.run(decay, n=3, times=t, seed=1, device="cpu") for t in (2.0, [2.0]))
    assert one.times.tolist() == [2.0]
    assert one.counts("A").tolist() == row.counts("A").tolist()
    assert ts.run(decay, n=3, times=np.int64(2), seed=1, device="cpu").times.tolist() == [2.0]


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_an_end_too_near_to_0_for_its_sample_times(decay, method):
    with pytest.raises(ConfigError, match=r"t_end=4\.94066e-324 is so near to 0 that 101 sample"):
        ts.run(decay, n=3, t_end=5e-324, method=method, device="cpu")
    assert ts.run(decay, n=3, t_end=5e-324, points=2, seed=1, device="cpu").mean("A")[1] == 10


def test_options_of_a_lattice_are_known_by_name():
    cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=32e-9)
    assert repr(cube) == "<Lattice cube: (8, 8, 8) sites, 0 species>"
    with pytest.raises(
        ConfigError, match="n= is no option of run for a lattice: did you mean replicas="
    ):
        ts.run(cube, n=5)


def test_levels_and_names_of_any_kind(decay):
    result = ts.run(decay, n=9, times=[0, 1], seed=1, device="cpu")
    half = result.quantile("A", 0.5)
    for level in (np.float32(0.5), np.array(0.5)):
        assert np.array_equal(result.quantile("A", level), half)
    assert np.array_equal(result.quantile("A", np.array([0.5, 1]))[0], half)
    for level in ("half", 2, [0.5, -1], np.nan):
        with pytest.raises(ConfigError, match="levels must lie between 0 and 1"):
            result.quantile("A", level)
    assert result.counts([]).shape == (9, 2, 0)


def test_messages_name_a_result_that_has_no_file(decay):
    result = ts.run(decay, n=2, times=[0, 1], seed=1, device="cpu")
    assert repr(result).startswith("<Result in memory: ssa, 2 trajectories")
    with pytest.raises(ConfigError, match="'B' is not recorded in the result in memory; it has A"):
        result.mean("B")


def test_a_plot_without_names_shows_what_changes(decay):
    decay.add_species("Still", 5)
    for record in ("trajectories", "statistics"):
        result = ts.run(decay, n=4, times=[0, 1], seed=1, device="cpu", record=record)
        assert [axes.get_ylabel() for axes in result.plot().axes] == ["A (molecules)"]
        both = result.plot(["Still", "A"], kind="mean")
        assert [axes.get_ylabel()[:1] for axes in both.axes] == ["S", "A"]


def test_a_table_is_a_frame_and_one_trajectory_is_singular(decay):
    """What a sweep takes need not be a dict: a frame of pandas has columns by name too."""
    frame = pytest.importorskip("pandas").DataFrame({"A": [3, 5]})
    result = ts.run(decay, n=1, t_end=1, table=frame, seed=1, device="cpu")
    assert result.points["A"].tolist() == [3, 5]
    assert "1 trajectory at 2 points" in repr(result)


def test_the_file_of_a_result_runs_again_and_longer(decay, tmp_path):
    chosen = {"sweep": {"A": [10, 20]}, "method": ts.TauLeaping(epsilon=0.1), "device": "cpu"}
    first = ts.run(decay, n=20, times=[0, 1, 2], output=tmp_path / "a.h5", **chosen)
    again = ts.run(tmp_path / "a.h5", device="cpu")
    assert (again.digest(), again.attributes["epsilon"]) == (first.digest(), 0.1)
    exact = ts.run(tmp_path / "a.h5", method="ssa", device="cpu")
    longer = ts.run(tmp_path / "a.h5", method=ts.SSA(), t_end=4, points=5, device="cpu")
    assert (longer.seed, longer.n, longer.n_points) == (first.seed, 20, 2)
    assert (longer.counts()[:, :, :3] == exact.counts()).all()


def test_the_file_of_a_lattice_runs_again_and_longer(tmp_path):
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=32e-9, boundary="periodic")
    cube.add_species("A")
    cube.add_parameter("k", 20.0)
    cube.add_diffusion("A", 1e-12)
    cube.add_reaction("A ->", rate="k")
    cube.place("A", count=100)
    chosen = {"t_end": 0.01, "count_every": 2, "replicas": 2, "set": {"k": 50}, "device": "cpu"}
    first = ts.run(cube, output=tmp_path / "a.h5", **chosen)
    assert ts.run(tmp_path / "a.h5", device="cpu").digest() == first.digest()
    longer = ts.run(tmp_path / "a.h5", t_end=0.02, device="cpu").replica_counts("A")
    assert (longer[:, : len(first.times)] == first.replica_counts("A")).all()
    ts.run(cube, t_end=0.01, sweep={"k": [20, 50]}, output=tmp_path / "s.h5", device="cpu")
    assert ts.run(tmp_path / "s.h5", device="cpu").n_points == 2
    assert ts.run(tmp_path / "s.h5", sweep={"k": [1, 2, 3]}, device="cpu").n_points == 3
