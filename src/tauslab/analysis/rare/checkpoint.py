"""Files from which a search for rare events that was ended goes on, with the same bits."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.particles.checkpoints import Checkpoint, digest_of
from tauslab.analysis.rare.keywords import RareKeywords
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.locks import written_by_us

_NOT_DECIDING = (
    *("comm", "device", "output", "quiet", "checkpoint", "checkpoint_every"),
    *("coordinate", "set"),
)


def require_checkpoint(given: RareKeywords) -> None:
    """Refuse a checkpoint without a name or a seed, before a device is opened.

    Raises
    ------
    ConfigError
        It is no name of a file, or another call would be another search.
    """
    path: object = given.checkpoint
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ConfigError(f"{assigned('checkpoint')}{path!r}: the name of a file is expected")
    if path is not None and given.seed is None:
        raise ConfigError(
            f"{opt('checkpoint')} needs {opt('seed')}: another seed would begin another search"
        )


def holding(given: RareKeywords, comm: Communicator) -> AbstractContextManager[None]:
    """Be the only search that writes the checkpoint, in a `with` statement. Collective."""
    path = given.checkpoint
    return written_by_us(None if path is None else Path(path), comm, "checkpoint")


def checkpoint_of(
    given: RareKeywords, comm: Communicator, method: str, model: str, *deciding: object
) -> Checkpoint:
    """The checkpoint that a call asks for.

    Parameters
    ----------
    model
        The model's digest.
    deciding
        What else decides the result, beside the options.

    Raises
    ------
    ConfigError
        The seconds between two of them are below 0.
    """
    options: dict[str, Any] = {
        name: value for name, value in vars(given).items() if name not in _NOT_DECIDING
    }
    options["bins"] = repr(np.asarray(options.get("bins")).tolist())
    values = {name: float(value) for name, value in sorted((given.set or {}).items())}
    digest = digest_of(method, model, options, values, *deciding)
    what = f"checkpoint of a search for rare events: give another {opt('checkpoint')}"
    path, every = given.checkpoint, given.checkpoint_every
    return Checkpoint(path, every, digest, comm, "rare events", what)
