"""A model and the user's options made into an ensemble of ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned, opt, warn
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.exact.selectors import PilotCounts
from tauslab.kernels.network.lowering import changed_by
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.lowering import OdeSystem, looks_back_at, lower_ode
from tauslab.kernels.ode.settings import DELAY_HISTORY
from tauslab.model.network.diagnosis.check import check_rates
from tauslab.model.network.diagnosis.events import warn_of_model
from tauslab.model.network.diagnosis.narrow_windows import levels_of_pulses
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import ODE, Method
from tauslab.options.record import Record
from tauslab.runner.ensemble.breaks import breaks_of, depending, moving_breaks
from tauslab.runner.ensemble.task import (
    Task,
    check_names,
    checked_record,
    choose_values,
    each_of,
    identity,
    recorded_names,
    with_settings,
)
from tauslab.store.format.versions import conditions


@dataclass(frozen=True, kw_only=True)
class OdeTask(Task):
    """An ensemble of the equations of `system`, whose inputs are `constants`; no `initial`."""

    system: OdeSystem
    amounts = True

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""
        return self.system.names[: self.system.species]

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""
        return self.system.names[self.system.species :]

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the file on clocks and conditions in the equations."""
        return {
            **self.clocks(self.system.inputs),
            **conditions(self.system.relations, pulses=self.system.has_pulses),
        }

    @property
    def settled_method(self) -> Method:
        """The method with all that was chosen for it: what the file says of it."""
        assert isinstance(self.options.method, ODE)
        return self.options.method.settled()

    def engine(
        self, backend: Backend, pilot: PilotCounts | None = None, devices: int = 0, *,
        goes_on: bool = False,
    ) -> Engine:  # fmt: skip
        """The compiled kernels of the solver."""
        del pilot, goes_on
        options = self.options
        return Ode(
            backend, self.system, options.times.tolist(), options.integration,
            priors=options.sample.priors,
            trajectories=-(-options.total // devices) if devices else 0,
        )  # fmt: skip


def prepare_ode(network: Network, options: Options) -> OdeTask:
    """Check a model against the options and make its equations.

    Raises
    ------
    ModelError
        A feature that equations cannot honour, a value that is not finite.
    ConfigError
        A name in the options that the model does not have.
    """
    check_names(network, options)
    network, options, rows, _ = choose_values(network, options)
    network = with_settings(network, options.sample.typical(), "sample")
    network.validate()
    values = network.parameter_values()
    varying = {*rows, *options.sample.names}
    adapts = options.integration.solver != "rk4"
    seen = adapts and not looks_back_at(network)
    lost = depending(network, {*varying})
    flowing = changed_by(network, [one.name for one in network.reactions])
    warn_of_model(
        network, values, rows, each_of(options), options.times,
        varying=lost, flowing=flowing, seen=seen,
    )  # fmt: skip
    check_rates(network, values, negative=True)
    _warn_of_small(network.initial_amounts(values, negative=True), network, options)
    recorded = recorded_names(network, options)
    slack = SLACK * options.integration.atol
    breaks = breaks_of(
        network, options, values, varying, rows, reals=None, followed=adapts
    )  # fmt: skip
    system = lower_ode(
        breaks.applied(network, all_tables=True),
        parameters=values, varying=varying, recorded=recorded, slack=slack,
        breaks=breaks.times,
        moving=moving_breaks(network, values, varying, reals=None) if adapts else (),
        pulses=levels_of_pulses(network, values, lost, flowing=flowing) if seen else (),
    )  # fmt: skip
    _refuse_infinite(system)
    history = options.integration.delay_history
    if history != DELAY_HISTORY and not system.looks_back:
        raise ConfigError(
            f"{opt('delay_history', history)}: {network.name} has no delays, so nothing looks "
            "back: leave it out"
        )
    canonical, digest = identity(network, options, rows, limits=True)
    task = OdeTask(
        network=network, options=options, initial=np.zeros((1, 1), np.int32),
        constants=_inputs(system.inputs, rows), record=Record(), stored_model=canonical,
        sha256=digest, system=system,
    )  # fmt: skip
    return replace(task, record=checked_record(task))


def with_inputs(task: OdeTask, columns: Mapping[str, FloatArray]) -> OdeTask:
    """The task with other values of what varies, all of it by name.

    What the file would say of the model and its values stays as it was.
    """
    return replace(task, constants=_inputs(task.system.inputs, columns))


def _refuse_infinite(system: OdeSystem) -> None:
    """Refuse constants that are infinite: a result marks what is not finite as no number."""
    for name, node in system.quantities:
        value = system.graph.value_of(node)
        if value is not None and math.isinf(value):
            raise ModelError(f"{name} is {value:g} at all times, which a result cannot hold")


def _warn_of_small(amounts: Mapping[str, float], network: Network, options: Options) -> None:
    """Warn where steps may be as wrong as all that there is: amounts in moles, for instance."""
    chosen = options.integration
    moved = {n for n, species in network.species.items() if not species.fixed} | set(network.rates)
    largest = max((abs(amounts[name]) for name in moved), default=0.0)
    if chosen.solver != "rk4" and 0 < largest < _MANY * chosen.atol:
        warn(
            f"no amount is above {largest:.2g} at the start, and {assigned('atol')}{chosen.atol:g} "
            f"allows errors of that size: give one such as {assigned('atol')}{largest * 1e-9:.0e}"
        )
        return
    small = {
        name: abs(amounts[name])
        for name in moved
        if _NOTHING < abs(amounts[name]) / chosen.atol < _MANY
    }
    if chosen.solver != "rk4" and small:
        name = min(small, key=lambda one: (small[one], one))
        warn(
            f"{name} is {small[name]:.2g} at the start, and {assigned('atol')}{chosen.atol:g} "
            f"allows errors of that size in it: give one such as "
            f"{assigned('atol')}{small[name] * 1e-6:.0e}, if it matters"
        )


def _inputs(names: tuple[str, ...], rows: Mapping[str, FloatArray]) -> FloatArray:
    """Inputs ``[1 or trajectory or point, name]``; zero where a trajectory draws its own."""
    count = max((len(column) for column in rows.values()), default=1)
    table = np.zeros((count, max(1, len(names))))
    for index, name in enumerate(names):
        if name in rows:
            table[:, index] = rows[name]
    bad = ~np.isfinite(table).all(axis=0)
    if bad.any():
        name = names[int(np.flatnonzero(bad)[0])]
        raise ConfigError(f"{name}: values must be finite")
    return table


SLACK = 1000.0  # times --atol: what an amount may be below zero by error, for roots and powers
_MANY = 100.0  # by how much amounts should exceed errors
_NOTHING = 1e-6  # what is so much smaller than errors is meant to be zero
