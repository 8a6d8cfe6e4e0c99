"""GPUs as launchers show them to ranks, on a machine without any: a CuPy that only counts."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.mpi

CUPY = """\
import os
from types import SimpleNamespace
__version__ = "0"
def visible():
    return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
def properties(index):
    return {"name": b"GPU", "totalGlobalMem": 1 << 30, "major": 9, "minor": 0}
cuda = SimpleNamespace(runtime=SimpleNamespace(
    CUDARuntimeError=OSError, driverGetVersion=lambda: 13000, runtimeGetVersion=lambda: 13000,
    getDeviceCount=visible, getDeviceProperties=properties))
"""
PROGRAM = """\
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from tauslab.runner.api import ranks
shown = sys.argv[1]
os.environ["CUDA_VISIBLE_DEVICES"] = str(ranks().local_rank) if shown == "own" else shown
from tauslab.runner.cli import main
raise SystemExit(main(["doctor", "--json"]))
"""


@pytest.mark.parametrize(("shown", "gpus"), [("own", [0, 0, 0]), ("0,1,2", [0, 1, 2])])
def test_each_rank_takes_a_gpu_of_its_own(mpirun, tmp_path, shown, gpus):
    """One that is shown to it alone, as by `srun --gpus-per-task=1`, or one of all."""
    (tmp_path / "cupy.py").write_text(CUPY)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    facts = json.loads(mpirun(3, [program, shown]).stdout)
    assert [rank["gpu"] for rank in facts["ranks"]] == gpus
