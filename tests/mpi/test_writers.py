"""Writers under real MPI: one result, whatever the number of ranks, and after a rank was killed."""

from __future__ import annotations

import h5py
import pytest
from sample_job import CRASH_JOBS, check_marked_blocks, digest, sample_job
from sampling import ordinary

from tauslab.base.errors import InputFileError
from tauslab.store.results.open import open_result

pytestmark = pytest.mark.mpi

WRITE = """
import sys
from pathlib import Path

from sample_job import sample_job
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.decomposition.ranks.mpi import world
from tauslab.store.writers.parts import PartsOptions
from tauslab.store.results.result import Result

job, comm = sample_job(), world()
assert comm.size == int(sys.argv[1])
job.run_rank(Path("merged.h5"), comm)
job.run_rank(Path("view.h5"), comm, parts=PartsOptions(segment_bytes=500, merge_bytes=0))
memory = job.run_rank(None, comm)
total = digest_total(digest_lines(Result(memory.result_arrays, memory.attributes)))
totals = comm.gather(total)
if comm.rank == 0:
    print(*totals)
"""

# Rank `victim` is killed before its change number `lives`; -1 for nobody.
CRASH = """
import sys
from pathlib import Path

from mortal_disk import MortalDisk, SigKill
from sample_job import CRASH_JOBS
from tauslab.decomposition.ranks.mpi import world

record, victim, lives = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
comm = world()
disk = SigKill(lives) if comm.rank == victim else MortalDisk()
CRASH_JOBS[record]().run_rank(Path("a.h5"), comm, disk=disk, resume=True)
"""

REFUSE = """
from pathlib import Path

from sample_job import sample_job
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.mpi import world

comm, message = world(), ""
try:
    sample_job().run_rank(Path("a.h5"), comm)
except ConfigError as error:
    message = str(error)
messages = comm.gather(message)
if comm.rank == 0:
    for line in messages:
        print(line)
"""


@pytest.mark.parametrize("ranks", ordinary([1, 2, 3, 4], 1, 3))
def test_every_number_of_ranks_gives_the_same_result(mpirun, tmp_path, ranks):
    job = sample_job()
    job.run(tmp_path / "serial.h5")
    total = digest(tmp_path / "serial.h5")
    done = mpirun(ranks, ["-c", WRITE, ranks], timeout=60)
    assert done.stdout.split() == [total] * ranks  # kept in memory
    for name in ("merged.h5", "view.h5"):
        path = tmp_path / name
        job.check(path)
        assert digest(path) == total
        with h5py.File(path) as file:
            view = ranks > 1 and name == "view.h5"
            assert file["counts"].is_virtual == view
            assert path.with_name(f"{name}.parts").exists() == view
            assert len(file["profile/rank"]) == ranks


def test_a_moved_view_opens_and_notices_a_missing_part(mpirun, tmp_path):
    mpirun(3, ["-c", WRITE, 3], timeout=60)
    total = digest(tmp_path / "merged.h5")
    there = tmp_path / "there"
    there.mkdir()
    for name in ("view.h5", "view.h5.parts"):
        (tmp_path / name).rename(there / name)
    assert digest(there / "view.h5") == total
    (there / "view.h5.parts" / "r0002-000.h5").unlink()
    with pytest.raises(InputFileError, match=r"r0002-000\.h5, is missing"):
        open_result(there / "view.h5")


@pytest.mark.parametrize(
    ("record", "ranks", "victim", "lives", "others"),
    [
        pytest.param("trajectories", 3, 0, 2, 3, marks=pytest.mark.validate),  # before a result
        ("trajectories", 3, 1, 9, 2),  # while rank 1 writes
        # While rank 0 writes, or puts the result together.
        pytest.param("trajectories", 2, 0, 22, 4, marks=pytest.mark.validate),
        pytest.param("statistics", 3, 2, 11, 1, marks=pytest.mark.validate),
        ("statistics", 4, 0, 20, 3),
    ],
)
def test_a_killed_rank(mpirun, tmp_path, record, ranks, victim, lives, others):
    job, path = CRASH_JOBS[record](), tmp_path / "a.h5"
    job.run(tmp_path / "serial.h5")
    arguments = ["-c", CRASH, record, victim, lives]
    done = mpirun(ranks, arguments, timeout=60, check=False)
    assert done.returncode != 0
    if path.exists():
        check_marked_blocks(job, path)
        with pytest.raises(InputFileError, match="is unfinished"):
            digest(path)
    mpirun(others, ["-c", CRASH, record, -1, 0], timeout=60)
    job.check(path)
    assert digest(path) == digest(tmp_path / "serial.h5")


def test_all_ranks_refuse_an_existing_file(mpirun, tmp_path):
    path = tmp_path / "a.h5"
    path.write_text("mine")
    done = mpirun(3, ["-c", REFUSE], timeout=60)
    use = 'output=ts.Output("a.h5", overwrite=True), resume=True or another output='
    sentence = f"a.h5 exists; use {use}"
    assert done.stdout.splitlines() == [sentence] * 3
    assert path.read_text() == "mine"
