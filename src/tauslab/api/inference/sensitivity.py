"""`tauslab.sensitivity` and `tauslab.expectation`: derivatives of means by parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.analysis.sensitivity.expectation import Expectation
from tauslab.analysis.sensitivity.keywords import ExpectationKeywords, SensitivityKeywords
from tauslab.analysis.sensitivity.result import SensitivityResult
from tauslab.analysis.sensitivity.run import checked_options, run_sensitivity
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.job import open_backend
from tauslab.model.network.network import Network
from tauslab.options.python_values import numbers
from tauslab.options.values.checks import by_name
from tauslab.runner.ensemble.task import with_settings
from tauslab.store.locks import writing_result


@takes(SensitivityKeywords)
def sensitivity(
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str] | str | None = None,
    outputs: Sequence[str] | str | None = None,
    **options: Any,
) -> SensitivityResult:
    """Estimate derivatives of means with respect to parameters, from exact trajectories.

    The bias of centred differences with step h is the third derivative times h² / 6; that of
    forward and backward differences is proportional to h. The standard error does not include the
    bias. The same seed gives the same bits on any device and number of ranks.

    Parameters
    ----------
    model
        A network, or a model file, without events, delays, rate rules and time-dependent rates,
        with up to 128 reactions.
    {options}

    Returns
    -------
    A `SensitivityResult`.

    Raises
    ------
    ModelError
        The method does not support an element of the model, or all trajectories ended early.
    ConfigError
        A name that the model does not have, or an argument that is not allowed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("dimers")
    >>> net.add_species("A", 200)
    >>> net.add_species("D")
    >>> net.add_parameter("k1", 0.01)
    >>> net.add_parameter("k2", 1.0)
    >>> net.add_reaction("2 A -> D", rate="k1")
    >>> net.add_reaction("D -> 2 A", rate="k2")
    >>> found = ts.sensitivity(net, outputs=["D"], times=3.0, n=1000, seed=1, device="cpu")
    >>> found.value.shape, bool(abs(found["k2", "D"][0] + 16.65) < 4 * found.error("k2", "D")[0])
    ((2, 1, 1), True)
    """
    requested = {"parameters": parameters, "outputs": outputs, **options}
    given = chosen(SensitivityKeywords, requested, "sensitivity")
    ranks = ranks_of(given.comm, "ts.sensitivity", model=model, **requested)
    with writing_result(given.output, ranks) as write:
        result = run_sensitivity(network_of(model, "ts.sensitivity"), given, ranks)
        write(lambda path: result.save(path, overwrite=True))
    return result


@checks_keywords
@takes(ExpectationKeywords)
def expectation(
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str] | str,
    outputs: Sequence[str] | str | None = None,
    **options: Any,
) -> Expectation:
    """Make a function that estimates means of outputs and their derivatives.

    For fits by stochastic gradient descent: for a PyTorch tensor the function returns means with a
    gradient. Derivatives are estimated as by `tauslab.sensitivity` with coupled pairs.

    Parameters
    ----------
    model
        As of `tauslab.sensitivity`.
    {options}

    Returns
    -------
    An `Expectation`, to be called with theta ``[p]``.

    Raises
    ------
    ModelError, ConfigError
        As of `tauslab.sensitivity`.

    Examples
    --------
    >>> import numpy as np
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> doses = {"X": [50, 100]}
    >>> left = ts.expectation(
    ...     net, ["k"], times=1.0, n=400, seed=0, device="cpu", conditions=doses
    ... )
    >>> k = 0.3
    >>> for _ in range(30):  # Newton's method for half of them left
    ...     mean, slope = left.with_jacobian([k])
    ...     k -= 0.3 * float(np.mean((mean[:, 0, 0] - [25, 50]) / slope[:, 0, 0, 0]))
    >>> bool(abs(k - np.log(2)) < 0.05)
    True
    """
    requested = {"parameters": parameters, "outputs": outputs, **options}
    given = chosen(ExpectationKeywords, requested, "expectation")
    ranks = ranks_of(given.comm, "ts.expectation", model=model, **requested)
    network, run, names, recorded = checked_options(
        network_of(model, "ts.expectation"), given, "ts.expectation", ranks
    )
    held: dict[str, FloatArray] = {}
    for name, values in by_name("conditions", given.conditions).items():
        held[name] = np.asarray(numbers(name, values), np.float64)
        first = next(iter(held.values()))
        if (
            name in names
            or held[name].ndim != 1
            or held[name].shape != first.shape
            or not first.size
        ):
            raise ConfigError(
                f"conditions: {name} must be an array as long as the others, of one value or more, "
                "and none of the parameters"
            )
    with_settings(network, {name: float(column[0]) for name, column in held.items()})
    backend = open_backend(run.device, run.threads, ranks)
    return Expectation(network, names, recorded, run, held, given.step, backend, ranks)
