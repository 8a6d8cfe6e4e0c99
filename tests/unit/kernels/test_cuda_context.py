"""The context that a thread makes ahead: of which device, once, and in silence where it fails."""

from __future__ import annotations

import ctypes
import importlib.util
import threading

import pytest

from tauslab.cli import main as command_line
from tauslab.decomposition.ranks.job import prepare
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels import cuda_context
from tauslab.kernels.backends import prepare_device


class Driver:
    """Stands for the CUDA driver, with so many devices."""

    def __init__(self, devices, error=0):
        self.devices, self.error, self.contexts, self.threads = devices, error, [], set()

    def cuInit(self, flags):  # noqa: N802
        assert flags == 0
        self.threads.add(threading.current_thread())
        return self.error

    def cuDeviceGetCount(self, to):  # noqa: N802
        to._obj.value = self.devices
        return 0

    def cuDeviceGet(self, to, index):  # noqa: N802
        to._obj.value = 10 + index
        return 0

    def cuDevicePrimaryCtxRetain(self, to, device):  # noqa: N802
        assert isinstance(to._obj, ctypes.c_void_p)
        self.contexts.append(device.value)
        return 0


@pytest.fixture
def driver(monkeypatch):
    """Of two devices, for a process that has not begun and that has CuPy."""
    made = Driver(2)
    monkeypatch.setattr(cuda_context, "_making", [])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: "found")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: made)
    return made


def test_a_thread_makes_the_context_of_the_device_that_is_chosen(driver):
    prepare_device("auto", lambda count: count - 1)
    cuda_context.wait_for_context()
    assert driver.contexts == [11]
    assert threading.main_thread() not in driver.threads


def test_it_is_made_once(driver):
    prepare("cuda", Communicator())
    prepare("auto", Communicator())
    cuda_context.wait_for_context()
    assert driver.contexts == [10]


def test_a_rank_makes_that_of_its_own_device_or_shares_one(driver, monkeypatch):
    comm = Communicator()
    comm.gpu_rank, comm.size = 3, 4
    prepare("auto", comm)
    cuda_context.wait_for_context()
    assert driver.contexts == []  # there is none of that number: opening it says so
    monkeypatch.setattr(cuda_context, "_making", [])
    prepare("auto", comm, share=True)
    cuda_context.wait_for_context()
    assert driver.contexts == [11]


def test_nothing_starts_for_the_cpu_or_without_cupy(driver, monkeypatch):
    prepare("cpu", Communicator())
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    prepare("auto", Communicator())
    cuda_context.wait_for_context()
    assert (driver.threads, cuda_context._making) == (set(), [])


def test_a_driver_that_fails_is_left_to_what_opens_the_device(driver, monkeypatch):
    driver.error = 100
    prepare("auto", Communicator())
    cuda_context.wait_for_context()
    assert (len(driver.threads), driver.contexts) == (1, [])

    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(cuda_context, "_making", [])
    prepare("auto", Communicator())
    cuda_context.wait_for_context()


@pytest.mark.usefixtures("driver")
def test_what_is_wrong_in_the_thread_shows_where_it_is_waited_for():
    prepare_device("cuda", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cuda_context.wait_for_context()


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (["run", "model.xml", "-n", "10"], 1),
        (["rdme", "cell.toml", "--device", "cuda"], 1),
        (["run", "model.xml", "--device", "cpu"], 0),
        (["run", "model.xml", "--device=cpu"], 0),
        (["run", "model.xml", "--executor", "dask"], 0),
        (["run", "--help"], 0),
        (["info", "out.h5"], 0),
        ([], 0),
    ],
)
def test_a_command_begins_with_it_where_it_may_use_a_gpu(driver, words, begun, monkeypatch):
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_FD", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    command_line._begin_context(words)
    cuda_context.wait_for_context()
    assert driver.contexts == [10] * begun


def test_a_rank_of_several_waits_until_it_knows_its_device(driver, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    command_line._begin_context(["run", "model.xml"])
    cuda_context.wait_for_context()
    assert driver.contexts == []
