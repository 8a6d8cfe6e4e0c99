"""Initial amounts of a run: the last states of another one, or a table."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, warn
from tauslab.model.network.network import Network
from tauslab.options.python_values import numbers
from tauslab.options.sweep import column_of
from tauslab.options.values.texts import some
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result


def initial_amounts(
    network: Network, initial: Any, known: Collection[str] = (), seed: int | None = None
) -> dict[str, float | FloatArray]:
    """Initial amounts by species, each a number or ``[trajectory]``.

    Warns if the result was made with the `seed` of the new run, which would repeat its noise, and
    if delayed reactions or events may be pending, which a state does not hold.

    Parameters
    ----------
    initial
        A `Result` or its path, whose last states are taken; or a mapping or a data frame with a
        column per species.
    known
        Names that are set, which replace last states, but no amounts of a table.

    Raises
    ------
    ConfigError
        A species that the network or the result lacks, amounts of a table that are also set, a
        sweep, trajectories that ended early, or another kind of value.
    """
    if isinstance(initial, str | os.PathLike):
        with open_result(Path(initial)) as opened:
            return _last_states(network, opened, seed)
    if isinstance(initial, Result):
        return _last_states(network, initial, seed)
    if isinstance(initial, Mapping) or (hasattr(initial, "columns") and hasattr(initial, "keys")):
        table = {str(name): numbers(str(name), initial[name]) for name in initial.keys()}  # noqa: SIM118 - a data frame
        for name in table:
            if name not in network.species:
                raise ConfigError(
                    f"{opt('initial', key=name)}: not a species of {network.name}; it has "
                    f"{some(network.species)}"
                )
            if name in known:
                raise ConfigError(f"{opt('initial', key=name)}: {name} is also set: choose one")
        require_followed(network, table, {*table, *known}, "initial")
        return table
    raise ConfigError(
        f"{opt('initial')} takes a result, its path or amounts by species, not "
        f"{type(initial).__name__}"
    )


def require_followed(
    network: Network, names: Collection[str], given: Collection[str], option: str = "set"
) -> None:
    """Refuse initial amounts of `names` from which a file computes parameters that are not `given`.

    Raises
    ------
    ConfigError
        The parameter would keep the value that follows from the amount of the file.
    """
    for parameter, used in network.read_at_start.items():
        if parameter not in given and (moved := used & set(names)):
            raise ConfigError(
                f"{column_of(option, min(moved))}: the model computes {parameter} from the initial "
                f"amount of {min(moved)}, and it would not follow: give {parameter} too"
            )


def _last_states(
    network: Network, result: Result, seed: int | None
) -> dict[str, float | FloatArray]:
    """Amounts ``[trajectory]`` at the last sample time of a result; of fixed species none."""
    what = f"{result.name}, given as {opt('initial')},"
    if not isinstance(result, Result) or not result.complete:
        raise ConfigError(f"{what} is not the finished result of a network")
    if result.swept:
        raise ConfigError(f"{what} is a sweep: initial states come from a run without one")
    fixed = network.constant_species()
    recorded = {*result.species, *result.observables}
    missing = [name for name in network.species if name not in recorded and name not in fixed]
    if missing:
        raise ConfigError(f"{what} has no last amounts of {some(missing)}")
    amounts: dict[str, float | FloatArray] = {}
    for name in (name for name in network.species if name in recorded):
        last = result.final(name) if name in result.species else result[name][..., -1]
        amounts[name] = np.asarray(last, np.float64)
        # Of a trajectory that ended early counts are below 0, which equations may reach.
        least = 0.0 if name in result.species and not result.continuous else -np.inf
        if not (np.isfinite(last) & (np.asarray(last) >= least)).all():
            raise ConfigError(f"{what} has trajectories that ended early, without a last state")
    if seed is not None and seed == result.seed and not result.continuous:
        warn(
            f"{what} was run with the same seed, {seed}: the new trajectories repeat its random "
            "numbers and are correlated with it; give another seed"
        )
    each = (*network.reactions, *network.events)
    waiting = [one.name for one in each if getattr(one, "delay", None) is not None]
    if waiting:
        warn(
            f"{what} does not hold delayed reactions and events that are still pending "
            f"({some(waiting)}): their changes are missing; {opt('extend')} keeps them"
        )
    if past := [one.element for one in network.features if one.kind == "delay"]:
        warn(
            f"{what} does not hold earlier values, which delays in formulas read ({some(past)}): "
            f"its last values stand in for them; {opt('extend')} keeps them"
        )
    return amounts
