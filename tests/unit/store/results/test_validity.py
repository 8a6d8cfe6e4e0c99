"""A run without one valid trajectory fails, and says why."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main
from tauslab.model.expressions.expression import Number

COMMON = {"n": 6, "times": [0.0, 1.0], "seed": 1, "device": ts.CPU(threads=1)}


def bursts():
    """Every event adds so many molecules that a count passes its limit where k is not 0."""
    net = ts.Network("bursts")
    net.add_species("X", 0)
    net.add_parameter("k", 50.0)
    net.add_reaction("-> 2000000000 X", rate="k")
    return net


def test_python_is_warned_and_gets_the_result():
    message = (
        r"no trajectory reached the last sample time: 6 ended with status overflow; "
        r"a count passed 2147483647: "
        r"end earlier \(t_end=\), take a smaller compartment"
    )
    with pytest.warns(UserWarning, match=message):
        result = ts.run(bursts(), **COMMON)
    assert (result.status == 2).all()


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_the_command_fails(tmp_path, capsys, quiet):
    path, out = tmp_path / "m.toml", tmp_path / "a.h5"
    bursts().write(path)
    run = ["run", str(path), "-n", "6", "--t-end", "1", "--seed", "1", "--device", "cpu", *quiet,
           "-o", str(out)]  # fmt: skip
    assert main(run) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith(
        f"tauslab: {out}: no trajectory reached the last sample time: 6 ended"
    )
    assert ts.open(out).complete


def test_points_without_a_valid_trajectory_are_named(tmp_path, capsys):
    sweep = {"k": [0.0, 50.0, 60.0]}
    message = (
        r"at 2 of 3 points \(point 1: k = 50, point 2: k = 60\): 12 ended with status overflow"
    )
    with pytest.warns(UserWarning, match=message):
        ts.run(bursts(), **COMMON, sweep=sweep)
    path = tmp_path / "m.toml"
    bursts().write(path)
    run = ["run", str(path), "-n", "6", "--t-end", "1", "--seed", "1", "--device", "cpu", "--quiet",
           "--sweep", "k=list:0,50,60", "-o", str(tmp_path / "a.h5")]  # fmt: skip
    assert main(run) == 0
    assert "tauslab: warning: " in (err := capsys.readouterr().err)
    assert "point 1: k = 50" in err


def test_one_valid_trajectory_is_enough_and_the_others_are_reported(tmp_path, capsys):
    """Means are then of those that did not overflow: in silence they would be wrong."""
    net = bursts()
    given = COMMON | {"set": {"k": np.array([0.0, 50, 50, 50, 50, 50])}}
    with pytest.warns(UserWarning, match=r"5 of 6 trajectories ended early, so that means .*over"):
        result = ts.run(net, **given)
    assert np.count_nonzero(result.status <= 1) == 1
    net.parameters["k"] = Number(1.0)
    net.write(tmp_path / "m.toml")
    run = ["run", str(tmp_path / "m.toml"), "-n", "9", "--t-end", "1.5", "--seed", "1", "--device",
           "cpu", "-o", str(tmp_path / "a.h5")]  # fmt: skip
    assert main(run) == 0
    assert "of 9 trajectories ended early: overflow" in capsys.readouterr().out


def test_a_limit_on_steps_and_a_stiff_model_have_hints_of_their_own():
    net = ts.Network("turnover")
    net.add_species("X", 100)
    net.add_reaction("-> X", rate=100.0)
    net.add_reaction("X ->", rate=2.0)
    with pytest.warns(UserWarning, match=r"6 ended with status step_limit; raise max_steps="):
        ts.run(net, **COMMON, max_steps=3)
    options = {**COMMON, "n": 1, "method": ts.ODE(solver="dopri5"), "max_steps": 1}
    with pytest.warns(UserWarning, match=r'may be stiff: solver="rosenbrock"'):
        ts.run(net, **{**options, "method": ts.ODE(solver="dopri5", rtol=1e-12)})


def logarithms():
    """The logarithm of a count, which is infinite where the count is 0, and a root of it."""
    net = ts.Network("logarithms")
    net.add_species("X", 3)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    net.add_rule("L", "log(X)")
    net.add_rule("S", "sqrt(X - 1)")
    return net


@pytest.mark.parametrize("sweep", [None, {"k": [1.0, 2.0]}])
def test_a_mean_says_what_it_leaves_out(sweep):
    """In silence it would be the mean of few, which are not like the others."""
    given = {"n": 40, "times": [0.0, 1.5], "seed": 1, "device": ts.CPU(threads=1), "sweep": sweep}
    result = ts.run(logarithms(), **given)
    gone = int((result.counts("X") == 0).sum())
    assert gone
    message = f"of L leave out {gone} of {result.counts('X').size} samples"
    with pytest.warns(UserWarning, match=message):
        result.mean("L")
    with pytest.warns(UserWarning, match=message.replace("of L", "of S")):
        result.std("S")


def test_infinite_values_have_their_place_in_quantiles():
    result = ts.run(
        logarithms(), n=99, times=[0.0, 1.5], seed=1, device=ts.CPU(threads=1), sweep={"k": [1, 2]}
    )
    levels = [0.0, 0.1, 0.5, 0.9, 1.0]
    with np.errstate(divide="ignore"):
        expected = np.log(result.quantile("X", levels))
    np.testing.assert_allclose(result.quantile("L", levels), expected, rtol=1e-15)
    assert np.isneginf(expected).any()
    smallest = result.quantile("S", 0.0)  # a root of -1 is no number, and in no quantile
    assert np.array_equal(smallest[:, -1], [0.0, 0.0])


@pytest.mark.filterwarnings("always")
def test_a_command_tells_what_means_leave_out_in_a_line(tmp_path, capsys):
    out, table = tmp_path / "a.h5", tmp_path / "a.csv"
    given = {"n": 40, "times": [0.0, 9.0], "seed": 1, "device": ts.CPU(threads=1)}
    ts.run(logarithms(), **given, output=out).close()
    assert main(["export", str(out), "--what", "statistics", "-o", str(table)]) == 0
    err = capsys.readouterr().err
    assert "tauslab: warning: mean and deviation of L leave out 40 of 80 samples" in err
    assert "UserWarning" not in err


@pytest.mark.filterwarnings("always")
def test_the_last_words_of_a_run_tell_it_in_a_line(tmp_path, capsys):
    logarithms().write(tmp_path / "m.toml")
    run = ["run", str(tmp_path / "m.toml"), "-n", "40", "--t-end", "9", "--points", "2", "--seed",
           "1", "--device", "cpu", "--json", "-o", str(tmp_path / "a.h5")]  # fmt: skip
    assert main(run) == 0
    actual = capsys.readouterr()
    assert json.loads(actual.out)["last"]["L"] == {"mean": None, "sd": None}
    assert "tauslab: warning: mean and deviation of L leave out 40 of 80 samples" in actual.err
    assert "UserWarning" not in actual.err


def network_with(law, amounts, rule=None):
    """A network with one reaction, `R`."""
    net = ts.Network("broken")
    for name, amount in amounts.items():
        net.add_species(name, amount)
    if rule:
        net.add_rule("s", rule)
    net.add_reaction("A ->", law=law, name="R")
    return net


def test_a_formula_that_gives_no_number_is_named():
    options = {"n": 1, "times": [0.0, 2.0, 5.0], "method": "ode", "seed": 1, "device": "cpu"}
    net = network_with("s", {"A": 1000}, "if(time < 4, 1, nan())")
    with pytest.warns(UserWarning, match=r"at time 4, reaction R: rule s: .*no otherwise"):
        ts.run(net, **options)
    net = network_with("B / (B + C)", {"A": 5, "B": 0, "C": 0})
    with pytest.warns(UserWarning, match=r"at time 0, reaction R: B / .* where B = 0, C = 0"):
        ts.run(net, **options)


def test_what_reactions_reach_and_events_set_is_named():
    options = {"n": 1, "times": [0.0, 100.0], "seed": 1, "device": "cpu"}
    net = network_with("0 * (B / B) + 1", {"A": 100, "B": 3})
    net.add_reaction("B ->", rate=1.0)
    with pytest.warns(UserWarning, match=r"after time 0, reaction R: B / B is .* where B = 0"):
        ts.run(net, **options)
    net = network_with("0.1 * A", {"A": 5})
    net.add_event("e", trigger="time >= 3", assignments={"A": "A - 50"})
    with pytest.warns(UserWarning, match=r"time 3, event e: it sets A to -45"):
        ts.run(net, **options)
