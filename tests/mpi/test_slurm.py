"""The batch scripts of slurm/ under a real SLURM: two nodes, GPUs, requeue, arrays, Dask."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import time
from pathlib import Path

import pytest
from places import ROOT, TESTS

import tauslab as ts
from tauslab.store.results.digest import digest_lines

_SPEC = importlib.util.spec_from_file_location(
    "slurm_cluster", TESTS / "support" / "programs" / "slurm_cluster.py"
)
slurm_cluster = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(slurm_cluster)
PROGRAMS = slurm_cluster.find_programs()

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(
        PROGRAMS is None,
        reason="no SLURM (apt install slurmctld slurmd slurm-client, or unpack these packages "
        "with dpkg -x and name the folder in TAUSLAB_SLURM)",
    ),
]

SCHLOGL = TESTS / "data" / "sbml" / "schlogl.xml"
RUN = ["--points", "6", "--seed", "5", "--method", "ssa", "--device", "cpu", "--threads", "1"]
SMALL = ["--ntasks-per-node=2", "--cpus-per-task=1", "--gpus-per-node=2", "--time=10"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_cluster.SlurmCluster(tmp_path_factory.mktemp("slurm"), PROGRAMS) as cluster:
        yield cluster


@pytest.fixture
def submit(slurm, tmp_path):
    """Submit a script of slurm/ as it is."""
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    package, python = Path(ts.__file__).parents[1], shlex.quote(sys.executable)
    (bin_folder / "activate").write_text(
        f"export PATH={bin_folder}:{Path(sys.executable).parent}:$PATH PYTHONPATH={package}\n"
    )
    tauslab = bin_folder / "tauslab"
    tauslab.write_text(f'#!/bin/sh\nexec {python} -m tauslab "$@"\n')
    tauslab.chmod(0o755)

    def start(name, arguments, *options):
        script, given = ROOT / "slurm" / name, list(map(str, arguments))
        return slurm.submit(tmp_path, script, *SMALL, *options, arguments=given)

    return start


def log_of(folder, job):
    return "\n".join(path.read_text() for path in sorted(folder.glob(f"tauslab-{job}*.log")))


def lines(path):
    with ts.open(path) as result:
        return digest_lines(result, None)


def plain(tmp_path, **options):
    chosen = {"points": 6, "seed": 5, "method": "ssa", "device": "cpu"} | options
    out = ts.Output(tmp_path / "plain.h5", overwrite=True)
    with ts.run(SCHLOGL, **chosen, output=out) as result:
        return digest_lines(result, None)


@pytest.mark.parametrize(("name", "nodes"), [("single_node.sbatch", 1), ("multi_node.sbatch", 2)])
def test_ranks_of_a_job_find_each_other(slurm, submit, tmp_path, name, nodes):
    job = submit(name, [SCHLOGL, "-n", 200, "--t-end", 1, *RUN, "-o", "out.h5"])
    state = slurm.wait_for(job, "COMPLETED", "FAILED")
    log = log_of(tmp_path, job)
    assert state["JobState"] == "COMPLETED", log
    assert int(state["NumNodes"].split("-")[0]) == nodes
    with ts.open(tmp_path / "out.h5") as result:
        assert len(result.data["profile/rank"]) == 2 * nodes
    assert lines(tmp_path / "out.h5") == plain(tmp_path, n=200, t_end=1)
    assert log.count("rank 3") == (1 if nodes == 2 else 0), "tauslab doctor heads the log"


def test_a_script_runs_on_nodes_without_gpus(slurm, submit, tmp_path):
    given = [SCHLOGL, "-n", 200, "--t-end", 1, *RUN, "-o", "out.h5"]
    job = submit("single_node.sbatch", given, "--gpus-per-node=0")
    state = slurm.wait_for(job, "COMPLETED", "FAILED")
    assert state["JobState"] == "COMPLETED", log_of(tmp_path, job)
    assert state["TresPerNode"] == "gres:gpu:0"
    assert lines(tmp_path / "out.h5") == plain(tmp_path, n=200, t_end=1)


CUPY = """\
import os
from types import SimpleNamespace
def visible():
    return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
cuda = SimpleNamespace(runtime=SimpleNamespace(CUDARuntimeError=OSError, getDeviceCount=visible))
"""
OPENED = """\
import json, os, sys
from tauslab.decomposition.ranks import job
from tauslab.api.api import ranks
job.get_backend = lambda name, options: (name, options.index)
comm = ranks()
name, index = job.open_backend("auto", 1, comm)
seen = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
found = comm.gather([os.environ["SLURMD_NODENAME"], seen, index])
if comm.rank == 0:
    print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("request_", "seen", "indices"),
    [
        (["--ntasks=2", "--gpus-per-task=1"], [1] * 2, [0] * 2),
        (["--ntasks-per-node=2", "--gpus-per-node=3"], [3] * 2, [0, 1]),
        (["--ntasks=2", "--gpus-per-task=2"], [2] * 2, [0] * 2),
        (["--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=4"], [4] * 4, [0, 1, 0, 1]),
    ],
    ids=["one per task", "all of a node", "two per task", "two nodes"],
)
@pytest.mark.parametrize("batch", [True, False])
def test_every_rank_takes_a_gpu_of_its_own(slurm, tmp_path, request_, seen, indices, batch):
    """The GPUs are links to /dev/null; a CuPy that counts what is shown stands for the driver."""
    (tmp_path / "cupy.py").write_text(CUPY)
    (tmp_path / "opened.py").write_text(OPENED)
    package = Path(ts.__file__).parents[1]
    command = f"env PYTHONPATH={package} {shlex.quote(sys.executable)} {tmp_path / 'opened.py'}"
    options = ["--cpus-per-task=1", *request_]
    if batch:
        (tmp_path / "job.sh").write_text(f"#!/bin/bash\nsrun --mpi=pmi2 {command}\n")
        log = tmp_path / "job.log"
        job = slurm.submit(tmp_path, tmp_path / "job.sh", *options, f"-o{log}", arguments=[])
        state = slurm.wait_for(job, "COMPLETED", "FAILED")
        message = log.read_text()
        assert state["JobState"] == "COMPLETED", message
    else:
        message = slurm.call("srun", "--mpi=pmi2", *options, *command.split())
    actual = json.loads(message.splitlines()[-1])
    assert [len(shown) for _, shown, _ in actual] == seen
    assert [index for _, _, index in actual] == indices
    taken = {(node, shown[index]) for node, shown, index in actual}
    assert len(taken) == len(actual), "no GPU is taken twice"


def wait_for_blocks(path, timeout=60):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            with ts.open(path) as result:
                done, left = result.completed_blocks.sum(), (~result.completed_blocks).sum()
        except ts.OutputError:
            done = left = 0
        if done:
            return int(done), int(left)
        time.sleep(0.1)
    raise TimeoutError(path)


def come_back(slurm, tmp_path, job, *, patience=120.0):
    """Let a job run whenever it is in the queue, until it is done; how often it came back."""
    deadline = time.monotonic() + patience
    while (state := slurm.state(job))["JobState"] not in ("COMPLETED", "FAILED"):
        assert time.monotonic() < deadline, f"{state}\n{log_of(tmp_path, job)}"
        # It would wait for two minutes, in which what is left of its last run ends.
        if state["JobState"] == "PENDING" and slurm.runs_ended(job) >= int(state["Restarts"]):
            time.sleep(2)  # slurmd tells two runs of a job apart by the second
            slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
        time.sleep(0.3)
    log = log_of(tmp_path, job)
    assert state["JobState"] == "COMPLETED", log
    assert log.count("back into the queue") == int(state["Restarts"])
    return int(state["Restarts"])


def test_a_job_near_its_limit_is_requeued_and_completes_its_file(slurm, submit, tmp_path):
    """USR1 to the batch shell alone is what SLURM sends before the limit (--signal=B:USR1)."""
    more = ["-n", 3000, "--t-end", 10, "--block", 10, *RUN, "-o", "out.h5", "--quiet"]
    job = submit("requeue.sbatch", [SCHLOGL, *more])
    before, left = wait_for_blocks(tmp_path / "out.h5")
    assert left > 0
    slurm.call("scancel", "--signal=USR1", "--batch", job)
    state = slurm.wait_for(job, "PENDING", "COMPLETED", "FAILED")
    assert state["JobState"] == "PENDING", log_of(tmp_path, job)
    with ts.open(tmp_path / "out.h5") as result:
        assert not result.complete
    kept, left = wait_for_blocks(tmp_path / "out.h5")
    assert kept >= before
    assert left > 0
    assert come_back(slurm, tmp_path, job) == 1
    assert lines(tmp_path / "out.h5") == plain(tmp_path, n=3000, t_end=10)


@pytest.mark.validate
@pytest.mark.timeout(1200)
def test_slurm_itself_sends_the_signal_before_the_limit(slurm, submit, tmp_path):
    """Minutes long: SLURM counts limits in minutes, and may send the signal one of them early."""
    more = ["-n", 150000, "--t-end", 10, "--block", 50, *RUN, "-o", "out.h5", "--quiet"]
    job = submit("requeue.sbatch", [SCHLOGL, *more], "--time=2", "--signal=B:USR1@60")
    begun = time.monotonic()
    restarts = come_back(slurm, tmp_path, job, patience=800.0)
    print(f"requeued {restarts} times; done after {time.monotonic() - begun:.0f} s")
    assert restarts > 0
    assert lines(tmp_path / "out.h5") == plain(tmp_path, n=150000, t_end=10)


def test_an_array_shares_the_points_of_a_table(slurm, submit, tmp_path):
    (tmp_path / "points.csv").write_text("c3,X\n8e-4,200\n9e-4,250\n1e-3,300\n")
    arguments = ["points.csv", SCHLOGL, "-n", 40, "--t-end", 1, *RUN, "-opart.h5"]
    job = submit("array.sbatch", arguments, "--array=0-1", "--ntasks-per-node=1",
                 "--export=ALL,TAUSLAB_TASKS=2")  # fmt: skip
    for task in (0, 1):
        state = slurm.wait_for(f"{job}_{task}", "COMPLETED", "FAILED")
        assert state["JobState"] == "COMPLETED", log_of(tmp_path, job)
    values = {0: (0, [8e-4], [200]), 1: (1, [9e-4, 1e-3], [250, 300])}
    for task, (first, c3, x) in values.items():
        with ts.open(tmp_path / f"part-{task}.h5") as result:
            actual = digest_lines(result, None)
        assert actual == plain(tmp_path, n=40, t_end=1, table={"c3": c3, "X": x}, first_point=first)


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="no Dask (pip install tauslab[dask])"
)
def test_dask_workers_on_two_nodes(slurm, submit, tmp_path):
    job = submit("dask.sbatch", [SCHLOGL, "-n", 200, "--t-end", 1, *RUN, "-o", "out.h5"])
    state = slurm.wait_for(job, "COMPLETED", "FAILED")
    assert state["JobState"] == "COMPLETED", log_of(tmp_path, job)
    assert lines(tmp_path / "out.h5") == plain(tmp_path, n=200, t_end=1)
