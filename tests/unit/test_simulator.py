"""The batch simulator for inference."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts


def turnover():
    """Birth at rate b, death at rate d: in the long run Poisson with mean b / d."""
    net = ts.Network("turnover")
    net.add_species("X", 0)
    net.add_parameter("b", 10.0)
    net.add_parameter("d", 1.0)
    net.add_reaction("-> X", rate="b")
    net.add_reaction("X ->", rate="d")
    return net


def test_shapes_and_seeds():
    def both(result):
        return np.stack([result.counts("X").mean(axis=1), result.counts("X").max(axis=1)], axis=1)

    theta = np.array([[10.0, 1.0], [100.0, 1.0], [0.0, 1.0]])
    simulate = ts.simulator(
        turnover(), ["b", "d"], both, t_end=10.0, points=11, device="cpu", seed=4
    )
    first, second = simulate(theta), simulate(theta)
    assert first.shape == (3, 2)
    assert first[2].tolist() == [0, 0]
    assert not np.array_equal(first, second), "every call draws anew"
    again = ts.simulator(turnover(), ["b", "d"], both, t_end=10.0, points=11, device="cpu", seed=4)
    assert np.array_equal(again(theta), first), "and the same calls give the same numbers"
    assert again(theta[1]).shape == (2,)
    assert np.array_equal(again(theta, seed=9), simulate(theta, seed=9))


def test_summaries_by_name_are_computed_on_the_device():
    theta = np.array([[10.0, 1.0], [100.0, 1.0], [0.0, 1.0]])
    names = ["maximum:X", "first-passage:X:5"]
    options = {"t_end": 10.0, "points": 11, "device": "cpu", "seed": 4}
    found = ts.simulator(turnover(), ["b", "d"], names, **options)(theta)
    assert found.shape == (3, 2)
    counts = ts.simulator(turnover(), ["b", "d"], lambda r: r.counts("X"), **options)(theta)
    assert np.array_equal(found[:, 0], counts.max(axis=1))
    assert np.isnan(found[2, 1]), "without births none passes 5"
    single = ts.simulator(turnover(), ["b", "d"], "maximum:X", **options)
    assert np.array_equal(single(theta), found[:, :1])


def test_rejection_finds_the_rates_that_made_the_data():
    """Approximate Bayesian computation: b = 30, d = 2 from means over 50 trajectories at 5 times.

    1,500 sets from a uniform prior, the nearest 30 kept: the posterior means lie within 15 %.
    """
    rng = np.random.default_rng(7)
    simulate = ts.simulator(
        turnover(),
        ["b", "d"],
        lambda result: result.counts("X"),
        times=[0.2, 0.5, 1.0, 2.0, 4.0],
        device="cpu",
        seed=1,
    )

    def means(theta):
        repeated = simulate(np.repeat(np.atleast_2d(theta), 50, axis=0))
        return repeated.reshape(-1, 50, 5).mean(axis=1)

    truth = np.array([30.0, 2.0])
    observed = means(truth)
    theta = rng.uniform([5.0, 0.5], [60.0, 4.0], (1500, 2))
    distance = np.linalg.norm((means(theta) - observed) / np.sqrt(observed), axis=1)
    kept = theta[np.argsort(distance)[:30]]
    np.testing.assert_allclose(kept.mean(axis=0), truth, rtol=0.15)


def test_species_may_be_columns():
    net = turnover()
    simulate = ts.simulator(net, ["X"], times=[0.0], device="cpu")
    assert simulate([[5.0], [7.0]]).tolist() == [[5.0], [7.0]]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ts.simulator(turnover(), ["q"], times=[1.0]), "'q'"),
        (lambda: ts.simulator(turnover(), ["b"], times=[1.0], n=5), "n="),
        (lambda: ts.simulator(turnover(), ["b"], times=[1.0])([[1.0, 2.0]]), "columns b"),
        (lambda: ts.simulator(turnover(), ["b"], "speed:X", times=[1.0]), "'speed'"),
        (lambda: ts.simulator(turnover(), ["b"], [], times=[1.0]), "one summary or more"),
        (lambda: ts.simulator(turnover(), ["b"], "mean:X", record="final"), "stands for record="),
        (
            lambda: ts.simulator(turnover(), ["b"], lambda _: [1.0], times=[1.0], device="cpu")(
                [[1.0], [2.0]]
            ),
            "1 rows for 2",
        ),
    ],
)
def test_bad_input(call, word):
    with pytest.raises(ts.ConfigError, match=word):
        call()
