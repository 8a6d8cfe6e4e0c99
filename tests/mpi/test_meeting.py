"""Calls that some ranks do not make, or make with other arguments, and calls of one rank alone."""

from __future__ import annotations

import json

import pytest

from tauslab.decomposition.ranks.launcher import launched_place

pytestmark = pytest.mark.mpi

HEAD = """
import json, time, warnings
import numpy as np
import tauslab as ts
from mpi4py import MPI
from tauslab.decomposition.ranks import meeting

world = MPI.COMM_WORLD
net = ts.Network("decay")
net.add_species("X", 100)
net.add_parameter("k", 1.0)
net.add_reaction("X ->", rate="k")
here = dict(device=ts.CPU(threads=1))

def tell(value):
    found = world.gather(value)
    if found is not None:
        print("told", json.dumps(found))

def refused(call):
    try:
        call()
    except ts.ConfigError as error:
        return str(error)
    return ""
"""


@pytest.fixture
def ranks(mpirun):
    """What each rank tells."""

    def run(n, program):
        done = mpirun(n, ["-c", HEAD + program])
        message = [line for line in done.stdout.splitlines() if line.startswith("told ")]
        return json.loads(message[0].removeprefix("told "))

    return run


def test_a_rank_that_is_missing_is_named(ranks):
    """The first of those that wait speaks, and all go on when the last one comes."""
    message = ranks(
        3,
        """
before, meeting.PATIENCE = meeting.PATIENCE, 0.2
part = world.Dup()
if world.rank == 1:
    time.sleep(1.0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = ts.run(net, n=3, t_end=1, seed=1, comm=part, **here)
meeting.PATIENCE = before
tell([[str(one.message) for one in caught], found.counts("X").tolist()])
part.Free()
""",
    )
    counts = [values for _, values in message]
    assert counts[0] == counts[1] == counts[2]
    assert [len(printed) for printed, _ in message] == [1, 0, 0]
    assert "rank 1 of 3" in message[0][0][0]
    assert 'comm="self"' in message[0][0][0]


EARLY = """
import tauslab
from tauslab.decomposition.ranks.launcher import launched_rank
if launched_rank() == 1:
    raise KeyError("a column that is not there")
net = tauslab.Network("decay")
net.add_species("X", 100)
net.add_reaction("X ->", rate=1.0)
tauslab.run(net, n=3, t_end=1, seed=1)
"""


def test_a_rank_that_raises_before_its_first_call_ends_all(mpirun, tmp_path):
    """As ``python -m mpi4py`` does; the server of forks imported tauslab without a launcher."""
    (tmp_path / "job.py").write_text(EARLY)
    start = "import os, sys; os.execv(sys.executable, [sys.executable, 'job.py'])"
    done = mpirun(2, ["-c", start], check=False, timeout=40)
    assert done.returncode != 0
    assert "a column that is not there" in done.stderr


CHILD = """
import subprocess, sys, tauslab
child = "import tauslab, sys; print(sys.excepthook); raise KeyError('its own')"
failed = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=30)
assert failed.returncode == 1 and "its own" in failed.stderr, failed.stderr
assert "EarlyHook" not in failed.stdout
print(type(sys.excepthook).__name__)
"""


def test_a_python_that_a_rank_starts_ends_alone(mpirun, tmp_path):
    (tmp_path / "job.py").write_text(CHILD)
    start = "import os, sys; os.execv(sys.executable, [sys.executable, 'job.py'])"
    assert mpirun(2, ["-c", start], timeout=60).stdout.split() == ["EarlyHook"] * 2


def test_words_of_many_ranks_name_all_that_are_missing(ranks):
    """More messages than are sent at a time; here each of three ranks sends one at a time."""
    message = ranks(
        3,
        """
before, meeting._AT_ONCE, meeting.PATIENCE = (meeting._AT_ONCE, meeting.PATIENCE), 1, 0.2
part = world.Dup()
if world.rank == 0:
    time.sleep(0.6)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    words = meeting.meet(part, MPI, "a call", world.rank + 5)
meeting._AT_ONCE, meeting.PATIENCE = before
tell([len(caught), words.tolist(), [str(one.message) for one in caught]])
part.Free()
""",
    )
    assert [words for _, words, _ in message] == [[5, 6, 7]] * 3
    assert [count for count, _, _ in message] == [0, 1, 0]
    assert "rank 0 of 3" in message[1][2][0]


def test_ranks_with_other_arguments_are_refused(ranks):
    """Each of them would have given numbers of which nobody knows what they are."""
    message = ranks(
        2,
        """
r = world.rank
other = ts.Network("decay")
other.add_species("X", 100 + r)
other.add_reaction("X ->", rate=1.0)
data, seen = {"time": [1.0], "X": [40]}, {"X": "normal(sd=3)"}
moved = {"time": [1.0], "X": [40 + r]}
simulate = ts.simulator(net, ["k"], t_end=1, seed=0, **here)
particles = ts.Ensemble(net, 4, seed=1, **here)
calls = {
    "seed": lambda: ts.run(net, n=5, t_end=1, seed=r, **here),
    "n": lambda: ts.run(net, n=5 + r, t_end=1, seed=1, **here),
    "model": lambda: ts.run(other, n=5, t_end=1, seed=1, **here),
    "output": lambda: ts.run(net, n=5, t_end=1, seed=1, output=f"{r}.h5", **here),
    "theta": lambda: simulate([[1.0 + r]]),
    "data": lambda: ts.particle_filter(net, moved, observe=seen, seed=1, **here),
    "steps": lambda: ts.pmmh(net, data, {"k": "uniform(0,9)"}, observe=seen, steps=5 + r, **here),
    "t": lambda: particles.advance(1.0 + r),
    "weights": lambda: particles.resample([1.0, 1.0, 1.0, r]),
    "log_factors": lambda: particles.weigh([0.0, 0.0, 0.0, r]),
    "times": lambda: ts.sensitivity(net, times=1.0 + r, seed=1, **here),
    "target": lambda: ts.weighted_ensemble(net, target=f"X <= {r}", t_end=1, seed=1, **here),
    "cells": lambda: ts.population(net, 1.0, division="d", cells=4 + r, seed=1, **here),
    "samples": lambda: ts.dbn.build(net, unknown=["k"], samples=9 + r, t_end=1, seed=1, **here),
    "": lambda: ts.sensitivity(net, seed=1) if r else ts.run(net, n=5, t_end=1, seed=1),
}
tell({name: refused(call) for name, call in calls.items()})
""",
    )
    assert message[0] == message[1]
    both = message[0].pop("")
    assert "rank 0 calls ts.run and rank 1 calls ts.sensitivity" in both
    for name, printed in message[0].items():
        assert printed.startswith(f"{name}= is ")
        assert "on rank 1" in printed


def test_what_may_differ_from_rank_to_rank(ranks):
    """Progress, functions, and the seed of a simulator that was given none."""
    message = ranks(
        2,
        """
one = ts.run(net, n=5, t_end=1, seed=1, quiet=world.rank > 0, **here).counts("X")
simulate = ts.simulator(net, ["k"], t_end=1, seed=None, **here)
two = simulate([[1.0], [2.0], [3.0]])
tell([one.tolist(), two.tolist(), simulate.seed])
""",
    )
    assert message[0] == message[1]


def test_a_rank_runs_alone(ranks, tmp_path):
    """What it gives, and writes, is what a process without MPI gives."""
    message = ranks(
        2,
        """
r = world.rank
found = []
if r == 1:  # the other has its own work
    for comm in ("self", MPI.COMM_SELF):
        alone = dict(comm=comm, **here)
        result = ts.run(net, n=4, t_end=1, seed=7, **alone)
        result.save(f"{comm if comm == 'self' else 'mpi'}.h5")
        simulate = ts.simulator(net, ["k"], t_end=1, seed=3, **alone)
        data = {"time": [1.0], "X": [40]}
        seen = {"X": "normal(sd=3)"}
        filtered = ts.particle_filter(net, data, observe=seen, n=9, seed=1, **alone)
        with ts.Ensemble(net, 4, seed=1, **alone) as particles:
            particles.advance(1.0)
            counts = particles.counts
        found.append([result.counts("X").tolist(), simulate([2.0]).tolist(),
                      filtered.log_likelihood, counts.tolist()])
tell([found, refused(lambda: ts.run(net, n=1, t_end=1, comm="all"))])
""",
    )
    assert message[1][0][0] == message[1][0][1]
    assert message[0][0] == []
    assert all("comm='all'" in refused for _, refused in message)
    assert {p.name for p in tmp_path.iterdir()} >= {"self.h5", "mpi.h5"}


def test_ranks_of_a_communicator_run_together(ranks):
    message = ranks(
        3,
        """
part = world.Split(world.rank == 2, world.rank)
seed = 1 if world.rank < 2 else 2
counts = [ts.run(net, n=4, t_end=1, seed=seed, comm=part, **here).counts("X") for _ in range(2)]
tell([one.tolist() for one in counts])
part.Free()
""",
    )
    assert message[0] == message[1]
    assert message[0][0] == message[0][1]
    assert message[2] != message[0]


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, (0, 1)),
        ({"MPI_LOCALRANKID": "3", "MPI_LOCALNRANKS": "4"}, (3, 4)),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, (1, 2)),
        ({"SLURM_LOCALID": "1", "SLURM_NODEID": "2", "SLURM_TASKS_PER_NODE": "4(x2),2"}, (1, 2)),
        ({"SLURM_LOCALID": "3", "SLURM_NODEID": "0", "SLURM_TASKS_PER_NODE": "x"}, (3, 4)),
        ({"SLURM_LOCALID": "3"}, (0, 1)),
    ],
)
def test_the_place_of_a_rank_on_its_node(environment, place):
    assert launched_place(environment) == place


def test_prepared_runs_are_collective_and_have_the_bits_of_one_rank(ranks):
    """Also where one rank has forgotten what the others keep."""
    message = ranks(
        2,
        """
from tauslab.runner.ensemble.kept import kept_runs
options = dict(n=40, times=[0, 1], **here)
prepared = ts.prepare(net, **options)
digests = [prepared.run(seed=seed).digest() for seed in (1, 2)]
if world.rank == 1:
    kept_runs.forget()
digests += [prepared.run(seed=3).digest(), prepared.run(seed=3, set={"k": 0.5}).digest()]
kept = len(kept_runs) > 0
kept_runs.forget()
alone = [ts.run(net, seed=seed, comm="self", **options).digest() for seed in (1, 2, 3)]
alone.append(ts.run(net, seed=3, set={"k": 0.5}, comm="self", **options).digest())
tell([digests, alone, kept])
""",
    )
    for digests, alone, kept in message:
        assert digests == alone
        assert kept
    assert len(set(message[0][0])) == 4
