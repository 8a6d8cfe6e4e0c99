"""A run that is asked to stop ends within seconds in every phase, and can be gone on with."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tauslab.base.option_names import command_line
from tauslab.cli.main import main
from tauslab.decomposition.ranks.stopping import StopRequest, how_to_resume, watched

BOX = """t_end = {t_end}
[lattice]
shape = [{shape}]
spacing = 32e-9
step = {step}
[species]
A = {count}
[[diffusion]]
species = "A"
coefficient = 1e-12
"""


def started(folder, model, *more):
    (folder / "box.toml").write_text(model)
    words = ["-m", "tauslab", "rdme", "box.toml", "--seed", "1", "--device", "cpu", "--threads",
             "1", "--quiet", "-o", "out.h5", *more]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def when(ready, seconds=60.0):
    end = time.monotonic() + seconds
    while not ready() and time.monotonic() < end:
        time.sleep(0.02)
    assert ready()


def stop(run):
    """Ask a run to stop; seconds that it took, and what it said."""
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    try:
        _, message = run.communicate(timeout=20)
    finally:
        run.kill()
    return time.monotonic() - began, message


class Comm:
    """A rank that notes how it was ended."""

    def __init__(self):
        self.codes = []

    def abort(self, code):
        self.codes.append(code)


@pytest.mark.parametrize(
    ("asked", "asks", "patience", "codes"),
    [
        (True, False, 0.1, [75]),
        (True, True, 0.1, []),
        (False, False, 0.1, []),
        (True, False, None, []),
    ],
    ids=["deaf", "asks", "nobody asked", "a program of a user"],
)
def test_who_does_not_hear_is_ended(capsys, tmp_path, asked, asks, patience, codes):
    comm = Comm()
    stop = StopRequest(end=-math.inf if asked else None, patience=patience)
    with command_line(), watched(stop, comm, tmp_path / "a.h5"):
        if asks:
            assert stop() is asked
        time.sleep(0.8)
    assert comm.codes == codes
    err = capsys.readouterr().err
    assert ("the same command begins it again" in err) == bool(codes)  # there is no file
    assert "--resume" not in err


@pytest.mark.parametrize(
    ("name", "begun"),
    [("a.h5", True), ("a.h5.append", True), ("a.h5.parts/r0000-000.h5", True),
     ("a.h5.tauslab-lock", False), ("a.h5.parts/x", False), ("b.h5", False)],
)  # fmt: skip
def test_resume_is_advised_where_there_is_something(tmp_path, name, begun):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with command_line():
        assert ("--resume" in how_to_resume(tmp_path / "a.h5")) == begun


def test_who_has_to_be_over_in_time_is_ended_though_it_asked(tmp_path):
    comm = Comm()
    stop = StopRequest(end=-math.inf, patience=0.1)
    with watched(stop, comm, tmp_path / "a.h5", by_asking=False):
        assert stop()
        time.sleep(0.8)
    assert comm.codes == [75]


def test_a_function_of_a_user_ends_nothing(tmp_path):
    comm = Comm()
    with watched(lambda: True, comm, tmp_path / "a.h5"):
        time.sleep(0.3)
    assert comm.codes == []


def test_a_step_of_many_passes_is_left_in_the_middle_and_gone_on_with(tmp_path):
    """One step of 5,860 passes, which takes a minute; digests are those of a run by itself."""
    model = BOX.format(t_end=1, shape="48, 48, 48", step=1, count=20000)
    run = started(tmp_path, model)
    when((tmp_path / "out.h5").exists)
    time.sleep(1.0)
    took, message = stop(run)
    assert run.returncode == 75, message
    assert "stopped on request after 0 of 1 steps of replica 0: --resume completes" in message
    assert took < 5


def test_a_run_resumed_inside_a_step_gives_the_same_bits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("box.toml").write_text(BOX.format(t_end=0.06, shape="8, 8, 8", step=0.02, count=900))
    run = ["rdme", "box.toml", "--seed", "3", "--device", "cpu", "--quiet", "--count-every", "1",
           "--frame-every", "2", "-o"]  # fmt: skip
    assert main([*run, "whole.h5"]) == 0
    assert main([*run, "parts.h5", "--max-time", "0"]) == 75  # after the first pass of 118
    assert "after 0 of 3 steps" in capsys.readouterr().err
    for _ in range(3):
        assert main([*run, "parts.h5", "--max-time", "0", "--resume"]) == 75
    assert main([*run, "parts.h5", "--resume"]) == 0
    totals = []
    for name in ("whole.h5", "parts.h5"):
        assert main(["digest", name]) == 0
        totals.append(capsys.readouterr().out.splitlines()[-1])
    assert totals[0] == totals[1]


@pytest.mark.validate
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
def test_placing_particles_can_be_stopped(tmp_path):
    """3e7 particles are placed one after the other before the first step."""
    model = BOX.format(t_end=1, shape="128, 128, 128", step=1e-4, count=30_000_000)
    run = started(tmp_path, model)
    when((tmp_path / "out.h5").exists)  # made just before
    time.sleep(0.5)
    took, message = stop(run)
    assert run.returncode == 75, message
    assert "stopped on request" in message
    assert took < 15  # 3.5 s of patience, and memory that is given back, on a busy machine
