"""ABC-SMC on several ranks: the bits of one rank, with every method, noise and checkpoint."""

from __future__ import annotations

import json

import pytest
from sampling import ordinary

PROGRAM = """
import json, sys, warnings
import tauslab as ts
from tauslab.decomposition.ranks.all_ranks import ranks
net = ts.Network("immigration")
net.add_species("X", 0)
net.add_parameter("k", 4.0)
net.add_parameter("loss", 0.5)
net.add_reaction("-> X", rate="k")
net.add_reaction("X ->", rate="loss")
data = {"time": [1.0, 2.0, 4.0], "X": [5.0, float("nan"), 9.0]}
priors = {"k": "normal(4,6)", "loss": "uniform(0.1,2)"}
here = dict(n=20, generations=2, seed=1, device="cpu", quiet=True)
warnings.simplefilter("ignore")
def digests(comm):
    found = [ts.abc_smc(net, data, priors, comm=comm, **here).digest()]
    for noise, method in json.loads(sys.argv[1]):
        given = {"observe": {"X": noise}} if noise else {}
        made = ts.abc_smc(net, data, priors, method=method, comm=comm, **given, **here)
        found.append(made.digest())
    named = ts.abc_smc(net, {"maximum:X": 9}, {"k": "uniform(0,30)"}, t_end=2, comm=comm, **here)
    own = ts.abc_smc(
        net, [9], {"k": "uniform(0,30)"}, summary=lambda one: one.counts("X")[:, -1], t_end=2,
        comm=comm, **here,
    )
    return [*found, named.digest(), own.digest()]
alone = digests("self") if ranks().rank == 0 else []
ranks().allgather(0)
together = digests("world")
short = {**here, "generations": 1}
ts.abc_smc(net, data, priors, checkpoint="abc.h5", **short)
longer = ts.abc_smc(net, data, priors, checkpoint="abc.h5", **here).digest()
try:
    ts.abc_smc(net, data, {"k": "uniform(-2,-1)"}, **here)
    refused = ""
except ts.ModelError as error:
    refused = str(error)
told = ranks().gather([together, alone, longer, refused])
if told is not None:
    print("told", json.dumps(told))
"""


ODE = [("normal(k)", "ode")]
MOST = [("poisson", "ssa"), ("", "hybrid"), ("", "auto")]


@pytest.mark.parametrize(("ranks", "ways"), ordinary([(2, MOST), (3, ODE), (3, MOST)], (3, ODE)))
def test_ranks_change_no_bit(mpirun, ranks, ways):
    """Values that the model refuses are refused on all ranks alike."""
    done = mpirun(ranks, ["-c", PROGRAM, json.dumps(ways)])
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("told ")]
    message = json.loads(line.removeprefix("told "))
    for together, _, longer, refused in message:
        assert together == message[0][1]
        assert longer == together[0]
        assert "rate constant is -" in refused
