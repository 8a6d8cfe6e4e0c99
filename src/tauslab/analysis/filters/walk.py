"""Random walks on parameters, chains side by side, whose likelihoods are estimates.

Andrieu, Doucet and Holenstein, J. R. Stat. Soc. B 72, 269 (2010). A walk on the parameters (on
their logarithms where the prior is of a positive number) keeps the likelihood of its present place,
so that its distribution is the posterior whatever the number of particles of a filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters import mixing
from tauslab.analysis.particles import weights as particle_weights
from tauslab.base.arrays import Array, BoolArray, FloatArray
from tauslab.base.errors import ConfigError
from tauslab.options.values.priors import Prior
from tauslab.store.state import State

_FIRST_STEP = 0.2  # of the spread of a prior, in a first proposal
_ADAPT_EVERY = 25  # steps of the warm-up of one chain; of several less, but so many at least:
_ADAPT_LEAST = 5
_LEAST_MOVING, _MOST_MOVING = 0.05, 0.7  # parts of the steps that move with a proposal of use
_CHECK_EVERY, _CHECK_FROM = 25, 50  # steps after the warm-up between looks at the target
MOST_RHAT = 1.05  # with which an effective size is believed

# Values ``[chain]`` by name and the number of the step -> log-likelihoods ``[chain]``.
LogLikelihood = Callable[[Mapping[str, FloatArray], int], FloatArray]


class Walk:
    """Chains side by side, each with draws of its own.

    During the warm-up the proposal takes the covariance of the places of all chains in the second
    half of the steps so far, times 2.38^2 / d (Roberts and Rosenthal 2001); it is halved where
    hardly a step moves and doubled where nearly all do. Afterwards it stays.

    Parameters
    ----------
    log_likelihood
        Of all chains at once.
    steps
        After the warm-up, at most.
    target_ess
        Effective size of bulk and tail of every parameter with which the walk ends, where R-hat is
        1.05 at most.
    start
        Values to begin with, one for all chains or ``[chain]``.
    proposal
        Standard deviations of first steps, on the scale of the walk.
    """

    def __init__(  # noqa: PLR0913 - keywords
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
        target_ess: float | None = None,
    ) -> None:
        self._priors, self._log_likelihood = priors, log_likelihood
        self._target = target_ess
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
        self.root = root
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
        while not self.done:
            self._move()
            self.step += 1
            after_step()

    @property
    def done(self) -> bool:
        """Return whether all steps are made, or the target is reached."""
        if self.step >= self._steps + self._warm_up:
            return True
        kept = self.step - self._warm_up
        if self._target is None or kept < _CHECK_FROM or kept % _CHECK_EVERY:
            return False
        size, rhat = self.mixed()
        return size >= self._target and rhat <= MOST_RHAT

    def mixed(self) -> tuple[float, float]:
        """The smallest effective size of a bulk or tail after the warm-up, and the largest R-hat.

        On the scale of the walk; NaN where there are too few steps.
        """
        kept = self.visited[:, self._warm_up : self.step]
        columns = np.moveaxis(kept, -1, 0)
        sizes = [of(rows) for rows in columns for of in (mixing.bulk_size, mixing.tail_size)]
        return float(np.min(sizes)), float(np.max([mixing.rhat(rows) for rows in columns]))

    def result(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Values ``[chain, step, parameter]``, log-likelihoods and whether steps moved."""
        kept = slice(self._warm_up, self.step)
        values = self.visited[:, kept].copy()
        for column, prior in enumerate(self._priors.values()):
            if prior.in_logs:
                values[:, :, column] = np.exp(values[:, :, column])
        return values, self.logs[:, kept], self.moved[:, kept]

    def _move(self) -> None:
        step, (chains, size) = self.step, self.place.shape
        tried, uniforms = self.place.copy(), []
        for c, draw in enumerate(self._draws):
            tried[c] = self.place[c] + self.root @ draw.standard_normal(size)
            uniforms.append(1.0 - draw.random())
        priors = np.array([self._log_prior(place) for place in tried])
        inside = priors > -math.inf
        if inside.any():  # elsewhere a filter runs where the chain is, and is not looked at
            requested = np.where(inside[:, None], tried, self.place)
            result = self._log_likelihood(self._values(requested), step + 1)
            for c in np.flatnonzero(inside).tolist():
                gain = result[c] + priors[c] - self.found[c] - self.prior[c]
                if math.log(uniforms[c]) < gain:
                    self.place[c], self.prior[c], self.found[c] = tried[c], priors[c], result[c]
                    self.moved[c, step] = True
        self.visited[:, step], self.logs[:, step] = self.place, self.found
        every = max(_ADAPT_LEAST, -(-_ADAPT_EVERY // chains))
        if step < self._warm_up and chains * step >= 4 * size and (step + 1) % every == 0:
            self.root = self._adapted(every)

    def _adapted(self, every: int) -> FloatArray:
        """The root of the proposal's covariance from where chains have been.

        Of few places, or of chains that hardly left one, a covariance says nothing: there the
        proposal is doubled or halved by how many of the last `every` steps moved.
        """
        end, size = self.step + 1, self.place.shape[1]
        begin, moving = self.step // 2, float(self.moved[:, end - every : end].mean())
        if moving > _MOST_MOVING:
            return self.root * 2
        if self.moved[:, begin:end].sum() < 2 * size:
            return self.root / 2 if moving < _LEAST_MOVING else self.root
        covariance = np.atleast_2d(np.cov(self.visited[:, begin:end].reshape(-1, size).T))
        covariance *= 2.38**2 / size
        root = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
        return np.asarray(root, np.float64)

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
