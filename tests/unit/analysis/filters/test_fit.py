"""Fits by maximum likelihood: tops of surfaces with noise, exact maxima of a small model."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.filters.fitting.profile import bounds_of, profiles_of
from tauslab.analysis.filters.fitting.surface import Quadratic, spread_of_tops, top_of

DATA = {"time": [0.3, 0.7, 1.2], "X": [75, 52, 31]}
CPU = ts.CPU(threads=1)


def decay(number=100):
    net = ts.Network("decay")
    net.add_species("X", number)
    net.add_parameter("k", 0.5)
    net.add_reaction("X ->", rate="k")
    return net


def test_progress_and_quiet(capsys):
    how = {"n": 10, "swarm": 20, "iterations": 2, "seed": 0, "device": CPU}
    how["observe"] = {"X": "normal(sd=2)"}
    actual = ts.fit(decay(), DATA, quiet=False, **how)
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("decay: ")
    assert "/14 rounds" in message
    assert int(message.split()[1].split("/")[0]) > 3
    assert ts.fit(decay(), DATA, quiet=True, **how).digest() == actual.digest()
    assert not capsys.readouterr().err


def draws(seed):
    return np.random.Generator(np.random.Philox(key=seed))


BEND = np.linalg.inv([[0.04, 0.015, 0.0], [0.015, 0.01, 0.0], [0.0, 0.0, 0.3]])
PLACE = np.array([1.0, -0.5, 0.3])


def surface(noise, random):
    def values(places, work, number):
        off = places - PLACE
        exact = 7 - 0.5 * np.einsum("mi,ij,mj->m", off, BEND, off)
        return exact + noise / math.sqrt(work) * random.standard_normal(len(places))

    return values


def test_the_top_of_a_quadratic_is_exact():
    actual = top_of(surface(0.0, draws(1)), np.zeros(3), 100, 200, draws(2))
    assert actual.converged
    np.testing.assert_allclose(actual.place, PLACE, atol=1e-9)
    np.testing.assert_allclose(actual.bend, BEND, atol=1e-9 * BEND.max())
    assert actual.height == pytest.approx(7)
    np.testing.assert_allclose(actual.chance, 0, atol=1e-18)


def test_the_top_of_a_surface_that_is_skewed_is_its_top():
    """exp(-v) + v falls steeply to the left of its top at 0."""

    def skewed(places, work, number):
        return -(np.exp(-places[:, 0]) + places[:, 0] - 1) / 0.3

    actual = top_of(skewed, np.array([0.5]), 100, 400, draws(2))
    assert actual.converged
    assert abs(actual.place[0]) < 0.05 * math.sqrt(0.3)
    assert actual.bend[0, 0] == pytest.approx(1 / 0.3, rel=0.1)


def profiled(values, place, seed):
    """Bounds of the first parameter at 1.96 deviations, as logarithms; None without a profile."""
    size = len(place)
    line = np.append(1.0, np.full(size - 1, 0.5))
    spread = 0.3 * np.outer(line, line) + np.diag(np.append(0.0, np.full(size - 1, 0.04)))
    found = profiles_of(values, place, spread, np.zeros(size), 0, draws(seed))
    if not found:
        return None
    one = found[0]
    with np.errstate(divide="ignore"):
        return np.log(bounds_of(np.exp(one.logs), one.falls, one.errors, 1.96))


def skewed(places, noise=0.0, random=None):
    """Of the first coordinate; the others are quadratic about a line."""
    v = places[:, 0]
    other = ((places[:, 1:] - 0.5 * v[:, None]) ** 2).sum(axis=1) / 0.08
    drawn = 0.0 if random is None else noise * random.standard_normal(len(places))
    return -(np.exp(-v) + v - 1) / 0.6 - other + drawn - noise**2 / 2


def test_the_profile_of_a_skewed_surface_gives_its_bounds():
    """(exp(-v) + v - 1) / 0.6 is 1.92 at -1.213 and 2.019."""
    actual = profiled(lambda places, *_: skewed(places), np.full(1, 0.1), 1)
    np.testing.assert_allclose(actual, [-1.213, 2.019], atol=0.06)


@pytest.mark.parametrize("size", [1, 2])
def test_bounds_of_a_profile_of_values_with_noise(size):
    """Means of 20 seeds, beyond four of their errors in 1 of 8,000; the regression may cost 0.1."""
    bounds = []
    for seed in range(20):
        random = draws(seed)
        one = profiled(lambda p, *_, random=random: skewed(p, 0.7, random), np.zeros(size), seed)
        bounds.append(one)
    mean, error = np.mean(bounds, axis=0), np.std(bounds, axis=0) / math.sqrt(20)
    assert (error < 0.1).all()
    assert (np.abs(mean - [-1.213, 2.019]) < 4 * error + 0.1).all()


def test_a_surface_that_saturates_has_one_bound():
    def saturating(places, *_):
        return -2 * np.log1p(np.exp(-3 * (places[:, 0] + 0.2)))

    low, high = profiled(saturating, np.array([0.5]), 1)
    assert low == pytest.approx(-0.35, abs=0.1)  # 1.92 below the end
    assert high == math.inf


def test_a_surface_that_no_regression_describes_has_no_profile():
    assert profiled(lambda p, *_: -3 * np.abs(np.sin(4 * p[:, 0])), np.zeros(1), 1) is None
    assert profiled(lambda p, *_: np.full(len(p), -np.inf), np.zeros(1), 1) is None


def test_data_that_bound_a_parameter_on_one_side(tmp_path):
    """Nothing was seen of births: there is an upper bound alone."""
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("birth", 1.0)
    net.add_reaction("-> X", rate="birth")
    data = {"time": [1.0, 2.0], "X": [0, 0]}
    given = {"observe": {"X": "binomial(p=0.5)"}, "n": 20, "swarm": 50, "iterations": 3}
    with pytest.warns(UserWarning, match="birth on both sides; intervals say how far"):
        actual = ts.fit(net, data, **given, seed=1, device=CPU, quiet=True)
    low, high = actual.interval("birth")
    assert low == 0
    assert high == pytest.approx(1.92 / 1.25, rel=0.2)  # the likelihood is exp(-1.25 birth)
    assert actual.interval("birth", 0.5)[1] == pytest.approx(0.227 / 1.25, rel=0.6)
    assert not actual.converged
    assert math.isnan(actual.error("birth"))
    assert "95 % from 0 to " in repr(actual)
    path = actual.save(tmp_path / "births.h5")
    again = ts.open(path)
    assert again.digest() == actual.digest()
    assert again.interval("birth") == (low, high)
    actual.plot(path=tmp_path / "births.png")


def test_rates_that_grow_without_end_do_not_stop_a_fit(monkeypatch):
    """Data are far above what the steps allow: the likelihood rises with the rate."""
    monkeypatch.setattr("tauslab.api.inference.fit._MOST_STEPS", 300)
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("birth", 1.0)
    net.add_reaction("-> X", rate="birth")
    data = {"time": [1.0], "X": [1e6]}
    given = {"n": 5, "swarm": 20, "iterations": 2, "observe": {"X": "normal(sd=1e5)"}}
    with pytest.warns(UserWarning, match="did not converge"):
        actual = ts.fit(net, data, **given, seed=1, device=CPU, quiet=True)
    assert actual["birth"] < 1000


def test_logarithms_of_unbiased_estimates_are_lifted():
    """Noise whose variance rises beside the top draws it by 0.2 deviations if that is left out.

    Means of 40 deviations, in their standard errors: beyond 4 in 1 of 4,000.
    """
    height, place = [], []
    for seed in range(40):
        random = draws(seed)

        def values(places, work, number, random=random):
            off = places[:, 0] - 1.0
            variance = (0.8 + 0.6 * np.tanh(off / 0.6)) / work
            noise = np.sqrt(variance) * random.standard_normal(len(places))
            return -3 - 0.5 * (off / 0.3) ** 2 - variance / 2 + noise

        actual = top_of(values, np.zeros(1), 160, 640, draws(100 + seed), unbiased=True)
        height.append((actual.height + 3) / actual.height_error)
        place.append((actual.place[0] - 1) / math.sqrt(actual.chance[0, 0]))
    for off in (height, place):
        assert abs(np.mean(off)) < 4 / math.sqrt(40)
        assert 0.6 < np.std(off) < 1.5


def test_the_error_of_a_top_is_that_of_many():
    """Means of 40 squared errors over their variances: beyond 4 deviations 1 in 15,000."""
    squares = []
    for seed in range(40):
        actual = top_of(surface(1.0, draws(seed)), np.zeros(3), 300, 1200, draws(100 + seed))
        assert actual.converged
        squares.append((actual.place - PLACE) ** 2 / np.diag(actual.chance))
    assert np.abs(np.mean(squares, axis=0) - 1).max() < 4 * math.sqrt(2 / 40)


def test_a_ridge_has_no_top():
    def ridge(places, work, number):
        return -0.5 * (places[:, 0] / 0.1) ** 2

    actual = top_of(ridge, np.zeros(2), 100, 200, draws(1))
    assert not actual.converged
    assert actual.loose.tolist() == [False, True]


def test_a_parameter_that_does_not_matter_is_named_and_does_not_stray():
    widest = [0.0]

    def values(places, work, number):
        widest.append(float(np.abs(places[:, 1]).max()))
        return -0.5 * (places[:, 0] / 0.1) ** 2 + 0.3 * draws(number).standard_normal(len(places))

    actual = top_of(values, np.array([0.2, 0.0]), 160, 640, draws(2))
    assert actual.loose.tolist() == [False, True]
    assert not actual.converged
    assert max(widest) < 14  # four widest deviations, and a little more


def test_a_climb_without_end_ends():
    """Two rates of which data bound the quotient alone, and ever larger ones are a little better.

    A trajectory of exp(18) as many reactions would take hours.
    """
    widest = []

    def values(places, work, number):
        widest.append(float(np.abs(places).max()))
        both = places.sum(axis=1)
        noise = 0.3 * draws(number).standard_normal(len(places))
        return -0.5 * ((places[:, 0] - places[:, 1]) / 0.1) ** 2 + 0.5 * both + noise

    actual = top_of(values, np.zeros(2), 160, 640, draws(2))
    assert actual.loose.all()
    assert not actual.converged
    assert max(widest) < 18


def test_a_search_that_leaves_most_out_is_reported(monkeypatch):
    """Where a hundred steps are made between rows, and 400 molecules decay."""
    monkeypatch.setattr("tauslab.api.inference.fit._MOST_STEPS", 100)
    net = ts.Network("decay")
    net.add_species("X", 1000)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    data = {"time": [0.5, 1.0], "X": [600, 370]}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ts.fit(net, data, observe={"X": "normal(sd=10)"}, n=20, swarm=50, iterations=2, seed=1,
               device=CPU)  # fmt: skip
    assert "search reached the limit of steps" in str(warned[0].message)
    assert "with status step_limit" in str(warned[1].message)


@pytest.mark.validate
def test_a_product_of_two_parameters_has_no_errors():
    net = ts.Network("product")
    net.add_species("X", 100)
    net.add_parameter("a", 1.0)
    net.add_parameter("b", 1.0)
    net.add_reaction("X ->", rate="a * b")
    with pytest.warns(UserWarning, match="did not converge to a maximum"):
        actual = ts.fit(net, DATA, observe={"X": "normal(sd=3)"}, n=50, swarm=100, iterations=5,
                       seed=1, device=CPU)  # fmt: skip
    assert np.isnan(actual.covariance).all()


def test_few_particles_bound_a_parameter_on_both_sides():
    """One of 3 is left at t = 1: exp(-k) (1 - exp(-k))^2 has the error 0.74 of log k."""
    data = {"time": [1.0], "X": [1]}
    actual = ts.fit(decay(3), data, n=200, swarm=200, iterations=5, seed=1, device=CPU)
    assert actual.converged
    assert actual.error("k") / actual["k"] == pytest.approx(0.74, rel=0.4)


def test_tops_of_many_surfaces_spread_as_their_slopes():
    points = 0.1 * draws(3).standard_normal((300, 3))
    slopes = np.linalg.cholesky(BEND) @ draws(4).standard_normal((3, 5000))
    values = points @ slopes - 0.5 * np.einsum("mi,ij,mj->m", points, BEND, points)[:, None]
    actual = spread_of_tops(np.zeros(3), points, values)
    np.testing.assert_allclose(np.diag(actual), np.diag(np.linalg.inv(BEND)), rtol=0.1)


def test_a_fit_has_the_maximum_of_the_exact_filter():
    observe = {"X": "normal(sd=3)"}
    grid = np.linspace(math.log(0.6), math.log(1.6), 41)
    logs = [
        ts.exact_filter(decay(), DATA, observe=observe, set={"k": k}).log_likelihood
        for k in np.exp(grid).tolist()
    ]
    best = int(np.argmax(logs))
    bend, slope, height = np.polyfit(grid[best - 3 : best + 4], logs[best - 3 : best + 4], 2)
    place, sd = -slope / (2 * bend), math.sqrt(-1 / (2 * bend))
    actual = ts.fit(decay(), DATA, observe=observe, n=100, swarm=200, seed=1, device=CPU)
    assert actual.converged
    assert abs(math.log(actual["k"]) - place) < 0.2 * sd
    assert actual.error("k") / actual["k"] == pytest.approx(sd, rel=0.2)
    assert actual.log_likelihood == pytest.approx(height - slope**2 / (4 * bend), abs=0.3)
    low, high = actual.interval("k")
    assert low * high == pytest.approx(actual["k"] ** 2)
    assert actual.summary().loc["k"].tolist() == [actual["k"], actual.error("k"), low, high]
    again = ts.fit(decay(), DATA, observe=observe, n=100, swarm=200, seed=1, device=CPU)
    assert again["k"] == actual["k"]


def test_a_profile_is_the_largest_value_over_the_other_parameters():
    u = draws(3).standard_normal((100, 3))
    actual = Quadratic.of(u, surface(0.0, draws(1))(u, 1.0, 0))
    others = np.stack(np.meshgrid(*2 * [np.linspace(-3, 3, 601)]), -1).reshape(-1, 2)
    for x in (-0.3, 0.5):
        best = actual(np.column_stack([np.full(len(others), x), others])).max()
        assert actual.profile(0, np.array([x])) == pytest.approx(best, abs=1e-2)


def test_points_of_a_fit_are_its_table():
    actual = ts.fit(decay(), DATA, n=50, swarm=50, iterations=5, seed=1, device=CPU)
    points = actual.to_pandas("points")
    assert points.k.median() == pytest.approx(actual["k"], rel=0.2)
    assert list(points) == ["log_likelihood", "k"]
    with pytest.raises(ts.ConfigError, match="FitResult has the tables summary, points"):
        actual.to_pandas("chains")


def test_exact_counts_have_a_synthetic_likelihood():
    """Of a pure death process all is known: each interval is binomial."""
    times, counts = np.array([0.0, *DATA["time"]]), np.array([100, *DATA["X"]])

    def log_likelihood(k):
        stay = np.exp(-k * np.diff(times))
        return (counts[1:] * np.log(stay) - np.diff(counts) * np.log(1 - stay)).sum()

    grid = np.linspace(0.5, 1.5, 1001)
    logs = np.array([log_likelihood(k) for k in grid])
    best = int(logs.argmax())
    sd = 1 / math.sqrt(-(logs[best + 50] - 2 * logs[best] + logs[best - 50]) / 0.05**2)
    actual = ts.fit(decay(), DATA, n=200, swarm=200, seed=1, device=CPU)
    assert actual.likelihood == "synthetic"
    assert abs(actual["k"] - grid[best]) < 0.5 * sd
    assert actual.error("k") == pytest.approx(sd, rel=0.3)


@pytest.mark.parametrize("counts", [[0, 0], [100, 100]])
@pytest.mark.parametrize("given", [{"observe": {"X": "normal(sd=2)"}}, {}])
def test_a_parameter_that_data_bound_on_one_side_has_no_error(counts, given):
    """All particles are gone at the first row, or none at the last: k may be infinite, or 0."""
    with pytest.warns(UserWarning, match="did not converge to a maximum"):
        actual = ts.fit(decay(), {"time": [0.5, 1.0], "X": counts}, n=50, swarm=100, iterations=5,
                       seed=1, device=CPU, **given)  # fmt: skip
    assert not actual.converged
    assert math.isnan(actual.error("k"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"time": [], "X": []}, "times must be"),
        ({}, "no column"),
        ("no.csv", r"no\.csv: cannot be read"),
    ],
)
def test_exact_counts_that_are_none(data, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.fit(decay(), data, device=CPU, seed=0)


def test_a_parameter_that_an_event_changes_is_fitted_by_its_value_at_the_start():
    """100 exp(-0.3 t) till t = 2, then twice as fast; within 4 errors, 1 in 15,000."""

    def doubled(*parameters):
        net = ts.Network("doubled")
        net.add_species("A", 100)
        for name, value in parameters:
            net.add_parameter(name, value)
        net.add_reaction("A ->", rate="k")
        net.add_event("dose", 2, {"k": "2 * k"})
        return net

    data = {"time": [1.0, 2.0, 3.0, 4.0], "A": [74, 55, 30, 16]}
    given = {"observe": {"A": "normal(sd=2)"}, "n": 30, "device": CPU, "quiet": True}
    advice = r'no parameter above 0 but k; .* a parameter, k0: add_parameter\("k", "k0"\)'
    with pytest.raises(ts.ConfigError, match=advice):
        ts.fit(doubled(("k", 0.4)), data, **given)
    actual = ts.fit(
        doubled(("k0", 0.4), ("k", "k0")), data, swarm=50, iterations=3, seed=1, **given
    )
    assert actual.parameters == ("k0",)
    assert abs(math.log(actual["k0"] / 0.3)) < 4 * actual.error("k0") / actual["k0"] < 0.7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": ["q"]}, "no parameter"),
        ({"start": ["X"]}, 'no parameter of decay; it is a species: .* add_species\\("X", "X0"\\)'),
        ({"start": {"k": "uniform(0,1)"}}, "positive numbers"),
        ({"start": {"k": "lognormal(1)"}}, "sigma"),
        ({"n": 0}, "n"),
    ],
)
def test_bad_calls(given, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.fit(decay(), DATA, observe={"X": "poisson"}, device=CPU, **given)


@pytest.mark.validate
def test_a_long_course_of_exact_counts_is_fitted_as_exactly():
    """Beside the exact maximum, by powers of the transition matrix, and its curvature."""
    counts = [6, 5, 7, 9, 10, 19, 22, 21, 23, 19, 19, 20, 16, 13, 11, 9, 14, 16, 14, 17, 17, 17, 16,
              17, 18]  # fmt: skip
    net = ts.Network("immigration")
    net.add_species("X", 0)
    net.add_parameter("k", 4.0)
    net.add_parameter("g", 0.2)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate="g")
    data = {"time": np.arange(1.0, 26.0), "X": counts}
    actual = ts.fit(net, data, seed=13, device=CPU)
    assert actual.converged
    for name, exact, error in (("k", 4.932, 0.271), ("g", 0.2874, 0.314)):
        assert abs(math.log(actual[name] / exact)) < 0.5 * error
        assert 0.8 < actual.error(name) / actual[name] / error < 1.3


def test_a_fit_that_begins_far_from_the_best_rate_reaches_it():
    """It is 10,000 times the start, and no plateau lies between."""
    net = ts.Network("births")
    net.add_species("A", 0)
    net.add_parameter("k", 1.0)
    net.add_reaction("-> A", rate="k")
    net.add_reaction("A ->", rate=1.0)
    data = {"time": np.arange(1, 11.0), "A": np.random.default_rng(0).poisson(50, 10)}
    actual = ts.fit(net, data, observe={"A": "poisson(1)"}, start={"k": "loguniform(0.001,0.01)"},
                    seed=1, n=50, swarm=100, device=CPU)  # fmt: skip
    low, high = actual.interval("k")
    assert low < 55 < high
    assert high < 1.4 * low
