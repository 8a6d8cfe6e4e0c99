"""Where samples of an ODE ensemble are counted: in the blocks that integrate, or after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tauslab.kernels.ode.layouts.costs import CostTable
from tauslab.kernels.ode.layouts.layout_choice import LANES, LayoutChoice, Wishes, chosen
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import opt

# Clocks of a multiprocessor for each number of a sample, from seconds of one model, signalling by
# EGF and NGF, on an H200 (docs/benchmarks/ode.md): by kernels of their own, beside what integrates;
# by the threads that integrate, which hide it behind each other; and of a warp that does nothing
# else, for 32 trajectories together.
AFTER, OWN, MEMORY_WARP = 3.0, 0.31, 370.0


@dataclass(frozen=True)
class Counting:
    """Samples that are counted, and where: one of `settings.COUNTINGS`.

    `planes` of bins are what a block needs for it, `numbers` what is binned of a sample and read
    to find entries of tables, `substeps` the steps from one sample to the next.
    """

    where: str
    planes: int
    numbers: int
    substeps: int


def chosen_to_count(
    system: OdeSystem, wishes: Wishes, counting: Counting, costs: CostTable | None = None
) -> LayoutChoice:
    """The layout with which integrating and counting together are predicted to be fastest.

    Raises
    ------
    ConfigError
        As `chosen` does; or blocks cannot count with the layout that was asked for.
    """
    found: list[LayoutChoice] = []
    refused = ConfigError(
        f"{opt('counting', 'inside')} needs {opt('layout', 'thread')}, or warps with "
        f"{opt('memory_warps', 'on')}"
    )
    for asked in _ways(wishes, counting):
        try:
            choice = chosen(system, asked, costs)
        except ConfigError as error:
            refused = error
        else:
            found.append(replace(choice, cost=_cost(choice, counting)))
    if not found:
        raise refused
    return min(found, key=lambda choice: choice.cost)


def _ways(wishes: Wishes, counting: Counting) -> Iterator[Wishes]:
    """Wishes for each way to count that was not excluded."""
    if counting.where != "inside":
        yield wishes
    if counting.where == "after" or wishes.layout == "global":
        return
    inside = replace(wishes, planes=counting.planes)
    if wishes.memory:
        yield inside
        return
    # Threads hide what they count; a warp beside them takes a place, and nothing was faster so.
    if wishes.layout != "warps" and not wishes.warps:
        yield replace(inside, memory_warps="off")
    if wishes.layout != "thread" and wishes.memory_warps == "auto":
        yield replace(inside, layout="warps", memory_warps="on")


def _cost(choice: LayoutChoice, counting: Counting) -> float:
    """Cycles of a multiprocessor for a step of a trajectory, with its share of a sample."""
    numbers = counting.numbers / counting.substeps
    if not choice.planes:
        return choice.cost + AFTER * numbers
    if not choice.memory:
        return choice.cost + OWN * numbers
    # Those that integrate wait for a warp that counts if that takes longer.
    return max(choice.cost, MEMORY_WARP * numbers / (LANES * max(1, choice.blocks)))
