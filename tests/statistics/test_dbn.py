"""The factored frontier against the samples that the network was counted from."""

from __future__ import annotations

from tauslab import dbn


def test_frontier_of_signalling_by_egf_and_ngf(data):
    model = data / "sbml" / "BIOMD0000000033.xml"
    network = dbn.build(
        model, unknown=["kSos", "kdErk", "kpMekCytoplasmic"], samples=2000, t_end=2, points=5,
        substeps=200, seed=1, threads=2,
    )  # fmt: skip
    assert len(network.variables) == 28
    beliefs = dbn.factored_frontier(network)
    for name in network.variables:
        # The seed is fixed: what differs is that the frontier takes nodes as independent.
        worst = abs(beliefs.probabilities[name] - network.marginal(name)).max()
        assert worst < 0.12, name
        assert network.outside[name][:, 2].sum() == 0
    moved = [n for n in network.variables if network.marginal(n)[-1].max() < 0.9]
    assert len(moved) >= 3
