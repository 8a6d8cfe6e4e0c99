"""Files from which a search for rare events that was ended goes on, with the same bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.model.option_names import assigned, opt
from tauslab.runner.output.locks import written_by_us
from tauslab.runner.output.state import State, StateFile
from tauslab.runner.particles.checkpoints import Checkpoint, digest_of
from tauslab.runner.ranks.mpi import Communicator, SerialCommunicator
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.rare.keywords import RareKeywords

_NOT_DECIDING = (
    *("comm", "device", "output", "quiet", "checkpoint", "checkpoint_every"),
    *("coordinate", "set"),
)


class RareCheckpoint(Checkpoint):
    """Arrays by name that are written every so many seconds at most, by rank 0 alone.

    All ranks call all methods together.
    """

    def take_up(self) -> State:
        """What an earlier call kept; nothing where there is no file.

        Raises
        ------
        InputFileError
            The file is damaged, or of another kind.
        ConfigError
            It was begun with another model or other options.
        """
        if self.path is None:
            return State()
        return on_root(self._comm, self._read)

    def save(self, kept: Callable[[], Mapping[str, npt.ArrayLike]], *, last: bool = False) -> None:
        """Write what is to be kept, if it is time to; `last` says that nothing follows."""
        if not self.due(last=last):
            return
        arrays = {**kept(), **self._own_digest()}
        on_root(self._comm, lambda: self._file().write(arrays))
        self.written()

    def _file(self) -> StateFile:
        assert self.path is not None
        what = f"checkpoint of a search for rare events: give another {opt('checkpoint')}"
        return StateFile(self.path, "rare events", what)

    def _read(self) -> State:
        assert self.path is not None
        if not self.path.exists():
            return State()
        kept = self._file().read()
        self._require_same(kept)
        return kept


NOTHING_KEPT = RareCheckpoint(None, 0.0, b"", SerialCommunicator())


def require_seed(given: RareKeywords) -> None:
    """Refuse a checkpoint without a seed, before a device is opened.

    Raises
    ------
    ConfigError
        Another call would be another search.
    """
    if given.checkpoint is not None and given.seed is None:
        raise ConfigError(
            f"{opt('checkpoint')} needs {opt('seed')}: another seed would begin another search"
        )


def holding(given: RareKeywords, comm: Communicator) -> AbstractContextManager[None]:
    """Be the only search that writes the checkpoint, in a `with` statement. Collective."""
    path: object = given.checkpoint
    if not isinstance(path, str | os.PathLike):  # which `checkpoint_of` refuses, where it is one
        return nullcontext()
    return written_by_us(Path(path), comm, "checkpoint")


def checkpoint_of(
    given: RareKeywords, comm: Communicator, method: str, model: str, *deciding: object
) -> RareCheckpoint:
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
        It is no name of a file, or of seconds a number below 0.
    """
    path: str | os.PathLike[str] | None = given.checkpoint
    if path is None:
        return NOTHING_KEPT
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"{assigned('checkpoint')}{path!r}: the name of a file is expected")
    options: dict[str, Any] = {
        name: value for name, value in vars(given).items() if name not in _NOT_DECIDING
    }
    options["bins"] = repr(np.asarray(options.get("bins")).tolist())
    values = {name: float(value) for name, value in sorted((given.set or {}).items())}
    digest = digest_of(method, model, options, values, *deciding)
    return RareCheckpoint(path, given.checkpoint_every, digest, comm)
