"""Pilots that run the kernels of the run itself: their random numbers, and the exact engine."""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.exact.selectors import selector_of
from tauslab.kernels.exact.ssa import ExactSsa
from tauslab.kernels.network.lowering import LoweredNetwork

# A pilot whose kernel has no stream of its own (STREAM_PILOT of streams.h) runs with this key,
# so that what it decides by is independent of what the run will draw.
_PILOT_KEY = 0x70696C6F7470696C


def pilot_seed(seed: int) -> int:
    """The seed of a pilot of a run with this seed; never the run's own."""
    return seed ^ _PILOT_KEY


def exact_engine(
    backend: Backend, network: LoweredNetwork, times: Sequence[float], selector: str | None = None
) -> Engine:
    """Exact simulation of a network, with events or without."""
    if network.dynamics is not None and selector_of(network, selector) == "linear":
        from tauslab.kernels.events.ssa import EventSsa

        return EventSsa(backend, network, times)
    return ExactSsa(backend, network, times, selector=selector)
