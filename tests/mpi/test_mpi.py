"""The communicator under real ranks: each test runs its own small program on them."""

from __future__ import annotations

import json
import time

import pytest

from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.launcher import (
    check_launcher,
    check_library,
    check_slurm,
    mpich_settings,
    under_launcher,
)
from tauslab.decomposition.ranks.mpi import Communicator, host_name, world

mpi = pytest.mark.mpi
RANKS = (1, 2, 3)

HEAD = """
import json, sys, threading, time
import numpy as np
from tauslab.decomposition.ranks.mpi import world

comm = world()

def tell(value):
    everything = comm.gather(value)
    if everything is not None:
        print("told", json.dumps(everything))
"""


@pytest.fixture
def ranks(mpirun):
    """What each rank tells: ``ranks(3, program)`` is a list of three values."""

    def run(n, program, **options):
        done = mpirun(n, ["-c", HEAD + program], **options)
        # MPI libraries print warnings of their own on standard output.
        message = [line for line in done.stdout.splitlines() if line.startswith("told ")]
        return json.loads(message[0].removeprefix("told "))

    return run


@mpi
@pytest.mark.parametrize("n", RANKS)
def test_ranks_know_each_other(ranks, n):
    message = ranks(n, "tell([comm.rank, comm.size, comm.local_rank, comm.local_size])")
    assert message == [[rank, n, rank, n] for rank in range(n)]


@mpi
@pytest.mark.parametrize("n", RANKS)
def test_collectives(ranks, n):
    message = ranks(
        n,
        """
comm.barrier()
tell([
    comm.bcast({"from": comm.rank}),
    comm.allgather(comm.rank ** 2),
    comm.gather("x") is not None,
    comm.any(comm.rank == comm.size - 1),
    comm.any(False),
])
""",
    )
    squares = [rank**2 for rank in range(n)]
    assert message == [[{"from": 0}, squares, rank == 0, True, False] for rank in range(n)]


@mpi
@pytest.mark.parametrize("n", RANKS)
def test_sums_are_exact_modulo_2_to_the_64(ranks, n):
    message = ranks(
        n,
        """
mine = np.full((2, 3), 2**64 - 1 - comm.rank, np.uint64)
mine[1] = 2**53 + comm.rank + np.arange(3, dtype=np.uint64)
kept = mine.copy()
total = comm.sum_uint64(mine)
assert total.dtype == np.uint64 and np.array_equal(mine, kept)
tall = comm.sum_uint64(np.arange(200_000, dtype=np.uint64).reshape(2, -1).T)
tell([total.tolist(), int(tall[99_999, 1]), list(tall.shape)])
""",
    )
    extra = sum(range(n))
    first = (n * (2**64 - 1) - extra) % 2**64
    expected = [[first] * 3, [n * (2**53 + k) + extra for k in range(3)]]
    assert message == [[expected, n * 199_999, [100_000, 2]]] * n


@mpi
@pytest.mark.parametrize("n", RANKS)
def test_a_counter_gives_each_number_once(ranks, n):
    message = ranks(
        n,
        """
counter, other, mine = comm.counter(), comm.counter(), []
comm.barrier()
while not mine or mine[-1] < 3000:
    mine.append(counter.next())
first_of_other = other.next()
counter.free()
other.free()
tell([mine, first_of_other])
""",
    )
    taken = sorted(value for mine, _ in message for value in mine)
    assert taken == list(range(3000 + n))  # each rank stops at the first number beyond the last
    assert sorted(first for _, first in message) == list(range(n))
    assert all(mine == sorted(mine) for mine, _ in message)


@mpi
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.validate), 3])
def test_a_counter_serves_others_while_rank_0_computes(ranks, n):
    # Rank 0 computes in a thread, as the cpu device does, and polls; the others take numbers.
    # MPICH serves them through shared memory; MPIs that send messages need the poll.
    message = ranks(
        n,
        """
counter = comm.counter()
comm.barrier()
begin = time.monotonic()
if comm.rank == 0:
    x = np.random.default_rng(1).random(400_000)

    def compute():
        while time.monotonic() - begin < 2.0:
            np.sort(x)

    thread = threading.Thread(target=compute)
    thread.start()
    while thread.is_alive():
        comm.poll()
        time.sleep(0.001)
    mine = []
else:
    mine = [counter.next() for _ in range(200)]
seconds = time.monotonic() - begin
counter.free()
tell([seconds, mine])
""",
    )
    assert sorted(v for _, mine in message for v in mine) == list(range(200 * (n - 1)))
    assert message[0][0] >= 2.0
    for seconds, _ in message[1:]:
        assert seconds < 1.95, "numbers came only when rank 0 had finished"


@mpi
@pytest.mark.parametrize("waiting", ["comm.barrier()", "time.sleep(100)", "comm.counter()"])
def test_abort_ends_all_ranks(mpirun, waiting):
    program = f"""
if comm.rank == 1:
    print("rank 1: the disk is full", file=sys.stderr)
    comm.abort(3)
{waiting}
"""
    begin = time.monotonic()
    done = mpirun(3, ["-c", HEAD + program], check=False, timeout=60.0)
    assert done.returncode != 0
    assert "rank 1: the disk is full" in done.stderr
    assert time.monotonic() - begin < 30.0


@mpi
def test_an_exception_on_one_rank_ends_all(mpirun):
    """Not one of ours, and nobody catches it: the others wait in a collective call."""
    program = "if comm.rank == 1:\n    raise MemoryError('none left')\ncomm.barrier()"
    done = mpirun(3, ["-c", HEAD + program], check=False, timeout=60.0)
    assert done.returncode != 0
    assert "MemoryError: none left" in done.stderr


@mpi
def test_lone_ranks_in_a_slurm_job_are_refused(mpirun):
    done = mpirun(1, ["-c", HEAD], check=False, env={"SLURM_NTASKS": "4"})
    assert done.returncode != 0
    assert "1 MPI rank(s) run but SLURM_NTASKS is 4" in done.stderr


def test_a_plain_process_starts_no_mpi(monkeypatch):
    for name in ("PMI_RANK", "PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID",
                 "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    assert isinstance(world(), Communicator)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"PMI_RANK": "0"}, True),
        ({"OMPI_COMM_WORLD_RANK": "3"}, True),
        ({"SLURM_JOB_ID": "7"}, False),  # a batch script itself, without srun
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}, True),
    ],
)
def test_under_launcher(environment, expected):
    assert under_launcher(environment) is expected


@pytest.mark.parametrize("tasks", [None, "1", "2", "4(x2)"])
def test_slurm_tasks_that_fit(tasks):
    check_slurm(2, {} if tasks is None else {"SLURM_NTASKS": tasks})


def test_slurm_tasks_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"1 MPI rank\(s\) run but SLURM_NTASKS is 8"):
        check_slurm(1, {"SLURM_NTASKS": "8"})


WHEEL = "MPICH Version: 5.0.2\nMPICH Device:       ch4:ucx ofi\nMPICH CC: cc"
PMI2 = {"SLURM_MPI_TYPE": "pmi2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NNODES": "4"}


@pytest.mark.parametrize(
    ("library", "environment", "set_"),
    [
        (WHEEL, PMI2, True),
        (WHEEL, PMI2 | {"SLURM_STEP_NUM_NODES": "1"}, False),
        (WHEEL, PMI2 | {"SLURM_MPI_TYPE": "pmix"}, False),
        (WHEEL, PMI2 | {"MPIR_CVAR_CH4_NETMOD": "ucx"}, False),
        (WHEEL, {}, False),
        (WHEEL.replace(" ofi", ""), PMI2, False),  # it would not know the name
        ("Open MPI v5.0.8", PMI2, False),
    ],
)
def test_short_addresses_where_slurm_would_cut_long_ones(library, environment, set_):
    assert mpich_settings(library, environment) == ({"MPIR_CVAR_CH4_NETMOD": "ofi"} if set_ else {})


def test_one_rank_without_mpi():
    comm = Communicator()
    counter = comm.counter()
    assert [counter.next() for _ in range(3)] == [0, 1, 2]
    counter.free()
    assert comm.allgather("x") == comm.gather("x") == ["x"]
    assert comm.bcast(7) == 7
    assert comm.any(True)
    assert not comm.any(False)


LAUNCHERS = [
    ({"PMI_SIZE": "3"}, "started 3 (PMI_SIZE) and mpi4py uses Open MPI v5.0.8:"),
    ({"OMPI_COMM_WORLD_SIZE": "8", "PMI_SIZE": "1"}, "started 8 (OMPI_COMM_WORLD_SIZE)"),
    ({"MV2_COMM_WORLD_SIZE": "2"}, "started 2 (MV2_COMM_WORLD_SIZE)"),
    ({"SLURM_NTASKS": "4"}, "SLURM_NTASKS is 4"),
]


@pytest.mark.parametrize(("environment", "told"), LAUNCHERS)
def test_ranks_that_another_mpi_started_are_refused(environment, told):
    """Each would do all the work, and all would write the same file."""
    with pytest.raises(ConfigError, match=r"1 MPI rank\(s\) run but") as refused:
        check_launcher(1, "Open MPI v5.0.8, package: Open MPI", environment)
    assert told in str(refused.value)
    for size in (8, 16):  # mpiexec may go through srun with a task on each node
        check_launcher(size, "", environment)


@pytest.mark.parametrize(
    ("library", "environment", "refused"),
    [
        (WHEEL, {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0"}, "mpi4py uses MPICH"),
        (WHEEL, {"OMPI_COMM_WORLD_SIZE": "1"}, None),
        (WHEEL, {"OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}, "Open MPI's but mpi4py uses MPI"),
        (WHEEL, {"SLURM_NTASKS": "2", "PMIX_RANK": "0"}, "offers PMIx, which the MPICH of mpi4py"),
        (WHEEL, {"PMIX_RANK": "0", "PMI_RANK": "0"}, None),
        ("Intel(R) MPI Library 2021.12 for Linux* OS", {"PMIX_RANK": "0"}, None),
        (WHEEL, {"OMPI_COMM_WORLD_SIZE": "2", "PMI_RANK": "0"}, None),
        (WHEEL + " --with-pmi=pmix", {"OMPI_COMM_WORLD_SIZE": "2"}, None),
        ("Open MPI v5.0.8", {"OMPI_COMM_WORLD_SIZE": "2"}, None),
        (WHEEL, {"PMI_RANK": "1", "PMI_SIZE": "2"}, None),
    ],
)
def test_an_mpi_that_its_launcher_cannot_start_is_refused_before_it_aborts(
    library, environment, refused
):
    if refused is None:
        check_library(library, environment)
        return
    with pytest.raises(ConfigError, match=refused) as message:
        check_library(library, environment)
    sizes = [environment.get(name) for name in ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")]
    assert str(message.value.raised_by) in sizes


@mpi
def test_lone_ranks_of_another_launcher_tell_it_once(mpirun, tmp_path):
    run = ["-m", "tauslab", "run", "none.xml", "-n", "1"]
    done = mpirun(2, run, check=False, env={"MV2_COMM_WORLD_SIZE": "4"})
    assert done.returncode != 0
    assert done.stderr.count("2 MPI rank(s) run but the launcher started 4") == 1


@mpi
def test_what_fails_on_one_rank_names_its_node(ranks):
    program = """
from tauslab.base.errors import DeviceError
from tauslab.decomposition.ranks.together import agree

def act():
    if comm.rank == 1:
        raise DeviceError("no compiler")

try:
    agree(comm, act)
except DeviceError as error:
    tell(str(error))  # gathered: lines that two ranks print may mix
"""
    assert ranks(2, program) == [f"no compiler (rank 1 of 2 on {host_name()})"] * 2
