"""Cuts of planes over ranks: complete, even, balanced, refused where too thin."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tauslab.base.errors import DecompositionError
from tauslab.decomposition.slab import (
    RankGrid,
    check_grid,
    choose_grid,
    cut_planes,
    neighbours,
    slab_of,
)


@pytest.mark.parametrize("n", range(1, 17))
def test_every_cut_is_complete_and_even(n):
    for nz, least in itertools.product(range(1, 65), (1, 2, 3)):
        if nz < n * least:
            with pytest.raises(DecompositionError, match=f"{nz} planes .* into {n} slabs"):
                cut_planes(nz, n, least=least)
            continue
        sizes = np.diff(cut_planes(nz, n, least=least))
        assert sizes.sum() == nz
        assert sizes.min() >= least
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("n", range(1, 17))
def test_weights_are_shared_and_slabs_stay_thick(n):
    """Of a cell that does not fill its box: a sphere's cross-sections."""
    for nz, least in itertools.product(range(1, 65, 3), (1, 3)):
        if nz < n * least:
            continue
        z = np.arange(nz) - nz / 2 + 0.5
        weights = np.maximum(0, nz**2 // 9 - (z * z).astype(int)).tolist()
        bounds = cut_planes(nz, n, weights=weights, least=least)
        sizes = np.diff(bounds)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, nz, n + 1)
        assert sizes.min() >= least
        heaviest = max(sum(weights[a:b]) for a, b in itertools.pairwise(bounds))
        even = cut_planes(nz, n, least=least)
        assert heaviest <= max(sum(weights[a:b]) for a, b in itertools.pairwise(even))


def test_the_heaviest_slab_is_as_light_as_it_can_be():
    rng = np.random.default_rng(1)
    for _ in range(60):
        nz, n, least = rng.integers(4, 10), rng.integers(2, 5), rng.integers(1, 3)
        if nz < n * least:
            continue
        weights = rng.integers(0, 6, nz).tolist()
        best = min(
            max(sum(weights[a:b]) for a, b in itertools.pairwise((0, *inner, nz)))
            for inner in itertools.combinations(range(1, nz), n - 1)
            if min(np.diff((0, *inner, nz))) >= least
        )
        bounds = cut_planes(int(nz), int(n), weights=weights, least=int(least))
        assert min(np.diff(bounds)) >= least
        assert max(sum(weights[a:b]) for a, b in itertools.pairwise(bounds)) == best


def test_alike_weights_are_none():
    assert cut_planes(37, 5, weights=[4] * 37) == cut_planes(37, 5) == (0, 7, 14, 22, 29, 37)
    assert cut_planes(37, 5, weights=[0] * 37) == cut_planes(37, 5)


@pytest.mark.parametrize("weights", [[1, 2], [1, 2, -1], [1, 2, 0.5]])
def test_weights_are_one_whole_number_for_each_plane(weights):
    with pytest.raises(DecompositionError, match="3 whole numbers"):
        cut_planes(3, 2, weights=weights)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_neighbours_know_each_other(n, periodic):
    around = [neighbours(rank, n, periodic=periodic) for rank in range(n)]
    for rank, (below, above) in enumerate(around):
        assert below is None or around[below][1] == rank
        assert above is None or around[above][0] == rank
    ends = [(b is None) + (a is None) for b, a in around]
    assert sum(ends) == (0 if periodic and n > 1 else 2)


def test_a_slab_keeps_planes_of_its_neighbours():
    bounds = cut_planes(12, 3)
    assert slab_of(bounds, 1, periodic=False, depth=3).planes == 4 + 6
    assert slab_of(bounds, 0, periodic=False, depth=3).planes == 4 + 3
    assert slab_of((0, 12), 0, periodic=True, depth=3).planes == 12


def test_small_lattices_take_ranks_for_replicas():
    assert choose_grid(8, 100, (64, 64, 64)) == RankGrid(8, 1)
    assert choose_grid(8, 4, (256, 256, 256)) == RankGrid(4, 2)
    assert choose_grid(8, 5, (512, 512, 512)) == RankGrid(1, 8)  # one after another: 5 eighths
    assert choose_grid(6, 3, (128, 128, 128)) == RankGrid(3, 2)
    assert choose_grid(5, 1, (64, 64, 64)) == RankGrid(1, 5)
    assert choose_grid(8, 2, (4, 9, 9)) == RankGrid(2, 4)


def test_every_chosen_grid_fits():
    for ranks, replicas, nz in itertools.product(range(1, 17), range(1, 10), (1, 3, 8, 64)):
        try:
            grid = choose_grid(ranks, replicas, (nz, 32, 32))
        except DecompositionError:
            fits = [s for s in range(1, ranks + 1)
                    if ranks % s == 0 and s <= nz and ranks // s <= replicas]  # fmt: skip
            assert not fits
            continue
        check_grid(grid, ranks, replicas, nz)
        assert sorted(grid.place(rank) for rank in range(ranks)) == list(
            itertools.product(range(grid.replicas), range(grid.slabs))
        )


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        (RankGrid(3, 2), "does not fit 8"),
        (RankGrid(8, 1), "more than the 4"),
        (RankGrid(1, 8), "into 8 slabs"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(grid, told):
    with pytest.raises(DecompositionError, match=told):
        check_grid(grid, 8, 4, 7)


def test_ranks_that_no_shape_uses_are_refused():
    with pytest.raises(DecompositionError, match="7 ranks cannot share 2"):
        choose_grid(7, 2, (4, 8, 8))
