"""Results larger than memory: lazy arrays in chunks, and the example that counts through them."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import result_factory as make
from places import ROOT

from tauslab.store.results.open import open_result

pytest.importorskip("dask.array")

EXAMPLE = ROOT / "examples" / "quantiles_out_of_core.py"
N = 100


@pytest.fixture
def path(tmp_path):
    return make.write(tmp_path / "r.h5", make.samples(N))


def test_a_chunk_of_several_storage_blocks(path):
    with open_result(path) as result:
        array = result.to_dask(blocks=2)
        assert array.chunks[0] == (2 * make.BLOCK,) * (N // (2 * make.BLOCK)) + (
            N % (2 * make.BLOCK),
        )
        expected = make.samples(N)["counts"]
        expected = np.where(expected < 0, np.nan, expected)
        assert np.array_equal(array.compute(), expected, equal_nan=True)


def test_a_file_of_very_many_blocks_gets_fewer_chunks(path, monkeypatch):
    monkeypatch.setattr("tauslab.store.results.export._MOST_CHUNKS", 3)
    with open_result(path) as result:
        assert result.to_dask().numblocks[0] == 3


def test_chunked_datasets_compute_what_plain_ones_hold(path):
    with open_result(path) as result:
        plain, chunked = result.to_xarray(), result.to_xarray(chunked=True)
        assert chunked["counts"].chunks[0][0] == make.BLOCK
        assert chunked["observables"].chunks is not None
        mean = chunked["counts"].sel(species="X").mean("trajectory")
        assert np.array_equal(mean.compute(), plain["counts"].sel(species="X").mean("trajectory"))
        assert chunked.identical(plain)
        plain.close()
        chunked.close()


@pytest.mark.validate
def test_the_example_gives_the_exact_quantiles(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("quantiles_out_of_core", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    path = tmp_path / "some.h5"
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(path), "-n", "500", "--blocks", "3"])
    example.main()
    assert "500 trajectories" in capsys.readouterr().out
    with open_result(path) as result:
        counts = result.to_dask(blocks=3)[:, :, 0]
        assert counts.numblocks[0] > 10
        actual = example.quantiles(counts, example.LEVELS)
        assert np.array_equal(actual, result.quantile("P", example.LEVELS))
