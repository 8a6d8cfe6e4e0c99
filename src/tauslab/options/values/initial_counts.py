"""Distributions of initial counts: ``poisson(50)``, ``uniform(0,10)``, or a probability each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.expression import substitute, symbols
from tauslab.model.expressions.host_math import value_of
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.options.values.checks import by_name

InitialCount = str | npt.ArrayLike
_FORM = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*\Z")
_TAIL = 1e-17
_MOST = 10_000_000  # largest count of a distribution


def require_one_of_two(drawn: Iterable[str], values: Collection[str]) -> None:
    """Refuse species whose initial counts are `drawn` and that also have one of `values`."""
    for name in drawn:
        if name in values:
            raise ConfigError(f"initial {name}: {name} is also given one amount: choose one")


def initial_distributions(
    given: Mapping[str, InitialCount] | None,
    network: Network | Lattice,
    values: Collection[str] = (),
) -> dict[str, FloatArray]:
    """Probabilities ``[count]`` of the initial count of each species that is given.

    `values` are names of parameters and species that have values, in place of the model's.

    Raises
    ------
    ConfigError
        A name that is no species, that has a value or that holds no count, or a distribution that
        is none; or another initial amount is computed from that species.
    """
    result = {}
    for name, one in by_name("initial", given).items():
        if name not in network.species:
            known = some(dict.fromkeys(network.species))
            raise ConfigError(f"initial {name}: not a species of {network.name}; it has {known}")
        if isinstance(network, Network) and network.species[name].fixed:
            raise ConfigError(f"initial {name}: a fixed species has one amount alone")
        if isinstance(network, Network) and name in network.real_species():
            raise ConfigError(f"initial {name}: it is a quantity, not a count")
        require_one_of_two([name], values)
        result[name] = _of_text(name, one) if isinstance(one, str) else _of_numbers(name, one)
    if result and isinstance(network, Network):
        _require_independent(result.keys(), network, {*result, *values})
    return result


def _require_independent(drawn: Collection[str], network: Network, given: Collection[str]) -> None:
    """Refuse initial amounts, but those `given`, that would not follow a drawn count.

    Kernels compute those that the model draws, and those that follow from them, so these follow.
    """
    rules, follow = network.rule_expressions(), {*given, *network.drawn_amounts()}
    reads = {
        f"the initial amount of {name}": symbols(substitute(species.initial, rules))
        for name, species in network.species.items()
        if name not in follow
    }
    reads |= {name: used for name, used in network.read_at_start.items() if name not in follow}
    for what, names in reads.items():
        if used := names & set(drawn):
            raise ConfigError(
                f"initial {min(used)}: {what} is computed from it and would not follow: give "
                f"{what.split()[-1]} too"
            )


def _of_numbers(name: str, given: npt.ArrayLike) -> FloatArray:
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim != 1 or not values.size or not (values >= 0).all():
        raise ConfigError(
            f'initial {name}: a distribution is a text such as "poisson(50)", or a list of '
            "probabilities of the counts 0, 1, ..."
        )
    if not abs(float(values.sum()) - 1) < 1e-6:
        raise ConfigError(f"initial {name}: its probabilities sum to {values.sum():g}, not to 1")
    return values


def _of_text(name: str, text: str) -> FloatArray:
    result = _FORM.match(text)
    kind = result[1] if result else ""
    try:
        values = [float(part) for part in result[2].split(",")] if result else []
    except ValueError:
        values = []
    if kind == "poisson" and len(values) == 1 and 0 <= values[0] <= _MOST / 2:
        return _poisson(values[0])
    if kind == "uniform" and len(values) == 2:
        low, high = values
        if low.is_integer() and high.is_integer() and 0 <= low <= high <= _MOST:
            chances = np.zeros(int(high) + 1)
            chances[int(low) :] = 1 / (high - low + 1)
            return chances
    raise ConfigError(
        f"initial {name}: {text!r} is not known; allowed are poisson(MEAN) and uniform(LO,HI) with "
        "whole numbers of 0 or more, and lists of probabilities"
    )


def _poisson(mean: float) -> FloatArray:
    """Poisson probabilities up to where less than `_TAIL` is left, with the same bits anywhere."""
    if mean == 0:
        return np.ones(1)
    mode = int(mean)
    reach = int(10 * value_of("sqrt", mean + 10.0) + 30)
    below = np.arange(mode, 0, -1) / mean
    above = mean / np.arange(mode + 1, mode + reach)
    weights = np.concatenate([np.cumprod(below)[::-1], [1.0], np.cumprod(above)])
    chances: FloatArray = weights / np.cumsum(weights)[-1]
    chances[chances < _TAIL / 100] = 0.0
    return chances
