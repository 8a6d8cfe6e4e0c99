"""Models against time courses: `tauslab.particle_filter`, its kin, and `pmmh`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import FloatArray
from tauslab.model.errors import ConfigError, ModelError, one_of
from tauslab.model.host_memory import require_memory
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.values import lattice_values
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.network import Network
from tauslab.runner.api.cme import model_of, network_of
from tauslab.runner.options.ensemble import MOST_TRAJECTORIES
from tauslab.runner.options.methods import Method, MethodWord
from tauslab.runner.options.places import Device
from tauslab.runner.options.values.checks import seed_of, within
from tauslab.runner.options.values.priors import Prior
from tauslab.runner.options.values.python_values import numbers, whole
from tauslab.runner.options.values.start_laws import StartLaw, start_laws
from tauslab.runner.options.values.unknown import checks_keywords
from tauslab.runner.particles.chains import Chain, Walk
from tauslab.runner.particles.checkpoints import Checkpoint, FilterCheckpoint, digest_of
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.exact import exactly_filtered
from tauslab.runner.particles.filtering import (
    DEFAULT_THRESHOLD,
    Course,
    check_threshold,
)
from tauslab.runner.particles.observing import Observations, Observe
from tauslab.runner.particles.result import FilterResult, FilterResults
from tauslab.runner.particles.weights import SCHEMES, words
from tauslab.runner.ranks.all_ranks import Comm, ranks_of

_FILTER_SEEDS = 8  # what words are drawn for, beside those of weights.py
_EVERY = 60.0  # seconds between two checkpoints
_CHAIN_BYTES = 1000  # of its generator and its proposal


@checks_keywords
def particle_filter(  # noqa: PLR0913 - keywords
    model: Network | Lattice | str | os.PathLike[str],
    data: Any,
    *,
    observe: Observe,
    n: int = 1000,
    seed: int | None = None,
    parameters: Mapping[str, float | npt.ArrayLike] | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    device: Device = "auto",
    method: MethodWord | Method | None = None,
    resample: str = "systematic",
    threshold: float = DEFAULT_THRESHOLD,
    number: int = 0,
    states: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = _EVERY,
    comm: Comm = "world",
) -> FilterResult:
    """Estimate the likelihood of a time course, and the states behind it, with n particles.

    The bootstrap filter (Gordon, Salmond and Smith 1993): particles run freely to each row, are
    weighted by its density, and are copied by weight where few carry most of it. The estimate of
    the likelihood, not of its logarithm, has no bias. The same seed gives the same bits on any
    device and on any number of ranks.

    Parameters
    ----------
    model
        A network or a lattice, or a model file, of which `tauslab.Ensemble` makes particles.
    data
        Columns by name as a mapping or a data frame: ``time``, increasing and 0 or above, and what
        was seen; NaN where something is missing.
    observe
        For each column what is measured and its noise: ``{"X": "normal(sd=10)"}``, or
        ``{"gfp": ("X", "poisson(scale=0.3)")}`` where names differ. Noises are ``normal(sd)``,
        ``lognormal(sigma)`` (mu = log x), ``poisson(scale, background)``, ``negative_binomial(size,
        scale)`` and ``binomial(p)``, each of x molecules seen with probability p; a parameter is a
        number, or the name of one of the model. Or a function ``(values, row, t)`` that gives a log
        density per particle: ``values("X")`` is an array ``[n]``, ``row["gfp"]`` a number.
    n, seed, device, parameters, initial, method
        As of `tauslab.Ensemble`.
    resample
        ``systematic``, ``stratified`` or ``multinomial``.
    threshold
        Particles are copied where their effective number is below this part of n; 1 always does.
    number
        Draw as filter `number` of `tauslab.particle_filters` does.
    states
        Whether to record means and standard deviations of states; a filter of which the likelihood
        alone is needed is faster without.
    checkpoint
        An HDF5 file that is written every `checkpoint_every` seconds, after a row, and at the end.
        Where it is there already, the filter goes on from it, with the bits of one that was never
        ended; one of another call is refused.
    comm
        As of `tauslab.run`.

    Returns
    -------
    A `FilterResult`. Where no particle can explain a row, its `log_likelihood` is -inf.

    Raises
    ------
    ModelError, ConfigError
        The model, the data or an option is not allowed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X", 10)
    >>> net.add_reaction("-> X", rate=4.0)
    >>> net.add_reaction("X ->", rate=0.2)
    >>> data = {"time": [1.5, 3.0, 4.5], "X": [14.5, float("nan"), 12.0]}
    >>> found = ts.particle_filter(net, data, observe={"X": "normal(sd=2.5)"}, seed=1, device="cpu")
    >>> found.mean.shape
    (3, 1)
    """
    network, n = model_of(model, "ts.particle_filter"), whole(n)
    within("n", n, 1, MOST_TRAJECTORIES)
    rows = {name: numbers(name, value) for name, value in (parameters or {}).items()}
    for name, row in rows.items():
        if np.ndim(row) and np.shape(row) != (n,):
            raise ConfigError(
                f"parameters {name}: one value, or one per particle ({n}); many filters at once "
                "are ts.particle_filters"
            )
    found = _filters(
        network, data, rows, observe=observe, n=n, count=1, number=number, seed=seed,
        initial=initial, device=device, method=method, resample=resample, threshold=threshold,
        states=states, checkpoint=checkpoint, checkpoint_every=checkpoint_every, comm=comm,
    )  # fmt: skip
    return found[0]


@checks_keywords
def particle_filters(  # noqa: PLR0913 - keywords
    model: Network | Lattice | str | os.PathLike[str],
    data: Any,
    *,
    observe: Observe,
    n: int = 100,
    parameters: Mapping[str, float | npt.ArrayLike] | None = None,
    filters: int | None = None,
    number: int = 0,
    states: bool = False,
    seed: int | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    device: Device = "auto",
    method: MethodWord | Method | None = None,
    resample: str = "systematic",
    threshold: float = DEFAULT_THRESHOLD,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = _EVERY,
    comm: Comm = "world",
) -> FilterResults:
    """Estimate the likelihoods of a time course at many values of parameters, in one launch a row.

    Filters of n particles each run side by side. Each has draws of its own: filter f gives the bits
    that `tauslab.particle_filter` gives alone with ``number=f``, however many run beside it.

    Parameters
    ----------
    model, data, observe, seed, initial, device, method, resample, threshold
        As of `tauslab.particle_filter`.
    checkpoint, checkpoint_every, comm
        As of `tauslab.particle_filter`.
    n
        Particles of each filter.
    parameters
        Values by name: one for all filters, or an array ``[filter]``.
    filters
        How many; needed where no array says it, for repeats at the same values.
    number
        Of the first filter.
    states
        Whether to record means and standard deviations of states.

    Returns
    -------
    `FilterResults`, whose `log_likelihood` is an array ``[filter]``.

    Raises
    ------
    ModelError, ConfigError
        The model, the data or an option is not allowed.
    DeviceError
        The device lacks memory for all particles.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X", 10)
    >>> net.add_parameter("k", 4.0)
    >>> net.add_reaction("-> X", rate="k")
    >>> net.add_reaction("X ->", rate=0.2)
    >>> data = {"time": [1.5, 3.0], "X": [14.5, 12.0]}
    >>> found = ts.particle_filters(
    ...     net,
    ...     data,
    ...     observe={"X": "normal(sd=2.5)"},
    ...     parameters={"k": [2, 3, 4]},
    ...     seed=1,
    ...     device="cpu",
    ... )
    >>> found.log_likelihood.shape
    (3,)
    """
    network = model_of(model, "ts.particle_filters")
    given = {name: numbers(name, value) for name, value in (parameters or {}).items()}
    for name, row in given.items():
        if np.ndim(row) > 1 or not np.size(row):
            raise ConfigError(
                f"parameters {name}: one value, or one per filter, not an array of shape "
                f"{np.shape(row)}"
            )
    lengths = {len(row) for row in given.values() if isinstance(row, np.ndarray)}
    if filters is not None:
        lengths.add(whole(filters))
    if len(lengths) != 1:
        raise ConfigError(
            "parameters= gives no array, and filters= is missing: how many filters?"
            if not lengths
            else "parameters= and filters= must say one number of filters, not "
            + " and ".join(map(str, sorted(lengths)))
        )
    count, n = lengths.pop(), whole(n)
    within("filters", count, 1, 10**9)
    within("n", n, 1, 10**9)
    rows = {k: np.repeat(v, n) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    return _filters(
        network, data, rows, observe=observe, n=n, count=count, number=number, seed=seed,
        initial=initial, device=device, method=method, resample=resample, threshold=threshold,
        states=states, checkpoint=checkpoint, checkpoint_every=checkpoint_every, comm=comm,
    )  # fmt: skip


def _filters(  # noqa: PLR0913 - of two functions
    network: Network | Lattice,
    data: Any,
    rows: Mapping[str, Any],
    *,
    observe: Observe,
    n: int,
    count: int,
    number: int,
    seed: int | None,
    initial: Mapping[str, StartLaw] | None,
    device: Device,
    method: MethodWord | Method | None,
    resample: str,
    threshold: float,
    states: bool,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: float,
    comm: Comm,
) -> FilterResults:
    """`count` filters; `rows` hold one value for all particles, or one each."""
    observed = Observations(data, observe)
    ranks = ranks_of(
        comm, "a particle filter", model=network, data=observed.digest(), parameters=rows,
        seed=seed, n=n, filters=count, number=number, initial=initial, method=method,
        resample=resample, threshold=threshold, states=states, checkpoint=checkpoint,
    )  # fmt: skip
    check_threshold(threshold)
    one_of("resample", resample, SCHEMES)
    number, most = whole(number), MOST_TRAJECTORIES // (n * count) - 1
    if most < 0:
        raise ConfigError(f"{count} filters of {n} particles are more than {MOST_TRAJECTORIES}")
    within("number", number, 0, most)
    digest = b""
    if checkpoint is not None:
        digest = digest_of(
            _text_of(network), observed.digest(), rows, seed, n, count, number,
            _said(initial), repr(method), resample, threshold, states,
        )  # fmt: skip
    file = FilterCheckpoint(checkpoint, checkpoint_every, digest, ranks, "particles", "")

    def opened(values: Mapping[str, Any], total: int) -> Ensemble:
        observed.check(_constants(network, values, observed))
        return Ensemble(
            network, total, seed=seed, device=device, parameters=values, initial=initial,
            method=method, comm=ranks,
        )  # fmt: skip

    with file.held(), _naming_rows(opened, rows, n, count) as particles:
        particles.in_groups(n, number)
        course = Course(
            particles, observed, count=count, number=number, scheme=resample, threshold=threshold,
            states=states,
        )  # fmt: skip
        file.particles = particles
        if kept := file.take_up():
            course.go_on(kept)
        now = {**rows, **particles.given}
        return course.run(
            _constants(network, now, observed),
            lambda: file.save(course.kept, last=course.row == len(observed)),
        )


def _naming_rows(
    opened: Callable[[Mapping[str, Any], int], Ensemble],
    rows: Mapping[str, Any],
    n: int,
    count: int,
) -> Ensemble:
    """An ensemble of `count` filters; an error names the first row of values that fails."""
    each = {name: row[::n] for name, row in rows.items() if np.ndim(row)} if count > 1 else {}

    def failing(low: int, high: int) -> ModelError | ConfigError | None:
        one = high - low == 1
        given = {name: row[low].item() if one else row[low:high] for name, row in each.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # told before
                opened({**rows, **given}, high - low).close()
        except (ModelError, ConfigError) as error:
            return error
        return None

    try:
        return opened(rows, n * count)
    except (ModelError, ConfigError) as error:
        low, high = 0, count
        while each and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if failing(low, middle) else (middle, high)
        alone = failing(low, high) if each else None
        of_all = low == 0 and str(failing(count - 1, count)) == str(alone)
        if alone is None or of_all:
            raise
        values = ", ".join(f"{name} = {row[low]:g}" for name, row in each.items())
        told = type(error)(f"parameters= row {low} ({values}): {alone}")
        told.raised_by = error.raised_by
        raise told from None


@checks_keywords
def exact_filter(
    model: Network | str | os.PathLike[str],
    data: Any,
    *,
    observe: Observe,
    parameters: Mapping[str, float] | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    tolerance: float = 1e-8,
    max_states: int | None = None,
    max_seconds: float = 600.0,
) -> FilterResult:
    """The likelihood of a time course of a small network without chance: the forward algorithm.

    Between rows `tauslab.cme`'s projection moves the law, each row weighs it.

    Parameters
    ----------
    model, data, observe
        As of `tauslab.particle_filter`.
    parameters, initial, tolerance, max_states, max_seconds
        As of `tauslab.cme`, where `parameters` is called `set`.

    Returns
    -------
    A `FilterResult` whose `bound` says by how much `log_likelihood` is too small at most.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.cme` and `tauslab.particle_filter`.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 1)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> data = {"time": [1.0], "X": [1]}
    >>> found = ts.exact_filter(net, data, observe={"X": "binomial(p=0.5)"})
    >>> round(found.log_likelihood, 6)  # log(exp(-1) / 2)
    -1.693147
    """
    network = network_of(model, "ts.exact_filter")
    values = {name: numbers(name, value) for name, value in (parameters or {}).items()}
    for name, value in values.items():
        if not isinstance(value, int | float):
            raise ConfigError(f"parameters {name}: one number, for a law has no particles")
    return exactly_filtered(
        network,
        Observations(data, observe),
        values,
        start_laws(initial, network),
        tolerance=tolerance,
        max_states=max_states,
        max_seconds=max_seconds,
    )


@checks_keywords
def pmmh(  # noqa: PLR0913 - keywords
    model: Network | Lattice | str | os.PathLike[str],
    data: Any,
    priors: Mapping[str, str],
    *,
    observe: Observe,
    n: int = 100,
    steps: int = 1000,
    warm_up: int = 500,
    chains: int | None = None,
    seed: int = 0,
    start: Mapping[str, float | npt.ArrayLike] | None = None,
    proposal: npt.ArrayLike | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    device: Device = "auto",
    method: MethodWord | Method | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = _EVERY,
    comm: Comm = "world",
) -> Chain:
    """Draw parameters given a time course: particle marginal Metropolis-Hastings.

    Andrieu, Doucet and Holenstein (2010). Exact for any n; with few particles it moves seldom.
    Chains run side by side, all their filters in one launch; the first is the chain that runs
    alone.

    Parameters
    ----------
    model, data, observe, initial, device, method, comm
        As of `tauslab.particle_filter`.
    priors
        Of the parameters that are not known, by name: ``uniform(LO,HI)``, ``loguniform(LO,HI)``,
        ``normal(MEAN,SD)``, ``lognormal(MU,SIGMA)`` with mean and deviation of the logarithm, or
        ``lognormal(median=...,sigma=...)``. Values that the model cannot take, such as a negative
        rate constant, have the likelihood 0.
    n
        Particles of a filter.
    steps, warm_up
        Steps of the chain that are kept, and those before them, in which the proposal adapts.
    chains
        How many; arrays of the result then have the chain first. By default one.
    seed
        Of chain and filters.
    start
        Values to begin with, one for all chains or ``[chain]``; by default the middle of each
        prior.
    proposal
        Standard deviations of the first steps, on the scale of the logarithm where the prior is
        ``loguniform`` or ``lognormal``.
    checkpoint, checkpoint_every
        As of `tauslab.particle_filter`, after a step. More `steps` than before make it longer.

    Returns
    -------
    A `Chain`.

    Raises
    ------
    ModelError, ConfigError
        The model, the data, a prior or an option is not allowed, or the chain cannot start.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> data = {"time": [0.5, 1.0], "X": [60, 38]}
    >>> chain = ts.pmmh(
    ...     net,
    ...     data,
    ...     {"k": "loguniform(0.1,10)"},
    ...     observe={"X": "normal(sd=2)"},
    ...     n=50,
    ...     steps=100,
    ...     warm_up=50,
    ...     device="cpu",
    ... )
    >>> chain["k"].shape
    (100,)
    """
    network = model_of(model, "ts.pmmh")
    laws = {name: Prior.parse(f"prior of {name}", text) for name, text in priors.items()}
    count = 1 if chains is None else whole(chains)
    steps, warm_up, n = whole(steps), whole(warm_up), whole(n)
    for name, size, least in (("steps", steps, 2), ("warm_up", warm_up, 0), ("n", n, 1)):
        within(name, size, least, 10**9)
    within("chains", count, 1, 10**6)
    places = 2 * (steps + warm_up) * (8 * len(laws) + 9)  # with likelihoods, and the result
    states = n * (64 + 24 * (len(network.species) + len(laws))) + _CHAIN_BYTES
    require_memory(
        count * (places + states),
        f"chains={count} with steps={steps}, warm_up={warm_up} and n={n}",
    )
    if proposal is not None and np.shape(proposal) != (len(laws),):
        raise ConfigError(f"proposal= must have one number per prior ({len(laws)})")
    _require_parameters(network, laws, start or {}, count)
    rows, whole_seed = Observations(data, observe), seed_of(seed)
    ranks = ranks_of(
        comm, "ts.pmmh", model=network, data=rows.digest(), priors=priors, seed=seed, n=n,
        steps=steps, warm_up=warm_up, chains=count, start=start, proposal=proposal, initial=initial,
        method=method, checkpoint=checkpoint,
    )  # fmt: skip
    digest = b""
    if checkpoint is not None:
        digest = digest_of(
            _text_of(network), rows.digest(), laws, n, warm_up, count, whole_seed,
            {k: np.asarray(v, np.float64) for k, v in (start or {}).items()},
            None if proposal is None else np.asarray(proposal, np.float64),
            _said(initial), repr(method), *_named_numbers(laws),
        )  # fmt: skip
    what = "file of chains, which ts.pmmh writes"
    file = Checkpoint(checkpoint, checkpoint_every, digest, ranks, "chains", what)
    middle = {name: np.full(count * n, law.value(law.start())) for name, law in laws.items()}
    with file.held(), Ensemble(
        network, count * n, seed=0, device=device, parameters=middle, initial=initial,
        method=method, comm=ranks,
    ) as particles:  # fmt: skip
        particles.in_groups(n)
        course = Course(particles, rows, count=count, states=False)

        likelihood = _Likelihood(network, rows, particles, course, count, whole_seed)
        walk = Walk(
            laws, likelihood, chains=count, steps=steps, warm_up=warm_up, seed=whole_seed,
            start=start or {}, proposal=proposal,
        )  # fmt: skip
        if kept := file.take_up():
            particles.go_on_by(kept.text("solver"))
            walk.go_on(kept)
        else:
            walk.begin()

        def kept_now() -> dict[str, Any]:
            return {**walk.kept(), "solver": np.bytes_(particles.solver)}

        walk.run(lambda: file.save(kept_now, last=walk.step == steps + warm_up))
        values, logs, moved = walk.result()
    if chains is None:
        values, logs, moved = values[0], logs[0], moved[0]
    return Chain(tuple(laws), values, logs, moved)


class _Likelihood:
    """Log-likelihoods ``[chain]`` by filters, -inf at values that the model or a noise cannot take.

    Called with values ``[chain]`` by name and the number of the step; at the start, step 0, such
    values are errors.
    """

    def __init__(
        self,
        network: Network | Lattice,
        rows: Observations,
        particles: Ensemble,
        course: Course,
        chains: int,
        seed: int,
    ) -> None:
        self._network, self._rows, self._seed = network, rows, seed
        self._particles, self._course, self._chains = particles, course, chains

    def __call__(self, values: Mapping[str, FloatArray], step: int) -> FloatArray:
        good = np.ones(self._chains, bool)
        try:
            constants = self._begin(values, step)
        except (ModelError, ConfigError):
            good = np.array([self._allows(values, chain) for chain in range(self._chains)])
            if step == 0 or good.all():
                raise
            if not good.any():
                return np.full(self._chains, -np.inf)
            one = int(np.argmax(good))  # in place of the others, whose filters are not looked at
            values = {k: np.where(good, v, v[one]) for k, v in values.items()}
            constants = self._begin(values, step)
        self._course.begin()
        return np.where(good, self._course.run(constants).log_likelihood, -np.inf)

    def _begin(self, values: Mapping[str, FloatArray], step: int) -> dict[str, Any]:
        """Put particles at the start with these values; what noises take of them."""
        word = int(words(self._seed, _FILTER_SEEDS, step, 1)[0])
        each = {k: np.repeat(v, self._particles.n // self._chains) for k, v in values.items()}
        self._particles.reset(seed=word, parameters=each)
        constants = _constants(self._network, each, self._rows)
        self._rows.check(constants)
        return constants

    def _allows(self, values: Mapping[str, FloatArray], chain: int) -> bool:
        try:
            self._begin({k: np.full(self._chains, v[chain]) for k, v in values.items()}, 0)
        except (ModelError, ConfigError):
            return False
        return True


def _named_numbers(laws: Mapping[str, Prior]) -> set[str]:
    """What parts ``lognormal`` from that of older checkpoints, whose first number is a median."""
    return {"lognormal(mu, sigma)" for law in laws.values() if law.kind == "lognormal"}


def _require_parameters(
    network: Network | Lattice, laws: Mapping[str, Prior], start: Mapping[str, Any], chains: int
) -> None:
    """Refuse names without a prior or a parameter, and starts of another number of chains."""
    for name in (*laws, *start):
        if name not in network.parameters or name not in laws:
            raise ConfigError(f"{name!r} is no parameter of {network.name} with a prior")
    if not laws:
        raise ConfigError("priors= names no parameter: there is nothing to draw")
    for name, given in start.items():
        if np.shape(given) not in ((), (chains,)):
            raise ConfigError(f"start {name}: one value, or one per chain ({chains})")


def _said(initial: Mapping[str, StartLaw] | None) -> dict[str, Any]:
    """Laws of initial counts as a digest takes them."""
    return {k: v if isinstance(v, str) else np.asarray(v) for k, v in (initial or {}).items()}


def _constants(
    network: Network | Lattice, given: Mapping[str, Any], data: Observations
) -> dict[str, Any]:
    """Values of all parameters that the model can tell, and those that are given.

    Parameters of noises that follow from others have a value for each particle, where those do.
    """
    held = {name: value for name, value in given.items() if name in network.parameters}
    first = {name: float(np.asarray(value, np.float64).flat[0]) for name, value in held.items()}
    found: dict[str, Any] = {**_parameter_values(network, first), **given}
    arrays = {name: value for name, value in held.items() if np.ndim(value)}
    followers = [name for name in data.constants if name in network.parameters and name not in held]
    if not arrays or not followers:
        return found
    table = np.stack([np.asarray(value, np.float64) for value in arrays.values()], axis=1)
    unique, which = np.unique(table, axis=0, return_inverse=True)
    values = [
        _parameter_values(network, {**first, **dict(zip(arrays, row, strict=True))})
        for row in unique.tolist()
    ]
    for name in followers:
        found[name] = np.array([value[name] for value in values])[which.ravel()]
    return found


def _parameter_values(model: Network | Lattice, given: Mapping[str, float]) -> dict[str, float]:
    """Values of all parameters, where some are given."""
    if isinstance(model, Network):
        return model.parameter_values(given)
    return dict(lattice_values(model, given).parameters)


def _text_of(model: Network | Lattice) -> str:
    """All that the model says, in its normal form."""
    return canonical_text(model) if isinstance(model, Network) else lattice_canonical_text(model)
