"""Points of a sweep: grids, designs that fill ranges, and tables of parameter sets."""

from __future__ import annotations

import csv
import decimal
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.files.extras import installing
from tauslab.base.option_names import assigned, opt, warn
from tauslab.options.values.texts import by_name

Values = Sequence[float] | FloatArray

MOST_POINTS = 2**24  # a point's number has 24 bits in the random counter
DESIGNS = ("sobol", "lhs")
ALL_POINTS = "all_points"  # attributes of a file with some points of an array
ALL_POINTS_SHA256, ALL_POINTS_GRID = f"{ALL_POINTS}_sha256", f"{ALL_POINTS}_grid"
POINTS_HELD = "points_held"  # numbers of points, with gaps: 0-1,4-5
OF_ALL_POINTS = (ALL_POINTS, ALL_POINTS_SHA256, ALL_POINTS_GRID, POINTS_HELD)
_DIGITS = 30  # a double has 17
_FORMS = "lin:LO:HI:N, log:LO:HI:N or list:a,b,c"


@dataclass(frozen=True)
class Share:
    """The place of some points among all of an array of jobs.

    Parameters
    ----------
    first
        Number of the first.
    points
        Number of all points.
    sha256
        `points_sha256` of all points.
    grid
        As of a `Sweep` of all points.
    """

    first: int
    points: int
    sha256: str
    grid: tuple[int, ...] | None = None

    @classmethod
    def of_file(cls, attributes: Mapping[str, Any]) -> Share | None:
        """The share of an array that root attributes of a file state; None if they do not."""
        if ALL_POINTS not in attributes:
            return None
        return cls(
            int(attributes.get("first_point", 0)),
            int(attributes[ALL_POINTS]),
            str(attributes[ALL_POINTS_SHA256]),
            grid_of(attributes.get(ALL_POINTS_GRID)),
        )

    def attributes(self) -> dict[str, str | int]:
        """Attributes of a file's root, beside ``first_point``."""
        own: dict[str, str | int] = {ALL_POINTS: self.points, ALL_POINTS_SHA256: self.sha256}
        grid = {} if self.grid is None else {ALL_POINTS_GRID: ",".join(map(str, self.grid))}
        return own | grid


def grid_of(text: object) -> tuple[int, ...] | None:
    """Numbers of values along the axes of a grid, from a file's text; None without a grid."""
    return None if text is None else tuple(map(int, str(text).split(",")))


def share_of(task: tuple[int, int], all_of_them: int, what: str) -> tuple[int, int]:
    """Number of the first one of task ``(I, N)``, and of its last one plus 1.

    >>> [share_of((i, 3), 5, "points") for i in range(3)]
    [(0, 1), (1, 3), (3, 5)]

    Raises
    ------
    ConfigError
        There are fewer points or replicas than tasks.
    """
    index, tasks = task
    if tasks > all_of_them:
        raise ConfigError(
            f"{opt('task', f'{index}/{tasks}')}: {all_of_them} {what} are too few for {tasks} "
            f"tasks; use at most {all_of_them} tasks"
        )
    return all_of_them * index // tasks, all_of_them * (index + 1) // tasks


def span_of(what: str, first: int, number: int) -> str:
    """Consecutive numbers of points or replicas, in words.

    >>> span_of("point", 3, 1), span_of("point", 3, 2)
    ('point 3', 'points 3 to 4')
    """
    return f"{what} {first}" if number == 1 else f"{what}s {first} to {first + number - 1}"


def task_of(given: str | tuple[int, int] | None) -> tuple[int, int] | None:
    """``I/N`` or a pair: task I of an array of N, from 0.

    >>> task_of("2/16")
    (2, 16)

    Raises
    ------
    ConfigError
        It has another form, or I is not from 0 to N - 1.
    """
    if given is None:
        return None
    try:
        index, tasks = map(int, given.split("/") if isinstance(given, str) else given)
    except (TypeError, ValueError):
        index, tasks = 0, 0
    if not 0 <= index < tasks:
        raise ConfigError(
            f"{opt('task', given)}: write I/N, task I of N, with I from 0 to N - 1, such as 0/16"
        )
    return index, tasks


@dataclass(frozen=True)
class Sweep:
    """Values of parameters and initial amounts, a row per point.

    Parameters
    ----------
    names
        What is varied, the slowest first.
    values
        f64 ``[point, name]``.
    grid
        Numbers of values of each name, where the points are all their combinations in C order.
    origin
        The option that gave the points, for messages.
    share
        Of the points of one job of an array: their place among all.

    Raises
    ------
    ConfigError
        No name, no point, too many points, or a value that is not finite.
    """

    names: tuple[str, ...]
    values: FloatArray
    grid: tuple[int, ...] | None = None
    origin: str = "sweep"
    share: Share | None = None

    def __post_init__(self) -> None:
        """Check numbers and values."""
        _require_points(self.origin, len(self.values))
        for name, column in self.columns().items():
            if not np.isfinite(column).all():
                point = int(np.flatnonzero(~np.isfinite(column))[0])
                raise ConfigError(
                    f"{column_of(self.origin, name)}: {column[point]} at point {point} is not "
                    "allowed: values must be finite"
                )

    @property
    def points(self) -> int:
        """Number of points."""
        return len(self.values)

    def columns(self) -> dict[str, FloatArray]:
        """Values ``[point]`` by name."""
        return {name: self.values[:, i].copy() for i, name in enumerate(self.names)}

    def of_task(self, task: tuple[int, int]) -> Sweep:
        """The points of task ``(I, N)``: R I / N to R (I + 1) / N of R."""
        first, end = share_of(task, self.points, "points")
        share = Share(first, self.points, points_sha256(self.columns()), self.grid)
        return replace(self, values=self.values[first:end], grid=None, share=share)


def points_sha256(columns: Mapping[str, FloatArray]) -> str:
    """SHA-256 of names and values ``[point]``."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(name.encode() + b"\0" + values.astype("<f8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included; `scale` is ``lin`` or ``log``."""

    scale: str
    low: float
    high: float

    def at(self, part: FloatArray, whole: float = 1.0) -> FloatArray:
        """Values at `part` / `whole` of the way, 0 to 1; the same bits on every machine."""
        if self.scale == "lin":
            values = self.low + part * (self.high - self.low) / whole
        else:
            # Decimal arithmetic does not depend on a C library, and 1 .. 1000 in 4 steps has 10.
            with decimal.localcontext(prec=_DIGITS) as context:
                first, last = (context.ln(Decimal(end)) for end in (self.low, self.high))
                step = (last - first) / Decimal(whole)
                values = np.array([(first + step * Decimal(p)).exp() for p in part.tolist()], float)
        values[part == 0], values[part == whole] = self.low, self.high
        return values


@dataclass(frozen=True)
class Design:
    """Points that fill the ranges evenly; which ones, the run's seed decides.

    Parameters
    ----------
    kind
        ``sobol`` (a scrambled Sobol sequence) or ``lhs`` (a Latin hypercube).
    task
        The job of an array whose points are drawn; None for all.
    """

    kind: str
    points: int
    ranges: Mapping[str, Range]
    task: tuple[int, int] | None = None

    def of_task(self, task: tuple[int, int]) -> Design:
        """The design whose points of task ``(I, N)`` are drawn."""
        share_of(task, self.points, "points")
        return replace(self, task=task)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that are varied."""
        return tuple(self.ranges)

    def draw(self, seed: int) -> Sweep:
        """The points: a pure function of the design and the seed.

        Raises
        ------
        ConfigError
            SciPy is missing.
        """
        try:
            from scipy.stats import qmc
        except ImportError:
            raise ConfigError(f"{opt('design')} needs SciPy: {installing('scipy')}") from None
        generator, dimensions = np.random.default_rng(seed), len(self.ranges)
        if self.kind == "sobol":
            # Whole powers of two keep the sequence balanced; what is too much is cut off.
            sobol = qmc.Sobol(dimensions, scramble=True, seed=generator)
            unit = sobol.random_base2((self.points - 1).bit_length())[: self.points]
        else:
            unit = qmc.LatinHypercube(dimensions, seed=generator).random(self.points)
        columns = [r.at(unit[:, i].copy()) for i, r in enumerate(self.ranges.values())]
        drawn = Sweep(self.names, np.stack(columns, axis=1), origin="design")
        return drawn if self.task is None else drawn.of_task(self.task)


def choose_points(
    sweep: Mapping[str, str | Values] | None,
    table: Mapping[str, Values] | Path | None = None,
    design: tuple[str, int] | None = None,
) -> Sweep | Design | None:
    """The points that the options ask for; None without a sweep.

    Parameters
    ----------
    sweep
        For each name its values, or their text form ``lin:LO:HI:N``, ``log:LO:HI:N`` or
        ``list:a,b,c``; the points are all combinations. With a design ``lin:LO:HI`` or
        ``log:LO:HI``.
    table
        Columns by name, a row per point, or a CSV or Parquet file of them.
    design
        Kind and number of points.

    Raises
    ------
    ConfigError
        Options that exclude each other, a form or a value that is not allowed.
    """
    for option, given in (("sweep", sweep), ("table", table)):
        if not (given is None or isinstance(given, Path) or hasattr(given, "items")):
            raise ConfigError(f"{opt(option)} is a {type(given).__name__}: give {{NAME: values}}")
    if hasattr(sweep, "columns"):
        raise ConfigError(f"{opt('sweep')} is a table: give {opt('table')} for a point per row")
    if table is not None:
        if sweep or design is not None:
            raise ConfigError(
                f"{opt('table')} excludes {opt('sweep')} and {opt('design')}: give one of them"
            )
        return read_table(table) if isinstance(table, Path) else _from_columns(table, "table")
    if design is not None:
        if not (isinstance(design, tuple | list) and len(design) == 2):
            raise ConfigError(f'{opt("design")}: ("sobol", N) or ("lhs", N) is expected')
        return _design(sweep or {}, *design)
    if not sweep:
        return None
    axes = {name: _axis(name, given) for name, given in sweep.items()}
    grid = tuple(len(axis) for axis in axes.values())
    _require_points("sweep", math.prod(grid))
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    return Sweep(tuple(axes), np.stack([m.ravel() for m in mesh], axis=1), grid)


# Forms by name, of every ``--sweep``.
parse_sweep = by_name("sweep", f"NAME= and then {_FORMS}", str)


def parse_design(text: str) -> tuple[str, int]:
    """``sobol:N`` or ``lhs:N``.

    Raises
    ------
    ConfigError
        Another form.
    """
    kind, _, number = text.partition(":")
    try:
        return kind, int(number)
    except ValueError:
        raise ConfigError(f"{opt('design', text)}: write sobol:N or lhs:N") from None


def column_of(origin: str, name: str) -> str:
    """The values of one name, as a message calls them; `origin` is an option's field or a text."""
    return opt(origin, key=name) if origin.isidentifier() else f"{origin} {name}"


def _source(origin: str) -> str:
    return opt(origin) if origin.isidentifier() else origin


def _axis(name: str, given: str | Values) -> FloatArray:
    """Values of one name of a grid."""
    if not isinstance(given, str):
        if isinstance(given, tuple) and len(given) == 2:
            warn(
                f"{opt('sweep', key=name)}={given} is two points; points of a range are "
                f'"lin:{given[0]}:{given[1]}:N", and a list is no range'
            )
        return _numbers("sweep", name, given)
    where = f"{assigned('sweep', key=name)}{given}"
    kind, _, rest = given.partition(":")
    parts = rest.split(":")
    if kind == "list":
        return _numbers("sweep", name, _floats(where, rest.split(",")))
    if kind not in ("lin", "log") or len(parts) != 3:
        hint = f"; a range without N needs {opt('design')}" if len(parts) == 2 else ""
        raise ConfigError(f"{where}: write {_FORMS}{hint}")
    ends = _range(where, kind, parts[:2])
    if not parts[2].strip().isdecimal() or not 1 <= int(parts[2]) <= MOST_POINTS:
        raise ConfigError(f"{where}: N must be a whole number, 1 to {MOST_POINTS}")
    count = int(parts[2])
    return ends.at(np.arange(count, dtype=np.float64), max(1, count - 1))


def _floats(where: str, texts: Sequence[str]) -> list[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ConfigError(f"{where}: {', '.join(texts)!r} must be numbers") from None


def _range(where: str, scale: str, ends: Sequence[str]) -> Range:
    low, high = _floats(where, ends)
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise ConfigError(f"{where}: LO and HI must be finite")
    if scale == "log" and not (low > 0 and high > 0 and 0 < high / low < math.inf):
        raise ConfigError(f"{where}: both ends of a log range must be above 0")
    return Range(scale, low, high)


def _design(sweep: Mapping[str, str | Values], kind: str, points: int) -> Design:
    one_of("design", kind, DESIGNS)
    _require_points("design", points)
    if not sweep:
        raise ConfigError(
            f"{opt('design')} needs ranges: {assigned('sweep')}NAME=lin:LO:HI or NAME=log:LO:HI"
        )
    ranges = {}
    for name, given in sweep.items():
        parts = given.split(":") if isinstance(given, str) else ["lin", *map(str, given)]
        where = f"{assigned('sweep', key=name)}{':'.join(parts)}"
        if len(parts) != 3 or parts[0] not in ("lin", "log"):
            raise ConfigError(f"{where}: with {opt('design')} write lin:LO:HI or log:LO:HI")
        ranges[name] = _range(where, parts[0], parts[1:])
        if not ranges[name].low < ranges[name].high:
            raise ConfigError(f"{where}: LO must be less than HI")
    return Design(kind, points, ranges)


def read_table(path: Path) -> Sweep:
    """Points from a CSV file with a header, or from a ``.parquet`` file.

    Raises
    ------
    ConfigError
        The file cannot be read, or a cell is missing or not a number; file and line are named.
    """
    origin = opt("table", path)
    try:
        if path.suffix.lower() == ".parquet":
            return _from_columns(_parquet(path), origin)
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _from_columns(_csv(csv.reader(file), origin), origin)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or f"it is not such a table ({error})"
        raise ConfigError(f"{origin}: cannot be read: {reason}") from None


def _parquet(path: Path) -> dict[str, Values]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(
            f"{opt('table', path)}: Parquet needs pyarrow: {installing('pyarrow')}"
        ) from None
    try:
        names = parquet.read_schema(path).names
        table: Any = None if len(set(names)) < len(names) else parquet.read_table(path)
    except ValueError as error:  # what pyarrow raises for a damaged file is one
        raise ConfigError(f"{opt('table', path)}: cannot be read: {error}") from None
    _require_once(names, opt("table", path))
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _csv(lines: Iterable[list[str]], origin: str) -> dict[str, Values]:
    """Columns of a table; blank lines do not count."""
    rows = ((number, cells) for number, cells in enumerate(lines, start=1) if any(cells))
    names = [name.strip() for name in next(rows, (0, []))[1]]
    if not names or not all(names):
        raise ConfigError(f"{origin}: line 1 must name every column")
    _require_once(names, f"{origin}: line 1")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, cells in rows:
        if len(cells) != len(names):
            missing = f"; {names[len(cells)]} is missing" if len(cells) < len(names) else ""
            raise ConfigError(
                f"{origin}: line {number} has {len(cells)} cells, not {len(names)}{missing}"
            )
        for name, cell in zip(names, cells, strict=True):
            try:
                columns[name].append(float(cell))
            except ValueError:
                raise ConfigError(
                    f"{origin}: line {number}: column {name}: {cell!r} is not a number"
                ) from None
    return dict(columns)


def _require_once(names: Sequence[str], where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: column {name} is there twice")


def _from_columns(columns: Mapping[str, Values], origin: str) -> Sweep:
    arrays = {name: _numbers(origin, name, values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if not arrays:
        raise ConfigError(f"{_source(origin)} needs at least one column")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ConfigError(f"{_source(origin)}: columns must be equally long, not {listed}")
    return Sweep(tuple(arrays), np.stack(list(arrays.values()), axis=1), origin=origin)


def _numbers(origin: str, name: str, values: Values) -> FloatArray:
    try:
        array = doubles(values)
    except ValueError as error:
        raise ConfigError(f"{column_of(origin, name)}: values {error}") from None
    if array.ndim != 1:
        raise ConfigError(
            f"{column_of(origin, name)}: give a list of values, a number for each point"
        )
    return array


def _require_points(origin: str, points: int) -> None:
    if not 1 <= points <= MOST_POINTS:
        raise ConfigError(
            f"{_source(origin)} gives {points} points: 1 to {MOST_POINTS} are allowed"
        )
