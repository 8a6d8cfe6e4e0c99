"""Courses of many parameter vectors in many conditions, each set of them one ODE ensemble."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab.api.api import run_ensemble
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.all_ranks import Comm
from tauslab.exchange.petab.tables import Given, Tables
from tauslab.exchange.sedml.targets import SedmlTarget, expression_of, settable
from tauslab.model.network.network import Network
from tauslab.options.methods import ODE
from tauslab.runner.ensemble.initial import require_followed

_READ = "petab_"
_MOST_NUMBERS = 1 << 24  # of samples in one launch
# Times of the model at which a steady state may be reached.
STEADY_TIMES = tuple(10.0**k for k in range(4, 11))
_STEADY_RTOL, _STEADY_ATOL = 1e-6, 1e-9  # of a state that counts as steady: see `Problem`
_MOST_STEPS = 200_000  # of a search for a steady state: an oscillation has none


@dataclass(frozen=True)
class Experiment:
    """A condition that is simulated, and the one that is run to a steady state before, if any."""

    before: str
    condition: str


class ConditionRuns:
    """Runs conditions of a problem, and records what formulas read of its model.

    Attributes
    ----------
    network
        The model, with the rules of `recorded`.
    recorded
        Names of rules by the names that formulas read.
    """

    def __init__(
        self, tables: Tables, names: Iterable[str], method: ODE, device: Any, comm: Comm
    ) -> None:
        self._tables, self._method, self._device, self._comm = tables, method, device, comm
        self.network = copy.deepcopy(tables.network)
        self.recorded: dict[str, str] = {}
        for number, name in enumerate(sorted(set(names) & self._known())):
            self.recorded[name] = f"{_READ}{number}"
            tree = expression_of(tables.network, tables.sbml, self._target(name), "a formula")
            self.network.add_rule(self.recorded[name], tree)

    def _known(self) -> set[str]:
        network = self._tables.network
        return {*network.species, *network.rules, *network.parameters}

    def _target(self, name: str) -> SedmlTarget:
        kind = "parameter" if self._tables.sbml.getSpecies(name) is None else "species"
        return SedmlTarget(kind, name, "", "")

    def run(
        self, experiments: Sequence[Experiment], times: FloatArray,
        values: Mapping[str, FloatArray], *, endless: Sequence[Experiment] = (),
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:  # fmt: skip
        """Courses of what formulas read, and steady values of it.

        Parameters
        ----------
        experiments
            What is simulated from time 0 on.
        times
            Sample times.
        values
            Values ``[vector]`` of the parameters of the problem, on the linear scale.
        endless
            Experiments whose steady state is wanted.

        Returns
        -------
        By name ``[experiment, vector, time]``, and ``[endless, vector, 1]``; NaN where the solver
        gave up or no steady state was found.
        """
        states = self._steady_states(experiments, values)
        starts = [self.start(one, values, states) for one in experiments]
        result = self._launched(starts, times, values, self._launch)
        ends = [self.start(one, values, states) for one in endless]
        return result, self._launched(ends, np.zeros(1), values, self._ends)

    def _steady_states(
        self, experiments: Sequence[Experiment], values: Mapping[str, FloatArray]
    ) -> dict[str, dict[str, FloatArray]]:
        """Amounts ``[vector]`` of every variable after preequilibration, by condition."""
        befores = sorted({one.before for one in experiments if one.before})
        starts = [self._settings(name, values, first=True) for name in befores]
        result = self._launched(starts, np.zeros(1), values, self._rest)
        return {
            name: {variable: time_course[i, :, 0] for variable, time_course in result.items()}
            for i, name in enumerate(befores)
        }

    def start(
        self,
        one: Experiment,
        values: Mapping[str, FloatArray],
        states: Mapping[str, Mapping[str, FloatArray]],
    ) -> dict[str, FloatArray]:
        """Return the values at the begin of an experiment: the state before, and the condition's.

        Returns
        -------
        Values ``[vector]`` by name in the network.
        """
        if not one.before:
            return self._settings(one.condition, values, first=True)
        given = dict(states[one.before])
        return given | self._settings(one.condition, values, first=False)

    def _settings(
        self, condition: str, values: Mapping[str, FloatArray], *, first: bool
    ) -> dict[str, FloatArray]:
        """Values ``[vector]`` by name in the network; not those that a state goes on with."""
        network = self._tables.network
        result = {
            name: numbers
            for name, numbers in values.items()
            if name in network.parameters or (first and name in network.species)
        }
        table = self._tables.conditions[condition]
        sizes = {
            name: self.number(given, values)
            for name, given in table.items()
            if name in network.parameters
        }
        result |= sizes
        for name, given in table.items():
            if name in network.species:
                result[name] = self._amount(name, self.number(given, values), result)
        if first:
            amounts = result.keys() & network.species.keys()
            require_followed(network, amounts, result, f"condition {condition}:")
        return result

    def _amount(
        self, name: str, numbers: FloatArray, given: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Amounts for what SBML means by the values of a species."""
        tables = self._tables
        _, factor = settable(tables.network, tables.sbml, self._target(name), name, given)
        return numbers * factor

    def number(self, given: Given, values: Mapping[str, FloatArray]) -> FloatArray:
        """Values ``[vector]`` of what a table holds: a number, or the name of a parameter.

        Raises
        ------
        ConfigError
            There is no such parameter.
        """
        if isinstance(given, str):
            if given not in values:
                raise ConfigError(f"{given!r} is not in the parameter table")
            return values[given]
        count = len(next(iter(values.values()))) if values else 1
        return np.full(count, float(given))

    # ---------------------------------------------------------------- launches

    def _launched(
        self,
        starts: Sequence[Mapping[str, FloatArray]],
        times: FloatArray,
        values: Mapping[str, FloatArray],
        launch: Any,
    ) -> dict[str, FloatArray]:
        """Launch starts ``[vector]``, those that set the same names together.

        Returns
        -------
        By name ``[start, vector, time]``.
        """
        if not starts:
            return {}
        count = len(next(iter(values.values()))) if values else 1
        alike: dict[tuple[str, ...], list[int]] = {}
        for i, start in enumerate(starts):
            alike.setdefault(tuple(sorted(start)), []).append(i)
        result: dict[str, FloatArray] = {}
        for names, numbers in alike.items():
            columns = {name: np.stack([starts[i][name] for i in numbers]) for name in names}
            time_courses = self._in_parts(columns, len(numbers), count, times, launch)
            for name, time_course in time_courses.items():
                whole = result.setdefault(name, np.empty((len(starts), *time_course.shape[1:])))
                whole[numbers] = time_course
        return result

    def _in_parts(
        self, columns: Mapping[str, FloatArray], starts: int, count: int, times: FloatArray,
        launch: Any,
    ) -> dict[str, FloatArray]:  # fmt: skip
        """Launch columns ``[start, vector]`` so that samples fit into memory."""
        wide = max(len(self.network.species), len(self.recorded), 1)
        most = max(1, _MOST_NUMBERS // (starts * len(times) * wide))
        parts = []
        for first in range(0, count, most):
            part = {name: column[:, first : first + most] for name, column in columns.items()}
            width = min(most, count - first)
            flat = {name: column.ravel() for name, column in part.items()}
            time_courses: dict[str, FloatArray] = launch(flat, starts * width, times)
            shape = (starts, width, -1)
            parts.append(
                {name: time_course.reshape(shape) for name, time_course in time_courses.items()}
            )
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def _launch(
        self, columns: Mapping[str, FloatArray], count: int, times: FloatArray
    ) -> dict[str, FloatArray]:
        """Courses ``[trajectory, time]`` of what formulas read."""
        if not self.recorded:
            return {}
        names = list(self.recorded.values())
        run = self._run(self.network, columns, count, times, names, self._method)
        return {name: run[own] for name, own in self.recorded.items()}

    def _rest(
        self, columns: Mapping[str, FloatArray], count: int, _: FloatArray
    ) -> dict[str, FloatArray]:
        """Steady amounts ``[trajectory, 1]`` of every variable."""
        network = self._tables.network
        return self._settled(network, columns, count, {n: n for n in network.species})

    def _ends(
        self, columns: Mapping[str, FloatArray], count: int, _: FloatArray
    ) -> dict[str, FloatArray]:
        """Steady values ``[trajectory, 1]`` of what formulas read."""
        wanted = {name: name for name in self.network.species} | self.recorded
        result = self._settled(self.network, columns, count, wanted)
        return {name: result[name] for name in self.recorded}

    def _settled(
        self,
        network: Network,
        columns: Mapping[str, FloatArray],
        count: int,
        wanted: Mapping[str, str],
    ) -> dict[str, FloatArray]:
        """Values at the first time at which all variables are steady; NaN where none is."""
        method = self._method
        if method.solver in (None, "auto") and method.substeps is None:
            method = replace(method, solver="rosenbrock")
        times = np.array([STEADY_TIMES[0] / 10, *STEADY_TIMES])
        names = list(dict.fromkeys([*network.species, *wanted.values()]))
        run = self._run(network, columns, count, times, names, method, max_steps=_MOST_STEPS)
        rests = np.ones((count, len(STEADY_TIMES)), bool)
        for name in network.species:
            time_course = run[name]
            near = _STEADY_ATOL + _STEADY_RTOL * np.abs(time_course[:, 1:])
            rests &= np.abs(np.diff(time_course, axis=1)) <= near  # False where there are NaN
        first = np.argmax(rests, axis=1) + 1
        rows = np.arange(count)
        result = {}
        for name, own in wanted.items():
            result[name] = np.where(rests.any(axis=1), run[own][rows, first], np.nan)[:, None]
        return result

    def _run(
        self, network: Network, columns: Mapping[str, FloatArray], count: int, times: FloatArray,
        names: list[str], method: ODE, **more: Any,
    ) -> dict[str, FloatArray]:  # fmt: skip
        """One ensemble; trajectories are NaN that would start from what no model has.

        That is what is not finite, or amounts below 0 without a rate rule.
        """
        good = np.ones(count, bool)
        counted = network.species.keys() - network.rates.keys()
        for name, column in columns.items():
            good &= np.isfinite(column) & ((column >= 0) | (name not in counted))
        collected = {name: np.full((count, len(times)), np.nan) for name in names}
        if not good.any():
            return collected
        network = replace(network, read_at_start={})  # `_settings` looks at it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of trajectories that end early, which are NaN
            result = run_ensemble(
                network, times=times, n=int(good.sum()), method=method, species=names, seed=0,
                set={name: column[good] for name, column in columns.items()},
                record="trajectories", device=self._device, comm=self._comm, **more,
            )  # fmt: skip
        for name in names:
            collected[name][good] = np.asarray(result[name], np.float64)
        return collected
