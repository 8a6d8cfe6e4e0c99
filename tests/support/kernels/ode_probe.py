"""Runs the ODE engine alone: a system, a backend, what comes out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from places import TESTS

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.lowering import OdeSystem, lower_ode
from tauslab.kernels.ode.priors import Priors
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.network.network import Network

DATA = TESTS / "data"

Array = npt.NDArray[Any]


@cache
def clock() -> Network:
    """The segmentation clock."""
    return read_sbml(DATA / "sbml" / "BIOMD0000000201.xml")


@dataclass
class Course:
    """Samples ``[row, time, quantity]``, last values, what was drawn, status and work."""

    samples: Array
    final: Array
    drawn: Array
    status: Array
    work: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All that counts."""
        return self.samples, self.final, self.drawn


def system_of(
    network: Network, varying: Collection[str] = (), recorded: Collection[str] | None = None
) -> OdeSystem:
    """Equations of a network with its own values."""
    values = network.parameter_values()
    return lower_ode(network, parameters=values, varying=varying, recorded=recorded)


def integrate(
    backend: Backend,
    system: OdeSystem,
    times: Sequence[float],
    settings: OdeSettings,
    inputs: Array | None = None,
    *,
    rows: int | None = None,
    first: int = 0,
    seed: int = 1,
    columns: bool = False,
    priors: Priors | None = None,
    max_steps: int = MAX_STEPS,
    **options: Any,
) -> Course:
    """One launch of `rows` trajectories, or one for each row of `inputs`."""
    engine = Ode(backend, system, list(times), settings, priors=priors, **options)
    table = np.zeros((1, max(1, len(system.inputs)))) if inputs is None else inputs
    rows = rows or len(table)
    shape = [rows, len(times), len(system.quantities)]
    drawn = (rows, len(engine.priors.priors))
    buffers = SampleBuffers.of(
        backend,
        rows,
        reals=backend.empty(
            shape if not columns else [shape[1], shape[2], rows], engine.sample_dtype
        ),
        final_amounts=None if columns else backend.empty((rows, system.species), np.float64),
        scratch=engine.scratch(rows),
        drawn=backend.empty(drawn[::-1] if columns else drawn, np.float64) if drawn[1] else None,
    )
    stream = backend.stream()
    start = engine.start_columns if columns else engine.start
    launch = Launch(first, rows, None, backend.upload(table), seed=seed, max_steps=max_steps)
    start(launch, buffers, stream)
    stream.record().wait()

    def fetch(buffer: Any) -> Array:
        if buffer is None:
            return np.zeros(0)
        mirror = backend.mirror(buffer)
        backend.download(buffer, mirror, len(mirror), stream)
        stream.record().wait()
        return np.array(mirror)

    return Course(
        fetch(buffers.reals),
        fetch(buffers.final_amounts),
        fetch(buffers.drawn),
        fetch(buffers.status),
        fetch(buffers.work),
    )
