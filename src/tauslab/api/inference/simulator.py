"""A model as a function for inference: many parameter sets in, many summaries out."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.api.api import run_ensemble
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.copies import Origin
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.keywords import SimulatorKeywords
from tauslab.options.methods import Auto, TauLeaping, method_of
from tauslab.options.python_values import listed, names_of, whole
from tauslab.options.record import PREFIX, SummarySpec
from tauslab.options.values.checks import seed_of
from tauslab.options.values.definition import declared
from tauslab.options.values.sample_times import sample_times
from tauslab.runner.ensemble.task import constant_amounts
from tauslab.store.results.result import Result

Summary = Callable[[Result], npt.ArrayLike]
Summaries = Summary | str | Sequence[str]

_ENDED = 2  # this status and all above are ends

# Set by every call, or of no use to one trajectory for each parameter set.
_OWN = ("n", "set", "output", "resume", "append", "append_to", "until", "sweep", "table", "design")


class Simulator:
    """Maps parameter sets ``[n, p]`` to summaries ``[n, k]``, one trajectory for each set.

    Returned by `simulator`. The seed of call i is computed from `seed` and i. Worker processes
    receive copies; each copy draws different random numbers. Under ``mpirun`` all ranks call the
    simulator together, with the same parameter sets, and each rank gets all summaries.

    Attributes
    ----------
    seed
        Given or drawn; under ``mpirun`` that of rank 0 from the first call on.
    """

    def __init__(
        self, model: Network, parameters: Sequence[str], summary: Summary | tuple[str, ...] | None,
        seed: int, options: Mapping[str, Any], *, seeded: bool = True,
    ) -> None:  # fmt: skip
        self._model, self._summary = model, summary
        self.parameters = tuple(parameters)
        self.seed, self._options = seed, options
        self._calls = self._copies = 0
        self._place: tuple[
            int, ...
        ] = ()  # of a copy: its number, after the numbers of its originals
        self._origin = Origin(repeats=seeded)

    @checks_keywords
    def __call__(self, theta: npt.ArrayLike, *, seed: int | None = None) -> Any:
        """Simulate one trajectory for each row of `theta` ``[n, p]``, or one for ``[p]``.

        Parameters
        ----------
        theta
            Numbers, or a tensor of PyTorch.
        seed
            Seed of this call, which is then not counted.

        Returns
        -------
        Summaries ``[n, k]``, or ``[k]`` for a single parameter set: float64, or, if `theta` is a
        tensor, a tensor of the same type on the same device.

        Raises
        ------
        ConfigError
            `theta` has another number of columns than there are parameters, or the summary another
            number of rows than there are trajectories.
        """
        values = _numbers(theta)
        table = np.atleast_2d(values)
        if table.ndim != 2 or table.shape[1] != len(self.parameters):
            raise ConfigError(
                f"theta has shape {values.shape}; it must be [n, {len(self.parameters)}], "
                f"with the columns {', '.join(self.parameters)}"
            )
        ranks = ranks_of(self._options.get("comm", "world"), "a simulator", theta=table, seed=seed)
        if seed is None:  # drawn on each rank
            self.seed = ranks.bcast(self.seed)
        # Each rank may have a copy.
        seed = ranks.bcast(self._next_seed(table) if seed is None else seed_of(seed))
        columns = {name: table[:, i] for i, name in enumerate(self.parameters)}
        if not len(table):  # a run with the model's own values gives the number of summaries
            columns = {}
        n = max(1, len(table))
        options = {**self._options, "comm": ranks}
        result = run_ensemble(self._model, n=n, set=columns, seed=seed, **options)
        summaries = (
            self._final(result, columns)
            if self._summary is None
            else self._summarise(result, self._summary)
        )
        if len(summaries) != n:
            raise ConfigError(f"the summary gave {len(summaries)} rows for {n} trajectories")
        return _like(theta, summaries[0] if values.ndim < 2 else summaries[: len(table)])

    def __repr__(self) -> str:
        """One line: from what to what."""
        names = "a function" if callable(self._summary) else ", ".join(self._summary or ("final",))
        return (
            f"<Simulator of {self._model.name}: theta [n, {len(self.parameters)}] "
            f"({', '.join(self.parameters)}) to {names}, {self._leaps_text()}seed {self.seed}>"
        )

    def _leaps_text(self) -> str:
        """The method where its numbers are, or may be, approximate."""
        method = method_of(self._options.get("method"))
        if not isinstance(method, TauLeaping | Auto):
            return ""
        how = "approximate" if isinstance(method, TauLeaping) else "approximate where it leaps"
        return f"{method.word} ({how}, epsilon {method.epsilon:g}), "

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy."""
        self._settle()
        self._copies += 1
        place = (*self._place, self._copies)
        return self.__dict__ | {"_place": place, "_calls": 0, "_copies": 0}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._origin = Origin(repeats=False)

    def _settle(self) -> None:
        """Take a place of its own in a process that has not counted this copy."""
        others = self._origin.others()
        if not others:
            return
        self._place, self._origin = (*self._place, *others), Origin(repeats=False)
        if len(others) > 1:  # a fork is a copy for which no seed was chosen
            warn(
                f"ts.simulator(seed={self.seed}) is made by each worker process that imports its "
                f"module: it draws numbers of its own in worker {others[-1]}, so that workers do "
                "not repeat each other; give seed= to each call for numbers that do not depend on "
                "the worker"
            )

    def _next_seed(self, table: FloatArray) -> int:
        """The seed of the next call."""
        self._settle()
        numbers = [self.seed, self._calls]
        if self._place:  # some executors give one copy to several workers
            digest = hashlib.sha256(table.tobytes()).digest()
            numbers.append(int.from_bytes(digest[:8], "little"))
        state = np.random.SeedSequence(numbers, spawn_key=self._place)
        self._calls += 1
        return int(state.generate_state(1, np.uint64)[0])

    def _final(self, result: Result, given: Mapping[str, FloatArray]) -> FloatArray:
        """Last amounts of species, the same ones whatever the values.

        A species that nothing changes has no counts where its amount is not whole.
        """
        columns = {name: np.asarray(result.final(name), np.float64) for name in result.species}
        missing = [name for name in self._model.constant_species() if name in result.observables]
        if missing:
            held = constant_amounts(
                self._model, Options(times=result.times, n=result.n, seed=0, set=given)
            )
            ended = np.asarray(result.status) >= _ENDED
            columns |= {n: np.where(ended, np.nan, held[n]) for n in missing}
        order = [name for name in self._model.species if name in columns]
        final = np.stack([columns[name] for name in order], axis=1)
        return final if result.continuous else np.where(final < 0, np.nan, final)

    def _summarise(self, result: Result, summary: Summary | tuple[str, ...]) -> FloatArray:
        if isinstance(summary, tuple):
            return np.stack([result.summary(name) for name in summary], axis=1)
        given = _numbers(summary(result))
        if given.ndim == 0:
            raise ConfigError(
                f"the summary gave shape (): a row, or a number, for each of the {result.n} "
                "trajectories is needed"
            )
        return given[:, None] if given.ndim == 1 else given


def _numbers(values: npt.ArrayLike) -> FloatArray:
    """Numbers as doubles; a tensor leaves its gradient and its device behind."""
    tensor = _tensor_type()
    given: Any = values
    if tensor is not None and isinstance(values, tensor):
        given = given.detach().cpu()
    try:
        return doubles(given)
    except ValueError as error:
        raise ConfigError(f"theta and summaries {error}, not {values!r:.80}") from None


def _like(theta: npt.ArrayLike, summaries: FloatArray) -> Any:
    """A tensor where `theta` is one."""
    tensor = _tensor_type()
    if tensor is None or not isinstance(theta, tensor):
        return summaries
    import torch

    given: Any = theta
    kind = given.dtype if given.is_floating_point() else torch.get_default_dtype()
    return torch.as_tensor(summaries, dtype=kind, device=given.device)


def _tensor_type() -> Any:
    """PyTorch's, if the program uses it."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


@declared
@dataclass(frozen=True)
class _Keywords(SimulatorKeywords):
    parameters: Sequence[str]
    summary: Summaries | None = None


@takes(_Keywords)
def simulator(
    model: Network | str | os.PathLike[str],
    parameters: Sequence[str],
    summary: Summaries | None = None,
    **options: Any,
) -> Simulator:
    """Make a simulator of many parameter sets, for inference by sbi, pyABC and others.

    Parameters
    ----------
    model
        A network, or a model file.
    parameters
        Names of parameters, or of species for their initial amounts: the columns of theta.
    summary
        Summaries of a trajectory: a name such as ``first-passage:X:100`` (docs/run.md) or a list
        of k names; or a function of a `Result` with n trajectories that returns ``[n]``, ``[n, k]``
        or ``[n, time, species]``. By default the recorded species at the last sample time, NaN if a
        trajectory ended early.
    {options}

    Returns
    -------
    A `Simulator`, to be called with theta ``[n, p]``.

    Raises
    ------
    ConfigError
        A name that the model does not have, an option that is not known or that a simulator sets
        itself.

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
    network = network_of(model, "a simulator")
    names = names_of("parameters", parameters) or ()
    for name in names:
        if name not in network.parameters and name not in network.species:
            raise ConfigError(f"{name!r} is neither a parameter nor a species of {network.name}")
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"parameters= names one column of theta or more, each once, not {names}")
    for name in _OWN:
        if name in options:
            raise ConfigError(f"{name}= is set by the simulator itself, or has no use in one")
    given = chosen(SimulatorKeywords, options, "a simulator")
    seed = secrets.randbits(64) if given.seed is None else seed_of(given.seed)
    options.pop("seed", None)
    if summary is not None and not callable(summary):
        specs = [SummarySpec.parse(one) for one in listed(summary)]
        if not specs or "record" in options:
            raise ConfigError("summary= names one summary or more, and then stands for record=")
        options["record"] = [PREFIX + spec.name for spec in specs]
        summary = tuple(spec.name for spec in specs)
    sample_times(given.times, given.t_end, whole(given.points), model_t_end=network.t_end)
    return Simulator(network, names, summary, seed, options, seeded=given.seed is not None)
