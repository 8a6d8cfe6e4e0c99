"""Chains of parameters: what `tauslab.pmmh` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters import mixing
from tauslab.analysis.filters.arviz import inference_data, observed_data
from tauslab.base.arrays import Array, BoolArray, FloatArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import opt
from tauslab.store.checking.opening import CHAINS
from tauslab.store.results.array_result import ArrayResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_traces

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Chain(ArrayResult):
    """Result of `tauslab.pmmh`: chains that ran side by side.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[chain, step, parameter]``, without the warm-up. Files of older versions may hold one
        chain, whose arrays begin with the step.
    log_likelihood
        f64 ``[chain, step]``: of the current position.
    accepted
        bool ``[chain, step]``: whether the step was accepted.
    """

    _METHODS = (CHAINS,)
    _AXES: ClassVar = {
        "parameter": "parameter", "step": "step", "chain": "chain",
        "values": "chain step parameter", "log_likelihood": "chain step",
        "accepted": "chain step",
    }  # fmt: skip
    _OPTIONAL = ("chain",)

    parameters: tuple[str, ...]
    values: FloatArray
    log_likelihood: FloatArray
    accepted: BoolArray

    def __repr__(self) -> str:
        """One line: of what, how many steps, how often they moved."""
        return f"<Chain of {', '.join(self.parameters)}: {self._walked()}>"

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[chain, step]`` of a parameter."""
        if name not in self.parameters:
            known = ", ".join(self.parameters)
            raise ConfigError(f"{name!r} is no parameter of this chain; it has {known}")
        return self.values[..., self.parameters.index(name)]

    @property
    def acceptance(self) -> float:
        """Fraction of accepted steps."""
        return float(self.accepted.mean())

    def mean(self, name: str) -> float:
        """Mean of a parameter over all chains."""
        return float(self[name].mean())

    def sd(self, name: str) -> float:
        """Standard deviation of a parameter over all chains."""
        return float(self[name].std(ddof=1))

    def quantile(self, name: str, q: float) -> float:
        """Quantile of a parameter over all chains."""
        if not 0 <= q <= 1:
            raise ConfigError(f"q = {q:g} is not allowed: from 0 to 1")
        return float(np.quantile(self[name], q))

    def effective_size(self, name: str, of: str = "bulk") -> float:
        """Effective sample size of all chains together.

        Vehtari and others (2021), with ArviZ's numbers. NaN if a chain never moved.

        Parameters
        ----------
        of
            ``bulk``: of ranks, for the middle of the distribution; ``tail``: the smaller of the
            sizes of the 5 and 95 % quantiles; ``mean``: of the mean, whose standard error is the
            standard deviation over the square root of this.
        """
        one_of("of", of, mixing.SIZES)
        return mixing.SIZES[of](np.atleast_2d(self[name]))

    def rhat(self, name: str) -> float:
        """R-hat: ratio of the width of all chains to that of each, near 1 if they agree.

        Rank-normalised, from half chains and from their distances to the median, the larger of the
        two (Vehtari and others 2021). NaN with too few steps or if no chain moved, infinite if each
        stays at its own position.
        """
        return mixing.rhat(np.atleast_2d(self[name]))

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        axes = dict(zip(("step", "chain"), self.accepted.shape[::-1], strict=False))
        return {
            "parameter": np.array(self.parameters),
            **{axis: np.arange(size) for axis, size in axes.items()},
            "values": self.values,
            "log_likelihood": self.log_likelihood,
            "accepted": self.accepted.astype(np.uint8),
        }

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        told = {
            "mean": lambda name: self[name].mean(), "sd": lambda name: self[name].std(ddof=1),
            "rhat": self.rhat, **self._sizes(),
        }  # fmt: skip
        return {
            "method": CHAINS,
            "chains": len(np.atleast_2d(self.accepted)),
            "steps": self.accepted.shape[-1],
            "acceptance": self.acceptance,
            **{
                what: {name: numbers_or_none(of(name)) for name in self.parameters}
                for what, of in told.items()
            },
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        return [
            self._walked(),
            *(
                f"{name}: mean {self[name].mean():.6g}, sd {self[name].std(ddof=1):.4g}, "
                f"effective size {self.effective_size(name):.4g} (tail "
                f"{self.effective_size(name, 'tail'):.4g}), rhat {self.rhat(name):.4g}"
                for name in self.parameters
            ),
        ]

    def table(self, what: str | None = None) -> ResultTable:
        """A table, chosen by `what`.

        Parameters
        ----------
        what
            ``chains``, by default: a row per chain and step. ``summary``: a row per parameter, with
            mean, sd, 5, 50 and 95 % quantiles, bulk and tail effective sizes, and R-hat.

        Raises
        ------
        ConfigError
            Another word.
        """
        if what == "summary":
            return named_columns(self._summary())
        if what not in (None, "chains"):
            raise ConfigError(f"{opt('what', what)}: of chains there are chains, summary")
        axes = ("chain", "step")[2 - self.log_likelihood.ndim :]
        numbers = [*np.indices(self.log_likelihood.shape), self.log_likelihood]
        columns = [one.ravel() for one in (*numbers, *np.moveaxis(self.values, -1, 0))]
        return ResultTable((*axes, "log_likelihood", *self.parameters), iter([columns]))

    def summary(self) -> pd.DataFrame:
        """A row per parameter: mean, sd, quantiles, effective sizes of bulk and tail, R-hat."""
        return self.to_pandas("summary")

    def plot(
        self, parameters: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw the trace of each chain.

        Parameters
        ----------
        parameters
            Names; by default the first four.
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            An unknown name or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        rows = {name: np.atleast_2d(self[name]) for name in self.parameters}
        return plot_traces(rows, "step", parameters, None if path is None else Path(path))

    def to_xarray(self) -> xarray.Dataset:
        """Parameters and log-likelihood ``[chain, step]`` as an `xarray.Dataset`."""
        found = super().to_xarray()
        return found.drop_dims("parameter").assign(
            {name: (found["accepted"].dims, self[name]) for name in self.parameters}
        )

    def to_arviz(self, data: Mapping[str, npt.ArrayLike] | None = None) -> Any:
        """The chains as ArviZ takes them, with the axes ``chain`` and ``draw``.

        Groups are ``posterior``, ``sample_stats`` (``lp``, the log-likelihood, and ``accepted``)
        and, of `data` as given to `tauslab.pmmh`, ``observed_data``.

        Returns
        -------
        An `arviz.InferenceData`; where ArviZ is 1.0 or above, or is not installed, the
        `xarray.DataTree` that ArviZ 1.0 takes.
        """
        import xarray

        axes = ("chain", "draw")
        rows = {name: (axes, np.atleast_2d(self[name])) for name in self.parameters}
        logs, moved = np.atleast_2d(self.log_likelihood), np.atleast_2d(self.accepted)
        coords = {axis: np.arange(size) for axis, size in zip(axes, logs.shape, strict=True)}
        stats = {"lp": (axes, logs), "accepted": (axes, moved)}
        groups = {
            "posterior": xarray.Dataset(rows, coords),
            "sample_stats": xarray.Dataset(stats, coords),
        }
        return inference_data(groups | observed_data(data))

    def _summary(self) -> dict[str, Array]:
        rows = {name: self[name].ravel() for name in self.parameters}
        return {
            "parameter": np.array(self.parameters),
            "mean": np.array([row.mean() for row in rows.values()]),
            "sd": np.array([row.std(ddof=1) for row in rows.values()]),
            **{
                f"q{percent:02d}": np.array([np.percentile(row, percent) for row in rows.values()])
                for percent in (5, 50, 95)
            },
            **{what: np.array([of(name) for name in rows]) for what, of in self._sizes().items()},
            "rhat": np.array([self.rhat(name) for name in rows]),
        }

    def _sizes(self) -> dict[str, Callable[[str], float]]:
        return {f"ess_{of}": partial(self.effective_size, of=of) for of in ("bulk", "tail")}

    def _walked(self) -> str:
        lengths = " x ".join(f"{size:,}" for size in self.accepted.shape)
        return f"{lengths} steps, {self.acceptance:.0%} moved"

    def _attributes(self) -> dict[str, Any]:
        return {"method": CHAINS}

    @classmethod
    def _of(cls, stored: State) -> Self:
        return cls(
            tuple(stored["parameter"].tolist()), stored["values"], stored["log_likelihood"],
            stored["accepted"].astype(bool),
        )  # fmt: skip
