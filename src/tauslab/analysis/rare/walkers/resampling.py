"""Splitting and merging of walkers: a fixed number in every bin, without bias."""

from __future__ import annotations

import numpy as np

from tauslab.analysis.rare.walkers.groups import Groups
from tauslab.base.arrays import FloatArray, IntArray


def split_and_merge(
    labels: IntArray, progress: FloatArray, weights: FloatArray, walkers: int, uniforms: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Make `walkers` walkers of equal weight of those in each bin (Huber and Kim 1996).

    Within a bin of weight w a walker of weight w_i becomes ``walkers w_i / w`` walkers on average,
    the next smaller or the next larger whole number: systematic resampling in the order of
    progress, which has no bias (Aristoff and Zuckerman, Multiscale Model. Simul. 18, 646 (2020)).

    Parameters
    ----------
    labels
        int64 ``[walker]``: run and bin of each, as one number.
    progress, weights
        f64 ``[walker]``; weights above 0.
    uniforms
        In [0, 1), one per label.

    Returns
    -------
    Ancestors and new weights, bin by bin.
    """
    order = np.lexsort((progress, labels))  # stable: equal ones stay in their order
    bins = Groups.of(labels[order])
    ladder = bins.running_sums(weights[order])
    totals = ladder[bins.starts + bins.sizes - 1]
    shifts = uniforms[labels[order][bins.starts]]
    # Places (j + shift) / walkers of the bin's weight, j = 0, 1, ...: how many lie below each rung.
    share = ladder / totals[bins.group] * walkers - shifts[bins.group]
    below = np.clip(np.ceil(share), 0, walkers).astype(np.int64)
    below[bins.starts + bins.sizes - 1] = walkers
    copies = np.diff(below, prepend=0)
    copies[bins.starts] = below[bins.starts]
    return np.repeat(order, copies), np.repeat(totals / walkers, walkers)
