"""Lattices under mpirun: slabs, cuts, stops and deaths of ranks change no bit; errors end all."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import lattice_program
import lattice_run_factory
import numpy as np
import pytest
from launchers import require_one_line
from places import TESTS

from tauslab.model.lattice.file import write_lattice
from tauslab.store.results.digest import digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines
from tauslab.store.results.lattice.result import LatticeResult

pytestmark = pytest.mark.mpi

PROGRAM = TESTS / "support" / "programs" / "lattice_program.py"
LIKE = {
    "hooks": "hooks",
    "hooked": "hooks",
    "hooked in planes": "hooks in planes",
    "alone": "alone",
    "objects": "objects",
    "objects cut anew": "objects",
    "replicas": "replicas",
    "sweep": "sweep",
    "filling": "filling",
    "deep": "slots",
    "chosen": "slots",
}


def digest(path) -> str:
    return digest_total(lattice_digest_lines(path))


class OneRank(dict[str, Path]):
    """Files of one rank by case, each made in this process when it is asked for first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        lattice_program.run_all(self._folder, [f"{name}=1"])
        return self.setdefault(name, self._folder / f"{name}-1.h5")


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory) -> OneRank:
    return OneRank(tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        pytest.param(
            2, ("whole", "cuts", "hooked", "hooked in planes", "tight"), marks=pytest.mark.validate
        ),
        pytest.param(2, ("objects",), marks=pytest.mark.validate),
        (3, ("whole", "cuts", "hooked in planes", "objects cut anew")),
        pytest.param(3, ("whole", "cuts", "deep", "alone", "filling"), marks=pytest.mark.validate),
        pytest.param(3, ("whole", "cuts", "chosen", "replicas"), marks=pytest.mark.validate),
        pytest.param(
            4,
            ("whole", "cuts", "hooked", "alone", "filling", "replicas", "sweep"),
            marks=pytest.mark.validate,
        ),
    ],
)
def test_slabs_give_the_file_of_one_rank(mpirun, tmp_path, one_rank, ranks, cases):
    """Crowded, with new cuts, deeper halos, hooks, empty slabs, replicas side by side."""
    mpirun(ranks, [PROGRAM, tmp_path, *cases])
    for case in cases:
        path = tmp_path / f"{case}-{ranks}.h5"
        assert digest(path) == digest(one_rank[LIKE.get(case, "whole")]), case
        assert not path.with_name(path.name + ".parts").exists()
    if "whole" not in cases:
        return
    with h5py.File(tmp_path / f"whole-{ranks}.h5") as file, h5py.File(one_rank["whole"]) as one:
        assert file["overflow"][-1] > 200
        counted = ("time", "counts", "counts_by_site_type", "reactions_fired", "overflow")
        for name in (*counted, "lattice/time", "lattice/particles", "lattice/sites", "model/sites"):
            assert np.array_equal(file[name][...], one[name][...]), name
        assert file["lattice/particles"].chunks == one["lattice/particles"].chunks
    with LatticeResult(tmp_path / f"cuts-{ranks}.h5") as result:
        rows = result.profile
        assert len(rows) == ranks
        assert all(row["cuts"] >= 4 for row in rows)
        assert [row["begin"] for row in rows[1:]] == [row["end"] for row in rows[:-1]]
        assert {row["above"] for row in rows} <= {"host", "peer"}
    for case, depth in (("deep", 3), ("chosen", 2)):
        if case in cases:
            with LatticeResult(tmp_path / f"{case}-{ranks}.h5") as result:
                assert {row["halo_depth"] for row in result.profile} == {depth}


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_slabs_on_gpus_give_the_file_of_one_cpu(mpirun, tmp_path, one_rank, ranks):
    """Ranks share a GPU where there are not enough: peer copies, and the same bits."""
    cases = ["whole", "tight", "deep", "cuts", *LIKE]
    mpirun(ranks, [PROGRAM, tmp_path, *cases], env={"LATTICE_DEVICE": "cuda"})
    for case in cases:
        path = tmp_path / f"{case}-{ranks}.h5"
        assert digest(path) == digest(one_rank[LIKE.get(case, "whole")]), case


def test_slabs_extend_a_run_to_the_bits_of_a_longer_one(mpirun, tmp_path):
    """The last state of two slabs, which three go on from."""
    write_lattice(lattice_run_factory.model(), tmp_path / "model.h5")
    begin = ["-m", "tauslab", "rdme", tmp_path / "model.h5", "--device", "cpu", "--threads", "1"]
    own, (first, later) = ["--seed", "7", "--count-every", "3"], ("0.006", "0.009")
    mpirun(1, [*begin, *own, "--t-end", later, "-o", tmp_path / "1.h5"])
    mpirun(2, [*begin, *own, "--t-end", first, "--keep-state", "-o", tmp_path / "first.h5"])
    extend = ["--extend", tmp_path / "first.h5", "--t-end", later, "-o", tmp_path / "3.h5"]
    done = mpirun(3, [*begin, *extend])
    assert "simulated again" not in done.stderr
    assert digest(tmp_path / "3.h5") == digest(tmp_path / "1.h5")


def test_python_runs_without_an_output(mpirun, tmp_path, one_rank):
    done = mpirun(2, [PROGRAM, tmp_path, "temporary"])
    with LatticeResult(one_rank["whole"]) as result:
        expected = f"counts {len(result.times)} {result.counts('A')[-1]}"
    assert done.stdout.splitlines() == [expected] * 2


def test_a_killed_rank_ends_all_and_the_run_goes_on_elsewhere(mpirun, tmp_path, one_rank):
    """Rank 1 dies at step 30; other numbers of ranks go on from the checkpoint at step 24."""
    done = mpirun(3, [PROGRAM, tmp_path, "killed"], check=False, timeout=30)
    assert done.returncode != 0
    broken = tmp_path / "killed-3.h5"
    assert any(broken.with_name(broken.name + ".parts").glob("*checkpoint-*24-*.h5"))
    copy = tmp_path / "killed-1.h5"
    shutil.copy(broken, copy)
    shutil.copytree(f"{broken}.parts", f"{copy}.parts")
    lattice_program.run_all(tmp_path, ["killed=1"])
    assert digest(copy) == digest(one_rank["killed"])
    mpirun(2, [PROGRAM, tmp_path, "killed=3"])
    assert digest(broken) == digest(one_rank["killed"])


def test_a_signal_to_one_rank_stops_all(mpirun, tmp_path, one_rank):
    """Two lattices of two ranks: the last rank is asked, and both come to a checkpoint."""
    done = mpirun(4, [PROGRAM, tmp_path, "asked"])
    assert done.stdout.count("stopped") == 4
    path = tmp_path / "asked-4.h5"
    with LatticeResult(path) as result:
        assert not result.complete
    with h5py.File(path) as file:
        marks = file["progress/samples"][...]
    assert marks[0] > 0
    assert marks[2] < lattice_program.STEPS // 3 + 1, "the other group stopped too"
    mpirun(3, [PROGRAM, tmp_path, "asked=4"])
    assert digest(path) == digest(one_rank["asked"])


def test_a_disk_that_is_full_in_the_end_is_told_of_once(mpirun, tmp_path):
    """Ranks give back what they share, so MPI has nothing to complain of."""
    model, program = tmp_path / "model.h5", PROGRAM.with_name("full_disk_program.py")
    write_lattice(lattice_program.alone(), model)
    given = ["rdme", model, "--t-end", 10 * lattice_program.STEP, "--replicas", 2, "--slabs", 1]
    own = ["--device", "cpu", "--quiet", "-o", tmp_path / "out.h5"]
    done = mpirun(2, [program, *given, *own], check=False, timeout=60)
    assert done.returncode == 1
    assert "No space left on device; free some space" in done.stderr
    require_one_line(done)


def test_the_doctor_tells_how_planes_travel(mpirun):
    done = mpirun(2, ["-m", "tauslab", "doctor"])
    lines = [line for line in done.stdout.splitlines() if line.startswith("halo ")]
    assert " between ranks 0-1" in lines[0]
    assert "1-0" in lines[-1]
    if "takes the cpu device" in done.stdout:
        assert lines[0].startswith("halo       host between ranks 0-1, 1-0 (the cpu device has no")


def test_what_cannot_be_is_one_sentence(mpirun, tmp_path):
    write_lattice(lattice_program.crowded(), tmp_path / "cell.h5")
    (tmp_path / "text.h5").write_text("no")
    common = "--t-end 0.001 --device cpu --threads 1 --quiet --seed 1"
    refused = {
        f"rdme cell.h5 {common} -o a.h5 --slabs 2": "does not fit 3 rank(s)",
        f"rdme cell.h5 {common} -o a.h5 --halo-depth 5": "cannot cut a lattice of 12 planes",
        f"rdme cell.h5 {common} -o a.h5 --halo self": "--halo self",
        f"rdme cell.h5 {common} -o a.h5 --halo peer": "--halo peer: rank 0 cannot reach",
        f"rdme cell.h5 {common} -o a.h5 --halo mpi": "--halo mpi: this MPI does not say",
        f"rdme cell.h5 {common} -o a.h5 --halo pigeon": "invalid choice: 'pigeon'",
        f"rdme cell.h5 {common} -o a.h5 --halo-depth x": "--halo-depth: 'x' is no whole number",
        f"rdme cell.h5 {common} -o a.h5 --set nope=1": "no parameter or species of that name",
        f"rdme cell.h5 {common} -o text.h5 --resume": "text.h5 is not a lattice run",
        f"rdme none.h5 {common} -o a.h5": "none.h5",
    }
    done = mpirun(3, [PROGRAM, tmp_path, *refused], check=False)
    assert done.stdout.count(f"returned {[2] * len(refused)}") == 3, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(refused), done.stderr
    for line, message in zip(lines, refused.values(), strict=True):
        assert line.startswith("tauslab: ")
        assert message in line
    assert not (tmp_path / "a.h5.parts").exists()
