"""Outputs: never over what is no plain file or is read, and one run at a time."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys

import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError, OutputError
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store import locks
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.locks import lock_path, writing_result, written_by_us

MODEL = '[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nrate = 1\n'
RUN = ("run", "m.toml", "-n", "3", "--t-end", "1", "--quiet", "--device", "cpu", "--threads", "1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(MODEL)
    return tmp_path


def make_pipe(path):
    os.mkfifo(path)


def make_link(path):
    path.symlink_to("elsewhere")


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def what_it_is(path):
    """Without the time of the last look, which looking at a link changes."""
    actual = path.lstat()
    return actual.st_ino, actual.st_mode, actual.st_size, actual.st_mtime_ns


@pytest.mark.parametrize("make", [make_pipe, make_link, make_socket])
@pytest.mark.parametrize(
    "command",
    [
        RUN,
        ("rdme", "box.toml"),
        ("dbn", "m.toml", "--unknown", "X", "--range", "X=1:2", "--t-end", "1"),
        ("export", "done.h5"),
        ("plot", "done.h5"),
        ("slurm",),
    ],
    ids=lambda words: words[0],
)
def test_only_plain_files_are_replaced(folder, capsys, make, command):
    make(folder / "out.h5")
    before = what_it_is(folder / "out.h5")
    if command[0] == "rdme":
        (folder / "box.toml").write_text(
            "t_end = 1e-3\n[lattice]\nshape = [2, 2, 2]\nspacing = 1e-8\n[species]\nA = 1\n"
        )
    rest = ("--", "run", "m.toml") if command[0] == "slurm" else ()
    assert main([*command, "-o", "out.h5", "--overwrite", *rest]) == 2
    message = capsys.readouterr().err
    assert "out.h5 is a" in message
    assert message.count("\n") == 1
    assert what_it_is(folder / "out.h5") == before
    assert not (folder / "elsewhere").exists()


def test_what_appears_during_a_run_is_not_replaced(folder):
    def build(temporary):
        temporary.write_text("new")
        os.mkfifo(folder / "out")

    with pytest.raises(OSError, match="it is a pipe"):
        publish(folder / "out", Disk(), build)
    assert [p.name for p in folder.iterdir() if p.name != "m.toml"] == ["out"]


def test_inputs_are_not_replaced(folder, capsys):
    (folder / "times.txt").write_text("0\n1\n")
    (folder / "table.csv").write_text("X\n4\n5\n")
    (folder / "values.txt").write_text("X=4\n")
    (folder / "link.h5").symlink_to("m.toml")
    os.link(folder / "m.toml", folder / "hard.h5")
    plain = RUN[:4]
    for name, words in (
        ("m.toml", RUN),
        ("link.h5", RUN),
        ("hard.h5", RUN),
        ("times.txt", (*plain, "--times", "times.txt")),
        ("table.csv", (*RUN, "--table", "table.csv")),
        ("values.txt", (*RUN, "--set", "@values.txt")),
    ):
        before = (folder / name).read_bytes()
        assert main([*words, "-o", name, "--overwrite"]) == 2
        message = capsys.readouterr().err
        assert "which this command reads" in message or "a result is an HDF5 file" in message
        assert (folder / name).read_bytes() == before
    with pytest.raises(ConfigError, match=r"would be written over m\.toml"):
        ts.run("m.toml", n=2, t_end=1, output=ts.Output("m.toml", overwrite=True))
    assert main([*RUN, "-o", "a.h5"]) == 0
    before = (folder / "a.h5").read_bytes()
    assert main(["run", "a.h5", "--overwrite", "--quiet"]) == 2  # its default output is itself
    assert main(["export", "a.h5", "-o", "a.h5", "--overwrite"]) == 2
    assert (folder / "a.h5").read_bytes() == before
    (folder / "notes").write_text("a plain file")
    assert main([*RUN, "-o", "notes", "--overwrite"]) == 0
    assert main(["digest", "notes"]) == 0


HOLD = """if True:
    import sys, time
    from pathlib import Path
    from tauslab.decomposition.ranks.mpi import Communicator
    from tauslab.store.locks import written_by_us
    with written_by_us(Path("a.h5"), Communicator()):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_second_run_is_told_who_writes(folder, capsys):
    assert main([*RUN, "-o", "a.h5"]) == 0
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            who = f"process {holder.pid} on {socket.gethostname()} since 20"
            for words in (
                (*RUN, "-o", "a.h5"),
                (*RUN, "-o", "a.h5", "--overwrite"),
                (*RUN, "-o", "a.h5", "--resume"),
                ("run", "m.toml", "--append", "2", "-o", "a.h5"),
                ("merge", "a.h5"),
            ):
                assert main(list(words)) == 2
                assert f"a.h5 is being written by {who}" in capsys.readouterr().err
        finally:
            holder.kill()
    # The dead hold nothing, and a run leaves no file behind.
    assert lock_path(folder / "a.h5").exists()
    assert main([*RUN, "-o", "a.h5", "--overwrite"]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["a.h5", "m.toml"]


TABLE = "time,X\n1,3\n"
SEARCH = ("rare", "m.toml", "--target", "X <= 1", "--t-end", "1", "--seed", "1")
COURSE = ("filter", "m.toml", "t.csv", "--observe", "X=poisson(1)", "--seed", "1")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (SEARCH, "-o"),
        (SEARCH, "--checkpoint"),
        (COURSE, "-o"),
        (COURSE, "--checkpoint"),
        (("population", "m.toml", "--division", "d", "--t", "1"), "-o"),
        (("sensitivity", "m.toml", "--t", "1"), "-o"),
    ],
)
def test_a_second_analysis_is_told_who_writes(folder, capsys, words, option):
    """Two on one file: the second would replace what the first wrote, and both would end with 0."""
    (folder / "t.csv").write_text(TABLE)
    with written_by_us(folder / "a.h5", Communicator()):
        assert main([*words, option, "a.h5", "--device", "cpu", "--quiet"]) == 2
        message = capsys.readouterr().err
    assert f"a.h5 is being written by process {os.getpid()}" in message
    assert f"choose another {option}" in message
    assert sorted(p.name for p in folder.iterdir()) == ["m.toml", "t.csv"]


def test_what_appears_during_an_analysis_is_kept(folder):
    path = folder / "a.h5"
    with writing_result(path, Communicator()) as write:
        path.write_text("of another program")
        with pytest.raises(ConfigError, match=r"a\.h5 exists"):
            write(lambda new: new.write_text("ours"))
    assert path.read_text() == "of another program"
    with writing_result(path, Communicator(), overwrite=True) as write:
        write(lambda new: new.write_text("ours"))
    assert path.read_text() == "ours"


def test_many_take_turns(folder):
    """A lock that is removed while another waits for it is not taken for one that is held."""
    path, comm = folder / "a.h5", Communicator()
    program = """if True:
        from pathlib import Path
        from tauslab.base.errors import ConfigError
        from tauslab.decomposition.ranks.mpi import Communicator
        from tauslab.store.locks import written_by_us
        done = 0
        while done < 200:
            try:
                with written_by_us(Path("a.h5"), Communicator()):
                    Path("mine").mkdir()  # fails if another is in here
                    Path("mine").rmdir()
                    done += 1
            except ConfigError:
                pass
    """
    runs = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [run.wait(timeout=100) for run in runs] == [0, 0]
    with written_by_us(path, comm):
        assert lock_path(path).exists()
    assert not lock_path(path).exists()


def test_a_lock_that_fails_is_not_one_that_is_held(folder, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(locks.fcntl, "flock", fail)
    with (
        pytest.raises(OutputError, match="cannot be locked: Input/output error"),
        written_by_us(folder / "a.h5", Communicator()),
    ):
        pass


def test_a_file_system_without_locks(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with (
        pytest.warns(UserWarning, match="this file system has no locks"),
        written_by_us(folder / "a.h5", Communicator()),
    ):
        assert not lock_path(folder / "a.h5").exists()
