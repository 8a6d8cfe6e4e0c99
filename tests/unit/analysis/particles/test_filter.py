"""Filters against the exact forward algorithm, observation models against closed forms."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from places import ROOT
from reference_ensembles import case, course, network

import tauslab as ts
from tauslab.analysis.filters.chains import Chain
from tauslab.analysis.filters.observing import ObservationModel
from tauslab.analysis.particles import weights
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.model.portable import portable_log, portable_log_gamma

SMALL = ("immigration_death_normal", "sir_binomial")


@pytest.mark.parametrize("name", SMALL)
def test_the_exact_filter_has_every_term(name):
    actual = case(name)
    data, observe, initial = course(actual)
    exact = ts.exact_filter(network(actual), data, observe=observe, initial=initial)
    np.testing.assert_allclose(exact.terms, actual["terms"], rtol=1e-11)
    assert exact.log_likelihood == pytest.approx(actual["exact"], abs=1e-11)
    assert 0 <= exact.bound < 1e-4


@pytest.mark.parametrize("name", SMALL)
def test_the_particle_filter_estimates_it(name):
    """Ten filters: their mean likelihood within four standard errors; false alarms 0.3 %."""
    actual = case(name)
    data, observe, initial = course(actual)
    logs = np.array([
        ts.particle_filter(
            network(actual), data, observe=observe, initial=initial, n=1000, seed=seed, device="cpu"
        ).log_likelihood
        for seed in range(100, 110)
    ])  # fmt: skip
    ratios = np.exp(logs - actual["exact"])
    assert ratios.std() < 0.8
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(10)


def test_filtered_states_are_those_of_the_exact_filter():
    actual = case("immigration_death_normal")
    data, observe, _ = course(actual)
    exact = ts.exact_filter(network(actual), data, observe=observe)
    own = ts.particle_filter(network(actual), data, observe=observe, n=4000, seed=3, device="cpu")
    errors = (own.mean - exact.mean) / (exact.sd / np.sqrt(own.effective_size[:, None]))
    assert np.abs(errors).max() < 4.5
    np.testing.assert_allclose(own.sd, exact.sd, rtol=0.1)
    assert own.to_xarray()["mean"].dims == ("time", "species")


@pytest.mark.parametrize("resample", weights.SCHEMES)
def test_quantiles_of_states_are_exact(tmp_path, resample):
    """Of molecules that decay: bounds of 5 deviations, a false alarm in 30,000.

    And they leave the other numbers what they are.
    """
    data = {"time": [0.3, 0.8], "X": [12.5, 11.0]}
    given = {"observe": {"X": "normal(sd=2)"}, "n": 2000, "seed": 4, "threshold": 1.0}
    given |= {"device": "cpu", "resample": resample}
    probabilities = [0.05, 0.5, 0.95]
    own = ts.particle_filter(decay(), data, quantiles=probabilities, **given)
    plain = ts.particle_filter(decay(), data, **given)
    for name in ("terms", "mean", "sd", "effective_size"):
        assert (getattr(own, name) == getattr(plain, name)).all()
    assert plain.quantiles is None
    own.save(tmp_path / "f.h5")
    assert ts.open(tmp_path / "f.h5").quantiles.tolist() == own.quantiles.tolist()
    assert own.to_pandas()["X_0.95"].tolist() == own.quantiles[:, 0, 2].tolist()
    x, posterior = np.arange(21), np.arange(21) == 20
    for row, before in enumerate((0.0, 0.3)):
        p = math.exp(before - data["time"][row])  # of one molecule to be left
        left = [[math.comb(i, j) * p**j * (1 - p) ** max(0, i - j) for j in x] for i in x]
        posterior = posterior @ np.array(left) * np.exp(-(((x - data["X"][row]) / 2) ** 2) / 2)
        posterior /= posterior.sum()
        reached = np.append(np.cumsum(posterior), 0.0)  # the last is that below 0
        for p, actual in zip(probabilities, own.quantiles[row, 0].astype(int), strict=True):
            error = 5 * math.sqrt(p * (1 - p) / own.effective_size[row])
            assert reached[actual - 1] < p + error
            assert reached[actual] > p - error


@pytest.mark.validate
def test_lotka_and_volterra():
    """-144.0 +- 0.1 with 50,000 particles."""
    actual = case("lotka_volterra_noise_10")
    data, observe, initial = course(actual)
    own = ts.particle_filter(
        network(actual), data, observe=observe, initial=initial, n=50_000, seed=1, device="cpu"
    )
    assert own.log_likelihood == pytest.approx(actual["exact"], abs=0.1)


def test_lotka_and_volterra_with_few_particles():
    actual = case("lotka_volterra_noise_10")
    data, observe, initial = course(actual)
    own = ts.particle_filter(
        network(actual), data, observe=observe, initial=initial, n=1000, seed=1, device="cpu"
    )
    assert own.log_likelihood == pytest.approx(actual["exact"], abs=1.0)


def decay(k=1.0, n=20):
    net = ts.Network("decay")
    net.add_species("X", n)
    net.add_parameter("k", k)
    net.add_parameter("p", 0.5)
    net.add_reaction("X ->", rate="k")
    return net


def test_other_values_of_parameters_need_no_other_kernel(monkeypatch):
    """As samplers of other packages ask for one parameter set a call; no bit depends on it."""
    sources, usual = [], CpuBackend.compile

    def compiled(self, source, *given, **named):
        sources.append(source)
        return usual(self, source, *given, **named)

    monkeypatch.setattr(CpuBackend, "compile", compiled)
    given = {"observe": {"X": "normal(sd=2)"}, "n": 50, "seed": 1, "device": "cpu"}
    data = {"time": [0.5, 1.0], "X": [12.5, 8.0]}
    first, second = (ts.particle_filter(decay(), data, set={"k": k}, **given) for k in (0.5, 0.7))
    half = len(sources) // 2
    assert sources[:half] == sources[half:]
    assert first.log_likelihood != second.log_likelihood
    written = ts.particle_filter(decay(k=0.7), data, **given)
    for name in ("terms", "mean", "sd", "effective_size"):
        assert np.array_equal(getattr(second, name), getattr(written, name))


def test_missing_observations():
    nan = math.nan
    data = {"time": [0.0, 0.5, 1.0, 2.0], "X": [20, nan, 8, nan], "y": [nan, nan, 4, 1]}
    observe = {"X": "normal(sd=2)", "y": ("X", "binomial(p=p)")}
    exact = ts.exact_filter(decay(), data, observe=observe)
    own = ts.particle_filter(decay(), data, observe=observe, n=20_000, seed=1, device="cpu")
    assert exact.terms[1] == own.terms[1] == 0
    np.testing.assert_allclose(own.terms, exact.terms, atol=0.05)
    fewer = {name: np.delete(column, 1) for name, column in data.items()}
    assert ts.exact_filter(decay(), fewer, observe=observe).log_likelihood == pytest.approx(
        exact.log_likelihood, abs=1e-9
    )


def test_data_are_columns_or_the_path_of_a_table(tmp_path):
    network = ts.Network("decay")
    network.add_species("X", 50)
    network.add_reaction("X ->", rate=1.0)
    path = tmp_path / "counts.csv"
    path.write_text("time,seen\n0,50\n0.5,31\n1,\n2,7\n")
    columns = {"time": [0, 0.5, 1, 2], "seen": [50, 31, np.nan, 7]}
    given = {"observe": {"seen": ("X", "normal(sd=3)")}, "n": 200, "seed": 1, "device": "cpu"}
    actual = {ts.particle_filter(network, data, **given).digest() for data in (path, columns)}
    assert len(actual) == 1


def test_impossible_data_have_no_likelihood():
    data = {"time": [1.0, 2.0], "X": [25, 3]}
    observe = {"X": "binomial(p=0.9)"}
    with pytest.warns(UserWarning, match="at t = 1 the data have likelihood 0 with all 50"):
        estimate = ts.particle_filter(decay(), data, observe=observe, n=50, device="cpu")
    for actual in (ts.exact_filter(decay(), data, observe=observe), estimate):
        assert actual.log_likelihood == -math.inf
        assert np.isnan(actual.mean).all()
        assert actual.terms.tolist() == [-math.inf, -math.inf]  # also of rows that were not come to


def test_an_outlier_leaves_the_exact_filter_with_a_bound_as_large():
    """A row that no state within the projection explains well, though one beyond it might."""
    net = decay()
    net.add_reaction("-> X", rate=4.0)
    data = {"time": [1.0, 2.0], "X": [1e6, 3]}
    with pytest.warns(UserWarning, match="the data are far from all states"):
        actual = ts.exact_filter(net, data, observe={"X": "normal(2)"})
    assert actual.terms[0] == pytest.approx(-0.5 * ((1e6 - 20) / 2) ** 2, rel=1e-4)
    assert np.isfinite(actual.log_likelihood)
    assert 0.9 * -actual.log_likelihood < actual.bound < math.inf
    never = ts.exact_filter(decay(), {"time": [1.0], "X": [25]}, observe={"X": "binomial(0.9)"})
    assert never.log_likelihood == -math.inf
    assert never.bound < 1e-10  # for sure: no more than 20 there are


@pytest.mark.parametrize(
    ("noise", "rows"), [("poisson()", 40), ("binomial(p=0.3)", 20), ("normal(sd=2)", 25)]
)
def test_the_bound_of_many_rows_is_within_the_tolerance(noise, rows):
    """It is relative to the likelihood, however small that is, and holds for a finer tolerance.

    The exact likelihood is that of a much larger set of states, of which hardly any is left.
    """
    net = ts.Network("flow")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=10.0)
    net.add_reaction("X ->", rate=0.2)
    random = np.random.default_rng(1)
    data = {"time": list(range(1, rows + 1)), "X": random.poisson(50, rows).tolist()}
    if noise.startswith("binomial"):
        data["X"] = random.binomial(data["X"], 0.3).tolist()
    actual = ts.exact_filter(net, data, observe={"X": noise})
    assert 0 < actual.bound <= 1e-8
    exact = _by_matrices(noise, data)
    assert -1e-11 < exact - actual.log_likelihood < actual.bound + 1e-11
    with pytest.warns(UserWarning, match="tolerance=1e-40 is less"):
        finer = ts.exact_filter(net, data, observe={"X": noise}, tolerance=1e-40)
    assert finer.bound < 1e-10  # of rounding alone


def _by_matrices(noise, data, size=400):
    """The forward algorithm with the matrix exponential of SciPy."""
    from scipy.linalg import expm
    from scipy.stats import binom, norm
    from scipy.stats import poisson as poisson_law

    x = np.arange(size)
    rates = np.diag(np.full(size - 1, 10.0), 1) + np.diag(0.2 * x[1:], -1)
    step = expm(rates - np.diag(rates.sum(axis=1)))
    p, log = (x == 0).astype(float), 0.0
    for y in data["X"]:
        law = {"p": poisson_law.pmf(y, x), "b": binom.pmf(y, x, 0.3), "n": norm.pdf(y, x, 2)}
        p = (p @ step) * law[noise[0]]
        log += math.log(p.sum())
        p /= p.sum()
    return log


@pytest.mark.parametrize(
    "noise",
    ["poisson(scale=0.3)", "poisson(scale=2, background=3)", "binomial(p=0.37)", "normal(sd=2)",
     "negative_binomial(size=4)", "negative_binomial(size=0.5, scale=3)", "student_t(3, 2)"],
)  # fmt: skip
@pytest.mark.parametrize("y", [0, 1, 2, 7, 40])
def test_no_state_has_a_larger_density_than_the_bound(noise, y):
    model = ObservationModel.parse("X", noise)
    logs = model.log_density(y, lambda _: np.arange(0, 400, 0.25), {})
    slack = 0.5 if "background" not in noise else 3.0
    assert logs.max() - 1e-12 <= model.log_most(y, {}) < logs.max() + slack + 1e-9


def test_a_term_far_below_the_least_double_is_exact():
    """States near the row have no probability: none of the densities may underflow."""
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_reaction("X ->", rate=1.0)
    actual = ts.exact_filter(net, {"time": [0.0], "X": [3]}, observe={"X": "normal(sd=0.5)"})
    exact = -0.5 * (97 / 0.5) ** 2 - math.log(0.5 * math.sqrt(2 * math.pi))
    assert actual.log_likelihood == pytest.approx(exact, rel=1e-12)
    assert actual.bound < 1e-6


def test_a_function_observes():
    def observe(values, row, t):
        assert t in (0.5, 1.0)
        return -0.5 * ((row["y"] - values("X")) / 2.0) ** 2 - math.log(2 * math.sqrt(2 * math.pi))

    data = {"time": [0.5, 1.0], "y": [11.0, 8.0]}
    named = {"y": ("X", "normal(2)")}
    for filter_, given in (
        (ts.exact_filter, {}),
        (ts.particle_filter, {"n": 200, "seed": 1, "device": "cpu"}),
    ):
        by_function = filter_(decay(), data, observe=observe, **given)
        by_name = filter_(decay(), data, observe=named, **given)
        np.testing.assert_allclose(by_function.terms, by_name.terms, rtol=1e-12)
    with pytest.raises(ts.ConfigError, match="one log density per state"):
        ts.particle_filter(decay(), data, observe=lambda *_: 0.0, n=5, device="cpu")


def test_a_density_may_be_0():
    """Without a warning, on the host too."""
    assert density("normal(sd=1)", 1e200, [1.0]) == [-math.inf]


def density(text, y, x, **constants):
    model = ObservationModel.parse("y", text)
    x = np.asarray(x, float)
    return model.log_density(y, lambda _: x, constants)


def test_densities():
    stats = pytest.importorskip("scipy.stats")
    x = np.array([0.0, 1.0, 7.0, 40.0, 100000.0])
    for y in (0, 1, 5, 39):
        np.testing.assert_allclose(density("normal(3)", y, x), stats.norm.logpdf(y, x, 3))
        np.testing.assert_allclose(
            density("poisson()", y, x), stats.poisson.logpmf(y, x), atol=1e-9
        )
        np.testing.assert_allclose(
            density("poisson(scale=0.2, background=1)", y, x), stats.poisson.logpmf(y, 0.2 * x + 1),
            rtol=1e-10,
        )  # fmt: skip
        np.testing.assert_allclose(
            density("binomial(p)", y, x, p=0.3),
            stats.binom.logpmf(y, x, 0.3),
            rtol=1e-9,
            atol=1e-13,
        )
        np.testing.assert_allclose(
            density("negative_binomial(2.5)", y, x), stats.nbinom.logpmf(y, 2.5, 2.5 / (2.5 + x)),
            rtol=1e-9,
        )  # fmt: skip
    for y in (0.5, 30.0):
        np.testing.assert_allclose(
            density("lognormal(sigma=0.4)", y, x)[1:], stats.lognorm.logpdf(y, 0.4, scale=x[1:])
        )
        np.testing.assert_allclose(
            density("student_t(3.5, scale=2)", y, x), stats.t.logpdf(y, 3.5, loc=x, scale=2),
            rtol=1e-12,
        )  # fmt: skip
        np.testing.assert_allclose(
            density("student_t(1e9, scale=2)", y, x[:4]), stats.norm.logpdf(y, x[:4], 2),
            rtol=1e-6, atol=9e-6,
        )  # fmt: skip
    np.testing.assert_allclose(
        density("negative_binomial(1e9)", 5, x[:4]), stats.poisson.logpmf(5, x[:4]), atol=9e-6
    )
    assert density("lognormal(0.4)", 2.0, x)[0] == -math.inf
    for p, y, expected in ((0.0, 0, 0.0), (0.0, 1, -math.inf), (1.0, 7, 0.0), (1.0, 6, -math.inf)):
        assert density("binomial(p)", y, [7.0], p=p)[0] == pytest.approx(expected, abs=1e-13)
    for text in ("poisson", "binomial(0.5)", "negative_binomial(1)"):
        assert density(text, 1.5, x).max() == -math.inf
        assert density(text, -1.0, x).max() == -math.inf
    for text in ("poisson", "negative_binomial(2)"):  # a negative mean counts as 0
        assert density(text, 0.0, [-3.0])[0] == 0
        assert density(text, 1.0, [-3.0])[0] == -math.inf
    assert density("normal(1)", 1.0, [math.nan])[0] == -math.inf


def test_noise_that_follows_a_given_parameter_is_that_of_its_value():
    net = decay()
    net.add_parameter("noise", "4 * k")
    data, given = {"time": [1.0], "X": [9.0]}, {"k": 0.5}
    terms = [
        ts.exact_filter(net, data, observe={"X": noise}, set=given).log_likelihood
        for noise in ("normal(noise)", "normal(2)")
    ]
    assert terms[0] == terms[1]


def test_portable_logarithms():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.geomspace(1e-300, 1e300, 5001), 1 + np.geomspace(1e-15, 1e-3, 200)])
    np.testing.assert_allclose(portable_log(x), np.log(x), rtol=6e-16)
    assert portable_log(np.array([0.0, -1.0, np.inf])).tolist()[0::2] == [-math.inf, math.inf]
    z = np.geomspace(1e-6, 1e8, 3001)
    error = np.abs(portable_log_gamma(z) - special.gammaln(z))
    assert (error <= 1e-14 * (1 + np.abs(special.gammaln(z)) + 40)).all()


GOOD = {"time": [1.0, 2.0], "X": [5, 3]}


@pytest.mark.parametrize(
    ("data", "observe", "message"),
    [
        ({"X": [1]}, {"X": "poisson"}, '"time"'),
        (7, {"X": "poisson"}, '"time"'),
        (GOOD, {}, "names no column"),
        (GOOD, {"Y": "poisson"}, "no column 'Y'"),
        (GOOD, {"X": "gauss(1)"}, "normal"),
        (GOOD, {"X": math.log}, "observe X: <built-in function log> is no noise"),
        (GOOD, {"X": ("X",)}, "is no noise, such as"),
        (GOOD, {"X": "normal"}, "needs sd"),
        (GOOD, {"X": "normal(mu=1)"}, "has no mu"),
        (GOOD, {"X": "normal(1, 2)"}, "alone"),
        (GOOD, {"X": "normal(-1)"}, "sd of normal cannot be -1"),
        (GOOD, {"X": "poisson(scale=1, scale=2)"}, "given scale twice"),
        (GOOD, {"X": "poisson(background=1, 2)"}, "given background twice"),
        (GOOD, {"X": "binomial(1.5)"}, "p of binomial cannot be 1.5"),
        (GOOD, {"X": "negative_binomial(1e16)"}, "cannot be 1e.16, at most 1e9: write poisson"),
        (GOOD, {"X": "student_t(1e16, 1)"}, "cannot be 1e.16, at most 1e9: write normal"),
        (GOOD, {"X": "normal(sigma_y)"}, "'sigma_y' is not a parameter"),
        (GOOD, {"X": "normal(K)"}, "it has k, p; did you mean 'k'"),
        ({"time": [1.0, 2.0], "X": [1, math.inf]}, {"X": "normal(1)"}, "X is inf in row 1"),
        (GOOD, {"X": ("Z", "poisson")}, "'Z' is neither"),
        ({"time": [2.0, 1.0], "X": [1, 2]}, {"X": "poisson"}, "increasing"),
        ({"time": [-1.0, 1.0], "X": [1, 2]}, {"X": "poisson"}, "0 or above"),
        ({"time": [1.0, 2.0], "X": [1, 5.5]}, {"X": "poisson"}, r"X is 5\.5 in row 1, and poisson"),
        ({"time": [1.0], "X": [-2]}, {"X": "binomial(0.5)"}, "X is -2 in row 0, and binomial"),
        ({"time": [1.0], "X": [0]}, {"X": "lognormal(0.3)"}, "X is 0 in row 0, and lognormal"),
        ({"time": [], "X": []}, {"X": "poisson"}, "one or more"),
        ({"time": [1.0], "X": [1, 2]}, {"X": "poisson"}, "2 rows"),
        ({"time": [1.0], "X": ["a"]}, {"X": "poisson"}, "numbers"),
    ],
)
def test_bad_data(data, observe, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.exact_filter(decay(), data, observe=observe)


@pytest.mark.parametrize("ask", [ts.exact_filter, ts.particle_filter])
def test_noise_must_be_given(ask):
    with pytest.raises(ts.ConfigError, match=r'observe= is missing.*"normal\(sd=10\)"'):
        ask(decay(), {"time": [1.0], "X": [5]})


@pytest.mark.parametrize("n", [0, "3", 2.5, 2**40])
def test_bad_numbers_of_particles(n):
    given = {"observe": {"X": "poisson"}, "n": n, "device": "cpu"}
    with pytest.raises(ts.ConfigError, match=r"n=.* is not allowed|are more than"):
        ts.particle_filters(decay(), GOOD, **given, filters=2)
    if n != 2**40:
        with pytest.raises(ts.ConfigError, match=r"n=.* is not allowed"):
            ts.particle_filter(decay(), GOOD, **given)


def test_a_whole_number_may_be_written_with_a_point():
    given = {"observe": {"X": "poisson"}, "seed": 1, "device": "cpu"}
    ten = ts.particle_filter(decay(), GOOD, n=10, **given)
    assert ts.particle_filter(decay(), GOOD, n=1e1, **given).terms.tolist() == ten.terms.tolist()


@pytest.mark.validate
def test_pmmh_finds_the_posterior():
    """With 3, 30 and 300 particles, against the posterior on a grid by the exact filter.

    Four standard errors of each mean: false alarms 0.02 % of the three.
    """
    data = {"time": [0.3, 0.7, 1.2], "X": [12.0, 11.0, 4.0]}
    observe = {"X": "normal(sd=2)"}
    grid = np.linspace(math.log(0.2), math.log(5.0), 41)
    logs = np.array([  # at k = exp(g)
        ts.exact_filter(decay(), data, observe=observe, set={"k": k}).log_likelihood
        for k in np.exp(grid).tolist()
    ])  # fmt: skip
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    mean = (shares * np.exp(grid)).sum()
    sd = math.sqrt((shares * (np.exp(grid) - mean) ** 2).sum())
    sizes, acceptances = [], []
    for n in (3, 30, 300):
        chain = ts.pmmh(
            decay(), data, {"k": "loguniform(0.2,5)"}, observe=observe, n=n, steps=400,
            warm_up=100, chains=12, seed=1, device="cpu",
        )  # fmt: skip
        sizes.append(chain.effective_size("k"))
        acceptances.append(chain.acceptance)
        assert abs(chain["k"].mean() - mean) < 4 * sd / math.sqrt(sizes[-1])
        assert chain["k"].std() == pytest.approx(sd, rel=0.15)
        assert chain.rhat("k") < 1.1
        assert len(chain.to_xarray()["k"]) == 12
    assert 0.05 < acceptances[0] < acceptances[2] < 0.8
    assert 100 < sizes[0] < sizes[2]


def test_chains_that_never_moved_know_no_size():
    still = np.zeros((2, 8), bool)
    apart = Chain(("k",), np.repeat([[[1.0]], [[2.0]]], 8, axis=1), np.zeros((2, 8)), still)
    assert math.isnan(apart.effective_size("k"))
    assert apart.rhat("k") == math.inf
    together = Chain(("k",), np.ones((2, 8, 1)), np.zeros((2, 8)), still)
    assert math.isnan(together.rhat("k"))


def test_a_chain_does_not_go_where_the_model_cannot():
    """A normal prior has values below 0, which no rate constant and no noise has."""
    net = decay()
    net.add_parameter("s", 2.0)
    given = {"observe": {"X": "normal(sd=s)"}, "n": 3, "warm_up": 0, "device": "cpu", "seed": 1}
    data = {"time": [0.3], "X": [15.0]}
    priors = {"k": "normal(0.2,1)", "s": "normal(2,3)"}
    alone = ts.pmmh(net, data, priors, steps=60, proposal=[1.0, 3.0], chains=1, **given)
    assert (alone.values > 0).all()
    assert 0 < alone.acceptance < 1
    three = ts.pmmh(net, data, priors, steps=60, proposal=[1.0, 3.0], chains=3, **given)
    assert three.values[0].tolist() == alone.values[0].tolist()
    assert (three.values > 0).all()
    with pytest.raises(ts.ModelError, match="rate constant is -1"):
        ts.pmmh(net, data, priors, steps=5, start={"k": -1.0}, **given)
    with pytest.raises(ts.ConfigError, match="sd of normal cannot be -1"):
        ts.pmmh(net, data, priors, steps=5, start={"s": -1.0}, **given)


def test_bad_chains():
    for given, message in (
        ({"priors": {"k": "gamma(1,1)"}}, "uniform"),
        ({"priors": {"k": "uniform(2,1)"}}, "low is 2, and must be below"),
        ({"priors": {"Q": "uniform(0,1)"}}, "no parameter"),
        ({"priors": {}}, "names no parameter"),
        ({"priors": {"k": "uniform(0,1)"}, "proposal": [1, 2]}, "one number per prior"),
        ({"priors": {"k": "uniform(0,1)"}, "proposal": [0.0]}, "finite and above 0"),
        ({"priors": {"k": "uniform(0,1)"}, "data": {"time": [1.0], "X": [30]},
          "observe": {"X": "binomial(0.5)"}}, "cannot start"),
    ):  # fmt: skip
        with pytest.raises(ts.ConfigError, match=message):
            ts.pmmh(
                decay(), **{"data": GOOD, "observe": {"X": "poisson"}, **given}, n=5, steps=5,
                device="cpu",
            )  # fmt: skip


@pytest.mark.validate
def test_the_example_finds_rates(monkeypatch):
    """A short chain on a short course: within five posterior deviations."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    from filter_lotka_volterra import posterior

    chain = posterior(n=40, steps=60, warm_up=20, rows=4)
    assert chain.accepted.any()
    for name, true in (("birth", 1.0), ("death", 0.6)):
        assert abs(chain[name].mean() - true) < 5 * max(0.05, chain[name].std())


def test_a_likelihood_of_one_or_two_particles_is_reported():
    data = {"time": [1.0, 2.0], "X": [11.0, 1e4]}
    with pytest.warns(UserWarning, match="at t = 2 the 200 particles have an effective size of 1"):
        ts.particle_filter(decay(), data, observe={"X": "normal(2)"}, n=200, seed=1, device="cpu")


def test_chains_that_do_not_agree_are_reported():
    """Apart from the start, with a proposal that leaves them there."""
    network = decay()
    with pytest.warns(UserWarning, match="they do not agree on the posterior"):
        ts.pmmh(
            network, {"time": [1.0], "X": [11.0]}, {"k": "loguniform(0.1,10)"},
            observe={"X": "normal(9)"}, n=2, steps=100, warm_up=0, chains=2, seed=1, device="cpu",
            start={"k": [0.2, 8.0]}, proposal=[1e-6], quiet=True,
        )  # fmt: skip


def test_chains_that_never_move_are_reported():
    """All start at the same value, so that R-hat is not a number."""
    with pytest.warns(UserWarning, match="R-hat nan: none moved"):
        ts.pmmh(
            decay(), {"time": [1.0], "X": [11.0]}, {"k": "loguniform(0.1,10)"},
            observe={"X": "normal(1e-3)"}, n=2, steps=100, warm_up=0, chains=2, seed=1,
            device="cpu", start={"k": 0.5}, proposal=[1e3], quiet=True,
        )  # fmt: skip


def test_particles_that_end_are_reported(tmp_path):
    """Those above 12 have a negative propensity: the likelihood leaves them out.

    What goes on from a file tells of those that ended before.
    """
    net = ts.Network("ends")
    net.add_species("X", 12)
    net.add_parameter("k", 1.0)
    net.add_reaction("-> X", law="k * (13 - X)")
    net.add_reaction("-> X", rate=0.2)
    data = {"time": [1.0, 2.0], "X": [13, 13]}
    how = {"observe": {"X": "normal(sd=1)"}, "device": "cpu", "seed": 1, "n": 50}
    prior = {"k": "uniform(0.5,1)"}
    calls = {
        "filter": lambda path: ts.particle_filter(net, data, checkpoint=path, **how),
        "pmmh": lambda path: ts.pmmh(
            net, data, prior, steps=2, warm_up=1, checkpoint=path, **how
        ),
        "smc2": lambda path: ts.smc2(net, data, prior, draws=4, checkpoint=path, **how),
    }  # fmt: skip
    for name, call in calls.items():
        texts = []
        for _ in range(2):
            with pytest.warns(
                UserWarning, match="ended before a row of the data: .* nan"
            ) as message:
                call(tmp_path / name)
            texts += [str(one.message) for one in message if "ended before" in str(one.message)]
        assert texts[0] == texts[1]


def test_a_limit_of_steps_ends_particles_that_explode():
    net = ts.Network("explosion")
    net.add_species("X", 100)
    net.add_parameter("b", 1e-4)
    net.add_reaction("2 X -> 3 X", rate="b")
    data = {"time": [1.0], "X": [101.0]}
    how = {"observe": {"X": "normal(sd=3)"}, "device": "cpu", "seed": 1, "max_steps": 1000}
    given = {"set": {"b": [1e-4, 1.0]}, "n": 20}
    with pytest.warns(UserWarning, match="20 with status step_limit"):
        actual = ts.particle_filters(net, data, **given, **how).log_likelihood
    assert actual[0] > -10
    assert actual[1] == -np.inf
    with pytest.warns(UserWarning, match="with status step_limit"):
        ts.smc2(net, data, {"b": "loguniform(1e-5,1)"}, draws=30, n=10, **how)


def test_progress_by_rows(capsys):
    net, how = decay(), {"observe": {"X": "normal(sd=2)"}, "n": 10, "device": "cpu", "seed": 1}
    data = {"time": [1.0, 2.0], "X": [13, 13]}
    actual = ts.particle_filter(net, data, quiet=False, **how)
    assert "2/2 rows (100 %)" in capsys.readouterr().err
    assert ts.particle_filter(net, data, quiet=True, **how).digest() == actual.digest()
    assert not capsys.readouterr().err
