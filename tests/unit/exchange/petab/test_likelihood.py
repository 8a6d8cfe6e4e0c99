"""Densities of noise and priors, against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tauslab.base.errors import ModelError
from tauslab.exchange.petab.likelihood import log_density, log_prior, scaled, unscaled

MEASURED, SIMULATED, SIGMA = np.array([0.7, 2.0]), np.array([1.1, 1.9]), np.array([0.3, 0.2])


def density(scale: str, noise: str) -> np.ndarray:
    return log_density(MEASURED, SIMULATED, SIGMA, scale, noise)


def test_noise_on_the_linear_scale() -> None:
    assert density("lin", "normal") == pytest.approx(stats.norm.logpdf(MEASURED, SIMULATED, SIGMA))
    assert density("lin", "laplace") == pytest.approx(
        stats.laplace.logpdf(MEASURED, SIMULATED, SIGMA)
    )


def test_noise_on_the_logarithm_is_a_density_of_the_measurement() -> None:
    exact = stats.lognorm.logpdf(MEASURED, SIGMA, scale=SIMULATED)
    assert density("log", "normal") == pytest.approx(exact)
    exact = stats.loglaplace.logpdf(MEASURED, 1 / SIGMA, scale=SIMULATED)
    assert density("log", "laplace") == pytest.approx(exact)
    # Noise of 0.3 on the decimal logarithm is noise of 0.3 log 10 on the natural one.
    wider = log_density(MEASURED, SIMULATED, SIGMA * math.log(10), "log", "normal")
    assert density("log10", "normal") == pytest.approx(wider)
    wider = log_density(MEASURED, SIMULATED, SIGMA * math.log(10), "log", "laplace")
    assert density("log10", "laplace") == pytest.approx(wider)


def test_noise_that_is_none_has_no_density() -> None:
    none = log_density(MEASURED, SIMULATED, np.array([0.0, -1.0]), "lin", "normal")
    assert np.isnan(none).all()
    assert np.isnan(log_density(MEASURED, -SIMULATED, SIGMA, "log", "normal")).all()


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        ("uniform", stats.uniform(0.5, 1.5)),
        ("normal", stats.norm(0.5, 2.0)),
        ("laplace", stats.laplace(0.5, 2.0)),
        ("logNormal", stats.lognorm(2.0, scale=math.exp(0.5))),
        ("logLaplace", stats.loglaplace(0.5, scale=math.exp(0.5))),
    ],
)
def test_priors(kind: str, law: stats.rv_continuous) -> None:
    values = np.array([0.1, 0.7, 1.9, 30.0])
    assert log_prior(kind, 0.5, 2.0, values, "log10") == pytest.approx(law.logpdf(values))


@pytest.mark.parametrize("scale", ["lin", "log", "log10"])
def test_priors_on_the_scale_of_a_parameter(scale: str) -> None:
    values = np.array([0.5, 2.0, 30.0])
    own = scaled(values, scale)
    assert unscaled(own, scale) == pytest.approx(values)
    for kind, law in (("Normal", stats.norm), ("Laplace", stats.laplace)):
        actual = log_prior(f"parameterScale{kind}", -0.5, 2.0, values, scale)
        assert actual == pytest.approx(law.logpdf(own, -0.5, 2.0))
    actual = log_prior("parameterScaleUniform", -0.5, 2.0, values, scale)
    assert actual == pytest.approx(stats.uniform.logpdf(own, -0.5, 2.5))


def test_a_prior_that_is_none() -> None:
    with pytest.raises(ModelError, match="cauchy"):
        log_prior("cauchy", 0.0, 1.0, MEASURED, "lin")
