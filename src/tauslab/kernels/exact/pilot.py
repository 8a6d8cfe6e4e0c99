"""A short pilot that counts what happens in a large network, to order its tables."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.exact.selectors import PilotCounts, pilot_selector
from tauslab.kernels.exact.ssa import TableSsa
from tauslab.kernels.exact.table_network import Expected
from tauslab.kernels.network.lowering import LoweredNetwork

TRAJECTORIES = 4
# A pilot of more firings begins again after so many, unless its selector turns out to make so many
# bounds of propensities a firing: then these do.
PROBE_EVENTS, SLOW_BOUNDS = 4096, 50.0
_NEVER = 1e300  # a time that no trajectory reaches, but one that can fire nothing more


def run_pilot(
    backend: Backend, network: LoweredNetwork, inputs: tuple[Int32Array, FloatArray], *, seed: int,
    events: int,
) -> PilotCounts:  # fmt: skip
    """Run a pilot of some trajectories, by the selector that `pilot_selector` gives.

    Trajectories start from `inputs`, one row of initial counts and of constants, and end after
    `events` firings. Counts are whole numbers, the same on every device, and a function of network,
    inputs, `seed` and `events` alone, whatever selector the run is given. An order of reactions and
    species by such counts is what Komarov & D'Souza, PLoS ONE 7:e46693 (2012), call presimulation.
    """
    selector = pilot_selector(network)
    expected = Expected(TRAJECTORIES, inputs[0].max(axis=0).astype(np.int64))
    engine = TableSsa(backend, network, [_NEVER], selector, pilot=True, expected=expected)
    buffers = SampleBuffers.of(backend, TRAJECTORIES, scratch=engine.scratch(TRAJECTORIES))
    counts, constants = (backend.upload(row) for row in inputs)
    stream, firings = backend.stream(), engine.firings
    assert firings is not None

    def counted(steps: int) -> PilotCounts:
        backend.clear(firings, stream)
        launch = Launch(0, TRAJECTORIES, counts, constants, seed=seed, max_steps=steps)
        engine.start(launch, buffers, stream)
        result = backend.mirror(firings)
        backend.download(firings, result, len(result), stream)
        stream.record().wait()
        candidates, bounds = result[-2:].tolist()
        return PilotCounts(result[:-2].astype(np.float64), candidates, bounds)

    first = counted(min(events, PROBE_EVENTS))
    is_slow = first.work[1] > SLOW_BOUNDS
    return first if is_slow or events <= PROBE_EVENTS else counted(events)
