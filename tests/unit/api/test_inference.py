"""The worked examples of inference recover the rates that made their data."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from places import ROOT
from sampling import ordinary

EXAMPLES = ROOT / "examples"
PRIOR_SD = 2 / np.sqrt(12)  # of two decades


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("seed", ordinary([0, 1], 0))
def test_rates_are_recovered(seed):
    """Within 0.15 decades, two posterior deviations; of twelve seeds the worst had 0.08."""
    from inference_abc import TRUTH, infer

    posterior = infer(seed, device="cpu")
    assert posterior.particles.shape == (200, 2)
    assert posterior.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(posterior.mean(), np.log10(TRUTH), atol=0.15)
    assert (posterior.sd() < PRIOR_SD / 3).all(), "the data tell far more than the prior"


@pytest.mark.usefixtures("examples")
def test_the_example_depends_on_the_data():
    """With data from another product rate, another rate is found."""
    import inference_abc

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference_abc, "TRUTH", np.array([2e-3, 0.1]))
        posterior = inference_abc.infer(0, device="cpu")
    np.testing.assert_allclose(posterior.mean(), np.log10([2e-3, 0.1]), atol=0.2)


@pytest.mark.usefixtures("examples")
def test_the_example_prints_what_it_found(monkeypatch, capsys):
    import inference_abc

    monkeypatch.setattr(sys, "argv", ["inference_abc.py", "--device", "cpu", "--seed", "2"])
    inference_abc.main()
    assert "truth -2.699" in capsys.readouterr().out


@pytest.mark.usefixtures("examples")
@pytest.mark.filterwarnings("default")
def test_sbi_learns_the_exact_posterior(tmp_path, monkeypatch):
    """Of 200 data sets the means differed by 0.6 exact deviations (one), 2.5 at most of this."""
    torch = pytest.importorskip("torch", reason="sbi, which needs PyTorch, is not installed")
    monkeypatch.chdir(tmp_path)  # sbi writes logs
    torch.set_num_threads(1)  # more slow a small network down
    pytest.importorskip("sbi", reason="sbi is not installed")
    from inference_sbi import exact, infer

    draws, counts = infer(0, device="cpu")
    mean, sd = exact(counts)
    assert (np.abs(draws.mean(axis=0) - mean) < 2.5 * sd).all()
    assert (draws.std(axis=0) < 2 * sd).all(), "the data tell far more than the prior"


@pytest.mark.usefixtures("examples")
@pytest.mark.filterwarnings("default")
def test_pyabc_recovers_them_too():
    """250 particles in all: within 0.3 decades, the posterior's width at this distance."""
    pytest.importorskip("pyabc")
    from inference_abc import TRUTH
    from inference_pyabc import infer

    mean, sd = infer(0, device="cpu")
    np.testing.assert_allclose(mean, np.log10(TRUTH), atol=0.3)
    assert (sd < 0.8 * PRIOR_SD).all()


@pytest.mark.validate
@pytest.mark.usefixtures("examples")
def test_synthetic_likelihood_is_near_the_exact_one():
    """Mean within half a deviation of the posterior by the exact law, deviation to a fifth.

    From one time to the next a binomial part stays, and a Poisson number is new. Estimates of the
    mean by 400 repeats scatter by 0.1 deviations.
    """
    stats = pytest.importorskip("scipy.stats")
    from inference_synthetic import LOSS, TIMES, model, posterior, summaries

    import tauslab as ts

    mean, sd = posterior()
    seen = summaries(ts.run(model(), n=20, times=TIMES, seed=77, device="cpu"))
    grid, logs = np.linspace(5, 20, 301), np.zeros(301)
    before, kept = np.zeros(20), np.exp(-LOSS * np.diff(TIMES, prepend=0.0))
    for now, stay in zip(seen.T, kept, strict=True):
        left = np.arange(200)
        parts = stats.binom.pmf(left, before[:, None], stay)
        for i, k in enumerate(grid):
            new = stats.poisson.pmf(now[:, None] - left, k * (1 - stay) / LOSS)
            logs[i] += np.log((parts * new).sum(axis=1)).sum()
        before = now
    law = np.exp(logs - logs.max())
    law /= law.sum()
    exact = law @ grid
    exact_sd = np.sqrt(law @ (grid - exact) ** 2)
    assert abs(mean - exact) < 0.5 * exact_sd
    assert abs(sd / exact_sd - 1) < 0.2


@pytest.mark.usefixtures("examples")
def test_an_ensemble_sampler_takes_filters():
    """Few walkers on a short course: within five deviations."""
    pytest.importorskip("emcee", reason="emcee is not installed")
    from inference_emcee import posterior

    actual = posterior(walkers=12, steps=30, warm_up=10, n=50, rows=4)
    assert (np.abs(actual.mean(axis=0) - [1.0, 0.6]) < 5 * actual.std(axis=0)).all()
