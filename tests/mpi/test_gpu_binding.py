"""GPUs as launchers show them to ranks, on a machine without any: a CuPy that only counts."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.mpi

CUPY = """\
import os
from types import SimpleNamespace
def visible():
    return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
cuda = SimpleNamespace(runtime=SimpleNamespace(CUDARuntimeError=OSError, getDeviceCount=visible))
"""
PROGRAM = """\
import json, os, sys
from tauslab.decomposition.ranks import job
from tauslab.api.api import ranks
each = sys.argv[1:]
number = os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]
os.environ["CUDA_VISIBLE_DEVICES"] = each[int(number) % len(each)]
comm = ranks()
job.get_backend = lambda name, options: (name, options.index)
opened = comm.gather(job.open_backend("auto", 1, comm))
if comm.rank == 0:
    print(json.dumps(opened))
"""


@pytest.mark.parametrize(
    ("shown", "gpus"),
    [
        pytest.param(["0", "1", "2"], [0, 0, 0], marks=pytest.mark.validate),
        (["0,1,2"], [0, 1, 2]),
        pytest.param(["0,1", "2,3", "4,5"], [0, 0, 0], marks=pytest.mark.validate),
        (["0,1", "2,3", "0,1"], [0, 0, 1]),
    ],
)
def test_each_rank_takes_a_gpu_of_its_own(mpirun, tmp_path, shown, gpus):
    """One that is shown to it alone, as by `srun --gpus-per-task=1`, or one of all or some."""
    (tmp_path / "cupy.py").write_text(CUPY)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    opened = json.loads(mpirun(3, [program, *shown]).stdout)
    assert opened == [["cuda", gpu] for gpu in gpus]
