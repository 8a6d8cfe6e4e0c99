"""The result of `tauslab.sensitivity`."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.store.checking.opening import SENSITIVITY
from tauslab.store.format.intervals import widening
from tauslab.store.results.array_result import FieldResult, numbers_or_none
from tauslab.store.results.digest import canonical_bytes
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.estimates import plot_derivatives

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIKELIHOOD_RATIO = "likelihood-ratio"
_MOST_LINES = 50  # that are printed
METHODS = ("coupled", LIKELIHOOD_RATIO)


@dataclass(frozen=True, eq=False)
class SensitivityResult(FieldResult):
    """Derivatives of means with respect to parameters; made by `tauslab.sensitivity`.

    Parameters
    ----------
    model, method, seed, n
        Name of the model, and settings of the call.
    time
        f64 ``[time]``.
    parameters, outputs
        Names, in the order of the first and the last axis.
    values
        f64 ``[parameter]``: values at which the derivatives were taken.
    low, high
        f64 ``[parameter]``: the two parameters of each difference; equal to `values` for likelihood
        ratios.
    value, standard_error
        f64 ``[parameter, time, output]``: the derivative, in units of the output over units of the
        parameter, and its standard error, widened if few pairs differ. If all pairs are equal the
        standard error is NaN, or 0 if the derivative is provably 0.
    informative
        f64 ``[parameter, time, output]``: effective number of pairs or trajectories; below 8 the
        error is itself a noisy estimate.
    mean
        f64 ``[time, output]``: mean of each output; of a difference the mean over all sides.
    sides_variance
        f64 ``[parameter, time, output]``: variance of the difference of two independent
        trajectories; NaN for likelihood ratios.
    valid
        int64 ``[parameter, time]``: pairs or trajectories with finite outputs at this time.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X")
    >>> net.add_parameter("k", 2.0)
    >>> net.add_reaction("-> X", rate="k")
    >>> net.add_reaction("X ->", rate=1.0)
    >>> found = ts.sensitivity(net, ["k"], ["X"], times=5.0, n=2000, seed=1, device="cpu")
    >>> bool(abs(found["k", "X"][0] - 0.99326) < 4 * found.error("k", "X")[0])
    True
    """

    _METHODS = (SENSITIVITY,)
    _AXES: ClassVar = {
        "time": "time", "parameter": "parameter", "output": "output",
        "value": "parameter time output", "standard_error": "parameter time output",
        "informative": "parameter time output", "mean": "time output",
        "sides_variance": "parameter time output", "valid": "parameter time",
        "parameter_value": "parameter", "low": "parameter", "high": "parameter",
    }  # fmt: skip
    _FIELDS: ClassVar = {
        "parameter": "parameters", "output": "outputs", "parameter_value": "values",
        "estimator": "method",
    }  # fmt: skip
    _OPTIONAL = ("informative",)

    model: str
    method: str
    seed: int
    n: int
    time: FloatArray
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    values: FloatArray
    low: FloatArray
    high: FloatArray
    value: FloatArray
    standard_error: FloatArray
    informative: FloatArray
    mean: FloatArray
    sides_variance: FloatArray
    valid: IntArray

    def __repr__(self) -> str:
        """One line: what by what, and how."""
        return (
            f"<SensitivityResult of {self.model}: {len(self.outputs)} outputs by "
            f"{len(self.parameters)} parameters at {len(self.time)} times, {self.method}, "
            f"n {self.n}, seed {self.seed}>"
        )

    def __str__(self) -> str:
        """A line for each derivative, at the last time; the first 50."""
        lines = [
            f"d {output} / d {parameter}: {self[parameter, output][-1]:.6g} +- "
            f"{self.error(parameter, output)[-1]:.2g}"
            for parameter in self.parameters
            for output in self.outputs
        ]
        more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        return "\n".join([f"{self!r} at {self.time[-1]:g}:", *lines[:_MOST_LINES], *more])

    def __getitem__(self, names: tuple[str, str]) -> FloatArray:
        """Derivative ``[time]``: ``result["k", "X"]`` is that of the mean of X by k."""
        return self._at(self.value, names)

    def error(self, parameter: str, output: str) -> FloatArray:
        """Standard error ``[time]`` of that derivative."""
        return self._at(self.standard_error, (parameter, output))

    @property
    def elasticity(self) -> FloatArray:
        """Relative change of the mean by that of the parameter, ``[parameter, time, output]``.

        d log mean / d log parameter; NaN where the mean is 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            result = self.value * self.values[:, None, None] / self.mean
        return np.where(np.isfinite(result), result, np.nan)

    @property
    def variance_reduction(self) -> FloatArray:
        """Variance of independent trajectories over that of the pairs.

        f64 ``[parameter, time, output]``; infinite if both sides are provably equal, NaN if no
        pairs differ or nothing varies.
        """
        error = self.standard_error / widening(self.informative)
        width = (self.high - self.low)[:, None, None]
        variance = self.valid[:, :, None] * (error * width) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sides_variance / variance)

    def facts(self) -> dict[str, Any]:
        """All of it for JSON; None for what is no number.

        Derivatives are lists ``[time]`` by output, and by parameter.
        """
        parts = {
            "value": self.value, "standard_error": self.standard_error,
            "elasticity": self.elasticity,
        }  # fmt: skip
        derivatives = {
            output: {
                parameter: {name: numbers_or_none(of[p, :, o]) for name, of in parts.items()}
                for p, parameter in enumerate(self.parameters)
            }
            for o, output in enumerate(self.outputs)
        }
        return {
            "method": SENSITIVITY, "estimator": self.method, "model": self.model, "n": self.n,
            "seed": self.seed, "time": self.time.tolist(),
            "parameters": dict(zip(self.parameters, self.values.tolist(), strict=True)),
            "mean": {name: numbers_or_none(self.mean[:, o]) for o, name in enumerate(self.outputs)},
            "derivatives": derivatives,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The result in lines of text: at the last time, for each output the mean first."""
        lines = []
        for o, output in enumerate(self.outputs):
            lines.append(f"mean of {output} at t = {self.time[-1]:g}: {self.mean[-1, o]:.6g}")
            lines += [self._line(p, o) for p in range(len(self.parameters))]
        more = [f"and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
        if lost := int((self.n - self.valid).max()):
            more.append(f"{lost} of {self.n} ended early, or are not finite, and are left out")
        times = f", {len(self.time)} times" if len(self.time) > 1 else ""
        reported = f"{self.model}: {self.method}, n {self.n}, seed {self.seed}{times}"
        return [*lines[:_MOST_LINES], *more, reported]

    def _line(self, p: int, o: int) -> str:
        """A derivative at the last time, and what is to be said of it."""
        error, elasticity = self.standard_error[p, -1, o], self.elasticity[p, -1, o]
        line = f"  by {self.parameters[p]}: {self.value[p, -1, o]:.6g} +- {error:.2g}"
        if error == 0:
            return line + ", exact"
        if self.n > 1 and math.isnan(error):
            return line + ", no two differ: use a larger n or step"
        known = math.isfinite(elasticity) and self.values[p] != 0
        return line + (f", elasticity {elasticity:.4g}" if known else "")

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"derivatives": self._derivatives}

    def _derivatives(self) -> ResultTable:
        """A row for each parameter, time and output."""
        axes = np.meshgrid(self.parameters, self.time, self.outputs, indexing="ij")
        numbers = (self.value, self.standard_error, self.elasticity)
        header = ("parameter", "time", "output", "value", "standard_error", "elasticity")
        return ResultTable(header, iter([[one.ravel() for one in (*axes, *numbers)]]))

    @classmethod
    def _of(cls, stored: State) -> Self:
        unknown = np.full(stored["value"].shape, np.inf)
        return super()._of(
            State(stored.path, stored.attributes, {"informative": unknown, **stored})
        )

    def plot(
        self, outputs: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw derivatives with respect to logarithms of parameters, with two standard errors.

        Each output has a panel, by default the first four. `path` as of `Chain.plot`.
        """
        return plot_derivatives(self, outputs, path)

    def digest(self) -> str:
        """SHA-256 of values, errors and means: equal on any device and any number of ranks."""
        digest = hashlib.sha256(self.method.encode())
        for array in (self.time, self.value, self.standard_error, self.mean, self.sides_variance):
            digest.update(canonical_bytes(array))
        return digest.hexdigest()

    def _at(self, array: FloatArray, names: tuple[str, str]) -> FloatArray:
        if not isinstance(names, tuple) or len(names) != 2:
            raise ConfigError(
                f"result[{names!r}] is not known: take a parameter and an output, such as "
                f"result[{self.parameters[0]!r}, {self.outputs[0]!r}]"
            )
        parameter, output = names
        for name, known in ((parameter, self.parameters), (output, self.outputs)):
            if name not in known:
                raise ConfigError(f"{name!r} is not among {', '.join(known)}")
        result = array[self.parameters.index(parameter), :, self.outputs.index(output)]
        return np.asarray(result)
