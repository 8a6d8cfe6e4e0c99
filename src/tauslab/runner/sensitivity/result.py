"""What `tauslab.sensitivity` gives."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.arrays import Array, FloatArray, IntArray
from tauslab.model.errors import ConfigError, InputFileError
from tauslab.model.pictures.html import card, table
from tauslab.runner.output.checking.opening import SENSITIVITY
from tauslab.runner.output.format.intervals import widening
from tauslab.runner.results.arrays.file import read_arrays, write_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIKELIHOOD_RATIO = "likelihood-ratio"
_MOST_LINES = 50  # that are printed
METHODS = ("coupled", "common", LIKELIHOOD_RATIO)


@dataclass(frozen=True, eq=False)
class SensitivityResult:
    """Derivatives of means by parameters, with standard errors; made by `tauslab.sensitivity`.

    Parameters
    ----------
    model, method, seed, n
        Name of the model, and what was asked for.
    time
        f64 ``[time]``.
    parameters, outputs
        Names, in the order of the first and the last axis.
    values
        f64 ``[parameter]``: where the derivatives were taken.
    low, high
        f64 ``[parameter]``: the two sides of each difference; both `values` where there is none.
    value, standard_error
        f64 ``[parameter, time, output]``: the derivative, in units of the output over those of the
        parameter, and the standard error of its chance, widened where few pairs differ, so that
        1.96 of it hold 95 %. NaN where all pairs give the same, but 0 where it is proved that they
        must. That of a difference lacks the bias of the step.
    informative
        f64 ``[parameter, time, output]``: how many pairs, or trajectories, of equal differences
        would tell as much; below 8 the error is uncertain itself.
    mean
        f64 ``[time, output]``: mean of each output; of a difference the mean over all sides.
    sides_variance
        f64 ``[parameter, time, output]``: of a difference, the variances of both sides together,
        which is that of the difference of two independent trajectories; NaN without sides.
    valid
        int64 ``[parameter, time]``: pairs, or trajectories, that reached the time with outputs that
        are finite; n, unless some ended early.

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

    def _repr_html_(self) -> str:
        facts = {
            "model": self.model, "method": self.method, "n": f"{self.n:,}", "seed": self.seed,
            "times": f"{len(self.time)} from {self.time[0]:g} to {self.time[-1]:g}",
        }  # fmt: skip
        elasticity = self.elasticity
        rows = [
            (output, parameter, f"{self.value[p, -1, o]:.6g}",
             f"{self.standard_error[p, -1, o]:.2g}", f"{elasticity[p, -1, o]:.4g}")
            for o, output in enumerate(self.outputs)
            for p, parameter in enumerate(self.parameters)
        ]  # fmt: skip
        header = ("mean of", "by", f"derivative at t = {self.time[-1]:g}", "error", "elasticity")
        shown = table(header, rows[:_MOST_LINES], more=len(rows) - _MOST_LINES)
        return card("SensitivityResult", facts, [shown])

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
            found = self.value * self.values[:, None, None] / self.mean
        return np.where(np.isfinite(found), found, np.nan)

    @property
    def variance_reduction(self) -> FloatArray:
        """How many times less a difference varies than that of independent trajectories.

        f64 ``[parameter, time, output]``; infinite where both sides are equal by proof, NaN where
        no pairs differ otherwise, nothing varies, or there are no sides.
        """
        error = self.standard_error / widening(self.informative)
        variance = self.valid[:, :, None] * (error * self._width()) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sides_variance / variance)

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` with named axes: value, standard_error, mean, elasticity."""
        import xarray

        axes = ("parameter", "time", "output")
        return xarray.Dataset(
            {
                "value": (axes, self.value),
                "standard_error": (axes, self.standard_error),
                "elasticity": (axes, self.elasticity),
                "mean": (axes[1:], self.mean),
            },
            {"parameter": list(self.parameters), "time": self.time, "output": list(self.outputs)},
            {"model": self.model, "method": self.method, "seed": str(self.seed), "n": self.n},
        )

    def to_pandas(self) -> Any:
        """A data frame with a row for each parameter, time and output."""
        import pandas as pd

        index = pd.MultiIndex.from_product(
            [self.parameters, self.time, self.outputs], names=["parameter", "time", "output"]
        )
        columns = {"value": self.value.ravel(), "standard_error": self.standard_error.ravel()}
        return pd.DataFrame(columns, index=index).reset_index()

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        return {
            "time": self.time,
            "parameter": np.array(self.parameters),
            "output": np.array(self.outputs),
            "value": self.value,
            "standard_error": self.standard_error,
            "informative": self.informative,
            "mean": self.mean,
            "sides_variance": self.sides_variance,
            "valid": self.valid,
            "parameter_value": self.values,
            "low": self.low,
            "high": self.high,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an HDF5 file, which `tauslab.open` reads; one that is there is replaced.

        Raises
        ------
        ConfigError
            The name is that of a table or a picture.
        OutputError
            It cannot be written.
        """
        own = {
            "method": SENSITIVITY, "model": self.model, "estimator": self.method,
            "seed": np.uint64(self.seed), "n": np.uint64(self.n),
        }  # fmt: skip
        write_arrays(Path(path), own, self.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SensitivityResult:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        own, arrays = read_arrays(Path(path), SENSITIVITY)
        missing = [name for name in ("model", "estimator", "seed", "n") if name not in own]
        if missing:
            raise InputFileError(f"{path} is damaged: it has no {missing[0]}")
        return cls(
            model=own["model"], method=own["estimator"], seed=int(own["seed"]), n=int(own["n"]),
            time=arrays["time"], parameters=tuple(arrays["parameter"].tolist()),
            outputs=tuple(arrays["output"].tolist()), values=arrays["parameter_value"],
            low=arrays["low"], high=arrays["high"], value=arrays["value"],
            standard_error=arrays["standard_error"], mean=arrays["mean"],
            informative=arrays.get("informative", np.full(arrays["value"].shape, np.inf)),
            sides_variance=arrays["sides_variance"], valid=arrays["valid"],
        )  # fmt: skip

    def plot(
        self, outputs: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw derivatives by the logarithm of each parameter, with two standard errors.

        Parameters
        ----------
        outputs
            Those with a panel; by default the first four.
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            An unknown output or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        from tauslab.runner.plots.estimates import plot_derivatives

        return plot_derivatives(self, outputs, None if path is None else Path(path))

    def digest(self) -> str:
        """SHA-256 of values, errors and means: equal on any device and any number of ranks."""
        digest = hashlib.sha256(self.method.encode())
        for array in (self.time, self.value, self.standard_error, self.mean, self.sides_variance):
            plain = np.where(np.isnan(array), np.nan, array)
            digest.update(plain.astype("<f8").tobytes())
        return digest.hexdigest()

    def _width(self) -> FloatArray:
        return (self.high - self.low)[:, None, None]

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
        found = array[self.parameters.index(parameter), :, self.outputs.index(output)]
        return np.asarray(found)
