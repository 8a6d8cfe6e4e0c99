"""Means as a function of parameters: values, derivatives, gradients for PyTorch, a fit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from places import ROOT

import tauslab as ts


def left(**options):
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    given = {"t": [0.5, 1.0], "n": 400, "seed": 0, "device": "cpu"} | options
    return ts.expectation(net, ["k"], ["X", "X * X"], **given)


def test_means_and_derivatives():
    """Of 400 pairs, within five standard deviations of exact values: false alarms below 1e-5."""
    mean, slope = left().with_jacobian([0.7])
    assert mean.shape == (2, 2)
    assert slope.shape == (2, 2, 1)
    p = np.exp(-0.7 * np.array([0.5, 1.0]))
    sd = np.sqrt(100 * p * (1 - p) / 400)
    assert (np.abs(mean[:, 0] - 100 * p) < 5 * sd).all()
    np.testing.assert_allclose(slope[:, 0, 0], -100 * np.array([0.5, 1.0]) * p, rtol=0.15)


def test_conditions_share_parameters():
    actual = left(conditions={"X": [50, 100, 100]})
    mean, slope = actual.with_jacobian([0.7])
    assert mean.shape == (3, 2, 2)
    assert slope.shape == (3, 2, 2, 1)
    np.testing.assert_allclose(mean[:, 1, 0], [25, 50, 50], rtol=0.06)
    assert (mean[1] != mean[2]).any()  # conditions have noise of their own


def test_calls_draw_anew_and_repeat():
    actual, again = left(), left()
    first, second = actual([0.7]), actual([0.7])
    assert (first != second).any()
    assert (again([0.7]) == first).all()
    assert (again([0.7]) == second).all()
    seeded = actual.with_jacobian([0.7], seed=5)[0]
    assert (left().with_jacobian([0.7], seed=5)[0] == seeded).all()
    assert actual.calls == 2
    assert "k to X, X * X at 2 times" in repr(actual)


def test_no_seed_is_another_one_each_time():
    assert (left(seed=None)([0.7]) != left(seed=None)([0.7])).any()


@pytest.mark.parametrize("theta", [[], [1.0, 2.0], [np.nan], 0.7, "x", [None]])
def test_theta_is_refused(theta):
    with pytest.raises(ts.ConfigError, match="theta must be 1 finite numbers: k"):
        left()(theta)


@pytest.mark.parametrize("conditions", [{"k": [1.0]}, {"X": 3}, {"X": []}, {"q": [1.0]}])
def test_conditions_are_refused(conditions):
    with pytest.raises(ts.ConfigError, match=r"conditions: . must be an array|neither a parameter"):
        left(conditions=conditions)


def test_conditions_of_one_call():
    """Those of this call alone; others must be known, and as long."""
    given, other = left(conditions={"X": [50, 100]}), np.array([55.0, 105.0])
    name = "X"
    again, _ = left(conditions={name: other}).with_jacobian([0.7], seed=3)
    actual, _ = given.with_jacobian([0.7], seed=3, conditions={name: other})
    assert np.array_equal(actual, again)
    before, _ = given.with_jacobian([0.7], seed=3)
    assert not np.array_equal(actual, before)
    for wrong in ({"q": other}, {name: other[:-1]}):
        with pytest.raises(ts.ConfigError, match="one of the first conditions, and as long"):
            given.with_jacobian([0.7], conditions=wrong)


def test_a_gradient_of_pytorch():
    torch = pytest.importorskip("torch")
    actual, again = left(), left()
    theta = torch.tensor([0.7], requires_grad=True)
    mean = actual(theta)
    assert mean.dtype == theta.dtype
    ((mean[1, 0] - 30) ** 2).backward()
    value, slope = again.with_jacobian(np.float32([0.7]))
    expected = 2 * (value[1, 0] - 30) * slope[1, 0, 0]
    assert float(theta.grad[0]) == pytest.approx(expected, rel=1e-5)


def test_the_example_descends(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import fit_promoter

    solution = fit_promoter.fit(steps=6, n=20, device="cpu")
    losses = [fit_promoter.exact_loss(*solution[k]) for k in (0, -1)]
    assert losses[0] == pytest.approx(26.51, abs=0.01)
    assert losses[1] < losses[0]
    assert fit_promoter.exact_loss(13.6086, 8.1503) == pytest.approx(4.3932, abs=1e-4)
    every = fit_promoter.fit_all(steps=4, n=20, device="cpu")
    losses = [fit_promoter.exact_loss(*every[k][:2], every[k][2:]) for k in (0, -1)]
    assert losses[0] == pytest.approx(26.51, abs=0.01)
    assert losses[1] < losses[0]
    sys.modules.pop("fit_promoter")


@pytest.mark.validate
def test_the_example_comes_below_the_published_loss(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import fit_promoter

    solution = fit_promoter.fit(device="cpu")
    published = fit_promoter.exact_loss(90.25 / 6.20, 6.20)
    assert fit_promoter.exact_loss(*solution[-1]) < published == pytest.approx(5.1776, abs=1e-4)
    sys.modules.pop("fit_promoter")
