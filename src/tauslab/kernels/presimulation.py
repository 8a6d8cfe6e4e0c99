"""A short pilot that counts how often species change, to order the tables of a large network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.large import Expected
from tauslab.kernels.lowering import FloatArray, LoweredNetwork
from tauslab.kernels.ssa import WORK, ExactSsa, Launch, SampleBuffers

TRAJECTORIES = 4
_NEVER = 1e300  # a time that no trajectory reaches, but one that can fire nothing more


def presimulate(
    backend: Backend,
    network: LoweredNetwork,
    selector: str,
    inputs: tuple[npt.NDArray[np.int32], FloatArray],
    *,
    seed: int,
    events: int,
) -> FloatArray:
    """How often each species changes, f64 ``[species]``, in a pilot of some trajectories.

    Trajectories start from `inputs`, one row of initial counts and of constants, and end after
    `events` events. Counts are whole numbers, the same on every device. An order of reactions and
    species by such counts is what Komarov & D'Souza, PLoS ONE 7:e46693 (2012), call presimulation.
    """
    expected = Expected(TRAJECTORIES, inputs[0].max(axis=0).astype(np.int64))
    engine = ExactSsa(backend, network, [_NEVER], selector=selector, pilot=True, expected=expected)
    empty = backend.empty
    buffers = SampleBuffers(
        None, None, None, empty((TRAJECTORIES,), np.uint8), empty((1,), np.uint64),
        empty((len(WORK),), np.uint64), engine.scratch(TRAJECTORIES),
    )  # fmt: skip
    counts, constants = (backend.upload(row) for row in inputs)
    stream = backend.stream()
    launch = Launch(0, TRAJECTORIES, counts, constants)
    engine.start(launch, buffers, stream, seed=seed, max_steps=events)
    firings = engine.firings
    fired = backend.mirror(firings)
    backend.download(firings, fired, len(fired), stream)
    stream.record().wait()
    changed = [index for reaction in network.reactions for index, _ in reaction.change]
    times = np.repeat(fired.astype(np.float64), [len(r.change) for r in network.reactions])
    found = np.bincount(changed, weights=times, minlength=len(network.species))
    return found.astype(np.float64)
