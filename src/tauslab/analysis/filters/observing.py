"""Densities of observations in a state: noises by name, and rows of data.

Densities are computed by IEEE operations and portable logarithms, so that weights have the same
bits on every machine.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import said
from tauslab.kernels.particles.weights import KINDS as DEVICE_KINDS
from tauslab.kernels.particles.weights import OBSERVED, Seen
from tauslab.model.expressions.distributions import arguments_of
from tauslab.model.network.counts import meant, some
from tauslab.model.portable import portable_log, portable_log_gamma

Observe = Mapping[str, "str | tuple[str, str]"] | Callable[..., npt.ArrayLike]
Values = Callable[[str], FloatArray]  # a species, an observable or a parameter by name
Constants = Mapping[str, "float | FloatArray"]

BAD_TIMES = "data: times must be one or more, finite, 0 or above and increasing"
_FORM = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*\Z")
_HALF_LOG_2PI = float.fromhex("0x1.d67f1c864beb5p-1")
_HALF_LOG_PI = float.fromhex("0x1.250d048e7a1bdp-1")


def _normal(y: float, x: FloatArray, sd: FloatArray) -> FloatArray:
    z = (y - x) / sd
    z *= z  # in place: a pass of memory costs as much as the arithmetic
    z *= -0.5
    z -= portable_log(sd)
    z -= _HALF_LOG_2PI
    return z


def _lognormal(y: float, x: FloatArray, sigma: FloatArray) -> FloatArray:
    if y <= 0:
        return np.full(x.shape, -np.inf)
    seen = np.full(x.shape, y)
    positive = x > 0
    z = (portable_log(seen) - portable_log(np.where(positive, x, 1.0))) / sigma
    density = -0.5 * (z * z) - portable_log(sigma) - portable_log(seen) - _HALF_LOG_2PI
    return np.where(positive, density, -np.inf)


def _poisson(y: float, x: FloatArray, scale: FloatArray, background: FloatArray) -> FloatArray:
    mean = np.maximum(scale * x + background, 0.0)
    if not _is_count(y):
        return np.full(x.shape, -np.inf)
    if y == 0:
        return -mean
    held = mean > 0
    logs = y * portable_log(np.where(held, mean, 1.0)) - mean - _log_factorial(y)
    return np.where(held, logs, -np.inf)


def _negative_binomial(y: float, x: FloatArray, size: FloatArray, scale: FloatArray) -> FloatArray:
    if not _is_count(y):
        return np.full(x.shape, -np.inf)
    mean = np.maximum(scale * x, 0.0)
    none = -size * portable_log(1.0 + mean / size)
    if y == 0:
        return none
    held = mean > 0
    share = np.where(held, mean / (size + mean), 1.0)
    combinations = portable_log_gamma(y + size) - portable_log_gamma(size) - _log_factorial(y)
    return np.where(held, combinations + none + y * portable_log(share), -np.inf)


def _binomial(y: float, x: FloatArray, p: FloatArray) -> FloatArray:
    if not _is_count(y):
        return np.full(x.shape, -np.inf)
    possible = x >= y
    left = np.where(possible, x - y, 0.0)
    combinations = (
        portable_log_gamma(np.where(possible, x, y) + 1.0)
        - portable_log_gamma(left + 1.0)
        - _log_factorial(y)
    )
    seen = y * portable_log(p) if y else np.zeros(x.shape)
    seen = seen + left * portable_log(np.where(left > 0, 1.0 - p, 1.0))
    return np.where(possible, combinations + seen, -np.inf)


def _most_of_binomial(y: float, p: float) -> float:
    """Logarithm of a bound of the probability of `y` over all numbers of molecules, whole or not.

    Its logarithm is concave in the number and largest between y / p - 1 and y / p. Between two
    numbers a step of 1 apart it exceeds their values by at most the change over the next step.
    """
    if p <= 0 or p >= 1 or y == 0:
        return 0.0
    x = np.maximum(y, math.floor(y / p) + np.arange(-2.0, 3.0))
    logs = _binomial(y, x, np.array([p]))
    return min(0.0, float(logs.max() + np.abs(np.diff(logs)).max()))


def _student_t(y: float, x: FloatArray, degrees: FloatArray, scale: FloatArray) -> FloatArray:
    z = (y - x) / scale
    return _student_peak(degrees, scale) - 0.5 * (degrees + 1.0) * portable_log(
        1.0 + z * z / degrees
    )


def _student_peak(degrees: FloatArray, scale: FloatArray) -> FloatArray:
    """Logarithm of the largest density."""
    gammas = portable_log_gamma(0.5 * (degrees + 1.0)) - portable_log_gamma(0.5 * degrees)
    return gammas - 0.5 * portable_log(degrees) - _HALF_LOG_PI - portable_log(scale)


def _is_count(y: float) -> bool:
    return y >= 0 and float(y).is_integer()


def _log_factorial(y: float) -> float:
    return float(portable_log_gamma(np.array([y + 1.0]))[0])


@dataclass(frozen=True)
class _Kind:
    """A density, its parameters with their defaults (None: must be given), and their bounds.

    They have the names of the registry of distributions; the state gives what stands first
    there, of ``lognormal`` by its logarithm.
    """

    density: Callable[..., FloatArray]
    defaults: Mapping[str, float | None]
    allowed: Mapping[str, tuple[float, float]]
    counts: bool = False  # whether it gives counts alone
    positive: bool = False  # whether it gives numbers above 0 alone

    def gives(self, y: float) -> bool:
        """Return whether the density of `y` is above 0 in some state."""
        return _is_count(y) if self.counts else y > 0 or not self.positive


_ABOVE_0 = (math.ulp(0.0), math.inf)
# Differences of log-gamma functions are off by 2e-6 at 1e9, and have no digit left at 1e16.
_AT_MOST_1E9 = (math.ulp(0.0), 1e9)
KINDS: Mapping[str, _Kind] = {
    "normal": _Kind(_normal, {"sd": None}, {"sd": _ABOVE_0}),
    "lognormal": _Kind(_lognormal, {"sigma": None}, {"sigma": _ABOVE_0}, positive=True),
    "poisson": _Kind(
        _poisson,
        {"scale": 1.0, "background": 0.0},
        {"scale": (0.0, math.inf), "background": (0.0, math.inf)},
        counts=True,
    ),
    "negative_binomial": _Kind(
        _negative_binomial,
        {"size": None, "scale": 1.0},
        {"size": _AT_MOST_1E9, "scale": (0.0, math.inf)},
        counts=True,
    ),
    "binomial": _Kind(_binomial, {"p": None}, {"p": (0.0, 1.0)}, counts=True),
    "student_t": _Kind(
        _student_t, {"degrees": None, "scale": None}, {"degrees": _AT_MOST_1E9, "scale": _ABOVE_0}
    ),
}

_INSTEAD = {
    "negative_binomial": ", at most 1e9: write poisson, which is its limit",
    "student_t": ", at most 1e9: write normal, which is its limit",
}


@dataclass(frozen=True)
class ObservationModel:
    """A column of data, the quantity it measures, and how.

    `parameters` are numbers, or names of parameters of the model.
    """

    column: str
    quantity: str
    kind: str
    parameters: Mapping[str, float | str]

    @classmethod
    def parse(cls, column: str, given: str | tuple[str, str]) -> ObservationModel:
        """Read ``"normal(sd=10)"``, or ``("X", "normal(sd=10)")`` where names differ.

        Raises
        ------
        ConfigError
            It is not known; the message lists what is.
        """
        pair = (column, given) if isinstance(given, str) else given
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigError(
                f'observe {column}: {given!r} is no noise, such as "normal(sd=10)", and no pair '
                'such as ("X", "normal(sd=10)"); a function takes the place of all columns'
            )
        quantity, text = pair
        result = _FORM.match(text) if isinstance(text, str) else None
        if result is None or result[1] not in KINDS:
            raise ConfigError(
                f"observe {column}: {text!r} is not known; allowed are {_spellings()}, or a "
                "function in place of all"
            )
        defaults = KINDS[result[1]].defaults
        parts = arguments_of(f"observe {column}", result[1], result[2] or "", tuple(defaults))
        chosen = {name: _number_or_name(value) for name, value in parts.items()}
        for name, default in defaults.items():
            if default is not None:
                chosen.setdefault(name, default)
            if name not in chosen:
                raise ConfigError(f"observe {column}: {result[1]} needs {name}, a number above 0")
        return cls(column, quantity, result[1], chosen)

    def log_density(self, y: float, values: Values, constants: Constants) -> FloatArray:
        """Logarithm of the density or probability of `y` in each state.

        Raises
        ------
        ConfigError
            A parameter that the model does not have, or a value out of its range.
        """
        x = values(self.quantity)
        numbers = self.numbers(constants)
        missing = np.isnan(x)  # a particle that has ended
        with np.errstate(over="ignore"):  # far from what was seen the density is 0
            if not missing.any():
                return KINDS[self.kind].density(float(y), x, *numbers)
            density = KINDS[self.kind].density(float(y), np.where(missing, 0.0, x), *numbers)
        return np.where(missing, -np.inf, density)

    def numbers(self, constants: Constants) -> list[FloatArray]:
        """Values of the parameters, one for all states or one for each.

        Raises
        ------
        ConfigError
            A parameter that the model does not have, or a value out of its range.
        """
        kind, numbers = KINDS[self.kind], []
        for name in kind.defaults:
            given = self.parameters[name]
            if isinstance(given, str) and given not in constants:
                hint = meant(given, constants).replace(":", ";", 1)
                raise ConfigError(
                    f"observe {self.column}: {given!r} is not a parameter of the model; it has "
                    f"{some(constants)}{hint}"
                )
            value = np.asarray(constants[given] if isinstance(given, str) else given, np.float64)
            low, high = kind.allowed[name]
            if not ((value >= low) & (value <= high)).all():
                bad = float(value[~((value >= low) & (value <= high))].flat[0])
                instead = _INSTEAD.get(self.kind, "") if bad > high else ""
                raise ConfigError(
                    f"observe {self.column}: {name} of {self.kind} cannot be {bad:g}{instead}"
                )
            numbers.append(np.atleast_1d(value))
        return numbers

    def log_most(self, y: float, constants: Constants) -> float:
        """Logarithm of a bound of the density of `y` over all states there may be."""
        kind, numbers = KINDS[self.kind], self.numbers(constants)
        if not kind.gives(y):
            return 0.0  # a density of 0
        if self.kind == "binomial":
            return _most_of_binomial(y, float(numbers[0][0]))
        if self.kind == "poisson":  # of all means that of y gives y most often
            numbers = [np.ones(1), np.zeros(1)]
        elif self.kind == "negative_binomial":
            numbers = [numbers[0], np.ones(1)]
        return float(kind.density(y, np.array([y]), *numbers)[0])


def _spellings() -> str:
    return ", ".join(f"{name}({', '.join(kind.defaults)})" for name, kind in KINDS.items())


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _require_possible(model: ObservationModel, column: FloatArray) -> None:
    """Refuse what is infinite, and what the noise never gives."""
    infinite = np.flatnonzero(np.isinf(column))
    if len(infinite):
        raise ConfigError(
            f"data: {model.column} is {column[infinite[0]]} in row {infinite[0]}: give numbers, "
            "NaN where one is missing"
        )
    kind = KINDS[model.kind]
    wrong = [row for row, y in enumerate(column.tolist()) if not (math.isnan(y) or kind.gives(y))]
    if wrong:
        numbers = "whole counts of 0 or more" if kind.counts else "numbers above 0"
        raise ConfigError(
            f"data: {model.column} is {column[wrong[0]]:g} in row {wrong[0]}, and {model.kind} "
            f"gives {numbers}: give these, NaN where one is missing, or another noise"
        )


class Observations:
    """Rows of data in order of time, and what each says about a state.

    Parameters
    ----------
    data
        Columns by name, one of them ``time``, as a mapping or a data frame; NaN where nothing was
        seen.
    observe
        An `ObservationModel` text for each column, or a function ``(values, row, t)`` that gives a
        log density per state: `values` gives a quantity by its name, `row` holds the columns.

    Raises
    ------
    ConfigError
        Columns that are missing or do not belong together, times that do not increase, data that
        their noise cannot give.
    """

    def __init__(self, data: Any, observe: Observe) -> None:
        if not (callable(observe) or hasattr(observe, "items")):
            raise ConfigError(
                f"observe={observe!r} is not allowed: noise by column, such as "
                '{"X": "normal(sd=10)"}, or a function'
            )
        self._function = observe if callable(observe) else None
        self.models = (
            ()
            if callable(observe)
            else tuple(ObservationModel.parse(name, how) for name, how in observe.items())
        )
        if not callable(observe) and not self.models:
            raise ConfigError("observe= names no column: nothing is compared with the data")
        names = [str(name) for name in data] if hasattr(data, "__iter__") else []
        if "time" not in names:
            near = [name for name in names if name.lower() in ("t", "time", "times")]
            hint = f': rename its column {near[0]!r} to "time"' if near else ""
            raise ConfigError(f'{_given()} needs columns by name, one of them "time"{hint}')
        wanted = names if callable(observe) else ["time", *(one.column for one in self.models)]
        for name in wanted:
            if name not in names:
                raise ConfigError(f"{_given()} has no column {name!r}; it has {', '.join(names)}")
        self._columns = {name: _column(name, data[name]) for name in wanted}
        self._known: dict[tuple[int, tuple[str, ...]], Seen] = {}  # that do not change
        self.times = self._columns.pop("time")
        for name, column in self._columns.items():
            if column.shape != self.times.shape:
                raise ConfigError(
                    f"data: {name} has {len(column)} rows, and time has {len(self.times)}"
                )
        for one in self.models:
            _require_possible(one, self._columns[one.column])
        good = np.isfinite(self.times) & (self.times >= 0)
        if not len(self.times) or not good.all() or not (np.diff(self.times) > 0).all():
            raise ConfigError(BAD_TIMES)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.times)

    @property
    def by_function(self) -> bool:
        """Return whether a function observes."""
        return self._function is not None

    @property
    def constants(self) -> frozenset[str]:
        """Names of parameters of the model that noises use."""
        given = (value for model in self.models for value in model.parameters.values())
        return frozenset(name for name in given if isinstance(name, str))

    def check(self, constants: Constants) -> None:
        """Refuse values of parameters of noises.

        Raises
        ------
        ConfigError
            One is out of its range.
        """
        for model in self.models:
            model.numbers(constants)

    def digest(self) -> bytes:
        """A digest of all data and of how they are observed; of a function its name alone."""
        result = hashlib.sha256(self.times.tobytes())
        for name, column in self._columns.items():
            result.update(name.encode() + column.tobytes())
        name = getattr(self._function, "__qualname__", "")
        result.update(repr((self.models, name)).encode())
        return result.digest()

    def seen(self, row: int) -> Mapping[str, float]:
        """Values of a row by column, without missing ones; none after the last row."""
        if row >= len(self):
            return {}
        held = {name: float(column[row]) for name, column in self._columns.items()}
        return {name: value for name, value in held.items() if not math.isnan(value)}

    def log_most(self, row: int, constants: Constants) -> float | None:
        """Logarithm of a bound of the density of a row over all states; None of a function."""
        if self._function is not None:
            return None
        seen = self.seen(row)
        models = [one for one in self.models if one.column in seen]
        return sum(one.log_most(seen[one.column], constants) for one in models)

    def by_columns(self, columns: tuple[str, ...]) -> bool:
        """Return whether counts of these columns are all that is observed."""
        return not self.by_function and all(one.quantity in columns for one in self.models)

    def seen_of(
        self, row: int, columns: tuple[str, ...], values: Values, constants: Constants
    ) -> Seen | None:
        """The observations of a row for a device; None for a function or a row without data.

        Parameters
        ----------
        columns
            Names of the columns of counts that the device has; of others it gets `values`.
        """
        seen = self.seen(row)
        models = [one for one in self.models if one.column in seen]
        if not models:
            return None
        if (row, columns) in self._known:
            return self._known[row, columns]
        numbers = [one.numbers(constants) for one in models]
        given = list(dict.fromkeys(one.quantity for one in models if one.quantity not in columns))
        table = np.zeros(len(models), OBSERVED)
        for entry, one, own in zip(table, models, numbers, strict=True):
            known = one.quantity in columns
            place = columns.index(one.quantity) if known else -1 - given.index(one.quantity)
            _fill(entry, one.kind, seen[one.column], own, place)
        own_parameters = None
        if any(number.size > 1 for own in numbers for number in own):
            n = max(number.size for own in numbers for number in own)
            own_parameters = np.zeros((2 * len(models), n))
            for place, own in enumerate(numbers):
                for which, number in enumerate(own):
                    own_parameters[2 * place + which] = number
        made = Seen(table, [values(name) for name in given], own_parameters)
        if not given and not self.constants:
            self._known[row, columns] = made
        return made

    def log_density(
        self, row: int, values: Values, constants: Constants, n: int
    ) -> FloatArray | None:
        """Logarithm of the density of a row in each of n states; None where nothing was seen."""
        seen = self.seen(row)
        if not seen:
            return None
        if self._function is not None:
            given = self._function(values, seen, float(self.times[row]))
            result = np.asarray(given, np.float64)
            if result.shape != (n,):
                raise ConfigError(
                    f"observe= gave shape {result.shape} at t = {self.times[row]:g}: one log "
                    f"density per state ({n}) is needed"
                )
            return result
        given = [
            model.log_density(seen[model.column], values, constants)
            for model in self.models
            if model.column in seen
        ]
        total = given.pop(0)
        for more in given:
            total = total + more
        return total


def _fill(entry: Any, kind: str, y: float, own: Sequence[FloatArray], column: int) -> None:
    """An entry of a table of `OBSERVED`, with logarithms of parameters that are one number."""
    entry["kind"], entry["column"], entry["y"] = DEVICE_KINDS.index(kind), column, y
    if KINDS[kind].counts:
        entry["log_factorial"] = _log_factorial(y)
    first, second = float(own[0][0]), float(own[1][0]) if len(own) > 1 else 0.0
    entry["first"], entry["second"] = first, second
    own_y = y if kind == "negative_binomial" else 0.0
    entry["log_first"], entry["log_more"] = _logs_of(kind, own_y, first, second)


@lru_cache(maxsize=1 << 12)
def _logs_of(kind: str, y: float, first: float, second: float) -> tuple[float, float]:
    """What a table of `OBSERVED` has of parameters that are one number, often of row after row."""
    if kind == "negative_binomial":
        gammas = portable_log_gamma(np.array([first, y + first]))
        return float(gammas[0]), float(gammas[1])
    if kind == "student_t":
        return float(_student_peak(np.array([first]), np.array([second]))[0]), 0.0
    return (0.0 if kind == "poisson" else float(portable_log(np.array([first]))[0])), 0.0


def _given() -> str:
    return said("the table of data", "data=")


def _column(name: str, values: Any) -> FloatArray:
    try:
        column = doubles(values)
    except ValueError as error:
        raise ConfigError(f"data: column {name} {error}, NaN where one is missing") from None
    if column.ndim != 1:
        raise ConfigError(f"data: column {name} must have one value per row")
    return column
