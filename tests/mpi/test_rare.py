"""Rare events on several ranks: each moves its share, all have the same bits."""

from __future__ import annotations

from launchers import assert_one_digest

PROGRAM = """
import hashlib
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("immigration")
net.add_species("X", 20)
net.add_reaction("-> X", rate=10.0)
net.add_reaction("X ->", rate=0.5)
told = b""
found = ts.weighted_ensemble(
    net, target="X >= 30", t_end=4, walkers=10, runs=3, rounds=7, seed=1, device="cpu"
)
told += found.runs.tobytes() + found.reached.tobytes() + str(found.events).encode()
comm = ranks()
found = comm.allgather(hashlib.sha256(told).hexdigest())
if comm.rank == 0:
    print("digest", *sorted(set(found)))
"""


def test_ranks_do_not_matter(mpirun):
    assert_one_digest(mpirun, PROGRAM)


def test_the_command_speaks_once(mpirun, tmp_path):
    (tmp_path / "m.toml").write_text(
        '[species]\nX = 20\n[[reactions]]\nequation = "-> X"\nrate = 10.0\n'
        '[[reactions]]\nequation = "X ->"\nrate = 0.5\n'
    )
    words = ["-m", "tauslab", "rare", str(tmp_path / "m.toml"), "--target", "X >= 30", "--t-end",
             "4", "--runs", "2", "--rounds", "3", "--walkers", "5", "--device", "cpu",
             "-o", str(tmp_path / "r.h5")]  # fmt: skip
    out = mpirun(2, words).stdout
    assert out.count("probability of X >= 30") == 1
    assert (tmp_path / "r.h5").exists()


GOING_ON = """
import hashlib, shutil, sys
import tauslab as ts
from tauslab.analysis.particles.store import StateCheckpoint
from tauslab.decomposition.ranks.all_ranks import ranks

folder, first = sys.argv[1], sys.argv[2] == "first"
save, number = StateCheckpoint.save, [0]


def saving(self, kept, *, last=False):
    save(self, kept, last=last)
    number[0] += 1
    if first and number[0] == 3 and ranks().rank == 0:
        shutil.copy(self.path, str(self.path) + ".third")


StateCheckpoint.save = saving
net = ts.Network("immigration")
net.add_species("X", 20)
net.add_reaction("-> X", rate=10.0)
net.add_reaction("X ->", rate=0.5)
told = b""
path = f"{folder}/c.h5" + ("" if first else ".third")
number[0] = 0
found = ts.weighted_ensemble(
    net, target="X >= 30", t_end=4, walkers=10, runs=3, rounds=7, seed=1, device="cpu",
    checkpoint=path, checkpoint_every=0,
)
told += found.runs.tobytes() + found.reached.tobytes() + str(found.events).encode()
if ranks().rank == 0:
    print("digest", hashlib.sha256(told).hexdigest())
"""


def test_another_number_of_ranks_goes_on(mpirun, tmp_path):
    digests = [
        line
        for ranks, which in ((2, "first"), (3, "second"))
        for line in mpirun(ranks, ["-c", GOING_ON, str(tmp_path), which]).stdout.splitlines()
        if line.startswith("digest")
    ]
    assert len(digests) == 2
    assert digests[0] == digests[1]


REFUSED = """
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("immigration")
net.add_species("X", 20)
net.add_parameter("k", 10.0)
net.add_reaction("-> X", rate="k")
given = {"target": "X >= 30", "t_end": 1.0, "device": "cpu"}
calls = [
    lambda: ts.weighted_ensemble(net, **given, coordinate="log(X - 20)"),
    lambda: ts.weighted_ensemble(net, **given, bins="adaptive:0"),
    lambda: ts.weighted_ensemble(net, **given, checkpoint="c.h5"),
    lambda: ts.sensitivity(net, outputs="Q", t=1.0, n=2, device="cpu"),
]
told = 0
for call in calls:
    try:
        call()
    except ts.ConfigError:
        told += 1
print("rank", ranks().rank, told)
"""


def test_what_is_refused_is_refused_on_all_ranks(mpirun):
    """By an error that a program can catch; none of them ends the others."""
    lines = mpirun(2, ["-c", REFUSED], timeout=60).stdout.splitlines()
    assert sorted(line for line in lines if line.startswith("rank")) == ["rank 0 4", "rank 1 4"]
