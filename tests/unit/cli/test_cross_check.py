"""``tauslab run --cross-check``, and the comparison of an ensemble with a law."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.cme import compare as comparing
from tauslab.analysis.cme.compare import compare, verdict
from tauslab.cli.main import main


def turnover(k=10.0):
    net = ts.Network("turnover")
    net.add_species("X", 5)
    net.add_parameter("k", k)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=1.0)
    return net


@pytest.fixture
def command(tmp_path):
    path = turnover().write(tmp_path / "turnover.toml")
    places = ["--device", "cpu", "-o", str(tmp_path / "r.h5"), "--quiet", "--cross-check"]
    return ["run", str(path), "-n", "2000", "--t-end", "3", "--points", "4", "--seed", "1", *places]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "3 of 3 distributions agree"),
        (("--record", "final"), "1 of 1 distributions agree"),
        (("--method", "tau"), "3 of 3 distributions"),
        (("-n", "19"), "not cross-checked: 19 trajectories are too few to be compared"),
        (("--sweep", "k=list:1,2"), "not cross-checked: that is for counts of one point"),
        (("--record", "statistics"), "not cross-checked"),
        (("--method", "ode"), "not cross-checked"),
    ],
)
def test_what_is_said(command, more, told, capsys):
    """False alarms: 0.1 % of each of four."""
    assert main([*command, *more]) == 0
    assert told in capsys.readouterr().err


def test_a_large_model_is_not_checked(command, monkeypatch, capsys):
    monkeypatch.setattr(comparing, "_MOST_STATES", 10)
    assert main(command) == 0
    assert (
        "not cross-checked: turnover: its distribution takes 11 states or more"
        in capsys.readouterr().err
    )


def test_another_law_fails(command, monkeypatch, capsys):
    proper = comparing.solve
    monkeypatch.setattr(
        comparing, "solve", lambda net, times, values, *a, **k: proper(
            net, times, {**values, "k": 11.0}, *a, **k
        )
    )  # fmt: skip
    assert main(command) == 1
    assert "distributions differ from the master equation" in capsys.readouterr().err


def test_a_state_outside_the_law_is_seen():
    """All trajectories are where the law is, but one that no reaction leads to."""
    still = ts.Network("still")
    still.add_species("X", 5)
    still.add_reaction("X ->", rate=0.0)
    law = ts.cme(still, [1.0])
    run = ts.run(still, n=50, times=[1.0], device="cpu", seed=1)
    assert verdict(compare(law, run))[0]
    moved = ts.run(still, n=50, times=[1.0], device="cpu", seed=1, set={"X": [5] * 49 + [6]})
    assert not verdict(compare(law, moved))[0]


def test_p_values_are_uniform():
    """Forty ensembles: the mean of 40 p-values within four standard errors of a half."""
    law = ts.cme(turnover(), [0.5, 2.0])
    found = [
        compare(law, ts.run(turnover(), n=300, times=[0.5, 2.0], device="cpu", seed=seed))
        for seed in range(40)
    ]
    p = np.array([[one.p_value for one in row] for row in found])
    assert (np.abs(p.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / 40)).all()
    distances = np.array([[one.distance / one.expected_distance for one in row] for row in found])
    np.testing.assert_allclose(distances.mean(axis=0), 1, atol=0.15)


def test_a_law_in_one_bin_is_compared():
    """X is 1 with the probability 0.005: of 1,000 trajectories fewer than a bin needs."""
    net = ts.Network("rare")
    for name, count in (("S", 1), ("X", 0), ("D", 0)):
        net.add_species(name, count)
    net.add_parameter("p", 0.005)
    net.add_parameter("q", 0.995)
    net.add_reaction("S -> X", rate="p")
    net.add_reaction("S -> D", rate="q")
    law = ts.cme(net, 60.0)
    proper = {one.species: one for one in compare(law, ts.run(net, n=1000, times=[60.0], seed=1))}
    assert proper["X"].bins == 1
    assert 0.01 < proper["X"].p_value < 1
    other = ts.run(net, n=1000, times=[60.0], seed=1, set={"p": 0.3, "q": 0.7})
    found = {one.species: one for one in compare(law, other)}
    assert found["X"].p_value < 1e-100
    none = ts.run(net, n=1900, times=[60.0], seed=1, set={"p": 0.0, "q": 1.0})
    found = {one.species: one for one in compare(law, none)}
    assert found["X"].p_value == pytest.approx(2 * 0.995**1900, rel=1e-3)
