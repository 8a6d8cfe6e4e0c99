"""`tauslab.cme`: the chemical master equation of a small network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tauslab.analysis.cme.keywords import CmeKeywords
from tauslab.analysis.cme.result import CmeResult
from tauslab.analysis.cme.solve import solve
from tauslab.api.typed import chosen, takes
from tauslab.base.errors import ConfigError
from tauslab.formats import read as readers
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.python_values import one_number_each
from tauslab.options.values.sample_times import sample_times


@takes(CmeKeywords)
def cme(model: Network | str | os.PathLike[str], times: npt.ArrayLike, **options: Any) -> CmeResult:
    """Solve the chemical master equation by finite state projection, with a proved error bound.

    Munsky and Khammash, J. Chem. Phys. 124, 044104 (2006); uniformisation of Jensen (1953). Needs
    SciPy (``pip install "tauslab[cme]"``). No random number decides a law.

    Parameters
    ----------
    model
        A network, or a model file, that ``ssa`` can run.
    times
        One time or several ``[time]``, increasing, of 0 or more, in the model's unit.
    {options}

    Returns
    -------
    A `CmeResult`: laws, moments, probabilities of conditions, likelihood of snapshots.

    Raises
    ------
    ModelError
        The model cannot be run by ``ssa``, or comes into states where a propensity is negative or
        not a number.
    ConfigError
        An argument is not allowed, more states are needed than there may be, or rates differ so
        much that it would take hours; SciPy is missing.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("immigration")
    >>> net.add_species("X")
    >>> net.add_reaction("-> X", rate=2.0)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> law = ts.cme(net, 5.0)
    >>> bool(law.bound[0] < 1e-8), round(float(law.mean("X")[0]), 6)
    (True, 1.986524)
    """
    network = network_of(model, "ts.cme")
    given = chosen(CmeKeywords, {"times": times, **options}, "cme")
    values = one_number_each("set", given.set, "a law has no trajectories")
    return solve(network, sample_times(times), values, given)


def network_of(model: Network | str | os.PathLike[str], what: str) -> Network:
    """The network that is given, or in the file.

    Raises
    ------
    ConfigError
        It is neither.
    """
    if isinstance(model, Network):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"{what} takes a network or its file, not {model!r:.80}")
    return readers.read_network(Path(model))


def model_of(model: Network | Lattice | str | os.PathLike[str], what: str) -> Network | Lattice:
    """The network or lattice that is given, or in the file.

    Raises
    ------
    ConfigError
        It is neither.
    """
    if isinstance(model, Network | Lattice):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"{what} takes a network, a lattice or a file, not {model!r:.80}")
    return readers.read(Path(model))
