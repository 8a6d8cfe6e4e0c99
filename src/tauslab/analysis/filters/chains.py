"""Chains of parameters: what `tauslab.pmmh` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tauslab.analysis.filters import mixing
from tauslab.analysis.filters.arviz import inference_data, observed_data
from tauslab.analysis.filters.parameters import Draws
from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import one_of
from tauslab.store.checking.opening import CHAINS
from tauslab.store.results.array_result import numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.views.states import plot_traces

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Chain(Draws):
    """Result of `tauslab.pmmh`: samples of several chains.

    Tables of `to_pandas`: ``chains``, by default: a row per chain and step; ``summary``: mean, sd,
    5, 50 and 95 % quantiles, bulk and tail effective sizes and R-hat of each parameter.

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

    log_likelihood: FloatArray
    accepted: BoolArray

    def __repr__(self) -> str:
        """One line: of what, how many steps, how often they moved."""
        return f"<Chain of {', '.join(self.parameters)}: {self._walked()}>"

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[chain, step]`` of a parameter."""
        return self.values[..., self._place(name)]

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

    def _quantile(self, name: str, q: float) -> float:
        return float(np.quantile(self[name], q))

    def _equal_draws(self) -> FloatArray:
        return self.values.reshape(-1, len(self.parameters))

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
        """R-hat: ratio of the width of all chains to that of single chains, near 1 if they agree.

        Rank-normalised, from half chains and from their distances to the median, the larger of the
        two (Vehtari and others 2021). NaN with too few steps or if no chain moved, infinite if each
        stays at its own position.
        """
        return mixing.rhat(np.atleast_2d(self[name]))

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        numbers = {"rhat": self.rhat, **self._sizes()}
        return {
            "method": CHAINS,
            "seed": self.seed,
            "chains": len(np.atleast_2d(self.accepted)),
            "steps": self.accepted.shape[-1],
            "acceptance": self.acceptance,
            **self._moments(),
            **{
                what: {name: numbers_or_none(of(name)) for name in self.parameters}
                for what, of in numbers.items()
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

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"chains": self._chains, "summary": self._summary}

    def _chains(self) -> ResultTable:
        axes = ("chain", "step")[2 - self.log_likelihood.ndim :]
        numbers = [*np.indices(self.log_likelihood.shape), self.log_likelihood]
        columns = [one.ravel() for one in (*numbers, *np.moveaxis(self.values, -1, 0))]
        return ResultTable((*axes, "log_likelihood", *self.parameters), iter([columns]))

    def _picture(self, parameters: Sequence[str], path: str | os.PathLike[str] | None) -> Figure:
        rows = {name: np.atleast_2d(self[name]) for name in self.parameters}
        return plot_traces(rows, "step", parameters, path)

    def to_xarray(self) -> xarray.Dataset:
        """Parameters and log-likelihood ``[chain, step]`` as an `xarray.Dataset`."""
        result = super().to_xarray()
        return result.drop_dims("parameter").assign(
            {name: (result["accepted"].dims, self[name]) for name in self.parameters}
        )

    def to_arviz(self, data: Any = None) -> Any:
        """The chains as ArviZ takes them, with the axes ``chain`` and ``draw``.

        Groups are ``posterior``, ``sample_stats`` (``lp``, the log-likelihood, and ``accepted``)
        and, of `data` as given to `tauslab.pmmh`, ``observed_data``.

        Returns
        -------
        An `arviz.InferenceData`; for ArviZ 1.0, or without ArviZ, an `xarray.DataTree`.
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

    def _numbers_of_summary(self) -> dict[str, Callable[[str], float]]:
        return {**super()._numbers_of_summary(), **self._sizes(), "rhat": self.rhat}

    def _sizes(self) -> dict[str, Callable[[str], float]]:
        return {f"ess_{of}": partial(self.effective_size, of=of) for of in ("bulk", "tail")}

    def _walked(self) -> str:
        lengths = " x ".join(f"{size:,}" for size in self.accepted.shape)
        return f"{lengths} steps, {self.acceptance:.0%} moved{self._seed_text()}"
