"""Files from which a filter, a chain or a search that was ended goes on, with the same bits."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.store import read_stored
from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import asked_to_stop
from tauslab.store.locks import written_by_us
from tauslab.store.state import State, StateFile


def digest_of(*parts: object) -> bytes:
    """A digest of all that decides a result."""
    found = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, bytes) else _text(part).encode()
        found.update(len(text).to_bytes(8, "little") + text)
    return found.digest()


def _text(part: object) -> str:
    if isinstance(part, Mapping):
        return repr([(str(key), _text(value)) for key, value in part.items()])
    if isinstance(part, np.ndarray):
        return f"{part.dtype} {part.shape} {hashlib.sha256(part.tobytes()).hexdigest()}"
    return repr(part)


class Checkpoint:
    """Arrays by name in a file that is written every `every` seconds at most, by rank 0 alone.

    All ranks call all methods together.

    Parameters
    ----------
    path
        None: nothing is kept.
    digest
        Of all that decides the result: the file of another call is refused.
    kind, what
        As of `StateFile`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every: float,
        digest: bytes,
        comm: Communicator,
        kind: str,
        what: str,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._every, self._digest, self._comm = every, np.frombuffer(digest, np.uint8), comm
        self._file, self._last = StateFile(self.path or Path(), kind, what), time.monotonic()

    def held(self) -> AbstractContextManager[None]:
        """Be the only call that writes the file, in a `with` statement."""
        return written_by_us(self.path, self._comm, "checkpoint")

    def take_up(self) -> State:
        """What an earlier call kept; nothing where there is no file.

        Raises
        ------
        InputFileError
            The file is damaged, or of another kind.
        ConfigError
            It was begun with another model or other options.
        """
        if self.path is None or not self._comm.bcast(self.path.exists()):
            return State()
        kept = self._read()
        if kept.take("digest", np.uint8, None).tobytes() != self._digest.tobytes():
            raise ConfigError(
                f"{self.path} was begun with another model, other data or other options: give "
                f"those again, or another {opt('checkpoint')}"
            )
        return kept

    def save(self, kept: Callable[[], Mapping[str, npt.ArrayLike]], *, last: bool = False) -> None:
        """Write what is to be kept, if it is time to; `last` says that nothing follows.

        Raises
        ------
        StoppedEarly
            On all ranks, where one was asked to stop before all was done.
        """
        if self.path is None:
            return
        now = time.monotonic()
        asked = self._comm.allgather((last or now - self._last >= self._every, asked_to_stop()))
        stops = not last and any(stop for _, stop in asked)
        if not (asked[0][0] or stops):
            return
        self._last = now
        self._write({**kept(), "digest": self._digest})
        if stops:
            stopped = StoppedEarly(
                "stopped on request", f"the same command goes on from what is in {self.path}"
            )
            stopped.raised_by = self._comm.size
            raise stopped

    def _read(self) -> State:
        return on_root(self._comm, self._file.read)

    def _write(self, arrays: Mapping[str, npt.ArrayLike]) -> None:
        on_root(self._comm, lambda: self._file.write(arrays))


class FilterCheckpoint(Checkpoint):
    """A file of particles, with what their filters have found.

    `particles` are those that it is of, as soon as they are there.
    """

    particles: Ensemble

    def take_up(self) -> State:
        """As of `Checkpoint`; puts the ensemble where it was."""
        if kept := super().take_up():
            self.particles.seed = self._stored.seed
            self.particles.go_on(self._file.path, self._stored)
        return kept

    def _read(self) -> State:
        _, self._stored, kept = read_stored(self._file.path)
        return kept

    def _write(self, arrays: Mapping[str, npt.ArrayLike]) -> None:
        self.particles.save_with(self._file.path, arrays)
