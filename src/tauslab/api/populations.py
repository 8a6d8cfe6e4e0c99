"""Growing, dividing cells: `tauslab.population`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.populations.division import Division
from tauslab.analysis.populations.growth import GrowingCells
from tauslab.analysis.populations.keywords import FOLLOW, PopulationKeywords
from tauslab.analysis.populations.result import PopulationResult
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import opt, warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.job import agreed_seed, devices
from tauslab.model.network.diagnosis.events import begins_true
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import SSA
from tauslab.options.places import device_settings
from tauslab.options.python_values import numbers_by_name
from tauslab.options.values.definition import check_values
from tauslab.options.values.initial_counts import initial_distributions
from tauslab.options.values.sample_times import sample_times
from tauslab.runner.ensemble.initial import require_followed


@checks_keywords
@takes(PopulationKeywords)
def population(
    model: Network | str | os.PathLike[str], times: npt.ArrayLike | None = None, **options: Any
) -> PopulationResult:
    """Simulate cells that grow and divide, each exactly.

    An event of the model of one cell divides the cell, and `partition` its species
    (docs/populations.md).

    Parameters
    ----------
    model
        A network, or a model file, of one cell, that ``ssa`` can run.
    times
        Times of snapshots, one or several ``[time]``, increasing, of 0 or more; instead of `t_end`
        and `points`.
    {options}

    Returns
    -------
    A `PopulationResult`: snapshots of all cells, divisions, statistics of generations.

    Raises
    ------
    ModelError, ConfigError
        The model or an argument is not allowed, a tree is too large, cells divide without end.
    DeviceError
        The device lacks memory.

    Examples
    --------
    >>> import tauslab as ts
    >>> cell = ts.Network("cell")
    >>> cell.add_species("X", 0)
    >>> cell.add_species("V", 1.0)
    >>> cell.add_rate("V", "0.5 * V")
    >>> cell.add_reaction("-> X", law="10 * V")
    >>> cell.add_event("divide", trigger="V >= 2")
    >>> found = ts.population(cell, [0, 2], division="divide", cells=50, seed=1, device="cpu")
    >>> len(found.snapshots[1]), len(found.divisions)
    (100, 50)
    """
    given = chosen(PopulationKeywords, {"times": times, **options}, "population")
    ranks = ranks_of(given.comm, "ts.population", **vars(given) | {"model": model})
    network = network_of(model, "ts.population")
    check_values(given)
    one_of("follow", given.follow, FOLLOW)
    if not given.division:
        events = ", ".join(one.name for one in network.events) or "none"
        raise ConfigError(
            f"{opt('division')} is missing: the event that divides a cell; {network.name} has "
            f"{events}"
        )
    dividing = Division(network, given.division, given.partition or {})
    steps: dict[str, Any] = {} if given.max_steps is None else {"max_steps": given.max_steps}
    rows = numbers_by_name("set", given.set)
    require_followed(network, rows, rows)
    initial = initial_distributions(given.initial, network, rows)
    for name, row in rows.items():
        if np.shape(row) not in ((), (given.cells,)):
            raise ConfigError(f"set {name}: one value, or one per cell ({given.cells})")
    if not initial and all(np.ndim(row) == 0 for row in rows.values()):
        own = {name: float(row) for name, row in rows.items() if name in network.parameters}
        if begins_true(network, given.division, network.parameter_values(own)):
            warn(
                f"the trigger of {given.division} is true in the initial cells, so they divide "
                "only after it was false; initial=False lets them divide at once"
            )
    looks = sample_times(
        given.times, given.t_end, given.points, model_t_end=network.t_end, decimal=True
    )
    settings = Options(
        times=np.zeros(1), n=given.cells, seed=agreed_seed(given.seed, lambda: None, ranks),
        set=rows, method=SSA(), **device_settings(given.device), **steps,
    )  # fmt: skip
    with devices(settings.device, settings.threads, ranks) as backend:
        cells = GrowingCells(dividing, settings, rows, given, initial, backend, ranks)
        return cells.run(looks.tolist())
