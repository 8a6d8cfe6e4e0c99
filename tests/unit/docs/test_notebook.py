"""What a Python user does in a notebook: interrupts, closes, copies, runs again and again."""

from __future__ import annotations

import _thread
import gc
import pickle
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tauslab as ts
from tauslab.kernels.backends.cpu import idle_threads
from tauslab.runner.ensemble.driver import EnsembleRun


def turnover() -> ts.Network:
    net = ts.Network("turnover")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=100.0)
    net.add_reaction("X ->", rate=1.0)
    return net


def cube() -> ts.Lattice:
    lattice = ts.Lattice("cube", shape=(8, 8, 8), spacing=32e-9, boundary="periodic", t_end=0.001)
    lattice.add_species("A")
    lattice.add_diffusion("A", 1e-12)
    lattice.place("A", count=100)
    return lattice


@pytest.fixture
def interruptible():
    """As a user's process is: one of pytest-xdist ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_OTHERS: set[int | None] = set()


@pytest.fixture(autouse=True)
def _threads_of_others():
    """Leave out threads of earlier tests, whose ensembles may live in tracebacks."""
    gc.collect()
    idle_threads.end()
    _OTHERS.clear()
    _OTHERS.update(thread.ident for thread in threading.enumerate())


def own_threads() -> list[threading.Thread]:
    named = [thread for thread in threading.enumerate() if thread.name.startswith("tauslab")]
    return [thread for thread in named if thread.ident not in _OTHERS]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_not_kept_waiting_by_kernels():
    """Of a trajectory of hours a user would wait for its end: kernels are asked to stop."""
    ts.run(turnover(), n=1, times=[0], device="cpu")  # compiled
    idle_threads.end()

    def interrupt():
        while not any(thread.name == "tauslab-collector" for thread in own_threads()):
            time.sleep(0.001)
        time.sleep(0.05)
        _thread.interrupt_main()

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        ts.run(turnover(), n=40, times=[75_000], device=ts.CPU(threads=2), method="ssa", block=1)
    helper.join()
    idle_threads.end()
    for thread in own_threads():
        thread.join(5)
    assert not own_threads()
    assert ts.run(turnover(), n=5, times=[1], device="cpu").n == 5


@pytest.mark.usefixtures("interruptible", "one_block_launches")
@pytest.mark.parametrize("record", ["trajectories", "statistics,final"])
def test_an_interrupted_run_keeps_what_is_done_and_goes_on(monkeypatch, tmp_path, record):
    options = {"n": 1000, "t_end": 20, "points": 5, "seed": 3, "device": ts.CPU(threads=1)}
    options |= {"block": 10, "method": "ssa", "record": record}
    shown, show = [], EnsembleRun._show

    def interrupting(self):
        show(self)
        shown.append(self.tally.blocks)
        if len(shown) == 3:
            _thread.interrupt_main()

    path = tmp_path / "run.h5"
    monkeypatch.setattr(EnsembleRun, "_show", interrupting)
    with pytest.raises(KeyboardInterrupt):
        ts.run(turnover(), output=path, **options)
    monkeypatch.undo()
    idle_threads.end()
    for thread in own_threads():
        thread.join(60)
    with ts.open(path) as broken:
        assert "unfinished" in repr(broken)
        done = int(broken.completed_blocks.sum())
    assert shown[2] <= done < 100
    with ts.run(turnover(), output=path, resume=True, **options) as whole:
        assert whole.complete
        other = ts.run(turnover(), **options)
        assert np.array_equal(whole.mean("X"), other.mean("X"))
        assert np.array_equal(whole.variance("X"), other.variance("X"))
        assert np.array_equal(whole.final("X"), other.final("X"))


def test_many_runs_leave_nothing_behind():
    def open_files(networks, lattices):
        for seed in range(networks):
            ts.run(turnover(), n=5, times=[0, 1], seed=seed, device=ts.CPU(threads=1))
        for seed in range(lattices):
            ts.run(cube(), seed=seed, device=ts.CPU(threads=1))
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    assert open_files(1, 1) >= open_files(20, 3)
    idle_threads.end()
    assert not own_threads()


def test_threads_may_run_at_the_same_time():
    alone = [ts.run(turnover(), n=80, times=[2], seed=s, device="cpu").counts("X") for s in (1, 2)]
    actual = {}

    def run(seed):
        actual[seed] = ts.run(turnover(), n=80, times=[2], seed=seed, device="cpu").counts("X")

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(actual[seed], alone[seed - 1]) for seed in (1, 2))


def test_results_go_to_other_processes(tmp_path, monkeypatch):
    """A copy opens the file for itself, wherever it is."""
    monkeypatch.chdir(tmp_path)
    options = {"n": 20, "times": [0, 1], "seed": 1, "device": "cpu"}
    memory = pickle.loads(pickle.dumps(ts.run(turnover(), **options)))
    with ts.run(turnover(), output="run.h5", **options) as result:
        stored = pickle.dumps(result)
    with ts.run(cube(), seed=1, device="cpu", output="cube.h5") as lattice:
        of_lattice = pickle.dumps(lattice)
        expected = lattice.counts("A")
    monkeypatch.chdir("/")
    with pickle.loads(stored) as copy, pickle.loads(of_lattice) as other:
        assert np.array_equal(copy.counts("X"), memory.counts("X"))
        assert np.array_equal(other.counts("A"), expected)


def test_a_temporary_file_goes_nowhere():
    with (
        ts.run(cube(), seed=1, device="cpu") as result,
        pytest.raises(ts.ConfigError, match="give the run an output="),
    ):
        pickle.dumps(result)


def test_closed_results_say_so(tmp_path):
    options = {"n": 20, "times": [0, 1], "seed": 1, "device": "cpu"}
    result = ts.run(turnover(), output=tmp_path / "run.h5", **options)
    lattice = ts.run(cube(), seed=1, device="cpu", output=tmp_path / "cube.h5")
    assert repr(lattice).startswith(f"<LatticeResult {tmp_path / 'cube.h5'}: ")
    assert repr(lattice).endswith("0 frames, 1 species (A), seed 1>")
    for each, read in ((result, lambda: result.mean("X")), (lattice, lambda: lattice.counts("A"))):
        each.close()
        each.close()
        assert repr(each).endswith(": closed>")
        with pytest.raises(ts.InputFileError, match=r"\.h5 was closed: open it again"):
            read()
