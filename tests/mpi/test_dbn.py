"""Dynamic Bayesian networks under ranks: the same tables, and errors on all ranks alike."""

from __future__ import annotations

import pytest
from dbn_factory import CHAIN

import tauslab as ts
from tauslab import dbn
from tauslab.analysis.dbn.parts import gathered
from tauslab.analysis.dbn.results.file import network_digest_lines

pytestmark = pytest.mark.mpi

COMMAND = ["-m", "tauslab", "dbn", "chain.toml", "--unknown", "a,b", "--range", "a=0.2:1.2",
           "--samples", "4000", "--t-end", "4", "--points", "5", "--substeps", "10", "--seed", "7",
           "--device", "cpu", "--threads", "1"]  # fmt: skip


@pytest.fixture
def alone(tmp_path):
    """Digests of the network that one rank counts."""
    (tmp_path / "chain.toml").write_text(CHAIN)
    dbn.build(
        tmp_path / "chain.toml", unknown=["a", "b"], ranges={"a": (0.2, 1.2)}, samples=4000,
        t_end=4, points=5, method=ts.ODE(substeps=10), seed=7, device=ts.CPU(threads=1),
        output=tmp_path / "1.h5",
    )  # fmt: skip
    return network_digest_lines(tmp_path / "1.h5")


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.validate)])
def test_ranks_count_the_same_tables(mpirun, tmp_path, alone, ranks):
    done = mpirun(ranks, [*COMMAND, "-o", "x.h5"])
    assert done.stdout.startswith("x.h5: 4000 trajectories, seed 7")
    assert done.stdout.count("trajectories, seed") == 1
    assert network_digest_lines(tmp_path / "x.h5") == alone


@pytest.mark.gpu
def test_ranks_that_share_a_gpu_count_the_same_tables(mpirun, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # of several they would take one each
    (tmp_path / "chain.toml").write_text(CHAIN)
    actual = []
    for ranks in (1, 3):
        words = ["--device", "cuda", "--block", str(50 * ranks), "--quiet", "-o", f"{ranks}.h5"]
        mpirun(ranks, [*COMMAND, *words])
        actual.append(network_digest_lines(tmp_path / f"{ranks}.h5"))
    assert actual[0] == actual[1]


def test_hash_tables_of_ranks_are_added(mpirun, tmp_path, alone):
    program = tmp_path / "sparse.py"
    program.write_text(
        "import sys\nfrom tauslab.kernels.dbn import count_tables as dbn\n"
        "from tauslab.cli import main as cli\n"
        "dbn._DENSE_BYTES = 0\nsys.exit(cli.main(sys.argv[1:]))\n"
    )
    mpirun(3, ["sparse.py", *COMMAND[2:], "-o", "x.h5", "--block", "50", "--quiet"])
    assert network_digest_lines(tmp_path / "x.h5") == alone


def test_what_killed_ranks_had_counted_is_kept(mpirun, tmp_path, alone):
    """Rank 1 is killed when it has written a part; other ranks than before complete the build."""
    program = tmp_path / "killed.py"
    program.write_text(
        "import os, signal, sys\nfrom tauslab.cli import main as cli\n"
        "from tauslab.analysis.dbn import parts as dbn_parts\n"
        "from tauslab.decomposition.blocks import SharedBlocks\n"
        "begin = SharedBlocks.__init__\n"
        "SharedBlocks.__init__ = lambda self, numbers, **_: begin(\n"
        "    self, numbers, smallest=1, room=1, largest=1)\n"  # a block for each launch
        "dbn_parts.SECONDS, dbn_parts._RARELY = 0.0, 0\n"
        "save = dbn_parts.save\n"
        "def killed(network, path, blocks):\n"
        "    save(network, path, blocks)\n"
        "    if path.name == 'dbn-0001-00001.h5':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "dbn_parts.save = killed\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    command = [*COMMAND[2:], "--block", "20", "--quiet", "-o", "x.h5"]
    assert mpirun(2, ["killed.py", *command], check=False).returncode != 0
    _, blocks = gathered(tmp_path / "x.h5")
    assert 0 < blocks.sum() < len(blocks)
    mpirun(3, ["-m", "tauslab", *command, "--resume"])
    assert network_digest_lines(tmp_path / "x.h5") == alone
    assert not (tmp_path / "x.h5.parts").exists()


def test_bad_input_is_told_once(mpirun, tmp_path):
    (tmp_path / "chain.toml").write_text(CHAIN)
    done = mpirun(2, [*COMMAND, "--range", "b=3:1"], check=False)
    assert done.returncode == 2
    assert done.stderr.count("--range b=3:1: the lower end must be below the upper") == 1
