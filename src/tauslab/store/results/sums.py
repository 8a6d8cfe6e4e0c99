"""Exact sums over the trajectories of one quantity, as the run recorded them or from samples.

They are accumulators by name, as a run has them, each ``[point, time]``: one point without a sweep.
No order or size of the pieces in which samples are read can change a number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, UintArray
from tauslab.kernels.ensemble.sums import DIGITS, POWERS, Power, accumulators
from tauslab.store.format.layout import MOST_NARROW, Accumulators
from tauslab.store.format.statistics import (
    add_accumulators,
    add_groups,
    count_moments,
    count_sums,
    moments_of_sums,
    real_sums,
    stored_powers,
    stored_reals,
)
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import is_whole, numbered, place_of
from tauslab.store.results.validity import warn_of_left_out


def moments(result: Recorded, name: str) -> tuple[FloatArray, FloatArray]:
    """Mean and variance ``[point, time]``."""
    _, group, names = place_of(result, name)
    if f"{group}/mean" in result.data and "group" not in result.attributes:
        index = names.index(name)
        stored = (result.data[f"{group}/{key}"][..., index] for key in ("mean", "variance"))
        mean, variance = (np.atleast_2d(np.asarray(values, np.float64)) for values in stored)
        return mean, variance
    sums = _sums(result, name, POWERS[:2])
    return count_moments(sums) if is_whole(result, name) else moments_of_sums(sums)


def numbers(result: Recorded, name: str) -> UintArray:
    """Numbers of trajectories in `moments`, ``[time]``, with a sweep ``[point, time]``."""
    sums = _sums(result, name, POWERS[:1])
    collected = sums["n" if is_whole(result, name) else "obs_n"]
    return collected if result.swept else collected[0]


def standardised(result: Recorded, name: str, order: int) -> FloatArray:
    """Standardised central moment of counts, mu_order / sigma^order, ``[point, time]``.

    Within a few units in the last place; NaN where all samples are equal, or there is none.
    """
    powers = POWERS[:order]
    sums = _sums(result, name, powers)
    n, totals = sums["n"].astype(object), [_whole(sums, power) for power in powers]

    def central(k: int) -> npt.NDArray[np.object_]:
        """n^k times the central moment k, a whole number."""
        moment: npt.NDArray[np.object_] = (-totals[0]) ** k
        for j, total in enumerate(totals[:k], 1):
            moment = moment + math.comb(k, j) * total * n ** (j - 1) * (-totals[0]) ** (k - j)
        return moment

    second, moment = central(2), central(order)
    values = np.full(n.shape, np.nan)
    for cell in zip(*np.nonzero(second > 0), strict=True):
        root = math.sqrt(second[cell]) if order % 2 else 1.0
        values[cell] = float(moment[cell]) / (float(second[cell]) ** (order // 2) * root)
    return values


def _whole(sums: Accumulators, power: Power) -> npt.NDArray[np.object_]:
    """The sum of a power as Python's integers."""
    words = [
        sums[name].astype(object) << (32 * k) for k, name in enumerate(power.words) if name in sums
    ]
    return np.asarray(sum(words), object)


def _sums(result: Recorded, name: str, powers: tuple[Power, ...]) -> Accumulators:
    _, group, _ = place_of(result, name)
    wanted = [power.stored[0] for power in powers] if is_whole(result, name) else ["n"]
    recorded = all(f"{group}/{part}" in result.data for part in wanted)
    return (_recorded if recorded else _of_samples)(result, name, powers)


def _recorded(result: Recorded, name: str, powers: tuple[Power, ...]) -> Accumulators:
    _, group, names = place_of(result, name)
    index = names.index(name)

    def column(part: str, axis: int) -> npt.NDArray[Any]:
        """One quantity of a dataset, which has an axis of them at `axis` from the end."""
        values = result.data[f"{group}/{part}"]
        return np.ascontiguousarray(values[(..., index, *[slice(None)] * (-axis - 1))])

    if is_whole(result, name):
        sums = {"n": np.asarray(result.data[f"{group}/n"][()]).view(np.uint64)}
        sums |= stored_powers(powers, column, wide=f"{group}/sum_hi" in result.data)
    else:
        sums = stored_reals(column)
    if "group" in result.attributes:  # a portion of a run that goes on until it converges
        totals = _zeros(result, name, powers)
        add_groups({key: values[0] for key, values in totals.items()}, sums)
        return totals
    return sums if result.swept else {key: values[None] for key, values in sums.items()}


def _of_samples(result: Recorded, name: str, powers: tuple[Power, ...]) -> Accumulators:
    whole, n, totals = is_whole(result, name), result.n, _zeros(result, name, powers)
    for start, piece in numbered(result, name):
        stop = start + len(piece)
        later = np.arange(start // n + 1, -(-stop // n)) * n - start  # where later points begin
        cuts = np.concatenate([[0], later]).astype(np.intp)
        sums = count_sums(piece, powers, cuts) if whole else real_sums(piece, cuts)
        add_accumulators(totals, sums, slice(start // n, -(-stop // n)))
    if not whole:
        warn_of_left_out(result, name, totals["obs_n"])
    return totals


def _zeros(result: Recorded, name: str, powers: tuple[Power, ...]) -> Accumulators:
    whole = is_whole(result, name)
    fields = accumulators(powers if whole else (), reals=not whole, wide=result.n > MOST_NARROW)
    sizes = {"time": len(result.times), **DIGITS}
    shapes = {each.name: [sizes[axis] for axis in each.axes if axis in sizes] for each in fields}
    return {key: np.zeros((result.n_points, *shape), np.uint64) for key, shape in shapes.items()}
