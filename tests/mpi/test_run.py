"""`tauslab run` under mpirun: the same bits on any number of ranks, and errors that end all."""

from __future__ import annotations

import sys

import pytest
from launchers import require_one_line
from places import TESTS
from sampling import ordinary

from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

pytestmark = pytest.mark.mpi

SBML = TESTS / "data" / "sbml"
RUN = ["-m", "tauslab", "run", SBML / "schlogl.xml", "--t-end", "0.2", "--points", "6",
       "--seed", "5", "--device", "cpu", "--threads", "1", "--species", "X",
       "--method", "ssa"]  # fmt: skip


def digests(path):
    with open_result(path) as result:
        return digest_lines(result, None)


def test_ranks_and_blocks_do_not_change_the_bits(mpirun, tmp_path):
    kinds = ["--record", "trajectories,statistics,final,histogram:X:0:800:20"]
    actual = {}
    for ranks, block in ((1, "64"), (2, "64"), (3, "7"), (4, "4096")):
        path = tmp_path / f"{ranks}.h5"
        done = mpirun(ranks, [*RUN, "-n", "500", *kinds, "--block", block, "-o", path])
        assert done.stdout.count("500 trajectories") == 1, "one rank speaks for all"
        actual[ranks] = digests(path)
    assert actual[2] == actual[1]
    assert actual[3] == actual[1]
    assert actual[4] == actual[1]
    assert not list(tmp_path.glob("*.parts")), "small results are merged"


def test_ranks_extend_a_run_to_the_bits_of_a_longer_one(mpirun, tmp_path):
    run = [*RUN[:4], *RUN[8:], "-n", "200", "--record", "trajectories,statistics,state"]
    mpirun(1, [*run, "--t-end", "2", "--points", "5", "-o", tmp_path / "long.h5"])
    mpirun(2, [*run, "--t-end", "1", "--points", "3", "-o", tmp_path / "short.h5"])
    for ranks in (1, 2):
        extend = [*RUN[:4], "--t-end", "2", "--extend", tmp_path / "short.h5", "--device", "cpu"]
        mpirun(ranks, [*extend, "-o", tmp_path / f"{ranks}.h5"])
        assert digests(tmp_path / f"{ranks}.h5") == digests(tmp_path / "long.h5")


@pytest.mark.parametrize(
    "method",
    ordinary(
        [f"ssa --presimulation 500{more}" for more in ("", " --selector rssa")] + ["tau"], "tau"
    ),
)
def test_ranks_do_not_change_the_bits_of_a_large_network(mpirun, tmp_path, method):
    """The pilot of rank 0 orders the network for all."""
    net = SBML.parent / "net" / "multisite2.net"
    run = ["-m", "tauslab", "run", net, "--t-end", "0.2", "--points", "3", "--seed", "5",
           "--device", "cpu", "--threads", "1", "-n", "24"]  # fmt: skip
    run += ["--method", *method.split()]
    for ranks in (1, 3):
        mpirun(ranks, [*run, "-o", tmp_path / f"{ranks}.h5"])
    with open_result(tmp_path / "3.h5") as result:
        if method == "tau":
            assert result.attributes["leaper"] == "tables"
        else:
            assert result.attributes["presimulation"] > 0
        if "rssa" in method:
            assert result.attributes["selector"] == "rssa"
    assert digests(tmp_path / "3.h5") == digests(tmp_path / "1.h5")


def test_statistics_alone_need_no_samples_on_any_rank(mpirun, tmp_path):
    for ranks in (1, 3):
        mpirun(ranks, [*RUN, "-n", "300", "--record", "statistics", "-o", tmp_path / f"{ranks}.h5"])
    assert digests(tmp_path / "1.h5") == digests(tmp_path / "3.h5")


def test_ranks_do_not_change_sums_of_real_quantities(mpirun, tmp_path):
    """Which grow from e^-300 to e^900 on ranks that have windows of their own before they add."""
    model = tmp_path / "fall.toml"
    reaction = '[[reactions]]\nequation = "A ->"\nrate = 0.01\n'
    model.write_text(f'[species]\nA = 7\n[rules]\nsteep = "exp(150 * A - 450)"\n{reaction}')
    run = ["-m", "tauslab", "run", model, "--t-end", "9", "--points", "4", "--seed", "5",
           "-n", "500", "--device", "cpu", "--threads", "1", "--record", "statistics"]  # fmt: skip
    actual = {}
    for ranks, block in ((1, "500"), (3, "7")):
        path = tmp_path / f"{ranks}.h5"
        mpirun(ranks, [*run, "--method", "ssa", "--block", block, "-o", path])
        actual[ranks] = dict(digests(path))
    assert actual[1] == actual[3]
    assert {f"statistics/observables/{k}" for k in ("exponent", "sum", "sumsq")} <= set(actual[1])


def test_summaries_are_the_same_on_any_number_of_ranks(mpirun, tmp_path):
    kinds = "summary:first-passage:X:300,summary:amplitude:X,summary:mean:X:0.1"
    sweep = ["--sweep", "c3=lin:8e-4:1.2e-3:5", "-n", "60", "--points", "41", "--record", kinds]
    actual = {}
    for ranks, block in ((1, "16"), (3, "7")):
        path = tmp_path / f"{ranks}.h5"
        mpirun(ranks, [*RUN, *sweep, "--block", block, "-o", path])
        actual[ranks] = digests(path)
    assert sum(name.startswith("summary/") for name, _ in actual[1]) == 3
    assert actual[3] == actual[1]


def test_a_seed_that_rank_0_draws_is_everyones(mpirun, tmp_path):
    path, again = tmp_path / "a.h5", tmp_path / "b.h5"
    run = [x for x in RUN if x not in ("--seed", "5")]
    mpirun(3, [*run, "-n", "200", "-o", path])
    with open_result(path) as result:
        seed = result.seed
    mpirun(1, [*run, "-n", "200", "--seed", str(seed), "-o", again])
    assert digests(again) == digests(path)


def test_rank_0_chooses_the_method_for_all(mpirun, tmp_path):
    """A model in which leaps pay, if there is enough to do."""
    model = tmp_path / "decay.toml"
    model.write_text('[species]\nA = 200000\n[[reactions]]\nequation = "A ->"\nrate = 1.0\n')
    run = ["-m", "tauslab", "run", model, "--t-end", "1", "--points", "3", "--seed", "5",
           "-n", "1000", "--method", "auto", "--device", "cpu", "--threads", "1"]  # fmt: skip
    for ranks in (1, 3):
        done = mpirun(ranks, [*run, "-o", tmp_path / f"{ranks}.h5"])
        assert done.stdout.count("method: tau-leaping (tau)") == 1, "one rank speaks for all"
    assert digests(tmp_path / "3.h5") == digests(tmp_path / "1.h5")


@pytest.mark.validate
def test_checked_leaps_are_the_same_on_any_number_of_ranks(mpirun, tmp_path):
    checked = [*RUN[:-1], "tau", "--post-leap-check", "--epsilon", "0.1", "-n", "200"]
    for ranks, block in ((1, "64"), (3, "7")):
        mpirun(ranks, [*checked, "--block", block, "-o", tmp_path / f"{ranks}.h5"])
    assert digests(tmp_path / "3.h5") == digests(tmp_path / "1.h5")


def test_fewer_blocks_than_ranks(mpirun, tmp_path):
    mpirun(4, [*RUN, "-n", "2", "-o", tmp_path / "two.h5"])
    mpirun(1, [*RUN, "-n", "2", "-o", tmp_path / "one.h5"])
    assert digests(tmp_path / "two.h5") == digests(tmp_path / "one.h5")


def test_bad_input_is_one_sentence_from_one_rank(mpirun, tmp_path):
    path = tmp_path / "out.h5"
    done = mpirun(3, [*RUN, "-n", "10", "--set", "nope=1", "-o", path], check=False)
    assert done.returncode == 2
    assert done.stderr.count("nope") == 1
    assert "Traceback" not in done.stderr
    assert not path.exists()


def test_a_wrong_command_line_is_told_once(mpirun):
    done = mpirun(3, ["-m", "tauslab", "run", "-n", "many"], check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tauslab: argument -n: 'many' is no whole number, ")
    require_one_line(done)


def test_a_disk_that_is_full_in_the_end_is_told_of_once(mpirun, tmp_path):
    """Rank 0 joins the parts for all; nothing is lost."""
    program = TESTS / "support" / "programs" / "full_disk_program.py"
    path, one = tmp_path / "out.h5", tmp_path / "one.h5"
    run = [*RUN[2:], "-n", "200", "--writer", "parts"]
    done = mpirun(3, [program, *run, "-o", path], check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("No space left on device; free some space") == 1
    assert "Traceback" not in done.stderr
    mpirun(2, ["-m", "tauslab", *run, "-o", path, "--resume"])
    mpirun(1, ["-m", "tauslab", *run, "-o", one])
    assert digests(path) == digests(one)


def test_a_failure_on_one_rank_ends_all(mpirun, tmp_path):
    """Rank 1's writer fails in the middle; the others must not wait for it."""
    program = tmp_path / "fails.py"
    program.write_text(
        "import sys, tauslab, time\n"
        "from pathlib import Path\n"
        "from tauslab.store.writers.parts import PartsWriter\n"
        "from tauslab.api.api import ranks\n"
        "failed, usual = Path('failed'), PartsWriter.write\n"
        "def fail(self, chunk):\n"
        "    failed.touch()\n"
        "    raise tauslab.OutputError('no space left for out.h5')\n"
        "def write(self, chunk):\n"  # others leave a block to rank 1
        "    end = time.monotonic() + 20\n"
        "    while not failed.exists() and time.monotonic() < end:\n"
        "        time.sleep(0.01)\n"
        "    usual(self, chunk)\n"
        "PartsWriter.write = fail if ranks().rank == 1 else write\n"
        "tauslab.run(sys.argv[1], n=40_000, t_end=1.0, seed=1, device=tauslab.CPU(threads=1),\n"
        "            block=10,\n"
        "            output=sys.argv[2])\n"
    )
    done = mpirun(3, [program, SBML / "schlogl.xml", tmp_path / "out.h5"], check=False, timeout=60)
    assert done.returncode != 0
    assert "rank 1: no space left" in done.stderr


def test_python_runs_are_sharded_and_every_rank_gets_the_result(mpirun, tmp_path):
    program = tmp_path / "everyone.py"
    program.write_text(
        "import numpy as np, tauslab as ts\n"
        "from tauslab.api.api import ranks\n"
        "net = ts.Network('decay'); net.add_species('X', 50); net.add_reaction('X ->', rate=1.0)\n"
        "x = ts.run(net, n=90, times=[0, 1], seed=2, device='cpu', block=10).counts('X')\n"
        "everyone = ranks().allgather(x.tobytes())\n"
        "assert x.shape == (90, 2) and (x[:, 0] == 50).all() and len(set(everyone)) == 1\n"
        "print('rank', ranks().rank, 'agrees')\n"
    )
    done = mpirun(3, [program])
    assert done.stdout.count("agrees") == 3


def test_ranks_do_not_change_a_sweep(mpirun, tmp_path):
    """Every point's sums come from several ranks, which share blocks and not points."""
    kinds = "trajectories,statistics,histogram:X:0:800:20"
    sweep = ["--sweep", "c3=lin:7e-4:1.2e-3:3", "--sweep", "X=list:100,400"]
    actual, alone = {}, {}
    for ranks, block in ((1, "50"), (3, "25")):
        run = [*RUN, "-n", "50", *sweep, "--block", block]
        path = tmp_path / f"{ranks}.h5"
        done = mpirun(ranks, [*run, "--record", kinds, "-o", path])
        assert done.stdout.count("50 trajectories at each of 6 points") == 1
        actual[ranks] = digests(path)
        mpirun(ranks, [*run, "--record", "statistics", "-o", tmp_path / f"s{ranks}.h5"])
        alone[ranks] = [line for line in digests(tmp_path / f"s{ranks}.h5") if "sum" in line[0]]
    assert actual[3] == actual[1]
    assert alone[1] == alone[3] == [line for line in actual[1] if "sum" in line[0]]


def test_rank_0_reads_the_model_for_all(mpirun, tmp_path):
    """What reads SBML is half of the memory of a rank: others do without."""
    program = tmp_path / "without.py"
    program.write_text(
        "import sys\nfrom tauslab.cli import main as cli\n"
        "from tauslab.api.api import ranks\n"
        "if ranks().rank == 1:\n    sys.modules['libsbml'] = None\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    mpirun(2, ["without.py", *RUN[2:], "-n", "100", "-o", tmp_path / "2.h5"])
    mpirun(1, [*RUN, "-n", "100", "-o", tmp_path / "1.h5"])
    assert digests(tmp_path / "2.h5") == digests(tmp_path / "1.h5")


def test_one_rank_runs_bionetgen(mpirun, tmp_path):
    """What makes the network of a model in rules runs once, and its errors are told once."""
    net = (SBML.parent / "net" / "birth-death.net").read_text()
    program = tmp_path / "BNG2.pl"
    (tmp_path / "made.net").write_text(net)
    program.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write('once ')\n"
        f"if 'bad' in open(sys.argv[1]).read(): sys.exit('ABORT: no such thing')\n"
        f"shutil.copy({str(tmp_path / 'made.net')!r}, 'network.net')\n"
    )
    program.chmod(0o755)
    model, env = tmp_path / "m.bngl", {"BNGPATH": str(tmp_path)}
    model.write_text("begin parameters\nend parameters\n")
    run = ["-m", "tauslab", "run", model, "--t-end", "0.1", "--points", "2", "--seed", "5",
           "--device", "cpu", "--threads", "1", "-n", "6", "--method", "ssa"]  # fmt: skip
    done = mpirun(2, [*run, "-o", tmp_path / "a.h5"], env=env)
    assert (tmp_path / "runs").read_text() == "once "
    assert done.stdout.count("BioNetGen generates the network") == 1
    with open_result(tmp_path / "a.h5") as result:
        assert result.species == ("A",)
    model.write_text("begin parameters\nbad 1\nend parameters\n")
    done = mpirun(2, [*run, "-o", tmp_path / "b.h5"], env=env, check=False)
    assert done.returncode == 2
    assert done.stderr.count("made no network of it: no such thing") == 1
