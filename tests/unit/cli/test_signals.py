"""Signals end a run within seconds, whatever it is about, and --resume goes on."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.store.results.digest import digest_lines

WITHIN = 5.0  # seconds from the signal to the end
START = [sys.executable, "-m", "tauslab", "run"]

# 2e9 events per unit of time: no trajectory ends while anybody looks.
ENDLESS = """
[species]
X = 1000000
[[reactions]]
equation = "-> X"
rate = 1e9
[[reactions]]
equation = "X ->"
rate = 1000
"""


@pytest.fixture
def endless(tmp_path):
    path = tmp_path / "endless.toml"
    path.write_text(ENDLESS)
    return path


def started(arguments, folder, **environment):
    paths = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [*START, *map(str, arguments)], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths, **environment},
    )  # fmt: skip


def ended(process, number):
    """Exit code, what it said, and seconds after the signal."""
    requested = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out + err, time.monotonic() - requested


def read_until(stream, text):
    """The line that holds the text, and seconds that it took to come."""
    began = time.monotonic()
    for line in stream:
        if text in line:
            return line, time.monotonic() - began
    raise AssertionError(f"{text!r} was never said")


@pytest.mark.parametrize("number", ordinary([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
def test_inside_an_endless_trajectory(endless, tmp_path, number):
    """The user hears of the length of the run within 10 s, and is obeyed within 5 s."""
    run = [endless, "--t-end", "300", "-n", "20", "--device", "cpu", "--threads", "1"]
    process = started(run, tmp_path)
    line, after = read_until(process.stderr, "exact trajectories")
    assert after < 10.0 + 20.0, "10 s, and the compiler's time beside other tests"
    assert line.startswith("tauslab: endless: about 1.")
    assert "e+13 events in 20 exact trajectories, about " in line
    time.sleep(1.0)
    code, message, took = ended(process, number)
    assert code == 75
    assert took < WITHIN
    assert "--resume completes endless.h5" in message
    assert "blocks done" in message
    with ts.open(tmp_path / "endless.h5") as actual:
        assert not actual.complete


# Launches of one block; a signal comes when the third has been written.
ASKED = """
import os, signal, sys
from tauslab.cli.main import main
from tauslab.runner.ensemble.driver import EnsembleRun
from tauslab.decomposition.blocks import SharedBlocks
begin, deliver, written = SharedBlocks.__init__, EnsembleRun._deliver, []
def one_block(self, numbers, **_):
    begin(self, numbers, smallest=1, room=1, largest=1)
def asked(self, lane, delivery):
    deliver(self, lane, delivery)
    written.append(1)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
SharedBlocks.__init__, EnsembleRun._deliver = one_block, asked
sys.exit(main(sys.argv[1:]))
"""


def test_what_ended_in_time_is_kept_and_resumed(endless, tmp_path):
    """Short trajectories: the launch in flight may end; the rest is computed by --resume."""
    run = ["run", endless, "--t-end", "0.000001", "-n", "80", "--device", "cpu", "--threads", "1",
           "--points", "3", "--seed", "5", "--block", "2", "--quiet"]  # fmt: skip
    (tmp_path / "asked.py").write_text(ASKED)
    done = subprocess.run(
        [sys.executable, "asked.py", *map(str, run)], cwd=tmp_path, capture_output=True,
        text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 75, done.stdout + done.stderr
    path = tmp_path / "endless.h5"
    with ts.open(path) as actual:
        assert 3 <= actual.completed_blocks.sum() < 40
    assert main([*map(str, run), "--resume", "-o", str(path)]) == 0
    whole = ts.run(ts.read(endless), n=80, t_end=0.000001, points=3, seed=5, device="cpu")
    with ts.open(path) as actual:
        assert digest_lines(actual) == digest_lines(whole)


def test_while_the_model_is_read(tmp_path):
    """A reader that sleeps stands for a file that takes long."""
    program = (
        "import sys, time\n"
        "from tauslab.cli.commands import run\n"
        "from tauslab.cli.main import main\n"
        "def read(*_):\n"
        "    print('reading', flush=True)\n"
        "    time.sleep(60)\n"
        "run.read_with_progress = read\n"
        "sys.exit(main(['run', 'slow.toml', '--t-end', '1']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    read_until(process.stdout, "reading")
    code, message, took = ended(process, signal.SIGTERM)
    assert (code, took < WITHIN) == (75, True), message
    assert "stopped on request before the run had begun" in message
    assert not list(tmp_path.glob("*.h5*"))


def test_while_the_compiler_runs(endless, tmp_path):
    """The compiler, which takes a minute here, ends too."""
    real = shutil.which("g++")
    if real is None:
        pytest.skip("no g++")
    slow = tmp_path / "bin" / "g++"
    slow.parent.mkdir()
    pid = tmp_path / "pid"
    slow.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *.so*) echo $$ > {pid}; exec sleep 60;; *) exec {real} "$@";; esac\n'
    )
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    cache = str(tmp_path / "cache")
    process = started(
        [endless, "--t-end", "1", "--device", "cpu"], tmp_path, PATH=path, TAUSLAB_CACHE_DIR=cache
    )
    end = time.monotonic() + 30
    while not pid.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    code, message, took = ended(process, signal.SIGINT)
    assert (code, took < WITHIN) == (75, True), message
    assert not list(tmp_path.glob("*.h5*"))
    assert not Path(f"/proc/{int(pid.read_text())}/exe").exists(), "the compiler is gone"


def test_from_python(endless, tmp_path):
    """KeyboardInterrupt, within seconds, and no thread goes on computing."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time, warnings\n"
        "import tauslab as ts\n"
        "warnings.simplefilter('ignore')\n"
        f"net = ts.read({str(endless)!r})\n"
        "print('begins', flush=True)\n"
        "try:\n"
        "    ts.run(net, n=4, t_end=300, device=ts.CPU(threads=1))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "before = time.process_time()\n"
        "time.sleep(0.5)\n"
        "print('computing' if time.process_time() - before > 0.2 else 'idle', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, program], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    read_until(process.stdout, "begins")
    time.sleep(4.0)  # the kernel is compiled and runs
    code, message, took = ended(process, signal.SIGINT)
    assert code == 0, message
    assert took < WITHIN + 0.5
    assert "interrupted\nidle" in message


def test_a_lattice(tmp_path):
    """It ends between batches of steps, which take half a second."""
    (tmp_path / "box.toml").write_text(LATTICE)
    process = subprocess.Popen(
        [sys.executable, "-m", "tauslab", "rdme", "box.toml", "--t-end", "100", "--device", "cpu",
         "--threads", "1"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "box.h5").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1.0)
    code, message, took = ended(process, signal.SIGTERM)
    assert (code, took < WITHIN) == (75, True), message
    assert "--resume completes box.h5" in message


LATTICE = """
[lattice]
shape = [32, 32, 32]
spacing = 3.2e-8
[species]
A = 10000
[[diffusion]]
species = "A"
coefficient = 1e-12
"""
