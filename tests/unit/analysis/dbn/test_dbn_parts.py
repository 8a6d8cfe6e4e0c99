"""A build that is killed: its parts are whole, and ``--resume`` completes the same network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dbn_factory import CHAIN

import tauslab
import tauslab as ts
from tauslab import dbn
from tauslab.analysis.dbn.parts import gathered, next_attempt, parts_of
from tauslab.analysis.dbn.results.file import counted_blocks, network_digest_lines
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main

pytestmark = pytest.mark.slow

BUILD = ["dbn", "chain.toml", "--unknown", "a,b", "--samples", "3000", "--t-end", "4", "--points",
         "5", "--substeps", "10", "--device", "cpu", "--threads", "1", "--block", "50",
         "--quiet"]  # fmt: skip
# Launches take one block. A part is written after each, and a signal comes when the n-th is about
# to get its name, or has it.
PROGRAM = """
import os, signal, sys
from tauslab.cli import main as cli
from tauslab.analysis.dbn import parts as dbn_parts
from tauslab.store.hdf5.disk import Disk
from tauslab.decomposition.blocks import SharedBlocks
begin = SharedBlocks.__init__
SharedBlocks.__init__ = lambda self, numbers, **_: begin(
    self, numbers, smallest=1, room=1, largest=1
)
dbn_parts.SECONDS, dbn_parts._RARELY = 0.0, 0
left, when, replace = [int(sys.argv[1])], sys.argv[2], Disk.replace
sent = getattr(signal, sys.argv[3])
def killed(disk, old, new):
    left[0] -= 1
    if when == "after" or left[0]:
        replace(disk, old, new)
    if not left[0]:
        os.kill(os.getpid(), sent)
Disk.replace = killed
sys.exit(cli.main(sys.argv[4:]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.toml").write_text(CHAIN)
    (tmp_path / "killed.py").write_text(PROGRAM)
    return tmp_path


def kill(count, when, *words, sent="SIGKILL", code=-signal.SIGKILL):
    program = [sys.executable, "killed.py", str(count), when, sent]
    package = str(Path(tauslab.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": package}
    command = [*program, *BUILD, "-o", "x.h5", *words]
    assert subprocess.run(command, env=environment, check=False).returncode == code


def test_a_killed_build_is_completed_to_the_same_network(folder, capsys):
    assert main([*BUILD, "--seed", "7", "-o", "whole.h5"]) == 0
    kill(3, "before", "--seed", "7")
    assert not (folder / "x.h5").exists()
    _, first = gathered(folder / "x.h5")
    assert 0 < first.sum() < 60
    assert main([*BUILD, "--seed", "7", "-o", "x.h5"]) == 2
    assert "x.h5.parts holds what a build of x.h5 had counted" in capsys.readouterr().err
    kill(2, "after", "--resume")  # the seed comes from a part
    assert len(parts_of(folder / "x.h5")) == 2
    assert next_attempt(folder / "x.h5") == 3
    _, both = gathered(folder / "x.h5")
    assert both[first].all()
    assert first.sum() < both.sum() < 60
    assert main([*BUILD, "--resume", "-o", "x.h5"]) == 0
    assert network_digest_lines("x.h5") == network_digest_lines("whole.h5")
    assert sorted(p.name for p in folder.glob("x.h5*")) == ["x.h5"], "parts are removed"


def test_a_signal_ends_a_build_with_all_that_was_counted_in_its_file(folder):
    kill(2, "after", "--seed", "7", sent="SIGTERM", code=75)
    assert sorted(p.name for p in folder.glob("x.h5*")) == ["x.h5"], "no parts"
    assert 0 < counted_blocks(folder / "x.h5").sum() < 60
    assert main([*BUILD, "--resume", "-o", "x.h5"]) == 0
    assert main([*BUILD, "--seed", "7", "-o", "whole.h5"]) == 0
    assert network_digest_lines("x.h5") == network_digest_lines("whole.h5")


@pytest.mark.validate
def test_parts_that_the_file_has_are_not_added_twice(folder):
    """Killed between the file and the removal of its parts."""
    kill(3, "after", "--seed", "7")
    part = parts_of(folder / "x.h5")[0]
    text = part.read_bytes()
    assert main([*BUILD, "--resume", "-o", "x.h5"]) == 0
    lines = network_digest_lines("x.h5")
    part.parent.mkdir()
    part.write_bytes(text)
    assert main([*BUILD, "--resume", "-o", "x.h5"]) == 0
    assert network_digest_lines("x.h5") == lines
    assert not part.exists()


def test_other_settings_are_refused_and_overwriting_removes(folder, capsys):
    kill(2, "after", "--seed", "7")
    assert main([*BUILD, "--resume", "--seed", "8", "-o", "x.h5"]) == 2
    assert "cannot be resumed: it was made with seed = 7, not 8" in capsys.readouterr().err
    assert parts_of(folder / "x.h5")
    assert main([*BUILD, "--seed", "8", "--overwrite", "-o", "x.h5"]) == 0
    assert not parts_of(folder / "x.h5")
    assert dbn.load("x.h5").attributes["seed"] == 8


def test_a_part_of_another_build_is_refused(folder):
    kill(2, "after", "--seed", "7")
    path = folder / "x.h5"
    part = parts_of(path)[0]
    network, blocks = dbn.load(part, unfinished=True), counted_blocks(part)
    dbn.save(network, path, np.append(blocks, False))
    with pytest.raises(OSError, match="of another build than"):
        gathered(path)
    mixed = blocks.copy()
    mixed[np.flatnonzero(blocks)[0]] = False
    dbn.save(network, path, mixed)
    with pytest.raises(OSError, match="in part: remove it"):
        gathered(path)


def test_short_builds_leave_no_parts(folder):
    options = {
        "unknown": ["a", "b"],
        "samples": 300,
        "t_end": 4,
        "points": 5,
        "device": ts.CPU(threads=1),
    }
    dbn.build("chain.toml", output="x.h5", **options)
    assert sorted(p.name for p in folder.glob("x.h5*")) == ["x.h5"]
    with pytest.raises(ConfigError, match="exists"):
        dbn.build("chain.toml", output="x.h5", **options)
