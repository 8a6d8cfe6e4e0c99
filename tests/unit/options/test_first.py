"""``--first``: trajectories of a longer run, by their numbers."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main

TIMES = [0.0, 0.5, 1.0]
METHODS = ["ssa", "tau"]


def births() -> ts.Network:
    net = ts.Network("births")
    net.add_parameter("k", 50.0)
    net.add_species("X", 20)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=1.0)
    return net


def run(**options):
    return ts.run(births(), times=TIMES, seed=5, device=ts.CPU(threads=1), **options)


@pytest.mark.parametrize("method", METHODS)
def test_the_last_trajectories_of_a_run_are_those_of_a_run_from_there(method):
    whole, last = run(n=40, method=method), run(n=10, first=30, method=method)
    np.testing.assert_array_equal(last.counts("X"), whole.counts("X")[30:])
    assert (last.counts("X") != whole.counts("X")[:10]).any()


def test_the_points_of_a_sweep_begin_there_each():
    sweep = {"k": [10.0, 90.0]}
    whole, last = run(n=8, sweep=sweep), run(n=3, first=5, sweep=sweep)
    np.testing.assert_array_equal(last.counts("X"), whole.counts("X")[:, 5:])


@pytest.mark.parametrize("method", METHODS)
def test_the_last_points_of_a_sweep_are_those_of_a_run_from_there(method):
    rates = np.array([10.0, 40.0, 90.0, 90.0, 40.0])
    whole = run(n=8, sweep={"k": rates}, method=method)
    last = run(n=8, sweep={"k": rates[2:]}, first_point=2, method=method, record="trajectories")
    np.testing.assert_array_equal(last.counts("X"), whole.counts("X")[2:])
    np.testing.assert_array_equal(last.mean("X"), whole.mean("X")[2:])
    with pytest.raises(ts.ConfigError, match="first_point"):
        run(n=8, first_point=2)


@pytest.mark.parametrize("first", [0, 30])
def test_runs_that_grow_go_on_from_there(tmp_path, first):
    path, whole = tmp_path / "a.h5", run(n=50, first=first)
    run(n=20, first=first, output=path).close()
    with run(append=30, output=path) as grown:
        np.testing.assert_array_equal(grown.counts("X"), whole.counts("X"))
    until = run(n=6000, first=first, until="mean(X) rel 0.5", record="trajectories")
    np.testing.assert_array_equal(until.counts("X")[:50], whole.counts("X"))


def test_a_file_holds_it_and_a_file_without_it_begins_at_zero(tmp_path, capsys):
    """The command that runs a file again takes it from there; files of before are as ever."""
    old, new, again = (tmp_path / name for name in ("old.h5", "new.h5", "again.h5"))
    run(n=4, output=old).close()
    run(n=4, first=7, output=new).close()
    with h5py.File(old) as file:
        assert "before" not in file.attrs
    assert main(["run", str(new), "--quiet", "--device", "cpu", "-o", str(again)]) == 0
    with ts.open(new) as one, ts.open(again) as other:
        assert other.attributes["before"] == 7
        np.testing.assert_array_equal(one.counts("X"), other.counts("X"))
    with run(output=new, resume=True) as same:  # nothing else is given: n and first are the file's
        assert same.n == 4
    with pytest.raises(ts.ConfigError, match="its first trajectory is 7, not 3; resume=True needs"):
        run(n=4, first=3, output=new, resume=True)
    with pytest.raises(ts.ConfigError, match="its first trajectory is 0, not 3"):
        run(n=4, first=3, output=old, resume=True)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"first": -1}, "first=-1 is not allowed: a whole number from 0 to 1099511626776"),
        ({"first": 2**40}, "first=1099511627776 is not allowed"),
        ({"first": 1, "method": "ode"}, 'first= needs method="ssa", tau or auto, not ode'),
    ],
)
def test_what_is_refused(options, sentence):
    with pytest.raises(ts.ConfigError) as caught:
        run(**options)
    assert sentence in str(caught.value)
