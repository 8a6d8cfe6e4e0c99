"""Files from which a filter or a chain that was ended goes on, with the same bits."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import Array
from tauslab.model.errors import ConfigError, StoppedEarly
from tauslab.model.option_names import opt
from tauslab.runner.output.locks import written_by_us
from tauslab.runner.output.state import State, StateFile
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.store import read_stored
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.ranks.stopping import asked_to_stop


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
    """A file that is written every `every` seconds at most, by rank 0 alone.

    Parameters
    ----------
    path
        None: nothing is kept.
    digest
        Of all that decides the result: the file of another call is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every: float,
        digest: bytes,
        comm: Communicator,
    ) -> None:
        if not (isinstance(every, int | float) and every >= 0):
            raise ConfigError(f"checkpoint_every={every!r} is not allowed: seconds, 0 or more")
        self.path = None if path is None else Path(path)
        self._every, self._digest, self._comm = every, digest, comm
        self._last, self._stops = time.monotonic(), False

    def held(self) -> AbstractContextManager[None]:
        """Be the only call that writes the file, in a `with` statement. Collective."""
        return written_by_us(self.path, self._comm, "checkpoint")

    def due(self, *, last: bool = False) -> bool:
        """Whether it is time to write, on every rank alike. Collective.

        It is, too, if a rank was asked to stop: `written` then ends the call.
        """
        if self.path is None:
            return False
        now = time.monotonic()
        told = self._comm.allgather((last or now - self._last >= self._every, asked_to_stop()))
        self._stops = not last and any(stops for _, stops in told)
        due = told[0][0] or self._stops
        if due:
            self._last = now
        return due

    def written(self) -> None:
        """Raise `StoppedEarly`, on all ranks, if the call was asked to stop before it was done."""
        if self._stops:
            stopped = StoppedEarly(
                "stopped on request", f"the same command goes on from what is in {self.path}"
            )
            stopped.raised_by = self._comm.size
            raise stopped

    def exists(self) -> bool:
        """Whether there is one to go on from. Collective."""
        return self.path is not None and bool(self._comm.bcast(self.path.is_file()))

    def save_filter(self, particles: Ensemble, kept: Mapping[str, Array]) -> None:
        """Keep an ensemble and what its filters have found."""
        assert self.path is not None
        particles.save_with(self.path, {**kept, **self._own_digest()})
        self.written()

    def take_up_filter(self, particles: Ensemble) -> State:
        """Put an ensemble where it was; what its filters had found."""
        assert self.path is not None
        _, stored, kept = read_stored(self.path)
        self._require_same(kept)
        particles.seed = stored.seed
        particles.go_on(self.path, stored)
        return kept

    def save_chains(self, kept: Mapping[str, npt.ArrayLike]) -> None:
        """Keep what chains have found."""
        assert self.path is not None

        file, own = self._chains(self.path), self._own_digest()
        on_root(self._comm, lambda: file.write({**kept, **own}))

        self.written()

    def take_up_chains(self) -> State:
        """What chains had found."""
        assert self.path is not None
        kept = self._chains(self.path).read()
        self._require_same(kept)
        return kept

    @staticmethod
    def _chains(path: Path) -> StateFile:
        return StateFile(path, "chains", "file of chains, which ts.pmmh writes")

    def _own_digest(self) -> dict[str, Array]:
        return {"digest": np.frombuffer(self._digest, np.uint8)}

    def _require_same(self, kept: State) -> None:
        if kept.take("digest", np.uint8, None).tobytes() != self._digest:
            raise ConfigError(
                f"{self.path} was begun with another model, other data or other options: give "
                f"those again, or another {opt('checkpoint')}"
            )
