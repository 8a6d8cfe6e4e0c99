"""A sweep on ranks of MPI and on workers of Dask: the same file, but for how it came about."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tauslab.runner.digest import digest_lines
from tauslab.runner.output.reader import open_result

pytestmark = pytest.mark.mpi

SCHLOGL = Path(__file__).parents[1] / "data" / "sbml" / "schlogl.xml"
RUN = ["-m", "tauslab", "run", SCHLOGL, "--t-end", "1", "--points", "6", "--seed", "5", "-n", "50",
       "--sweep", "c3=lin:8e-4:1.2e-3:5", "--record", "trajectories,statistics",
       "--device", "cpu", "--threads", "1"]  # fmt: skip


def digests(path):
    with open_result(path) as result:
        return digest_lines(result, None)


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="no Dask (pip install tauslab[dask])"
)
def test_ranks_and_workers_give_a_sweep_the_same_bits(mpirun, tmp_path):
    dask = ["--executor", "dask", "--workers", "2", "-o", tmp_path / "dask.h5"]
    mpirun(3, [*RUN, "-o", tmp_path / "mpi.h5"])
    subprocess.run([sys.executable, *RUN, *dask], check=True, timeout=100)
    assert digests(tmp_path / "dask.h5") == digests(tmp_path / "mpi.h5")
    done = mpirun(2, [*RUN, *dask, "--overwrite"], check=False)
    assert done.returncode == 2
    assert "mpirun or srun started 2 ranks: start one process" in done.stderr
