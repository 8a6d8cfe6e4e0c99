"""`tauslab.cme`: the chemical master equation of a small network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy.typing as npt

from tauslab.analysis.cme.law import CmeResult
from tauslab.analysis.cme.solve import solve
from tauslab.base.errors import ConfigError
from tauslab.formats import read as readers
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.python_values import one_number_each
from tauslab.options.values.sample_times import sample_times
from tauslab.options.values.start_laws import StartLaw, start_laws
from tauslab.options.values.unknown import checks_keywords


@checks_keywords
def cme(
    model: Network | str | os.PathLike[str],
    times: npt.ArrayLike,
    *,
    set: Mapping[str, float] | None = None,  # noqa: A002 - as of `tauslab.run`
    initial: Mapping[str, StartLaw] | None = None,
    tolerance: float = 1e-8,
    max_states: int | None = None,
    max_seconds: float = 600.0,
) -> CmeResult:
    """Solve the chemical master equation by finite state projection, with a proved error bound.

    Munsky and Khammash, J. Chem. Phys. 124, 044104 (2006); uniformisation of Jensen (1953). Needs
    SciPy (``pip install "tauslab[cme]"``). No random number decides a law.

    Parameters
    ----------
    model
        A network, or a model file, that ``ssa`` can run.
    times
        One time or several ``[time]``, increasing, of 0 or more, in the model's unit.
    set
        Values of parameters and initial amounts by name.
    initial
        Laws of initial counts by species, independent of each other: ``"poisson(50)"``,
        ``"uniform(0,10)"``, or probabilities of the counts 0, 1, .... Other species begin with
        their initial amounts.
    tolerance
        Probability that may be lost until the last time: `CmeResult.bound` says what was. A
        warning says if roundings make more of it.
    max_states
        States at most; in any case what half of the free memory holds.
    max_seconds
        What takes longer, by an estimate that counts states and steps, is refused.

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
    values = one_number_each("set", set, "a law has no trajectories")
    given = sample_times(times)
    return solve(
        network,
        given,
        values,
        start_laws(initial, network),
        tolerance=tolerance,
        max_states=max_states,
        max_seconds=max_seconds,
    )


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
