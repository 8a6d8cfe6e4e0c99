"""``--executor dask``: what a user chooses of it, checked."""

from __future__ import annotations

import importlib.util
import shlex
from dataclasses import dataclass
from typing import Any

from tauslab.model.errors import ConfigError

EXECUTORS = ("mpi", "dask")
_MOST_WORKERS = 65536


@dataclass(frozen=True)
class DaskOptions:
    """Where the Dask workers of a run are.

    Parameters
    ----------
    scheduler
        ``local`` starts workers on this machine, ``slurm`` as SLURM jobs; else the address of a
        scheduler that runs (``tcp://host:8786``), the name of its scheduler file (``.json``), or
        in Python a `distributed.Client`.
    workers
        Fewest and most workers to start; between them Dask scales by the work there is. None: one
        per GPU of this machine.
    directives
        Lines of ``#SBATCH`` for each worker's job, such as ``--partition=gpu``.

    Raises
    ------
    ConfigError
        A package is missing, or the choices do not go together.
    """

    scheduler: Any = "local"
    workers: tuple[int, int] | None = None
    directives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the packages are there and that the choices go together."""
        _require("distributed", "--executor dask needs dask and distributed", "dask")
        if self.scheduler == "slurm":
            _require("dask_jobqueue", "--scheduler slurm needs dask-jobqueue", "slurm")
            if self.workers is None:
                raise ConfigError("--scheduler slurm needs --workers, for example --workers 1:16")
        elif self.directives:
            raise ConfigError("--sbatch is for --scheduler slurm only")
        if self.workers is not None and not self.starts_workers:
            raise ConfigError(
                "--workers is for --scheduler local and slurm: a scheduler that runs has its own"
            )

    @property
    def starts_workers(self) -> bool:
        """Whether the run starts workers, and ends them when it is done."""
        return isinstance(self.scheduler, str) and self.scheduler in ("local", "slurm")


def dask_options(
    executor: str, scheduler: Any, workers: int | str | None, sbatch: str = ""
) -> DaskOptions | None:
    """Settings from the options of ``tauslab run``; None for the executor ``mpi``.

    Raises
    ------
    ConfigError
        An option that is not known or goes with ``--executor dask`` only; a package is missing.
    """
    if executor not in EXECUTORS:
        raise ConfigError(f"--executor {executor!r} is not known; allowed are mpi, dask")
    if executor == "mpi":
        given = {"--scheduler": scheduler, "--workers": workers, "--sbatch": sbatch or None}
        for option, value in given.items():
            if value is not None:
                raise ConfigError(f"{option} goes with --executor dask only")
        return None
    return DaskOptions(
        "local" if scheduler is None else scheduler, _range(workers), tuple(shlex.split(sbatch))
    )


def _range(workers: int | str | None) -> tuple[int, int] | None:
    """Fewest and most: ``4`` or ``1:16``."""
    if workers is None:
        return None
    low, _, high = str(workers).partition(":")
    try:
        fewest, most = int(low), int(high or low)
    except ValueError:
        fewest, most = -1, -1
    if not 1 <= fewest <= most <= _MOST_WORKERS:
        raise ConfigError(
            f"--workers {workers} is not allowed: a number such as 4, or fewest and most such as "
            "1:16"
        )
    return fewest, most


def _require(module: str, sentence: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"{sentence}: pip install tauslab[{extra}]")
