"""``--method auto``: leaps only where a pilot finds their error within the tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.leaping.choice import leaping_engine
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.choices import leap_error, method_choice
from tauslab.runner.ensemble.choices.leap_error import difference, moments_of
from tauslab.runner.ensemble.choices.method_choice import choose_method
from tauslab.runner.ensemble.choices.pilots import pilot_seed
from tauslab.runner.ensemble.run import prepare_task
from tauslab.store.results.approximation import MEAN_TOLERANCE, SD_TOLERANCE

TIMES = np.array([1.0, 2.0])
NAMES = ("X",)


def births(equation="-> X", rate=1e5):
    """Leaps give the law itself: a Poisson number, whatever the length of a leap."""
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_reaction(equation, rate=rate)
    return net


def chosen(net, times=TIMES, n=3000, threads=2, **options):
    backend = get_backend("cpu", BackendOptions(threads=threads))
    try:
        given = Options(times, n=n, seed=1, method=ts.Auto(), **options)
        return choose_method(prepare_task(net, given), backend)
    finally:
        backend.close()


def poisson(mean, n, seed):
    """Counts ``[trajectory, time, species]``."""
    return np.random.default_rng(seed).poisson(mean, (n, 2, 1)).astype(np.int32)


def test_moments():
    counts = np.array([[1, 5], [3, 5], [8, 6], [-1, 6]], np.int32)[..., None]
    actual = moments_of(counts)
    whole = counts[:3].astype(float)
    assert (actual.n, actual.lost) == (3, 1)
    np.testing.assert_allclose(actual.mean, whole.mean(0), rtol=1e-14)
    np.testing.assert_allclose(actual.variance, whole.var(0, ddof=1), rtol=1e-14)
    np.testing.assert_allclose(actual.mean_error, whole.std(0, ddof=1) / 3**0.5, rtol=1e-14)


def test_the_error_of_a_variance_is_that_of_its_law():
    """Of a normal law sqrt(2 / n) of it; the estimate's own deviation is about 2 % here."""
    actual = moments_of(poisson(1e6, 10_000, seed=1))
    np.testing.assert_allclose(actual.variance_error / actual.variance, (2e-4) ** 0.5, rtol=0.1)


def test_equal_laws_are_not_refused():
    """100 pairs, 4 comparisons each at 4 standard errors: 0.03 false alarms expected."""
    for seed in range(100):
        pair = [moments_of(poisson(1e4, 500, 2 * seed + i)) for i in range(2)]
        assert difference(*pair, NAMES, TIMES, 0.5).refused == ""


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        (lambda: poisson(1.02e4, 2000, 3), "the mean of X at t = "),
        (lambda: poisson(1e4, 2000, 3) * 2 - 10_000, "the standard deviation of X at t = "),
    ],
)
def test_other_laws_are_refused(counts, told):
    """Off by 20 standard errors of the mean, and by a factor of 2."""
    exact = moments_of(poisson(1e4, 2000, 4))
    assert told in difference(moments_of(counts()), exact, NAMES, TIMES, 1.0).refused


def test_a_difference_within_the_tolerance_is_no_reason():
    """Off by half a per cent in the mean, which 10^5 trajectories show beyond doubt."""
    tried, exact = (moments_of(poisson(mean, 100_000, 5)) for mean in (1.005e4, 1e4))
    assert np.all(tried.mean - exact.mean > 5 * tried.mean_error)
    assert difference(tried, exact, NAMES, TIMES, 1.0).refused == ""
    assert difference(tried, exact, NAMES, TIMES, 0.25).refused != ""


def test_trajectories_that_end_early_refuse_leaps():
    lost = poisson(100, 50, 6)
    lost[0] = -1
    actual = difference(moments_of(lost), moments_of(poisson(100, 50, 7)), NAMES, TIMES, 1.0)
    assert actual.refused == "1 of the pilot's trajectories end early"


def test_right_leaps_that_pay_are_taken():
    actual = chosen(births())
    assert actual.method == "tau"
    assert "shows no mean off by 1 % and no standard deviation by 3 %" in actual.reason


def test_a_run_too_short_for_such_a_pilot_is_exact(monkeypatch):
    monkeypatch.setattr(method_choice, "FEW", 10**9)
    monkeypatch.setattr(method_choice, "MANY", 10**9)
    actual = chosen(births())
    assert actual.method == "ssa"
    assert "too short for a pilot that judges" in actual.reason


@pytest.mark.parametrize(
    ("equation", "rate", "told"),
    [
        ("-> X", 1.03e5, "the mean of X at t = "),
        pytest.param(
            "-> 2 X", 0.5e5, "the standard deviation of X at t = ", marks=pytest.mark.validate
        ),
        pytest.param("-> X", 1.0005e5, "", marks=pytest.mark.validate),
    ],
    ids=["mean", "deviation", "little"],
)
def test_leaps_that_err_are_not(monkeypatch, equation, rate, told):
    """The leaps of the run are those of another model: 3 % more, or twice the variance."""
    other = prepare_task(
        births(equation, rate), Options(TIMES, method=ts.TauLeaping(), seed=1)
    ).lowered

    def doctored(backend, network, times, epsilon, *, checked):
        network = other if epsilon == 0.03 else network
        return leaping_engine(backend, network, times, epsilon, checked=checked)

    monkeypatch.setattr(leap_error, "leaping_engine", doctored)
    actual = chosen(births())
    assert actual.method == ("ssa" if told else "tau")
    assert told in actual.reason


def test_the_choice_does_not_depend_on_threads():
    assert len({chosen(births(), threads=threads) for threads in (1, 2)}) == 1


def test_the_pilot_has_random_numbers_of_its_own():
    assert pilot_seed(1) != 1
    assert pilot_seed(pilot_seed(2**64 - 1)) == 2**64 - 1
    assert 0 <= pilot_seed(2**64 - 1) < 2**64


def growth():
    net = ts.Network("growth")
    net.add_species("X", 1000)
    net.add_reaction("X -> 2 X", rate=1.0)
    return net, "X", 1000 * np.exp(5), (1000 * np.exp(5) * np.expm1(5)) ** 0.5, 5.0


def isomers():
    """All of one kind: the other has the binomial law."""
    net = ts.Network("isomers")
    net.add_species("A", 20_000)
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=1.0)
    net.add_reaction("B -> A", rate=1.0)
    return net, "A", 1e4, 5000**0.5, 8.0


@pytest.mark.validate
@pytest.mark.parametrize("case", ordinary([growth, isomers], growth))
def test_what_it_leaps_is_within_the_tolerance(case):
    """Or it does not leap. 5 standard errors beside the tolerance: false alarms 1e-6."""
    net, name, mean, sd, end = case()
    times = np.array([end])
    actual = chosen(net, times=times, n=20_000)
    if actual.method == "ssa":
        assert " is off by about " in actual.reason
        return
    n = 4000
    made = ts.run(net, n=n, times=times, seed=2, method="tau", device="cpu")
    assert made.mean(name)[-1] == pytest.approx(mean, abs=MEAN_TOLERANCE * mean + 5 * sd / n**0.5)
    assert made.std(name)[-1] == pytest.approx(sd, rel=SD_TOLERANCE + 5 / (2 * n) ** 0.5)
