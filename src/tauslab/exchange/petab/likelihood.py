"""Log-densities of noise and priors, as PEtab Version 1 defines them."""

from __future__ import annotations

import math

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError
from tauslab.model.expressions.distributions import fault_of

SCALES = ("lin", "log", "log10")
NOISES = ("normal", "laplace")
_ON_SCALE = "parameterScale"
_OF_LOGARITHMS = ("logNormal", "logLaplace")
_DISTRIBUTIONS = ("uniform", "normal", "laplace")


def scaled(values: FloatArray, scale: str) -> FloatArray:
    """Values on a scale; NaN where they have no logarithm."""
    if scale == "lin":
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(values) if scale == "log" else np.log10(values)


def unscaled(values: FloatArray, scale: str) -> FloatArray:
    """Inverse of `scaled`."""
    if scale == "lin":
        return values
    with np.errstate(over="ignore"):
        return np.exp(values) if scale == "log" else np.power(10.0, values)


def residuals(
    measured: FloatArray, simulated: FloatArray, sigma: FloatArray, scale: str
) -> FloatArray:
    """Differences of measurement and simulation on the observable's scale, over `sigma`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (scaled(measured, scale) - scaled(simulated, scale)) / sigma


def log_density(
    measured: FloatArray, simulated: FloatArray, sigma: FloatArray, scale: str, noise: str
) -> FloatArray:
    """Log-density of a measurement, on the linear scale, given the simulation.

    Parameters
    ----------
    measured, simulated, sigma
        Arrays that broadcast together; `sigma` is a standard deviation on the observable's scale,
        or the scale of the Laplace distribution.
    scale
        ``lin``, ``log`` or ``log10``: where the noise is additive.
    noise
        ``normal`` or ``laplace``.

    Returns
    -------
    NaN where `sigma` is not above 0, or the simulation has no logarithm.
    """
    scores = residuals(measured, simulated, sigma, scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.where(sigma > 0, sigma, np.nan)
        # The derivative of the scale, which a density of the measurement itself has.
        slope = np.ones_like(measured) if scale == "lin" else measured
        slope = slope * math.log(10.0) if scale == "log10" else slope
        return _log_density(noise, scores, sigma * slope)


def _log_density(kind: str, scores: FloatArray, scale: FloatArray | float) -> FloatArray:
    """Log-density ``normal`` or ``laplace`` at deviations in units of its scale."""
    if kind == "normal":
        return np.asarray(-0.5 * np.square(scores) - np.log(math.sqrt(2 * math.pi) * scale))
    return np.asarray(-np.abs(scores) - np.log(2 * scale))


def check_prior(kind: str, first: float, second: float) -> None:
    """Refuse parameters of a prior that make no distribution.

    Raises
    ------
    ModelError
        They are not finite, or a scale is not above 0, or an interval has no width.
    """
    fault = fault_of(_law(kind), [first, second]) if _law(kind) in _DISTRIBUTIONS else ""
    if fault:
        raise ModelError(f"the prior {kind} with the parameters {first:g}; {second:g}: {fault}")


def _law(kind: str) -> str:
    """The distribution of a prior in the registry: of the value, or on a scale of it."""
    if kind.startswith(_ON_SCALE):
        return kind.removeprefix(_ON_SCALE).lower()
    return kind.removeprefix("log").lower() if kind in _OF_LOGARITHMS else kind


def log_prior(kind: str, first: float, second: float, values: FloatArray, scale: str) -> FloatArray:
    """Log-density of a prior at values on the linear scale, not cut off at the bounds.

    Parameters
    ----------
    kind
        ``uniform``, ``normal``, ``laplace``, ``logNormal``, ``logLaplace``: densities of the value
        itself; ``parameterScaleUniform``, ``parameterScaleNormal``, ``parameterScaleLaplace``:
        of the value on `scale`.
    first, second
        Its parameters: ends of an interval, or location and scale.
    values
        On the linear scale.
    scale
        Of the parameter.

    Raises
    ------
    ModelError
        There is no such prior.
    """
    slope = np.zeros_like(values)
    law = _law(kind)
    if kind.startswith(_ON_SCALE):
        values = scaled(values, scale)
    elif kind in _OF_LOGARITHMS:
        values = scaled(values, "log")
        slope = -values
    with np.errstate(divide="ignore", invalid="ignore"):
        if law == "uniform":
            inside = (values >= first) & (values <= second)
            return np.where(inside, -math.log(second - first), -np.inf)
        if law not in NOISES:
            raise ModelError(f"the prior {kind!r} is not one of PEtab")
        result = _log_density(law, (values - first) / second, second) + slope
    return np.where(np.isnan(result), -np.inf, result)
