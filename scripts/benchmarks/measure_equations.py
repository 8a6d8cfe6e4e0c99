"""Ensembles of equations on the systems of Hagiescu et al., ACM TACO 10(4):55 (2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from machine import Machine
from ode_cases import CASES, equations

from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.settings import OdeSettings

LAUNCH_BYTES = 4 << 30  # of samples that a launch leaves on the device
WARM_UP = 1024  # trajectories of the launch before
MOST_STEPS = 5000  # of a trajectory: more tell no more


def whole_run(machine: Machine, name: str, layout: str = "auto", warps: int = 0) -> float:
    """Seconds of all trajectories and steps, from 2 % of their steps, in single precision.

    Unknown parameters are drawn within a fifth of their values; samples stay in device memory. A
    share of the steps is fewer points, but two, and then fewer steps between them.
    """
    case, backend = CASES[name], machine.backend()
    steps = max(2, round(min(case.steps * 0.02, MOST_STEPS)))
    substeps = min(case.substeps, steps // 2)
    points = round(steps / substeps)
    system, priors = equations(name)
    settings = OdeSettings("rk4", substeps=substeps, precision="single", layout=layout, warps=warps)
    times = [case.step * substeps * k for k in range(1, points + 1)]
    rows = machine.many(case.trajectories)
    engine = Ode(backend, system, times, settings, priors=priors, wide=False, trajectories=rows)
    seconds = _timed(engine, rows, points)
    backend.close()
    return seconds * case.steps / (points * substeps)


def _timed(engine: Ode, rows: int, points: int) -> float:
    """Seconds of the device, the faster of two."""
    backend = engine.backend
    inputs = backend.upload(np.zeros((1, max(1, len(engine.system.inputs)))))
    width = points * len(engine.system.quantities) * engine.sample_dtype.itemsize
    together = max(1, min(rows, min(LAUNCH_BYTES, backend.free_memory() // 2) // width))
    buffers, stream = _buffers(engine, points, together), backend.stream()
    seconds = []
    for many in (min(rows, WARM_UP), rows, rows):
        begun = stream.record()
        for first in range(0, many, together):
            part = Launch(first, min(together, many - first), None, inputs, seed=1)
            engine.start_columns(part, buffers, stream)
        done = stream.record()
        done.wait()
        seconds.append(float(done.seconds_since(begun)))
    return min(seconds[1:])


def _buffers(engine: Ode, points: int, rows: int) -> SampleBuffers:
    empty: Any = engine.backend.empty
    shape = (points, len(engine.system.quantities), rows)
    reals = empty(shape, engine.sample_dtype)
    return SampleBuffers.of(engine.backend, rows, reals=reals, scratch=engine.scratch(rows))
