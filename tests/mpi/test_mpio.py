"""One file written by all ranks through HDF5: the bits of one rank, also after a kill."""

from __future__ import annotations

import h5py
import pytest
from places import TESTS, script

from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

pytestmark = pytest.mark.mpi

SBML = TESTS / "data" / "sbml"
RUN = ["run", SBML / "schlogl.xml", "--t-end", "1", "--points", "6", "--seed", "5",
       "--device", "cpu", "--threads", "1", "--method", "ssa", "--quiet"]  # fmt: skip
TAUSLAB = ["-m", "tauslab"]
SWEEP = ["--sweep", "c3=lin:8e-4:1.2e-3:3"]


def digests(path):
    with open_result(path) as result:
        return digest_lines(result, None)


@pytest.mark.parametrize(
    ("record", "sweep"),
    [
        ("trajectories,statistics,final", SWEEP),
        pytest.param("statistics,final", [], marks=pytest.mark.validate),
        ("final,summary:mean:X", SWEEP),
    ],
)
def test_the_same_file_as_of_one_rank(mpirun, parallel_h5py, tmp_path, record, sweep):
    common = [*TAUSLAB, *RUN, "-n", "90", "--record", record, *sweep]
    mpirun(1, [*common, "-o", tmp_path / "one.h5"])
    hints = ["--mpi-hint", "romio_cb_write=enable", "--block", "25"]
    mpirun(3, [*common, *hints, "-o", tmp_path / "a.h5"], env=parallel_h5py)
    assert digests(tmp_path / "a.h5") == digests(tmp_path / "one.h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "one.h5"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["storage"] == b"plain"
        assert file.id.get_create_plist().get_version()[0] < 3, "not written by all ranks"


def test_ranks_with_nothing_to_write_take_part(mpirun, parallel_h5py, tmp_path):
    common = [*TAUSLAB, *RUN, "-n", "2"]
    mpirun(4, [*common, "--writer", "mpio", "-o", tmp_path / "a.h5"], env=parallel_h5py)
    mpirun(1, [*common, "-o", tmp_path / "one.h5"])
    assert digests(tmp_path / "a.h5") == digests(tmp_path / "one.h5")


@pytest.mark.parametrize(
    ("fault", "moment", "victim", "again", "writer"),
    [
        ("kill", 9, 1, 3, "mpio"),
        pytest.param("kill", 14, 2, 1, "parts", marks=pytest.mark.validate),
        ("full", 12, 1, 2, "mpio"),
        pytest.param("device", 3, 1, 2, "parts", marks=pytest.mark.validate),
    ],
)
def test_a_fault_in_one_rank(mpirun, parallel_h5py, tmp_path, fault, moment, victim, again, writer):
    """The file stays readable, and any writer goes on from it, on any number of ranks."""
    path = tmp_path / "a.h5"
    common = [*RUN, "-n", "400", "--block", "10", "--record", "trajectories,statistics"]
    common += ["--selector", "tree"]  # its launches are small: many writes
    child = [script("fault_child.py"), fault, moment, victim]
    broken = [*child, *common, "--writer", "mpio", "-o", path]
    done = mpirun(3, broken, env=parallel_h5py, check=False, timeout=60)
    assert done.returncode != 0
    assert fault != "full" or "No space left on device; free some space" in done.stderr
    if path.exists():
        with open_result(path) as result:
            assert not result.complete
    mpirun(again, [*TAUSLAB, *common, "--resume", "--writer", writer, "-o", path],
           env=parallel_h5py)  # fmt: skip
    mpirun(1, [*TAUSLAB, *common, "-o", tmp_path / "one.h5"])
    assert digests(path) == digests(tmp_path / "one.h5")


def test_results_grow_with_this_writer(mpirun, parallel_h5py, tmp_path):
    path, common = tmp_path / "a.h5", [*TAUSLAB, *RUN, "--record", "trajectories,statistics"]
    mpirun(2, [*common, "-n", "60", "-o", path], env=parallel_h5py)
    mpirun(3, [*common, "--append", "40", "-o", path], env=parallel_h5py)
    mpirun(1, [*common, "-n", "100", "-o", tmp_path / "one.h5"])
    assert digests(path) == digests(tmp_path / "one.h5")


@pytest.mark.parametrize("sweep", [pytest.param([], marks=pytest.mark.validate), SWEEP])
def test_compressed(mpirun, parallel_h5py, tmp_path, sweep):
    path, common = tmp_path / "a.h5", [*TAUSLAB, *RUN, "-n", "200", "--block", "25", *sweep]
    mpirun(3, [*common, "--compress", "5", "-o", path], env=parallel_h5py)
    mpirun(1, [*common, "-o", tmp_path / "one.h5"])
    with h5py.File(path) as file:
        assert file["counts"].compression == "gzip"
    assert digests(path) == digests(tmp_path / "one.h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "one.h5"]


@pytest.mark.skipif(h5py.get_config().mpi, reason="this h5py has MPI")
def test_without_such_an_h5py_it_is_refused(mpirun, tmp_path):
    arguments = [*TAUSLAB, *RUN, "--writer", "mpio", "-o", tmp_path / "a.h5"]
    done = mpirun(2, arguments, check=False)
    assert done.returncode == 2
    assert done.stderr.count("--writer mpio: this h5py was built without MPI") == 1
    assert not (tmp_path / "a.h5").exists()


def test_until_is_the_same_on_any_number_of_ranks(mpirun, tmp_path):
    common = [*TAUSLAB, *RUN, "-n", "40000", "--t-end", "0.2", "--record", "statistics"]
    until = ["--until", "mean(X) rel 0.0012"]
    for ranks, block in ((1, "100"), (3, "37")):
        mpirun(ranks, [*common, *until, "--block", block, "-o", tmp_path / f"{ranks}.h5"])
    assert digests(tmp_path / "3.h5") == digests(tmp_path / "1.h5")
    with open_result(tmp_path / "3.h5") as result:
        assert 4096 < result.n < 40000


def test_results_grow_on_other_numbers_of_ranks(mpirun, tmp_path):
    path = tmp_path / "a.h5"
    common = [*TAUSLAB, *RUN, "--record", "statistics,final", *SWEEP]
    mpirun(3, [*common, "-n", "50", "-o", path])
    mpirun(2, [*common, "--append", "30", "-o", path])
    mpirun(1, [*common, "-n", "80", "-o", tmp_path / "one.h5"])
    assert digests(path) == digests(tmp_path / "one.h5")
