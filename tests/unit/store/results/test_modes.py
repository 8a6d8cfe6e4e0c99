"""Modes of distributions: the taut string, and what noise makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import tauslab as ts
from tauslab.store.results.columns import whole_edges
from tauslab.store.results.modes import ALPHA, _peaks, modes_of, taut_string
from tauslab.store.results.result import Result


def found(values, alpha=ALPHA):
    edges = whole_edges(values.min(), values.max(), 256)
    return modes_of(np.histogram(values, edges)[0], edges, alpha)


def test_the_string_is_the_shortest_path_through_the_tube():
    """Against a minimiser that knows no geometry."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        counts = rng.multinomial(60, rng.dirichlet(np.full(20, 0.5)))
        reached = np.concatenate([[0.0], np.cumsum(counts)]) / 60
        width = rng.uniform(0.02, 0.3)
        low, high = reached - width, reached + width
        low[[0, -1]] = high[[0, -1]] = reached[[0, -1]]
        x = np.arange(21) / 20

        def length(y, x=x):
            return np.hypot(np.diff(x), np.diff(y)).sum()

        corners = np.array(taut_string(x, low, high))
        string = np.interp(x, corners[:, 0], corners[:, 1])
        assert (string >= low - 1e-12).all()
        assert (string <= high + 1e-12).all()
        bounds = list(zip(low, high, strict=True))
        best = minimize(length, (low + high) / 2, bounds=bounds, method="L-BFGS-B")
        assert length(string) <= length(best.x) + 1e-9


@pytest.mark.parametrize("n", [64, 1024])
@pytest.mark.parametrize("draw", ["normal", "poisson", "uniform", "geometric"])
def test_noise_makes_no_modes(draw, n):
    """Of uniform numbers 0.5 to 1 % of samples show a second: 3 of 50 have a chance of 1.4 %."""
    rng = np.random.default_rng(n)
    draws = {
        "normal": lambda: np.rint(rng.normal(300, 50, n)),
        "poisson": lambda: rng.poisson(3, n),
        "uniform": lambda: rng.integers(0, 400, n),
        "geometric": lambda: rng.geometric(0.02, n),
    }
    assert sum(len(found(draws[draw]())) > 1 for _ in range(50)) <= 2


@pytest.mark.parametrize(
    ("n", "share", "apart"), [(1000, 0.5, 4), (2000, 0.52, 4), (1000, 0.085, 10), (4096, 0.045, 10)]
)
def test_most_samples_show_the_second_mode(n, share, apart):
    """By 0.85 or more of samples: 30 of 40 or fewer have a chance below 4 %, at one fixed seed."""
    rng = np.random.default_rng(n)
    shown = 0
    for _ in range(40):
        second = rng.random(n) < share
        shown += len(found(np.rint(rng.normal(200, 20, n) + 20 * apart * second))) == 2
    assert shown > 30


@pytest.mark.parametrize(("n", "share"), [(256, 0.3), (4096, 0.1), (100_000, 0.03)])
def test_two_peaks_are_two_modes(n, share):
    rng = np.random.default_rng(4)
    values = np.where(rng.random(n) < share, rng.normal(100, 20, n), rng.normal(570, 40, n))
    modes = found(np.rint(values))
    assert len(modes) == 2
    (left, low), (right, high) = modes
    assert abs(left - 100) < 30
    assert abs(right - 570) < 40
    assert low == pytest.approx(share, abs=5 * np.sqrt(share / n))
    assert low + high == pytest.approx(1)


def test_three_peaks_single_values_and_nothing():
    rng = np.random.default_rng(5)
    values = np.rint(np.concatenate([rng.normal(m, 5, 500) for m in (50, 100, 200)]))
    assert [round(position, -1) for position, _ in found(values)] == [50, 100, 200]
    assert found(np.full(500, 7)) == [(7.5, 1.0)]
    assert modes_of([0, 0], np.arange(3.0), ALPHA) == []


def test_empty_bins_change_nothing():
    """The string may bend where bins are filled only: against all knots of the tube."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        counts = rng.multinomial(90, rng.dirichlet(np.full(60, 0.08)))
        edges, width = np.arange(61.0), math.sqrt(math.log(2 / ALPHA) / (8 * 90))
        reached = np.concatenate([[0.0], np.cumsum(counts)]) / 90
        low, high = reached - width, reached + width
        low[[0, -1]] = high[[0, -1]] = reached[[0, -1]]
        whole = _peaks(taut_string(edges, low, high), edges, reached)
        np.testing.assert_allclose(modes_of(counts, edges, ALPHA), whole, rtol=1e-12)


def test_what_lies_beyond_the_bins_counts():
    """A second mode beyond the range is no mode within it, but has its share."""
    edges = np.linspace(0, 100, 51)
    cells = np.histogram(np.random.default_rng(6).normal(50, 10, 1000), edges)[0]
    ((position, weight),) = modes_of(cells, edges, ALPHA, under=0, over=1000)
    assert abs(position - 50) < 5
    assert weight == 1


def bistable(n_points: int | None = None, n: int = 400) -> Result:
    """Counts of X with peaks at 100 and 500; in the last point of a sweep at 100 alone."""
    rng = np.random.default_rng(8)
    points = n_points or 1
    upper = rng.random((points, n)) < 0.5
    upper[-1] &= n_points is None
    counts = np.rint(np.where(upper, 500, 100) + rng.normal(0, 10, (points, n))).astype(np.int32)
    data = {
        "time": np.array([1.0]),
        "species": np.array(["X"], object),
        "status": np.zeros((points, n), np.uint8),
        "counts": counts[..., None, None],
    }
    attributes = {"method": "ssa", "seed": 1}
    if n_points is None:
        data = {k: v[0] if k in ("status", "counts") else v for k, v in data.items()}
        return Result(data, attributes)
    data["sweep/k"] = np.arange(float(n_points))
    return Result(data, attributes | {"sweep": "k", "grid": str(n_points)})


def test_results_have_modes_per_point():
    alone = bistable().modes("X")
    assert alone.count == 2
    np.testing.assert_allclose(alone.positions, [100, 500], atol=10)
    swept = bistable(3).modes("X", t=1.0)
    assert swept.count.tolist() == [2, 2, 1]
    assert swept.positions.shape == swept.weights.shape == (3, 2)
    np.testing.assert_allclose(swept.positions[0], [100, 500], atol=10)
    assert np.isnan(swept.positions[2, 1])
    assert swept.weights[2, 0] == 1
    with pytest.raises(ts.ConfigError, match="alpha"):
        bistable().modes("X", alpha=0)


@pytest.mark.validate
def test_recorded_histograms_have_modes(data):
    options = {"n": 300, "t_end": 10.0, "points": 2, "seed": 2, "device": "cpu", "species": "X"}
    model = data / "sbml" / "schlogl.xml"
    record = "trajectories,histogram:X:0:800:200"
    both = ts.run(model, record=record, **options).modes("X")
    stored = ts.run(model, record="histogram:X:0:800:200", **options).modes("X")
    assert both.count == stored.count == 2
    np.testing.assert_allclose(stored.positions, both.positions, atol=20)
    np.testing.assert_allclose(stored.weights, both.weights, atol=0.05)
