"""Running the tasks of an experiment: each task, with all of its repeats, is one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from tauslab.api.api import run_ensemble
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.exchange.sedml.document import (
    ModelSource,
    RepeatedTask,
    SedmlDocument,
    SedmlTask,
    Variable,
)
from tauslab.exchange.sedml.targets import expression_of, set_attribute, settable, target_of
from tauslab.formats.sbml.document import open_document
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.formats.sbml.text import import_libsbml, read_text
from tauslab.model.expressions.expression import Expression, Symbol, symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.network import Network
from tauslab.options.methods import ODE, SSA, TauLeaping
from tauslab.options.values.sample_times import even_times
from tauslab.options.values.texts import whole_number

# Exact algorithms sample the same distribution, and integrators solve the same equations within
# their tolerances: so one method stands for all of a kind.
EXACT = {
    "KISAO:0000015": "Gillespie first reaction algorithm",
    "KISAO:0000027": "Gibson-Bruck next reaction algorithm",
    "KISAO:0000029": "Gillespie direct algorithm",
    "KISAO:0000038": "sorting stochastic simulation algorithm",
    "KISAO:0000051": "Bortz-Kalos-Lebowitz algorithm",
    "KISAO:0000241": "Gillespie-like method",
    "KISAO:0000329": "constant-time kinetic Monte Carlo algorithm",
}
LEAPS = {
    "KISAO:0000039": "tau-leaping method",
    "KISAO:0000040": "Poisson tau-leaping method",
    "KISAO:0000048": "adaptive explicit-implicit tau-leaping method",
    "KISAO:0000084": "nonnegative Poisson tau-leaping method",
}
EQUATIONS = {  # those that control their error: a fixed step is part of a result
    "KISAO:0000019": "CVODE",
    "KISAO:0000033": "Rosenbrock method",
    "KISAO:0000071": "LSODE",
    "KISAO:0000086": "Fehlberg method",
    "KISAO:0000087": "Dormand-Prince method",
    "KISAO:0000088": "LSODA",
    "KISAO:0000089": "LSODAR",
    "KISAO:0000094": "Livermore solver",
    "KISAO:0000288": "backward differentiation formula",
    "KISAO:0000304": "Radau method",
    "KISAO:0000321": "Cash-Karp method",
    "KISAO:0000433": "CVODE-like method",
    "KISAO:0000435": "embedded Runge-Kutta 5(4) method",
    "KISAO:0000436": "Dormand-Prince 8(5,3) method",
    "KISAO:0000496": "CVODES",
    "KISAO:0000535": "VODE",
    "KISAO:0000560": "LSODA/LSODAR hybrid method",  # which COPASI writes for its LSODA
}
_RELATIVE, _ABSOLUTE = "KISAO:0000209", "KISAO:0000211"
_EPSILON, _SEED = "KISAO:0000228", "KISAO:0000488"
# How other programs get within their tolerances (orders, steps, iterations, linear solvers, a model
# reduced by its conservation laws): no result means these.
_IGNORED = {
    f"KISAO:0000{number}"
    for number in (
        216, 219, 220, 415, 467, 475, 476, 477, 478, 479, 480, 481, 484, 485, 542, 543, 559, 571,
    )
}  # fmt: skip


def method_of(
    algorithm: str, parameters: Mapping[str, str], where: str
) -> tuple[SSA | TauLeaping | ODE, int | None]:
    """Method for an algorithm with its parameters, and the seed among these.

    Raises
    ------
    ConfigError
        There is none, or a parameter is not known.
    """
    algorithm, parameters = _spelt(algorithm), {_spelt(k): v for k, v in parameters.items()}
    if algorithm not in {**EXACT, **LEAPS, **EQUATIONS}:
        why = f"the algorithm {algorithm} is none of ours" if algorithm else "no algorithm is given"
        raise ConfigError(
            f"{where}: {why}; exact: "
            f"{', '.join(EXACT)}; leaps: {', '.join(LEAPS)}; equations: {', '.join(EQUATIONS)}"
        )
    seed: int | None = None
    reported: dict[str, float] = {}
    for key, text in parameters.items():
        if key == _SEED:
            seed = whole_number(text)
            if seed is None:
                raise ConfigError(f"{where}: {key}: the seed {text!r:.80} is no whole number")
        elif key in (_RELATIVE, _ABSOLUTE, _EPSILON):
            reported[key] = _number(text, f"{where}: {key}")
        elif key not in _IGNORED:
            raise ConfigError(f"{where}: the algorithm parameter {key} is not known")
    if algorithm in EXACT:
        return SSA(), seed
    if algorithm in LEAPS:
        return (
            TauLeaping(epsilon=reported[_EPSILON]) if _EPSILON in reported else TauLeaping()
        ), seed
    return ODE(rtol=reported.get(_RELATIVE, 1e-6), atol=reported.get(_ABSOLUTE, 1e-9)), seed


def algorithm_of(method: SSA | TauLeaping | ODE, solver: str) -> str:
    """KiSAO term of the algorithm that ran, for BioSimulators; `solver` is that of equations."""
    if isinstance(method, ODE):
        return f"KISAO_{'0000033' if solver == 'rosenbrock' else '0000087'}"
    return f"KISAO_{'0000029' if isinstance(method, SSA) else '0000084'}"


def _spelt(identifier: str) -> str:
    """``KISAO_0000019`` as ``KISAO:0000019``."""
    return identifier.replace("KISAO_", "KISAO:")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is no number") from None


_TIME = "urn:sedml:symbol:time"
_ASKED = "sedml_"
_DEEPEST = 100  # models that come from models
_MATHML = "{http://www.w3.org/1998/Math/MathML}"
_AGGREGATE = "http://sed-ml.org/#"
_AGGREGATES: Mapping[str, Callable[[FloatArray], Any]] = {
    "min": np.min,
    "max": np.max,
    "sum": np.sum,
    "product": np.prod,
}


@dataclass(frozen=True)
class SedmlRun:
    """Values of variables of a task ``[time]``, or ``[repeat, time]``; its seed and algorithm."""

    values: dict[str, FloatArray]
    seed: int
    algorithm: str


def with_aggregates(
    text: str, known: Mapping[str, FloatArray | float]
) -> tuple[str, dict[str, FloatArray | float]]:
    """A formula in which aggregates of variables, such as ``max(x)``, have names; their values too.

    They are numbers of all values of a variable: SED-ML's min, max, sum and product.
    """
    if _AGGREGATE not in text:
        return text, {}
    root = ET.fromstring(text)  # noqa: S314 - as libsedml wrote it: no document type, no entities
    result: dict[str, FloatArray | float] = {}
    for apply in list(root.iter(f"{_MATHML}apply")):
        symbol, *arguments = apply
        function = symbol.get("definitionURL", "").removeprefix(_AGGREGATE)
        if symbol.tag != f"{_MATHML}csymbol" or function not in _AGGREGATES or len(arguments) != 1:
            continue
        name = (arguments[0].text or "").strip()
        if arguments[0].tag != f"{_MATHML}ci" or name not in known:
            continue
        own = f"{function}_of_{name}"
        while own in known:
            own += "_"
        result[own] = float(_AGGREGATES[function](np.asarray(known[name], np.float64)))
        for part in list(apply):
            apply.remove(part)
        apply.tag, apply.text = f"{_MATHML}ci", own
    return ET.tostring(root, encoding="unicode"), result


def expression_of_mathml(text: str, where: str) -> Expression:
    """A formula whose names are left as they are.

    Raises
    ------
    ConfigError
        It uses what is not supported.
    """
    libsbml = import_libsbml()

    def refuse(_: str, element: str, detail: str) -> None:
        raise ConfigError(f"{element}: {detail}")

    reader = MathReader(libsbml, {}, lambda name, _: Symbol(name), refuse)
    try:
        return reader.read(libsbml.readMathMLFromString(text), where)
    except ModelError as error:
        raise ConfigError(str(error)) from None


class Runner:
    """Runs tasks of the SED-ML file at `place` in an archive that is unpacked in `root`.

    `options` are what every run gets: a device, a seed.
    """

    def __init__(
        self,
        experiment: SedmlDocument,
        place: PurePosixPath,
        root: Path,
        options: Mapping[str, Any],
    ) -> None:
        self._experiment, self._place = experiment, place
        self._root, self._options = root.resolve(), options

    def run(self, name: str, variables: Mapping[str, Variable]) -> SedmlRun:
        """Run a task; `variables` are those wanted of it.

        Raises
        ------
        ConfigError, ModelError
            The task, or its model, cannot be honoured.
        """
        where = f"{self._place}: task {name}"
        task, inner = self._tasks(name, where)
        self._require(inner.simulation)
        simulation = self._experiment.simulations.get(inner.simulation)
        if simulation is None:
            raise ConfigError(f"{where}: there is no simulation {inner.simulation!r}")
        network, document = self._model(inner.model, where)
        wanted = self._add_observables(network, document, variables, where)
        method, seed = method_of(simulation.algorithm, simulation.parameters, where)
        count = 1
        values: dict[str, FloatArray] = {}
        if isinstance(task, RepeatedTask):
            count, values = _repeats(task, network, document, where)
        # Equations without draws and without values of their own give every repeat the same course.
        same = isinstance(method, ODE) and not values
        times = even_times(simulation.start, simulation.end, simulation.steps + 1)
        given = {} if seed is None else {"seed": seed}
        result = run_ensemble(
            network,
            times=times,
            n=1 if same else count,
            method=method,
            set=values,
            record="trajectories",
            **{**given, **self._options},
        )
        rows = result.to_xarray()
        collected: dict[str, FloatArray] = {}
        for key, recorded in wanted.items():
            time_course = times if recorded is None else _time_course(rows, recorded)
            time_course = np.broadcast_to(time_course, (count, len(times)))
            collected[key] = time_course if isinstance(task, RepeatedTask) else time_course[0]
        solver = str(result.attributes.get("ode_solver", ""))
        return SedmlRun(collected, result.seed, algorithm_of(method, solver))

    def _require(self, name: str) -> None:
        """Refuse an element that could not be read."""
        if name in self._experiment.refused:
            raise self._experiment.refused[name]

    def _tasks(self, name: str, where: str) -> tuple[SedmlTask | RepeatedTask, SedmlTask]:
        """A task, and the plain one that it repeats, or is."""
        self._require(name)
        task = self._experiment.tasks.get(name)
        if task is None:
            raise ConfigError(f"{where}: there is no such task")
        if isinstance(task, RepeatedTask):
            self._require(task.task)
        inner = self._experiment.tasks.get(task.task) if isinstance(task, RepeatedTask) else task
        if not isinstance(inner, SedmlTask):
            raise ConfigError(f"{where}: it repeats what is no plain task, which is not supported")
        return task, inner

    def _model(self, name: str, where: str) -> tuple[Network, Any]:
        """Network of a model with its changes, and libsbml's document."""
        libsbml = import_libsbml()
        chain: list[ModelSource] = []
        self._require(name)
        while name in self._experiment.models and len(chain) < _DEEPEST:
            chain.append(self._experiment.models[name])
            name = chain[-1].source.removeprefix("#")
            self._require(name)
        source = chain[-1].source if chain else name
        place = (self._root / self._place.parent / source).resolve()
        if ":" in source or not place.is_relative_to(self._root) or not place.is_file():
            raise ConfigError(f"{where}: its model {source!r} is no file of the archive")
        document, text = open_document(libsbml, read_text(place), place)
        changes = [change for own in reversed(chain) for change in own.changes]
        for path, value in changes:
            set_attribute(document.getModel(), target_of(path, where), value, where)
        if changes:
            text = libsbml.writeSBMLToString(document)
        return read_sbml_text(text, place), document

    def _add_observables(
        self, network: Network, document: Any, variables: Mapping[str, Variable], where: str
    ) -> dict[str, str | None]:
        """Add observables for variables; names under which they are recorded, None for the time."""
        wanted: dict[str, str | None] = {}
        for number, (key, variable) in enumerate(variables.items()):
            if variable.symbol == _TIME:
                wanted[key] = None
                continue
            if variable.symbol:
                raise ConfigError(f"{where}: the symbol {variable.symbol} is not supported")
            target = target_of(variable.target, where)
            name = f"{_ASKED}{number}"
            network.add_rule(name, expression_of(network, document.getModel(), target, where))
            wanted[key] = name
        return wanted


def _time_course(rows: Any, name: str) -> FloatArray:
    """Time course of an observable ``[trajectory, time]``."""
    return np.asarray(rows["observables"].sel(observable=name), np.float64)


def _repeats(
    task: RepeatedTask, network: Network, document: Any, where: str
) -> tuple[int, dict[str, FloatArray]]:
    """Number of repeats, and the values that each of them sets, by name."""
    if task.main not in task.ranges:
        raise ConfigError(f"{where}: its range {task.main!r} is no uniform or vector range")
    count = len(task.ranges[task.main])
    known = {name: np.array(own[:count]) for name, own in task.ranges.items()}
    if count == 0 or any(len(own) != count for own in known.values()):
        raise ConfigError(f"{where}: a range has fewer values than the main one")
    for name, (text, numbers) in task.functional.items():
        known[name] = evaluated(expression_of_mathml(text, where), {**numbers, **known}, where)
    values: dict[str, FloatArray] = {}
    targets = ((target_of(change.target, where), change) for change in task.changes)
    for target, change in sorted(targets, key=lambda one: one[0].kind == "species"):  # sizes first
        name, factor = settable(network, document.getModel(), target, where, values)
        tree = expression_of_mathml(change.math, where)
        given = evaluated(tree, {**change.parameters, **known}, where)
        values[name] = factor * np.broadcast_to(given, (count,))
    return count, values


def evaluated(tree: Expression, known: Mapping[str, FloatArray | float], where: str) -> FloatArray:
    """A formula of arrays of one shape, and of numbers.

    Raises
    ------
    ConfigError
        A name is not known, or shapes differ.
    """
    if unknown := symbols(tree) - known.keys():
        raise ConfigError(f"{where}: {min(unknown)!r} in a formula is not defined")
    if isinstance(tree, Symbol):
        return np.asarray(known[tree.name], np.float64)
    used = {name: np.asarray(known[name], np.float64) for name in sorted(symbols(tree))}
    shapes = {own.shape for own in used.values() if own.shape}
    if len(shapes) > 1:
        raise ConfigError(f"{where}: a formula mixes tasks of unlike shapes")
    shape = next(iter(shapes), ())
    columns = [np.broadcast_to(own, shape).ravel() for own in used.values()]
    rows = zip(*columns, strict=True) if columns else [()] * max(1, math.prod(shape))
    result = [evaluate(tree, dict(zip(used, map(float, row), strict=True))) for row in rows]
    return np.array(result).reshape(shape)
