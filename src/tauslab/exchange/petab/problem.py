"""A PEtab problem: its objective, and what it simulates."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.all_ranks import Comm, ranks_of
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.exchange.petab.courses import ConditionRuns, Experiment
from tauslab.exchange.petab.formulas import PetabFormula, formula, placeholder
from tauslab.exchange.petab.likelihood import log_density, log_prior, residuals, scaled, unscaled
from tauslab.exchange.petab.stochastic import ConditionFilter, require_time_courses
from tauslab.exchange.petab.tables import Given, MeasurementRow, Tables, read_tables
from tauslab.model.network.molecules import amounts_of, as_chosen
from tauslab.options.methods import ODE, Method, MethodWord

STEP = 1e-4
_TIME = "time"


@dataclass(frozen=True)
class _Group:
    """Measurements of one observable: their rows, experiments and times by number."""

    name: str
    rows: npt.NDArray[np.int64]
    measured: FloatArray
    experiments: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    endless: npt.NDArray[np.int64]
    value: PetabFormula
    noise: PetabFormula


class Problem:
    """Parameters of a model, and measurements to estimate them from; made by `tauslab.petab.load`.

    A vector ``[p]`` contains the estimated parameters, in the order of `names`, on their
    parameterScale (``lin``, ``log``, ``log10``). Several vectors are ``[n, p]``; all vectors in
    all conditions are simulated together.

    If a steady state is not reached (docs/petab.md), values are NaN and the objective is infinite.

    Attributes
    ----------
    names
        The estimated parameters.
    scales
        Their parameterScale.
    nominal, lower, upper
        Nominal values and bounds ``[p]``, on their parameterScale.
    files
        The file of the problem and the files that it names.
    """

    def __init__(self, tables: Tables, method: ODE, device: Any, comm: Comm = "world") -> None:
        self._tables, self._device, self._comm = tables, device, comm
        self._method = method
        self.files = tables.files
        estimated = [one for one in tables.parameters.values() if one.estimated]
        self.names = tuple(one.name for one in estimated)
        self.scales = tuple(one.scale for one in estimated)
        self.nominal, self.lower, self.upper = (
            np.array([float(scaled(np.array(getattr(p, at)), p.scale)) for p in estimated])
            for at in ("nominal", "lower", "upper")
        )
        rows = tables.measurements
        self._experiments = list(dict.fromkeys(Experiment(m.before, m.condition) for m in rows))
        ends = [Experiment(m.before, m.condition) for m in rows if math.isinf(m.time)]
        self._endless = list(dict.fromkeys(ends))
        finite = {m.time for m in rows if math.isfinite(m.time)}
        self._times = np.array(sorted(finite or {0.0}))
        self._groups = self._grouped()
        read = {n for group in self._groups for n in (*group.value.names, *group.noise.names)}
        self._runs = ConditionRuns(tables, read, method, device, comm)

    def __repr__(self) -> str:
        """One line: what is estimated from what."""
        return (
            f"<Problem of {self._tables.network.name}: {len(self.names)} parameters, "
            f"{len(self._tables.measurements)} measurements, "
            f"{len(self._experiments)} experiments>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies from the tables: compiled formulas cannot be copied."""
        return Problem, (self._tables, self._method, self._device, self._comm)

    # ---------------------------------------------------------------- the objective

    def log_likelihood(self, vectors: npt.ArrayLike | None = None) -> Any:
        """Logarithm of the likelihood of all measurements.

        Parameters
        ----------
        vectors
            ``[p]`` or ``[n, p]``; the nominal vector by default.

        Returns
        -------
        A float, or ``[n]``; minus infinity if undefined.

        Raises
        ------
        ConfigError, ModelError
            Vectors of another length, or a model that ``ode`` does not support.
        """
        table = self._table(vectors)
        simulated, sigma = self._values(table)
        result = np.zeros(len(table))
        for group in self._groups:
            one, at = self._tables.observables[group.name], group.rows
            values = simulated[:, at], sigma[:, at]
            result += log_density(group.measured, *values, one.scale, one.noise).sum(axis=1)
        return _like(vectors, np.where(np.isnan(result), -np.inf, result))

    def stochastic_log_likelihood(
        self, vectors: npt.ArrayLike | None = None, *, n: int = 1000, seed: int | None = None,
        method: MethodWord | Method | None = None, molecules: bool = False,
        amounts: float | None = None,
    ) -> Any:  # fmt: skip
        """Estimate the log-likelihood of the stochastic model.

        Measurements of one condition and one `replicateId` belong to one trajectory. A particle
        filter (`tauslab.particle_filters`) estimates the likelihood of each trajectory without
        bias; its logarithm is on average too small by half of its variance, which decreases with
        `n`. Steady states and preequilibration are rejected.

        Parameters
        ----------
        vectors
            ``[p]`` or ``[n, p]``; the nominal vector by default.
        n
            Number of particles for each vector and trajectory.
        seed
            64-bit seed; drawn by default.
        method
            As for `tauslab.Ensemble`.
        molecules
            Convert the amounts of a model whose unit is not the molecule, such as mole, as
            `tauslab.in_molecules` does.
        amounts
            Counts per unit of the file's amounts, instead of `molecules`: 1 reads amounts as
            counts. It determines the size of the system, and therefore the noise.

        Returns
        -------
        A float, or ``[n]``; minus infinity if no particle is compatible with a measurement.

        Raises
        ------
        ConfigError
            A measurement of a steady state (preequilibration, time ``inf``), or vectors of another
            length.
        ModelError
            The model has no stochastic meaning, such as one with amounts in moles.
        """
        rows = self._tables.measurements
        require_time_courses(rows)
        table = self._table(vectors)
        result = np.zeros(len(table))
        if not len(table):
            return result
        values = self._linear(table)
        formulas = {group.name: (group.value, group.noise) for group in self._groups}
        names = list(dict.fromkeys((row.condition, row.replicate) for row in rows))
        network = as_chosen(self._runs.network, molecules, amounts)
        unit = 1.0
        if network is not self._runs.network:
            unit = amounts or self._tables.network.molecules_per_unit or 1.0
        counted = amounts_of(self._tables.network)
        ranks = ranks_of(self._comm, "a likelihood of PEtab", vectors=table, n=n, seed=seed)
        drawn = agreed_seed(seed, lambda: None, ranks)
        for number, (condition, replicate) in enumerate(names):
            own = [row for row in rows if (row.condition, row.replicate) == (condition, replicate)]
            time_course = ConditionFilter(
                network, own, self._tables.observables, formulas,
                self._runs.recorded,
            )  # fmt: skip
            constants = [
                {
                    name: self._given(name, row, values)
                    for made in formulas[row.observable]
                    for name in made.names
                    if name != _TIME and name not in self._runs.recorded
                }
                for row in own
            ]
            start = self._runs.start(Experiment("", condition), values, {})
            result += time_course.log_likelihood(
                {k: v * unit if k in counted else v for k, v in start.items()}, constants,
                count=len(table), n=n, seed=drawn, number=number, device=self._device,
                method=method, comm=ranks,
            )  # fmt: skip
        return _like(vectors, result)

    def log_prior(self, vectors: npt.ArrayLike | None = None) -> Any:
        """Logarithm of the density of the priors (objectivePriorType), 0 without priors.

        Densities are not cut off at the bounds. A prior ``parameterScale...`` is a density of the
        value on its scale, any other of the value itself.
        """
        table = self._table(vectors)
        result = np.zeros(len(table))
        for i, (name, scale) in enumerate(zip(self.names, self.scales, strict=True)):
            prior = self._tables.parameters[name].prior
            if prior is not None:
                result += log_prior(*prior, unscaled(table[:, i], scale), scale)
        return _like(vectors, result)

    def log_posterior(self, vectors: npt.ArrayLike | None = None) -> Any:
        """Logarithm of likelihood times prior, as `log_likelihood` and `log_prior` give them."""
        return self.log_likelihood(vectors) + self.log_prior(vectors)

    def objective(self, vectors: npt.ArrayLike | None = None, *, prior: bool = False) -> Any:
        """Negative log-likelihood, to be minimised.

        Parameters
        ----------
        vectors
            ``[p]`` or ``[n, p]``; the nominal vector by default.
        prior
            The negative log-posterior instead.

        Returns
        -------
        A float, or ``[n]``; infinite if the equations or a steady state have no solution.
        """
        return -(self.log_posterior(vectors) if prior else self.log_likelihood(vectors))

    def gradient(
        self, vectors: npt.ArrayLike | None = None, *, step: float = STEP, prior: bool = False
    ) -> FloatArray:
        """Gradient of `objective` by central differences, all simulated together.

        Parameters
        ----------
        vectors
            ``[p]`` or ``[n, p]``; the nominal vector by default.
        step
            Step to each side, on ``log`` and ``log10`` scales; on ``lin`` it is multiplied by the
            value, or by a thousandth of the width of the bounds if that is larger. A point beyond
            a bound is moved to the bound.
        prior
            Gradient of the negative log-posterior instead.

        Returns
        -------
        ``[p]`` or ``[n, p]``, by the parameters on their scales.

        Raises
        ------
        ConfigError
            The step is not above 0.
        """
        if not step > 0:
            raise ConfigError(f"step={step:g} must be above 0")
        table = self._table(vectors)
        width = np.nan_to_num(self.upper - self.lower, nan=0.0, posinf=0.0)
        floor = np.where(width > 0, 1e-3 * width, 1.0)
        linear = np.array([scale == "lin" for scale in self.scales])
        sizes = step * np.where(linear, np.maximum(np.abs(table), floor), 1.0)
        ends = []
        for sign in (1.0, -1.0):
            points = table + sign * sizes
            beyond = points > self.upper if sign > 0 else points < self.lower
            bound = self.upper if sign > 0 else self.lower
            ends.append(np.where(beyond & (sign * (bound - table) >= 0), bound, points))
        count, p = table.shape
        moved = np.repeat(table[None, :, None, :], 2, axis=0).repeat(p, axis=2)
        for i in range(p):
            moved[0, :, i, i], moved[1, :, i, i] = ends[0][:, i], ends[1][:, i]
        result = self.objective(moved.reshape(-1, p), prior=prior).reshape(2, count, p)
        with np.errstate(invalid="ignore"):
            slopes = (result[0] - result[1]) / (ends[0] - ends[1])
        return np.asarray(slopes if _several(vectors) else slopes[0])

    def chi2(self, vectors: npt.ArrayLike | None = None) -> Any:
        """Sum of (residual / noise)², on the observables' scales: float or ``[n]``."""
        table = self._table(vectors)
        simulated, sigma = self._values(table)
        result = np.zeros(len(table))
        for group in self._groups:
            scale, at = self._tables.observables[group.name].scale, group.rows
            scores = residuals(group.measured, simulated[:, at], sigma[:, at], scale)
            result += np.square(scores).sum(axis=1)
        return _like(vectors, result)

    # ---------------------------------------------------------------- what is simulated

    def simulate(self, vectors: npt.ArrayLike | None = None) -> FloatArray:
        """Values of the observables, on the linear scale, a number for each measurement.

        Returns
        -------
        ``[m]``, or ``[n, m]`` for vectors ``[n, p]``, in the order of the measurement table.
        """
        result = self._values(self._table(vectors))[0]
        return result if _several(vectors) else result[0]

    def simulation_table(self, vector: npt.ArrayLike | None = None) -> Any:
        """PEtab's simulation table at a vector ``[p]``, as a DataFrame of pandas.

        It is the measurement table with the column ``simulation`` in place of ``measurement``.
        """
        if _several(vector):
            raise ConfigError("a simulation table is of one vector")
        frame = self._tables.frame.rename(columns={"measurement": "simulation"})
        return frame.assign(simulation=self.simulate(vector))

    def scaled(self, values: Mapping[str, float]) -> FloatArray:
        """A vector ``[p]`` of values on the linear scale by name; others are nominal.

        Raises
        ------
        ConfigError
            A name is no estimated parameter, a value has no logarithm, or there is none.
        """
        self._require_values(nominal=True, but=values)
        vector = self.nominal.copy()
        for name, value in values.items():
            if name not in self.names:
                raise ConfigError(f"{name!r} is no estimated parameter of the problem")
            i = self.names.index(name)
            vector[i] = scaled(np.array(float(value)), self.scales[i])
            if not np.isfinite(vector[i]):
                raise ConfigError(f"{name} is {value:g}, which is not possible on its scale")
        return vector

    # ---------------------------------------------------------------- inside

    def _table(self, vectors: npt.ArrayLike | None) -> FloatArray:
        """Vectors ``[n, p]``."""
        self._require_values(nominal=vectors is None)
        try:
            given = self.nominal if vectors is None else np.asarray(vectors, np.float64)
        except (TypeError, ValueError):
            raise ConfigError("vectors must be numbers") from None
        table = np.atleast_2d(given)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise ConfigError(
                f"vectors have the shape {given.shape}; they must be [n, {len(self.names)}], with "
                f"the columns {', '.join(self.names)}"
            )
        return table

    def _require_values(self, *, nominal: bool, but: Container[str] = ()) -> None:
        """Refuse a parameter without a value that is not estimated; with `nominal` any."""
        for name, one in self._tables.parameters.items():
            place = float(scaled(np.array(one.nominal), one.scale))
            needed = name not in but and (nominal or not one.estimated)
            if needed and not math.isfinite(place):
                why = (
                    "is missing" if math.isnan(one.nominal) else f"{one.nominal:g} is not possible"
                )
                raise ConfigError(
                    f"parameter {name}: its nominalValue {why} on the scale {one.scale}"
                )

    def _grouped(self) -> list[_Group]:
        """Measurements by observable, with their formulas."""
        tables = self._tables
        result = []
        for name, one in tables.observables.items():
            rows = [i for i, row in enumerate(tables.measurements) if row.observable == name]
            if not rows:
                continue
            own = [tables.measurements[i] for i in rows]
            experiments = [Experiment(row.before, row.condition) for row in own]
            times = [np.searchsorted(self._times, min(row.time, self._times[-1])) for row in own]
            endless = [
                self._endless.index(experiment) if math.isinf(row.time) else -1
                for row, experiment in zip(own, experiments, strict=True)
            ]
            result.append(
                _Group(
                    name,
                    np.array(rows),
                    np.array([row.value for row in own]),
                    np.array([self._experiments.index(one) for one in experiments]),
                    np.array(times),
                    np.array(endless),
                    formula(one.formula, f"observable {name}"),
                    formula(one.noise_formula, f"noise of {name}"),
                )
            )
        return result

    def _values(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Simulated values and noise ``[vector, measurement]``."""
        shape = (len(table), len(self._tables.measurements))
        simulated, sigma = np.empty(shape), np.empty(shape)
        if not len(table):
            return simulated, sigma
        values = self._linear(table)
        time_courses, ends = self._runs.run(
            self._experiments, self._times, values, endless=self._endless
        )
        for group in self._groups:
            known = {
                name: self._known(name, group, values, time_courses, ends)
                for name in {*group.value.names, *group.noise.names}
            }
            own = (len(table), len(group.rows))
            simulated[:, group.rows] = group.value(known, own)
            sigma[:, group.rows] = group.noise(known, own)
        return simulated, sigma

    def _linear(self, table: FloatArray) -> dict[str, FloatArray]:
        """Values ``[vector]`` of all parameters of the problem, on the linear scale."""
        values = {
            name: np.full(len(table), one.nominal) for name, one in self._tables.parameters.items()
        }
        for i, (name, scale) in enumerate(zip(self.names, self.scales, strict=True)):
            values[name] = unscaled(table[:, i], scale)
        return values

    def _known(
        self, name: str, group: _Group, values: Mapping[str, FloatArray],
        courses: Mapping[str, FloatArray], ends: Mapping[str, FloatArray],
    ) -> FloatArray:  # fmt: skip
        """Values ``[vector, measurement]`` of a name in the formulas of an observable."""
        rows = [self._tables.measurements[i] for i in group.rows]
        if name == _TIME:
            return np.array([[row.time for row in rows]])
        if name in self._runs.recorded:
            result = courses[name][group.experiments, :, group.times].T
            if name in ends:
                result = np.where(group.endless >= 0, ends[name][group.endless, :, 0].T, result)
            return np.asarray(result)
        return np.stack([self._given(name, row, values) for row in rows], axis=1)

    def _given(
        self, name: str, row: MeasurementRow, values: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Values ``[vector]`` of a name that is not of the model, for a measurement."""
        place = placeholder(name)
        given: Given = name
        if place is not None:
            kind, number = place
            overrides = row.noise_parameters if kind == "noise" else row.observable_parameters
            if number >= len(overrides):
                raise ConfigError(f"a measurement of {row.observable} gives no {name}")
            given = overrides[number]
        if isinstance(given, str):
            given = self._tables.conditions[row.condition].get(given, given)
        return self._runs.number(given, values)


def _several(vectors: npt.ArrayLike | None) -> bool:
    """Return whether vectors ``[n, p]`` are given, not one ``[p]``."""
    return vectors is not None and np.ndim(vectors) > 1


def _like(vectors: npt.ArrayLike | None, found: FloatArray) -> Any:
    """A float for a single vector."""
    return found if _several(vectors) else float(found[0])


def load(
    problem: str | Path, *, method: ODE | None = None, device: Any = "auto", comm: Comm = "world"
) -> Problem:
    """Read a PEtab problem (Version 1, SBML), and check it by the linter of the package petab.

    Parameters
    ----------
    problem
        Its file, ``.yaml``.
    method
        Solver settings; by default `tauslab.ODE` with ``rtol=1e-8`` and ``atol=1e-12``.
    device
        ``auto``, ``cpu`` or ``cuda``; or `tauslab.CPU`, `tauslab.GPU`.
    comm
        As of `tauslab.run`: the ranks that call the problem together.

    Returns
    -------
    The problem.

    Raises
    ------
    ConfigError
        The extra ``petab`` is not installed, or the problem is of another version or language.
    ModelError
        A table or the model is malformed.
    """
    if method is not None and not isinstance(method, ODE):
        raise ConfigError("a PEtab problem is solved by equations: method= is tauslab.ODE(...)")
    solver = ODE(rtol=1e-8, atol=1e-12) if method is None else method
    return Problem(read_tables(Path(problem)), solver, device, comm)
