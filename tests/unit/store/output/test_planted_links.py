"""Links that somebody planted at names that can be foreseen: their targets stay as they are."""

from __future__ import annotations

import os
import pathlib

import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError, OutputError
from tauslab.base.files.drafts import draft_of
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import cache
from tauslab.model.network.canonical import write_network
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import lock_path, written_by_us
from tauslab.store.targets import part_files, parts_folder, remove_parts

OLD_NAMES = (".tauslab-tmp", ".writing", ".part", ".tauslab-frames")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    model = ts.Network("decay")
    model.add_species("X", 5)
    model.add_reaction("X ->", rate=1.0)
    ts.run(model, n=3, times=[0.0, 1.0], seed=1, device="cpu", output=str(tmp_path / "a.h5"))
    (tmp_path / "here").mkdir()
    (tmp_path / "victim").write_text("SECRET")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("e.csv", ("export",)),
        ("p.png", ("plot", "--overwrite")),
    ],
)
def test_nothing_is_written_through_a_link(folder, name, command):
    if command[0] == "plot":
        pytest.importorskip("matplotlib")
    for end in OLD_NAMES:
        pathlib.Path(name + end).symlink_to("../victim")
    if "--overwrite" in command:
        pathlib.Path(name).symlink_to("../victim")
    assert main([command[0], "../a.h5", "-o", name, *command[1:]]) == 0
    assert (folder / "victim").read_text() == "SECRET"
    assert not pathlib.Path(name).is_symlink()


def test_a_model_that_is_written_replaces_a_link(folder):
    model = ts.Network("decay")
    model.add_species("X", 5)
    pathlib.Path("m.toml").symlink_to("../victim")
    write_network(model, pathlib.Path("m.toml"))
    assert (folder / "victim").read_text() == "SECRET"
    assert tuple(ts.read("m.toml").species) == ("X",)


def test_parts_are_neither_read_nor_removed_through_a_link(folder):
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "precious.h5").write_bytes(b"data")
    pathlib.Path("a.h5.parts").symlink_to(theirs)
    place = folder / "here" / "a.h5"
    with pytest.raises(InputFileError, match="parts"):
        remove_parts(place, Disk())
    assert (theirs / "precious.h5").read_bytes() == b"data"
    pathlib.Path("a.h5.parts").unlink()
    parts_folder(place).mkdir()
    pathlib.Path("a.h5.parts/r0-0.h5").symlink_to(theirs / "precious.h5")
    with pytest.raises(InputFileError, match="r0-0"):
        part_files(parts_folder(place))


def test_a_lock_is_never_a_second_name_of_a_file(folder):
    output = folder / "here" / "z.h5"
    os.link(folder / "victim", lock_path(output))
    with (
        pytest.raises(ConfigError, match="tauslab-lock"),
        written_by_us(output, Communicator()),
    ):
        pass
    assert (folder / "victim").read_text() == "SECRET"


def test_who_holds_the_lock_removes_drafts_of_killed_runs(folder):
    output = folder / "here" / "z.h5"
    draft_of(output).write_bytes(b"half a file")
    other = draft_of(output.with_name("y.h5"))
    other.write_bytes(b"being written")
    with written_by_us(output, Communicator()):
        assert sorted(p.name for p in output.parent.iterdir()) == sorted(
            [lock_path(output).name, other.name]
        )


def test_kernels_are_not_kept_behind_a_link_in_the_temporary_folder(folder, monkeypatch):
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(folder))
    (folder / "mine").mkdir(mode=0o700)
    pathlib.Path(folder / f"tauslab-{os.getuid()}").symlink_to("mine")
    with pytest.raises(OutputError, match="TAUSLAB_CACHE_DIR"):
        cache._temporary_folder()
