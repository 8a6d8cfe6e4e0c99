"""Dynamic Bayesian networks from ODE ensembles: build, read, query, estimate.

>>> import tauslab as ts
>>> from tauslab import dbn
>>> model = ts.Network("decay")
>>> model.add_species("X", 100)
>>> model.add_parameter("k", 1.0)
>>> model.add_reaction("X ->", rate="k")
>>> network = dbn.build(model, unknown=["k"], samples=1000, t_end=2, points=3, seed=1)
>>> network.structure.parents["X"]
('X', 'k')
>>> beliefs = dbn.factored_frontier(network, given={"k": 0})
>>> bool(beliefs.mean("X")[-1] > network.mean("X")[-1])
True
"""

from tauslab.analysis.dbn.plots import plot_network
from tauslab.analysis.dbn.results.estimate import (
    Estimate,
    Measurement,
    estimate,
    evidence_of,
    log_likelihood,
    read_measurements,
)
from tauslab.analysis.dbn.results.export import to_bif, to_pgmpy
from tauslab.analysis.dbn.results.file import load, save
from tauslab.analysis.dbn.results.inference import Beliefs, exact, factored_frontier
from tauslab.analysis.dbn.results.network import DynamicNetwork, Structure, from_trajectories
from tauslab.api.dbn import build
from tauslab.model.network.dependencies import parents, right_sides

__all__ = [
    "Beliefs", "DynamicNetwork", "Estimate", "Measurement", "Structure", "build", "estimate",
    "evidence_of", "exact", "factored_frontier", "from_trajectories", "load", "log_likelihood",
    "parents", "plot_network", "read_measurements", "right_sides", "save", "to_bif", "to_pgmpy",
]  # fmt: skip
