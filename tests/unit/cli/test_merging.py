"""`tauslab merge`: a view of parts becomes one file, and damage is noticed."""

from __future__ import annotations

import h5py
import pytest
from sample_job import sample_job

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.cli.main import main
from tauslab.cli.merge import merge
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=500, merge_bytes=0)


def lines(path):
    with open_result(path) as result:
        return digest_lines(result)


@pytest.mark.parametrize("compress", [0, 6])
def test_a_view_becomes_one_file(tmp_path, compress, capsys):
    path, job = tmp_path / "a.h5", sample_job()
    job.run(path, 3, parts=VIEW)
    before = lines(path)
    assert main(["merge", str(path), "--compress", str(compress)]) == 0
    assert "is one file now" in capsys.readouterr().out
    assert lines(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]
    job.check(path)
    with h5py.File(path) as file:
        assert (file["counts"].compression == "gzip") == bool(compress)
        assert file.attrs["command"] == b"x"
    assert merge(path).endswith("is one file already")
    with pytest.raises(ConfigError, match=r"is one file already, and --compress is for parts"):
        merge(path, 6)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    sample_job().run(path, 2, parts=VIEW)
    with h5py.File(tmp_path / "a.h5.parts" / "r0001-000.h5", "r+") as file:
        file["counts"][0, 0, 0] += 1
    with pytest.raises(InputFileError, match=r"a\.h5 is damaged.*/counts do not agree with"):
        merge(path)


def test_an_unfinished_result_is_refused(tmp_path):
    sample_job().run(tmp_path / "a.h5", 2, stop_after=1)
    with pytest.raises(InputFileError, match="is unfinished: --resume completes it"):
        merge(tmp_path / "a.h5")
