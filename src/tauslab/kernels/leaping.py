"""Which engine leaps: generated code and a thread a trajectory, or tables and crews of threads."""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.fine_tau import FineTau
from tauslab.kernels.lowering import LoweredNetwork
from tauslab.kernels.tau_leap import LARGEST_LEAPING, TauLeap


def leaper_of(network: LoweredNetwork) -> str:
    """`unrolled` or from `tables`: a function of the network alone, and part of the method."""
    return "unrolled" if len(network.reactions) <= LARGEST_LEAPING else "tables"


def leaping_engine(
    backend: Backend, network: LoweredNetwork, times: Sequence[float], epsilon: float
) -> TauLeap | FineTau:
    """The engine of `leaper_of` for the network, compiled."""
    engine = TauLeap if leaper_of(network) == "unrolled" else FineTau
    return engine(backend, network, times, epsilon)
