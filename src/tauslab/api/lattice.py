"""The Python interface to lattices: what `tauslab.run` does with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tauslab.api.typed import chosen, takes
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.stopping import stopping_on_sigterm
from tauslab.decomposition.ranks.together import agree
from tauslab.model.lattice.lattice import Lattice
from tauslab.options.ensemble import PYTHON_COMMAND
from tauslab.options.lattice import LatticeChoices, LatticeKeywords, LatticeOptions
from tauslab.options.places import GPU, device_settings, file_settings
from tauslab.options.python_values import points_of
from tauslab.options.values.checks import by_name
from tauslab.runner.lattice.run import run_lattice
from tauslab.store.results.lattice.result import (
    LatticeResult,
    is_lattice_result,
    stored_settings,
    warn_of_hooks,
)

_SAMPLES = "count_every=, the number of steps between two samples"
# Keywords of networks, and the keyword of lattices that does the same.
_OF_NETWORKS = {
    "points": _SAMPLES, "times": _SAMPLES,
    "record": "frame_every= for frames; counts are always recorded",
}  # fmt: skip


@takes(LatticeKeywords)
def run_on_lattice(model: Lattice, **options: Any) -> LatticeResult:
    """Simulate particles that hop and react on a lattice; under ``mpirun`` on all ranks together.

    Parameters
    ----------
    model
        A lattice; `tauslab.run` also takes its file.
    {options}

    Returns
    -------
    The result, opened for reading.

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
    >>> cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=32e-9, boundary="periodic", t_end=0.001)
    >>> cube.add_species("A")
    >>> cube.add_diffusion("A", 1e-12)
    >>> cube.place("A", count=100)
    >>> int(ts.run(cube, seed=1, device="cpu").counts("A")[-1])
    100
    """
    return run_lattice_of(model, options, None)


def run_lattice_of(model: Lattice, options: dict[str, Any], path: Path | None) -> LatticeResult:
    """`run_on_lattice` of a model that was read from a file, if it was: a result has settings."""
    given = chosen(
        LatticeKeywords, options, "run for a lattice", model.parameters, elsewhere=_OF_NETWORKS
    )
    comm = ranks_of(given.comm, "ts.run", **options)
    same = {one.name: getattr(given, one.name) for one in fields(LatticeChoices)}
    stored = agree(comm, lambda: {} if path is None else _stored(path, options))
    sweep = points_of(given.sweep, given.table, given.design)
    settings = LatticeOptions(
        **{name: stored.get(name, value) for name, value in same.items()},
        set=stored.get("set", {}) | by_name("set", given.set),
        sweep=stored.get("sweep") if sweep is None else sweep,
        all_replicas=stored.get("all_replicas", 0),
        hooks=tuple(given.hooks) if isinstance(given.hooks, Iterable) else (given.hooks,),
        at_start=given.at_start,
        share_gpu=isinstance(given.device, GPU) and given.device.share,
        **device_settings(given.device),
        **file_settings(given.output),
        command=PYTHON_COMMAND,
    )
    with stopping_on_sigterm(given.stop, comm, settings.output) as stop:
        return run_lattice(model, settings, comm, stop)


def _stored(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a result at `path` that `options` leave open; none of another file."""
    if not is_lattice_result(path):
        return {}
    if not options.get("hooks"):
        warn_of_hooks(path)
    requested = {name for name, value in options.items() if value is not None and name != "set"}
    if requested & {"replicas", "first_replica"}:
        requested.add("all_replicas")  # of another array
    return {name: value for name, value in stored_settings(path).items() if name not in requested}
