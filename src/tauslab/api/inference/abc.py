"""Posteriors of parameters by simulations alone: `tauslab.abc_smc`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tauslab.analysis.filters.abc.kernel import Densities
from tauslab.analysis.filters.abc.keywords import AbcKeywords
from tauslab.analysis.filters.abc.result import AbcResult
from tauslab.analysis.filters.abc.sampler import Sampler, Settings
from tauslab.analysis.filters.draws import NoiseDraws
from tauslab.analysis.filters.filtering import ended_before, ended_counts
from tauslab.analysis.filters.noise import draw
from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.filters.priors import table_at
from tauslab.analysis.particles.store import StateCheckpoint, digest_of
from tauslab.analysis.particles.weights import ABC_RUNS, words
from tauslab.api.api import settings_of
from tauslab.api.inference.given import (
    constants_of,
    limit_for_digest,
    priors_of,
    search_seed,
    text_of,
)
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import Array, BoolArray, FloatArray, doubles
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned, warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.kernels.exact.selectors import LARGEST_UNROLLED
from tauslab.model.expressions.expression import Number, Symbol
from tauslab.model.expressions.mass_action import factors, recognise
from tauslab.model.network.network import Network
from tauslab.options.keywords import NetworkKeywords
from tauslab.options.methods import ODE, SSA, Auto, Method, method_of
from tauslab.options.places import device_settings
from tauslab.options.python_values import numbers
from tauslab.options.record import PREFIX, SummarySpec
from tauslab.options.values.checks import by_name
from tauslab.options.values.definition import check_values
from tauslab.options.values.priors import Prior
from tauslab.runner.ensemble.choices.outlook import Outlook
from tauslab.runner.ensemble.kept import Setup
from tauslab.runner.ensemble.run import opened, run_portion
from tauslab.store.format.schema import STATUS_NAMES
from tauslab.store.results.result import Result
from tauslab.store.results.validity import ended_early

_TRIED_ALONE = 50  # draws of the prior of which one must be a set of values that the model can take


@dataclass(frozen=True)
class _Compared:
    """Summaries of the data, and the function that computes them from trajectories.

    Attributes
    ----------
    names, time
        Of each summary, as of `AbcResult`.
    summarise
        Of a result and values of parameters ``[m]`` the summaries ``[m, summary]``.
    options
        Of `tauslab.run`.
    rows
        Time courses with noises, if there are any.
    """

    names: tuple[str, ...]
    time: FloatArray
    observed: FloatArray
    summarise: Callable[[Result], FloatArray]
    options: Mapping[str, Any]
    rows: Observations | None = None
    parts: tuple[object, ...] = field(default=())  # of a digest


@checks_keywords
@takes(AbcKeywords)
def abc_smc(
    model: Network | str | os.PathLike[str], data: Any, priors: Mapping[str, str], **options: Any
) -> AbcResult:
    """Sample parameters whose simulations are close to the data: ABC-SMC.

    Toni and others (2009), with adaptive distances and thresholds (Prangle 2017) and a normal
    kernel per particle (Filippi and others 2013). The result converges to the posterior as the last
    threshold approaches 0.

    Parameters
    ----------
    model
        A network, or a model file.
    data
        A time course as for `tauslab.particle_filter`; or values of summaries by name, such as
        ``{"mean:X": 12.5}``; or numbers ``[k]``, with `summary`.
    priors
        As for `tauslab.pmmh`; names are parameters, or species for their initial counts.
    {options}

    Returns
    -------
    An `AbcResult`.

    Raises
    ------
    ModelError, ConfigError
        The model, the data, a prior or an option is not allowed, or no simulation comes near the
        data.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> data = {"time": [0.5, 1.0], "X": [60, 38]}
    >>> found = ts.abc_smc(
    ...     net, data, {"k": "loguniform(0.1,10)"}, n=100, generations=3, device="cpu"
    ... )
    >>> found["k"].shape
    (100,)
    """
    network = network_of(model, "ts.abc_smc")
    given = chosen(AbcKeywords, {"data": data, "priors": priors, **options}, "abc_smc")
    check_values(given)
    given.check()
    parsed = priors_of(priors)
    _require_names(network, parsed)
    compared = _compared(network, given)
    ranks = ranks_of(
        given.comm, "ts.abc_smc",
        **vars(given) | {"model": network, "data": compared.observed, "times": None},
    )  # fmt: skip
    seed = search_seed(given.seed, given.checkpoint, ranks)
    settings = _settings(given, len(compared.observed), seed)
    digest = b"" if given.checkpoint is None else digest_of(
        text_of(network), parsed, compared.observed, *compared.parts, given.n, given.quantile,
        settings.scale, repr(settings.norm) if not callable(settings.norm) else "function",
        given.least_acceptance, seed, repr(given.method), given.epsilon is None,
        *limit_for_digest(given.max_steps),
    )  # fmt: skip
    file = StateCheckpoint(
        given.checkpoint, given.checkpoint_every, digest, ranks, "abc",
        "file of populations, which ts.abc_smc writes",
    )  # fmt: skip
    simulate = _Simulations(network, given, compared, ranks, seed)
    place = device_settings(given.device)
    with file.held(), closing(open_backend(**place, comm=ranks)) as backend:
        densities = Densities(backend, ranks, len(parsed))
        ahead = 1.5 if ranks.any(backend.style.warp > 1) else 1.0
        sampler = Sampler(parsed, simulate, compared.observed, settings, densities, ahead)
        if kept := file.take_up():
            sampler.go_on(kept)
            sampler.ended_early = ended_before(kept)
        simulate.begin(sampler.first_draws(_TRIED_ALONE))
        with Progress(
            settings.generations * given.n, ranks.rank, quiet=given.quiet,
            description=network.name, unit="particles",
            started_at=len(sampler.populations) * given.n + sampler.accepted,
        ) as bar:  # fmt: skip

            def after_launch() -> None:
                done = sampler.populations
                if done:
                    bar.show(f"epsilon {done[-1].epsilon:.4g}, kept {done[-1].acceptance:.2g}")
                bar.update(len(done) * given.n + sampler.accepted, 0)
                file.save(
                    lambda: sampler.kept() | ended_counts(sampler.ended_early),
                    last=bool(sampler.ended),
                )

            sampler.run(after_launch)
    _warn_of_ended(sampler.ended_early)
    _warn_of_range(sampler, compared)
    return _result(parsed, sampler, compared, seed)


def _warn_of_ended(ended: Mapping[int, int]) -> None:
    """Say how many simulations ended early, and how."""
    if ended:
        numbers = ", ".join(
            f"{n} with status {STATUS_NAMES[one]}" for one, n in sorted(ended.items())
        )
        warn(
            f"simulations ended before a time of the data: {numbers}; candidates "
            "with a missing number are rejected, so the posterior excludes their parameters"
        )


def _warn_of_range(sampler: Sampler, compared: _Compared) -> None:
    """Say where data lie beyond all simulations of the last generation."""
    low, high = sampler.simulated.min(axis=0), sampler.simulated.max(axis=0)
    outside = np.flatnonzero((compared.observed < low) | (compared.observed > high))
    if len(outside):
        at = int(outside[0])
        when = "" if np.isnan(compared.time[at]) else f" at t = {compared.time[at]:g}"
        warn(
            f"{compared.names[at]}{when} is {compared.observed[at]:g} in the data, and "
            f"{low[at]:g} to {high[at]:g} in the simulations of the last generation "
            f"({len(outside)} of {len(low)} summaries are beyond them): the model does not reach "
            "the data with these priors, or needs more generations"
        )


def _require_names(network: Network, parsed: Mapping[str, Prior]) -> None:
    for name in parsed:
        if name not in network.parameters and name not in network.species:
            raise ConfigError(f"{name!r} is neither a parameter nor a species of {network.name}")
    if not parsed:
        raise ConfigError("priors= names no parameter: there is nothing to draw")


def _settings(given: AbcKeywords, size: int, seed: int) -> Settings:
    """How to draw; the numbers of `given` are checked."""
    epsilons = () if given.epsilon is None else tuple(doubles(given.epsilon).ravel().tolist())
    if given.epsilon is not None and not (epsilons and min(epsilons) >= 0):
        raise ConfigError(f"{assigned('epsilon')}... must be one number or more, 0 or above")
    scale = None
    if not isinstance(given.scale, str):
        scale = doubles(numbers("scale", given.scale))
        if scale.shape not in ((), (size,)) or not (np.isfinite(scale) & (scale > 0)).all():
            raise ConfigError(
                f"{assigned('scale')}... must be one number, or one per summary ({size}), finite "
                "and above 0"
            )
        scale = np.broadcast_to(scale, (size,)).copy()
    return Settings(
        given.n, len(epsilons) or given.generations, given.quantile, epsilons, scale,
        given.distance, given.target_epsilon, given.least_acceptance, seed,
    )  # fmt: skip


# ---------------------------------------------------------------- what is compared


def _compared(network: Network, given: AbcKeywords) -> _Compared:
    """Data, and how trajectories are made like them.

    Raises
    ------
    ConfigError
        They do not belong together, or nothing was seen.
    """
    names = [str(name) for name in given.data] if hasattr(given.data, "keys") else None
    if names is not None and "time" in names:
        result = _from_time_course(network, given)
    elif given.observe is not None:
        raise ConfigError(f"{assigned('observe')}... is noise of a time course, and data= is none")
    else:
        result = _of_summaries(given, names)
    if np.isnan(result.observed).all() or np.isinf(result.observed).any():
        raise ConfigError("data: at least one number is needed, and none may be infinite")
    return result


def _from_time_course(network: Network, given: AbcKeywords) -> _Compared:
    for name in ("summary", "t_end", "times"):
        if getattr(given, name) is not None:
            raise ConfigError(f"{assigned(name)}... has no use where data= is a time course")
    if callable(given.observe):
        raise ConfigError("observe= must name a noise for each column: a function has no draws")
    columns = [str(name) for name in given.data if name != "time"]
    noises = by_name("observe", given.observe)
    rows = Observations(given.data, noises or (lambda *_: np.zeros(1)))
    columns = [one.column for one in rows.models] or columns
    if not columns:
        raise ConfigError("data: there is no column but time: nothing is compared")
    quantities = [one.quantity for one in rows.models] or columns
    times = rows.times
    seen = [[rows.seen(row).get(name, np.nan) for row in range(len(rows))] for name in columns]

    def summarise(result: Result) -> FloatArray:
        collected = np.empty((result.n, len(quantities), len(times)))
        for place, name in enumerate(quantities):
            values = result[name]
            collected[:, place] = values if name in result.observables else _valid(values, result)
        return collected.reshape(result.n, -1)

    only = all(name in network.species for name in quantities)
    species = {"species": list(dict.fromkeys(quantities))} if only else {}
    return _Compared(
        tuple(np.repeat(columns, len(times)).tolist()), np.tile(times, len(columns)),
        np.array(seen, np.float64).ravel(), summarise,
        {"times": times, "record": "trajectories", **species}, rows if rows.models else None,
        (rows.digest(), tuple(quantities)),
    )  # fmt: skip


def _valid(values: Array, result: Result) -> Array:
    """Counts, NaN after the end of a trajectory."""
    whole = result.continuous or not len(values) or values.min() >= 0
    return values if whole else np.where(values < 0, np.nan, values)


def _of_summaries(given: AbcKeywords, names: list[str] | None) -> _Compared:
    times: dict[str, Any] = {"times": given.times, "t_end": given.t_end}
    times = {name: value for name, value in times.items() if value is not None}
    if not times:
        raise ConfigError(
            f"{assigned('t_end')}... is missing: the end of simulations, as data= has no times"
        )
    if names is not None:
        if given.summary is not None:
            raise ConfigError("data= names summaries; with summary= it must be numbers")
        specs = [SummarySpec.parse(name).name for name in names]
        observed = doubles([given.data[name] for name in names])
        record = [PREFIX + spec for spec in specs]

        def summarise(result: Result) -> FloatArray:
            return np.stack([result.summary(spec) for spec in specs], axis=1)

        options = {**times, "record": record}
        return _Compared(
            tuple(names), np.full(len(names), np.nan), observed, summarise, options,
            parts=(names, str(times)),
        )  # fmt: skip
    function = given.summary
    if function is None:
        raise ConfigError(
            "data= must have a column time, or values of summaries by name; of numbers alone "
            "summary= must be given"
        )
    observed = np.atleast_1d(doubles(given.data))
    size = len(observed)

    def by_function(result: Result) -> FloatArray:
        values = doubles(function(result))
        values = values[:, None] if values.ndim == 1 else values
        if values.shape != (result.n, size):
            raise ConfigError(
                f"summary= gave shape {values.shape}: [{result.n}, {size}] is needed, a row for "
                "each trajectory and as many numbers as data= has"
            )
        return values

    return _Compared(
        tuple(f"summary {i}" for i in range(size)), np.full(size, np.nan), observed, by_function,
        times, parts=(getattr(function, "__qualname__", ""), str(times)),
    )  # fmt: skip


# ---------------------------------------------------------------- simulations


class _Simulations:
    """Summaries of simulations, one for each set of values, with noise where there is one.

    Values that the model or a noise cannot take give NaN. What a candidate gives depends on the
    seed, its generation and its number alone: all run by one method, with the choices of one pilot.
    """

    def __init__(
        self, network: Network, given: AbcKeywords, compared: _Compared, ranks: Communicator,
        seed: int,
    ) -> None:  # fmt: skip
        self._network, self._compared, self._seed = network, compared, seed
        self._ranks, self._particles = ranks, given.n
        self._method = method_of(given.method)
        self._options = {**compared.options, "device": given.device, "comm": ranks, "quiet": True}
        if given.max_steps is not None:
            self._options["max_steps"] = given.max_steps
        self._never_negative = {*network.species, *_rate_constants(network)}
        self._launched = False  # the first launch warns for all, also of long runs

    def begin(self, draws: Mapping[str, FloatArray]) -> None:
        """Settle the method, which a pilot chooses for some; `draws` are of the priors."""
        self._draws = draws
        large = len(self._network.reactions) > LARGEST_UNROLLED
        if large or isinstance(self._method, Auto | ODE):
            self._method = self._settled(self._taken())

    def _taken(self) -> Mapping[str, FloatArray]:
        """The first of the draws that the model takes.

        Raises
        ------
        ModelError, ConfigError
            It takes none: what it says of the last of them.
        """
        draws = self._draws
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for row in range(len(next(iter(draws.values())))):
                values = {name: column[row : row + 1] for name, column in draws.items()}
                try:
                    self._run(values, 0, 0, np.zeros(1, bool))
                except (ModelError, ConfigError) as error:
                    refused = error
                else:
                    return values
        raise refused

    def _settled(self, values: Mapping[str, FloatArray]) -> Method:
        """The method with what a pilot of a generation of these values chooses for it."""
        rows = {name: np.repeat(column, self._particles) for name, column in values.items()}
        with self._opened(rows, self._particles, 0) as setup:
            result = setup.task.settled_method
        own = self._method
        requested = own.presimulation if isinstance(own, SSA | Auto) else None
        # A pilot of each launch would order reactions by its first values.
        return replace(result, presimulation=requested or 0) if isinstance(result, SSA) else result

    def __call__(
        self, values: Mapping[str, FloatArray], generation: int, first: int
    ) -> tuple[FloatArray, Array]:
        with warnings.catch_warnings():
            if self._launched:
                warnings.simplefilter("ignore")
            result = self._simulated(values, generation, first)
            self._launched = True
            return result

    def _simulated(
        self, values: Mapping[str, FloatArray], generation: int, first: int
    ) -> tuple[FloatArray, Array]:
        """Summaries and statuses; halves are tried apart where a set of values is refused."""
        m = len(next(iter(values.values())))
        good = np.ones(m, bool)
        for name in self._never_negative & values.keys():
            good &= values[name] >= 0
        missing = np.full((m, len(self._compared.observed)), np.nan), np.zeros(m, np.uint8)
        if not (good.any() or self._launched):
            self._taken()
        if not good.any():
            return missing
        # Others keep their numbers: values that can be taken stand in.
        stand_in = np.where(good, np.arange(m), np.flatnonzero(good)[0])
        try:
            result, ended = self._run(
                {k: v[stand_in] for k, v in values.items()}, generation, first, good
            )
        except (ModelError, ConfigError):
            if not self._launched:
                self._taken()
                self._launched = True
            if m == 1:
                return missing
        else:
            return np.where(good[:, None], result, np.nan) if not good.all() else result, ended
        half = m // 2
        parts = [
            self._simulated({k: v[part] for k, v in values.items()}, generation, first + part.start)
            for part in (slice(0, half), slice(half, m))
        ]
        summaries, ended = map(np.concatenate, zip(*parts, strict=True))
        return summaries, ended

    def _opened(
        self, values: Mapping[str, FloatArray], n: int, generation: int, **place: int
    ) -> AbstractContextManager[Setup]:
        """Prepare n trajectories, or take what a launch before prepared."""
        names = (*self._network.species, *self._network.parameters)
        options = {
            **self._options, **place, "method": self._method, "n": n, "set": dict(values),
            "seed": self._seed_of(generation),
        }  # fmt: skip
        given = chosen(NetworkKeywords, options, "run", names)
        return opened(self._network, settings_of(self._network, given, options), self._ranks)

    def _seed_of(self, generation: int) -> int:
        return int(words(self._seed, ABC_RUNS, generation, 1)[0])

    def _run(
        self, values: Mapping[str, FloatArray], generation: int, first: int, good: BoolArray
    ) -> tuple[FloatArray, Array]:
        """Summaries, and the statuses of those that are `good` and end early, 0 of others."""
        m = len(next(iter(values.values()), [0]))
        # Equations draw nothing, and their trajectories have no numbers.
        place: dict[str, Any] = {} if isinstance(self._method, ODE) else {"first": first}
        rows, numbers = self._compared.rows, []
        if rows is not None:
            constants = constants_of(self._network, values, rows)
            numbers = [one.numbers(constants) for one in rows.models]
        with self._opened(values, m, generation, **place) as setup:
            if self._launched or m == 1:  # values always differ: no trial before each
                setup.outlook = setup.outlook or Outlook(0.0)
            result = run_portion(setup, setup.task, self._ranks, lambda: False)
        status = np.ravel(result.status)
        ended = np.where(ended_early(status) & good, status, 0)
        collected = self._compared.summarise(result)
        if rows is None:
            return collected, ended
        time_courses = collected.reshape(m, len(rows.models), len(rows))
        seen = [
            draw(
                one.kind, time_courses[:, i], [number[:, None] for number in own],
                NoiseDraws(self._seed, i, generation, first),
            )
            for i, (one, own) in enumerate(zip(rows.models, numbers, strict=True))
        ]  # fmt: skip
        return np.hstack(seen), ended


def _rate_constants(network: Network) -> Iterator[str]:
    """Parameters that alone, or times a number above 0, are rate constants of mass action."""
    for reaction in network.reactions:
        result = recognise(reaction.law, network.species)
        parts = [] if result is None else list(factors(result.constant))
        symbols = [one.name for one, divides in parts if isinstance(one, Symbol) and not divides]
        rest = [one for one, _ in parts if not isinstance(one, Symbol)]
        scaled = all(isinstance(one, Number) and one.value > 0 for one in rest)
        if len(symbols) == 1 and len(symbols) + len(rest) == len(parts) and scaled:
            yield symbols[0]


def _result(
    parsed: Mapping[str, Prior], sampler: Sampler, compared: _Compared, seed: int
) -> AbcResult:
    done = sampler.populations
    values = np.array([table_at(parsed, one.places) for one in done])
    return AbcResult(
        tuple(parsed), values, np.array([one.weights for one in done]),
        np.array([one.distances for one in done]), np.array([one.epsilon for one in done]),
        np.array([one.simulations for one in done], np.int64),
        np.array([one.acceptance for one in done]), np.array([one.scale for one in done]),
        compared.names, compared.time, compared.observed, sampler.simulated, sampler.ended,
        seed=seed,
    )  # fmt: skip
