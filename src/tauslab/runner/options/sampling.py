"""Unknown parameters and initial values: what ``--sample`` says of their distributions.

``NAME=uniform(lo,hi)``, ``loguniform(lo,hi)``, ``normal(mean,sd)``, ``lognormal(median,sigma)``, or
``NAMES=table(FILE)``: of a text table with a header, every trajectory takes one row, so that what
is correlated there stays so.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ode.priors import Prior, Priors
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import assigned, opt
from tauslab.model.portable.host_math import value_of

FloatArray = npt.NDArray[np.float64]

_FORM = re.compile(r"\s*([^=]+?)\s*=\s*([a-z]+)\s*\((.*)\)\s*\Z")
_DISTRIBUTIONS = ("uniform", "loguniform", "normal", "lognormal")
_EXAMPLE = "for example k1=uniform(0.1,2)"


@dataclass(frozen=True)
class Sampling:
    """Distributions of inputs of an ODE ensemble.

    Parameters
    ----------
    texts
        What was asked for, as it is stored.
    priors
        The same for the kernels.
    """

    texts: tuple[str, ...] = ()
    priors: Priors = field(default_factory=Priors)

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Sampling:
        """Read ``NAME=DISTRIBUTION(...)`` texts.

        Raises
        ------
        ConfigError
            A text that has another form, a name given twice, an empty or reversed range, or a
            table that cannot be read or lacks a column.
        """
        found: list[Prior] = []
        table = np.zeros((0, 0))
        for text in texts:
            match = _FORM.match(text)
            if match is None:
                raise ConfigError(
                    f"{assigned('sample')}{text!r}: write NAME=DISTRIBUTION(...), {_EXAMPLE}"
                )
            names = [name.strip() for name in match[1].split(",")]
            if match[2] == "table":
                if table.size:
                    raise ConfigError(
                        f"{assigned('sample')}{text!r}: one table is allowed, not two"
                    )
                table = read_table(Path(match[3].strip()), names)
                found += [Prior(name, "table", k) for k, name in enumerate(names)]
            else:
                numbers = _numbers(text, match[2], match[3])
                found += [_prior(text, name, match[2], *numbers) for name in names]
        listed = [prior.name for prior in found]
        for name in listed:
            if listed.count(name) > 1:
                raise ConfigError(f"{opt('sample')} gives {name} twice")
        return cls(tuple(texts), Priors(tuple(found), table))

    @classmethod
    def uniform(cls, ranges: dict[str, tuple[float, float]]) -> Sampling:
        """Uniform distributions over ranges ``name: (lo, hi)``."""
        return cls.parse([f"{n}=uniform({lo!r},{hi!r})" for n, (lo, hi) in ranges.items()])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is drawn."""
        return self.priors.names

    def digest(self) -> bytes:
        """What tells two samplings apart, the table's values included."""
        sha = hashlib.sha256(repr(self.priors.priors).encode())
        sha.update(self.priors.table.astype("<f8").tobytes())
        return sha.digest()

    def typical(self) -> dict[str, float]:
        """A value of each in the middle of its distribution, for what needs some value."""
        return {prior.name: self._middle(prior) for prior in self.priors.priors}

    def _middle(self, prior: Prior) -> float:
        if prior.kind == "table":
            return float(self.priors.table[0, int(prior.first)])
        middle = prior.first + (0.5 * prior.second if "uniform" in prior.kind else 0.0)
        return value_of("exp", middle) if prior.kind.startswith("log") else middle


def _numbers(text: str, kind: str, inside: str) -> tuple[float, float]:
    if kind not in _DISTRIBUTIONS:
        allowed = ", ".join((*_DISTRIBUTIONS, "table"))
        raise ConfigError(
            f"{assigned('sample')}{text!r}: {kind} is not known; allowed are {allowed}"
        )
    try:
        first, second = (float(word) for word in inside.split(","))
    except ValueError:
        raise ConfigError(
            f"{assigned('sample')}{text!r}: {kind} takes two numbers, {_EXAMPLE}"
        ) from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise ConfigError(f"{assigned('sample')}{text!r}: both numbers must be finite")
    return first, second


def _prior(text: str, name: str, kind: str, first: float, second: float) -> Prior:
    if "uniform" in kind:
        if not first < second:
            raise ConfigError(
                f"{assigned('sample')}{text!r}: the lower end must be below the upper end"
            )
        if kind == "loguniform":
            if first <= 0:
                raise ConfigError(f"{assigned('sample')}{text!r}: the lower end must be above 0")
            first, second = value_of("log", first), value_of("log", second)
        return Prior(name, kind, first, second - first)
    if not second > 0:
        raise ConfigError(f"{assigned('sample')}{text!r}: the deviation must be above 0")
    if kind == "lognormal":
        if first <= 0:
            raise ConfigError(f"{assigned('sample')}{text!r}: the median must be above 0")
        first = value_of("log", first)
    return Prior(name, kind, first, second)


def read_table(path: Path, names: Sequence[str]) -> FloatArray:
    """Columns ``[row, name]`` of a table with a header; commas, tabs or blanks separate.

    Raises
    ------
    ConfigError
        The file cannot be read, lacks a column, or holds what is not a finite number.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{opt('sample')}: table {path} cannot be read: {reason}") from None
    rows = [line.replace(",", " ").split() for line in lines]
    if len(rows) < 2:
        raise ConfigError(f"{opt('sample')}: table {path} needs a header and a row of numbers")
    for name in names:
        if name not in rows[0]:
            raise ConfigError(
                f"{opt('sample')}: table {path} has no column {name}; it has {', '.join(rows[0])}"
            )
    columns = [rows[0].index(name) for name in names]
    try:
        values = np.array([[float(row[c]) for c in columns] for row in rows[1:]])
    except (ValueError, IndexError):
        raise ConfigError(f"{opt('sample')}: table {path} holds what is not a number") from None
    if not np.isfinite(values).all():
        raise ConfigError(f"{opt('sample')}: table {path} holds a number that is not finite")
    return values
