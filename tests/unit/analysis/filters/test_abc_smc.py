"""ABC-SMC: exact posteriors, bits, files, and data that no simulation reaches."""

from __future__ import annotations

import math
from contextlib import closing

import numpy as np
import pytest
from generated_networks import cyclic_chain
from sampling import ordinary

import tauslab as ts
from tauslab.analysis.filters.abc import sampler
from tauslab.analysis.filters.abc.distances import distances, scale_of
from tauslab.analysis.filters.abc.kernel import Densities, Kernel
from tauslab.analysis.filters.noise import draw
from tauslab.analysis.filters.weighted import quantile_of
from tauslab.analysis.particles.sums import fixed_sums
from tauslab.api.inference import abc
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.particles.proposals import Proposals
from tauslab.model.portable import normal_quantile, portable_exp

stats = pytest.importorskip("scipy.stats")
HOW = {"device": "cpu", "quiet": True, "seed": 1}
NINE = {"time": [2.0], "X": [9]}


def births():
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("k", 4.0)
    net.add_reaction("-> X", rate="k")
    return net


def immigration():
    net = births()
    net.add_parameter("loss", 0.5)
    net.add_reaction("X ->", rate="loss")
    return net


# ---------------------------------------------------------------- parts


def test_normal_quantiles():
    u = np.concatenate([np.logspace(-300, -1, 500), np.linspace(0.001, 0.999, 999)])
    exact = stats.norm.ppf(u)
    assert (np.abs(normal_quantile(u) - exact) <= 2e-15 * np.maximum(np.abs(exact), 1)).all()


@pytest.mark.parametrize("scale", [[1.0, 1.0], [1e-6, 1e6]])
@pytest.mark.parametrize("correlation", [0.0, 0.999999])
def test_a_kernel_draws_by_its_density(scale, correlation):
    """Against a mixture of normal distributions written with SciPy; KS of draws at 1e-4."""
    draws, n = np.random.default_rng(1), 20
    root = np.linalg.cholesky([[1, correlation], [correlation, 1]])
    centres = (draws.standard_normal((n, 2)) @ root.T) * scale
    weights = draws.random(n)
    weights /= weights.sum()
    near = np.arange(n) < 12
    kernel = Kernel(centres, weights, near)
    shares = weights[near] / weights[near].sum()
    words = np.random.Philox(3).random_raw(4 * 4000).reshape(-1, 4)
    places = kernel.propose(words)
    density, below = np.zeros(50), np.zeros(4000)
    for centre, weight in zip(centres, weights, strict=True):
        off = (centres[near] - centre) / scale
        covariance = (shares[:, None, None] * off[:, :, None] * off[:, None, :]).sum(axis=0)
        normal = stats.multivariate_normal(np.zeros(2), covariance)
        density += weight * normal.pdf((places[:50] - centre) / scale)
        z = (places[:, 0] - centre[0]) / scale[0] / math.sqrt(covariance[0, 0])
        below += weight * stats.norm.cdf(z)
    with closing(get_backend("cpu", BackendOptions(threads=1))) as backend:
        densities = Densities(backend, Communicator(), 2)
        logs = kernel.log_density(places[:50], densities) - np.log(density)
    np.testing.assert_allclose(logs, logs[0], atol=1e-3 if correlation else 1e-6)
    assert stats.kstest(below, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("size", "n", "m"), [(1, 1, 3), (2, 31, 2), (3, 33, 5), (2, 1500, 40)])
def test_densities_have_the_bits_of_the_host(device, size, n, m):
    """Sums of each place in the tree of `fixed_sums`, of which some terms count as 0."""
    draws = np.random.default_rng(n)
    centres, places = draws.normal(0, 9, (n, size)), draws.normal(0, 9, (m, size))
    spread, logs = draws.random(size) + 0.5, np.log(draws.random(n))
    logs[n // 2 + 1 :: 7] = -np.inf
    roots = draws.random((size, size, n)) + 0.1
    with closing(get_backend(device, BackendOptions(threads=2))) as backend:
        actual = Proposals(backend, size).sums(places, centres, spread, roots, logs)
    square, solved = np.zeros((m, n)), []
    for row in range(size):
        rest = (places[:, row, None] - centres[:, row]) / spread[row]
        for column in range(row):
            rest -= roots[row, column] * solved[column]
        solved.append(rest / roots[row, row])
        square += solved[row] * solved[row]
    each = logs - 0.5 * square
    largest = each.max(axis=1)
    terms = portable_exp(np.maximum(each - largest[:, None], -700.0))
    assert actual[0].tobytes() == largest.tobytes()
    assert actual[1].tobytes() == fixed_sums(terms).tobytes()


def test_distances_and_scales():
    simulated = np.array([[1.0, 10.0], [2.0, np.nan], [4.0, 30.0]])
    observed, scale = np.array([2.0, 20.0]), np.array([1.0, 10.0])
    assert distances(simulated, observed, scale, 1).tolist() == [2, math.inf, 3]
    assert distances(simulated, observed, scale, math.inf).tolist() == [1, math.inf, 2]
    assert distances(simulated, observed, scale, 2)[0] == math.sqrt(2)
    unseen = np.array([2.0, np.nan])
    assert distances(simulated, unseen, scale, 2).tolist() == [1, 0, 2]
    assert scale_of(simulated).tolist() == [1, 10]
    assert scale_of(np.array([[0.0], [0.0], [0.0], [4.0]])).tolist() == [1.0]  # mean deviation
    assert scale_of(np.full((3, 1), 7.0)).tolist() == [1.0]
    assert quantile_of(np.array([3.0, 1, 2]), np.array([0.2, 0.4, 0.4]), 0.5) == 2


@pytest.mark.parametrize(
    ("kind", "numbers", "exact"),
    [
        ("normal", [2.0], stats.norm(30, 2)),
        ("lognormal", [0.3], stats.lognorm(0.3, scale=30)),
        ("poisson", [0.5, 1.0], stats.poisson(16)),
        ("negative_binomial", [4.0, 0.5], stats.nbinom(4, 4 / 19)),
        ("binomial", [0.3], stats.binom(30, 0.3)),
        ("student_t", [5.0, 2.0], stats.t(5, 30, 2)),
    ],
)
def test_draws_of_noises(kind, numbers, exact):
    """Means and variances of 40,000 draws within 5 standard errors: false alarms 1e-6 each."""
    n = 40_000
    given = [np.array([number]) for number in numbers]
    actual = draw(kind, np.append(np.full(n, 30.0), np.nan), given, np.random.default_rng(1))
    assert np.isnan(actual[-1])
    mean, variance, kurtosis = (float(x) for x in exact.stats("mvk"))
    assert abs(actual[:-1].mean() - mean) < 5 * math.sqrt(variance / n)
    of_variance = variance * math.sqrt((kurtosis + 2) / n)
    assert abs(actual[:-1].var() - variance) < 5 * of_variance
    none = draw(kind, np.zeros(5), given, np.random.default_rng(1))
    assert np.isnan(none).all() == (kind == "lognormal")


# ---------------------------------------------------------------- posteriors


def test_an_exact_posterior_at_distance_zero():
    """Births are Poisson: the posterior of a flat prior is a gamma distribution.

    Mean within 4 standard errors, deviation within 4: false alarms 1e-4.
    """
    actual = ts.abc_smc(births(), NINE, {"k": "uniform(0,30)"}, n=2000, **HOW)
    exact, size = stats.gamma(10, scale=0.5), actual.effective_size[-1]
    assert actual.ended.startswith("epsilon is 0")
    assert abs(actual.mean("k") - exact.mean()) < 4 * exact.std() / math.sqrt(size)
    assert actual.sd("k") == pytest.approx(exact.std(), rel=4 / math.sqrt(2 * size))
    for q in (0.05, 0.5, 0.95):
        part = exact.cdf(actual.quantile("k", q))
        assert abs(part - q) < 4 * math.sqrt(q * (1 - q) / size)
    assert actual.summary()["mean"]["k"] == actual.mean("k")
    assert (actual.acceptance > 0.04).all()


@pytest.mark.validate
def test_a_noise_is_a_part_of_the_posterior():
    """Of the mean of a Poisson count seen by a Poisson, as the exact filter has it on a grid."""
    grid = np.linspace(0.25, 29.75, 60)
    noise = {"X": "poisson(0.5)"}
    logs = np.array([
        ts.exact_filter(births(), NINE, observe=noise, set={"k": k}).log_likelihood
        for k in grid.tolist()
    ])  # fmt: skip
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    mean = (shares * grid).sum()
    sd = math.sqrt((shares * (grid - mean) ** 2).sum())
    actual = ts.abc_smc(births(), NINE, {"k": "uniform(0,30)"}, observe=noise, n=1000, **HOW)
    assert actual.epsilon[-1] == 0
    size = actual.effective_size[-1]
    assert abs(actual.mean("k") - mean) < 4 * sd / math.sqrt(size)
    # A tail of large k has more weight than particles: over seeds the deviation varies by 5.7 %.
    assert actual.sd("k") == pytest.approx(sd, rel=4 * 0.057)


@pytest.mark.validate
def test_what_data_do_not_tell_keeps_its_prior():
    net = births()
    net.add_parameter("unused", 1.0)
    priors = {"k": "loguniform(1e-6,1e6)", "unused": "normal(1e6,1e5)"}
    actual = ts.abc_smc(net, NINE, priors, n=1000, generations=20, **HOW)
    assert actual.mean("unused") == pytest.approx(1e6, abs=2e4)
    assert actual.sd("unused") == pytest.approx(1e5, rel=0.2)
    assert actual.mean("k") == pytest.approx(4.5, rel=0.1)  # Gamma(9, 2) of a log-uniform prior


def test_zero_observations():
    """No birth in 2: the posterior is exponential with the mean 1/2."""
    actual = ts.abc_smc(births(), {"time": [2.0], "X": [0]}, {"k": "uniform(0,30)"}, n=500, **HOW)
    assert actual.mean("k") == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(400))


def test_values_that_the_model_cannot_take_are_left_out():
    actual = ts.abc_smc(births(), NINE, {"k": "normal(1,3)"}, n=200, generations=3, **HOW)
    assert (actual.values > 0).all()
    with pytest.raises(ts.ModelError, match="rate constant is -"):
        ts.abc_smc(births(), NINE, {"k": "uniform(-2,-1)"}, n=20, **HOW)


def test_against_pyabc():
    """The same prior and thresholds: means within 4 standard errors, deviations within 20 %."""
    pyabc = pytest.importorskip("pyabc")
    actual = ts.abc_smc(
        births(), NINE, {"k": "uniform(0,30)"}, n=1000, scale=1, epsilon=[6, 3, 1], **HOW
    )
    np.random.seed(1)  # noqa: NPY002 - pyABC draws from NumPy's global generator

    def model(given):
        return {"X": np.random.poisson(2.0 * given["k"])}  # noqa: NPY002

    smc = pyabc.ABCSMC(
        model, pyabc.Distribution(k=pyabc.RV("uniform", 0, 30)),
        pyabc.PNormDistance(p=2), population_size=1000, eps=pyabc.ListEpsilon([6, 3, 1]),
        sampler=pyabc.SingleCoreSampler(),
    )  # fmt: skip
    smc.new("sqlite://", {"X": 9})
    table, weights = smc.run(max_nr_populations=3).get_distribution()
    k = table["k"].to_numpy()
    mean = weights @ k
    sd = math.sqrt(weights @ (k - mean) ** 2)
    size = 1 / (weights**2).sum()
    error = sd * math.sqrt(1 / size + 1 / actual.effective_size[-1])
    assert abs(actual.mean("k") - mean) < 4 * error
    assert actual.sd("k") == pytest.approx(sd, rel=0.2)


# ---------------------------------------------------------------- bits


def two(**given):
    given = {"n": 60, "generations": 3, **HOW, **given}
    priors = {"k": "loguniform(1,50)", "loss": "uniform(0.1,2)"}
    data = {"time": [1.0, 2.0, 4.0], "X": [5.0, np.nan, 9.0]}
    return ts.abc_smc(immigration(), data, priors, observe={"X": "normal(k)"}, **given)


NOISES = ["", "normal(k)", "poisson", "student_t(5,1)", "negative_binomial(4)", "binomial(0.9)"]
CUTS = [*((noise, "ssa") for noise in NOISES), *(("poisson", m) for m in ("ode", "hybrid", "cle"))]


@pytest.mark.parametrize(
    ("noise", "method"),
    ordinary(
        [*CUTS, ("", "auto"), ("", "hybrid"), ("", "cle")],
        ("", "ssa"),
        ("normal(k)", "ssa"),
        ("poisson", "ode"),
        ("", "hybrid"),
    ),
)
def test_the_size_of_a_launch_changes_no_bit(monkeypatch, noise, method):
    """Also where the model refuses some values, and scales adapt to what was simulated."""
    priors = {"k": "normal(4,6)", "loss": "uniform(0.1,2)"}
    data = {"time": [1.0, 2.0, 4.0], "X": [5.0, np.nan, 9.0]}
    given = {"observe": {"X": noise}} if noise else {}

    def found():
        made = ts.abc_smc(
            immigration(), data, priors, n=40, generations=3, method=method, **given, **HOW
        )
        return [a.tobytes() for k, a in made.arrays().items() if k != "simulations"]

    whole = found()
    for most, least in ((37, 1), (150, 5)):
        monkeypatch.setattr(sampler, "_MOST", most)
        monkeypatch.setattr(sampler, "_LEAST", least)
        assert found() == whole


def test_candidates_ahead_count_nowhere(monkeypatch):
    """A GPU simulates more than are expected to be enough; also those that end early count so."""

    def found():
        with pytest.warns(UserWarning, match="with status step_limit") as warned:
            made = ts.abc_smc(
                immigration(), {"time": [1.0, 4.0], "X": [4, 7]},
                {"k": "uniform(0,30)", "loss": "uniform(0.1,2)"}, n=60, generations=3,
                max_steps=40, **HOW,
            )  # fmt: skip
        return made.digest(), [str(one.message) for one in warned]

    whole = found()
    monkeypatch.setattr(abc, "Sampler", lambda *given: sampler.Sampler(*given[:-1], 3.0))
    assert found() == whole


def test_a_method_is_chosen_once_for_all_launches(monkeypatch):
    """Pilots of launches would choose by the values of each."""
    requested = []
    opened = abc.opened

    def noted(network, options, comm):
        requested.append(options.method)
        return opened(network, options, comm)

    monkeypatch.setattr(abc, "opened", noted)
    for method, kind in (("auto", (ts.SSA, ts.TauLeaping)), ("ode", ts.ODE)):
        requested.clear()
        two(method=method)
        _, _, *launches = requested  # the first tries values, the second chooses
        assert isinstance(launches[0], kind)
        assert launches == [launches[0]] * len(launches)
    net = cyclic_chain(300)
    requested.clear()
    with pytest.warns(UserWarning, match="rounded: S1|of S1 that are not whole"):
        ts.abc_smc(net, {"time": [1.0], "S1": [9]}, {"S1": "uniform(0,50)"}, n=20, **HOW)
    assert {one.presimulation for one in requested[2:]} == {0}


def test_the_seed_decides():
    assert two().digest() == two().digest()
    assert two(seed=2).digest() != two().digest()


class Stopped(Exception):  # noqa: N818 - no error
    pass


@pytest.mark.parametrize("after", [1, 2, 4])
def test_it_continues_with_the_same_bits(tmp_path, monkeypatch, after):
    whole, path = two(), tmp_path / "abc.h5"
    launch, made = sampler.Sampler._launch, []

    def some(self):
        if len(made) == after:
            raise Stopped
        made.append(1)
        launch(self)

    monkeypatch.setattr(sampler.Sampler, "_launch", some)
    with pytest.raises(Stopped):
        two(checkpoint=path, checkpoint_every=0)
    monkeypatch.undo()
    assert two(checkpoint=path).digest() == whole.digest()
    longer = two(checkpoint=path, generations=5)
    assert longer.digest() == two(generations=5).digest()
    with pytest.raises(ts.ConfigError, match="was begun with another model"):
        two(checkpoint=path, seed=7)


def test_a_checkpoint_of_other_thresholds_is_refused(tmp_path):
    how = {"scale": 1, "checkpoint": tmp_path / "abc.h5"}
    two(epsilon=[20, 10], **how)
    for other in ([30, 10, 5], [20], [20, 9, 5]):
        with pytest.raises(ts.ConfigError, match="2 generations, with the thresholds 20, 10"):
            two(epsilon=other, **how)
    with pytest.raises(ts.ConfigError, match="was begun with another"):
        two(**how)
    more = two(epsilon=[20, 10, 6], **how)
    assert more.digest() == two(epsilon=[20, 10, 6], scale=1).digest()
    with pytest.raises(ts.ConfigError, match="no fewer generations"):
        two(epsilon=[20, 10], **how)


# ---------------------------------------------------------------- what it takes


def test_one_threshold():
    actual = two(scale=1, epsilon=20)
    assert actual.digest() == two(scale=1, epsilon=[20]).digest()
    with pytest.raises(ts.ConfigError, match="priors= is a list"):
        ts.abc_smc(births(), NINE, ["k"], **HOW)


def test_summaries_and_distances():
    prior = {"k": "uniform(0,30)"}
    given = {"n": 100, "generations": 3, **HOW}
    named = ts.abc_smc(births(), {"maximum:X": 9}, prior, t_end=2, **given)
    own = ts.abc_smc(
        births(), [9], prior, summary=lambda result: result.counts("X")[:, -1], times=[2.0], **given
    )
    assert named.values.tolist() == own.values.tolist()
    assert named.summaries == ("maximum:X",)
    far = ts.abc_smc(births(), NINE, prior, distance=lambda x, y: np.abs(x - y)[:, 0], **given)
    assert far.simulated.shape == (100, 1)
    with pytest.warns(UserWarning, match="rounded"):
        counted = ts.abc_smc(births(), NINE, {"X": "uniform(0,9)"}, **given)
    assert (counted["X"] < 9).all()


def test_arviz_and_pictures(tmp_path):
    actual = two()
    groups = actual.to_arviz()
    assert groups["posterior"]["k"].shape == (1, 60)
    assert groups["posterior_predictive"]["X"].shape == (1, 60, 3)
    assert groups["observed_data"]["X"].shape == (3,)
    named = ts.abc_smc(births(), {"mean:X": 9}, {"k": "uniform(0,30)"}, t_end=2, n=20, **HOW)
    assert named.to_arviz()["posterior_predictive"]["mean:X"].shape == (1, 20)
    assert len(actual.to_pandas("generations")) == 3
    with pytest.raises(ts.ConfigError, match="has the tables particles"):
        actual.table("rows")
    pytest.importorskip("matplotlib")
    actual.plot(path=tmp_path / "k.png")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": {"first-passage:X:1000": 3.0}, "t_end": 5}, "infinite distance from the data"),
        ({"scale": 1, "epsilon": [1e-3], "data": {"time": [2.0], "X": [1e6]}}, "larger epsilon"),
        ({"epsilon": [1]}, "needs scale="),
        ({"scale": "sd"}, "adaptive"),
        ({"scale": [1, 2]}, "one per summary"),
        ({"scale": 1, "epsilon": []}, "one number or more"),
        ({"distance": 3}, "infinity"),
        ({"distance": lambda x, y: x}, "one number of 0 or more"),
        ({"data": {"time": [2.0], "X": [np.nan]}}, "at least one number is needed"),
        ({"data": {"time": [2.0]}}, "no column but time"),
        ({"data": {"time": [2.0], "Y": [1]}}, "'Y' is not recorded"),
        ({"data": {"mean:X": 2.0}}, "t_end"),
        ({"data": [1.0], "t_end": 2}, "summary= must be given"),
        ({"data": [1.0], "t_end": 2, "summary": lambda r: r.counts("X")}, "gave shape"),
        ({"observe": lambda *_: 0}, "a function has no draws"),
        ({"observe": {"X": "normal(-1)"}}, "sd of normal cannot be -1"),
        ({"priors": {}}, "nothing to draw"),
        ({"priors": {"Q": "uniform(0,1)"}}, "neither a parameter nor a species"),
        ({"quantile": 1.0}, "between 0 and 1"),
        ({"t_end": 3}, "has no use"),
    ],
)
def test_what_is_refused(given, message):
    given = {"data": NINE, "priors": {"k": "uniform(0,30)"}, "n": 20, **HOW, **given}
    with pytest.raises(ts.ConfigError, match=message):
        ts.abc_smc(births(), **given)


def test_data_beyond_all_simulations_are_named():
    far = {"time": [2.0], "X": [1e6]}
    with pytest.warns(UserWarning, match="X at t = 2 is 1e\\+06 in the data"):
        ts.abc_smc(births(), far, {"k": "uniform(0,30)"}, n=50, generations=2, **HOW)


def test_candidates_that_end_early_are_reported(tmp_path) -> None:
    net = ts.Network("growth")
    net.add_species("X", 1)
    net.add_parameter("k", 1.0)
    net.add_reaction("X -> 2 X", rate="k")
    how = {**HOW, "n": 20, "max_steps": 50, "checkpoint": tmp_path / "abc.h5"}
    data, priors = {"time": [1.0], "X": [3]}, {"k": "uniform(0.1,6)"}
    with pytest.warns(
        UserWarning, match="time of the data: [0-9]+ with status step_limit"
    ) as first:
        ts.abc_smc(net, data, priors, generations=1, **how)
    with pytest.warns(UserWarning, match="with status step_limit") as again:
        ts.abc_smc(net, data, priors, generations=1, **how)
    assert str(first[0].message) == str(again[0].message)  # the file has the number
    with pytest.raises(ts.ConfigError, match="another"):
        ts.abc_smc(net, data, priors, generations=1, **{**how, "max_steps": 51})
