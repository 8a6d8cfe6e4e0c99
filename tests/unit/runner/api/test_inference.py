"""The worked examples of inference recover the rates that made their data."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from places import ROOT

EXAMPLES = ROOT / "examples"
PRIOR_SD = 2 / np.sqrt(12)  # of two decades


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("seed", [0, 1])
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
def test_sbi_learns_the_exact_posterior():
    """Of 200 data sets the means differed by 0.6 exact deviations (one), 2.5 at most of this."""
    pytest.importorskip("torch", reason="sbi, which needs PyTorch, is not installed")
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
