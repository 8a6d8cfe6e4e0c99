"""No table has two columns of one name."""

from __future__ import annotations

import pytest

import tauslab as ts


@pytest.fixture(scope="module")
def result() -> ts.Result:
    """Species with names of columns, and a sweep of one beside its usual name."""
    net = ts.Network("names")
    for initial, name in enumerate(("time", "trajectory", "status", "X", "X_swept")):
        net.add_species(name, initial + 1)
    net.add_reaction("X ->", rate=0.0)
    run = {"record": "trajectories,final,statistics", "n": 2, "seed": 1, "device": "cpu"}
    return ts.run(net, times=[0.5, 1.0], sweep={"X": [7, 8]}, **run)


@pytest.mark.parametrize("what", ["trajectories", "final", "statistics"])
def test_columns_are_called_apart(result: ts.Result, what: str) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas(what)
    assert frame.columns.is_unique
    expected = {
        "trajectories": {"time_species": 1, "trajectory_species": 2, "status": 3, "X_swept": 5},
        "final": {"time": 1, "trajectory_species": 2, "status_species": 3, "X_swept": 5},
        "statistics": {"time_mean": 1, "trajectory_mean": 2, "X_swept_mean": 5},
    }[what]
    for name, value in expected.items():
        assert (frame[name] == value).all(), name
    swept = "X" if what == "statistics" else "X_swept_"
    assert sorted(set(frame[swept])) == [7, 8]


def test_time_is_one_name(result: ts.Result) -> None:
    assert result.keys().count("time") == 1
    assert result["time"].tolist() == [0.5, 1.0]
    assert (result["time_species"] == 1).all()
    names = result.keys()
    assert all(len(result[name]) for name in names)
