"""The Python interface: read a model, run it, open a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tauslab  # public types that are imported when an annotation is evaluated
from tauslab.api.model_reading import read_any
from tauslab.api.typed import chosen, runs, takes
from tauslab.base.errors import ConfigError, NoValidTrajectory
from tauslab.base.files.opening import at_home
from tauslab.base.option_names import warn
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import ranks, ranks_for, ranks_of
from tauslab.decomposition.ranks.together import agree
from tauslab.formats import read as readers
from tauslab.model.network.network import Network
from tauslab.options.ensemble import PYTHON_COMMAND, Options
from tauslab.options.hybrid import HybridKeywords
from tauslab.options.keywords import NetworkKeywords
from tauslab.options.lattice import LatticeKeywords
from tauslab.options.methods import method_of
from tauslab.options.places import device_settings, executor_settings, output_settings
from tauslab.options.sweep import Sweep
from tauslab.store.targets import require_no_input

if TYPE_CHECKING:
    from tauslab.store.results.result import Result

__all__ = ["open", "ranks", "ranks_for", "read", "run", "run_ensemble"]

# Where keywords of networks and lattices are given that a hybrid has for each part.
_OF_PARTS = {
    "method": "add_part(method=)", "max_steps": "add_part(max_steps=)",
    "set": "add_part(set=)", "initial": "add_part(set=)",
    "sweep": "add_part(set=), with one value per cell",
    "table": "add_part(set=), with one value per cell",
    "record": "add_part(record=)", "species": "add_part(record=)",
    "points": "add_part(sample=)", "times": "add_part(sample=)",
    "count_every": "add_part(sample=)", "replicas": "n=",
}  # fmt: skip


@checks_keywords
def read(path: str | os.PathLike[str]) -> tauslab.Model:
    """Read a `Network` or `Lattice` from a file.

    The formats are SBML, Antimony ``.ant``, BioNetGen ``.net`` and ``.bngl``, StochPy ``.psc``,
    TOML, ``.lm``, and files that tauslab wrote. Of a result this is the model that was simulated;
    `open` reads the result.

    Returns
    -------
    A `Network`; or a `Lattice` if the file contains one: TOML with a table ``[lattice]``, ``.lm``,
    a file of `Lattice.write`, or a result of ``tauslab rdme``.

    Raises
    ------
    ModelError
        The file cannot be read or is malformed; file and element are named.
    """
    return readers.read(_path(path, "read takes the path of a model"))


@checks_keywords
def open(  # noqa: A001 - tauslab.open, as h5py and gzip do
    path: str | os.PathLike[str],
) -> tauslab.AnyResult:
    """Open a result file; data are read when they are used.

    Returns
    -------
    A `Result` of a network, a `LatticeResult` of a lattice, a `HybridResult` of a hybrid, a
    `DynamicNetwork` of ``tauslab dbn``, or the result of the analysis that wrote the file.

    Raises
    ------
    InputFileError
        The file is missing, damaged or of another kind.
    """
    from tauslab.api.kinds.registry import kind_at

    path = _path(path, "open takes the path of a result")
    result: tauslab.AnyResult = kind_at(path).open(path)
    return result


_FROM_RESULT = ": run its model with initial= or extend= this result, or give the path of its file"


def _path(given: object, wanted: str) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"{wanted}, not {type(given).__name__}")
    return at_home(given)


@runs(NetworkKeywords, LatticeKeywords, HybridKeywords)
def run(
    model: Network | tauslab.Lattice | tauslab.Hybrid | str | os.PathLike[str], **options: Any
) -> tauslab.Result | tauslab.LatticeResult | tauslab.HybridResult:
    """Simulate a network, lattice or hybrid, or its file; under ``mpirun`` on all ranks together.

    The keywords depend on the kind of model.

    Parameters
    ----------
    model
        A `Network`, `Lattice` or `Hybrid`, or the path of a file that `tauslab.read` reads, or of
        a hybrid in TOML. The file of a network's or lattice's result runs again with its own
        settings, as far as no others are given: with a later `t_end` a lattice has the bits of a
        longer run.

    Keywords of a network
    ---------------------
    {options}

    Keywords of a lattice
    ---------------------
    {options}

    Keywords of a hybrid
    --------------------
    {options}

    Returns
    -------
    A `Result` for a network, a `LatticeResult` for a lattice, a `HybridResult` for a hybrid.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DecompositionError
        The lattice cannot be divided among the ranks as requested.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> result = ts.run(net, n=500, times=[0, 1, 2], seed=1, device="cpu")
    >>> result.counts("X").shape
    (500, 3)
    >>> float(result.mean("X")[0])
    100.0
    """
    comm = ranks_of(options.get("comm", "world"), "ts.run", model=model, **options)
    options["comm"] = comm
    path = at_home(model) if isinstance(model, str | os.PathLike) else None
    if path is not None:
        model = read_any(comm, path)
    if isinstance(model, Network):
        from tauslab.store.results.validity import text_of_early_ends

        result = _run_network(model, options, path)
        if comm.rank == 0 and (reported := text_of_early_ends(result)):
            warn(reported)
        return result
    from tauslab.model.lattice.lattice import Lattice

    if isinstance(model, Lattice):
        from tauslab.api.lattice import run_lattice_of

        return run_lattice_of(model, options, path)
    from tauslab.analysis.hybrids.hybrid import Hybrid
    from tauslab.analysis.hybrids.run import run_hybrid

    if not isinstance(model, Hybrid):
        raise ConfigError(
            f"run takes a Network, a Lattice, a Hybrid or the path of a model, not "
            f"{type(model).__name__}" + _FROM_RESULT * type(model).__name__.endswith("Result")
        )
    given = chosen(HybridKeywords, options, "run for a hybrid", elsewhere=_OF_PARTS)
    return run_hybrid(model, given, comm)


@takes(NetworkKeywords)
def run_ensemble(model: Network, **options: Any) -> Result:
    """Simulate an ensemble of trajectories; under ``mpirun`` on all ranks together.

    Parameters
    ----------
    model
        A network.
    {options}

    Returns
    -------
    The result. A warning appears if no trajectory of a point reached the last sample time;
    `Result.status` is how each trajectory ended.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 100)
    >>> net.add_parameter("k", 1.0)
    >>> net.add_reaction("X ->", rate="k")
    >>> swept = ts.run(net, n=200, times=[0, 1], sweep={"k": [0.5, 2.0]}, seed=1, device="cpu")
    >>> swept.mean("X").shape  # [point, time]
    (2, 2)
    """
    return _run_network(model, options, None)


def _run_network(model: Network, options: dict[str, Any], path: Path | None) -> Result:
    """`run_ensemble` of a model that was read from a file, if it was: a result has settings."""
    from tauslab.api.executor import run_job
    from tauslab.runner.ensemble.from_file import taken_from_result
    from tauslab.store.results.validity import warning_of

    given = chosen(NetworkKeywords, options, "run", (*model.species, *model.parameters))
    comm = ranks_of(given.comm, "ts.run", **options)
    stored: dict[str, Any] = {}
    sweep: Sweep | None = None
    if path is not None:
        requested = {name: value for name, value in options.items() if value is not None}
        if given.method is not None:
            requested["method"] = method_of(given.method).word
        stored, sweep = agree(comm, lambda: taken_from_result(path, requested))
    settings = settings_of(model, given, options, stored, sweep)
    result = run_job(model, settings, comm)
    try:
        collected = warning_of(result)
    except NoValidTrajectory as error:
        collected = str(error)
    if collected and comm.rank == 0:
        warn(collected)
    return result


def settings_of(
    network: Network,
    given: NetworkKeywords,
    options: Mapping[str, Any],
    stored: Mapping[str, Any] | None = None,
    sweep: Sweep | None = None,
) -> Options:
    """The keywords of `run_ensemble`, checked, and those `stored` in the file of a model.

    `sweep` has points that are known.
    """
    from tauslab.runner.ensemble.request import ensemble_options

    output = output_settings(given.output)
    if not given.resume and given.append is None and given.append_to is None:
        read = [given.table, network.source_path]
        inputs = [path for path in read if isinstance(path, str | os.PathLike)]
        require_no_input(output["output"], inputs)
    place = {
        **device_settings(given.device),
        **output,
        "dask": executor_settings(given.executor),
        "command": PYTHON_COMMAND,
    }
    requested = {n: value for n, value in {**options, **(stored or {})}.items() if n != "comm"}
    return ensemble_options(network, requested, place, sweep, None if stored else given)
