"""Rare events: `tauslab.weighted_ensemble`."""

from __future__ import annotations

import os
from typing import Any

from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import WeightedKeywords
from tauslab.analysis.rare.run import run_weighted
from tauslab.analysis.rare.spatial import run_spatial
from tauslab.api.model_reading import model_of
from tauslab.api.typed import chosen, takes
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.store.locks import writing_result


@takes(WeightedKeywords)
def weighted_ensemble(
    model: Network | Lattice | str | os.PathLike[str], **options: Any
) -> RareResult:
    """Estimate the probability of reaching a target by a time, or the steady rate of reaching it.

    The weighted ensemble method (Huber and Kim, Biophys. J. 70, 97 (1996)): walkers whose weights
    sum to 1 are simulated exactly. After each round, walkers are copied and removed so that every
    bin of the coordinate has the same number, without changing expected weights. The estimate is
    unbiased for any bins. The same seed gives the same bits on any device and number of ranks.

    Parameters
    ----------
    model
        A network, or a model file, for ``ssa``, without events, delays and time-dependent rates. Or
        a small lattice: target and coordinate read particles of a species, ``A``, or in sites of a
        type, ``A_in_membrane``.
    {options}

    Returns
    -------
    A `RareResult`.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed, or the coordinate is no number in some state.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X", 20)
    >>> net.add_reaction("-> X", rate=10.0)
    >>> net.add_reaction("X ->", rate=0.5)
    >>> found = ts.weighted_ensemble(net, target="X >= 48", t_end=10, seed=1, device="cpu")
    >>> abs(found.estimate - 4.2957e-6) < 3 * found.standard_error < 4e-7
    True
    """
    given = chosen(WeightedKeywords, options, "weighted_ensemble")
    ranks = ranks_of(given.comm, "ts.weighted_ensemble", model=model, **options)
    with writing_result(given.output, ranks) as write:
        checked = model_of(model, "ts.weighted_ensemble")
        if isinstance(checked, Lattice):
            result = run_spatial(checked, given, ranks)
        else:
            result = run_weighted(checked, given, ranks)
        write(lambda path: result.save(path, overwrite=True))
    return result
