"""Conversion of arguments of inference: values, texts, initial counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tauslab.analysis.filters.observing import Observations
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.values import lattice_values
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.counts import no_parameter
from tauslab.model.network.network import Network
from tauslab.options.places import Name
from tauslab.options.values.checks import by_name
from tauslab.options.values.initial_counts import InitialCount
from tauslab.options.values.priors import Prior
from tauslab.store.format.schema import STATUS_NAMES


def search_seed(given: int | None, checkpoint: Name | None, ranks: Communicator) -> int:
    """The seed that is given, or one drawn on rank 0. Collective.

    Raises
    ------
    ConfigError
        There is a checkpoint, which only a call with the same seed continues, and no seed.
    """
    if given is None and checkpoint is not None:
        raise ConfigError(
            f"{opt('checkpoint')} needs {opt('seed')}: another seed would begin another search"
        )
    return agreed_seed(given, lambda: None, ranks)


def initial_for_digest(initial: Mapping[str, InitialCount] | None) -> dict[str, Any]:
    """Distributions of initial counts as a digest takes them."""
    return {
        k: v if isinstance(v, str) else np.asarray(v)
        for k, v in by_name("initial", initial).items()
    }


def constants_of(
    network: Network | Lattice, given: Mapping[str, Any], data: Observations
) -> dict[str, Any]:
    """Values of all parameters of the model, and given values.

    A parameter of a noise that follows from others has a value for each particle, where one of
    them has.
    """
    held = {name: value for name, value in given.items() if name in network.parameters}
    first = {name: float(np.asarray(value, np.float64).flat[0]) for name, value in held.items()}
    result: dict[str, Any] = {**_parameter_values(network, first), **given}
    arrays = {name: value for name, value in held.items() if np.ndim(value)}
    followers = [name for name in data.constants if name in network.parameters and name not in held]
    if not arrays or not followers:
        return result
    table = np.stack([np.asarray(value, np.float64) for value in arrays.values()], axis=1)
    unique, which = np.unique(table, axis=0, return_inverse=True)
    values = [
        _parameter_values(network, {**first, **dict(zip(arrays, row, strict=True))})
        for row in unique.tolist()
    ]
    for name in followers:
        result[name] = np.array([value[name] for value in values])[which.ravel()]
    return result


def _parameter_values(model: Network | Lattice, given: Mapping[str, float]) -> dict[str, float]:
    """Values of all parameters, where some are given."""
    if isinstance(model, Network):
        return model.parameter_values(given)
    return dict(lattice_values(model, given).parameters)


def priors_of(priors: Mapping[str, str]) -> dict[str, Prior]:
    """Priors by name, read from their texts.

    Raises
    ------
    ConfigError
        They are no texts by name, or a text is no prior.
    """
    if not isinstance(priors, Mapping):
        raise ConfigError(
            f"priors= is a {type(priors).__name__}, where texts by name are expected, such as "
            '{"k": "uniform(0,1)"}'
        )
    return {name: Prior.parse(f"prior of {name}", text) for name, text in priors.items()}


def text_of(model: Network | Lattice) -> str:
    """All that the model says, in its normal form."""
    return canonical_text(model) if isinstance(model, Network) else lattice_canonical_text(model)


def require_parameters(
    model: Network | Lattice, priors: Mapping[str, Prior], start: Collection[str] = ()
) -> None:
    """Refuse names without a prior or a parameter.

    Raises
    ------
    ConfigError
        There is such a name, or no prior.
    """
    for name in (*priors, *start):
        if name not in model.parameters or name not in priors:
            changed = model.set_by_events() if isinstance(model, Network) else ()
            why = no_parameter(name, model.species, changed)
            raise ConfigError(f"{name!r} is no parameter of {model.name} with a prior{why}")
    if not priors:
        raise ConfigError("priors= names no parameter: there is nothing to draw")


def limit_for_digest(max_steps: int | None) -> list[int]:
    """A limit of steps for the digest of a call; without one, digests of older files still hold."""
    return [] if max_steps is None else [max_steps]


def warn_of_ended(ended: Mapping[int, int], *, overflow: bool = True) -> None:
    """Warn of particles of filters that ended, by status; those of status overflow if asked."""
    each = {
        STATUS_NAMES[status]: number
        for status, number in ended.items()
        if overflow or STATUS_NAMES[status] in {"nan", "step_limit"}
    }
    if each:
        numbers = ", ".join(f"{number} with status {name}" for name, number in each.items())
        warn(
            f"particles ended before a row of the data: {numbers}; each has weight 0 from then on, "
            "so likelihoods are too small, and means are of the other particles"
        )
