"""Results opened: from memory and files alike, and never with a part missing in silence."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest
from sample_job import digest

from tauslab.base.errors import InputFileError
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=500, merge_bytes=0)


def test_digest_does_not_depend_on_the_storage(job, tmp_path):
    totals = set()
    for ranks in (1, 2, 3):
        for name, parts in (("merged", None), ("view", VIEW)):
            path = tmp_path / f"{name}{ranks}.h5"
            job.run(path, ranks, parts=parts)
            with h5py.File(path) as file:
                assert file["counts"].is_virtual == (ranks > 1 and parts is VIEW)
            totals.add(digest(path))
        for writer in job.run(None, ranks):
            result = Result(writer.result_arrays, writer.attributes)
            totals.add(digest_total(digest_lines(result)))
    assert len(totals) == 1
    job.arrays["counts"][7, 1, 1] += 1
    job.run(tmp_path / "other.h5")
    assert digest(tmp_path / "other.h5") not in totals


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_unfinished_result_shows_what_is_complete(job, tmp_path, ranks):
    path = tmp_path / "a.h5"
    job.run(path, ranks, stop_after=2)
    with open_result(path) as result:
        assert not result.complete
        assert np.flatnonzero(result.completed_blocks).tolist() == [0, 1, 2, 3]
    with pytest.raises(InputFileError, match=r"unfinished \(4 of 8 blocks are there\)"):
        digest(path)


def spoil_missing(part, other):
    part.unlink()


def spoil_cut(part, other):
    part.write_bytes(part.read_bytes()[:-600])


def spoil_foreign(part, other):
    shutil.copy(other, part)


def spoil_shape(part, other):
    with h5py.File(part, "r+") as file:
        values = file["status"][()]
        del file["status"]
        file["status"] = values[:1]


def spoil_link(part, other):
    with h5py.File(part, "r+") as file:
        del file["status"]
        file["status"] = h5py.ExternalLink(str(other), "status")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_missing, r"one of them, a\.h5\.parts/r0001-000\.h5, is missing"),
        (spoil_cut, r"one of them, a\.h5\.parts/r0001-000\.h5, cannot be opened"),
        (spoil_foreign, r"one of them, a\.h5\.parts/r0001-000\.h5, belongs to another run"),
        (spoil_shape, r"/status in a\.h5\.parts/r0001-000\.h5 is not what it shows of it"),
        (spoil_link, r"/status in a\.h5\.parts/r0001-000\.h5 is not what it shows of it"),
    ],
)
def test_a_bad_part_is_noticed(job, tmp_path, spoil, message):
    for name in ("a.h5", "b.h5") if spoil in {spoil_foreign, spoil_link} else ("a.h5",):
        job.run(tmp_path / name, 2, parts=VIEW)
    folders = [tmp_path / f"{name}.parts" for name in ("a.h5", "b.h5")]
    spoil(*(folder / "r0001-000.h5" for folder in folders))
    with pytest.raises(InputFileError, match=message):
        open_result(tmp_path / "a.h5")


def test_a_bad_part_of_an_unfinished_result_is_noticed(job, tmp_path):
    job.run(tmp_path / "a.h5", 2, stop_after=2)
    spoil_cut(tmp_path / "a.h5.parts" / "r0001-000.h5", None)
    with pytest.warns(UserWarning, match=r"r0001-000\.h5 .*truncated"):
        result = open_result(tmp_path / "a.h5")
    assert result.completed_blocks.sum() == 2  # those of the first part
    result.close()


def test_a_moved_view_opens(job, tmp_path):
    (tmp_path / "here").mkdir()
    job.run(tmp_path / "here" / "a.h5", 2, parts=VIEW)
    expected = digest(tmp_path / "here" / "a.h5")
    (tmp_path / "here").rename(tmp_path / "there")
    assert digest(tmp_path / "there" / "a.h5") == expected


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"format": "other"}, "is not a result of tauslab"),
        ({"format_version": 1}, "has format version 1; this tauslab reads 2"),
    ],
)
def test_files_of_others_are_refused(job, tmp_path, attributes, message):
    path = tmp_path / "a.h5"
    job.run(path)
    with h5py.File(path, "r+") as file:
        file.attrs.update(attributes)
    with pytest.raises(InputFileError, match=message):
        open_result(path)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "text.h5").write_text("mine")
    for name, message in (
        ("no.h5", "no such file"),
        ("", "not a file"),
        ("text.h5", "not an HDF5"),
    ):
        with pytest.raises(InputFileError, match=message):
            open_result(tmp_path / name)
