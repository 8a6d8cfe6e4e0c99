"""Layouts, dataset shapes, and exact statistics."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.kernels.ensemble.sums import POWERS
from tauslab.options.record import HistogramSpec
from tauslab.store.format.layout import Chunk, Layout, RowArray, chunk_blocks
from tauslab.store.format.schema import MOST_CHUNK_BYTES, chunk_shape, file_specs
from tauslab.store.format.statistics import (
    accumulate,
    add_accumulators,
    statistics_contents,
    stored_accumulators,
    zero_accumulators,
)
from tauslab.store.results.result import Result


def layout_of(**changes):
    """Ten trajectories in blocks of 4, statistics of one species at 2 times."""
    plain = Layout(
        n=10,
        times=np.array([0.0, 1.0]),
        species=("X",),
        observables=(),
        trajectories=False,
        final=False,
        statistics=True,
        histograms=(),
        block=4,
    )
    return replace(plain, **changes)


def test_blocks_and_rows():
    layout = layout_of()
    assert layout.n_blocks == 3
    assert layout.block_rows(1, 3) == (4, 10)


@pytest.mark.parametrize(("start", "rows"), [(0, 4), (4, 6), (8, 2), (0, 10)])
def test_chunk_of_whole_blocks(start, rows):
    first, end = chunk_blocks(layout_of(), Chunk(start, {"status": np.zeros(rows, np.uint8)}))
    assert layout_of().block_rows(first, end) == (start, start + rows)


@pytest.mark.parametrize(("start", "rows"), [(1, 4), (0, 3), (4, 5), (8, 3), (0, 0)])
def test_chunk_that_cuts_a_block_is_refused(start, rows):
    with pytest.raises(ValueError, match="whole storage blocks"):
        chunk_blocks(layout_of(), Chunk(start, {"status": np.zeros(rows, np.uint8)}))


def test_histogram_of_an_unrecorded_species_is_refused():
    with pytest.raises(ConfigError, match="histogram of Z"):
        layout_of(histograms=(HistogramSpec("Z", 0, 1, 2),))


def test_histogram_names_may_not_collide():
    both = (HistogramSpec("X", 0, 1, 2), HistogramSpec("X_edges", 0, 1, 2))
    with pytest.raises(ConfigError, match="X_edges"):
        layout_of(species=("X", "X_edges"), histograms=both)


@pytest.mark.parametrize(
    ("block", "times", "species", "expected"),
    [
        (4, 101, 1, (4, 101, 1)),
        (4096, 101, 100, (128, 101, 100)),  # the storage block passes 8 MiB: a divisor of it
        (7, 1000, 1000, (1, 1000, 1000)),  # 7 is prime, and 7 rows are too much
        (1, 30_000, 1000, (1, 2097, 1000)),  # a row passes 8 MiB
        (1, 2, 3_000_000, (1, 1, 2_097_152)),
    ],
)
def test_chunks_tile_storage_blocks(block, times, species, expected):
    layout = layout_of(n=10 * block, block=block)
    array = RowArray("counts", (times, species), ("time", "species"), np.dtype("<i4"), -1)
    chunks = chunk_shape(layout, array)
    assert chunks == expected
    assert block % chunks[0] == 0
    assert 4 * np.prod(chunks) <= MOST_CHUNK_BYTES


def test_one_block_is_contiguous():
    layout = layout_of(trajectories=True, block=10)
    assert {spec.name: spec.chunks for spec in file_specs(layout, 1)}["counts"] is None


def test_every_axis_has_a_scale(job):
    specs = {spec.name: spec for spec in file_specs(job.layout, 3)}
    for spec in specs.values():
        assert len(spec.axes) == len(spec.shape)
        for axis, size in zip(spec.axes, spec.shape, strict=True):
            assert specs[axis].shape == (size,)
            assert specs[axis].axes == (axis,)


def exact_moments(values, scale):
    """Mean and variance of valid values as exact fractions."""
    whole = [Fraction(round(Fraction(float(v)) * 2**scale), 2**scale) for v in values]
    mean = sum(whole) / len(whole)
    return mean, sum((v - mean) ** 2 for v in whole) / (len(whole) - 1)


def test_statistics_are_exact_for_large_counts():
    """Sums of squares beyond 2^64; the variance is the correctly rounded quotient."""
    rng = np.random.default_rng(3)
    counts = rng.integers(2**31 - 1000, 2**31, (10, 2, 1)).astype(np.int32)
    layout = layout_of()
    actual = statistics_contents(layout, accumulate(layout, {"counts": counts}))
    squares = [sum(int(v) ** 2 for v in counts[:, k, 0]) for k in range(2)]
    high, low = actual["statistics/sumsq_hi"], actual["statistics/sumsq_lo"]
    assert [(int(h[0]) << 64) + int(v[0]) for h, v in zip(high, low, strict=True)] == squares
    assert squares[0] > 2**64
    for k in range(2):
        mean, variance = exact_moments(counts[:, k, 0], 0)
        assert actual["statistics/mean"][k, 0] == float(mean)
        assert actual["statistics/variance"][k, 0] == float(variance)


MANY = [(2**32, 65_535), (2**32 + 1, 65_535), (5 * 10**9, 65_535), (10**10, 100_003),
        (2**33, 2**31 - 1), (2**40, 2**31 - 1)]  # fmt: skip


@pytest.mark.parametrize(("n", "x"), MANY)
def test_sums_of_any_number_of_counts(n, x):
    """Every trajectory has x molecules; launches add words of 64 bits, as a device does."""
    layout = layout_of(n=n, block=2**31)
    assert layout.wide == (n > 2**32)
    tallies = [zero_accumulators(layout) for _ in range(3)]
    for launch, start in enumerate(range(0, n, 2**31)):
        rows = min(2**31, n - start)
        words = {"n": rows} | {
            word: rows * ((x**number >> 32 * k) % 2**32)
            for number, power in enumerate(POWERS, start=1)
            for k, word in enumerate(power.words[:-1])
        }
        assert max(words.values()) < 2**64
        sums = {k: np.full((2,) if k == "n" else (2, 1), v, np.uint64) for k, v in words.items()}
        add_accumulators(tallies[launch % 3], sums)
    for tally in tallies[1:]:
        add_accumulators(tallies[0], tally)
    actual = statistics_contents(layout, tallies[0])
    assert {spec.name for spec in file_specs(layout, 1)} >= set(actual)
    assert np.array_equal(actual["statistics/mean"], np.full((2, 1), x))
    assert np.array_equal(actual["statistics/variance"], np.zeros((2, 1)))
    words = {k: int(v.ravel()[0]) % 2**64 for k, v in actual.items() if v.dtype.kind != "f"}
    for number, power in enumerate(POWERS, start=1):
        stored = enumerate(words.get(f"statistics/{name}", 0) for name in power.stored)
        assert sum(word << 64 * k for k, word in stored) == n * x**number
    again = statistics_contents(layout, stored_accumulators(layout, actual))
    assert all(np.array_equal(again[name], values) for name, values in actual.items())
    data = {"species": np.array(["X"], object), "status": np.zeros(1, np.uint8), **actual}
    result = Result(data, {"method": "ssa"})
    assert result.mean("X").tolist() == [x, x]
    assert result.std("X").tolist() == [0, 0]
    assert np.isnan(result.skewness("X")).all()  # of equal counts there is none


@pytest.mark.parametrize("most", [3, 1000, 2**31 - 1])
@pytest.mark.parametrize("format_version", [2, 3])
def test_the_skewness_is_exact(most, format_version):
    counts = np.random.default_rng(5).integers(0, most, (40, 2, 1)).astype(np.int32)
    counts[7, 1] = -1
    layout = layout_of(n=40, format_version=format_version)
    sums = accumulate(layout, {"counts": counts})
    data = {"species": np.array(["X"], object), "status": np.zeros(40, np.uint8)}
    actual = Result({**data, **statistics_contents(layout, sums)}, {"method": "ssa"})
    if format_version == 2:
        with pytest.raises(InputFileError, match="no /statistics/sumcube_lo"):
            actual.skewness("X")
        return
    for time in range(2):
        valid = [Fraction(int(c)) for c in counts[:, time, 0] if c >= 0]
        mean = sum(valid) / len(valid)
        second, third = (sum((v - mean) ** k for v in valid) / len(valid) for k in (2, 3))
        expected = float(third) / float(second) ** 1.5
        assert actual.skewness("X")[time] == pytest.approx(expected, rel=1e-14)
    samples = Result({**data, "time": np.arange(2.0), "counts": counts}, {"method": "ssa"})
    assert samples.skewness("X").tolist() == actual.skewness("X").tolist()


def test_statistics_of_observables_are_exact():
    rng = np.random.default_rng(4)
    values = rng.normal(-100, 1e5, (50, 2, 2))
    values[:3, 1, 0] = np.nan
    values[3, 1, 1] = np.inf
    layout = layout_of(n=50, observables=("a", "b"))
    arrays = {"counts": np.zeros((50, 2, 1), np.int32), "observables": values}
    actual = statistics_contents(layout, accumulate(layout, arrays))
    actual = {k.removeprefix("statistics/observables/"): v for k, v in actual.items()}
    assert actual["n"].tolist() == [[50, 50], [47, 49]]
    assert actual["infinite"].tolist() == [[0, 0], [0, 1]]
    for k in range(2):
        for o in range(2):
            valid = [v for v in values[:, k, o] if np.isfinite(v)]
            mean, variance = exact_moments(valid, 80)
            assert actual["mean"][k, o] == float(mean)
            assert actual["variance"][k, o] == float(variance)
            low = int(actual["exponent"][k, o])
            total = sum(
                int(d) * Fraction(2) ** (low + 23 * b) for b, d in enumerate(actual["sum"][k, o])
            )
            assert total == mean * len(valid)
            digits = enumerate(actual["sumsq"][k, o])
            squares = sum(int(d) * Fraction(2) ** (2 * low + 23 + 23 * b) for b, d in digits)
            assert squares == sum(Fraction(v) ** 2 for v in valid)
            lowest = Fraction(2) ** int(actual["lowest"][k, o])
            assert all((Fraction(v) / lowest).denominator == 1 for v in valid)
            assert any((Fraction(v) / lowest).numerator % 2 for v in valid)


def test_statistics_of_nothing_are_nan():
    layout = layout_of(n=1, block=1)
    counts = np.array([[[5], [-1]]], np.int32)
    actual = statistics_contents(layout, accumulate(layout, {"counts": counts}))
    np.testing.assert_array_equal(actual["statistics/mean"], [[5], [np.nan]])
    assert np.all(np.isnan(actual["statistics/variance"]))


def test_accumulators_do_not_depend_on_the_cut(job):
    whole, pieces = job.totals(), job.sums(0, 1)
    for first, end in ((5, 8), (1, 2), (2, 5)):
        add_accumulators(pieces, job.sums(first, end))
    assert set(whole) == set(job.layout.accumulator_shapes())
    for name, values in whole.items():
        assert values.shape == job.layout.accumulator_shapes()[name]
        np.testing.assert_array_equal(values, pieces[name])


def test_histogram_cells():
    layout = layout_of(n=6, block=6, histograms=(HistogramSpec("X", 2, 4, 2),))
    counts = np.array([1, 2, 3, 4, 9, -1], np.int32).reshape(6, 1, 1).repeat(2, 1)
    cells = accumulate(layout, {"counts": counts})["histogram/X"]
    assert cells.tolist() == [[1, 1, 1, 2]] * 2
