"""Blocks on Dask workers: the same bits as one process, whatever happens to workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from places import TESTS

import tauslab as ts
from tauslab.decomposition.ranks.launcher import local_rank, node_group
from tauslab.kernels.backends import device_count
from tauslab.options import dask as dask_options
from tauslab.runner.dask import cluster as dask_cluster
from tauslab.runner.dask.cluster import Workers
from tauslab.runner.dask.lanes import result_of
from tauslab.runner.dask.worker import WorkerError
from tauslab.store.results.digest import digest_lines

SCHLOGL = TESTS / "data" / "sbml" / "schlogl.xml"
RUN = {"t_end": 1.0, "points": 6, "seed": 5, "method": "ssa", "device": "cpu", "n": 300}

# Workers that start on a busy machine import and compile for minutes, for whichever test is first.
pytestmark = pytest.mark.timeout(1200)
needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="no Dask (pip install tauslab[dask])"
)


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as opened:
        opened.wait_for_workers(2)
        yield opened


def lines(result):
    return digest_lines(result, None)


@needs_dask
@pytest.mark.parametrize(
    "more",
    [
        {"record": "trajectories,statistics,final,histogram:X:0:800:20"},
        pytest.param({"record": "statistics", "block": 7}, marks=pytest.mark.validate),
        pytest.param(
            {"record": "summary:mean:X:0.5", "sweep": {"c3": "lin:8e-4:1.2e-3:5"}, "n": 60},
            marks=pytest.mark.validate,
        ),
        pytest.param(
            {
                "method": "auto",
                "n": 40,
                "sweep": {"c3": "lin:8e-4:1.2e-3:3"},
                "record": "statistics",
            },
            marks=pytest.mark.validate,
        ),
        pytest.param({"set": {"X": np.arange(300.0)}}, marks=pytest.mark.validate),
        pytest.param(
            {"method": "ode", "set": {"X": np.arange(300.0)}, "record": "trajectories,statistics"},
            marks=pytest.mark.validate,
        ),
    ],
    ids=["all", "statistics", "summary of a sweep", "auto", "values per trajectory", "ode"],
)
def test_workers_give_the_bits_of_one_process(client, tmp_path, more):
    options = RUN | more
    plain = ts.run(SCHLOGL, **options, output=tmp_path / "plain.h5")
    workers = ts.run(SCHLOGL, **options, executor=ts.Dask(client), output=tmp_path / "dask.h5")
    assert lines(workers) == lines(plain)
    assert workers.attributes["method"] == plain.attributes["method"]
    assert b"Dask" in workers.data["profile/device"][0]


@needs_dask
def test_rates_that_follow_the_time_have_the_bits_of_one_process(client):
    net = ts.Network("forced")
    net.add_species("X", 5)
    net.add_reaction("-> X", law="20 * (1 + sin(time))")
    net.add_reaction("X ->", rate=0.5)
    assert lines(ts.run(net, **RUN, executor=ts.Dask(client))) == lines(ts.run(net, **RUN))


@needs_dask
def test_a_result_in_memory(client):
    result = ts.run(SCHLOGL, **RUN, executor=ts.Dask(client))
    assert lines(result) == lines(ts.run(SCHLOGL, **RUN))


def blocks_done(path):
    with ts.open(path) as result:
        return int(result.completed_blocks.sum())


@needs_dask
def test_a_worker_that_dies_costs_only_its_blocks(cluster, client, tmp_path):
    """Killed when some blocks are on disk and most are not."""
    options = RUN | {"t_end": 5.0, "n": 1200, "block": 8}
    path, killed = tmp_path / "dask.h5", []

    def kill():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (path.exists() and blocks_done(path)):
            time.sleep(0.02)
        killed.append(blocks_done(path))
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = ts.run(SCHLOGL, **options, executor=ts.Dask(client), output=path)
    thread.join()
    assert 0 < killed[0] < 150
    assert lines(result) == lines(ts.run(SCHLOGL, **options))


@needs_dask
@pytest.mark.usefixtures("one_block_launches")
def test_a_run_that_was_stopped_is_resumed(client, tmp_path):
    from tauslab.api.executor import run_job
    from tauslab.decomposition.ranks.mpi import Communicator
    from tauslab.formats.read import read_network
    from tauslab.options.ensemble import Options
    from tauslab.options.record import Record
    from tauslab.options.values.sample_times import sample_times

    path = tmp_path / "out.h5"
    chosen = {"executor": ts.Dask(client), "output": path}
    options = RUN | {"t_end": 2.0, "n": 1200, "block": 20, "record": "statistics"}
    stopping = Options(
        sample_times(None, 2.0, 6), seed=5, device="cpu", n=1200, block=20,
        record=Record.parse("statistics"), output=path, quiet=True,
        dask=dask_options.dask_options("dask", client, None),
    )  # fmt: skip
    requested = iter([False] * 5)  # a few launches, then a request to stop
    with pytest.raises(ts.StoppedEarly, match="blocks done: resume=True completes"):
        run_job(read_network(SCHLOGL), stopping, Communicator(), lambda: next(requested, True))
    assert ts.open(path).complete is False
    resumed = ts.run(SCHLOGL, **options, **chosen, resume=True)
    assert lines(resumed) == lines(ts.run(SCHLOGL, **options))


@pytest.mark.validate
@needs_dask
def test_the_command_starts_workers_of_its_own(tmp_path):
    run = [sys.executable, "-m", "tauslab", "run", SCHLOGL, "--t-end", "1", "--points", "6",
           "--seed", "5", "--method", "ssa", "--device", "cpu", "-n", "300"]  # fmt: skip
    path = tmp_path / "out.h5"
    more = ["--executor", "dask", "--workers", "1:2", "--threads", "1", "-o", path]
    done = subprocess.run([*run, *more], capture_output=True, text=True, check=True, timeout=100)
    assert "300 trajectories" in done.stdout
    assert "Traceback" not in done.stderr
    assert lines(ts.open(path)) == lines(ts.run(SCHLOGL, **RUN))


@needs_dask
@pytest.mark.gpu
@pytest.mark.parametrize("workers", [None, 2, device_count("cuda") + 1])
def test_workers_with_a_gpu_each_give_the_same_bits(tmp_path, workers):
    """As many workers as GPUs, by default; more than there are share them."""
    options = RUN | {"n": 20000, "record": "trajectories,statistics"}
    chosen = options | {"device": "cuda", "executor": ts.Dask(workers=workers)}
    result = ts.run(SCHLOGL, **chosen, output=tmp_path / "gpu.h5")
    assert lines(result) == lines(ts.run(SCHLOGL, **options))
    assert b"NVIDIA" in result.data["profile/device"][0]


@needs_dask
@pytest.mark.gpu
def test_workers_take_different_gpus(client):
    """Where there are two; with one, both take it."""

    def taken_gpu():
        import cupy
        from distributed import get_worker

        from tauslab.decomposition.ranks.job import open_backend
        from tauslab.runner.dask.worker import _Rank

        backend = open_backend("cuda", 1, _Rank(get_worker().scheduler.address), share=True)
        try:
            return cupy.cuda.Device().id
        finally:
            backend.close()

    expected = [0, 1] if device_count("cuda") > 1 else [0, 0]
    actual = [client.submit(taken_gpu, workers=[a], pure=False) for a in client.nthreads()]
    assert sorted(client.gather(actual)) == expected


# --- errors ---


def test_without_dask_one_sentence_says_how_to_get_it(monkeypatch, capsys, tmp_path):
    from tauslab.cli.main import main

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "distributed" else find(name)
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(SCHLOGL), "--t-end", "1", "--executor", "dask"]) == 2
    assert capsys.readouterr().err == (
        "tauslab: --executor dask needs dask and distributed: pip install 'dask[array]>=2024.12' "
        "'distributed>=2024.12'\n"
    )
    assert list(tmp_path.iterdir()) == []


@needs_dask
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": "4:2"}, 'workers="4:2" is not allowed'),
        ({"workers": "many"}, 'workers="many" is not allowed'),
        ({"workers": 0}, "workers=0 is not allowed"),
        ({"sbatch": "-p gpu"}, 'sbatch= is for scheduler="slurm"'),
        ({"scheduler": "tcp://a:1", "workers": 1}, "workers= is for"),
        ({"scheduler": "none.json"}, "none.json.*there is no such scheduler"),
        ({"scheduler": "what://a:1"}, "no Dask scheduler answers there"),
    ],
)
def test_bad_choices_are_refused_in_a_sentence(options, sentence):
    with pytest.raises(ts.ConfigError, match=sentence):
        ts.run(SCHLOGL, **RUN, executor=ts.Dask(**options))


def test_an_executor_is_an_object():
    with pytest.raises(ts.ConfigError, match=r"executor='dask' is not allowed: None, or ts.Dask"):
        ts.run(SCHLOGL, **RUN, executor="dask")
    with pytest.raises(ts.ConfigError, match=r"workers= .* it belongs to ts.Dask"):
        ts.run(SCHLOGL, **RUN, workers=2)


def test_slurm_needs_its_package_and_a_number_of_workers(monkeypatch):
    monkeypatch.setattr(dask_options, "_require", lambda *_: None)
    with pytest.raises(ts.ConfigError, match='scheduler="slurm" needs workers='):
        dask_options.dask_options("dask", "slurm", None)
    monkeypatch.undo()
    actual = {"distributed": True, "dask_jobqueue": None}
    monkeypatch.setattr(dask_options.importlib.util, "find_spec", actual.get)
    with pytest.raises(ts.ConfigError, match=r"needs dask-jobqueue: pip install .*dask-jobqueue"):
        dask_options.dask_options("dask", "slurm", 2)


@needs_dask
def test_a_model_that_only_the_worker_finds_wrong_is_told_once(client, tmp_path, monkeypatch):
    """A device that no worker has: each is asked once, and the last one's sentence is told."""
    options = RUN | {"device": "cuda", "executor": ts.Dask(client)}
    with pytest.raises(ts.DeviceError, match="CUDA device 0 does not exist"):
        ts.run(SCHLOGL, **options, output=tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()


# --- parts ---


class FakeClient:
    """A client whose scheduler knows these workers."""

    def __init__(self, *addresses):
        self.addresses = addresses
        self.scheduler = type("Scheduler", (), {"address": "tcp://here:1"})()

    def scheduler_info(self, n_workers):
        return {"workers": {a: {"nthreads": 2} for a in self.addresses}}


class Done:
    """A future that has ended."""

    def __init__(self, value):
        self._value = value

    def done(self):
        return True

    def result(self):
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def test_a_worker_that_fails_is_not_asked_again():
    workers = Workers(FakeClient("a", "b", "c"), lambda: False)
    failures = {1: WorkerError("b", RuntimeError("sick"))}
    requested = []

    def again(attempt):
        requested.append((attempt, sorted(workers.threads)))
        return Done(failures.get(attempt, "good"))

    assert result_of(workers, Done(WorkerError("a", RuntimeError("ill"))), again) == "good"
    assert requested == [(1, ["b", "c"]), (2, ["c"])]


def test_the_error_is_told_when_no_worker_is_left():
    workers = Workers(FakeClient("a"), lambda: False)
    with pytest.raises(ts.ExecutorError, match="worker at a failed: RuntimeError: ill"):
        result_of(workers, Done(WorkerError("a", RuntimeError("ill"))), lambda _: None)


def test_a_run_without_workers_gives_up(monkeypatch):
    monkeypatch.setattr(dask_cluster, "PATIENCE", 0.0)
    monkeypatch.setattr(dask_cluster, "_LOOK_SECONDS", 0.01)
    with pytest.raises(ts.ExecutorError, match="no Dask worker at tcp://here:1"):
        Workers(FakeClient(), lambda: False).wait_for_first()
    with pytest.raises(ts.StoppedEarly, match="before there was a Dask worker"):
        Workers(FakeClient(), lambda: True, queued=True).wait_for_first()


def test_a_scheduler_that_is_gone_ends_the_run(monkeypatch):
    client = FakeClient("a")
    workers = Workers(client, lambda: False)
    monkeypatch.setattr(dask_cluster, "_LOOK_SECONDS", 0.0)
    workers.check()
    client.scheduler_info = lambda n_workers: {}  # what a client says that could not reconnect
    with pytest.raises(ts.ExecutorError, match="scheduler at tcp://here:1 has failed"):
        workers.check()


def test_processes_of_a_machine_take_the_lowest_free_number():
    group = f"test-{os.getpid()}"
    hold = "import sys; from tauslab.decomposition.ranks.launcher import local_rank\n"
    hold += "print(local_rank(sys.argv[1]), flush=True); sys.stdin.read()"

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", hold, group],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return process, int(process.stdout.readline())

    first, zero = start()
    second, one = start()
    assert (zero, one) == (0, 1)
    first.kill()
    first.wait()
    assert local_rank(group) == 0, "the number of a process that was killed is free again"
    assert local_rank(group) == 0, "a process keeps its number"
    third, two = start()
    assert two == 2
    for process in (second, third):
        process.kill()
        process.communicate()
    first.stdin.close()
    first.stdout.close()


def test_workers_that_see_other_gpus_number_themselves_apart():
    def group(job, gpus, scheduler="tcp://a:1"):
        return node_group(scheduler, {"SLURM_JOB_ID": job, "CUDA_VISIBLE_DEVICES": gpus})

    assert group("1", "0,1") == group("1", "0,1")
    assert len({group("1", "0,1"), group("2", "0,1"), group("1", "2,3"), group("", "")}) == 4
    assert group("1", "0", "tcp://b:1") != group("1", "0")
