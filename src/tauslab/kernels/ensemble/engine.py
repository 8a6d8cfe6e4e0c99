"""What the ensemble driver needs of an engine, whatever method it runs."""

from __future__ import annotations

from typing import Any, Protocol

from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers


class Engine(Protocol):
    """Kernels of one model on one device."""

    @property
    def backend(self) -> Backend:
        """The device."""

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time when `launches` share the device."""

    def scratch(self, rows: int) -> Any:
        """Memory for at most `rows` trajectories in flight, or None."""

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
