"""The tau-leaping engine: one trajectory per thread, for networks of moderate size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.leap_codegen import leap_header
from tauslab.kernels.lowering import LoweredNetwork
from tauslab.kernels.ssa import ExactSsa
from tauslab.model.errors import ModelError

# A leap is straight-line code over all reactions: beyond this, compile times become a nuisance.
LARGEST_LEAPING = 512


class TauLeap(ExactSsa):
    """Explicit tau-leaping with critical reactions (Cao, Gillespie & Petzold 2006).

    Parameters
    ----------
    epsilon
        Bound on the expected relative change of every propensity in a leap, 0 to 1.

    Raises
    ------
    ModelError
        The network has more reactions than leaps are generated for.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float], epsilon: float
    ) -> None:
        if len(network.reactions) > LARGEST_LEAPING:
            raise ModelError(
                f"{len(network.reactions)} reactions are too many for tau: at most "
                f"{LARGEST_LEAPING}; use --method ssa"
            )
        self._epsilon = epsilon
        super().__init__(backend, network, times)

    def _source(self, network: LoweredNetwork) -> KernelSource:
        self.selector, self.entry = "linear", "tau_leap"
        header = leap_header(network, self.backend.style)
        return KernelSource("tau_leap.cc", (self.entry,), {"model.h": header})

    def _items(self, rows: int) -> int:
        """All that fit: the device waits for memory and for lanes that do something else."""
        return min(rows, self.program.resident(self.entry))

    def _own_arguments(self) -> list[Any]:
        return [self._epsilon]
