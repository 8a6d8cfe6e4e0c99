"""Distributions of unknown parameters and initial values, as the kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tauslab.base.arrays import FloatArray

# Kinds by name, as in csrc/ode/sample.h.
KINDS = {"uniform": 0, "loguniform": 1, "normal": 2, "lognormal": 3, "table": 4}


@dataclass(frozen=True)
class SampledPrior:
    """Distribution of one parameter or initial value.

    `kind` is one of `KINDS`; `first` and `second` are the two numbers of the kernel: lower end and
    width, mean and deviation (both of the logarithm for ``loguniform`` and ``lognormal``), or the
    column of the table.
    """

    name: str
    kind: str
    first: float
    second: float = 0.0


@dataclass(frozen=True)
class Priors:
    """Distributions drawn for every trajectory, one row of `table` f64 ``[rows, columns]`` each."""

    priors: tuple[SampledPrior, ...] = ()
    table: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is drawn."""
        return tuple(prior.name for prior in self.priors)

    def numbers(self, inputs: Sequence[str]) -> FloatArray:
        """Numbers ``[prior, 4]`` for kernels whose inputs have these names."""
        rows = [(inputs.index(p.name), KINDS[p.kind], p.first, p.second) for p in self.priors]
        return np.array(rows, np.float64).reshape(-1, 4)
