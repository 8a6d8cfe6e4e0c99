"""HDF5 files from which an ensemble, a filter, a chain or a search goes on, with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, FloatArray
from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.base.files.opening import at_home
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.stopping import stop_requested
from tauslab.formats.toml.network import read_toml_text
from tauslab.model.lattice.file import write_model_group
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.network import Network
from tauslab.store.locks import written_by_us
from tauslab.store.state import State, StateFile

if TYPE_CHECKING:
    import h5py

_OF_ALL = ("model", "species", "status", "log_weights", "values", "initial", "more")
_MOST = (1 << 64) - 1


@dataclass(frozen=True)
class StoredParticles:
    """All that an ensemble goes on from; `rows` are values by name, one or one per particle.

    `state` holds arrays as `Motion.stored` gives them; `settings` are options of the method that
    have not their defaults, by field. `initial` holds probabilities ``[count]`` of initial counts
    by species; `counted` are the reactions whose firings are counted.
    """

    state: State
    status: Array
    log_weights: FloatArray
    rows: Mapping[str, float | FloatArray]
    initial: Mapping[str, FloatArray]
    time: float
    round: int
    resamplings: int
    seed: int
    method: str
    settings: Mapping[str, Any]
    max_steps: int
    counted: tuple[str, ...] = ()


def _file(path: Path) -> StateFile:
    return StateFile(path, "particles", "file of particles, which ts.Ensemble.save writes")


def write_stored(
    path: Path, model: Network | Lattice, stored: StoredParticles, more: Mapping[str, npt.ArrayLike]
) -> None:
    """Write a new file beside `path`, and put it in its place when it is complete.

    `more` are arrays that a filter keeps beside the particles.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    attributes: dict[str, Any] = {name: getattr(stored, name) for name in ("time", "method")}
    attributes["settings"] = json.dumps(dict(stored.settings), sort_keys=True)
    if stored.counted:
        attributes["counted"] = json.dumps(stored.counted)
    for name in ("round", "resamplings", "seed", "max_steps"):
        attributes[name] = np.uint64(getattr(stored, name))
    arrays: dict[str, npt.ArrayLike] = {
        "species": np.array(list(model.species), str), "status": stored.status,
        "log_weights": stored.log_weights, **stored.state,
    }  # fmt: skip
    groups = {"values": stored.rows, "initial": stored.initial, "more": more}
    for group, own in groups.items():
        arrays |= {f"{group}/{name}": values for name, values in own.items()}

    def add_lattice(file: h5py.File) -> None:
        if isinstance(model, Lattice):
            write_model_group(file.create_group("model"), model)

    if isinstance(model, Network):
        arrays |= {"model/name": model.name, "model/canonical": canonical_text(model)}
    _file(path).write(arrays, attributes, add_lattice)


def read_stored(path: Path) -> tuple[Network | Lattice, StoredParticles, State]:
    """The model, the particles, and the arrays that a filter kept beside them.

    Raises
    ------
    InputFileError
        It is missing, damaged or of another kind.
    """
    result = _file(path).read(left_out="model/sites")
    status = result.take("status", np.uint8, None)
    n = len(status)
    method, settings = result.attributes.get("method"), result.attributes.get("settings")
    if not (n and isinstance(method, str) and isinstance(settings, str)):
        raise result.damaged("it has no particles, or no method")
    own = {k: v for k, v in result.items() if k.partition("/")[0] not in _OF_ALL}
    stored = StoredParticles(
        state=State(path, arrays=own),
        status=status, log_weights=result.take("log_weights", np.float64, n),
        rows={name: _row(result, name, n) for name in result.below("values")},
        initial=result.below("initial"),
        time=result.real("time", 0.0), round=result.whole("round"),
        resamplings=result.whole("resamplings"), seed=result.whole("seed", 0, _MOST),
        method=method, settings=_settings(result, settings),
        max_steps=result.whole("max_steps", 1),
        counted=_counted(result, result.attributes.get("counted", "[]")),
    )  # fmt: skip
    return _model(path, result), stored, result.below("more")


def _row(found: State, name: str, n: int) -> float | FloatArray:
    """A value of all particles, or one of each."""
    own = f"values/{name}"
    return found.take(own, np.float64, n) if found[own].ndim else found.real(own)


def _model(path: Path, found: State) -> Network | Lattice:
    if "model/sites_per_plane" in found:
        from tauslab.formats.lattice_hdf5 import read_lattice_file

        return read_lattice_file(path)
    text = found.text("model/canonical")
    return replace(read_toml_text(text, path), name=found.text("model/name"))


def _settings(found: State, text: str) -> Mapping[str, Any]:
    """Options of the method."""
    try:
        settings = json.loads(text)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise found.damaged("its settings belong to no method")
    return settings


def _counted(found: State, text: object) -> tuple[str, ...]:
    """Names of reactions that are counted."""
    try:
        names = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise found.damaged("its counted reactions are no names")
    return tuple(names)


def digest_of(*parts: object) -> bytes:
    """A digest of everything that decides a result."""
    result = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, bytes) else _text(part).encode()
        result.update(len(text).to_bytes(8, "little") + text)
    return result.digest()


def _text(part: object) -> str:
    if isinstance(part, Mapping):
        return repr([(str(key), _text(value)) for key, value in part.items()])
    if isinstance(part, np.ndarray):
        return f"{part.dtype} {part.shape} {hashlib.sha256(part.tobytes()).hexdigest()}"
    return repr(part)


class StateCheckpoint:
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
    how
        How a call goes on that was asked to stop.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every: float,
        digest: bytes,
        comm: Communicator,
        kind: str,
        what: str,
        *,
        how: str = "the same command continues from {path}",
    ) -> None:
        self._how = how
        self.path = None if path is None else at_home(path)
        self._every, self._digest, self._comm = every, np.frombuffer(digest, np.uint8), comm
        self._file, self._last = StateFile(self.path or Path(), kind, what), time.monotonic()

    def held(self) -> AbstractContextManager[None]:
        """Be the only call that writes the file, in a `with` statement."""
        return written_by_us(self.path, self._comm, "checkpoint")

    def take_up(self) -> State:
        """The arrays that an earlier call kept; none where there is no file.

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
                f"the same again, or another {opt('checkpoint')}"
            )
        return kept

    def save(self, kept: Callable[[], Mapping[str, npt.ArrayLike]], *, last: bool = False) -> None:
        """Write the arrays that `kept` returns, if it is time to; `last` says that nothing follows.

        Raises
        ------
        StoppedEarly
            On all ranks, where one was asked to stop before all was done.
        """
        if self.path is None:
            return
        now = time.monotonic()
        requested = self._comm.allgather(
            (last or now - self._last >= self._every, stop_requested())
        )
        stops = not last and any(stop for _, stop in requested)
        if not (requested[0][0] or stops):
            return
        self._last = now
        self._write({**kept(), "digest": self._digest})
        if stops:
            stopped = StoppedEarly("stopped on request", self._how.format(path=self.path))
            stopped.raised_by = self._comm.size
            raise stopped

    def _read(self) -> State:
        return on_root(self._comm, self._file.read)

    def _write(self, arrays: Mapping[str, npt.ArrayLike]) -> None:
        on_root(self._comm, lambda: self._file.write(arrays))
