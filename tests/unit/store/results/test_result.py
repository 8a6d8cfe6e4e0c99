"""Reading results: samples, exact statistics, histograms, other libraries, and bad files."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
import result_factory as make

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError, OutputError
from tauslab.base.files.seals import seal
from tauslab.base.files.text import put_attributes
from tauslab.cli.main import main
from tauslab.options.record import HistogramSpec
from tauslab.store.format.layout import Layout
from tauslab.store.format.schema import file_specs, root_attributes
from tauslab.store.results import columns
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.results.samples import column_of
from tauslab.store.results.tables import table_of, write_table

N = 100


@pytest.fixture(params=["file", "memory"])
def result(request, tmp_path):
    """The same trajectories from a file and from memory."""
    if request.param == "memory":
        yield Result(make.samples(N), make.attributes(N))
    else:
        with open_result(make.write(tmp_path / "r.h5", make.samples(N))) as opened:
            yield opened


def exact_moments(values: list[int] | list[Fraction]) -> tuple[float, float]:
    """Mean and variance by rational arithmetic."""
    mean = Fraction(sum(values)) / len(values)
    variance = sum((Fraction(v) - mean) ** 2 for v in values) / (len(values) - 1)
    return float(mean), float(variance)


def test_what_was_run(result):
    assert (result.method, result.seed, result.n) == ("ssa", 2**64 - 1, N)
    assert result.species == ("X", "Y")
    assert result.observables == ("total", "half")
    assert result.times.tolist() == [0, 0.5, 1, 2]
    assert result.status[[0, 1, 3]].tolist() == [0, 1, 2]
    assert result.complete
    assert "ssa, 100 trajectories, 4 times, 2 species (X, Y)" in repr(result)


@pytest.mark.filterwarnings("ignore:.* ended early")
def test_counts_by_name(result):
    expected = make.samples(N)["counts"]
    assert np.array_equal(result.counts(), expected)
    assert np.array_equal(result.counts("Y"), expected[:, :, 1])
    assert np.array_equal(result.counts(["Y", "X"]), expected[:, :, ::-1])
    assert np.array_equal(result.final("Y"), expected[:, -1, 1])


@pytest.mark.parametrize("name", ["X", "Y"])
def test_moments_are_exact_and_leave_out_ended_trajectories(result, name):
    column = make.samples(N)["counts"][:, :, result.species.index(name)]
    for k in range(4):
        mean, variance = exact_moments([int(x) for x in column[:, k] if x >= 0])
        assert result.mean(name)[k] == mean
        assert result.variance(name)[k] == variance
        assert result.std(name)[k] == math.sqrt(variance)


@pytest.mark.parametrize("name", ["X", "Y"])
def test_stored_sums_give_the_same_numbers(name):
    arrays = make.samples(N)
    full = Result(arrays, make.attributes(N))
    sums = make.only(arrays) | make.statistics(arrays["counts"])
    stored = Result(sums, make.attributes(N))
    assert np.array_equal(stored.mean(name), full.mean(name))
    assert np.array_equal(stored.variance(name), full.variance(name))
    with pytest.raises(ConfigError, match='without record="trajectories"'):
        stored.quantile(name, 0.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_stored_sums_of_observables(sign):
    arrays = make.samples(N)
    values = sign * arrays["observables"]
    stored = Result(make.only(arrays) | make.real_statistics(values), make.attributes(N))
    for index, name in enumerate(("total", "half")):
        for k in range(4):
            valid = [Fraction(y) for y in values[:, k, index].tolist() if math.isfinite(y)]
            mean, variance = exact_moments(valid)
            assert stored.mean(name)[k] == mean
            assert stored.variance(name)[k] == variance


def test_large_counts_of_groups_are_summed_exactly():
    """The lower words of two groups add up to more than 64 bits."""
    groups = 1_700_000_000 + np.arange(12).reshape(2, 6)
    squares, cubes = ([sum(int(x) ** k for x in group) for group in groups] for k in (2, 3))
    stored = {"n": [[6], [6]], "sum": groups.sum(axis=1)[:, None, None]}
    for name, sums in (("sumsq", squares), ("sumcube", cubes)):
        for part, shift in (("lo", 0), ("hi", 64)):
            words = [(value >> shift) % 2**64 for value in sums]
            stored[f"{name}_{part}"] = np.array(words, np.uint64)[:, None, None]
    data = {f"statistics/{name}": np.asarray(values) for name, values in stored.items()}
    data |= {"time": np.zeros(1), "species": np.array(["X"]), "status": np.zeros(12, np.uint8)}
    actual = Result(data, make.attributes(12) | {"group": 6})
    assert (actual.mean("X"), actual.variance("X")) == exact_moments(groups.ravel().tolist())
    whole = Result(data | {"counts": groups.reshape(12, 1, 1)}, make.attributes(12))
    for name in stored:
        del whole.data[f"statistics/{name}"]
    assert actual.skewness("X") == whole.skewness("X")


def test_sums_of_groups_are_those_of_all():
    """Groups have windows of their own: the first is of small values, which the others' lose."""
    values = make.samples(N)["observables"] * 10.0 ** np.repeat([-30, 20], N // 2)[:, None, None]
    values[0, :, :] = 3.0**-40
    basic = make.only(make.samples(N))
    groups = [make.real_statistics(part) for part in np.split(values, [10, N // 2, 70])]
    apart = {name: np.stack([group[name] for group in groups]) for name in groups[0]}
    result = Result(basic | apart, make.attributes(N) | {"group": 25})
    whole = Result(basic | make.real_statistics(values), make.attributes(N))
    for name in ("total", "half"):
        assert result.mean(name).tolist() == whole.mean(name).tolist()
        assert result.variance(name).tolist() == whole.variance(name).tolist()


def test_names_are_those_of_the_writers(tmp_path):
    arrays = make.samples(N)
    arrays |= make.statistics(arrays["counts"])
    arrays |= make.real_statistics(arrays["observables"])
    arrays |= make.histogram(arrays["counts"], np.array([0.0, 100.0, 200.0]))
    layout = Layout(
        n=N,
        times=make.TIMES,
        species=make.SPECIES,
        observables=("total", "half"),
        trajectories=True,
        final=True,
        statistics=True,
        histograms=(HistogramSpec("X", 0.0, 200.0, 2),),
        block=make.BLOCK,
    )
    specs = {spec.name: spec for spec in file_specs(layout, n_ranks=2, in_place=True)}
    with h5py.File(make.write(tmp_path / "r.h5", arrays)) as file:
        for name in arrays:
            assert specs[name].shape == file[name].shape
            if specs[name].dtype not in ("text", "status"):
                assert np.dtype(specs[name].dtype) == file[name].dtype
        file.visititems(lambda name, item: _is_known(name, item, specs))
    attributes = root_attributes(layout, "plain", "run")
    assert {"format", "format_version", "n", "block", "created"} <= set(attributes)


def _is_known(name, item, specs):
    seals = ("progress/sealed", "progress/seals")
    assert isinstance(item, h5py.Group) or name in specs or name in seals, name


def test_moments_of_observables(result):
    counts = make.samples(N)["counts"].astype(float)
    counts[counts < 0] = np.nan
    total = counts.sum(2)
    assert np.allclose(result.mean("total"), np.nanmean(total, axis=0), rtol=1e-14)
    assert np.allclose(result.variance("total"), np.nanvar(total, axis=0, ddof=1), rtol=1e-11)
    half = result.variance("half")
    assert half[0] == 0
    assert np.allclose(half, result.variance("X") / 4, rtol=1e-12)


def test_reading_in_small_pieces_changes_nothing(tmp_path, monkeypatch):
    path = make.write(tmp_path / "r.h5", make.samples(N))
    with open_result(path) as result:
        whole = result.variance("Y"), result.quantile("Y", 0.3), result.quantile("X", [0, 1])
        monkeypatch.setattr(columns, "READ_BYTES", 1)
        assert len(list(column_of(result, "Y").pieces())) == math.ceil(N / make.BLOCK)
        pieces = result.variance("Y"), result.quantile("Y", 0.3), result.quantile("X", [0, 1])
    assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))


@pytest.mark.parametrize("name", ["X", "Y", "half"])  # a table of counts; too wide for one; real
def test_quantiles_are_values_that_occur(result, name):
    levels = (0.0, 0.05, 0.25, 0.5, 0.9, 1.0)
    actual = result.quantile(name, levels)
    samples = make.samples(N)
    column = samples["counts"][:, :, 1] if name == "Y" else samples["counts"][:, :, 0]
    for k in range(4):
        values = column[column[:, k] >= 0, k] / (2 if name == "half" else 1)
        expected = np.quantile(values, levels, method="inverted_cdf")
        assert actual[:, k].tolist() == expected.tolist()
    assert np.array_equal(result.quantile(name, 0.25), actual[2])


def test_quantile_levels_are_checked(result):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        result.quantile("X", 50)


def test_rank_of_a_level_that_doubles_round_up():
    values = np.arange(30, dtype=np.int32)[:, None]
    column = columns.Column(lambda: iter([values]), 1, whole=True)
    assert columns.quantiles(column, [0.1])[0, 0] == 2  # the third of thirty: F(2) = 0.1


def test_histogram_has_a_bin_for_each_whole_number(result):
    column = make.samples(N)["counts"][:, 2, 0]
    valid = column[column >= 0]
    numbers, edges = result.histogram("X", t=1)
    assert edges.tolist() == list(range(valid.min(), valid.max() + 2))
    assert numbers.dtype == np.uint64
    assert np.array_equal(numbers, np.bincount(valid - valid.min()))
    numbers, edges = result.histogram("X", t=1, bins=[0, 300, 1000])
    assert numbers.tolist() == [(valid < 300).sum(), (valid >= 300).sum()]
    numbers, edges = result.histogram("half", t=1)
    assert numbers.sum() == valid.size


def test_histogram_of_a_very_wide_range_has_wider_bins(result):
    numbers, edges = result.histogram("Y", t=2)
    assert len(numbers) <= 1 << 22
    assert edges[1] - edges[0] == np.round(edges[1] - edges[0]) > 1
    column = make.samples(N)["counts"][:, 3, 1]
    assert numbers.sum() == (column >= 0).sum()


def test_stored_histogram():
    arrays = make.samples(N)
    edges = np.array([60.0, 90.0, 300.0])
    cut = make.only(arrays) | make.histogram(arrays["counts"], edges)
    result = Result(cut, make.attributes(N))
    column = arrays["counts"][:, 2, 0]
    numbers, actual = result.histogram("X", t=1)
    assert actual.tolist() == edges.tolist()
    assert numbers.tolist() == np.histogram(column, edges)[0].tolist()
    with pytest.raises(ConfigError, match="bins cannot be chosen"):
        result.histogram("X", t=1, bins=4)
    with pytest.raises(ConfigError, match="neither trajectories nor a histogram of Y"):
        result.histogram("Y", t=1)
    with pytest.raises(ConfigError, match='without record="statistics"'):
        result.mean("X")


def test_sample_time_is_found_or_the_nearest_is_named(result):
    assert result.time_index(2 * (1 + 1e-12)) == 3
    with pytest.raises(ConfigError, match=r"0\.7 is not a sample time.*nearest is 0\.5"):
        result.histogram("X", t=0.7)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.mean("Q"),
        lambda r: r.counts("Q"),
        lambda r: r.counts(["X", "Q"]),
        lambda r: r.final("Q"),
        lambda r: r.histogram("Q", t=0),
        lambda r: r.quantile("Q", 0.5),
    ],
)
@pytest.mark.filterwarnings("ignore:.* ended early")
def test_unknown_names_are_listed(result, call):
    with pytest.raises(ConfigError, match=r"'Q' is not recorded.*X, Y"):
        call(result)


def test_xarray(result):
    xarray = pytest.importorskip("xarray")
    arrays = make.samples(N)
    dataset = result.to_xarray()
    assert isinstance(dataset, xarray.Dataset)
    x = dataset["counts"].sel(species="X")
    assert x.dims == ("trajectory", "time")
    assert np.array_equal(x.mean("trajectory"), result.mean("X"))  # fill values enter no average
    assert np.array_equal(x.fillna(-1), arrays["counts"][:, :, 0])
    assert dataset["observables"].sel(observable="half", time=0.5).dims == ("trajectory",)
    assert dataset["species"].dtype.kind == "U"
    assert dataset["status"].dims == ("trajectory",)
    assert dataset.attrs["method"] == "ssa"
    dataset.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_xarray_has_variables_by_name(result, chunked):
    pytest.importorskip("xarray")
    dataset = result.to_xarray(by_name=True, chunked=chunked)
    assert not {"counts", "observables"} & {*dataset.variables}
    assert dataset["X"].dims == dataset["half"].dims == ("trajectory", "time")
    assert np.array_equal(dataset["X"].mean("trajectory"), result.mean("X"))
    assert dataset["half"].attrs == {}
    dataset.close()


def test_variables_of_species_do_not_hide_others(data):
    pytest.importorskip("xarray")
    swept = {"X": [100, 200], "c3": [1e-3]}
    run = ts.run(data / "sbml" / "schlogl.xml", n=3, t_end=1, points=2, seed=1, sweep=swept)
    dataset = run.to_xarray(by_name=True)
    assert dataset["X_species"].sel(X=200, c3=1e-3, time=0).values.tolist() == [200] * 3


def test_xarray_shows_statistics(tmp_path):
    pytest.importorskip("xarray")
    arrays = make.samples(N)
    mean = {"statistics/mean": np.ones((4, 2))}
    arrays = make.only(arrays) | make.statistics(arrays["counts"]) | mean
    with open_result(make.write(tmp_path / "r.h5", arrays)) as result:
        dataset = result.to_xarray()
        assert dataset["mean"].sel(species="X", time=1).item() == 1
        assert dataset["n"].values.tolist() == [99, 99, 98, 98]
        dataset.close()
    assert Result(arrays, make.attributes(N)).to_xarray()["n"].dims == ("time",)


def test_dask(result):
    pytest.importorskip("dask.array")
    array = result.to_dask()
    assert array.chunks[0] == (make.BLOCK,) * 6 + (4,)
    assert array.chunks[1:] == ((4,), (2,))
    expected = make.samples(N)["counts"]
    result.close()  # tasks do not lean on this object's file
    expected = np.where(expected < 0, np.nan, expected)
    actual = array.compute(scheduler="threads", num_workers=4)
    assert np.array_equal(actual, expected, equal_nan=True)
    assert pickle.loads(pickle.dumps(array))[:3].compute().tolist() == expected[:3].tolist()


def test_dask_names_the_datasets_there_are(result):
    pytest.importorskip("dask.array")
    with pytest.raises(ConfigError, match=r"no dataset 'amounts'; it has .*counts, "):
        result.to_dask("amounts")


# --- files ---


def test_unfinished_file_shows_its_completed_blocks(tmp_path):
    arrays = make.samples(N)
    arrays["counts"][3 * make.BLOCK :] = -1
    path = make.write(tmp_path / "r.h5", arrays, done=[0, 2, 6])
    with open_result(path) as result:
        assert not result.complete
        assert result.completed_blocks.tolist() == [True, False, True, False, False, False, True]
        assert "unfinished: 3 of 7 blocks" in repr(result)
        column = make.samples(N)["counts"][:, :, 0]
        there = np.concatenate([column[:16], column[32:48]])
        with pytest.warns(UserWarning, match="3 of 7 blocks"):
            assert result.quantile("X", 1.0).tolist() == there.max(0).tolist()


@pytest.mark.filterwarnings("ignore:.* (is unfinished|ended early)")
def test_other_libraries_get_no_fill_values_of_an_unfinished_file(tmp_path):
    pytest.importorskip("dask.array")
    arrays = make.samples(N, early_ends=False)
    there = np.concatenate([np.arange(16), np.arange(32, 48), np.arange(96, N)])
    counts = arrays["counts"][there]
    with open_result(make.write(tmp_path / "r.h5", arrays, done=[0, 2, 6])) as result:
        assert np.array_equal(result.to_dask().compute(), counts)
        for chunked in (False, True):
            dataset = result.to_xarray(chunked=chunked)
            assert np.array_equal(dataset["counts"], counts)
            assert np.array_equal(dataset["final"], counts[:, -1])
        assert np.array_equal(result.final("Y"), counts[:, -1, 1])
        assert np.array_equal(result["half"], arrays["observables"][there, :, 1])
        assert result.status.shape == (36,)
        frame = result.to_pandas("trajectories", ["X"])
        assert frame["X"].mean() == counts[:, :, 0].mean()
        assert frame.attrs["unfinished"] == "3 of 7 blocks"
        write_table(table_of(result, "final", ["X"]), tmp_path / "r.csv")
    head, _, *rows = (tmp_path / "r.csv").read_text().splitlines()
    assert head == "# unfinished: 3 of 7 blocks"
    assert [int(row.split(",")[-1]) for row in rows] == counts[:, -1, 0].tolist()


@pytest.mark.parametrize("command", ["export", "plot"])
def test_nothing_is_made_of_a_file_without_a_finished_block(tmp_path, command, capsys):
    arrays = make.samples(N) | make.statistics(make.samples(N)["counts"])
    path = make.write(tmp_path / "r.h5", arrays, done=[])
    assert main([command, str(path)]) == 2
    assert "no completed block" in capsys.readouterr().err
    assert [actual.name for actual in tmp_path.iterdir()] == ["r.h5"]


def test_unfinished_file_without_samples_says_so(tmp_path):
    path = make.write(tmp_path / "r.h5", make.only(make.samples(N)), done=[0])
    with open_result(path) as result, pytest.raises(InputFileError, match="resume=True"):
        result.mean("X")


def test_file_without_a_completed_block_says_so(tmp_path):
    path = make.write(tmp_path / "r.h5", make.samples(N), done=[])
    with open_result(path) as result, pytest.raises(InputFileError, match="no completed block"):
        result.mean("X")


def test_unfinished_run_of_several_ranks_shows_the_marks_of_its_parts(tmp_path):
    path = make.write(tmp_path / "r.h5", make.samples(N), done=[], storage="parts", run="aa")
    parts = tmp_path / "r.h5.parts"
    parts.mkdir()
    for index, run in enumerate(("aa", "aa", "bb")):
        with h5py.File(parts / f"r000{index}-000.h5", "w") as file:
            put_attributes(file, {"run": run})
            file["progress/block_ids"] = np.array([2 * index, 2 * index + 1, -1])
            file["progress/blocks"] = np.array([1, index, 0], np.uint8)
            file["progress/checksums"] = np.zeros((3, 4), np.uint32)
            seal(file)
    with open_result(path) as result:
        assert np.flatnonzero(result.completed_blocks).tolist() == [0, 2, 3]
        for read in (result.counts, result.to_xarray, result.to_pandas, lambda: result.mean("X")):
            with pytest.raises(InputFileError, match="still lie in parts"):
                read()


def test_missing_file(tmp_path):
    with pytest.raises(InputFileError, match=r"no\.h5: there is no such file"):
        open_result(tmp_path / "no.h5")
    with pytest.raises(InputFileError, match="is not a file"):
        open_result(tmp_path)


def test_file_that_is_not_hdf5(tmp_path):
    path = tmp_path / "text.h5"
    path.write_text("time,X\n0,1\n")
    with pytest.raises(InputFileError, match="not an HDF5 file"):
        open_result(path)
    path.write_bytes(b"")
    with pytest.raises(InputFileError, match="not an HDF5 file"):
        open_result(path)


def test_foreign_hdf5_file(tmp_path):
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["counts"] = np.zeros(3)
    with pytest.raises(InputFileError, match="not a result of tauslab"):
        open_result(path)


def test_later_format(tmp_path):
    path = make.write(tmp_path / "r.h5", make.samples(N), format_version=99)
    with pytest.raises(InputFileError, match="format version 99"):
        open_result(path)


def test_truncated_file(tmp_path):
    path = make.write(tmp_path / "r.h5", make.samples(N))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputFileError, match="truncated"):
        open_result(path)


def virtual(folder: Path) -> tuple[Path, Path]:
    """A file whose counts lie in two parts: the file and its second part."""
    arrays = make.samples(N)
    path = make.write(folder / "r.h5", make.only(arrays), run="aa", storage="virtual")
    parts = folder / "r.h5.parts"
    parts.mkdir()
    layout = h5py.VirtualLayout((N, 4, 2), np.int32)
    for index, rows in enumerate((slice(0, 50), slice(50, N))):
        with h5py.File(parts / f"{index}.h5", "w") as file:
            put_attributes(file, {"run": "aa"})
            file["counts"] = arrays["counts"][rows]
            seal(file)
        layout[rows] = h5py.VirtualSource(f"r.h5.parts/{index}.h5", "counts", (50, 4, 2), np.int32)
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("counts", layout, fillvalue=-1)
        make.reseal(file)
    return path, parts / "1.h5"


@pytest.mark.filterwarnings("ignore:.* ended early")
def test_virtual_file_is_read_through_its_parts(tmp_path):
    path, _ = virtual(tmp_path)
    with open_result(path) as result:
        assert np.array_equal(result.counts(), make.samples(N)["counts"])
        pytest.importorskip("dask.array")
        assert result.to_dask().chunks[0][0] == make.BLOCK


def test_missing_part_is_an_error_and_not_fill_values(tmp_path):
    path, part = virtual(tmp_path)
    content = part.read_bytes()
    part.unlink()
    with pytest.raises(InputFileError, match=r"r\.h5\.parts/1\.h5, is missing"):
        open_result(path)
    part.write_bytes(content[:1500])
    with pytest.raises(InputFileError, match=r"r\.h5\.parts/1\.h5, cannot be opened"):
        open_result(path)


def test_part_of_another_run_is_an_error(tmp_path):
    path, part = virtual(tmp_path)
    with h5py.File(part, "a") as file:
        put_attributes(file, {"run": "bb"})
    with pytest.raises(InputFileError, match=r"r\.h5\.parts/1\.h5, belongs to another run"):
        open_result(path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"record": ["statistics", "final"]},
        {"sweep": {"k": [0.5, 1.0]}, "record": ["trajectories", "statistics"]},
        {"method": "ode", "n": 1},
    ],
    ids=["plain", "statistics", "sweep", "ode"],
)
def test_a_result_in_memory_is_saved_as_its_run_would_have(tmp_path, options):
    net = ts.Network("decay")
    net.add_species("X", 40)
    net.add_species("Y")
    net.add_parameter("k", 1.0)
    net.add_rule("both", "X + Y / 2")
    net.add_reaction("X -> Y", rate="k")
    options = {
        "n": 30,
        "t_end": 2,
        "points": 5,
        "seed": 3,
        "device": "cpu",
        "quiet": True,
    } | options
    result = ts.run(net, **options)
    path = result.save(tmp_path / "saved.h5")
    ts.run(net, output=tmp_path / "direct.h5", **options).close()
    with ts.open(path) as saved, ts.open(tmp_path / "direct.h5") as direct:
        assert digest_lines(saved) == digest_lines(direct)
        slots = {"progress/checkpoint_0", "progress/checkpoint_1"}  # of a run that may be killed
        assert set(direct.data) - set(saved.data) <= slots
        run = ("run", "created")
        same = [{k: v for k, v in r.attributes.items() if k not in run} for r in (saved, direct)]
        assert same[0] == same[1]
        saved.data.verify()
        with pytest.raises(ConfigError, match="holds this result already"):
            saved.save(tmp_path / "again.h5")
    with pytest.raises(OutputError, match="exists; overwrite=True replaces it"):
        result.save(path)
    with pytest.raises(ConfigError, match="a result is an HDF5 file"):
        result.save(tmp_path / "saved.csv")
    pickle.loads(pickle.dumps(result)).save(path, overwrite=True, compress=4)
    with ts.open(path) as saved, ts.open(tmp_path / "direct.h5") as direct:
        assert digest_lines(saved) == digest_lines(direct)


def test_a_result_made_by_hand_cannot_be_saved(tmp_path):
    with pytest.raises(ConfigError, match="not made by a run"):
        Result(make.samples(10), make.attributes(10)).save(tmp_path / "x.h5")


def test_samples_by_name():
    arrays = make.samples(10)
    result = Result(arrays, make.attributes(10))
    assert (result["X"] == arrays["counts"][:, :, 0]).all()
    assert np.array_equal(result["half"], arrays["observables"][:, :, 1], equal_nan=True)
    assert (result["time"] == arrays["time"]).all()
    assert list(result) == ["time", "X", "Y", "total", "half"]
    assert "X" in result
    assert "Q" not in result
    assert dict(result).keys() == set(result)
    with pytest.raises(ConfigError, match=r"'Q' is not recorded in .*; it has time, X, Y, total"):
        result["Q"]


def test_a_notebook_shows_a_table_with_everything_escaped():
    arrays = make.samples(10) | {"species": np.array(["<script>", "Y"], object)}
    page = Result(arrays, make.attributes(10) | {"command": "<img>"})._repr_html_()
    assert "<script>" not in page
    assert "<img>" not in page
    assert "&lt;script&gt;" in page
