"""The exact engine of networks with events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, Launcher, SampleBuffers
from tauslab.kernels.events.codegen import events_header, shape
from tauslab.kernels.events.tables import kept_words
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.errors import ConfigError

# Beyond it the unrolled kernel takes too long to compile.
MOST_REACTIONS = 2000


class EventSsa:
    """Gillespie's direct method that stops for events, on one backend for one network.

    Raises
    ------
    ConfigError
        There are more reactions than the kernel is made for.
    """

    def __init__(self, backend: Backend, network: LoweredNetwork, times: Sequence[float]) -> None:
        if len(network.reactions) > MOST_REACTIONS:
            raise ConfigError(
                f"ssa runs models with events of up to {MOST_REACTIONS} reactions, not "
                f"{len(network.reactions)}"
            )
        assert network.dynamics is not None
        self.backend = backend
        self.entry = "ssa_flow" if network.dynamics.moves else "ssa_events"
        self._launcher = Launcher(backend, times)
        shapes = [shape(event) for event in network.dynamics.events]
        self._kept_words = kept_words(len(network.species), shapes)
        source = KernelSource(
            f"events/{self.entry}.cc", (self.entry,), {"model.h": events_header(network)}
        )
        self.program: Program = backend.compile(source)

    def trajectories_in_flight(self, launches: int = 1) -> int:  # noqa: ARG002 - as every engine
        """Trajectories that run at the same time; each takes a thread."""
        return self.program.resident(self.entry)

    @property
    def kept_words(self) -> int:
        """Doubles of the whole state of a trajectory."""
        return self._kept_words

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
        values = self._launcher.begin(launch, buffers, stream, seed=seed, max_steps=max_steps)
        arguments = self.program.arguments(self.entry, **values)
        items = self.backend.work_stealing_items(launch.rows, self.program.resident(self.entry))
        self.program.launch(self.entry, items, arguments, stream)
