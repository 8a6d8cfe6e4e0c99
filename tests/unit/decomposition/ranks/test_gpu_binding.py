"""Which GPU a rank or a worker takes, whatever the launcher shows it."""

from __future__ import annotations

import contextlib
import gc
import os

import pytest

from tauslab.base import host
from tauslab.decomposition.ranks import job, launcher
from tauslab.decomposition.ranks.mpi import Communicator, gpu_index
from tauslab.kernels.backends import BackendOptions


@pytest.mark.parametrize(
    ("count", "rank", "environment", "index"),
    [
        (8, 5, {}, 5),
        (1, 5, {}, 0),
        (1, 5, {"SLURM_GPUS_PER_TASK": "1"}, 0),
        (8, 5, {"SLURM_GPUS_PER_TASK": "1"}, 5),  # bound by nobody: all are visible
        (2, 3, {"SLURM_GPUS_PER_TASK": "h200:2"}, 0),
        (0, 0, {}, 0),
    ],
)
def test_the_gpu_of_a_rank(count, rank, environment, index):
    assert gpu_index(count, rank, environment) == index


def test_the_number_of_a_process_needs_no_closing(recwarn):
    """It is held to the end of the process, where Python warns of sockets that are open."""
    place, held = launcher._take(f"closing-{os.getpid()}")
    assert (place, type(held)) == (0, int)
    gc.collect()
    assert not [w for w in recwarn if issubclass(w.category, ResourceWarning)]
    os.close(held)


class Fourth(Communicator):
    """The fourth rank of its node."""

    gpu_rank = 3
    core_sharers = 4


@pytest.mark.parametrize(("visible", "index"), [(1, 0), (4, 3), (8, 3)])
def test_a_rank_opens_that_gpu(monkeypatch, visible, index):
    """`srun --gpus-per-task=1` shows each rank one GPU; else all ranks of a node see all."""
    opened = []
    monkeypatch.setattr(job, "device_count", lambda _: visible)
    monkeypatch.setattr(host, "allowed_cores", lambda: 16)
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.setattr(job, "get_backend", lambda *chosen: opened.append(chosen))
    job.open_backend("cuda", 0, Fourth())
    assert opened == [("cuda", BackendOptions(index=index, threads=4))]


class OfFour(Communicator):
    """The first of four ranks that may use the same cores."""

    size = core_sharers = 4


@pytest.mark.parametrize(
    ("cores", "threads", "environment", "said"),
    [
        (16, 4, {}, ""),
        (2, 0, {}, "4 ranks share 2 cores and compute with 1 thread each"),
        (16, 8, {}, "4 ranks share 16 cores and compute with 8 threads each"),
        (2, 0, {"OMPI_MCA_rmaps_base_oversubscribe": "1"}, ""),
    ],
)
def test_more_threads_than_cores_are_reported_once(monkeypatch, cores, threads, environment, said):
    """Only by rank 0, unless the launcher allows more ranks than there are cores."""
    for name in job._OVERSUBSCRIBED:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job, "allowed_cores", lambda: cores)
    monkeypatch.setattr(host, "allowed_cores", lambda: cores)
    monkeypatch.setattr(job, "get_backend", lambda *chosen: None)
    expected = pytest.warns(UserWarning, match=said) if said else contextlib.nullcontext()
    with expected:
        job.open_backend("cpu", threads, OfFour())
    other = OfFour()
    other.rank = 1
    job.open_backend("cpu", threads, other)
