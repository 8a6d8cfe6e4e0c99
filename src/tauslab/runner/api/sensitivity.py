"""`tauslab.sensitivity` and `tauslab.expectation`: derivatives of means by parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.model.errors import ConfigError, ModelError, one_of
from tauslab.model.network.network import Network
from tauslab.runner.api.cme import network_of
from tauslab.runner.cme.counts_alone import require_counts_alone
from tauslab.runner.ensemble.task import with_settings
from tauslab.runner.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.runner.options.places import Device, device_settings
from tauslab.runner.options.values.checks import within
from tauslab.runner.options.values.python_values import names_of, numbers, whole
from tauslab.runner.options.values.sample_times import sample_times
from tauslab.runner.options.values.unknown import checks_keywords
from tauslab.runner.ranks.all_ranks import ranks_for
from tauslab.runner.ranks.job import agreed_seed, devices, failing_together, open_backend
from tauslab.runner.ranks.together import agree
from tauslab.runner.sensitivity.expectation import Expectation
from tauslab.runner.sensitivity.finite import finite_differences
from tauslab.runner.sensitivity.outputs import chosen_outputs
from tauslab.runner.sensitivity.result import LIKELIHOOD_RATIO, METHODS, SensitivityResult
from tauslab.runner.sensitivity.score import likelihood_ratios
from tauslab.runner.sensitivity.steps import DEFAULT_STEP, chosen_names, steps_of

Method = Literal["coupled", "common", "likelihood-ratio"]
Difference = Literal["centred", "forward", "backward"]


@checks_keywords
def sensitivity(  # noqa: PLR0913 - keywords
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str] | str | None = None,
    outputs: Sequence[str] | str | None = None,
    *,
    t: npt.ArrayLike,
    n: int = 10_000,
    method: Method = "coupled",
    step: float | Mapping[str, float] = DEFAULT_STEP,
    difference: Difference = "centred",
    seed: int | None = None,
    device: Device = "auto",
    set: Mapping[str, float] | None = None,  # noqa: A002 - as of `tauslab.run`
    max_steps: int = MAX_STEPS,
) -> SensitivityResult:
    """Estimate derivatives of means by parameters and initial amounts, from exact trajectories.

    Centred differences have a bias of the order of the step's square: the third derivative times
    step² / 6; forward and backward ones of its first power. The standard error is of chance alone.
    The same seed gives the same bits on any device and on any number of ranks.

    Parameters
    ----------
    model
        A network, or a model file, without events, delays, rate rules and laws of time, of up to
        128 reactions.
    parameters
        Names of parameters, or of species for their initial amounts; by default all parameters
        that are numbers other than 0.
    outputs
        Names of species and observables, or expressions of them such as ``"A * B"`` or ``"X > 10"``
        for a probability; by default all species that reactions change.
    t
        One time or several ``[time]``, increasing, in the model's unit.
    n
        Number of pairs of trajectories for each parameter; of trajectories for all parameters with
        ``likelihood-ratio``.
    method
        ``coupled``: split coupling (Anderson, SIAM J. Numer. Anal. 50, 2237, 2012), the default.
        ``common``: common reaction paths (Rathinam, Sheppard and Khammash, J. Chem. Phys. 132,
        034103, 2010). ``likelihood-ratio``: without step and bias, and with more variance
        (Plyasunov and Arkin, J. Comput. Phys. 221, 724, 2007); not by initial amounts.
    step
        Of differences: a part of each parameter's value; of initial amounts at least one molecule.
        Or steps by name, in the parameter's unit; those not named take 2 %.
    difference
        ``centred``, ``forward`` or ``backward``. A centred one whose lower side would be negative
        is forward.
    seed
        64 bits; drawn if not given.
    device, set, max_steps
        As of `tauslab.run`; `set` takes one number for each name.

    Returns
    -------
    A `SensitivityResult`.

    Raises
    ------
    ModelError
        The model has an element that the method cannot honour, or all trajectories ended early.
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
    >>> found = ts.sensitivity(net, outputs=["D"], t=3.0, n=1000, seed=1, device="cpu")
    >>> found.value.shape, bool(abs(found["k2", "D"][0] + 16.65) < 4 * found.error("k2", "D")[0])
    ((2, 1, 1), True)
    """
    one_of("method", method, METHODS)
    network, options, names, recorded = _checked(
        "ts.sensitivity", model, names_of(parameters), outputs, t, n, seed, device, set, max_steps
    )
    comm = ranks_for("mpi")
    if method == LIKELIHOOD_RATIO:
        if step != DEFAULT_STEP or difference != "centred":
            raise ConfigError(
                'step and difference are of "coupled" and "common": a likelihood ratio has none'
            )
        with devices(options.device, options.threads, comm) as backend, failing_together(comm):
            return likelihood_ratios(network, names, recorded, options, backend, comm)
    steps = agree(comm, lambda: steps_of(network, names, step, difference))
    with devices(options.device, options.threads, comm) as backend, failing_together(comm):
        return finite_differences(network, steps, recorded, options, method, backend, comm)


@checks_keywords
def expectation(  # noqa: PLR0913 - keywords
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str] | str,
    outputs: Sequence[str] | str | None = None,
    *,
    t: npt.ArrayLike,
    n: int = 1000,
    conditions: Mapping[str, npt.ArrayLike] | None = None,
    step: float = DEFAULT_STEP,
    seed: int = 0,
    device: Device = "auto",
    set: Mapping[str, float] | None = None,  # noqa: A002 - as of `tauslab.run`
    max_steps: int = MAX_STEPS,
) -> Expectation:
    """Make means of outputs a function of parameters that can be differentiated.

    For fits by stochastic gradients: called with a tensor of PyTorch that needs a gradient, the
    function gives means through which a loss is differentiated. Derivatives are those of
    `tauslab.sensitivity` with coupled pairs.

    Parameters
    ----------
    model, outputs, t, step, device, set, max_steps
        As of `tauslab.sensitivity`.
    parameters
        Names of parameters, or of species for their initial amounts: the elements of theta.
    n
        Pairs of trajectories for each parameter, and condition, in a call.
    conditions
        Values of other parameters and initial amounts by name, arrays of one length: theta is the
        same under all, as a rate is that several experiments share.
    seed
        Where the seeds of the calls come from, 64 bits.

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
    >>> left = ts.expectation(net, ["k"], t=1.0, n=400, device="cpu", conditions={"X": [50, 100]})
    >>> k = 0.3
    >>> for _ in range(30):  # Newton's method for half of them left
    ...     mean, slope = left.with_jacobian([k])
    ...     k -= 0.3 * float(np.mean((mean[:, 0, 0] - [25, 50]) / slope[:, 0, 0, 0]))
    >>> bool(abs(k - np.log(2)) < 0.05)
    True
    """
    network, options, names, recorded = _checked(
        "ts.expectation", model, names_of(parameters), outputs, t, n, seed, device, set, max_steps
    )
    held: dict[str, npt.NDArray[np.float64]] = {}
    for name, given in (conditions or {}).items():
        held[name] = np.asarray(numbers(name, given), np.float64)
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
    comm = ranks_for("mpi")
    backend = open_backend(options.device, options.threads, comm)
    return Expectation(network, names, recorded, options, held, step, backend, comm)


def _checked(  # noqa: PLR0913, PLR0917 - what both functions take
    what: str,
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str] | None,
    outputs: Sequence[str] | str | None,
    t: npt.ArrayLike,
    n: int,
    seed: int | None,
    device: Device,
    settings: Mapping[str, float] | None,
    max_steps: int,
) -> tuple[Network, Options, tuple[str, ...], tuple[str, ...]]:
    """The network with its settings, options, parameters and outputs."""
    network = network_of(model, what)
    require_counts_alone(network, what)
    within("n", whole(n), 1, MOST_TRAJECTORIES)
    values = {name: numbers(name, value) for name, value in (settings or {}).items()}
    network = with_settings(network, values)
    network.validate()
    if not network.reactions:
        raise ModelError(f"{network.name} has no reactions: nothing changes")
    times = sample_times([t] if isinstance(t, int | float | np.number) else t)  # type: ignore[arg-type, list-item]
    options = Options(
        times=times, n=whole(n), seed=agreed_seed(seed, lambda: None, ranks_for("mpi")),
        max_steps=whole(max_steps), **device_settings(device),
    )  # fmt: skip
    recorded = [outputs] if isinstance(outputs, str) else outputs
    return network, options, chosen_names(network, parameters), chosen_outputs(network, recorded)
