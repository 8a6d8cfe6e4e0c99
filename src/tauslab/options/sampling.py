"""Distributions of unknown parameters and initial values, as ``--sample`` gives them.

``NAME=DISTRIBUTION(...)`` as `tauslab.options.values.priors` reads it, or
``NAMES=table(FILE)``: of a text table with a header, every trajectory takes one row, so that what
is correlated there stays so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.ode.priors import Priors, SampledPrior
from tauslab.model.expressions.distributions import PRIORS, arguments_of
from tauslab.model.expressions.host_math import value_of
from tauslab.options.values import priors as forms

_FORM = re.compile(r"\s*([^=]+?)\s*=\s*([a-z]+)\s*\((.*)\)\s*\Z")
_TABLE = "table"
_EXAMPLE = "for example k1=uniform(0.1,2)"


@dataclass(frozen=True)
class Sampling:
    """Distributions of inputs of an ODE ensemble.

    Parameters
    ----------
    texts
        What was asked for, as it is stored: the numbers of ``lognormal`` by name.
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
        result: list[SampledPrior] = []
        kept: list[str] = []
        table = np.zeros((0, 0))
        for text in texts:
            what = f"{assigned('sample')}{text!r}"
            match = _FORM.match(text)
            if match is None:
                raise ConfigError(f"{what}: write NAME=DISTRIBUTION(...), {_EXAMPLE}")
            names, kind = [name.strip() for name in match[1].split(",")], match[2]
            if kind == _TABLE:
                if table.size:
                    raise ConfigError(f"{what}: one table is allowed, not two")
                table = read_table(Path(match[3].strip()), names)
                result += [SampledPrior(name, _TABLE, k) for k, name in enumerate(names)]
                kept.append(text)
                continue
            if kind not in PRIORS:
                raise ConfigError(
                    f"{what}: {kind} is not known; allowed are {forms.FORMS}, {_TABLE}(FILE)"
                )
            prior = forms.Prior.parse(what, f"{kind}({match[3]})")
            result += [_for_kernels(name, prior) for name in names]
            kept.append(_as_stored(text, match[1], match[3]) if kind == "lognormal" else text)
        listed = [prior.name for prior in result]
        for name in listed:
            if listed.count(name) > 1:
                raise ConfigError(f"{opt('sample')} gives {name} twice")
        return cls(tuple(kept), Priors(tuple(result), table))

    @classmethod
    def uniform(cls, ranges: dict[str, tuple[float, float]]) -> Sampling:
        """Uniform distributions over ranges ``name: (lo, hi)``."""
        return cls.parse([f"{n}=uniform({lo!r},{hi!r})" for n, (lo, hi) in ranges.items()])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is drawn."""
        return self.priors.names

    def digest(self) -> bytes:
        """Return a digest of the distributions and the table's values."""
        sha = hashlib.sha256(repr(self.priors.priors).encode())
        sha.update(self.priors.table.astype("<f8").tobytes())
        return sha.digest()

    def typical(self) -> dict[str, float]:
        """A value of each in the middle of its distribution, for what needs some value."""
        return {prior.name: self._middle(prior) for prior in self.priors.priors}

    def _middle(self, prior: SampledPrior) -> float:
        if prior.kind == "table":
            return float(self.priors.table[0, int(prior.first)])
        middle = prior.first + (0.5 * prior.second if "uniform" in prior.kind else 0.0)
        return value_of("exp", middle) if prior.kind.startswith("log") else middle


def _for_kernels(name: str, prior: forms.Prior) -> SampledPrior:
    first, second = prior.first, prior.second
    if prior.kind == "loguniform":
        first, second = value_of("log", first), value_of("log", second)
    return SampledPrior(name, prior.kind, first, second - first if prior.between_ends else second)


def _as_stored(text: str, names: str, inside: str) -> str:
    """A ``lognormal`` with both numbers by name: older files have it without (`texts.drawn`)."""
    first = forms.first_of_lognormal(inside)
    given = arguments_of(text, "lognormal", inside, (first, "sigma"))
    return f"{names}=lognormal({first}={given[first]},sigma={given['sigma']})"


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
        if rows[0].count(name) > 1:
            raise ConfigError(f"{opt('sample')}: table {path} has the column {name} twice")
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
