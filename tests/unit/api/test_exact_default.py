"""The default is exact; what leaps made says so wherever it is shown."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.info import describe, facts

TIMES = np.array([0.0, 0.5, 1.0])
SMALL = {"n": 20, "times": TIMES, "seed": 1, "device": ts.CPU(threads=1)}
MARK = "made by leaps (epsilon 0.03), whose error does not shrink with n"


def births_and_deaths(n=10_000):
    """Stationary with the Poisson law, so its Fano factor is 1."""
    net = ts.Network("births_and_deaths")
    net.add_species("X", n)
    net.add_reaction("-> X", rate=float(n))
    net.add_reaction("X ->", rate=1.0)
    return net


def test_python_is_exact_unless_asked():
    """A model that leaps once took by themselves, with four times its noise.

    A Fano factor over 400 trajectories at 20 times, 2 half-lives and more apart in all but a few:
    its deviation is below 0.03, so 0.8 to 1.2 fails fewer than one correct program in 10^9.
    """
    times = np.arange(1.0, 21.0)
    actual = ts.run(births_and_deaths(1000), n=400, times=times, seed=1, device="cpu")
    assert actual.method == "ssa"
    assert actual.approximate == ""
    assert "approximate" not in actual.attributes
    counts = actual.counts("X").astype(float)
    fano = counts.var(0, ddof=1).mean() / counts.mean()
    assert 0.8 < fano < 1.2


def test_the_command_is_exact_unless_asked(tmp_path):
    path, out = tmp_path / "m.toml", tmp_path / "a.h5"
    births_and_deaths(100).write(path)
    run = ["run", str(path), "-n", "5", "--t-end", "1", "--seed", "1", "--device", "cpu", "--quiet",
           "-o", str(out), "--overwrite"]  # fmt: skip
    assert main(run) == 0
    with ts.open(out) as actual:
        assert actual.method == "ssa"
        default = digest_lines(actual)
    assert main([*run, "--method", "ssa"]) == 0
    with ts.open(out) as actual:
        assert digest_lines(actual) == default


@pytest.mark.parametrize(
    "more",
    [
        {"sweep": {"X": [100, 200]}},
        {"until": "mean(X) rel 0.1", "n": 5000},
        {"record": "summary:mean:X"},
    ],
    ids=["sweep", "until", "summary"],
)
def test_other_ways_are_exact_unless_asked(more):
    assert ts.run(births_and_deaths(100), **{**SMALL, **more}).method == "ssa"


def test_a_simulator_is_exact_unless_asked():
    exact = ts.simulator(births_and_deaths(100), ["X"], **{k: SMALL[k] for k in ("times",)})
    assert "approximate" not in repr(exact)
    leaping = ts.simulator(
        births_and_deaths(100), ["X"], times=TIMES, method=ts.TauLeaping(epsilon=0.1), seed=0
    )
    assert "tau (approximate, epsilon 0.1), seed 0>" in repr(leaping)
    either = ts.simulator(births_and_deaths(100), ["X"], times=TIMES, method="auto", seed=0)
    assert "auto (approximate where it leaps, epsilon 0.03), seed 0>" in repr(either)


def test_leaps_say_so(tmp_path, capsys):
    path, out = tmp_path / "m.toml", tmp_path / "a.h5"
    births_and_deaths().write(path)
    run = ["run", str(path), "-n", "5", "--t-end", "1", "--seed", "1", "--device", "cpu",
           "--method", "tau", "-o", str(out)]  # fmt: skip
    assert main(run) == 0
    assert f"  approximate: {MARK}" in capsys.readouterr().out
    with ts.open(out) as actual:
        assert actual.approximate.startswith(MARK)
        assert str(actual.attributes["approximate"]).startswith(MARK)
        assert ": tau (approximate, epsilon 0.03), 5 trajectories" in repr(actual)
        assert any(line.startswith(f"approximate: {MARK}") for line in describe(actual))
        assert facts(actual)["approximate"].startswith(MARK)
        assert str(actual.to_xarray().attrs["approximate"]).startswith(MARK)
    exact = ts.run(births_and_deaths(10), **SMALL)
    assert not any(line.startswith("approximate") for line in describe(exact))
    assert facts(exact)["approximate"] is None


def test_a_file_of_an_earlier_version_says_so_too(tmp_path):
    actual = ts.run(births_and_deaths(), **SMALL, method="tau", output=tmp_path / "a.h5")
    del actual.attributes["approximate"]
    assert actual.approximate.startswith(MARK)


def test_an_interval_by_leaps_is_told_to_lack_their_error():
    more = {"until": "mean(X) rel 0.1", "n": 5000, "method": "tau"}
    with pytest.warns(UserWarning, match="that of sampling alone and does not hold the leaps' err"):
        actual = ts.run(births_and_deaths(), **{**SMALL, **more})
    assert "of sampling alone" in actual.approximate


def test_a_file_keeps_its_method_where_none_is_given(tmp_path):
    """Trajectories that are added to leaps are leaps, though the default is exact."""
    path, net = tmp_path / "a.h5", births_and_deaths()
    common = {k: v for k, v in SMALL.items() if k != "n"}
    ts.run(net, n=12, method="tau", output=path, **common).close()
    added = ts.run(net, append=8, output=path, **common)
    whole = ts.run(net, n=20, method="tau", **common)
    assert added.method == "tau"
    assert added.approximate == whole.approximate
    assert digest_lines(added) == digest_lines(whole)
    added.close()
    with pytest.raises(ConfigError, match="its method is tau, not ssa"):
        ts.run(net, append=8, method="ssa", output=path, **common)
    with ts.run(net, n=20, resume=True, output=path, **common) as again:
        assert again.method == "tau"


def test_an_error_of_leaps_is_no_option_without_leaps(capsys, tmp_path):
    message = "--epsilon is the error of leaps: use it with --method tau or auto"
    with pytest.raises(TypeError, match="epsilon"):
        ts.SSA(epsilon=0.1)
    path = tmp_path / "m.toml"
    births_and_deaths(10).write(path)
    assert main(["run", str(path), "--t-end", "1", "--epsilon", "0.1"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "ode", "--team", "8"], "--team is of exact simulation: use it with"),
        (["--method", "tau", "--presimulation", "9"], "--presimulation is of exact simulation"),
        (["--method", "tau", "--delay-queue", "9"], "--delay-queue is of delayed reactions"),
        (["--delay-queue", "9"], "--delay-queue 9: births_and_deaths has no delays"),
        (["--method", "ode", "--delay-history", "9"], "--delay-history 9: births_and_deaths"),
        (["--writer", "parts", "--mpi-hint", "a=b"], "--mpi-hint is for --writer mpio, not parts"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(capsys, tmp_path, flags, message):
    path = tmp_path / "m.toml"
    births_and_deaths(10).write(path)
    assert main(["run", str(path), "--t-end", "1", *flags]) == 2
    assert message in capsys.readouterr().err
