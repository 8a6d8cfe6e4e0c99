"""Choice of the engine that leaps: generated code and one thread, or tables and many threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.events.codegen import in_tables
from tauslab.kernels.leaping.codegen import shared_cells
from tauslab.kernels.leaping.event_codegen import event_leap_header
from tauslab.kernels.leaping.fine_tau import FineTau
from tauslab.kernels.leaping.tau_leap import LARGEST_LEAPING, CheckedTauLeap, TauLeap
from tauslab.kernels.network.lowering import LoweredNetwork

# Reactions of a model with events: a lane has a few numbers of each in memory of its own.
LARGEST_WITH_EVENTS = 2000
DYNAMICS = "events, rate rules, random amounts or rates that depend on the time"


def leaper_of(network: LoweredNetwork) -> str:
    """`unrolled` or from `tables`: a function of the network alone, and part of the method.

    Models with events are all leaped by one kernel, the first.
    """
    few = len(network.reactions) <= LARGEST_LEAPING
    return "unrolled" if few or network.dynamics is not None else "tables"


def leaping_engine(
    backend: Backend,
    network: LoweredNetwork,
    times: Sequence[float],
    epsilon: float,
    *,
    checked: bool = False,
    trajectories: int = 0,
) -> NetworkEngine:
    """The engine of `leaper_of` for the network, compiled.

    `trajectories` is how many the device will run, 0 where nobody knows; it changes no result.

    Raises
    ------
    ConfigError
        The check after leaps (`checked`) is asked for a network that leaps from tables, or has
        `DYNAMICS`; or one with these has too many reactions.
    """
    if network.dynamics is not None:
        if checked:
            raise ConfigError(
                f"{opt('post_leap_check')} is not for models with {DYNAMICS}: leave it out"
            )
        if len(network.reactions) > LARGEST_WITH_EVENTS:
            raise ConfigError(
                f"tau runs models with {DYNAMICS} of up to {LARGEST_WITH_EVENTS} reactions, not "
                f"{len(network.reactions)}; {opt('method', 'ssa')} can run it"
            )
        header = event_leap_header(network, backend.style)
        source = KernelSource(
            "leaping/tau_events.cc", ("tau_events",), {"model.h": header},
            lane_bytes=8 * shared_cells(network),
        )  # fmt: skip
        if in_tables(network, backend.style):
            source = replace(source, first=source)
        return NetworkEngine(backend, times, source, epsilon=epsilon)
    if leaper_of(network) == "unrolled":
        if checked:
            return CheckedTauLeap(backend, network, times, epsilon)
        return TauLeap(backend, network, times, epsilon, trajectories)
    if checked:
        raise ConfigError(
            f"{opt('post_leap_check')} works for networks of up to {LARGEST_LEAPING} reactions, "
            f"and this one has {len(network.reactions)}: leave it out, or use "
            f"{opt('method', 'ssa')}"
        )
    return FineTau(backend, network, times, epsilon)
