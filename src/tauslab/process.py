"""Models as processes of process-bigraph (Vivarium 2): ports are species and parameters.

Needs the package ``process-bigraph``. Within a `Composite` the address of the process is
``local:TauslabProcess``, once it has been registered by
``core.register_link("TauslabProcess", TauslabProcess)``.
"""

from __future__ import annotations

from typing import Any

from process_bigraph import Process

from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.base.errors import ConfigError, NoValidTrajectory
from tauslab.formats.read import read
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.methods import ODE, method_of


class TauslabProcess(Process):  # type: ignore[misc]  # of a package without types
    """One trajectory of a model, or one lattice, that other processes may change between updates.

    Inputs are all species and parameters, outputs the species: an update returns their changes,
    which are added to the store. Counts are of type ``integer``, amounts of ``ode`` and species
    with a rate rule of type ``float``. What other processes did to the species in the store is
    taken over before a step.

    Parameters
    ----------
    config
        ``model``: a file that `tauslab.read` reads, or a `tauslab.Network` or `tauslab.Lattice`;
        ``method``: ``ssa``, ``tau`` or ``ode``; ``seed``; ``device``.
    """

    config_schema = {  # noqa: RUF012 - as the base class has it
        "model": "node",
        "method": {"_type": "string", "_default": "ssa"},
        "seed": {"_type": "integer", "_default": 0},
        "device": {"_type": "string", "_default": "auto"},
    }

    def initialize(self, config: dict[str, Any]) -> None:
        """Open the model on its device.

        Raises
        ------
        ModelError, ConfigError
            The model or an option is not allowed.
        """
        model = config["model"]
        model = read(model) if isinstance(model, str) else model
        if not isinstance(model, Network | Lattice):
            raise ConfigError(f"model: a file, a network or a lattice is needed, not {model!r:.80}")
        method = None if isinstance(model, Lattice) else config["method"]
        self._parameters = model.parameter_values()
        self._particle = Ensemble(
            model, 1, method=method, seed=config["seed"], device=config["device"]
        )
        rates = [] if isinstance(model, Lattice) else list(model.rates)
        names = list(dict.fromkeys([*self._particle.species, *rates]))
        real = names if isinstance(method_of(method), ODE) else rates
        self._types = {name: "float" if name in real else "integer" for name in names}
        self._given = self._parameters | self._amounts()

    def inputs(self) -> dict[str, str]:
        """Return the types of species and parameters."""
        return dict.fromkeys(self._parameters, "float") | self.outputs()

    def outputs(self) -> dict[str, str]:
        """Return the types of species."""
        return dict(self._types)

    def initial_state(self) -> dict[str, float]:
        """Return counts or amounts and parameters as they are now."""
        return dict(self._given)

    def update(self, state: dict[str, float], interval: float) -> dict[str, float]:
        """Advance by an interval from a state.

        Parameters
        ----------
        state
            Species, and parameters that differ from their last values.
        interval
            Length of the step, in the unit of time of the model.

        Returns
        -------
        Changes of the species.

        Raises
        ------
        NoValidTrajectory
            The trajectory has ended: a count overflowed, or a rate is not a number.
        """
        changed = {name: x for name, x in state.items() if self._given.get(name) != x}
        if changed:
            self._particle.set(changed)
            self._given |= changed
        self._particle.advance(self._particle.time + interval)
        if not self._particle.alive.all():
            raise NoValidTrajectory(f"the trajectory ended before t = {self._particle.time:g}")
        before, now = self._given, self._amounts()
        changes = {name: now[name] - before[name] for name in self._types}
        # What the store will have, which rounds: else it would look like a change of others.
        self._given = before | {name: before[name] + x for name, x in changes.items()}
        return changes

    def _amounts(self) -> dict[str, float]:
        values = self._particle.values(list(self._types))[0].tolist()
        each = zip(self._types.items(), values, strict=True)
        return {name: int(x) if kind == "integer" else x for (name, kind), x in each}
