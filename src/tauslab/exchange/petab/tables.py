"""The tables of a PEtab problem as plain data, read by the package petab."""

from __future__ import annotations

import copy
import importlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tauslab.base.errors import ConfigError, ModelError, reason_of
from tauslab.base.files.extras import installing
from tauslab.exchange.petab.formulas import require_bounded
from tauslab.exchange.petab.likelihood import NOISES, SCALES, check_prior
from tauslab.formats.sbml.reader import read_sbml_text
from tauslab.formats.sbml.text import import_libsbml, parsed, read_text, scan
from tauslab.model.network.network import Network

Given: TypeAlias = float | str  # a number, or the name of a parameter


@dataclass(frozen=True)
class Parameter:
    """A row of the parameter table; bounds and value on the linear scale."""

    name: str
    scale: str
    lower: float
    upper: float
    nominal: float
    estimated: bool
    prior: tuple[str, float, float] | None


@dataclass(frozen=True)
class Observable:
    """A row of the observable table."""

    name: str
    formula: str
    noise_formula: str
    scale: str
    noise: str


@dataclass(frozen=True)
class MeasurementRow:
    """A row of the measurement table; `before` is the condition of preequilibration, or none.

    Rows of one condition and one `replicate` are of one course, which matters where it is by
    chance.
    """

    observable: str
    before: str
    condition: str
    time: float
    value: float
    observable_parameters: tuple[Given, ...]
    noise_parameters: tuple[Given, ...]
    replicate: str = ""


@dataclass(frozen=True)
class Tables:
    """A problem: its network, libsbml's document, and its tables."""

    network: Network
    document: Any
    parameters: Mapping[str, Parameter]
    conditions: Mapping[str, Mapping[str, Given]]
    observables: Mapping[str, Observable]
    measurements: tuple[MeasurementRow, ...]
    frame: Any  # the measurement table of pandas
    files: tuple[Path, ...] = ()  # that were read

    @property
    def sbml(self) -> Any:
        """The model of the document."""
        return self.document.getModel()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, with SBML in place of libsbml's document."""
        text = import_libsbml().writeSBMLToString(self.document)
        return vars(self) | {"document": text}

    def __setstate__(self, state: dict[str, Any]) -> None:
        document = parsed(import_libsbml(), state["document"])
        vars(self).update(state | {"document": document})


_LINTED, _MOST_KINDS = 500, 5000  # rows of measurements
_MOST_YAML, _DEEPEST_YAML = 1 << 17, 100


def petab_version_1() -> Any:
    """The package petab.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    import_libsbml()  # as it has to be imported, before petab does
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it imports, about coming changes
            importlib.import_module("petab.v1.math")
            return importlib.import_module("petab.v1")
    except ImportError:
        raise ConfigError(
            f"PEtab needs the package petab, which is not installed: {installing('petab')}"
        ) from None


def read_tables(path: Path) -> Tables:
    """Read a problem, and check it by the linter of petab.

    Raises
    ------
    ConfigError
        petab is not installed, or the problem is not one of Version 1 with an SBML model.
    ModelError
        The problem, or its model, is malformed.
    """
    petab = petab_version_1()
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
    content = _content(path)
    version = content.get("format_version")
    if str(version).split(".", maxsplit=1)[0] != "1":
        raise ConfigError(f"{path}: PEtab Version {version} is not supported, Version 1 is")
    for file in _files_of(content, path):
        _require_file(file, path)
    with _petab_errors(path):
        problem = petab.Problem.from_yaml(path)
    if problem.model is None or problem.model.type_id != "sbml":
        raise ConfigError(f"{path}: only models in SBML are supported")
    _require_formulas(problem, path)
    _lint(petab, problem, path)
    try:
        parameters, conditions, observables, measurements = _rows(petab, problem)
    except ModelError as error:
        raise ModelError(str(error), where=str(path)) from None
    given = {name: 1.0 for condition in conditions.values() for name in condition}
    given |= {name: one.nominal for name, one in parameters.items() if math.isfinite(one.nominal)}
    document = problem.model.sbml_document
    return Tables(
        _network(document, given, path), document, parameters, conditions, observables,
        measurements, problem.measurement_df, (path, *_files_of(content, path)),
    )  # fmt: skip


def _content(path: Path) -> Mapping[str, Any]:
    """Read the file of a problem: a few names, without YAML's ways to say much by little."""
    yaml = importlib.import_module("yaml")  # which petab needs

    if (size := path.stat().st_size) > _MOST_YAML:
        raise ModelError(f"{path}: has {size} bytes, and a PEtab problem at most {_MOST_YAML}")
    with _petab_errors(path):
        text = path.read_text(encoding="utf-8")
        _require_plain(yaml, text)
        content = yaml.safe_load(text)
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise ModelError(f"{path} is no problem of PEtab, which is a YAML file that names tables")
    problems = content.get("problems") or []
    if not isinstance(problems, list) or not all(isinstance(one, Mapping) for one in problems):
        raise ModelError(f"{path}: its problems are not a list of tables' names")
    return content


def _require_plain(yaml: Any, text: str) -> None:
    """Refuse YAML with aliases, or with lists in lists in lists."""
    depth = 0
    for token in yaml.scan(text):
        if isinstance(token, yaml.AliasToken):
            raise ModelError("has aliases of YAML, which PEtab problems do not need")
        name = type(token).__name__
        depth += name.endswith("StartToken") and name.startswith(("Flow", "Block"))
        depth -= name.endswith("EndToken") and name.startswith(("Flow", "Block"))
        if depth > _DEEPEST_YAML:
            raise ModelError(f"its lists are nested more than {_DEEPEST_YAML} deep")


def _files_of(content: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """Files that a problem names, beside its own."""
    parts = [content, *(content.get("problems") or ())]
    for key, value in (item for part in parts for item in part.items()):
        if str(key).endswith(("_file", "_files")):
            names = value if isinstance(value, list) else [value] if value is not None else []
            yield from (path.parent / str(name) for name in names)


def _require_file(file: Path, path: Path) -> None:
    """Refuse what is no file or has nothing, and a model that libsbml could not bear."""
    if not file.exists():
        raise ModelError(f"{path} names {file}, and there is no such file")
    if not file.is_file():
        raise ModelError(f"{path} names {file}, which is no file")
    try:
        with file.open("rb") as opened:
            begin = opened.read(1 << 16).strip()
    except OSError:
        return  # petab reports it
    if not begin:
        raise ModelError(f"{file} is empty, and {path} names it")
    if file.suffix.lower() in (".xml", ".sbml") or begin.startswith((b"<?xml", b"<sbml")):
        scan(read_text(file), str(file))


def _require_formulas(problem: Any, path: Path) -> None:
    """Refuse formulas whose values sympy would compute for ever."""
    columns = ("observableFormula", "noiseFormula")
    frame = problem.observable_df
    for column in () if frame is None else (one for one in columns if one in frame):
        for name, cell in frame[column].items():
            if isinstance(cell, str):
                require_bounded(cell, f"{path}: {column} of {name}")


def _rows(petab: Any, problem: Any) -> tuple[Any, ...]:
    """Rows of the four tables."""
    parameters = {name: _parameter(name, row) for name, row in problem.parameter_df.iterrows()}
    observables = {
        name: _observable(str(name), row) for name, row in problem.observable_df.iterrows()
    }
    measurements = tuple(
        _measurement(petab, row, observables)
        for row in problem.measurement_df.reset_index().to_dict("records")
    )
    conditions = {name: _condition(row) for name, row in problem.condition_df.iterrows()}
    return parameters, conditions, observables, measurements


@contextmanager
def _petab_errors(path: Path) -> Iterator[list[str]]:
    """Errors of petab, which have many classes, as one of ours; what it logs of errors."""
    messages: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("petab")
    before = logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own coming changes
            yield messages
    except Exception as error:  # noqa: BLE001
        raise ModelError(f"{path}: {reason_of(error)}") from None
    finally:
        logger.removeHandler(handler)
        logger.propagate, level = before
        logger.setLevel(level)


def _lint(petab: Any, problem: Any, path: Path) -> None:
    """Refuse what the linter of petab finds, with its first message."""
    looked, frame = copy.copy(problem), problem.measurement_df
    if frame is not None and len(frame) > _LINTED:  # it takes a millisecond or more for each row
        others = [one for one in frame.columns if one not in ("time", "measurement", "datasetId")]
        looked.measurement_df = frame.drop_duplicates(others)
        if len(looked.measurement_df) > _MOST_KINDS:
            raise ModelError(
                f"{path}: its measurements are of {len(looked.measurement_df)} kinds, by "
                f"{', '.join(others)}; {_MOST_KINDS} is the limit"
            )
    with _petab_errors(path) as messages:
        failed = petab.lint_problem(looked)
    if failed:
        reported = " ".join(messages[0].split()) if messages else "it is not valid PEtab"
        raise ModelError(f"{path}: {reported}")


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def _word(row: Any, column: str, allowed: tuple[str, ...]) -> str:
    """A word of a column, the first that is allowed where there is none."""
    value = row.get(column)
    word = allowed[0] if _missing(value) else str(value)
    if word not in allowed:
        raise ModelError(f"{column} {word!r} is not supported; it is one of {', '.join(allowed)}")
    return word


def _number(cell: Any, name: str) -> float:
    """A cell as a number; `name` is its name in messages."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise ModelError(f"{name}: {cell!r} is not a number") from None


def _parameter(name: str, row: Any) -> Parameter:
    lower, upper, nominal = (
        math.nan if _missing(row.get(column)) else _number(row[column], f"{column} of {name}")
        for column in ("lowerBound", "upperBound", "nominalValue")
    )
    prior = None
    scale = _word(row, "parameterScale", SCALES)
    if not _missing(kind := row.get("objectivePriorType")):
        given = row.get("objectivePriorParameters")
        if _missing(given):
            if kind != "parameterScaleUniform":
                raise ModelError(f"parameter {name}: objectivePriorParameters are missing")
        else:
            first, second = (float(text) for text in str(given).split(";"))
            prior = str(kind), first, second
            try:
                check_prior(*prior)
            except ModelError as error:
                raise ModelError(f"parameter {name}: {error}") from None
    return Parameter(name, scale, lower, upper, nominal, bool(int(row["estimate"])), prior)


def _observable(name: str, row: Any) -> Observable:
    return Observable(
        name,
        str(row["observableFormula"]),
        str(row["noiseFormula"]),
        _word(row, "observableTransformation", SCALES),
        _word(row, "noiseDistribution", NOISES),
    )


def _measurement(petab: Any, row: Any, observables: Mapping[str, Observable]) -> MeasurementRow:
    before, replicate = row.get("preequilibrationConditionId"), row.get("replicateId")
    split = petab.split_parameter_replacement_list
    name = row["observableId"]
    value, time = (
        _number(row[column], f"{column} of {name}") for column in ("measurement", "time")
    )
    if name not in observables:
        raise ModelError(f"a measurement is of {name!r}, which is no observable")
    if observables[name].scale != "lin" and not value > 0:
        raise ModelError(f"a measurement of {name}, {value:g}, has no logarithm")
    if not time >= 0:
        raise ModelError(f"a measurement of {name} is at the time {time:g}; times begin at 0")
    return MeasurementRow(
        name, "" if _missing(before) else str(before), str(row["simulationConditionId"]), time,
        value, tuple(split(row.get("observableParameters", ""))),
        tuple(split(row.get("noiseParameters", ""))),
        "" if _missing(replicate) else str(replicate),
    )  # fmt: skip


def _condition(row: Any) -> dict[str, Given]:
    """Values that a condition sets; empty cells are left out."""
    result: dict[str, Given] = {}
    for name, value in row.items():
        if name == "conditionName" or _missing(value):
            continue
        try:
            result[str(name)] = float(value)
        except ValueError:
            result[str(name)] = str(value)
    return result


def _network(document: Any, given: Mapping[str, float], path: Path) -> Network:
    """The network; a parameter that the file gives no value has the one of `given`."""
    libsbml = import_libsbml()
    model = document.getModel()
    for name, value in given.items():
        element = model.getParameter(name)
        if element is not None and not element.isSetValue():
            element.setValue(value)
    return read_sbml_text(libsbml.writeSBMLToString(document), path)
