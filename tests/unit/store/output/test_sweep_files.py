"""Files of a sweep: an axis of points, whatever the blocks, ranks, kind of file, and restarts."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest
from sample_job import Job, digest, sweep_job
from sampling import ordinary

from tauslab import ConfigError, InputFileError
from tauslab.store.format.layout import FlatRows
from tauslab.store.format.schema import chunk_shape
from tauslab.store.results.open import open_result
from tauslab.store.writers.parts import PartsOptions

POINTS, N = 4, 6
BLOCKS = [2, 6, 12, 4, 24]  # a fraction of a point, one, two, neither, all
VIRTUAL = PartsOptions(merge_bytes=0)


def check(job: Job, path) -> None:
    """Arrays, sums and histograms are those of the samples, point by point."""
    with h5py.File(path) as file:
        assert file["progress/complete"][()] == 1
        for name, flat in job.arrays.items():
            assert file[name].shape == (POINTS, N, *flat.shape[1:])
            np.testing.assert_array_equal(file[name][()].reshape(flat.shape), flat)
        counts = file["counts"][()].astype(np.int64)
        valid = np.where(counts >= 0, counts, 0)
        assert np.array_equal(file["statistics/n"][()], (counts[..., 0] >= 0).sum(1))
        assert np.array_equal(file["statistics/sum"][()], valid.sum(1))
        assert np.array_equal(file["statistics/sumsq_lo"][()], (valid**2).sum(1))
        exact = file["statistics/mean"][()] * file["statistics/n"][()][..., None]
        assert np.allclose(exact, valid.sum(1))
        cells = file["statistics/histogram/X"][()]
        assert cells.shape == (POINTS, 4, 6)
        assert np.array_equal(cells.sum(2), file["statistics/n"][()])
        assert np.array_equal(cells[..., -1], (counts[..., 0] >= 800).sum(1))
        values = file["observables"][()]
        mean = file["statistics/observables/mean"][()]
        np.testing.assert_allclose(mean, np.nanmean(values, axis=1), atol=1e-5)


@pytest.mark.parametrize("block", ordinary(BLOCKS, 4))
def test_every_kind_of_file_holds_the_same(tmp_path, block):
    job = sweep_job(block)
    job.run(tmp_path / "one.h5")
    job.run(tmp_path / "merged.h5", 2)
    job.run(tmp_path / "virtual.h5", 3, parts=VIRTUAL)
    for kind in ("one", "merged", "virtual"):
        check(job, tmp_path / f"{kind}.h5")
    with h5py.File(tmp_path / "virtual.h5") as file:
        assert file["counts"].is_virtual
    assert len({digest(path) for path in tmp_path.glob("*.h5")}) == 1
    writer = job.run(None)[0]
    with h5py.File(tmp_path / "one.h5") as file:
        for name in ("counts", "status", "final", "statistics/sum", "sweep/k"):
            np.testing.assert_array_equal(writer.result_arrays[name], file[name][()])


@pytest.mark.parametrize("block", ordinary([2, 12, 4], 4))
@pytest.mark.parametrize(
    ("ranks", "record"),
    ordinary(
        [(ranks, record) for ranks in ((1, 1), (1, 2), (3, 2)) for record in (True, False)],
        ((1, 2), False),
        ((3, 2), True),
    ),
)
def test_a_resumed_sweep_is_an_unbroken_one(tmp_path, block, record, ranks):
    job = sweep_job(block).with_layout(trajectories=record)
    job.per_launch = 1
    job.run(tmp_path / "whole.h5")
    path = tmp_path / "broken.h5"
    job.run(path, ranks[0], stop_after=1)
    job.run(path, ranks[1], resume=True, parts=VIRTUAL)
    assert digest(path) == digest(tmp_path / "whole.h5")
    if record:
        check(job, path)


def test_another_sweep_is_not_gone_on_with(tmp_path):
    job, path = sweep_job(6), tmp_path / "a.h5"
    job.run(path, stop_after=1)
    other = {"k": np.array([1.0, 1.0, 2.0, 3.0]), "X": job.layout.sweep["X"]}
    for sweep, word in (
        (other, "value of k at point 3 is 2.0, not 3.0"),
        ({"X": job.layout.sweep["X"]}, "sweep is k,X, not X"),
        ({name: values[:2] for name, values in other.items()}, "number of points is 4, not 2"),
    ):
        with pytest.raises(ConfigError, match=word):
            job.with_layout(sweep=sweep).run(path, resume=True)
    with pytest.raises(ConfigError, match="sweep is k,X, not of no name"):
        job.with_layout(sweep=None, grid=None, n=24).run(path, resume=True)


def test_an_unfinished_sweep_shows_its_complete_blocks(tmp_path):
    job, path = sweep_job(2), tmp_path / "a.h5"
    job.per_launch = 4
    job.run(path, stop_after=1)
    with open_result(path) as result:
        with pytest.warns(UserWarning, match="unfinished"):
            mean = result.mean("X")
        first = job.arrays["counts"][:N, :, 0]
        assert np.array_equal(mean[0], [v[v >= 0].mean() for v in first.T])
        for read in (lambda: result.counts("X"), lambda: result.final("X"), result.to_xarray):
            with pytest.raises(InputFileError, match="unfinished sweep"):
                read()
        assert (result.status.ravel()[8:] == 255).all()
        assert len(result.to_pandas("trajectories")) == 8 * 4
        assert np.allclose(result.mean("X")[1, 0], job.arrays["counts"][6:8, 0, 0].mean())
        assert np.isnan(result.mean("X")[2:]).all()
        assert np.isnan(result.quantile("X", 0.5)[3]).all()


def test_chunks_tile_blocks_and_are_small():
    job = sweep_job(2)
    counts = next(a for a in job.layout.row_arrays() if a.name == "counts")
    actual = [chunk_shape(replace(job.layout, block=block), counts) for block in BLOCKS]
    assert actual == [(1, 2, 4, 2), (1, 6, 4, 2), (2, 6, 4, 2), None, None]
    large = replace(job.layout, n=1 << 18, block=1 << 18, times=np.arange(101.0))
    counts = next(a for a in large.row_arrays() if a.name == "counts")
    chunk = chunk_shape(large, counts)
    assert chunk[0] == 1
    assert (1 << 18) % chunk[1] == 0
    assert 4 << 20 < chunk[1] * counts.row_bytes <= 8 << 20
    wide = replace(job.layout, times=np.arange(2e6))
    counts = next(a for a in wide.row_arrays() if a.name == "counts")
    assert chunk_shape(wide, counts) == (1, 1, 1 << 20, 2)


def test_axes_have_scales(tmp_path):
    job, path = sweep_job(6), tmp_path / "a.h5"
    job.run(path)
    with h5py.File(path) as file:
        for name, axes in {
            "counts": ["point", "trajectory", "time", "species"],
            "status": ["point", "trajectory"],
            "sweep/k": ["point"],
            "statistics/sum": ["point", "time", "species"],
            "statistics/n": ["point", "time"],
        }.items():
            scales = [dim[0].name.rpartition("/")[2] for dim in file[name].dims]
            assert scales == axes
        assert file.attrs["sweep"] == b"k,X"
        assert file.attrs["grid"] == b"2,2"


def test_sums_that_cannot_fit_are_refused():
    layout = sweep_job(6).layout
    points = {"k": np.zeros(1 << 20)}
    with pytest.raises(ConfigError, match=r"1048576 points and 101 times need .* GiB"):
        replace(layout, sweep=points, times=np.arange(101.0))


def test_flat_rows_read_as_the_flat_array():
    array = np.arange(4 * 6 * 2).reshape(4, 6, 2)
    flat = FlatRows(array)
    assert flat.shape == (24, 2)
    for start in range(25):
        for stop in range(start, 25):
            assert np.array_equal(flat[start:stop], array.reshape(24, 2)[start:stop])
