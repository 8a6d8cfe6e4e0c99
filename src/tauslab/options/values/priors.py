"""Distributions of unknown numbers, as ``--sample`` and the priors of chains write them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tauslab.base.errors import ConfigError
from tauslab.model.expressions.distributions import (
    FAMILIES,
    PRIORS,
    arguments_of,
    fault_of,
    spelled,
)
from tauslab.model.expressions.host_math import value_of

_FORM = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*\Z")
_MEDIAN = "median"  # of lognormal, in place of mu
FORMS = f"{spelled(PRIORS)}, lognormal(median=...,sigma=...)"


@dataclass(frozen=True)
class Prior:
    """A distribution of one number, seen on the scale on which a chain walks.

    `first` and `second` are its parameters in the order of the registry: ends, or mean and
    deviation, of ``lognormal`` those of the logarithm.
    """

    kind: str
    first: float
    second: float

    @classmethod
    def parse(cls, what: str, text: object) -> Prior:
        """Read a text such as ``"loguniform(0.1,10)"``; messages begin by `what`.

        Raises
        ------
        ConfigError
            It is not known, or a number is not allowed; the message names the number and why.
        """
        result = _FORM.match(text) if isinstance(text, str) else None
        if result is None or result[1] not in PRIORS:
            raise ConfigError(f"{what}: {text!r} is not known; allowed are {FORMS}")
        kind, names = result[1], FAMILIES[result[1]].parameters
        if kind == "lognormal":
            names = (first_of_lognormal(result[2]), *names[1:])
        given = arguments_of(what, kind, result[2], names)
        numbers = [_number(what, kind, name, given) for name in names]
        if names[0] == _MEDIAN:
            if not 0 < numbers[0] < math.inf:
                raise ConfigError(
                    f"{what}: {_MEDIAN} is {numbers[0]:g}, and must be above 0 and finite"
                )
            numbers[0] = value_of("log", numbers[0])
        if fault := fault_of(kind, numbers):
            raise ConfigError(f"{what}: {fault}")
        return cls(kind, *numbers)

    @property
    def in_logs(self) -> bool:
        """Return whether the chain walks on the logarithm."""
        return self.kind.startswith("log")

    @property
    def between_ends(self) -> bool:
        """Return whether the density is the same between two ends, and 0 beyond."""
        return "uniform" in self.kind

    def log_density(self, place: float) -> float:
        """Log density at a place, on the scale of the walk."""
        if self.between_ends:
            low, high = self._ends()
            return -math.log(high - low) if low <= place <= high else -math.inf
        z = (place - self.first) / self.second
        return -0.5 * z * z - math.log(self.second) - 0.5 * math.log(2 * math.pi)

    def start(self) -> float:
        """Return the middle of the distribution, on the scale of the walk."""
        return sum(self._ends()) / 2 if self.between_ends else self.first

    def spread(self) -> float:
        """Return the standard deviation, on the scale of the walk."""
        low, high = self._ends()
        return (high - low) / math.sqrt(12) if self.between_ends else self.second

    def value(self, place: float) -> float:
        """The parameter at a place."""
        return math.exp(place) if self.in_logs else place

    def place(self, value: float) -> float:
        """The place of a value; NaN where it has none."""
        if not self.in_logs:
            return value
        return math.log(value) if value > 0 else math.nan

    def _ends(self) -> tuple[float, float]:
        if self.kind == "loguniform":
            return math.log(self.first), math.log(self.second)
        return self.first, self.second


def first_of_lognormal(inside: str) -> str:
    """Name of the first parameter of a ``lognormal`` with these arguments: mu, or median."""
    return _MEDIAN if _MEDIAN in inside else FAMILIES["lognormal"].parameters[0]


def _number(what: str, kind: str, name: str, given: dict[str, str]) -> float:
    if name not in given:
        raise ConfigError(f"{what}: {kind} needs {name}; allowed are {FORMS}")
    try:
        return float(given[name])
    except ValueError:
        raise ConfigError(f"{what}: {name} is {given[name]!r}, which is no number") from None
