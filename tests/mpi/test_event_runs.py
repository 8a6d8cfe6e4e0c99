"""Runs with events on several ranks, by Dask workers, and killed at any moment."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time

import h5py
import pytest
from delay_models import many_delays
from event_models import looking_back

from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

pytestmark = [pytest.mark.mpi, pytest.mark.validate]

MODEL = """
[parameters]
dose = 100.0
[species]
X = 1000
F = 0
k = {initial = 900.0, fixed = true}
V = {initial = 1.0, fixed = true}
[[reactions]]
equation = "-> X"
law = "k * V"
[[reactions]]
equation = "X ->"
rate = 1.0
[[events]]
name = "dose"
trigger = "time >= 1"
assignments = {X = "X + dose"}
[[events]]
name = "late"
trigger = "X > 1050"
delay = 0.5
assignments = {k = "k / 2 + 100", F = "F + 1"}
"""
MOVES = """
[rules]
V = "0.4 * V"
[[events]]
name = "division"
trigger = "V >= 1.7"
assignments = {V = "V / 2"}
"""


def digests(path):
    with open_result(path) as result:
        return digest_lines(result, None)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("method", ["ssa", "tau"])
def test_ranks_workers_and_kills_do_not_change_the_bits(mpirun, tmp_path, method, moves):
    model = tmp_path / "model.toml"
    model.write_text(MODEL + MOVES * moves)
    compare(mpirun, tmp_path, model, "--method", method, "--sweep", "dose=list:100,300")


def test_equations_that_look_back_too(mpirun, tmp_path):
    model = many_delays().write(tmp_path / "model.toml")
    compare(mpirun, tmp_path, model, "--method", "ode", "--sample", "tau=uniform(0.2,2)")


def test_counts_that_are_looked_back_at_too(mpirun, tmp_path):
    model = looking_back().write(tmp_path / "model.toml")
    compare(mpirun, tmp_path, model, "--sweep", "tau=list:0,0.5,2")


def compare(mpirun, tmp_path, model, *more):
    run = ["-m", "tauslab", "run", model, *more, "-n", "300", "--t-end", "4",
           "--points", "9", "--seed", "5", "--device", "cpu", "--threads", "1", "--block", "16",
           "--quiet", "--record", "trajectories,statistics,final"]  # fmt: skip
    one = tmp_path / "one.h5"
    subprocess.run([sys.executable, *run, "-o", one], check=True, timeout=200)
    expected = digests(one)
    mpirun(3, [*run, "-o", tmp_path / "three.h5"])
    assert digests(tmp_path / "three.h5") == expected
    if importlib.util.find_spec("distributed") is not None:
        dask = ["--executor", "dask", "--workers", "2", "-o", tmp_path / "dask.h5"]
        subprocess.run([sys.executable, *run, *dask], check=True, timeout=200)
        assert digests(tmp_path / "dask.h5") == expected
    killed = tmp_path / "killed.h5"
    running = subprocess.Popen([sys.executable, *run, "-o", killed])
    while running.poll() is None and not some_blocks(killed):
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL) if running.poll() is None else None
    running.wait()
    subprocess.run([sys.executable, *run, "--resume", "-o", killed], check=True, timeout=200)
    assert digests(killed) == expected


def some_blocks(path) -> bool:
    try:
        with h5py.File(path, "r", locking=False) as file:
            return bool(file["progress/blocks"][...].any())
    except (OSError, KeyError):
        return False
