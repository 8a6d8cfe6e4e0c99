"""Priors of several parameters: draws, densities and values of many places at once.

A place is a point on the scale of walks: the logarithm where a prior is of a positive number. All
operations are IEEE operations in a fixed order and portable functions, so that they have the same
bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tauslab.analysis.filters.draws import uniforms_of
from tauslab.base.arrays import FloatArray, UintArray
from tauslab.model.portable import normal_quantile, portable_exp
from tauslab.options.values.priors import Prior

Priors = Mapping[str, Prior]


def places_of(priors: Priors, words: UintArray) -> FloatArray:
    """Draw places ``[m, parameter]`` of the prior from random words ``[m, parameter]``."""
    columns = []
    for prior, u in zip(priors.values(), uniforms_of(words).T, strict=True):
        low, width = prior.start() - math.sqrt(3) * prior.spread(), prior.spread()
        if prior.between_ends:
            columns.append(low + 2 * math.sqrt(3) * width * u)
        else:
            columns.append(prior.start() + width * normal_quantile(u))
    return np.stack(columns, axis=1)


def log_density_at(priors: Priors, places: FloatArray) -> FloatArray:
    """Return logarithms ``[m]`` of the prior's density, up to a constant."""
    result = np.zeros(len(places))
    for column, prior in enumerate(priors.values()):
        x = places[:, column]
        if prior.between_ends:
            half = math.sqrt(3) * prior.spread()
            result = np.where(np.abs(x - prior.start()) <= half, result, -np.inf)
        else:
            z = (x - prior.start()) / prior.spread()
            result = result - 0.5 * (z * z)
    return result


def values_at(priors: Priors, places: FloatArray) -> dict[str, FloatArray]:
    """Return values ``[m]`` by name at places ``[m, parameter]``."""
    return {
        name: _values(prior, places[:, column])
        for column, (name, prior) in enumerate(priors.items())
    }


def table_at(priors: Priors, places: FloatArray) -> FloatArray:
    """Return values ``[m, parameter]`` at places ``[m, parameter]``."""
    return np.stack(list(values_at(priors, places).values()), axis=1)


def _values(prior: Prior, places: FloatArray) -> FloatArray:
    if not prior.in_logs:
        return places
    values = portable_exp(places)
    return np.clip(values, prior.first, prior.second) if prior.between_ends else values
