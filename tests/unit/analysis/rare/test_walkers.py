"""Groups, bins and resampling of walkers, without simulation."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.analysis.rare.walkers.bins import (
    AdaptiveBins,
    FixedBins,
    Groups,
    binning_of,
    split_and_merge,
)


def test_copies_have_the_right_mean():
    """Over a fine grid of the uniform number each walker is copied as often as its weight says."""
    labels = np.array([3, 1, 1, 3, 1, 0])
    weights = np.array([0.4, 1e-9, 0.1, 0.2, 0.25, 0.05 - 1e-9])
    progress = np.array([2.0, 5.0, 4.0, 1.0, 9.0, 0.0])
    walkers, grid = 4, 1000
    copies = np.zeros(6)
    for place in range(grid):
        uniforms = np.full(4, (place + 0.5) / grid)
        ancestors, new = split_and_merge(labels, progress, weights, walkers, uniforms)
        assert len(ancestors) == 12
        assert new.sum() == pytest.approx(1, abs=1e-15)
        np.testing.assert_allclose(
            np.bincount(labels[ancestors], new), np.bincount(labels, weights), rtol=1e-15
        )
        copies += np.bincount(ancestors, new, minlength=6)
    np.testing.assert_allclose(copies / grid, weights, atol=5e-4)
    assert (labels[ancestors] == np.repeat([0, 1, 3], 4)).all()


def test_copies_differ_by_one_from_what_weights_say():
    generator = np.random.default_rng(1)
    for _ in range(50):
        n, walkers = generator.integers(1, 40, 2)
        labels = generator.integers(0, 5, n)
        weights = np.exp(generator.normal(0, 20, n))
        uniforms = generator.random(5)
        ancestors, new = split_and_merge(labels, generator.random(n), weights, walkers, uniforms)
        totals = np.bincount(labels, weights)[labels]
        wanted = walkers * weights / totals
        assert np.abs(np.bincount(ancestors, minlength=n) - wanted).max() < 1 + 1e-9
        assert len(new) == walkers * len(np.unique(labels))


def test_sums_of_groups_are_added_in_order():
    labels = np.array([0, 0, 0, 4, 5, 5] + [6] * 100)
    values = np.array([1e16, 1.0, -1e16, 3.0, 1.0, 2.0] + [0.1] * 100)
    groups = Groups.of(labels)
    ordered = 0.0
    for _ in range(100):
        ordered += 0.1
    assert groups.sums(values).tolist() == [0.0, 3.0, 3.0, ordered]
    assert groups.running_sums(values)[:3].tolist() == [1e16, 1e16, 0.0]
    assert groups.reduce(np.maximum, values).tolist() == [1e16, 3.0, 2.0, 0.1]


def test_equal_bins_lie_between_start_and_target():
    bins = binning_of(4, 20.0, 40.0, 1)
    assert isinstance(bins, FixedBins)
    assert bins.edges.tolist() == [25, 30, 35]
    where = np.array([3.0, 24.9, 25.0, 39.0])
    nothing = np.zeros(4, np.int64)
    assert bins.bins_of(where, where, nothing).tolist() == [0, 0, 1, 3]
    falling = binning_of([30.0, 10.0], -40.0, -5.0, -1)
    assert isinstance(falling, FixedBins)
    assert falling.edges.tolist() == [-30, -10]
    assert isinstance(binning_of(None, 3.0, None, 1), AdaptiveBins)
    assert isinstance(binning_of(None, 3.0, 3.0, 1), AdaptiveBins)
    assert binning_of(1, 3.0, None, 1).size == 1


def test_adaptive_bins_follow_the_walkers_of_each_run():
    bins = AdaptiveBins(4)
    runs = np.repeat([0, 1], 5)
    progress = np.array([0.0, 1.0, 2.0, 3.0, 8.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    weights = np.array([0.2, 0.4, 0.1, 0.2999, 0.0001] + [0.2] * 5)
    actual = bins.bins_of(progress, weights, runs)
    assert actual[4] == 4  # the foremost
    assert actual[3] == 5  # the bottleneck: 2999 times what is further on
    assert actual[:3].tolist() == [0, 0, 1]
    assert (actual[5:] == 4).all()  # all at one place
    assert bins.bins_of(progress[:0], weights[:0], runs[:0]).tolist() == []
    assert actual.max() < bins.size
