"""A model and options that are prepared once, for many short runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.api.api import run, settings_of
from tauslab.api.model_reading import read_any
from tauslab.api.typed import chosen, takes
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.model.network.network import Network
from tauslab.options.keywords import NetworkKeywords, PrepareKeywords, Values
from tauslab.options.values.checks import by_name
from tauslab.runner.ensemble.run import opened
from tauslab.store.results.result import Result


class Prepared:
    """A network with the options of its runs, compiled kernels and buffers.

    Returned by `prepare`. A run gives the bits of `tauslab.run` with the same arguments. If the
    model was changed, the next run prepares it again. Several threads may call `run` at the same
    time. Under ``mpirun`` all ranks call it together.

    Attributes
    ----------
    model
        The network.
    options
        Keywords of `tauslab.run`, as they were given.
    """

    def __init__(self, model: Network, options: Mapping[str, Any]) -> None:
        self.model, self.options = model, dict(options)

    @checks_keywords
    def run(
        self,
        n: int | None = None,
        seed: int | None = None,
        *,
        set: Mapping[str, Values] | None = None,  # noqa: A002 - as tauslab.run calls it
        t_end: float | None = None,
    ) -> Result:
        """Run the model, with other values if given.

        Parameters
        ----------
        n, seed, t_end
            As for `tauslab.run`; by default the arguments of `prepare`. Another `n` or `t_end`
            needs a new preparation.
        set
            Values of parameters and initial amounts by name, in addition to the values given to
            `prepare`.

        Returns
        -------
        The result, in memory.

        Raises
        ------
        ModelError, ConfigError
            As `tauslab.run`.

        Examples
        --------
        >>> import tauslab as ts
        >>> net = ts.Network("decay")
        >>> net.add_species("X", 100)
        >>> net.add_parameter("k", 1.0)
        >>> net.add_reaction("X ->", rate="k")
        >>> decay = ts.prepare(net, n=1, times=[1.0], device="cpu")
        >>> [int(decay.run(seed=i, set={"k": 0.1**i}).final("X")[0]) for i in range(3)]
        [36, 87, 99]
        """
        given = {"n": n, "seed": seed, "t_end": t_end}
        options = {**self.options, **{name: v for name, v in given.items() if v is not None}}
        if set is not None:
            options["set"] = {**(options.get("set") or {}), **by_name("set", set)}
        result: Result = run(self.model, **options)
        return result

    def __repr__(self) -> str:
        """One line: the model, and what was given for its runs."""
        reported = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"<Prepared {self.model.name}: {reported:.200}>"

    def __getstate__(self) -> dict[str, Any]:
        """The model and the options.

        Raises
        ------
        ConfigError
            A communicator of mpi4py is of this process alone.
        """
        if not isinstance(self.options.get("comm", "world"), str):
            raise ConfigError(
                f"a prepared run with {opt('comm')} of mpi4py cannot be copied to another process: "
                f"prepare it there, or give {opt('comm', 'world')} or self"
            )
        return dict(self.__dict__)


@takes(PrepareKeywords)
def prepare(model: Network | str | os.PathLike[str], **options: Any) -> Prepared:
    """Prepare a model for many short runs: check it, compile kernels, open the device.

    `tauslab.run` also reuses the preparation of the last run of a model. Results stay in memory.

    Parameters
    ----------
    model
        A network, or a model file.
    {options}

    Returns
    -------
    A `Prepared`, with a method ``run(n, seed, set=..., t_end=...)``.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; Dask workers keep nothing.
    DeviceError, DeviceFailed, KernelCompileError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> ts.prepare(net, t_end=2, points=3, device="cpu").run(n=500, seed=1).counts("X").shape
    (500, 3)
    """
    comm = ranks_of(options.get("comm", "world"), "ts.prepare", model=model, **options)
    network = read_any(comm, Path(model)) if isinstance(model, str | os.PathLike) else model
    if not isinstance(network, Network):
        raise ConfigError(
            f"prepare takes a network or its file, not a {type(network).__name__}: use ts.run"
        )
    names = (*network.species, *network.parameters)
    given = chosen(PrepareKeywords, options, "prepare", names)
    if given.executor is not None:
        raise ConfigError(
            f"prepare keeps kernels and devices of this process, not of workers: leave out "
            f"{opt('executor')}, or use ts.run"
        )
    settings = settings_of(network, chosen(NetworkKeywords, options, "prepare", names), options)
    with opened(network, settings, comm):
        return Prepared(network, options)
