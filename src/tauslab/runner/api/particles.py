"""Models against time courses: `tauslab.particle_filter`, `exact_filter` and `pmmh`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.model.network.network import Network
from tauslab.runner.api.cme import network_of
from tauslab.runner.options.methods import Method, MethodWord
from tauslab.runner.options.places import Device
from tauslab.runner.options.values.checks import seed_of, within
from tauslab.runner.options.values.python_values import numbers
from tauslab.runner.options.values.spelling import speaks_python
from tauslab.runner.options.values.start_laws import StartLaw, start_laws
from tauslab.runner.particles.chains import Chain, Prior, walk
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.exact import exactly_filtered
from tauslab.runner.particles.filtering import (
    DEFAULT_THRESHOLD,
    FilterResult,
    check_threshold,
    filtered,
)
from tauslab.runner.particles.observing import Observations, Observe
from tauslab.runner.particles.weights import words

_FILTER_SEEDS = 8  # what words are drawn for, beside those of weights.py


@speaks_python
def particle_filter(  # noqa: PLR0913 - keywords
    model: Network | str | os.PathLike[str],
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
) -> FilterResult:
    """Estimate the likelihood of a time course, and the states behind it, with n particles.

    The bootstrap filter (Gordon, Salmond and Smith 1993): particles run freely to each row, are
    weighted by its density, and are copied by weight where few carry most of it. The estimate of
    the likelihood, not of its logarithm, has no bias. The same seed gives the same bits on any
    device and on any number of ranks.

    Parameters
    ----------
    model
        A network, or a model file, that ``ssa`` or ``tau`` can run.
    data
        Columns by name as a mapping or a data frame: ``time``, increasing and 0 or above, and what
        was seen; NaN where something is missing.
    observe
        For each column what is measured and its noise: ``{"X": "normal(sd=10)"}``, or
        ``{"gfp": ("X", "poisson(scale=0.3)")}`` where names differ. Noises are ``normal(sd)``,
        ``lognormal(sigma)`` (median x), ``poisson(scale, background)``, ``negative_binomial(size,
        scale)`` and ``binomial(p)``, each of x molecules seen with probability p; a parameter is a
        number, or the name of one of the model. Or a function ``(values, row, t)`` that gives a log
        density per particle: ``values("X")`` is an array ``[n]``, ``row["gfp"]`` a number.
    n, seed, device, parameters, initial, method
        As of `tauslab.Ensemble`.
    resample
        ``systematic``, ``stratified`` or ``multinomial``.
    threshold
        Particles are copied where their effective number is below this part of n; 1 always does.

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
    network = network_of(model, "ts.particle_filter")
    rows = Observations(data, observe)
    check_threshold(threshold)
    with Ensemble(
        network, n, seed=seed, device=device, parameters=parameters, initial=initial, method=method
    ) as particles:
        constants = _constants(network, parameters or {})
        return filtered(particles, rows, constants, scheme=resample, threshold=threshold)


@speaks_python
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


@speaks_python
def pmmh(  # noqa: PLR0913 - keywords
    model: Network | str | os.PathLike[str],
    data: Any,
    priors: Mapping[str, str],
    *,
    observe: Observe,
    n: int = 100,
    steps: int = 1000,
    warm_up: int = 500,
    seed: int = 0,
    start: Mapping[str, float] | None = None,
    proposal: npt.ArrayLike | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    device: Device = "auto",
    method: MethodWord | Method | None = None,
) -> Chain:
    """Draw parameters given a time course: particle marginal Metropolis-Hastings.

    Andrieu, Doucet and Holenstein (2010). Exact for any n; with few particles it moves seldom.

    Parameters
    ----------
    model, data, observe, initial, device, method
        As of `tauslab.particle_filter`.
    priors
        Of the parameters that are not known, by name: ``uniform(LO,HI)``, ``loguniform(LO,HI)``,
        ``normal(MEAN,SD)``, ``lognormal(MEDIAN,SIGMA)``.
    n
        Particles of a filter.
    steps, warm_up
        Steps of the chain that are kept, and those before them, in which the proposal adapts.
    seed
        Of chain and filters.
    start
        Values to begin with; by default the middle of each prior.
    proposal
        Standard deviations of the first steps, on the scale of the logarithm where the prior is
        ``loguniform`` or ``lognormal``.

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
    network = network_of(model, "ts.pmmh")
    laws = {name: Prior.parse(name, text) for name, text in priors.items()}
    for name in (*laws, *(start or {})):
        if name not in network.parameters or name not in laws:
            raise ConfigError(f"{name!r} is no parameter of {network.name} with a prior")
    if not laws:
        raise ConfigError("priors= names no parameter: there is nothing to draw")
    within("steps", steps, 2, 10**9)
    within("warm_up", warm_up, 0, 10**9)
    if proposal is not None and np.shape(proposal) != (len(laws),):
        raise ConfigError(f"proposal= must have one number per prior ({len(laws)})")
    rows, whole_seed = Observations(data, observe), seed_of(seed)
    middle = {name: np.full(n, law.value(law.start())) for name, law in laws.items()}
    with Ensemble(
        network, n, seed=0, device=device, parameters=middle, initial=initial, method=method
    ) as particles:

        def log_likelihood(values: Mapping[str, float], step: int) -> float:
            word = int(words(whole_seed, _FILTER_SEEDS, step, 1)[0])
            each = {name: np.full(n, value) for name, value in values.items()}
            particles.reset(seed=word, parameters=each)
            constants = _constants(network, values)
            return filtered(particles, rows, constants).log_likelihood

        return walk(
            laws, log_likelihood, steps=steps, warm_up=warm_up, seed=whole_seed,
            start=start or {}, proposal=proposal,
        )  # fmt: skip


def _constants(network: Network, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all parameters that the model can tell, and those that are given."""
    held = {
        name: float(np.asarray(value, np.float64).flat[0])
        for name, value in given.items()
        if name in network.parameters
    }
    return {**network.parameter_values(held), **given}
