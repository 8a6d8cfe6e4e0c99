"""Packages of inference that call tauslab; each test is skipped where its package is missing.

The data are nine births in 2 time units: the posterior of the rate k under a uniform prior from 0
to 30 is the gamma distribution of shape 10 and rate 2.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from places import ROOT, TESTS
from scipy.stats import gamma, kstest

import tauslab as ts

COUNT, TIMES = 9, [1.0, 2.0]
POSTERIOR = gamma(10, scale=0.5)
pytestmark = pytest.mark.filterwarnings("default")  # those of packages


def births():
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("k", 4.0)
    net.add_reaction("-> X", rate="k")
    return net


def simulator(**given):
    return ts.simulator(births(), ["k"], times=TIMES, device="cpu", seed=1, **given)


def column(values):
    return np.reshape(np.asarray(values, np.float64), (-1, 1))


def test_sbi_simulates_in_workers_and_learns_the_posterior(tmp_path, monkeypatch):
    """The mean within 0.35 posterior deviations, the deviation within 35 %."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(tmp_path)  # sbi writes logs
    torch.set_num_threads(1)  # more slow a small network down
    inference = pytest.importorskip("sbi.inference", reason="sbi is not installed")
    from sbi.utils import BoxUniform, process_simulator

    prior = BoxUniform(torch.zeros(1), 30 * torch.ones(1))
    simulate = simulator()
    wrapped = process_simulator(simulate, prior, is_numpy_simulator=False)
    one_rate = BoxUniform(torch.tensor([1e6]), torch.tensor([1e6 + 1e-3]))
    _, counts = inference.simulate_for_sbi(
        wrapped, one_rate, 12, num_workers=2, simulation_batch_size=1, show_progress_bar=False
    )
    assert len(set(counts.ravel().tolist())) == 12, "workers must not repeat each other"
    torch.manual_seed(1)
    theta, x = inference.simulate_for_sbi(
        simulate, prior, 2000, simulation_batch_size=None, show_progress_bar=False
    )
    npe = inference.NPE(prior, density_estimator="mdn", show_progress_bars=False)
    npe.append_simulations(theta, x.sqrt()).train(training_batch_size=200, learning_rate=2e-3)
    draws = npe.build_posterior().sample(
        (2000,), x=torch.tensor([math.sqrt(COUNT)]), show_progress_bars=False
    )
    assert abs(float(draws.mean()) - POSTERIOR.mean()) < 0.35 * POSTERIOR.std()
    assert float(draws.std()) == pytest.approx(POSTERIOR.std(), rel=0.35)


def test_sbi_embeds_time_courses():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    networks = pytest.importorskip("sbi.neural_nets.embedding_nets", reason="sbi is not installed")
    simulate = simulator(summary=lambda r: np.moveaxis(r.counts(), 2, 1))
    courses = simulate(torch.full((5, 1), 8.0))
    assert courses.shape == (5, 1, 2)
    net = networks.CNNEmbedding(
        (2,), in_channels=1, num_conv_layers=1, out_channels_per_layer=[4], kernel_size=1,
        num_linear_layers=1, pool_kernel_size=1,
    )  # fmt: skip
    assert net(courses).shape[0] == 5


def test_pyabc_samples_the_posterior_with_several_processes():
    """Distance 0 of a count is exact; the mean of 200 draws within four standard errors."""
    pyabc = pytest.importorskip("pyabc", reason="pyABC is not installed")
    logging.getLogger("ABC").setLevel(logging.WARNING)
    simulate = simulator()
    smc = pyabc.ABCSMC(
        lambda p: {"x": float(simulate([p["k"]])[0])},
        pyabc.Distribution(k=pyabc.RV("uniform", 0, 30)),
        pyabc.PNormDistance(p=1), population_size=200, eps=pyabc.ListEpsilon([3.0, 0.0]),
        sampler=pyabc.MulticoreEvalParallelSampler(n_procs=2),
    )  # fmt: skip
    smc.new("sqlite://", {"x": float(COUNT)})
    table, weights = smc.run(max_nr_populations=2).get_distribution()
    k = table["k"].to_numpy()
    error = POSTERIOR.std() * math.sqrt((weights**2).sum())
    assert abs(weights @ k - POSTERIOR.mean()) < 4 * error


def test_bayesflow_draws_batches(monkeypatch):
    """Counts of a batch have the distribution of their rates; one call simulates all of it."""
    pytest.importorskip("torch", reason="PyTorch, its backend here, is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    bayesflow = pytest.importorskip("bayesflow", reason="BayesFlow is not installed")
    simulate, rng = simulator(), np.random.default_rng(1)
    sizes = []

    def prior():
        return {"k": rng.uniform(0, 30)}

    def draw(batch_shape):
        sizes.append(batch_shape)
        theta = rng.uniform(0, 30, (*batch_shape, 1))
        return {"k": theta, "x": simulate(theta)}

    def likelihood(batch_shape, k):
        sizes.append(batch_shape)
        return {"x": simulate(column(k))}

    two = [prior, bayesflow.simulators.LambdaSimulator(likelihood, is_batched=True)]
    for made in (
        bayesflow.make_simulator(draw, is_batched=True).sample(400),
        bayesflow.make_simulator(two).sample(400),
    ):
        assert made["k"].shape == made["x"].shape == (400, 1)
        # With a uniform rate, the probability of a count is uniform too, if the count is smoothed.
        smooth = made["x"] + rng.random((400, 1))
        assert kstest(gamma.cdf(2 * made["k"], smooth).ravel(), "uniform").pvalue > 1e-4
    assert sizes == [(400,), (400,)]


def test_pypesto_minimises_and_samples():
    """A PEtab problem with its gradient, and exact likelihoods of a network as an objective."""
    pypesto = pytest.importorskip("pypesto", reason="pyPESTO is not installed")
    pytest.importorskip("petab", reason="petab is not installed")
    from pypesto import optimize, sample

    problem = ts.petab.load(TESTS / "data" / "petab" / "boehm" / "boehm.yaml", device="cpu")
    objective = pypesto.Objective(fun=problem.objective, grad=problem.gradient)
    start = problem.nominal + 0.1
    reached = optimize.minimize(
        pypesto.Problem(objective, problem.lower, problem.upper, x_guesses=start[None]),
        optimize.ScipyOptimizer("L-BFGS-B", options={"maxiter": 6}), n_starts=1,
        progress_bar=False,
    ).optimize_result  # fmt: skip
    assert reached.fval[0] < problem.objective(start) - 1
    assert reached.fval[0] == problem.objective(reached.x[0])

    net, data = births(), {"time": [2.0], "X": [COUNT]}

    def minus_log_likelihood(x):
        return -ts.exact_filter(
            net, data, observe={"X": "normal(sd=0.05)"}, set={"k": float(x[0])}
        ).log_likelihood

    drawn = sample.sample(
        pypesto.Problem(pypesto.Objective(fun=minus_log_likelihood), [0.01], [30.0]),
        n_samples=500, sampler=sample.AdaptiveMetropolisSampler(), x0=np.array([5.0]),
    ).sample_result.trace_x[0, 100:, 0]  # fmt: skip
    # One of eight draws is independent: four standard errors.
    assert abs(drawn.mean() - POSTERIOR.mean()) < 4 * POSTERIOR.std() / math.sqrt(400 / 8)


def test_pybnf_fits_by_a_particle_filter(tmp_path, monkeypatch):
    """The exact log-likelihood of its best parameters is within 2 of the maximum, -48.5."""
    pytest.importorskip("pybnf", reason="PyBNF is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import inference_pybnf

    best = inference_pybnf.fit(tmp_path, population=8, iterations=8)
    table = np.genfromtxt(ROOT / "examples" / "noisy_counts.csv", delimiter=",", names=True)
    actual = ts.exact_filter(
        inference_pybnf.MODEL, {"time": table["time"], "X": table["X"]},
        observe=inference_pybnf.OBSERVE, set=best,
    )  # fmt: skip
    assert -50.5 < actual.log_likelihood < -48.4
