"""Launches of an engine on SIMD lanes, by the compiler's flags for a width of vectors."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.ensemble.launch import CONTROL_WORDS, MAX_STEPS, WORK, Launch, SampleBuffers
from tauslab.kernels.network.lowering import lower
from tauslab.model.network.network import Network


@dataclass
class Work:
    """A launch: inputs of `points` rows where constants vary, and what to record."""

    network: Network
    times: list[float]
    n: int = 53
    epsilon: float = 0.03
    max_steps: int = MAX_STEPS
    varying: tuple[str, ...] = ()
    per_point: int = 0
    before: int = 0
    threads: int = 1
    counts: dict[str, int] = field(default_factory=dict)


def run_on_lanes(
    work: Work, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, flags: str, width: int
) -> dict[str, Any]:
    """Counts, observables, final counts, status and work of a launch of ``make(backend, network)``.

    `flags` are the compiler's where TAUSLAB_CXXFLAGS gives none; a `width` of 0 is the machine's.
    """
    given = os.environ.get("TAUSLAB_CXXFLAGS", flags)
    with monkeypatch.context() as patch:
        patch.setenv("TAUSLAB_CXXFLAGS", f"{given} -DSIMD_LANES={width}" if width else given)
        return _launched(work, make)


def _launched(work: Work, make: Callable[..., Any]) -> dict[str, Any]:
    net = work.network
    backend = get_backend("cpu", BackendOptions(threads=work.threads))
    values = net.parameter_values()
    counts = {name: round(x) for name, x in net.initial_amounts(values).items()} | work.counts
    lowered = lower(net, parameters=values, counts=counts, varying=work.varying)
    engine = make(backend, lowered)
    n, k, species = work.n, len(work.times), len(lowered.species)
    buffers = SampleBuffers(
        counts=np.full((n, k, species), -7, np.int32),
        reals=np.full((n, k, len(lowered.observables)), -7.0),
        final_counts=np.full((n, species), -7, np.int32), status=np.full(n, 77, np.uint8),
        row_counter=np.zeros(CONTROL_WORDS, np.uint64), work=np.zeros(len(WORK), np.uint64),
        scratch=engine.scratch(n),
    )  # fmt: skip
    rows = -(-n // work.per_point) + 1 if work.per_point else n if work.varying else 1
    constants = np.zeros((rows, max(1, len(lowered.constants))))
    constants[:] = np.linspace(0.5, 2.0, rows)[:, None]
    initial = np.tile(np.array([[counts[s] for s in lowered.species]], np.int32), (rows, 1))
    launch = Launch(
        3, n, initial, constants, work.per_point, work.before, seed=11, max_steps=work.max_steps
    )
    stream = backend.stream()
    engine.start(launch, buffers, stream)
    stream.record().wait()
    backend.close()
    return {
        "counts": buffers.counts, "observables": buffers.reals, "final": buffers.final_counts,
        "status": buffers.status, "work": buffers.work,
    }  # fmt: skip
