"""SED-ML (Levels 1 Version 1 to 4) as plain data: models, tasks, data generators, outputs."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.files.extras import installing
from tauslab.base.interrupts import ends_at_once
from tauslab.formats.sbml.text import each, read_text, scan

_T = TypeVar("_T")
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*|", re.ASCII)  # its files are named so
_MOST_VALUES = 10**7  # samples of a time course, values of a range


@dataclass(frozen=True)
class ModelSource:
    """A model: the file or model that it comes from, attributes that it gets (XPath, text)."""

    source: str
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TimeCourse:
    """A uniform time course of ``steps + 1`` samples from `start` to `end`."""

    initial: float
    start: float
    end: float
    steps: int
    algorithm: str
    parameters: dict[str, str]


@dataclass(frozen=True)
class SedmlTask:
    """One model, one simulation."""

    model: str
    simulation: str


@dataclass(frozen=True)
class SedmlChange:
    """A value that a repeated task sets: XPath, MathML of ranges, names in it that are numbers."""

    target: str
    math: str
    parameters: dict[str, float]


@dataclass(frozen=True)
class RepeatedTask:
    """A task as often as its main range has values; `functional` ranges are MathML."""

    task: str
    main: str
    ranges: dict[str, tuple[float, ...]]
    functional: dict[str, tuple[str, dict[str, float]]]
    changes: tuple[SedmlChange, ...]


@dataclass(frozen=True)
class Variable:
    """A quantity of a task: an XPath, or a symbol such as the time."""

    target: str
    symbol: str
    task: str


@dataclass(frozen=True)
class Generator:
    """A formula of variables."""

    name: str
    math: str
    variables: dict[str, Variable]
    parameters: dict[str, float]


@dataclass(frozen=True)
class OutputData:
    """A report, or the data of a plot: identifiers, labels and generators of its data sets.

    `curves` are those of a plot. A figure has no data sets.
    """

    kind: str
    name: str
    sets: tuple[tuple[str, str, str], ...]
    curves: tuple[str, ...] = ()


@dataclass
class SedmlDocument:
    """Contents of a SED-ML file, by identifier; `refused` are elements that are not supported."""

    models: dict[str, ModelSource] = field(default_factory=dict)
    simulations: dict[str, TimeCourse] = field(default_factory=dict)
    tasks: dict[str, SedmlTask | RepeatedTask] = field(default_factory=dict)
    generators: dict[str, Generator] = field(default_factory=dict)
    outputs: dict[str, OutputData] = field(default_factory=dict)
    refused: dict[str, ConfigError] = field(default_factory=dict)


def read_experiment(path: Path, label: str) -> SedmlDocument:
    """Read a SED-ML file, which messages call `label`.

    Raises
    ------
    ModelError
        libsedml finds an error: its message, with the line.
    ConfigError
        python-libsedml is not installed.
    """
    too_late = "libsbml" in sys.modules and "libsedml" not in sys.modules
    if too_late and importlib.util.find_spec("libsedml") is not None:
        raise ConfigError("libsbml was imported before libsedml: import libsedml first")
    try:
        libsedml = importlib.import_module("libsedml")
    except ImportError:
        raise ConfigError(
            "SED-ML needs python-libsedml, which is not installed: "
            f"{installing('python-libsedml', 'python-libcombine')}"
        ) from None
    text = read_text(path)
    scan(text, label)
    body = _DECLARATION.sub("", text, count=1)  # text is decoded already
    with ends_at_once():
        document = libsedml.readSedMLFromString(f'<?xml version="1.0" encoding="UTF-8"?>{body}')
    errors = [document.getError(i) for i in range(document.getNumErrors())]
    for error in errors:
        if error.getSeverity() >= libsedml.LIBSEDML_SEV_ERROR:
            message = " ".join(error.getMessage().split())
            raise ModelError(f"{label}, line {error.getLine()}: {message}")
    result = SedmlDocument()
    reader = _Reader(libsedml, label)
    result.models = reader.all(document.getListOfModels(), reader.model, result.refused)
    result.simulations = reader.all(
        document.getListOfSimulations(), reader.simulation, result.refused
    )
    result.tasks = reader.all(document.getListOfTasks(), reader.task, result.refused)
    result.generators = reader.all(
        document.getListOfDataGenerators(), reader.generator, result.refused
    )
    result.outputs = reader.all(document.getListOfOutputs(), reader.output, result.refused)
    return result


class _Reader:
    """Elements of libsedml as data; what is not supported is refused."""

    def __init__(self, libsedml: Any, label: str) -> None:
        self._libsedml, self._label = libsedml, label

    def all(
        self, items: Any, read: Callable[[Any], _T], refused: dict[str, ConfigError]
    ) -> dict[str, _T]:
        """Elements of a list by identifier; what is not supported goes to `refused`."""
        result = {}
        for item in each(items):
            if not _IDENTIFIER.fullmatch(item.getId()):
                raise ModelError(f"{self._label}: {item.getId()!r} is no identifier of SED-ML")
            try:
                result[item.getId()] = read(item)
            except ConfigError as error:
                refused[item.getId()] = error
        return result

    def _refused(self, element: Any, why: str) -> ConfigError:
        what = f"{element.getElementName()} {element.getId()}".strip()
        return ConfigError(f"{self._label}: {what}: {why}")

    def model(self, model: Any) -> ModelSource:
        changes = []
        for change in each(model.getListOfChanges()):
            if change.getElementName() != "changeAttribute":
                raise self._refused(model, f"{change.getElementName()} is not supported")
            changes.append((change.getTarget(), change.getNewValue()))
        return ModelSource(model.getSource(), tuple(changes))

    def simulation(self, simulation: Any) -> TimeCourse:
        if simulation.getElementName() != "uniformTimeCourse":
            raise self._refused(simulation, "only uniform time courses are supported")
        algorithm = simulation.getAlgorithm()
        steps = simulation.getNumberOfSteps()
        if steps is None or steps < 1 or steps > 2**31:
            steps = simulation.getNumberOfPoints()
        times = (
            simulation.getInitialTime(),
            simulation.getOutputStartTime(),
            simulation.getOutputEndTime(),
        )
        if times[0] != 0:
            raise self._refused(simulation, f"it begins at {times[0]:g}; only 0 is supported")
        if not (0 <= times[1] < times[2] < float("inf")) or steps < 1:
            raise self._refused(simulation, "its times do not increase")
        if steps > _MOST_VALUES:
            raise self._refused(simulation, f"{steps} samples are more than {_MOST_VALUES}")
        parameters = [] if algorithm is None else each(algorithm.getListOfAlgorithmParameters())
        return TimeCourse(
            *times,
            int(steps),
            "" if algorithm is None else algorithm.getKisaoID(),
            {p.getKisaoID(): p.getValue() for p in parameters},
        )

    def task(self, task: Any) -> SedmlTask | RepeatedTask:
        if task.getElementName() == "task":
            return SedmlTask(task.getModelReference(), task.getSimulationReference())
        if task.getElementName() != "repeatedTask":
            raise self._refused(task, "only tasks and repeated tasks are supported")
        subtasks = list(each(task.getListOfSubTasks()))
        if len(subtasks) != 1:
            raise self._refused(task, f"it has {len(subtasks)} subtasks; one is supported")
        if not task.getResetModel():
            raise self._refused(task, "resetModel is false; each repeat starts anew")
        ranges: dict[str, tuple[float, ...]] = {}
        functional: dict[str, tuple[str, dict[str, float]]] = {}
        for one in each(task.getListOfRanges()):
            if one.getElementName() == "functionalRange":
                if one.getNumVariables():
                    raise self._refused(one, "it reads the model, which is not supported")
                functional[one.getId()] = self._math(one), _numbers(one)
            else:
                ranges[one.getId()] = self._values(one)
        return RepeatedTask(
            subtasks[0].getTask(),
            task.getRangeId(),
            ranges,
            functional,
            tuple(self._change(task, change) for change in each(task.getListOfTaskChanges())),
        )

    def _values(self, one: Any) -> tuple[float, ...]:
        if one.getElementName() == "vectorRange":
            return tuple(float(value) for value in one.getValues())
        if one.getElementName() != "uniformRange":
            raise self._refused(one, "only uniform, vector and functional ranges are supported")
        steps = one.getNumberOfSteps()
        if steps is None or steps < 1 or steps > 2**31:
            steps = one.getNumberOfPoints()
        if steps < 1:
            raise self._refused(one, f"it has {steps} steps; one or more are supported")
        if steps > _MOST_VALUES:
            raise self._refused(one, f"{steps} values are more than {_MOST_VALUES}")
        first, last, kind = one.getStart(), one.getEnd(), one.getType()
        parts = [i / steps for i in range(steps + 1)]
        if kind == "linear":
            return tuple(first + (last - first) * part for part in parts)
        if kind == "log" and first > 0 and last > 0:
            return tuple(first * (last / first) ** part for part in parts)
        raise self._refused(one, f"its type is {kind!r}, and its ends {first:g} and {last:g}")

    def _change(self, task: Any, change: Any) -> SedmlChange:
        if change.getNumVariables():
            raise self._refused(task, "a value that it sets reads the model: not supported")
        return SedmlChange(change.getTarget(), self._math(change), _numbers(change))

    def generator(self, generator: Any) -> Generator:
        variables = {
            v.getId(): Variable(v.getTarget(), v.getSymbol(), v.getTaskReference())
            for v in each(generator.getListOfVariables())
        }
        name = generator.getName() or generator.getId()
        return Generator(name, self._math(generator), variables, _numbers(generator))

    def output(self, output: Any) -> OutputData:
        kind, name = output.getElementName(), output.getName()
        if kind == "report":
            sets = tuple(
                (d.getId(), d.getLabel() or d.getId(), d.getDataReference())
                for d in each(output.getListOfDataSets())
            )
            return OutputData("SedReport", name, sets)
        if kind == "figure":
            return OutputData("SedFigure", name, ())
        if kind not in ("plot2D", "plot3D"):
            raise self._refused(output, "only reports, plots and figures are supported")
        curves = output.getListOfCurves() if kind == "plot2D" else output.getListOfSurfaces()
        used: dict[str, None] = {}
        for curve in each(curves):
            own = [curve.getXDataReference(), curve.getYDataReference()]
            own += [curve.getZDataReference()] if kind == "plot3D" else []
            used |= dict.fromkeys(filter(None, own))
        return OutputData(
            f"SedPlot{kind[-2:]}",
            name,
            tuple((key, key, key) for key in used),
            tuple(curve.getId() for curve in each(curves)),
        )

    def _math(self, element: Any) -> str:
        if element.getMath() is None:
            raise self._refused(element, "it has no math")
        return str(self._libsedml.writeMathMLToString(element.getMath()))


def _numbers(element: Any) -> dict[str, float]:
    return {p.getId(): p.getValue() for p in each(element.getListOfParameters())}
