"""Particle marginal Metropolis-Hastings: parameters from a time course.

Andrieu, Doucet and Holenstein, J. R. Stat. Soc. B 72, 269 (2010). A random walk on the parameters
(on their logarithms where the prior is of a positive number) whose likelihoods come from
particle filters; the likelihood of the present place is kept, so that the chain's distribution is
the posterior whatever the number of particles.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles import weights as particle_weights
from tauslab.base.arrays import Array, BoolArray, FloatArray
from tauslab.base.errors import ConfigError
from tauslab.options.values.priors import Prior
from tauslab.store.checking.opening import CHAINS
from tauslab.store.results.array_result import ArrayResult, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_traces

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_FIRST_STEP = 0.2  # of the spread of a prior, in a first proposal
_ADAPT_EVERY = 25  # steps of the warm-up


@dataclass(frozen=True, eq=False)
class Chain(ArrayResult):
    """Result of `tauslab.pmmh`: one chain, or several that ran side by side.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[step, parameter]``, without the warm-up; of several chains ``[chain, step,
        parameter]``.
    log_likelihood
        f64 ``[step]`` or ``[chain, step]``: of the filter of the present place.
    accepted
        bool ``[step]`` or ``[chain, step]``: whether the step moved.
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
        """Values ``[step]`` or ``[chain, step]`` of a parameter."""
        if name not in self.parameters:
            known = ", ".join(self.parameters)
            raise ConfigError(f"{name!r} is no parameter of this chain; it has {known}")
        return self.values[..., self.parameters.index(name)]

    @property
    def acceptance(self) -> float:
        """Part of the steps that moved."""
        return float(self.accepted.mean())

    def effective_size(self, name: str) -> float:
        """Independent draws with the same error of a mean (initial positive sequence, Geyer 1992).

        Of several chains the sum. NaN where one never moved.
        """
        return sum(_effective_size(row) for row in np.atleast_2d(self[name]))

    def rhat(self, name: str) -> float:
        """Ratio of the width of all chains to that of each alone, near 1 where they agree.

        Of chains that are cut in halves (Gelman and others, Bayesian Data Analysis, 3rd edition,
        section 11.4); NaN where there are too few steps or none moved, infinite where
        chains stay at places of their own.
        """
        rows = np.atleast_2d(self[name])
        half = rows.shape[1] // 2
        if half < 2:
            return math.nan
        halves = np.concatenate([rows[:, :half], rows[:, -half:]])
        within = float(halves.var(axis=1, ddof=1).mean())
        between = half * float(halves.mean(axis=1).var(ddof=1))
        if not within > 0:
            return math.inf if between > 0 else math.nan
        return math.sqrt((half - 1) / half + between / (half * within))

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
            "effective_size": self.effective_size, "rhat": self.rhat,
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
                f"effective size {self.effective_size(name):.4g}, rhat {self.rhat(name):.4g}"
                for name in self.parameters
            ),
        ]

    def table(self, what: str | None = None) -> ResultTable:
        """A row per step, of several chains per chain and step."""
        del what
        axes = ("chain", "step")[2 - self.log_likelihood.ndim :]
        numbers = [*np.indices(self.log_likelihood.shape), self.log_likelihood]
        columns = [one.ravel() for one in (*numbers, *np.moveaxis(self.values, -1, 0))]
        return ResultTable((*axes, "log_likelihood", *self.parameters), iter([columns]))

    def plot(
        self, parameters: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw the places of each chain step by step.

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
        """Parameters and log-likelihood ``[step]`` or ``[chain, step]`` as an `xarray.Dataset`."""
        found = super().to_xarray()
        return found.drop_dims("parameter").assign(
            {name: (found["accepted"].dims, self[name]) for name in self.parameters}
        )

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


def _effective_size(values: FloatArray) -> float:
    x = values - values.mean()
    n = len(x)
    power = np.abs(np.fft.rfft(x, 2 * n)) ** 2
    covariance = np.fft.irfft(power)[:n] / n
    if covariance[0] <= 0:
        return math.nan
    pairs = covariance[0 : n - 1 : 2] + covariance[1:n:2]
    ends = np.flatnonzero(pairs <= 0)
    kept = pairs[: int(ends[0]) if len(ends) else len(pairs)]
    time = max(2 * float(kept.sum()) / float(covariance[0]) - 1, 1 / n)
    return min(float(n), n / time)


# Values ``[chain]`` by name and the number of the step -> log-likelihoods ``[chain]``.
LogLikelihood = Callable[[Mapping[str, FloatArray], int], FloatArray]


class Walk:
    """Chains side by side; each walks as it would alone with its number.

    During the warm-up the proposal of a chain takes the covariance of its places so far, times
    2.38^2 / d (Roberts and Rosenthal 2001); afterwards it stays.

    Parameters
    ----------
    log_likelihood
        Of all chains at once.
    start
        Values to begin with, one for all chains or ``[chain]``.
    proposal
        Standard deviations of first steps, on the scale of the walk.
    """

    def __init__(
        self,
        priors: Mapping[str, Prior],
        log_likelihood: LogLikelihood,
        *,
        chains: int,
        steps: int,
        warm_up: int,
        seed: int,
        start: Mapping[str, float | npt.ArrayLike],
        proposal: npt.ArrayLike | None,
    ) -> None:
        self._priors, self._log_likelihood = priors, log_likelihood
        self._steps, self._warm_up = steps, warm_up
        names, total = tuple(priors), steps + warm_up
        key = np.array([seed, particle_weights.CHAINS], np.uint64)
        streams = [np.array([0, 0, 0, chain], np.uint64) for chain in range(chains)]
        self._draws = [
            np.random.Generator(np.random.Philox(key=key, counter=counter)) for counter in streams
        ]
        columns = []
        for name in names:
            given = start[name] if name in start else priors[name].value(priors[name].start())
            each = np.broadcast_to(np.asarray(given, np.float64), (chains,)).tolist()
            middle = name not in start
            columns.append(
                [priors[name].start() if middle else priors[name].place(x) for x in each]
            )
        spreads = [_FIRST_STEP * priors[name].spread() for name in names]
        root = np.diag(spreads if proposal is None else np.asarray(proposal, np.float64))
        self.step = 0
        self.place = np.array(columns).T.reshape(chains, len(names))
        self.prior = np.array([self._log_prior(place) for place in self.place])
        self.found = np.full(chains, -np.inf)
        self.root = np.repeat(root[None], chains, axis=0)
        self.visited = np.empty((chains, total, len(names)))
        self.logs = np.empty((chains, total))
        self.moved = np.zeros((chains, total), bool)

    def begin(self) -> None:
        """Compute the likelihoods of the start.

        Raises
        ------
        ConfigError
            One of them is 0.
        """
        if (self.prior > -math.inf).all():
            self.found = self._log_likelihood(self._values(self.place), 0)
        bad = np.flatnonzero(~((self.found > -math.inf) & (self.prior > -math.inf)))
        if len(bad):
            values = self._values(self.place)
            raise ConfigError(
                "the chain cannot start: its likelihood is 0 at "
                + ", ".join(f"{k} = {v[bad[0]]:.4g}" for k, v in values.items())
                + "; give another start= or more particles"
            )

    def kept(self) -> dict[str, Array]:
        """Arrays from which the chains go on."""
        names = ("place", "prior", "found", "root")
        done = {name: getattr(self, name)[:, : self.step] for name in ("visited", "logs", "moved")}
        draws = np.array([_packed(draw) for draw in self._draws], np.uint64)
        whole = {name: getattr(self, name) for name in names}
        return {"step": np.array(self.step), "draws": draws, **whole, **done}

    def go_on(self, kept: State) -> None:
        """Take up what was kept; the chain may be longer than it was to be."""
        done, chains = kept.whole("step"), len(self._draws)
        self.step = min(done, self._steps + self._warm_up)
        for name in ("place", "prior", "found", "root"):
            setattr(self, name, kept.take(name, np.float64, *getattr(self, name).shape))
        for name in ("visited", "logs", "moved"):
            own = getattr(self, name)
            own[:, : self.step] = kept.take(name, own.dtype, chains, done, *own.shape[2:])[
                :, : self.step
            ]
        packed = kept.take("draws", np.uint64, chains, _WORDS)
        if (packed[:, -3:] > np.array([4, 1, _MOST_WORD], np.uint64)).any():
            raise kept.damaged("its generators have no such state")
        for draw, words in zip(self._draws, packed, strict=True):
            _unpack(draw, words)

    def run(self, after_step: Callable[[], None] = lambda: None) -> None:
        """Make all steps that are left; `after_step` is called after each."""
        while self.step < self._steps + self._warm_up:
            self._move()
            self.step += 1
            after_step()

    def result(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Values ``[chain, step, parameter]``, log-likelihoods and whether steps moved."""
        values = self.visited[:, self._warm_up :].copy()
        for column, prior in enumerate(self._priors.values()):
            if prior.in_logs:
                values[:, :, column] = np.exp(values[:, :, column])
        return values, self.logs[:, self._warm_up :], self.moved[:, self._warm_up :]

    def _move(self) -> None:
        step, size = self.step, self.place.shape[1]
        tried, uniforms = self.place.copy(), []
        for c, draw in enumerate(self._draws):
            tried[c] = self.place[c] + self.root[c] @ draw.standard_normal(size)
            uniforms.append(1.0 - draw.random())
        priors = np.array([self._log_prior(place) for place in tried])
        inside = priors > -math.inf
        if inside.any():  # elsewhere a filter runs where the chain is, and is not looked at
            asked = np.where(inside[:, None], tried, self.place)
            found = self._log_likelihood(self._values(asked), step + 1)
            for c in np.flatnonzero(inside).tolist():
                gain = found[c] + priors[c] - self.found[c] - self.prior[c]
                if math.log(uniforms[c]) < gain:
                    self.place[c], self.prior[c], self.found[c] = tried[c], priors[c], found[c]
                    self.moved[c, step] = True
        self.visited[:, step], self.logs[:, step] = self.place, self.found
        if step < self._warm_up and step >= 4 * size and (step + 1) % _ADAPT_EVERY == 0:
            for c, places in enumerate(self.visited):
                self.root[c] = _adapted(places[step // 2 : step + 1], self.root[c])

    def _values(self, places: FloatArray) -> dict[str, FloatArray]:
        return {
            name: np.array([prior.value(x) for x in places[:, column].tolist()])
            for column, (name, prior) in enumerate(self._priors.items())
        }

    def _log_prior(self, place: FloatArray) -> float:
        return sum(
            prior.log_density(x)
            for prior, x in zip(self._priors.values(), place.tolist(), strict=True)
        )


_WORDS, _MOST_WORD = 13, (1 << 32) - 1  # of a generator's state


def _packed(draw: np.random.Generator) -> list[int]:
    """The state of a generator as 13 whole numbers."""
    state: Any = draw.bit_generator.state
    rest = [state["buffer_pos"], state["has_uint32"], state["uinteger"]]
    inner = state["state"]
    return [int(x) for x in (*inner["counter"], *inner["key"], *state["buffer"], *rest)]


def _unpack(draw: np.random.Generator, packed: Array) -> None:
    state: Any = draw.bit_generator.state
    state["state"] = {"counter": packed[:4].copy(), "key": packed[4:6].copy()}
    state["buffer"] = packed[6:10].copy()
    state["buffer_pos"], state["has_uint32"], state["uinteger"] = (int(x) for x in packed[10:])
    draw.bit_generator.state = state


def _adapted(places: FloatArray, root: FloatArray) -> FloatArray:
    """The root of the proposal's covariance from where the chain has been."""
    size = places.shape[1]
    covariance = np.atleast_2d(np.cov(places.T)) * (2.38**2 / size)
    if not (np.diag(covariance) > 0).all():
        return root / 2  # nothing was accepted
    return np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
