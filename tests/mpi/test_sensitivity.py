"""Sensitivities on several ranks: each runs a part of the pairs, all have the same bits."""

from __future__ import annotations

from launchers import assert_one_digest

PROGRAM = """
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.analysis.sensitivity import summing
summing._FEWEST_ROWS = 64  # several launches for each rank
net = ts.Network("turnover")
net.add_species("X", 3)
net.add_parameter("k", 5.0)
net.add_reaction("-> X", rate="k")
net.add_reaction("X ->", rate=1.0)
told = [
    ts.sensitivity(
        net, ["k"], ["X", "X / 3"], t=[0.5, 2.0], n=401, seed=1, device="cpu", method=method
    ).digest()
    for method in ("coupled", "likelihood-ratio")
]
comm = ranks()
found = comm.allgather(",".join(told))
if comm.rank == 0:
    print("digest", *sorted(set(found)))
"""


def test_ranks_do_not_matter(mpirun):
    assert_one_digest(mpirun, PROGRAM)
