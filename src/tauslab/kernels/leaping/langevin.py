"""Jumps, equations and channels of the chemical Langevin equation in one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.events.codegen import events_header
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction

KINDS: Mapping[str, int] = {"jump": 0, "ode": 1, "langevin": 2, "auto": 3}
LARGEST = 160  # reactions: a trajectory keeps some numbers of each in registers or local memory


def langevin_header(network: LoweredNetwork, kinds: Sequence[str]) -> str:
    """`model.h` for `langevin`: that of networks with events, with changes and kinds as tables.

    Parameters
    ----------
    kinds
        Of each reaction, one of `KINDS`.
    """
    pairs = zip(network.reactions, kinds, strict=True)
    guarded = tuple(_guarded(reaction, kind) for reaction, kind in pairs)
    network = replace(network, reactions=guarded)
    changes = [change for reaction in guarded for change in reaction.change]
    first = [0, *accumulate(len(reaction.change) for reaction in guarded)]
    return events_header(network) + "".join(
        (
            "// What each reaction changes, how it happens, and orders of reactions that read.\n",
            _table("int", "KIND", [KINDS[kind] for kind in kinds]),
            _table("int", "FIRST_CHANGE", first),
            _table("int", "CHANGED", [number for number, _ in changes]),
            _table("double", "CHANGE", [by for _, by in changes]),
            _table("int", "ORDER", _orders(network)),
        )
    )


def _guarded(reaction: LoweredReaction, kind: str) -> LoweredReaction:
    """The reaction with a propensity of 0 where a jump finds too little; channels take all."""
    if kind in ("ode", "langevin"):
        return replace(reaction, needs=())
    needs = dict(reaction.needs)
    for number, order in reaction.orders:
        needs[number] = max(order, needs.get(number, 0))
    for number, by in reaction.change:
        needs[number] = max(-by, needs.get(number, 0))
    return replace(reaction, needs=tuple((n, count) for n, count in needs.items() if count > 0))


def _orders(network: LoweredNetwork) -> list[int]:
    """Highest order of the reactions that read each species; 2 of a general law, 0 of none."""
    orders = [0] * len(network.species)
    for reaction in network.reactions:
        order = 2 if reaction.law is not None else sum(count for _, count in reaction.orders)
        for number in reaction.depends_on():
            orders[number] = max(orders[number], order, 1)
    return orders


def _table(kind: str, name: str, values: Sequence[int]) -> str:
    listed = ", ".join(str(value) for value in values) or "0"
    return f"TABLE {kind} {name}[{max(1, len(values))}] = {{{listed}}};\n"


class LangevinEngine(NetworkEngine):
    """Steps of the weak trapezoidal method, with jumps between them; a thread a trajectory.

    Parameters
    ----------
    kinds
        Of each reaction, one of `KINDS`.
    epsilon
        Bound on the expected relative change of every propensity in a step, 0 to 1.
    many
        Molecules from which on a reaction of kind ``auto`` may flow.

    Raises
    ------
    ConfigError
        There are more than 160 reactions.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        kinds: Sequence[str],
        epsilon: float,
        many: float,
    ) -> None:
        if len(network.reactions) > LARGEST:
            raise ConfigError(
                f"steps of the Langevin equation are for up to {LARGEST} reactions, not "
                f"{len(network.reactions)}"
            )
        header = langevin_header(network, kinds)
        source = KernelSource("leaping/langevin.cc", ("langevin",), {"model.h": header})
        super().__init__(backend, times, source, epsilon=epsilon, many=many)
