"""Properties of stochastic trajectories: what is no number, and what a method has not."""

import pytest

import tauslab as ts
from tauslab import dbn

TEST = dbn.SequentialTest(p=0.5, delta=0.1)


def growing() -> ts.Network:
    net = ts.Network("growing")
    net.add_species("X", 1000)
    net.add_parameter("k", 5.0)
    net.add_reaction("X -> 2 X", rate="k")
    return net


@pytest.mark.filterwarnings("ignore:the result in memory")
@pytest.mark.parametrize("formula", ["F[0,10](X < 1)", "G[0,10](X >= 0)"])
def test_a_count_that_overflowed_satisfies_no_comparison(formula):
    verdict = dbn.check_property(
        growing(), formula, TEST, t_end=10, points=11, method="tau", seed=1, device="cpu"
    )
    assert verdict.holds is False
    assert verdict.satisfied == 0


def test_what_is_unknown_is_refused_where_it_would_not_be_drawn():
    with pytest.raises(ts.ConfigError, match="unknown= and ranges= are of method="):
        dbn.check_property(
            growing(), "F[0,1](X > 3)", TEST, t_end=1, method="ssa", unknown=["k"],
            ranges={"k": (1, 2)}, device="cpu",
        )  # fmt: skip


def test_values_of_trajectories_of_their_own_are_refused():
    with pytest.raises(ts.ConfigError, match="one number, for all trajectories"):
        dbn.check_property(
            growing(), "F[0,1](X > 3)", TEST, t_end=1, method="ssa", set={"k": [1.0] * 256},
            device="cpu",
        )  # fmt: skip
