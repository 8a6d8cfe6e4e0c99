"""``tauslab run --cross-check``: the ensemble against the master equation of its model."""

from __future__ import annotations

import numpy as np

from tauslab.analysis.cme.compare import (
    FEWEST_EXPECTED,
    Comparison,
    compare,
    times_to_compare,
    verdict,
)
from tauslab.analysis.cme.solve import solve
from tauslab.base.errors import ConfigError, LawsDiffer, ModelError
from tauslab.base.option_names import assigned
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.store.results.result import Result

_MOST_SECONDS = 60.0
_MOST_STATES = 100_000


def cross_check(network: Network, options: Options, result: Result) -> str:
    """What a comparison says, or why there is none.

    Raises
    ------
    LawsDiffer
        Exact trajectories do not have the law. Those of leaps need not: the difference is told.
    """
    try:
        found = _compared(network, options, result)
    except (ConfigError, ModelError) as error:
        return f"not cross-checked: {error}"
    good, lines = verdict(found)
    if not good and str(result.attributes["method"]) == "ssa":
        raise LawsDiffer("; ".join(line.strip() for line in lines))
    return "\n".join([f"cross-check: {lines[0]}", *lines[1:]])


def _compared(network: Network, options: Options, result: Result) -> list[Comparison]:
    if result.continuous or result.swept:
        raise ConfigError("that is for counts of one point, not for equations or a sweep")
    if result.n < 2 * FEWEST_EXPECTED:  # all of them would lie in one bin, whatever their law
        raise ConfigError(
            f"{result.n} trajectories are too few to be compared: give {2 * FEWEST_EXPECTED:g} or "
            f"more, {assigned('n')}1000 for example"
        )
    for name, value in options.set.items():
        if np.ndim(value):
            raise ConfigError(f"{name} differs between trajectories")
    values = {name: float(np.asarray(value)) for name, value in options.set.items()}
    law = solve(
        network, times_to_compare(result), values, {}, tolerance=1e-8, max_states=_MOST_STATES,
        max_seconds=_MOST_SECONDS,
    )  # fmt: skip
    return compare(law, result)
