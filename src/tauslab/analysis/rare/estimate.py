"""The result of a search for a rare event: an estimate, its error, and its settings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.analysis.particles.sums import fixed_sum
from tauslab.base.arrays import Array, FloatArray
from tauslab.store.checking.opening import SPLITTING, WEIGHTED
from tauslab.store.format.intervals import FEWEST_INFORMATIVE, unequal_runs
from tauslab.store.results.array_result import FieldResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.estimates import plot_rare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETTINGS = (
    "model", "target", "coordinate", "t_end", "rounds", "walkers", "bins", "kill", "look_every",
    "kept", "asked_t_end",
)  # fmt: skip
_NUMBERS = ("t_end", "rounds", "walkers", "bins", "kill")
_LEVEL = 0.95
_ROUNDED = 1e-12


@dataclass(frozen=True, eq=False)
class RareResult(FieldResult):
    """The probability, or the rate, of reaching a target.

    Made by `tauslab.weighted_ensemble`.

    Attributes
    ----------
    method
        ``weighted_ensemble``, or ``multilevel_splitting`` in files of earlier versions.
    quantity
        ``probability``, or ``rate`` in 1 / time of the model.
    runs
        f64 ``[run]``: estimates of the independent runs; their mean is `estimate`.
    time
        f64 ``[time]``: ends of the rounds.
    reached
        f64 ``[run, time]``: weight that had reached the target by each time; for a rate, weight
        per time that reached it in each round.
    lost
        f64 ``[run]``: weight of trajectories that ended early; the exact value may be larger by as
        much.
    rounding
        Largest deviation of the sum of a run's weights from 1, by rounding.
    independent
        Number of independent runs, by which `bounds` is computed if none reached the target.
    certain
        Whether the initial state is in the target, so that the probability is exactly 1.
    events
        Reactions that fired, in all trajectories.
    seed
        As given or drawn.
    settings
        Model, target, coordinate, times and numbers, by name.
    """

    _METHODS = (WEIGHTED, SPLITTING)
    _AXES: ClassVar = {
        "run": "run", "estimate": "run", "lost": "run", "time": "time", "reached": "run time",
    }  # fmt: skip
    _FIELDS: ClassVar = {"estimate": "runs"}
    _OPTIONAL = ("time", "reached")

    method: str
    quantity: str
    runs: FloatArray
    time: FloatArray
    reached: FloatArray
    lost: FloatArray
    rounding: float
    independent: int
    certain: bool
    events: int
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def estimate(self) -> float:
        """Mean over runs; unbiased for a probability."""
        mean: float = fixed_sum(self.runs) / len(self.runs)
        return min(mean, 1.0) if self.quantity == "probability" else mean

    @property
    def standard_error(self) -> float:
        """Standard error of `estimate`, from the spread of the runs.

        NaN for a single run or equal runs; `bounds` is then an interval.
        """
        if self.certain:
            return 0.0
        runs = self.runs
        if len(runs) < 2 or (runs == runs[0]).all() or self._all_reached:
            return math.nan
        squares = fixed_sum((runs - self.estimate) ** 2)
        return math.sqrt(squares / (len(runs) - 1) / len(runs))

    @property
    def times(self) -> FloatArray:
        """As `time`."""
        return self.time

    @property
    def bounds(self) -> tuple[float, float]:
        """95 % confidence interval.

        If no run reached the target, from 0 to ``1 - 0.05 ** (1 / independent)``. The `lost` weight
        is added to the upper bound.
        """
        if self.certain:
            return 1.0, 1.0
        lost = fixed_sum(self.lost) / len(self.lost)
        most = 1.0 if self.quantity == "probability" else math.inf
        if (self.runs == 0).all():
            return 0.0, min(most, self._upper_limit() + lost)
        if self._all_reached:
            return 1 - self._upper_limit(), 1.0
        low, high = unequal_runs(self.runs)
        return low, min(most, high + lost)

    @property
    def effective_runs(self) -> float:
        """Effective number of runs.

        The squared sum of the estimates over the sum of their squares; NaN if all are 0. If it is
        small, a few runs determine the estimate, and error and bounds are noisy.
        """
        most = float(self.runs.max(initial=0.0))
        if not most > 0:
            return math.nan
        shares = self.runs / most
        return float(fixed_sum(shares) ** 2 / fixed_sum(shares**2))

    @property
    def uneven(self) -> bool:
        """Whether so few runs determine the estimate that its error and `bounds` are unreliable."""
        few = min(FEWEST_INFORMATIVE, len(self.runs) / 2)
        return not self.certain and len(self.runs) > 1 and self.effective_runs < few

    @property
    def _all_reached(self) -> bool:
        """Return whether all trajectories reached the target; sums of weights are rounded."""
        near = np.abs(self.runs - 1) <= max(self.rounding, _ROUNDED)
        return self.quantity == "probability" and bool(near.all())

    def _upper_limit(self) -> float:
        """Largest value at which all trajectories miss with the probability 5 %."""
        logarithm = math.log(1 - _LEVEL) / self.independent
        if self.quantity == "probability":
            return -math.expm1(logarithm)
        return -logarithm / float(self.settings["kept"])

    def __repr__(self) -> str:
        """One line."""
        return f"<RareResult: {self._sentence()}, {self.method}, seed {self.seed}>"

    def _sentence(self) -> str:
        """The estimate with its error, or its bound, in words."""
        what = f"{self.quantity} of {self.settings.get('target', 'the target')}"
        if self.certain:
            return f"{what} is 1: the start is in the target"
        low, high = self.bounds
        if not self.estimate > 0:
            return f"{what} is at most {high:.3g} (95 %): no trajectory reached it"
        if math.isnan(self.standard_error) or self.uneven:
            return f"{what} = {self.estimate:.6g}, 95 %: {low:.4g} to {high:.4g}"
        return f"{what} = {self.estimate:.6g} +- {self.standard_error:.2g}"

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        low, high = self.bounds
        chosen = ", ".join(f"{k} {v}" for k, v in self.settings.items() if k in _NUMBERS)
        result = [
            self._sentence(),
            f"95 %: {low:.4g} to {high:.4g}, by {len(self.runs)} independent runs",
            f"{self.method}: coordinate {self.settings.get('coordinate')}, {chosen}",
            f"events: {self.events:.3g}, seed {self.seed}",
        ]
        if "asked_t_end" in self.settings:
            requested, end = self.settings["asked_t_end"], self.settings["t_end"]
            result.append(
                f"simulated until t = {end:g}: the flux was not stationary at {requested:g}"
            )
        if self.uneven:
            result.insert(2, f"effective runs: {self.effective_runs:.2g}: the error is unreliable")
        lost = fixed_sum(self.lost) / len(self.lost)
        return [*result, f"lost: {lost:.3g} of the weight ended early"] if lost else result

    def facts(self) -> dict[str, Any]:
        """All that is one number or text, for JSON; None for what is no number."""
        low, high = self.bounds
        numbers = {
            "estimate": self.estimate, "standard_error": self.standard_error, "low": low,
            "high": high, "lost": fixed_sum(self.lost) / len(self.lost),
            "rounding": self.rounding, "effective_runs": self.effective_runs,
        }  # fmt: skip
        return {
            "method": self.method, "quantity": self.quantity,
            **{name: numbers_or_none(value) for name, value in numbers.items()},
            "runs": self.runs.tolist(), "events": self.events, "seed": self.seed,
            "certain": self.certain, **self.settings,
        }  # fmt: skip

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        left_out = () if self.reached.size else ("time", "reached")
        return {name: of for name, of in super().arrays().items() if name not in left_out}

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"runs": self._runs}

    def _runs(self) -> ResultTable:
        """A row per run: its estimate and its lost weight."""
        return named_columns(
            {k: v for k, v in self.arrays().items() if v.ndim == 1 and k != "time"}
        )

    def _attributes(self) -> dict[str, Any]:
        return super()._attributes() | self.settings

    @classmethod
    def _of(cls, stored: State) -> Self:
        none = {"time": np.zeros(0), "reached": np.zeros((len(stored["estimate"]), 0))}
        result = super()._of(State(stored.path, stored.attributes, {**none, **stored}))
        own = {n: stored.attributes[n] for n in _SETTINGS if n in stored.attributes}
        return replace(result, settings=own)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the estimate of each run and the weight in the target; `path` as of `Chain.plot`."""
        return plot_rare(self, path)
