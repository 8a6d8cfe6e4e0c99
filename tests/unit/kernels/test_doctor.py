"""The doctor reports what there is, what is missing and what is broken, and never fails."""

from __future__ import annotations

import errno
import json
import os
import sys
import types

import numpy as np
import pytest

from tauslab.base import host
from tauslab.cli.doctor import cluster as doctor_cluster
from tauslab.cli.doctor import report as doctor
from tauslab.cli.doctor.report import doctor_json, doctor_report, gpu_of_rank
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import device_count, peer_matrix
from tauslab.kernels.backends.compilers import find_compilers


class TwoRanks(Communicator):
    """Rank 0 of two; the other rank tells the same about itself."""

    size = 2

    def gather(self, value):
        return [value, {**value, "rank": 1, "local_rank": 1, "gpu": 1}] if self.rank == 0 else None


def fake_cupy(count, error=None):
    """CuPy on a machine with `count` GPUs, or with a driver that raises."""

    class CUDARuntimeError(RuntimeError):
        pass

    def device_count():
        if error:
            raise CUDARuntimeError(error)
        return count

    runtime = types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        driverGetVersion=lambda: 13010,
        runtimeGetVersion=lambda: 13000,
        getDeviceCount=device_count,
        getDeviceProperties=lambda index: {
            "name": f"Accelerator {index}".encode(),
            "totalGlobalMem": 80 << 30,
            "major": 9,
            "minor": 0,
        },
    )
    module = types.ModuleType("cupy")
    module.__version__ = "14.2.0"
    module.__spec__ = types.SimpleNamespace()
    module.cuda = types.SimpleNamespace(runtime=runtime)
    return module


def reported(comm, folder=None):
    return doctor_report(doctor_json(comm, folder))


def line(report, label):
    return next(text for text in report if text.startswith(label))


def test_report_names_compilers_and_cores():
    report = reported(Communicator())
    assert line(report, "compilers").split(maxsplit=1)[1].startswith(find_compilers()[0].name)
    assert "cores allowed" in line(report, "CPU")
    assert "takes" in line(report, "rank 0")


def test_json_is_plain_data():
    facts = doctor_json(Communicator())
    assert json.loads(json.dumps(facts)) == facts
    assert facts["mpi"]["ranks"] == 1
    assert facts["hdf5"]["mpi"] in (True, False)
    assert facts["packages"]["numpy"] == np.__version__


def test_gpus_and_the_ranks_that_take_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(2))
    report = reported(TwoRanks())
    assert any("GPU 1: Accelerator 1, 80 GiB, compute capability 9.0" in text for text in report)
    assert "driver 13.1, runtime 13.0" in line(report, "CUDA")
    assert "takes GPU 0" in line(report, "rank 0")
    assert "takes GPU 1" in line(report, "rank 1")


def test_a_rank_too_many_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(2))
    comm = Communicator()
    comm.gpu_rank = 2
    assert "no GPU of its own: 2 ranks a node at most" in reported(comm)[-1]


def test_ranks_share_the_cores(monkeypatch):
    monkeypatch.setattr(host, "allowed_cores", lambda: 8)
    comm = Communicator()
    comm.core_sharers = 3
    assert doctor_json(comm)["ranks"][0]["threads"] == 2


def test_a_driver_that_refuses_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(0, error="driver too old"))
    report = reported(Communicator())
    assert "sees no device: driver too old" in line(report, "CUDA")
    assert "the cpu device" in line(report, "rank 0")


@pytest.mark.parametrize("name", list(doctor._SECTIONS))
def test_a_broken_section_leaves_the_others(monkeypatch, name):
    def broken():
        raise ImportError("libbroken.so: cannot open\nmore")

    monkeypatch.setitem(doctor._SECTIONS, name, broken)
    report = reported(Communicator())
    message = [
        text for text in report if "not usable: ImportError: libbroken.so: cannot open" in text
    ]
    assert len(message) == 1
    assert len(report) > 8


@pytest.mark.parametrize("package", ["cupy", "mpi4py"])
def test_missing_packages_are_named(monkeypatch, package):
    actual = doctor.importlib.util.find_spec
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: None if name == package else actual(name)
    )
    report = reported(Communicator())
    assert any(text.startswith(("CUDA", "MPI")) and "pip install" in text for text in report)


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(doctor, "find_compilers", lambda: ())
    assert "install g++" in line(reported(Communicator()), "compilers")


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert "not writable" in line(reported(Communicator()), "cache")


def test_a_cache_on_a_full_disk(monkeypatch, tmp_path):
    """An empty file fits on a full disk."""

    def refuse(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.fsync", refuse)
    message = line(reported(Communicator()), "cache")
    assert "not writable: No space left on device" in message


@pytest.mark.parametrize(
    ("gpu_rank", "devices", "gpu"),
    [(0, 0, None), (0, 4, 0), (3, 4, 3), (4, 4, None), (0, 1, 0), (3, 1, 0)],
)
def test_gpu_of_rank(gpu_rank, devices, gpu):
    assert gpu_of_rank(gpu_rank, devices) == gpu


def test_the_cluster_section(tmp_path):
    facts = doctor_json(Communicator(), tmp_path)
    assert len(facts["peers"]["gigabytes_per_second"]) == device_count("cuda")
    assert facts["storage"]["folder"] == str(tmp_path)
    assert facts["storage"]["megabytes_per_second"] > 0
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path, capsys):
    where = tmp_path / "nowhere"
    assert main(["doctor", "--folder", str(where)]) == 2
    printed = capsys.readouterr()
    why = f"{where}: not writable: rank 0: No such file or directory"
    assert line(printed.out.splitlines(), "storage").endswith(why)
    assert printed.err == f"tauslab: --folder {why}\n"


def test_the_matrix_of_peers(monkeypatch):
    """As the backend measured it, with a dash where there is no direct way."""
    monkeypatch.setattr(
        doctor_cluster, "peer_matrix", lambda name: [[3000.0, None], [470.2, 2999.0]]
    )
    report = reported(Communicator())
    rows = report[report.index(line(report, "peers")) + 1 :][:2]
    assert [row.split() for row in rows] == [["3000", "-"], ["470", "2999"]]


@pytest.mark.gpu
def test_gpus_copy_to_themselves():
    matrix = peer_matrix("cuda")
    assert len(matrix) == device_count("cuda")
    assert all(row[i] > 100 for i, row in enumerate(matrix))
