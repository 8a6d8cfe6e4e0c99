"""Samplers of other packages that give each rank work of its own."""

from __future__ import annotations

import pytest

MODEL = """
import warnings
import numpy as np
import tauslab as ts
warnings.simplefilter("ignore")
net = ts.Network("births")
net.add_species("X", 0)
net.add_parameter("k", 4.0)
net.add_reaction("-> X", rate="k")
simulate = ts.simulator(net, ["k"], times=[1.0], device="cpu", seed=1, comm="self")
def count(rate):
    return simulate([rate]).tolist()[0]
def log_posterior(place):
    k = float(place[0])
    if not 0 < k < 30:
        return -np.inf
    return ts.particle_filter(
        net, {"time": [2.0], "X": [9]}, observe={"X": "normal(sd=1)"}, n=200,
        set={"k": k}, seed=int(1e15 * k), device="cpu", comm="self", quiet=True,
    ).log_likelihood
"""
FUTURES = """
from models import count
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print("counts", count(1e6), *pool.map(count, [1e6] * 6))
"""
POOL = """
import emcee, numpy as np
from schwimmbad import MPIPool
from models import log_posterior
pool = MPIPool()  # in which workers stay; it is closed at the end of the program
sampler = emcee.EnsembleSampler(8, 1, log_posterior, pool=pool)
sampler.random_state = np.random.RandomState(1).get_state()
sampler.run_mcmc(np.linspace(3, 7, 8)[:, None], 80)
print("mean", sampler.get_chain(discard=20, flat=True).mean())
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)

    def written(text):
        (tmp_path / "program.py").write_text(text)
        return str(tmp_path / "program.py")

    return written


def test_workers_of_mpi4py_do_not_repeat_each_other(mpirun, program):
    """Each worker imports the module that makes the simulator."""
    done = mpirun(3, ["-m", "mpi4py.futures", program(FUTURES)])
    counts = next(x for x in done.stdout.splitlines() if x.startswith("counts")).split()[1:]
    assert len({*counts}) == len(counts) == 7


def test_emcee_shares_filters_among_ranks(mpirun, program):
    """The posterior is near the gamma distribution of mean 5 and deviation 1.6."""
    pytest.importorskip("emcee", reason="emcee is not installed")
    pytest.importorskip("schwimmbad", reason="schwimmbad is not installed")
    done = mpirun(2, [program(POOL)])
    line = next(x for x in done.stdout.splitlines() if x.startswith("mean"))
    assert abs(float(line.split()[1]) - 5) < 1
