"""A model as a function for inference: many parameter sets in, many summaries out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model import readers
from tauslab.model.errors import ConfigError
from tauslab.model.network import Network
from tauslab.runner.api import run
from tauslab.runner.result import Result
from tauslab.runner.summary import PREFIX, SummarySpec

FloatArray = npt.NDArray[np.float64]
Summary = Callable[[Result], npt.ArrayLike]
Summaries = Summary | str | Sequence[str]


class Simulator:
    """Maps parameter sets ``[n, p]`` to summaries ``[n, k]``, one trajectory for each set.

    Made by `simulator`.  Every call draws anew: call number i uses a seed made from `seed` and i,
    so that a program that makes the same calls gets the same numbers.  Under ``mpirun`` all ranks
    call it together, with the same parameter sets, and all get all summaries.
    """

    def __init__(
        self,
        model: Network,
        parameters: Sequence[str],
        summary: Summary | tuple[str, ...] | None,
        seed: int,
        options: Mapping[str, Any],
    ) -> None:
        self._model, self._summary = model, summary
        self.parameters = tuple(parameters)
        self._seed, self._options = seed, {"method": "ssa", **options}
        self._calls = 0

    def __call__(self, theta: npt.ArrayLike, *, seed: int | None = None) -> FloatArray:
        """Simulate one trajectory for each row of `theta` ``[n, p]``, or one for ``[p]``.

        Returns
        -------
        Summaries ``[n, k]``, or ``[k]`` for a single parameter set.

        Raises
        ------
        ConfigError
            `theta` has another number of columns than there are parameters, or the summary another
            number of rows than there are trajectories.
        """
        values = np.asarray(theta, np.float64)
        table = np.atleast_2d(values)
        if table.ndim != 2 or table.shape[1] != len(self.parameters):
            raise ConfigError(
                f"theta has shape {values.shape}; it must be [n, {len(self.parameters)}], "
                f"with the columns {', '.join(self.parameters)}"
            )
        if seed is None:
            state = np.random.SeedSequence([self._seed, self._calls]).generate_state(1, np.uint64)
            seed = int(state[0])
            self._calls += 1
        columns = {name: table[:, i] for i, name in enumerate(self.parameters)}
        result = run(self._model, n=len(table), set=columns, seed=seed, **self._options)
        summaries = self._summarise(result)
        if len(summaries) != len(table):
            raise ConfigError(
                f"the summary gave {len(summaries)} rows for {len(table)} trajectories"
            )
        return summaries[0] if values.ndim == 1 else summaries

    def _summarise(self, result: Result) -> FloatArray:
        if self._summary is None:
            return np.stack([result.final(name) for name in result.species], axis=1).astype(float)
        if isinstance(self._summary, tuple):
            return np.stack([result.summary(name) for name in self._summary], axis=1)
        given = np.asarray(self._summary(result), np.float64)
        return given[:, None] if given.ndim == 1 else given


def simulator(
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str],
    summary: Summaries | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> Simulator:
    """Make a batch simulator for inference, for instance with sbi or pyABC.

    Parameters
    ----------
    model
        A network, or a model file.
    parameters
        Names of parameters, or of species for their initial amounts: the columns of theta.
    summary
        What a trajectory is reduced to: a name such as ``first-passage:X:100`` (as ``--record
        summary:...`` takes it) or a list of k names, which are computed on the device and keep no
        samples; or a function of a `Result` with n trajectories that gives ``[n]`` or ``[n, k]``.
        By default the recorded species at the last sample time.
    seed
        Where the seeds of the calls come from.
    options
        As for `tauslab.run`: times or t_end and points, method, species, device, ... The method is
        ``ssa`` unless given, so that all parameter sets are simulated alike.

    Returns
    -------
    A `Simulator`, to be called with theta ``[n, p]``.

    Raises
    ------
    ConfigError
        A name that the model does not have, or an option that a simulator sets itself.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> simulate = ts.simulator(net, ["k"], times=[1.0], device="cpu")
    >>> simulate([[0.0], [100.0]])
    array([[100.],
           [  0.]])
    """
    network = model if isinstance(model, Network) else readers.read_network(Path(model))
    for name in parameters:
        if name not in network.parameters and name not in network.species:
            raise ConfigError(f"{name!r} is neither a parameter nor a species of {network.name}")
    for name in ("n", "set", "output", "resume", "overwrite"):
        if name in options:
            raise ConfigError(f"{name}= is set by the simulator itself")
    if summary is None or callable(summary):
        return Simulator(network, parameters, summary, seed, options)
    specs = [SummarySpec.parse(s) for s in ([summary] if isinstance(summary, str) else summary)]
    if not specs or "record" in options:
        raise ConfigError("summary= names one summary or more, and then stands for record=")
    options["record"] = [PREFIX + spec.name for spec in specs]
    return Simulator(network, parameters, tuple(spec.name for spec in specs), seed, options)
