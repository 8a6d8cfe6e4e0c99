"""Likelihoods of measurements, and parameters found again on the network."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dbn_factory import known_network

from tauslab import dbn
from tauslab.analysis.dbn.results.network import Structure, from_trajectories
from tauslab.base.errors import ConfigError

TIMES = np.linspace(0.0, 4.0, 9)
RATES = {"a": (0.2, 1.2), "b": (0.1, 0.6)}


def chain(a, b):
    """A -> B -> by rates a and b: both solved by hand, of 100 molecules at the start."""
    first = 100 * np.exp(-np.multiply.outer(a, TIMES))
    second = (100 * a / (b - a))[:, None] * (
        np.exp(-np.multiply.outer(a, TIMES)) - np.exp(-np.multiply.outer(b, TIMES))
    )
    return first, second


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(*RATES[name], 20_000) for name in ("a", "b"))
    structure = Structure(("A", "B"), ("a", "b"), {"A": ("A", "a"), "B": ("A", "B", "a", "b")})
    structure = Structure(
        structure.variables, structure.parameters, {"A": ("A", "a"), "B": ("A", "B", "b")}
    )
    values = np.stack(chain(a, b), axis=2)
    edges = {name: np.linspace(0, 100, 21) for name in ("A", "B")}
    edges |= {name: np.linspace(*RATES[name], 6) for name in RATES}
    return from_trajectories(structure, TIMES, values, np.column_stack([a, b]), edges)


def noisy(a, b, sd, seed):
    rng = np.random.default_rng(seed)
    solutions = dict(zip("AB", chain(np.array([a]), np.array([b])), strict=True))
    return [
        dbn.Measurement(name, float(t), float(solution[0, k] + rng.normal(0, sd)), sd)
        for name, solution in solutions.items()
        for k, t in enumerate(TIMES)
        if k > 0
    ]


@pytest.mark.parametrize(("a", "b", "bins"), [(0.9, 0.25, (3, 1)), (0.3, 0.55, (0, 4))])
def test_the_rates_that_made_the_data_are_found(network, a, b, bins):
    estimate = dbn.estimate(network, noisy(a, b, 4.0, seed=3))
    assert estimate.complete
    assert len(estimate.combinations) == 25
    for name, bin_, rate in zip("ab", bins, (a, b), strict=True):
        assert estimate.marginal(name).argmax() == bin_
        width = np.diff(network.edges[name])[0]
        assert abs(estimate.mean(name) - rate) < width
    best = estimate.ranking(1)[0]
    assert [best["a"], best["b"]] == [
        pytest.approx(network.midpoints(n)[i]) for n, i in zip("ab", bins, strict=True)
    ]
    nearest = estimate.ranking(3, by="squares")
    assert any(r["a"] == best["a"] and r["b"] == best["b"] for r in nearest)
    assert nearest[0]["squares"] <= nearest[2]["squares"]
    assert estimate.posterior.sum() == pytest.approx(1)


def test_a_search_finds_what_trying_all_finds(network):
    data = noisy(0.9, 0.25, 4.0, seed=3)
    whole, searched = (
        dbn.estimate(network, data),
        dbn.estimate(network, data, max_combinations=24, seed=2),
    )
    assert not searched.complete
    assert len(searched.combinations) <= 24 + 4
    best = [e.combinations[e.posterior.argmax()].tolist() for e in (whole, searched)]
    assert best[0] == best[1]


def test_the_likelihood_is_that_of_the_exact_network():
    toy = known_network()
    data = [dbn.Measurement("B", 1.0, 1.2, 0.4), dbn.Measurement("A", 1.0, 0.3, 0.2)]
    evidence = dbn.evidence_of(toy, data)
    for given in ({}, {"q": 1}):
        expected = dbn.exact(toy, evidence, given).log_likelihood
        # Seen at one time only, nodes are independent but for where both come from.
        assert dbn.log_likelihood(toy, data, given) == pytest.approx(expected, abs=0.05)
    alone = data[:1]
    expected = dbn.exact(toy, dbn.evidence_of(toy, alone)).log_likelihood
    assert dbn.log_likelihood(toy, alone) == pytest.approx(expected, rel=1e-12)


def test_evidence_is_the_mean_density_over_an_interval():
    toy = known_network()
    actual = dbn.evidence_of(toy, [dbn.Measurement("B", 2.0, 1.2, 0.4)])["B"]
    np.testing.assert_array_equal(actual[:2], 1)
    grid = (np.arange(30_000) + 0.5) / 10_000
    density = np.exp(-(((grid - 1.2) / 0.4) ** 2) / 2) / (0.4 * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(actual[2], density.reshape(3, -1).mean(axis=1), rtol=1e-6)
    far = dbn.evidence_of(toy, [dbn.Measurement("B", 2.0, 9.0, 0.4)])["B"][2]
    assert 0 < far[0] < far[1] < far[2]


def test_measurements_are_read_from_a_table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("variable,time,value,sd\nA,0.5,61.2,4\nB, 1.0,30,2.5\n")
    assert dbn.read_measurements(path) == [
        dbn.Measurement("A", 0.5, 61.2, 4.0),
        dbn.Measurement("B", 1.0, 30.0, 2.5),
    ]
    for text in ("variable,time,value,sd\nA,0.5,x,4\n", "variable,time,value\nA,0.5,1\n"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"data\.csv: line 2: write variable,time,value,sd"):
            dbn.read_measurements(path)
    with pytest.raises(ConfigError, match=r"none\.csv cannot be read"):
        dbn.read_measurements(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("measurement", "message"),
    [
        (("C", 1.0, 1.0, 1.0), "C is measured and is no variable of the network; it has A, B"),
        (("A", 1.5, 1.0, 1.0), r"A is measured at t = 1\.5, .* the nearest is [12]"),
        (("A", 1.0, 1.0, 0.0), "A at t = 1: value 1 with sd 0 is not allowed"),
        (("A", 1.0, math.nan, 1.0), "value nan"),
    ],
)
def test_wrong_measurements_are_refused(measurement, message):
    with pytest.raises(ConfigError, match=message):
        dbn.evidence_of(known_network(), [dbn.Measurement(*measurement)])


def test_what_cannot_be_estimated_is_refused(network):
    with pytest.raises(ConfigError, match="no measurements"):
        dbn.estimate(network, [])
    alone = Structure(("X",), (), {"X": ("X",)})
    values = np.full((3, 2, 1), 0.5)
    edges = {"X": np.array([0.0, 1.0])}
    chain_ = from_trajectories(alone, np.arange(2.0), values, np.zeros((3, 0)), edges)
    with pytest.raises(ConfigError, match="no unknown parameters"):
        dbn.estimate(chain_, [dbn.Measurement("X", 1.0, 0.5, 1.0)])
    with pytest.raises(ConfigError, match="ranking by 'luck' is not known"):
        dbn.estimate(network, noisy(0.9, 0.25, 4.0, seed=3)).ranking(by="luck")
