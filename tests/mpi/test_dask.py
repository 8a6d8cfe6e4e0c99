"""A sweep on ranks of MPI and on workers of Dask: the same file, but for how it came about."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from places import TESTS

from tauslab.kernels.exact.selectors import PILOT_EVENTS, SELECTORS
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

pytestmark = pytest.mark.mpi

NEEDS_DASK = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="no Dask (pip install tauslab[dask])"
)
SCHLOGL = TESTS / "data" / "sbml" / "schlogl.xml"
RUN = ["-m", "tauslab", "run", SCHLOGL, "--t-end", "1", "--points", "6", "--seed", "5", "-n", "50",
       "--sweep", "c3=lin:8e-4:1.2e-3:5", "--record", "trajectories,statistics",
       "--device", "cpu", "--threads", "1"]  # fmt: skip


def digests(path):
    with open_result(path) as result:
        return digest_lines(result, None)


@pytest.mark.validate
@NEEDS_DASK
def test_ranks_and_workers_give_a_sweep_the_same_bits(mpirun, tmp_path):
    dask = ["--executor", "dask", "--workers", "2", "-o", tmp_path / "dask.h5"]
    mpirun(3, [*RUN, "-o", tmp_path / "mpi.h5"])
    subprocess.run([sys.executable, *RUN, *dask], check=True, timeout=100)
    assert digests(tmp_path / "dask.h5") == digests(tmp_path / "mpi.h5")
    done = mpirun(2, [*RUN, *dask, "--overwrite"], check=False)
    assert done.returncode == 2
    assert "mpirun or srun started 2 ranks: start one process" in done.stderr


@pytest.mark.validate
@NEEDS_DASK
def test_ranks_and_workers_take_what_one_pilot_chose(mpirun, tmp_path):
    """Of a cycle with so many molecules that propensities hardly change."""
    species = [f"S{i} = 20_000" for i in range(300)]
    reactions = [
        f'[[reactions]]\nequation = "S{i} -> S{(i + 1) % 300}"\nrate = {1 + i % 7}'
        for i in range(300)
    ]
    model = tmp_path / "cycle.toml"
    model.write_text("\n".join(["[species]", *species, *reactions]))
    run = ["-m", "tauslab", "run", model, "--times", tmp_path / "times", "--seed", "5", "-n", "64",
           "--method", "ssa", "--device", "cpu", "--threads", "1", "--species", "S0",
           "--verbose"]  # fmt: skip
    (tmp_path / "times").write_text("0\n4e-5\n")
    dask = ["--executor", "dask", "--workers", "2", "-o", tmp_path / "dask.h5"]
    printed = mpirun(2, [*run, "-o", tmp_path / "mpi.h5"]).stdout
    done = subprocess.run(
        [sys.executable, *run, *dask], check=True, timeout=100, capture_output=True, text=True
    )
    for path in ("mpi.h5", "dask.h5"):
        with open_result(tmp_path / path) as result:
            assert result.attributes["selector"] == ("rssa" if "rssa" in SELECTORS else "tree")
            assert result.attributes["presimulation"] == PILOT_EVENTS
    assert digests(tmp_path / "dask.h5") == digests(tmp_path / "mpi.h5")
    message = int("rssa" in SELECTORS)
    assert printed.count("selector: ") == done.stdout.count("selector: ") == message
