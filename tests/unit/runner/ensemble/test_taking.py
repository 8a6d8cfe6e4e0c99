"""When a rank takes blocks: those that wait with it, an idle rank could do."""

from typing import Any

import pytest

import tauslab as ts
from tauslab.decomposition.blocks import SharedBlocks
from tauslab.runner.ensemble.driver import EnsembleRun
from tauslab.runner.ensemble.lane import LANES
from tauslab.runner.ensemble.lanes import DeviceLanes


@pytest.mark.usefixtures("one_block_launches")
def test_blocks_are_taken_only_when_a_lane_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every take fewer launches are in flight than there are lanes."""
    launched, finished, at_takes = [0], [0], []
    launch, finish, take = DeviceLanes.launch, EnsembleRun._finish, SharedBlocks.take

    def counted_launch(self: DeviceLanes, *given: Any) -> None:
        launched[0] += 1
        launch(self, *given)

    def counted_finish(self: EnsembleRun, lane: Any) -> None:
        finish(self, lane)
        finished[0] += 1

    def noted_take(self: SharedBlocks, *given: Any) -> list[int]:
        at_takes.append(launched[0] - finished[0])
        return take(self, *given)

    monkeypatch.setattr(DeviceLanes, "launch", counted_launch)
    monkeypatch.setattr(EnsembleRun, "_finish", counted_finish)
    monkeypatch.setattr(SharedBlocks, "take", noted_take)

    net = ts.Network("birth and death")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=50.0)
    net.add_reaction("X ->", rate=1.0)
    ts.run(net, t_end=10, points=2, n=3000, block=100, seed=1, record="statistics", quiet=True,
           device=ts.CPU(threads=1))  # fmt: skip
    assert launched[0] > LANES, "the run is too short to tell"
    assert max(at_takes) < LANES
