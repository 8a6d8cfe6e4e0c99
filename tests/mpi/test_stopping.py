"""One rank is asked to stop: all end, inside trajectories that would take days."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = """
import time, warnings
import numpy as np
import tauslab as ts
from tauslab.options.ensemble import Options
from tauslab.decomposition.ranks.mpi import world
from tauslab.runner.ensemble.entry import run_network
net = ts.Network("endless")
net.add_species("X", 1000000)
net.add_reaction("-> X", rate=1e9)
net.add_reaction("X ->", rate=1000.0)
comm = world()
options = Options(np.array([300.0]), n=40, seed=1, device="cpu", threads=1, quiet=True)
begun = []
def stop():
    begun.append(time.monotonic())
    return comm.rank == 1 and begun[-1] > begun[0] + 1.0
try:
    run_network(net, options, comm, stop)
except ts.StoppedEarly as stopped:
    print(f"rank {comm.rank}: {stopped}; {time.monotonic() - begun[0]:.1f}", flush=True)
"""


def test_one_rank_stops_all(mpirun, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    lines = mpirun(2, [program]).stdout.splitlines()
    message = sorted(line for line in lines if line.startswith("rank "))
    assert [line.partition(";")[0] for line in message] == [
        f"rank {rank}: stopped on request with 0 of 40 blocks done" for rank in range(2)
    ]
    assert all(float(line.partition("; ")[2]) < 1.0 + 5.0 for line in message), message
