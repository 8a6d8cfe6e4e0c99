"""Writers for one rank, several ranks and memory: same contents, resume, refusals."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray
from mortal_disk import FullDisk
from sample_job import contents, digest

from tauslab.base.errors import ConfigError, InputFileError, OutputError
from tauslab.cli.commands.answer import summary
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.format.schema import PROFILE_COLUMNS
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.open import open_result
from tauslab.store.writers.admission import existing_attributes
from tauslab.store.writers.parts import PartsOptions
from tauslab.store.writers.writer import open_writer

# Parts of two blocks or so, and no merging: a view of many parts.
VIEW = PartsOptions(segment_bytes=500, merge_bytes=0)


def recordings(job):
    """The job with each way of recording."""
    yield job
    yield job.with_layout(trajectories=False)
    yield job.with_layout(trajectories=False, final=False)
    yield job.with_layout(trajectories=False, statistics=False, histograms=())
    yield job.with_layout(statistics=False, histograms=())
    yield job.with_layout(block=23)
    yield job.with_layout(summaries=("mean:X",))


def test_every_writer_gives_the_same_contents(job, tmp_path):
    for index, case in enumerate(recordings(job)):
        path = tmp_path / f"single{index}.h5"
        case.run(path)
        case.check(path)
        expected = contents(path)
        for ranks, parts in ((2, None), (3, VIEW)):
            other = tmp_path / f"r{ranks}-{index}.h5"
            case.run(other, ranks, parts=parts)
            case.check(other)
            assert contents(other) == expected
            folder = other.with_name(f"{other.name}.parts")
            assert folder.exists() == (parts is VIEW)
        for writer in case.run(None, 2):
            arrays = writer.result_arrays
            actual = {name: a for name, a in arrays.items() if not name.startswith("profile/")}
            assert set(actual) == set(expected)
            text = {name for name, a in actual.items() if a.dtype.kind == "O"}
            assert {n: a.tobytes() for n, a in actual.items() if n not in text} == {
                n: v for n, v in expected.items() if n not in text
            }


def test_summaries_are_read_wherever_they_lie(job, tmp_path):
    """A plain file, a view of parts, and rows that an unfinished run has not written."""
    case = job.with_layout(
        summaries=("mean:X",), trajectories=False, final=False, statistics=False, histograms=()
    )
    wanted = job.arrays["summary/mean:X"]
    for name, ranks, parts in (("plain", 1, None), ("view", 3, VIEW)):
        path = tmp_path / f"{name}.h5"
        case.run(path, ranks, parts=parts)
        with open_result(path) as result:
            assert np.array_equal(result.summary("mean"), wanted)
            with result.to_xarray() as dataset:
                assert dataset["mean:X"].dims == ("trajectory",)
                assert np.array_equal(dataset["mean:X"].values, wanted)
    path = tmp_path / "broken.h5"
    case.run(path, stop_after=2)
    with open_result(path) as result:
        there = np.repeat(result.completed_blocks, case.layout.block)[: case.layout.n]
        assert 0 < there.sum() < case.layout.n
        with pytest.warns(UserWarning, match="unfinished"):
            actual = result.summary("mean")
        assert np.array_equal(actual, wanted[there])


def test_attributes_and_text(job, tmp_path):
    path = tmp_path / "a.h5"
    job.run(path, 2)
    with h5py.File(path) as file:
        assert file.attrs["format"] == b"tauslab"
        assert file.attrs["seed"] == 2**64 - 1
        assert file.attrs["record"] == b"trajectories,statistics,final,histogram:X:0.0:800.0:4"
        assert file["model/source"][()].decode() == "<sbml>ü</sbml>"
        assert file["model/source"].attrs["name"] == b"m.xml"
        assert file["profile/events"][()].tolist() == [7, 8]
        assert file["profile/device"][()].tolist() == [b"cpu 0", b"cpu 1"]
        assert h5py.check_enum_dtype(file["status"].dtype)["missing"] == 255
        np.testing.assert_array_equal(
            file["statistics/histogram/X"][()].sum(1), file["statistics/n"][()]
        )


def test_profile(job, tmp_path):
    """A row per rank; what a rank does not tell is 0, and what has no column is left out."""
    for index, ranks in enumerate((1, 3)):
        path = tmp_path / f"{index}.h5"
        job.run(path, ranks, parts=VIEW)
        with h5py.File(path) as file:
            assert set(file["profile"]) == {"rank", *PROFILE_COLUMNS}
            assert file["profile/rank"][()].tolist() == list(range(ranks))
            assert file["profile/compute"][()].tolist() == [1.5] * ranks
            assert file["profile/wait"][()].tolist() == [0.0] * ranks
            assert file["profile/wait"].dims[0][0].name == "/profile/rank"


def test_axes_have_scales(job, tmp_path):
    job.run(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        for name, axes in {
            "counts": ("trajectory", "time", "species"),
            "observables": ("trajectory", "time", "observable"),
            "final": ("trajectory", "species"),
            "status": ("trajectory",),
            "statistics/n": ("time",),
            "statistics/variance": ("time", "species"),
            "statistics/histogram/X": ("time", "statistics/histogram/X.bin"),
        }.items():
            assert tuple(axis[0].name for axis in file[name].dims) == tuple(f"/{a}" for a in axes)


@pytest.mark.parametrize("parts", [None, VIEW])
def test_xarray_and_dask_open_the_file(job, tmp_path, parts):
    dask_array = pytest.importorskip("dask.array")
    path = tmp_path / "a.h5"
    job.run(path, 1 if parts is None else 2, parts=parts)
    with xarray.open_dataset(path, engine="h5netcdf", chunks={}) as data:
        assert data["counts"].dims == ("trajectory", "time", "species")
        assert set(data.coords) == {"time", "species", "observable"}
        assert data["observables"].dims == ("trajectory", "time", "observable")
        expected = job.arrays["counts"][:, :, 1].sum(0)
        np.testing.assert_array_equal(
            data["counts"].sel(species="protein_Y").sum("trajectory").compute(), expected
        )
    with xarray.open_dataset(path, engine="h5netcdf", group="statistics") as data:
        assert data["mean"].dims == ("time", "species")
    with xarray.open_dataset(path, engine="h5netcdf", group="statistics/histogram") as data:
        assert data["X"].dims == ("time", "X.bin")
    with h5py.File(path) as file:
        lazy = dask_array.from_array(file["counts"], chunks=(5, 4, 2))
        np.testing.assert_array_equal(lazy.sum(0).compute()[:, 1], expected)


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        pytest.param(1, 3, None, marks=pytest.mark.validate),
        (3, 2, VIEW),
        pytest.param(1, 1, None, marks=pytest.mark.validate),
        pytest.param(2, 1, None, marks=pytest.mark.validate),
        pytest.param(2, 3, None, marks=pytest.mark.validate),
        pytest.param(1, 2, VIEW, marks=pytest.mark.validate),
    ],
)
def test_resume_on_other_ranks(job, tmp_path, first, second, parts):
    whole = tmp_path / "whole.h5"
    for index, case in enumerate(recordings(job)):
        case.run(whole, overwrite=True)
        path = tmp_path / f"{index}.h5"
        case.run(path, first, stop_after=2, parts=parts)
        with h5py.File(path) as file:
            assert file["progress/complete"][()] == 0
            assert file["status"].shape == (23,)
        writers = case.run(path, second, resume=True, parts=parts)
        done = 8 if case.layout.block == 23 else 4
        assert writers[0].completed.sum() == min(done, case.layout.n_blocks)
        case.check(path)
        assert contents(path) == contents(whole)
        assert digest(path) == digest(whole)


def test_moved_view_still_opens(job, tmp_path):
    (tmp_path / "here").mkdir()
    job.run(tmp_path / "here" / "a.h5", 2, parts=VIEW)
    (tmp_path / "here").rename(tmp_path / "there")
    job.check(tmp_path / "there" / "a.h5")


def test_a_run_says_that_its_data_stay_in_parts(job, tmp_path):
    """A file that is moved without them reads as fill values in other programs."""
    for name, options in {"plain.h5": {}, "view.h5": {"parts": VIEW}}.items():
        job.run(tmp_path / name, 2, **options)
        with open_result(tmp_path / name) as result:
            lines = [line for line in summary(result) if "parts" in line]
        assert bool(lines) == (name == "view.h5")
    assert re.fullmatch(
        r"  its trajectories are \d+ parts of [0-9.]+ KiB in view.h5.parts: move the folder with "
        "the file, or join both by `tauslab merge view.h5`",
        lines[0],
    )


def test_no_room_to_merge_gives_a_view(job, tmp_path):
    class TightAtTheEnd(Disk):
        """Full once both ranks have their part."""

        def free_bytes(self, folder):
            return 100 if len(list(folder.glob("r*.h5"))) == 2 else super().free_bytes(folder)

    path = tmp_path / "a.h5"
    with pytest.warns(UserWarning, match="a.h5: that takes .* MiB, and 9.54e-05 MiB are free"):
        job.run(path, 2, disk=TightAtTheEnd())
    with h5py.File(path) as file:
        assert file["counts"].is_virtual
    job.check(path)


def test_a_finished_result_has_nothing_to_resume(job, tmp_path):
    path = tmp_path / "a.h5"
    job.run(path)
    before = path.read_bytes()
    for ranks in (1, 2):
        writers = job.run(path, ranks, resume=True)
        assert all(writer.completed.all() for writer in writers)
    assert path.read_bytes() == before


def test_a_finished_result_takes_no_more(job, tmp_path):
    path = tmp_path / "a.h5"
    job.run(path)
    writer = open_writer(path, job.layout, Communicator(), resume=True)
    with pytest.raises(ValueError, match="trajectory 0 is in the finished result already"):
        writer.write(job.chunk(0, 2))
    writer.checkpoint({}, writer.completed)
    writer.finish({}, [])
    writer.abort()
    job.check(path)


def test_resume_without_a_file_starts_one(job, tmp_path):
    job.run(tmp_path / "a.h5", resume=True)
    job.check(tmp_path / "a.h5")


def test_existing_attributes(job, tmp_path):
    assert not existing_attributes(tmp_path / "a.h5")
    job.run(tmp_path / "a.h5")
    assert existing_attributes(tmp_path / "a.h5")["block"] == 3


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_existing_file_is_refused(job, tmp_path, ranks):
    path = tmp_path / "a.h5"
    path.write_text("mine")
    with pytest.raises(
        ConfigError,
        match=r"exists; use output=.*, resume=True or another output=",
    ):
        job.run(path, ranks)
    with pytest.raises(ConfigError, match="not an HDF5 file"):
        job.run(path, ranks, resume=True)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


def test_overwrite_removes_old_parts(job, tmp_path):
    path = tmp_path / "a.h5"
    job.run(path, 3, parts=VIEW)
    job.run(path, 2, parts=VIEW, overwrite=True)
    job.check(path)
    job.run(path, overwrite=True)
    job.check(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 24}, "its n is 23, not 24"),
        ({"times": np.array([0, 1, 2, 3.0])}, "last sample time is 1.0, not 3.0"),
        ({"times": np.array([0, 1.0])}, "number of sample times is 4, not 2"),
        ({"species": ("X", "Z")}, "list of species is X, protein_Y, not X, Z"),
        ({"final": False}, "its record is"),
        ({"block": 4}, "its block is 3, not 4"),
        ({"attributes": {"method": "tau", "seed": 1, "model_sha256": "ab" * 32}}, "its method"),
        ({"attributes": {"method": "ssa", "seed": 1, "model_sha256": "ab" * 32}}, "its seed"),
        ({"attributes": {"method": "ssa", "seed": 1, "model_sha256": "cd"}}, "its model_sha256"),
    ],
)
def test_resume_of_another_run_is_refused(job, tmp_path, changes, message):
    path = tmp_path / "a.h5"
    job.run(path, stop_after=1)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=message):
        job.with_layout(**changes).run(path, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("ranks", [1, 2])
def test_full_disk_at_creation_leaves_nothing(job, tmp_path, ranks):
    path = tmp_path / "a.h5"
    for creations in range(4):
        with pytest.raises(
            OutputError, match=r"a\.h5\S* cannot be written: No space left"
        ) as failed:
            job.run(path, ranks, disk=FullDisk(creations=creations))
        assert "\n" not in str(failed.value)
        names = [p.name for p in tmp_path.rglob("*") if p.is_file()]
        assert not [name for name in names if name.endswith("-tmp")]
        if ranks == 1:
            assert names == []
        else:  # the result itself may exist when a part finds no room
            assert names == [] or not open_result(path).complete
            path.unlink(missing_ok=True)


LIMITED = """
import resource, signal, sys
from pathlib import Path

from sample_job import sample_job
from tauslab.base.errors import OutputError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
for ranks in (1, 2):
    try:
        sample_job().run(Path("a.h5"), ranks)
    except OutputError as error:
        print(error)
"""


@pytest.mark.parametrize("most", [100, 5000])
def test_the_system_refuses_to_write(tmp_path, most):
    """As a used-up quota, which shows only when writing: no crash inside HDF5, nothing left."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(most)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["a.h5 cannot be written: File too large"] * 2
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_too_little_room_is_seen_before_anything_is_written(job, tmp_path, ranks):
    class Small(Disk):
        def free_bytes(self, folder):
            return 1000

    with pytest.raises(OutputError, match=r"a\.h5 cannot be written: No space left on device"):
        job.run(tmp_path / "a.h5", ranks, disk=Small())
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(job, tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    job.run(path, stop_after=1)
    before = path.read_bytes()
    for locked, options, message in (
        (tmp_path, {"overwrite": True}, f"the folder {tmp_path} is not writable"),
        (path, {"resume": True}, "cannot be resumed: the file is not readable and writable"),
    ):
        # The administrator may write anywhere, so permissions alone would test nothing.
        monkeypatch.setattr(os, "access", lambda where, mode, locked=locked: where != locked)
        with pytest.raises(ConfigError, match=message):
            job.run(path, **options)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


def test_bad_paths_are_refused(job, tmp_path):
    for path, message in (
        (tmp_path / "no" / "a.h5", "the folder .*/no does not exist"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_writer(path, job.layout, Communicator())
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_what_is_complete(job, tmp_path):
    for ranks in (1, 2):
        path = tmp_path / f"{ranks}.h5"
        with pytest.raises(OutputError, match="No space left on device"):
            job.run(path, ranks, disk=FullDisk(left=18))
        with pytest.raises(InputFileError, match="is unfinished"):
            digest(path)
        writers = job.run(path, ranks, resume=True)
        assert 0 < writers[0].completed.sum() < job.layout.n_blocks
        job.check(path)


@pytest.mark.parametrize("path", ["a.h5", None])
def test_a_result_with_gaps_cannot_be_finished(job, tmp_path, path):
    comm = Communicator()
    writer = open_writer(path and tmp_path / path, job.layout, comm)
    writer.write(job.chunk(0, 2))
    with pytest.raises(OutputError, match="cannot be finished"):
        writer.finish(job.totals(), [{}])
    writer.abort()


def test_a_chunk_of_another_type_is_refused(job, tmp_path):
    writer = open_writer(tmp_path / "a.h5", job.layout, Communicator())
    chunk = job.chunk(0, 2)
    chunk.arrays["counts"] = chunk.arrays["counts"].astype(np.int64)
    with pytest.raises(ValueError, match="counts: int64"):
        writer.write(chunk)
    writer.abort()
