"""SMC²: exact posteriors and evidence, bits, checkpoints, and what is rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tauslab as ts

HOW = {"observe": {"X": "normal(sd=1.5)"}, "device": "cpu", "quiet": True}
DATA = {"time": [0.5, 1.0, 2.0, 3.0], "X": [3.0, math.nan, 7.0, 12.5]}
PRIOR = {"k": "lognormal(median=4,sigma=0.6)"}


def births():
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("k", 4.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.2)
    return net


@pytest.fixture(scope="module")
def exact():
    """Log-evidence, mean and sd of log k after each row, by the exact filter on a grid."""
    z = np.linspace(-4, 4, 33)
    logs = np.array([
        ts.exact_filter(
            births(), DATA, observe=HOW["observe"], set={"k": 4 * math.exp(0.6 * x)}
        ).terms.cumsum()
        for x in z.tolist()
    ])  # fmt: skip
    joint = np.exp(logs - 0.5 * z[:, None] ** 2) * 0.25 / math.sqrt(2 * math.pi)
    evidence = joint.sum(axis=0)
    mean = (z[:, None] * joint).sum(axis=0) / evidence
    sd = np.sqrt((z[:, None] ** 2 * joint).sum(axis=0) / evidence - mean**2)
    return np.log(evidence), math.log(4) + 0.6 * mean, 0.6 * sd


@pytest.mark.filterwarnings("ignore:after t .* copies of a few")  # of two particles
@pytest.mark.parametrize(("n", "seeds"), [(20, 12), (2, 24)])
def test_evidence_and_posterior_are_exact(exact, n, seeds):
    """Of clouds of 200 draws, also with filters of two particles, which get more.

    The estimate of the evidence is unbiased, and biases of moments are small beside their errors:
    12 z-values below 4.5 in absolute value, a false alarm once in 10,000.
    """
    evidence, mean, sd = exact
    actual = [ts.smc2(births(), DATA, PRIOR, n=n, draws=200, seed=s, **HOW) for s in range(seeds)]
    for row in (0, 2, 3):
        ratios = np.array([math.exp(one.log_evidence[row] - evidence[row]) for one in actual])
        logs = np.log(np.array([one.values[row, :, 0] for one in actual]))
        weights = np.array([one.weights[row] for one in actual])
        means = (weights * logs).sum(axis=1)
        squares = (weights * (logs - mean[row]) ** 2).sum(axis=1)
        for values, true in ((ratios, 1.0), (means, mean[row]), (squares, sd[row] ** 2)):
            z = (values.mean() - true) / (values.std(ddof=1) / math.sqrt(seeds))
            assert abs(z) < 4.5
    assert all((one.log_evidence[1] == one.log_evidence[0]) for one in actual)  # nothing was seen
    grown = [one.particles[-1] > n for one in actual]
    assert any(grown) if n == 2 else not any(grown)


@pytest.mark.filterwarnings("ignore:after t .* copies of a few")  # of one particle
def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    """Stopped after each row, also where filters have more particles than at the start."""
    how = {
        **HOW,
        "seed": 0,
        "observe": {"X": "normal(sd=0.4)"},
        "n": 1,
        "draws": 60,
        "threshold": 1.0,
    }
    whole = ts.smc2(births(), DATA, PRIOR, **how)
    assert whole.particles[-1] > 1
    assert np.isfinite(whole.acceptance).all()
    path = tmp_path / "draws.h5"
    stops = iter(range(100))
    monkeypatch.setattr("tauslab.analysis.particles.store.stop_requested", lambda: next(stops) >= 0)
    for _ in range(3):
        with pytest.raises(ts.StoppedEarly):
            ts.smc2(births(), DATA, PRIOR, checkpoint=path, **how)
    assert ts.smc2(births(), DATA, PRIOR, checkpoint=path, **how).digest() == whole.digest()
    assert ts.smc2(births(), DATA, PRIOR, checkpoint=path, **how).digest() == whole.digest()
    with pytest.raises(ts.ConfigError, match="another model, other data or other options"):
        ts.smc2(births(), DATA, PRIOR, checkpoint=path, **how | {"moves": 4})


def test_draws_that_the_model_rejects_have_no_weight():
    """The prior reaches below 0, where a rate constant is refused."""
    actual = ts.smc2(births(), DATA, {"k": "normal(3,3)"}, n=20, draws=300, seed=0, **HOW)
    assert (actual["k"][actual.weights[-1] > 0] >= 0).all()
    assert (actual.values[0, actual.weights[0] > 0] >= 0).all()


@pytest.mark.parametrize(
    ("priors", "error", "message"),
    [
        ({"k": "uniform(-2,-1)"}, ts.ModelError, "rate constant is -"),
        ({"q": "uniform(1,2)"}, ts.ConfigError, "'q' is no parameter of births"),
        ({}, ts.ConfigError, "names no parameter"),
        (["k"], ts.ConfigError, "priors= is a list"),
    ],
)
def test_what_is_rejected(priors, error, message):
    with pytest.raises(error, match=message):
        ts.smc2(births(), DATA, priors, n=3, draws=5, **HOW)


def test_data_that_no_draw_explains():
    how = {**HOW, "observe": {"X": "binomial(p=0.9)"}}
    with pytest.raises(ts.ConfigError, match=r"no parameter set can explain the row at t = 1"):
        ts.smc2(births(), {"time": [0.5, 1], "X": [0, 10**6]}, PRIOR, n=3, draws=5, **how)


def test_tables_and_draws_for_arviz():
    actual = ts.smc2(births(), DATA, PRIOR, n=10, draws=50, seed=2, **HOW)
    assert actual.summary().columns.tolist() == ["mean", "sd", "q05", "q50", "q95"]
    assert len(actual.to_pandas()) == 50
    assert actual.to_pandas("rows")["particles"].tolist() == actual.particles.tolist()
    with pytest.raises(ts.ConfigError, match="draws, summary, rows"):
        actual.to_pandas("chains")
    groups = actual.to_arviz(DATA)
    assert groups["posterior"]["k"].shape == (1, 50)
    assert groups["observed_data"]["X"].shape == (4,)
    assert abs(float(groups["posterior"]["k"].mean()) - actual.mean("k")) < 0.1 * actual.sd("k")


def test_filters_that_grow_need_memory_for_it(monkeypatch):
    """Filters of two particles become filters of four, for which there is no room."""
    space = 200 * (8 * 20 + 64 * 3)
    monkeypatch.setattr("tauslab.base.host._SMALL", 0)
    monkeypatch.setattr("tauslab.base.host.available_memory", lambda: space)
    with pytest.raises(ts.ModelError, match="draws=200 with n=4, as many as filters have now"):
        ts.smc2(
            births(), DATA, PRIOR, n=2, draws=200, seed=0, **HOW | {"observe": {"X": "normal(0.3)"}}
        )


def test_draws_that_are_copies_of_few_are_reported():
    """Data that the prior excludes: one set in a hundred is so much better than the others."""
    with pytest.warns(UserWarning, match=r"after t = \S+ the 40 draws are copies of a few"):
        actual = ts.smc2(births(), DATA, {"k": "uniform(60,90)"}, draws=40, n=10, seed=1, **HOW)
    assert len(np.unique(actual["k"])) < 10
