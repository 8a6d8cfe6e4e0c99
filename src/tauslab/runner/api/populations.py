"""Growing, dividing cells: `tauslab.population`."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError, one_of
from tauslab.model.network.diagnosis.events import begins_true
from tauslab.model.network.network import Network
from tauslab.model.option_names import warn
from tauslab.runner.api.cme import network_of
from tauslab.runner.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.runner.options.methods import SSA
from tauslab.runner.options.places import Device, device_settings
from tauslab.runner.options.values.checks import within
from tauslab.runner.options.values.python_values import numbers, whole
from tauslab.runner.options.values.sample_times import sample_times
from tauslab.runner.options.values.start_laws import StartLaw, start_laws
from tauslab.runner.options.values.unknown import checks_keywords
from tauslab.runner.populations.division import Division, Fraction
from tauslab.runner.populations.growth import Population
from tauslab.runner.populations.result import PopulationResult
from tauslab.runner.ranks.all_ranks import Comm, ranks_of
from tauslab.runner.ranks.job import agreed_seed

_FOLLOW = ("population", "tree", "lineage")


@checks_keywords
def population(  # noqa: PLR0913 - keywords
    model: Network | str | os.PathLike[str],
    times: npt.ArrayLike,
    *,
    division: str,
    cells: int = 1000,
    follow: str = "population",
    partition: Mapping[str, str] | None = None,
    fraction: float | str = 0.5,
    most: int = 100_000,
    parameters: Mapping[str, float | npt.ArrayLike] | None = None,
    initial: Mapping[str, StartLaw] | None = None,
    seed: int | None = None,
    device: Device = "auto",
    max_steps: int | None = None,
    comm: Comm = "world",
) -> PopulationResult:
    """Simulate cells that grow and divide, exactly, each by the model of one cell.

    The model says what a cell does and when it divides: an event, for instance where a volume with
    a rate rule reaches a size, or a species that a reaction makes. At the event a cell becomes two;
    its species are shared as `partition` says. The same seed gives the same bits on any device and
    on any number of ranks.

    Parameters
    ----------
    model
        A network, or a model file, of one cell, that ``ssa`` can run.
    times
        When to look at all cells, one time or ``[time]``, increasing, of 0 or more.
    division
        Name of the event that divides a cell, after it has set what it sets.
    cells
        Cells at the start.
    follow
        ``population``: both daughters; where there are more than twice as many cells as at the
        start, and after each time, `cells` of them are kept by chance, all alike, so that the rest
        has the law of the whole. ``tree``: both daughters and nothing is given up. ``lineage``: one
        daughter by chance, as in a mother machine.
    partition
        By species. Of counts: ``binomial``, each molecule goes to the first daughter with the
        probability `fraction`; ``even``, half and half, an odd one to either; ``copy``, both have
        all; ``first``, the first has all. Of quantities: ``share``, by `fraction`; ``copy``;
        ``first``. By default counts are ``binomial``, quantities with a rate rule ``share``, others
        are copied.
    fraction
        Part of the first daughter: a number, or ``"uniform(LO,HI)"``, drawn at each division.
    most
        Cells of a tree at most.
    parameters
        Values of parameters and initial amounts by name: one for all cells, or an array ``[cell]``;
        daughters inherit them.
    initial, seed, device, max_steps, comm
        As of `tauslab.Ensemble`.

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
    ranks = ranks_of(
        comm, "ts.population", model=model, times=times, division=division, cells=cells,
        follow=follow, partition=partition, fraction=fraction, most=most, parameters=parameters,
        initial=initial, seed=seed, max_steps=max_steps,
    )  # fmt: skip
    network = network_of(model, "ts.population")
    one_of("follow", follow, _FOLLOW)
    within("cells", whole(cells), 1, MOST_TRAJECTORIES // 4)
    within("most", whole(most), 1, MOST_TRAJECTORIES // 4)
    dividing = Division(network, division, partition or {})
    laws = start_laws(initial, network)
    steps = {} if max_steps is None else {"max_steps": whole(max_steps)}
    rows = {name: numbers(name, value) for name, value in (parameters or {}).items()}
    for name, row in rows.items():
        if np.shape(row) not in ((), (cells,)):
            raise ConfigError(f"parameters {name}: one value, or one per cell ({cells})")
    if not laws and all(np.ndim(row) == 0 for row in rows.values()):
        own = {name: float(row) for name, row in rows.items() if name in network.parameters}
        if begins_true(network, division, network.parameter_values(own)):
            warn(
                f"cells begin with the trigger of {division} true, and it comes when it turns "
                "true: it must be false first, or have initial=False"
            )
    looks = sample_times(times)
    options = Options(
        times=np.zeros(1), n=whole(cells), seed=agreed_seed(seed, lambda: None, ranks), set=rows,
        method=SSA(), **device_settings(device), **steps,
    )  # fmt: skip
    grown = Population(
        dividing, options, rows, fraction=Fraction.parse(fraction), follow=follow, most=most,
        laws=laws, comm=ranks,
    )  # fmt: skip
    try:
        return grown.run(looks.tolist())
    finally:
        grown.close()
