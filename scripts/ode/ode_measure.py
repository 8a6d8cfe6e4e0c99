"""Measures ODE ensembles on a device: one layout of a system's equations at a time."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from ode_cases import Case, equations

from tauslab.kernels.backends import Backend, BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import CONTROL_WORDS, WORK, Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.errors import TauslabError

LAUNCH_BYTES = 4 << 30  # of samples that a launch leaves on the device
WARM_UP = 1024  # trajectories of the launch before, whose samples give the digest
SHORT = 0.5  # seconds: what takes less is measured again, and the faster of both is taken
MOST_STEPS = 5000  # of a trajectory: more tell no more
WORKERS = 12  # processes that compile at the same time


@dataclass(frozen=True)
class Layout:
    """How equations are spread: options of `OdeSettings` by the same names."""

    layout: str = "auto"
    warps: int = 0

    def options(self) -> dict[str, Any]:
        """What differs from the defaults."""
        default = asdict(Layout())
        return {name: value for name, value in asdict(self).items() if value != default[name]}


@dataclass(frozen=True)
class Run:
    """Which part of a case is run: `trajectories` of `points` times `substeps` steps."""

    trajectories: int
    points: int
    substeps: int

    @classmethod
    def of(cls, case: Case, scale: float, trajectories: int | None) -> Run:
        """All trajectories, a share of their steps: fewer points, but two, then fewer steps."""
        steps = max(2, round(min(case.steps * scale, MOST_STEPS)))
        substeps = min(case.substeps, steps // 2)
        return cls(trajectories or case.trajectories, round(steps / substeps), substeps)


@dataclass(frozen=True)
class Measured:
    """One measurement; `choice` is what the kernels made of the layout."""

    case: str
    asked: Layout
    layout: str
    warps: int
    told: str
    run: Run
    seconds: float
    failed: int
    digest: str

    @property
    def steps(self) -> int:
        """Steps of each trajectory."""
        return self.run.points * self.run.substeps


@dataclass(frozen=True)
class Bench:
    """A device and what holds for all measurements on it."""

    backend: Backend
    precision: str
    unknown: int | None

    def engine(self, case: Case, layout: Layout, run: Run) -> Ode:
        """The compiled equations."""
        return _engine(self.backend, case, layout, run, (self.precision, self.unknown))

    def measure(self, case: Case, layout: Layout, run: Run) -> Measured:
        """Seconds of the device for a run."""
        engine = self.engine(case, layout, run)
        seconds, failed, digest = _timed(engine, run)
        choice = engine.choice
        if choice is None:  # a device without warps
            return Measured(case.name, layout, "thread", 1, "", run, seconds, failed, digest)
        return Measured(
            case.name, layout, choice.name, choice.warps, str(choice), run, seconds, failed, digest
        )


def _engine(
    backend: Backend, case: Case, layout: Layout, run: Run, how: tuple[str, int | None]
) -> Ode:
    precision, unknown = how
    system, priors = equations(case.name, unknown)
    settings = OdeSettings("rk4", substeps=run.substeps, precision=precision, **layout.options())
    duration = case.step * run.substeps
    times = [duration * k for k in range(1, run.points + 1)]
    return Ode(
        backend, system, times, settings,
        priors=priors, wide=False, trajectories=run.trajectories,
    )  # fmt: skip


def compile_all(
    wanted: Sequence[tuple[Case, Layout, Run]], device: str, how: tuple[str, int | None]
) -> None:
    """Fill the cache of compiled kernels, by several processes at a time."""
    workers = min(WORKERS, len(os.sched_getaffinity(0)), len(wanted))
    if workers < 2:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = [pool.submit(_compile, device, *one, how) for one in wanted]
        for job in jobs:
            job.result()


def _compile(
    device: str, case: Case, layout: Layout, run: Run, how: tuple[str, int | None]
) -> None:
    backend = get_backend(device, BackendOptions())
    try:
        _engine(backend, case, layout, run, how)
    except TauslabError:
        pass  # a layout that does not fit the device is told when it is measured
    finally:
        backend.close()


def _timed(engine: Ode, run: Run) -> tuple[float, int, str]:
    """Device seconds of a run, how many trajectories of its last launch failed, and a digest."""
    backend = engine.backend
    inputs = backend.upload(np.zeros((1, max(1, len(engine.system.inputs)))))
    digest = _warm_up(engine, run, inputs)
    width = run.points * len(engine.system.quantities) * engine.sample_dtype.itemsize
    room = min(LAUNCH_BYTES, backend.free_memory() // 2) // width
    rows = max(1, min(run.trajectories, room))
    buffers, stream = _buffers(engine, run, rows), backend.stream()
    seconds = _launches(engine, run, rows, (buffers, inputs, stream))
    if seconds < SHORT:
        seconds = min(seconds, _launches(engine, run, rows, (buffers, inputs, stream)))
    last = run.trajectories - (run.trajectories - 1) // rows * rows
    status = backend.mirror(buffers.status)
    backend.download(buffers.status, status, last, stream)
    stream.record().wait()
    return seconds, int(np.count_nonzero(status[:last])), digest


def _buffers(engine: Ode, run: Run, rows: int) -> SampleBuffers:
    backend, shape = engine.backend, (run.points, len(engine.system.quantities), rows)
    return SampleBuffers(
        counts=None,
        observables=backend.empty(shape, engine.sample_dtype),
        final=None,
        status=backend.empty((rows,), np.uint8),
        row_counter=backend.empty((CONTROL_WORDS,), np.uint64),
        work=backend.empty((len(WORK),), np.uint64),
        scratch=engine.scratch(rows),
    )


def _warm_up(engine: Ode, run: Run, inputs: Any) -> str:
    """Digest of the samples of the first trajectories."""
    rows = min(run.trajectories, WARM_UP)
    buffers, stream = _buffers(engine, run, rows), engine.backend.stream()
    engine.start_columns(Launch(0, rows, None, inputs), buffers, stream, seed=1)
    mirror = engine.backend.mirror(buffers.observables)
    engine.backend.download(buffers.observables, mirror, len(mirror), stream)
    stream.record().wait()
    return hashlib.sha256(mirror.tobytes()).hexdigest()


def _launches(engine: Ode, run: Run, rows: int, where: tuple[SampleBuffers, Any, Any]) -> float:
    buffers, inputs, stream = where
    begun = stream.record()
    for first in range(0, run.trajectories, rows):
        part = Launch(first, min(rows, run.trajectories - first), None, inputs)
        engine.start_columns(part, buffers, stream, seed=1)
    done = stream.record()
    done.wait()
    return float(done.seconds_since(begun))
