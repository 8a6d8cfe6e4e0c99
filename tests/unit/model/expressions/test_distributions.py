"""One registry of distributions: a text has one meaning in every place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tauslab.analysis.filters.observing import KINDS, ObservationModel
from tauslab.base.errors import ConfigError
from tauslab.exchange.petab.likelihood import log_prior
from tauslab.model.expressions.distributions import FAMILIES
from tauslab.options.sampling import Sampling
from tauslab.options.values.priors import Prior

LAWS = {
    "lognormal(1,0.3)": stats.lognorm(0.3, scale=math.e),
    "lognormal(mu=1,sigma=0.3)": stats.lognorm(0.3, scale=math.e),
    "lognormal(median=2,sigma=0.3)": stats.lognorm(0.3, scale=2),
    "normal(1,0.3)": stats.norm(1, 0.3),
    "normal(sd=0.3, mean=1)": stats.norm(1, 0.3),
    "uniform(1,3)": stats.uniform(1, 2),
    "loguniform(1,3)": stats.loguniform(1, 3),
}


@pytest.mark.parametrize("text", LAWS)
def test_priors_and_draws_have_the_law_of_scipy(text):
    """Formulas are held against SciPy in tests/kernels/events/test_draws.py."""
    law, prior = LAWS[text], Prior.parse("prior", text)
    for value in law.ppf([0.01, 0.4, 0.9]):
        slope = math.log(value) if prior.in_logs else 0.0
        assert prior.log_density(prior.place(value)) == pytest.approx(law.logpdf(value) + slope)
    ((_, _, first, second),) = Sampling.parse([f"k={text}"]).priors.numbers(["k"])
    # What a kernel makes of a uniform number, or of a normal one.
    unit = np.array([0.1, 0.5, 0.8])
    drawn = (unit if prior.between_ends else stats.norm.ppf(unit)) * second + first
    np.testing.assert_allclose(np.exp(drawn) if prior.in_logs else drawn, law.ppf(unit))
    assert Sampling.parse([f"k={text}"]).typical()["k"] == pytest.approx(law.ppf(0.5))


def test_noises_and_petab_have_the_same_law():
    y = np.array([0.5, 2.0, 9.0])
    expected = stats.lognorm(0.3, scale=math.e).logpdf(y)
    noise = ObservationModel.parse("X", "lognormal(sigma=0.3)")
    actual = [noise.log_density(v, lambda _: np.array([math.e]), {})[0] for v in y.tolist()]
    np.testing.assert_allclose(actual, expected)
    np.testing.assert_allclose(log_prior("logNormal", 1.0, 0.3, y, "lin"), expected)
    for name in KINDS.keys() & FAMILIES.keys():
        own = set(KINDS[name].defaults) - {"scale", "background"}
        assert own <= set(FAMILIES[name].parameters)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lognormal(1e7,0.5)", r"mu is 1e\+07.*lognormal\(median=1e\+07,sigma=0.5\)"),
        ("lognormal(median=-2,sigma=1)", "median is -2"),
        ("lognormal(mu=1,median=2,sigma=1)", "has no mu"),
        ("lognormal(1)", "needs sigma"),
        ("normal(1,0)", "sd is 0, and must be above 0"),
        ("normal(inf,1)", "mean is inf"),
        ("normal(one,1)", "mean is 'one'"),
        ("normal(1,2,3)", "mean, sd alone"),
        ("uniform(3,1)", "low is 3, and must be below high, 1"),
        ("loguniform(-1,1)", "low is -1"),
        ("gamma(1,1)", r"allowed are uniform\(low,high\)"),
        (3, "allowed are"),
    ],
)
def test_a_refused_prior_names_the_number_and_the_reason(text, reason):
    with pytest.raises(ConfigError, match=f"prior of k: .*{reason}"):
        Prior.parse("prior of k", text)
