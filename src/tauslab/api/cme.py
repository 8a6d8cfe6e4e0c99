"""`tauslab.cme`: the chemical master equation of a small network."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.cme.keywords import CmeKeywords
from tauslab.analysis.cme.result import CmeResult
from tauslab.analysis.cme.solve import solve
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.errors import ConfigError
from tauslab.base.unknown import checks_keywords
from tauslab.model.network.network import Network
from tauslab.options.python_values import one_number_each
from tauslab.options.values.sample_times import sample_times


@checks_keywords
@takes(CmeKeywords)
def cme(
    model: Network | str | os.PathLike[str], times: npt.ArrayLike | None = None, **options: Any
) -> CmeResult:
    """Solve the chemical master equation by finite state projection, with a rigorous error bound.

    Munsky and Khammash, J. Chem. Phys. 124, 044104 (2006); uniformisation of Jensen (1953). The
    computation is deterministic.

    Parameters
    ----------
    model
        A network, or a model file, that ``ssa`` can run.
    times
        One time or several ``[time]``, increasing, of 0 or more, in the model's unit; instead of
        `t_end` and `points`.
    {options}

    Returns
    -------
    A `CmeResult`: distributions, moments, probabilities of conditions, likelihood of snapshots.

    Raises
    ------
    ModelError
        The model cannot be run by ``ssa``, or reaches states where a propensity is negative or
        undefined.
    ConfigError
        An argument is not allowed, there are too many states, or the calculation would take too
        long.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X")
    >>> net.add_reaction("-> X", rate=2.0)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> exact = ts.cme(net, 5.0)
    >>> bool(exact.bound[0] < 1e-8), round(float(exact.mean("X")[0]), 6)
    (True, 1.986524)
    """
    network = network_of(model, "ts.cme")
    given = chosen(CmeKeywords, {"times": times, **options}, "cme")
    values = one_number_each("set", given.set, "a master equation has no trajectories")
    if math.inf in np.ravel(np.asarray(times, object)).tolist():
        raise ConfigError(
            "a time must be finite: for a stationary distribution give a time after which "
            "probabilities no longer change, such as 30 over the slowest rate constant"
        )
    at = sample_times(times, given.t_end, given.points, model_t_end=network.t_end)
    return solve(network, at, values, given)
