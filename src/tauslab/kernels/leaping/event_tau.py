"""The tau-leaping engine of networks with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.leaping.codegen import shared_cells
from tauslab.kernels.leaping.event_codegen import event_leap_header
from tauslab.kernels.network.lowering import LoweredNetwork


class EventTau(NetworkEngine):
    """Leaps as `TauLeap` makes them, which end at events; one trajectory a thread.

    Parameters
    ----------
    epsilon
        Bound on the expected relative change of every propensity in a leap, 0 to 1.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float], epsilon: float
    ) -> None:
        assert network.dynamics is not None
        source = KernelSource(
            "leaping/tau_events.cc",
            ("tau_events",),
            {"model.h": event_leap_header(network, backend.style)},
            lane_bytes=8 * shared_cells(network),
        )
        super().__init__(backend, times, source)
        self._epsilon = epsilon

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch, buffers
        return {"epsilon": self._epsilon}
