"""Models with events that are made to break a run: each has a right answer, or ends by its name."""

import numpy as np
import pytest

import tauslab as ts
from tauslab.store.format.schema import STATUS_VALUES


def ran(net: ts.Network, times: list[float]) -> ts.Result:
    return ts.run(net, n=2, times=times, seed=1, device="cpu", record="trajectories")


def still(name: str) -> ts.Network:
    """A network in which a reaction is there that does not happen."""
    net = ts.Network(name)
    net.add_species("X", 5)
    net.add_reaction("X -> X", rate=1e-12)
    return net


def test_what_has_no_value_fires_nothing_and_comes_true_when_it_has_one() -> None:
    """Relations of NaN are false; a rule that divides by 0 is NaN or infinite, and no more."""
    net = still("not numbers")
    for name in ("Y", "hit", "never", "late", "seen"):
        net.add_species(name, 0, fixed=True)
    net.add_rule("inverse", "1 / Y")
    net.add_rule("ratio", "Y / Y")
    net.add_event("set", trigger="time >= 1", assignments={"Y": 2})
    net.add_event("of nan", trigger="ratio == 1", assignments={"hit": "hit + 1"})
    net.add_event("nan", trigger="0 * inverse > 1 || sqrt(-X) >= 0", assignments={"never": 1})
    # A rule reads what an event sets after a delay, and a trigger reads the rule.
    net.add_rule("double", "2 * late")
    net.add_event("delayed", trigger="time >= 1", delay=0.5, assignments={"late": "late + 10"})
    net.add_event("after", trigger="double >= 20", assignments={"seen": "double + 1"})
    result = ran(net, [0, 1, 1.49, 1.5, 2])
    assert (result.status == STATUS_VALUES["done"]).all()
    with pytest.warns(UserWarning, match="leave out 2 of 10 samples"):
        inverse, ratio = result.mean("inverse"), result.mean("ratio")
    assert not np.isfinite(inverse[0])
    assert np.isnan(ratio[0])
    assert inverse[1:] == pytest.approx([0.5] * 4)
    assert result.mean("hit").tolist() == [0, 1, 1, 1, 1]
    assert result.mean("never").tolist() == [0] * 5
    assert result.mean("late").tolist() == [0, 0, 0, 10, 10]
    assert result.mean("seen").tolist() == [0, 0, 0, 21, 21]


@pytest.mark.filterwarnings("ignore:the result in memory")
@pytest.mark.parametrize("count", ["X - 100", "0 / 0", "1 / 0"])
def test_a_count_that_is_none_ends_the_trajectory(count: str) -> None:
    net = still("none")
    net.add_event("e", trigger="time >= 1", assignments={"X": count})
    result = ran(net, [0, 1, 2])
    assert (result.status == STATUS_VALUES["nan"]).all()
    assert result.counts("X")[:, 0].tolist() == [5, 5]
    assert (result.counts("X")[:, 1:] == -1).all()


@pytest.mark.filterwarnings("ignore:the result in memory")
@pytest.mark.parametrize("method", ["ssa", "tau"])
def test_a_count_that_is_too_large_is_an_overflow(method: str) -> None:
    net = still("too large")
    net.add_event("e", trigger="time >= 1", assignments={"X": "X + 3e9"})
    result = ts.run(net, n=2, times=[0, 1], seed=1, device="cpu", method=method)
    assert (result.status == STATUS_VALUES["overflow"]).all()


@pytest.mark.filterwarnings("ignore:the result in memory")
@pytest.mark.parametrize("rate", ["1 / Y", "Y * Y + 1"])
def test_a_quantity_that_leaves_all_numbers_ends_the_trajectory(rate: str) -> None:
    """1 / Y has none at 0; tan(t), which solves y' = y^2 + 1, none at pi / 2."""
    net = ts.Network("blow-up")
    net.add_species("Y", 0)
    net.add_rate("Y", rate)
    result = ran(net, [0, 1, 2])
    assert (result.status == STATUS_VALUES["nan"]).all()
    if rate != "1 / Y":
        assert result.mean("Y")[1] == pytest.approx(np.tan(1.0), rel=1e-6)


def at_once(events: int) -> float:
    net = still("at once")
    net.add_event("first", trigger="time >= 1", assignments={"X": 0}, priority=1)
    for i in range(events):
        net.add_event(f"e{i}", trigger="time >= 1", assignments={"X": "X + 1"}, early=False)
    return float(ran(net, [0, 1]).mean("X")[1])


def test_many_events_at_one_time() -> None:
    assert at_once(40) == 40


@pytest.mark.validate
def test_a_thousand_events_at_one_time() -> None:
    assert at_once(1000) == 1000
