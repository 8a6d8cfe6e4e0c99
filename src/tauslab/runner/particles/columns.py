"""Columns of tables of filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.model.arrays import Array, FloatArray
from tauslab.runner.results.tables import ResultTable


def course_table(
    time: FloatArray,
    terms: FloatArray,
    sizes: FloatArray,
    species: Sequence[str],
    mean: FloatArray,
    sd: FloatArray,
) -> ResultTable:
    """A row per time, of several filters one per filter and time: the number of the filter first.

    Parameters
    ----------
    terms, sizes
        f64 ``[time]`` or ``[filter, time]``.
    mean, sd
        f64 ``[time, species]`` or ``[filter, time, species]``.
    """
    names, columns = list[str](), list[Array]()
    if terms.ndim == 2:
        names, columns = ["filter"], [np.repeat(np.arange(len(terms)), len(time))]
        time = np.tile(time, len(terms))
    names += ["time", "log_likelihood_term", "effective_size"]
    columns += [time, terms.ravel(), sizes.ravel()]
    for i, name in enumerate(species):
        columns += [mean[..., i].ravel(), sd[..., i].ravel()]
        names += [f"{name}_mean", f"{name}_sd"]
    return ResultTable(tuple(names), iter([columns]))
