"""Opens files that may be damaged, or of another program, and says what they are."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.base.errors import (
    ConfigError,
    InputFileError,
    OutputError,
    TauslabError,
    of_damage,
    reason_of,
)
from tauslab.base.files.opening import beside, open_h5, reading
from tauslab.base.files.seals import FORMAT, require_format, safe_attributes
from tauslab.base.option_names import opt

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

# In their files; an ensemble says there how its trajectories were made.
METHOD_OF_LATTICES, METHOD_OF_DBNS = "rdme", "dbn"
WEIGHTED, SPLITTING, FILTER = "weighted_ensemble", "multilevel_splitting", "particle_filter"
SENSITIVITY, POPULATION, FILTERS = "sensitivity", "population", "particle_filters"
ABC, FIT, SMC2 = "abc_smc", "fit", "smc2"
CHAINS, CME, HYBRID = "pmmh", "cme", "parts"  # ``hybrid`` is a method of ensembles
# What files hold that are no ensembles, by method.
OTHER_KINDS = {
    METHOD_OF_LATTICES: "a lattice run", METHOD_OF_DBNS: "a dynamic Bayesian network",
    WEIGHTED: "a rare event", SPLITTING: "a rare event", FILTER: "a filtered trajectory",
    FILTERS: "filtered trajectories", SENSITIVITY: "derivatives of means",
    POPULATION: "a population of cells", CHAINS: "chains of parameters",
    CME: "the distribution of a network", HYBRID: "a hybrid of several parts",
    ABC: "populations of parameters", FIT: "a fit", SMC2: "draws of a posterior",
}  # fmt: skip
# Formats of the files that `tauslab.store.state` writes.
_PARTICLES = "tauslab particles"  # of filters, and of `Ensemble.save`
_CHECKPOINTS = (
    _PARTICLES, "tauslab chains", "tauslab rare events", "tauslab hybrid", "tauslab abc",
    "tauslab smc2",
)  # fmt: skip
_RESULTS = (".h5",)
_ENDING = (signal.SIGTERM, signal.SIGINT)


class StoredData(Mapping[str, Any]):
    """Datasets of an open file by their path, without the leading slash, in alphabetical order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a dataset; the file is not touched."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Return an iterator of names."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        """Return the number of datasets."""
        return len(self._names)


def open_hdf5(path: Path, kind: type[TauslabError] = InputFileError) -> h5py.File:
    """Open a file for reading.

    Raises
    ------
    TauslabError
        A `kind`: it is missing, no file, not readable, or not HDF5.
    """
    import h5py

    if not path.exists():
        raise kind(f"{path}: there is no such file{beside(path, _RESULTS)}")
    if not path.is_file():
        raise kind(f"{path} is not a file")
    if not os.access(path, os.R_OK):
        raise kind(f"{path} cannot be read: permission denied")
    try:
        with ended_by_signals():
            return open_h5(path)
    except (OSError, RuntimeError, ValueError) as error:
        reason = reason_of(error)
        if "truncated" in reason:
            raise of_damage(kind(f"{path} is truncated: {reason}")) from None
        if not h5py.is_hdf5(path):
            raise of_damage(kind(f"{path} is not an HDF5 file, so not a result")) from None
        raise kind(f"{path} cannot be opened: {reason}") from None


@contextmanager
def with_rerun_advice() -> Iterator[None]:
    """Let the message about a damaged result say how to compute it again; other errors pass."""
    try:
        yield
    except TauslabError as error:
        if not error.of_damage:
            raise
        reported = ConfigError(f"{error}; to compute it again delete it and repeat the command")
        reported.raised_by = error.raised_by
        raise reported from None


@contextmanager
def open_own_file(path: Path) -> Iterator[h5py.File]:
    """A file of this run, opened to be read.

    Raises
    ------
    OutputError
        It is gone, was changed by another program meanwhile, or its device fails.
    """
    if not path.exists():
        raise OutputError(f"{path} was removed while the run wrote it")
    try:
        with reading(path, OutputError), open_hdf5(path, OutputError) as file:
            yield file
    except TauslabError:
        raise
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {reason_of(error)}") from None


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The method of a file of ours, such as ``ssa``, ``rdme`` or ``dbn``.

    None for what is not HDF5, or another program's; whoever reads it then says what is wrong.
    """
    path = Path(path)
    try:
        if not path.is_file():
            return None
        with reading(path, InputFileError), open_hdf5(path) as file, ended_by_signals():
            attributes = safe_attributes(file)
    except OSError:
        return None
    method = attributes.get("method")
    return method if isinstance(method, str) and attributes.get("format") == FORMAT else None


def known_attributes(path: Path, file: h5py.File, kind: type[TauslabError]) -> dict[str, Any]:
    """Attributes of the root of a result of this version.

    Raises
    ------
    TauslabError
        A `kind`: it is of another program or another version.
    """
    attributes = safe_attributes(file)
    if attributes.get("format") in _CHECKPOINTS:
        saved = attributes["format"] == _PARTICLES
        raise kind(
            f"{path} is no result but a checkpoint: repeat the call that wrote it with "
            f"{opt('checkpoint', path)}, and it continues"
            f"{'; what Ensemble.save wrote Ensemble.load reads' if saved else ''}"
        )
    require_format(path, attributes, "a result", kind)
    return attributes


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the process at once, where a run would stop in order.

    While HDF5 reads a file, Python handles no signals; nothing has been written yet, and a file
    that is damaged in a way that nobody has met may keep HDF5 busy for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    ours = [n for n, handler in before.items() if _is_ours(handler)]
    for number in ours:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _is_ours(handler: Any) -> bool:
    """Return whether it belongs to a run, or is what Python begins with; a user's own one stays."""
    if handler is signal.default_int_handler:
        return False
    return str(getattr(handler, "__module__", "")).partition(".")[0] == "tauslab"
