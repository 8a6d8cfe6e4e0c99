"""Division of cells of a model: the event that sets its time, and the share of each species."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tauslab.analysis.particles.daughters import OF_COUNTS, OF_QUANTITIES, require_no_delay
from tauslab.base.arrays import Array
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.events.divide import SHARES
from tauslab.model.expressions.expression import Number, Symbol
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Species


class Division:
    """A network whose cells are halted by their division, and what its species do then.

    Parameters
    ----------
    event
        Name of the event that divides a cell, after it has set what it sets.
    partition
        By species: ``binomial``, ``even``, ``copy``, ``first`` of counts, ``share``, ``copy``,
        ``first`` of quantities. By default counts are ``binomial``, and quantities with a rate
        rule are shared; others are copied.

    Raises
    ------
    ConfigError
        There is no such event or species, or a species cannot do what is asked.
    """

    def __init__(self, network: Network, event: str, partition: Mapping[str, str]) -> None:
        named = [one for one in network.events if one.name == event]
        if len(named) != 1:
            have = some(dict.fromkeys(one.name for one in network.events)) or "none"
            raise ConfigError(
                f"{opt('division', event)}: {network.name} has {'several' if named else 'no'} "
                f"such event{'s' if named else ''}; its events: {have}"
            )
        require_no_delay(network)
        now = {name for name, tree in named[0].assignments.items() if tree == Symbol("time")}
        self.halted = "divides"
        while self.halted in {*network.species, *network.parameters, *network.rules}:
            self.halted += "_"
        events = [
            replace(one, assignments={**one.assignments, self.halted: Number(1.0)})
            if one.name == event
            else one
            for one in network.events
        ]
        species = {**network.species, self.halted: Species(self.halted, Number(0.0), fixed=True)}
        self.network = replace(network, species=species, events=events)
        reals = set(self.network.real_species())
        for name in partition:
            if name not in network.species:
                raise ConfigError(
                    f"{opt('partition', key=name)}: not a species of {network.name}; it has "
                    f"{some(network.species)}"
                )
        self.how: dict[str, str] = {}
        for name, one in network.species.items():
            allowed = OF_QUANTITIES if name in reals else OF_COUNTS
            usual = "binomial"
            if name in reals:
                usual = "share" if name in network.rates else "copy"
            elif one.fixed:
                usual = "copy"
            self.how[name] = partition.get(name, usual)
            if self.how[name] not in allowed:
                kind = "a quantity" if name in reals else "a count"
                raise ConfigError(
                    f"{assigned('partition', key=name)}{self.how[name]} is not allowed: it is "
                    f"{kind}, {', '.join(allowed)}"
                )

        births = [i for i, name in enumerate(self.how) if name in now and self.how[name] == "copy"]
        # If a division sets exactly one species to its time, this species holds the time of birth.
        self.birth = births[0] if len(births) == 1 else None

    @property
    def shares(self) -> Array:
        """Codes of the shares, u8 ``[species]``, the species that halts cells last."""
        return np.array([*(SHARES[how] for how in self.how.values()), 0], np.uint8)

    @property
    def halt(self) -> int:
        """Number of the quantity that halts cells."""
        return len(self.how)
