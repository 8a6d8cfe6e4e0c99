"""Error rates of the sequential test, and properties whose probability is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tauslab as ts
from tauslab import dbn
from tauslab.base.errors import ConfigError

TEST = dbn.SequentialTest(p=0.6, delta=0.05, alpha=0.1, beta=0.02)
RUNS = 600


def wrong_answers(probability, right):
    rng = np.random.default_rng(11)
    verdicts = [TEST.decide(iter(rng.random(100_000) < probability)) for _ in range(RUNS)]
    assert all(v.holds is not None for v in verdicts)
    return sum(v.holds is not right for v in verdicts)


# Wald's bounds are on the rates themselves; 600 runs exceed them by 3.1 sd of a binomial number in
# fewer than 1 of 1000 seeds, and the rates lie below the bounds since the ratio overshoots.
@pytest.mark.parametrize(
    ("probability", "right", "bound"), [(0.65, True, 0.1), (0.55, False, 0.02)]
)
def test_answers_are_wrong_no_more_often_than_was_asked(probability, right, bound):
    # Wald (1945): alpha / (1 - beta) bounds the rate of a test that stops at these thresholds.
    bound /= 1 - (TEST.alpha + TEST.beta - bound)
    wrong = wrong_answers(probability, right)
    assert wrong <= RUNS * bound + 3.1 * math.sqrt(RUNS * bound * (1 - bound))
    assert wrong > 0  # a test that is never wrong takes too many samples


def test_the_thresholds_are_walds():
    ones = TEST.decide(iter([True] * 1000))
    expected = math.log(TEST.beta / (1 - TEST.alpha)) / math.log(0.55 / 0.65)
    assert (ones.holds, ones.samples) == (True, math.ceil(expected))
    noes = TEST.decide(iter([False] * 1000))
    expected = math.log((1 - TEST.beta) / TEST.alpha) / math.log(0.45 / 0.35)
    assert (noes.holds, noes.samples) == (False, math.ceil(expected))


def test_too_few_samples_leave_it_open():
    verdict = TEST.decide(iter([True, False] * 1000), most=20)
    assert (verdict.holds, verdict.samples, verdict.satisfied) == (None, 20, 10)
    assert str(verdict) == "probability >= 0.6: not decided, after 20 trajectories (10 hold)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0.995}, "p - delta must be above 0"),
        ({"p": 0.01}, "p - delta must be above 0"),
        ({"p": 0.5, "delta": 0}, "delta above 0"),
        ({"p": 0.5, "alpha": 0.5}, r"alpha = 0\.5: it must be in \(0, 0\.5\)"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        dbn.SequentialTest(**settings)


def decay():
    model = ts.Network("decay")
    model.add_species("X", 100)
    model.add_parameter("k", 1.0)
    model.add_reaction("X ->", rate="k")
    return model


# X(1) < 40 where k > 0.916: of k uniform in (0.5, 2) that is a share of 0.722.
@pytest.mark.parametrize(("p", "holds"), [(0.65, True), (0.8, False)])
def test_a_property_of_sampled_equations(p, holds):
    test = dbn.SequentialTest(p, delta=0.03, alpha=1e-3, beta=1e-3)  # wrong in 1 of 1000 seeds
    verdicts = [
        dbn.check_property(decay(), "F[0,1](X < 40)", test, unknown=["k"], t_end=50, points=501,
                           seed=5, device=ts.CPU(threads=threads))
        for threads in (1, 2)
    ]  # fmt: skip
    assert verdicts[0].holds is holds
    assert verdicts[0] == verdicts[1]
    assert 100 <= verdicts[0].samples < 1000


def test_a_property_of_stochastic_trajectories():
    # None of 3 molecules is left after 2 time constants with probability (1 - e^-2)^3 = 0.646.
    test = dbn.SequentialTest(0.58, delta=0.03, alpha=1e-3, beta=1e-3)  # wrong in 1 of 1000 seeds
    verdict = dbn.check_property(
        decay(), "F[0,2](X == 0)", test, method="ssa", set={"X": 3}, t_end=3, points=31, seed=1,
        device=ts.CPU(threads=1),
    )  # fmt: skip
    assert verdict.holds


def test_a_decided_batch_is_left_early_and_its_size_changes_nothing():
    times = np.arange(10.0)
    asked = []

    def simulate(first, count):
        rng = np.random.default_rng([3, first])
        for k in range(10):
            asked.append(k)
            yield {"X": np.arange(first, first + count) % 3 + 0 * rng.random(count)}

    test = dbn.SequentialTest(0.5, delta=0.1)
    verdicts = [dbn.check("X > 0", test, times, simulate, batch=size) for size in (4, 50)]
    assert verdicts[0] == verdicts[1]
    assert verdicts[0].holds
    assert set(asked) == {0}
