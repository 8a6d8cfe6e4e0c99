"""Maximum likelihood in one call: `tauslab.fit`."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from tauslab.analysis.filters.cells import Cells
from tauslab.analysis.filters.fitting.profile import Profile, profiles_of
from tauslab.analysis.filters.fitting.result import FitResult
from tauslab.analysis.filters.fitting.surface import ROUNDS, Surface, Top, spread_of_tops, top_of
from tauslab.analysis.filters.fitting.swarm import searched
from tauslab.analysis.filters.keywords import FitKeywords
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.weights import FIT_SEEDS, FITS, words
from tauslab.api.api import run_ensemble
from tauslab.api.inference.given import constants_of, search_seed
from tauslab.api.inference.particles import particle_filters
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import Array, FloatArray, doubles
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.model.expressions.expression import Number
from tauslab.model.network.counts import no_parameter
from tauslab.model.network.network import Network
from tauslab.options.values.definition import check_values
from tauslab.options.values.priors import Prior
from tauslab.runner.ensemble.choices.outlook import Pace

_RANGE = 5.0  # about a model's own value, where the search begins
_MOST_STEPS = 1_000_000  # of a trajectory between rows: more is no candidate
_POINTS, _POINTS_EACH = 100, 20  # of a surface: of any, and for each of its coefficients
_DATA_SETS = 400  # that are simulated to see how estimates of synthetic likelihoods spread
_ROUNDING = 1 / 12  # variance of a count by its rounding
_TOP = 0.5  # fall of a log-likelihood to each side of a maximum
_NEEDED = 20  # simulations for each number of the data: with 5 one fit of six did not converge


@checks_keywords
@takes(FitKeywords)
def fit(model: Network | str | os.PathLike[str], data: Any, **options: Any) -> FitResult:
    """Fit parameters to a noisy time course by maximum likelihood, with standard errors.

    Iterated filtering (Ionides and others 2015) searches for the maximum. A quadratic function
    fitted to log-likelihoods near it gives estimates and standard errors, which include the noise
    of simulations. Where log-likelihoods of filters are skewed or flat, intervals come from
    profiles (Ionides and others 2017), and standard errors are NaN.

    With `observe`, likelihoods are estimated by `tauslab.particle_filters`. Without, data are
    exact counts, and likelihoods are synthetic (Wood 2010).

    Parameters
    ----------
    model
        A network, or a model file.
    data
        As for `tauslab.particle_filter`; without `observe`, columns are species.
    {options}

    Returns
    -------
    A `FitResult`. A warning appears if no maximum was reached.

    Raises
    ------
    ModelError, ConfigError
        The model, the data or an option is not allowed, or the likelihood is 0 everywhere.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> data = {"time": [0.5, 1.0], "X": [60, 38]}
    >>> found = ts.fit(net, data, observe={"X": "normal(sd=2)"}, n=50, seed=1, device="cpu")
    >>> found.interval("k")[0] < 1.0 < found.interval("k")[1]
    True
    """
    network = network_of(model, "ts.fit")
    given = chosen(FitKeywords, {"data": data, **options}, "fit")
    check_values(given)
    priors = _start_of(network, given.start)
    cells = _cells_of(given)
    ranks = ranks_of(
        given.comm, "ts.fit", **vars(given) | {"model": network, "data": cells.digest()}
    )
    seed = search_seed(given.seed, None, ranks)
    seeds = words(seed, FITS, 0, 2)
    draws = np.random.Generator(np.random.Philox(key=np.array([seed, FITS], np.uint64)))
    terms = (len(priors) + 1) * (len(priors) + 2) // 2
    with Progress(
        given.iterations + ROUNDS, ranks.rank, quiet=given.quiet, description=network.name,
        unit="rounds",
    ) as bar:  # fmt: skip
        rounds = count(1)

        def after_round() -> None:
            bar.update(next(rounds), 0)

        place = _search(network, given, cells, priors, ranks, int(seeds[0]), draws, after_round)
        if given.observe is not None:
            filters = _Filters(network, given, tuple(priors), ranks, seed)
            points = _POINTS + _POINTS_EACH * terms
            top = top_of(
                _then(filters, after_round), place, points, 4 * points, draws, unbiased=True
            )
            profiles = []
            if not top.converged:
                spread = np.atleast_2d(np.cov(top.points.T))
                start = np.array([prior.start() for prior in priors.values()])
                profiles = profiles_of(filters, top.place, spread, start, ROUNDS, draws)
            return _result(priors, top, "filter", seed, profiles=profiles)
        synthetic = _Synthetic(network, given, cells, tuple(priors), ranks, int(seeds[1]))
        points = _POINTS_EACH * terms
        top = top_of(_then(synthetic, after_round), place, points, 2 * points, draws)
        return _result(priors, top, "synthetic", seed, synthetic.spread(top))


def _then(surface: Surface, after: Callable[[], None]) -> Surface:
    """The surface, and a call of `after` each time."""

    def found(places: FloatArray, work: float, number: int) -> FloatArray:
        values = surface(places, work, number)
        after()
        return values

    return found


def _start_of(network: Network, given: Any) -> dict[str, Prior]:
    """Where the search begins, by name."""
    own = {
        name: tree.value
        for name, tree in network.parameters.items()
        if isinstance(tree, Number) and tree.value > 0
    }
    texts = given if isinstance(given, Mapping) else dict.fromkeys(own if given is None else given)
    result = {}
    for name, text in texts.items():
        if name not in network.parameters:
            why = no_parameter(name, network.species, network.set_by_events())
            raise ConfigError(f"start: {name!r} is no parameter of {network.name}{why}")
        if text is None and name not in own:
            raise ConfigError(f"start: {name} has no value above 0: give a starting range")
        near = own.get(name, 1.0)
        message = text or f"loguniform({near / _RANGE!r},{near * _RANGE!r})"
        result[name] = Prior.parse(f"start of {name}", message)
        if not result[name].in_logs:
            raise ConfigError(
                f"start of {name}: {text} is not of positive numbers: give loguniform or lognormal"
            )
    if not result:
        changed = network.set_by_events()
        why = no_parameter(changed[0], changed, changed) if changed else ": there is nothing to fit"
        but = f" but {changed[0]}" if changed else ""
        raise ConfigError(f"{network.name} has no parameter above 0{but}{why}")
    return result


def _cells_of(given: FitKeywords) -> Cells:
    """Data with their noise; of exact counts with one that lets a search begin."""
    if given.observe is not None:
        return given.observations()
    time_courses = given.time_courses()
    largest: dict[str, float] = {}
    for data in time_courses.values():
        for name in data:
            if name != "time":
                wide = np.abs(doubles(data[name]))
                most = max([1.0, *wide[np.isfinite(wide)].tolist()])
                largest[str(name)] = max(largest.get(str(name), 1.0), most)
    return Cells(
        time_courses, {name: f"normal(sd={0.1 * most!r})" for name, most in largest.items()}
    )


def _search(
    network: Network, given: FitKeywords, cells: Cells, priors: Mapping[str, Prior],
    ranks: Communicator, seed: int, draws: np.random.Generator, after: Callable[[], None],
) -> FloatArray:  # fmt: skip
    """Logarithms of parameters near the maximum, by a swarm."""
    levels = (np.arange(given.swarm) + 0.5) / given.swarm
    places = np.column_stack([
        prior.start() + math.sqrt(12) * prior.spread() * (draws.permutation(levels) - 0.5)
        for prior in priors.values()
    ])  # fmt: skip
    values = dict(zip(priors, np.exp(places).T, strict=True))
    pace = Pace(
        f"{network.name}: the search of the fit", quiet=given.quiet, announces=ranks.rank == 0
    )

    def after_row(iterations: float) -> None:
        pace.reached(iterations / given.iterations)
        if isinstance(iterations, int):
            after()

    with Ensemble(
        network, given.swarm, seed=seed, device=given.device, set=values,
        initial=given.initial, method=given.method, comm=ranks,
        max_steps=_limit(given),
    ) as particles:  # fmt: skip
        result = searched(
            particles, cells, tuple(priors), places,
            lambda: constants_of(network, particles.given, cells[0]),
            iterations=given.iterations, draws=draws, after_row=after_row,
        )  # fmt: skip
    return np.asarray(np.median(result, axis=0))


def _limit(given: FitKeywords) -> int | None:
    """How many steps a particle may make between two rows."""
    return given.max_steps or (None if given.method == "ode" else _MOST_STEPS)


def _result(
    priors: Mapping[str, Prior], top: Top, likelihood: str, seed: int,
    spread: FloatArray | None = None, profiles: Sequence[Profile] = (),
) -> FitResult:  # fmt: skip
    size = len(priors)
    if top.loose.any() or profiles:
        covariance = np.full((size, size), np.nan)
    else:
        covariance = top.chance + (np.linalg.inv(top.bend) if spread is None else spread)
    loose, height, error = top.loose, top.height, top.height_error
    place, arrays = top.place, {}
    if profiles:
        place = np.array([one.logs[one.falls.argmin()] for one in profiles])
        loose = np.array([min((one.falls - one.errors)[[0, -1]]) < _TOP for one in profiles])
        height, error = max((one.height, one.height_error) for one in profiles)
        arrays = {
            "profile": np.exp([one.logs for one in profiles]),
            "fall": np.array([one.falls for one in profiles]),
            "fall_error": np.array([one.errors for one in profiles]),
        }
    converged = not loose.any() if profiles else top.converged
    if not converged:
        named = ", ".join(name for name, one in zip(priors, loose, strict=True) if one)
        stated = "; no interval is stated" if np.isnan(covariance).any() else ""
        stated = "; intervals say how far they do" if profiles else stated
        warn(
            "the fit did not converge to a maximum: the data may not bound "
            f"{named or 'all parameters'} on both sides{stated}; fit fewer (start=), or give more "
            "particles (n=)"
        )
    return FitResult(
        tuple(priors), np.exp(place), covariance, np.exp(top.points), top.values, height, error,
        likelihood, converged, seed=seed, **arrays,
    )  # fmt: skip


class _Filters:
    """Log-likelihoods ``[m]`` of places by particle filters, all in one launch a row."""

    def __init__(
        self, network: Network, given: FitKeywords, names: tuple[str, ...], ranks: Communicator,
        seed: int,
    ) -> None:  # fmt: skip
        self._network, self._given, self._names, self._ranks = network, given, names, ranks
        self._seed = seed

    def __call__(self, places: FloatArray, work: float, number: int) -> FloatArray:
        given = self._given
        with warnings.catch_warnings():
            if number:
                warnings.simplefilter("ignore")  # the first round warns for all
            result = particle_filters(
                self._network, given.data, cell=given.cell, observe=given.observe,
                n=math.ceil(given.n * work),
                set=dict(zip(self._names, np.exp(places).T, strict=True)),
                seed=int(words(self._seed, FIT_SEEDS, number, 1)[0]), device=given.device,
                method=given.method, initial=given.initial, comm=self._ranks, quiet=True,
                max_steps=_limit(given),
            )  # fmt: skip
        return result.log_likelihood


class _Synthetic:
    """Synthetic log-likelihoods ``[m]`` of places; all have the same random numbers."""

    def __init__(
        self, network: Network, given: FitKeywords, cells: Cells, names: tuple[str, ...],
        ranks: Communicator, seed: int,
    ) -> None:  # fmt: skip
        self._network, self._given, self._names, self._seed = network, given, names, seed
        columns = [one.column for one in cells[0].models]
        times = np.unique(np.concatenate([cell.times for cell in cells]))
        self._held: list[Array] = []  # of each cell: which numbers of all times were seen
        self._seen: list[FloatArray] = []
        for cell in cells:
            seen = np.full((len(columns), len(times)), np.nan)
            at = np.searchsorted(times, cell.times)
            for row, column in enumerate(columns):
                seen[row, at] = [cell.seen(i).get(column, np.nan) for i in range(len(cell))]
            self._held.append(np.flatnonzero(~np.isnan(seen)))
            self._seen.append(seen.ravel()[self._held[-1]])
        # Cells share simulations, whose errors must not grow against that of the data.
        self._n = max(given.n, _NEEDED * max(len(seen) for seen in self._seen)) * len(cells)
        self._options: dict[str, Any] = {
            "times": times, "species": columns, "device": given.device, "comm": ranks,
            "method": given.method or "ssa", "quiet": True, "record": "trajectories",
            "common": given.method in (None, "ssa"),
            **{
                name: getattr(given, name)
                for name in ("initial", "max_steps")
                if getattr(given, name) is not None
            },
        }  # fmt: skip
        self._columns = columns

    def __call__(self, places: FloatArray, work: float, number: int) -> FloatArray:
        del work, number
        return self._logs(places, [seen[None] for seen in self._seen])[:, 0]

    def spread(self, top: Top) -> FloatArray:
        """Covariance of estimates of courses that are simulated at the top."""
        cells = len(self._held)
        made = self._simulated(top.place[None], _DATA_SETS * cells, self._seed + 1)[0]
        sets = [made[cell::cells, held] for cell, held in enumerate(self._held)]
        return spread_of_tops(top.place, top.points, self._logs(top.points, sets))

    def _logs(self, places: FloatArray, sets: Sequence[FloatArray]) -> FloatArray:
        """Log-likelihoods ``[m, set]`` of sets of data, ``[set, number]`` of each cell."""
        n = self._n
        result = np.zeros((len(places), len(sets[0])))
        for i, made in enumerate(self._simulated(places, n, self._seed)):
            known: dict[bytes, tuple[Any, ...]] = {}
            for held, seen in zip(self._held, sets, strict=True):
                size = len(held)
                if held.tobytes() not in known:
                    own = made[:, held]
                    covariance = np.cov(own.T).reshape(size, size) + _ROUNDING * np.eye(size)
                    known[held.tobytes()] = (
                        own.mean(axis=0), np.linalg.cholesky(covariance),
                        np.linalg.slogdet(2 * math.pi * covariance)[1],
                    )  # fmt: skip
                mean, root, volume = known[held.tobytes()]
                off = np.linalg.solve(root, (seen - mean).T)
                # An inverse of an estimate is too large by this (Hartlap and others 2007).
                squares = (n - size - 2) / (n - 1) * (off * off).sum(axis=0)
                result[i] += -0.5 * (squares + volume)
        return result

    def _simulated(self, places: FloatArray, n: int, seed: int) -> Array:
        """Courses ``[m, n, number]``, at the times of all cells."""
        table = dict(zip(self._names, np.exp(places).T, strict=True))
        with warnings.catch_warnings(action="ignore"):  # of the size of a run
            result = run_ensemble(self._network, n=n, table=table, seed=seed, **self._options)
        shape = (len(places), n, -1)
        values = [np.asarray(result[name], np.float64).reshape(shape) for name in self._columns]
        return np.concatenate(values, axis=2)
