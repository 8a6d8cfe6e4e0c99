"""Seeds and lanes of pilots, and the pilot of a large network.

Some trajectories are tried with random numbers of their own. One rank or worker runs a pilot for
all. It counts work and never times it, so the choice is a function of model, options and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.exact.pilot import run_pilot
from tauslab.kernels.exact.selectors import PilotCounts, selector_after
from tauslab.options.methods import SSA, with_choices
from tauslab.runner.ensemble.lane import Delivery, Lane, Reductions
from tauslab.runner.ensemble.task import NetworkTask, Task

# A pilot whose kernel has no stream of its own (STREAM_PILOT of streams.h) runs with this key,
# so that what it decides by is independent of what the run will draw.
_PILOT_KEY = 0x70696C6F7470696C


def pilot_seed(seed: int) -> int:
    """The seed of a pilot of a run with this seed; never the run's own."""
    return seed ^ _PILOT_KEY


def spread(total: int, many: int) -> list[int]:
    """Choose at most `many` of the numbers below `total`: the first, the last and some between.

    >>> spread(10, 4), spread(2, 4)
    ([0, 3, 6, 9], [0, 1])
    """
    return sorted({i * (total - 1) // max(1, many - 1) for i in range(many)})


def side_by_side(task: Task, engine: Engine, numbers: Sequence[int]) -> list[Delivery]:
    """Run the trajectories with these numbers beside each other, one a lane."""
    copies = engine.backend.stream()
    lanes = [Lane(task, engine, Reductions(), 1, copies) for _ in numbers]
    for lane, number in zip(lanes, numbers, strict=True):
        lane.start(number, number + 1)
    return [lane.wait() for lane in lanes]


def piloted(task: NetworkTask, backend: Backend) -> PilotCounts | None:
    """The pilot of a large network, which orders its tables; None for a task without one.

    That of the last run is taken where this run has the same: the same counts and seed.
    """
    events = task.presimulation
    if not events or not isinstance(task.options.method, SSA):
        return None
    seed, inputs = task.options.seed, (task.initial[:1], task.constants[:1])
    assert seed is not None
    key, made = (seed, events, *(row.tobytes() for row in inputs)), task.lowered.made
    held = made.get("pilot", (None,))
    if held[0] != key:
        held = key, run_pilot(backend, task.lowered, inputs, seed=seed, events=events)
        made["pilot"] = held
    result: PilotCounts = held[1]
    return result


def with_pilot(task: NetworkTask, pilot: PilotCounts | None, *, announce: bool) -> NetworkTask:
    """The task with the selector that its pilot shows to be faster; says so with `announce`.

    From here on the choice stands in the options, as if it had been given.
    """
    options, method = task.options, task.options.method
    if pilot is None or not isinstance(method, SSA) or method.selector is not None:
        return task
    selector = selector_after(task.lowered, task.selector, pilot)
    if selector == task.selector:
        return task
    if announce and options.verbose and options.quiet is False:
        candidates, bounds = pilot.work
        counted = f"{candidates:.3g} candidates and {bounds:.2g} bounds an event in the pilot"
        print(f"selector: {selector} ({counted})", flush=True)
    chosen = replace(options, method=with_choices(method, selector=selector))
    return replace(task, options=chosen)
