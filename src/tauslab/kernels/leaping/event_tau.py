"""The tau-leaping engine of networks with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, Launcher, SampleBuffers
from tauslab.kernels.leaping.codegen import shared_cells
from tauslab.kernels.leaping.event_codegen import event_leap_header
from tauslab.kernels.network.lowering import LoweredNetwork

ENTRY = "tau_events"


class EventTau:
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
        self.backend = backend
        self._epsilon = epsilon
        self._launcher = Launcher(backend, times)
        source = KernelSource(
            "leaping/tau_events.cc",
            (ENTRY,),
            {"model.h": event_leap_header(network)},
            lane_bytes=8 * shared_cells(network),
        )
        self.program: Program = backend.compile(source)

    def trajectories_in_flight(self, launches: int = 1) -> int:  # noqa: ARG002 - as every engine
        """Trajectories that run at the same time; each takes a thread."""
        return self.program.resident(ENTRY)

    def scratch(self, rows: int) -> Any:  # noqa: ARG002 - as every engine
        """None: registers and local memory hold the state."""
        return None

    def start(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        *,
        seed: int,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        arguments = self.program.arguments(
            ENTRY,
            launch=self._launcher.begin(launch, buffers, stream, seed=seed, max_steps=max_steps),
            epsilon=self._epsilon,
        )
        items = self.backend.work_stealing_items(launch.rows, self.program.resident(ENTRY))
        self.program.launch(ENTRY, items, arguments, stream)
