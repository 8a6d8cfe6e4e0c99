"""MPI, started only where ranks are needed; one rank works without mpi4py.

This is the only module that touches the world communicator.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, TauslabError
from tauslab.base.files.extras import installing
from tauslab.base.host import bound_to
from tauslab.decomposition.ranks.launcher import (
    check_launcher,
    check_library,
    launched_place,
    launched_ranks,
    mpich_settings,
    under_launcher,
)
from tauslab.decomposition.ranks.meeting import meet

Uint64Array = npt.NDArray[np.uint64]
ExceptionHook = Callable[[type[BaseException], BaseException, TracebackType | None], object]

# What a launcher shows to a rank; SLURM numbers GPUs of the node in the second, whatever the first.
_SHOWN_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS")

_POLL_SECONDS = 0.001
_EARLY_SECONDS = 20
_RANK = "TAUSLAB_RANK_PROCESS"  # number of the process that the launcher started
_MESSAGE_BYTES = 1 << 30  # an MPI message of the older kind has less than 2^31


@dataclass(frozen=True)
class Parcel:
    """A contiguous array that goes to rank `other`, or is filled by what comes from there."""

    other: int
    array: npt.NDArray[Any]
    sent: bool


class FileRanks:
    """A communicator of its own for threads that write a file together.

    Attributes
    ----------
    comm
        The mpi4py communicator, for h5py.
    """

    def __init__(self, comm: Any, mpi: Any) -> None:
        self.comm, self._mpi = comm, mpi

    def largest(self, values: Sequence[int]) -> list[int]:
        """Largest of each value over the ranks; sleeps while it waits: cores have work to do."""
        mine, result = np.array(values, np.int64), np.zeros(len(values), np.int64)
        request = self.comm.Iallreduce(mine, result, op=self._mpi.MAX)
        while not request.Test():
            time.sleep(_POLL_SECONDS)
        largest: list[int] = result.tolist()
        return largest

    def info(self, hints: Mapping[str, str]) -> Any:
        """Hints as MPI takes them; to be freed."""
        info = self._mpi.Info.Create()
        for name, value in hints.items():
            info.Set(name, value)
        return info


class Counter:
    """Numbers that all ranks take from: each goes to one rank only. These are of one rank."""

    def __init__(self) -> None:
        self._value = 0

    def next(self, count: int = 1) -> int:
        """Take the next `count` values, from 0 on; returns the first of them."""
        self._value += count
        return self._value - count

    def free(self) -> None:
        """Give the counter back; collective."""


class Communicator:
    """The interface to ranks that a job uses, and one rank alone without MPI.

    `gpu_rank` is the place of a rank among those of its node that see the same GPUs;
    `core_sharers` are the ranks, itself too, that may use the cores which it may use.
    """

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1
    gpu_rank = 0
    core_sharers = 1

    def meet(self, call: str, word: int) -> Uint64Array:  # noqa: ARG002
        """Every rank's word, above 0, when all have come; a warning names who is missing."""
        return np.array([word], np.uint64)

    def barrier(self) -> None:
        """Wait for all ranks."""

    def bcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        return value

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value on rank 0, None elsewhere."""
        return [value]

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value on every rank."""
        return [value]

    def join(self, part: npt.NDArray[Any], lengths: Sequence[int]) -> npt.NDArray[Any]:  # noqa: ARG002
        """Rows of all ranks in order; rank r gives ``lengths[r]`` of one type and shape."""
        return part

    def sum_uint64(self, array: Uint64Array) -> Uint64Array:
        """Elementwise sum over the ranks, modulo 2^64, on every rank."""
        return array

    def max_uint64(self, array: Uint64Array) -> Uint64Array:
        """Elementwise maximum over the ranks, on every rank."""
        return array

    def any(self, value: bool) -> bool:  # noqa: FBT001 - mirrors the builtin
        """Return whether `value` holds on any rank."""
        return value

    def counter(self) -> Counter:
        """Make a shared counter; collective."""
        return Counter()

    @property
    def native(self) -> Any:
        """The communicator of mpi4py, for those who send memory; None without MPI."""
        return None

    def split(self, color: int) -> Communicator:
        """The ranks that give the same color, in their order; collective."""
        del color
        return self

    def exchange(self, parcels: Sequence[Parcel]) -> None:
        """Send and receive arrays; ranks list their parcels with each other in the same order."""

    def free(self) -> None:
        """Give back what `split` made; collective."""

    def poll(self) -> None:
        """Let MPI serve other ranks' requests."""

    def threads_multiple(self) -> bool:
        """Return whether several threads of a rank may use MPI at the same time."""
        return True

    def for_files(self) -> FileRanks:
        """These ranks for a thread that writes files together with theirs. Collective."""
        raise ConfigError("one rank alone writes files without MPI-IO")

    def abort(self, code: int) -> None:
        """End every rank at once."""
        os._exit(code)


class LoneRank(Communicator):
    """One of several ranks of a launch, which works alone: it takes its share of the node."""

    def __init__(self) -> None:
        self.gpu_rank, self.local_size = launched_place()
        together = len(bound_to()) * self.local_size > (os.cpu_count() or 1)
        self.core_sharers = self.local_size if together else 1  # else each has cores of its own


class SharedCounter(Counter):
    """Fetch-and-add on a window that rank 0 hosts."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._window = MPI.Win.Allocate(8 if comm.rank == 0 else 0, 8, comm=comm)
        if comm.rank == 0:
            # Locked, else nothing says that the others see the store before they add.
            self._window.Lock(0)
            memory: Any = self._window.tomemory()
            np.frombuffer(memory, np.int64)[0] = 0
            self._window.Unlock(0)
        comm.Barrier()
        self._window.Lock_all()

    def next(self, count: int = 1) -> int:
        """Take the next `count` values."""
        amount, value = np.array([count], np.int64), np.zeros(1, np.int64)
        self._window.Fetch_and_op(amount, value, 0, 0, self._mpi.SUM)
        self._window.Flush(0)
        return int(value[0])

    def free(self) -> None:
        """Free the window; collective."""
        self._window.Unlock_all()
        self._window.Free()


class MpiCommunicator(Communicator):
    """A duplicate of an mpi4py communicator."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._comm = comm.Dup()
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank: int = node.Get_rank()
        self.local_size: int = node.Get_size()
        seen = node.allgather([os.environ.get(name) for name in _SHOWN_GPUS])
        self.gpu_rank = seen[: self.local_rank].count(seen[self.local_rank])
        cores = bound_to()
        self.core_sharers = sum(not cores.isdisjoint(other) for other in node.allgather(cores))
        node.Free()

    def meet(self, call: str, word: int) -> Uint64Array:
        """Every rank's word, when all have come."""
        from mpi4py import MPI

        return meet(self._comm, MPI, call, word)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._comm.Barrier()

    def bcast(self, value: Any) -> Any:
        """Rank 0's value."""
        return self._comm.bcast(value, root=0)

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value on rank 0."""
        gathered: list[Any] | None = self._comm.gather(value, root=0)
        return gathered

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value on every rank."""
        return list(self._comm.allgather(value))

    def join(self, part: npt.NDArray[Any], lengths: Sequence[int]) -> npt.NDArray[Any]:
        """Rows of all ranks in order, from memory to memory."""
        part = np.ascontiguousarray(part)
        result = np.empty((sum(lengths), *part.shape[1:]), part.dtype)
        ends = np.add.accumulate(lengths)
        if result.nbytes < _MESSAGE_BYTES:
            each = result.nbytes // max(1, len(result))
            sizes = [length * each for length in lengths]
            self._comm.Allgatherv(
                part.reshape(-1).view(np.uint8), [result.reshape(-1).view(np.uint8), sizes]
            )
            return result
        pieces = [result[end - n : end] for end, n in zip(ends, lengths, strict=True)]
        pieces[self.rank][...] = part
        parcels = []
        for other, piece in enumerate(pieces):
            if other != self.rank:
                parcels += [Parcel(other, part, sent=True)] if len(part) else []
                parcels += [Parcel(other, piece, sent=False)] if len(piece) else []
        self.exchange(parcels)
        return result

    def sum_uint64(self, array: Uint64Array) -> Uint64Array:
        """Elementwise sum over the ranks, modulo 2^64."""
        total = np.empty_like(array)
        self._comm.Allreduce(np.ascontiguousarray(array), total)
        return total

    def max_uint64(self, array: Uint64Array) -> Uint64Array:
        """Elementwise maximum over the ranks."""
        from mpi4py import MPI

        largest = np.empty_like(array)
        self._comm.Allreduce(np.ascontiguousarray(array), largest, op=MPI.MAX)
        return largest

    def any(self, value: bool) -> bool:  # noqa: FBT001 - mirrors the builtin
        """Return whether `value` holds on any rank."""
        return bool(self.max_uint64(np.array([value], np.uint64))[0])

    def counter(self) -> Counter:
        """Make a shared counter."""
        return SharedCounter(self._comm)

    def threads_multiple(self) -> bool:
        """Return whether MPI was started so."""
        from mpi4py import MPI

        return bool(MPI.Query_thread() == MPI.THREAD_MULTIPLE)

    def for_files(self) -> FileRanks:
        """A duplicate."""
        from mpi4py import MPI

        return FileRanks(self._comm.Dup(), MPI)

    @property
    def native(self) -> Any:
        """The duplicate."""
        return self._comm

    def split(self, color: int) -> Communicator:
        """The ranks that give the same color, in their order."""
        part = self._comm.Split(color, self.rank)
        try:
            return MpiCommunicator(part)
        finally:
            part.Free()

    def exchange(self, parcels: Sequence[Parcel]) -> None:
        """Send and receive arrays, all at the same time."""
        from mpi4py import MPI

        requests = []
        for parcel in parcels:
            data = parcel.array.reshape(-1).view(np.uint8)
            start = self._comm.Isend if parcel.sent else self._comm.Irecv
            requests += [
                start(data[at : at + _MESSAGE_BYTES], parcel.other, 0)
                for at in range(0, len(data), _MESSAGE_BYTES)
            ]
        MPI.Request.Waitall(requests)

    def free(self) -> None:
        """Free the duplicate; collective."""
        self._comm.Free()

    def poll(self) -> None:
        """Probe, which lets MPI make progress for the counter."""
        self._comm.Iprobe()

    def abort(self, code: int) -> None:
        """End every rank at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.Abort(code)


def world() -> Communicator:
    """All ranks of this launch; starts MPI if a launcher started this process.

    Raises
    ------
    ConfigError
        mpi4py is missing, or other ranks run than were started.
    """
    comm = Communicator()
    library = ""
    if under_launcher():
        if importlib.util.find_spec("mpi4py") is None:
            raise ConfigError(
                "this process was started by an MPI launcher but mpi4py is not installed: "
                f"{installing('mpi4py', 'mpich')}"
            )
        mpi = start_mpi()
        meet(mpi.COMM_WORLD, mpi, "tauslab")
        comm, library = MpiCommunicator(mpi.COMM_WORLD), mpi.Get_library_version()
    check_launcher(comm.size, library)
    if comm.size > 1:
        usual = sys.excepthook
        sys.excepthook = ending_all(comm, usual.usual if isinstance(usual, EarlyHook) else usual)
    return comm


def duplicate_of(comm: Any, call: str) -> Communicator:
    """Ours of a communicator of mpi4py, which keeps it for the next call. Collective.

    Parameters
    ----------
    call
        Which all ranks make, for the warning about ranks that are missing.
    """
    from mpi4py import MPI

    result: Communicator | None = comm.Get_attr(_keyval())
    if result is None:
        meet(comm, MPI, call)
        result = MpiCommunicator(comm)
        comm.Set_attr(_keyval(), result)
    return result


@cache
def _keyval() -> int:
    from mpi4py import MPI

    made: int = MPI.Comm.Create_keyval()
    return made


def start_mpi() -> Any:
    """Return mpi4py's MPI, started with the settings that its library needs under this launcher."""
    import mpi4py

    rc = mpi4py.rc
    rc.recv_mprobe = False  # matched probes hang on some fabrics
    usual = rc.initialize, rc.finalize
    rc.initialize, rc.finalize = False, rc.finalize is not False
    try:
        from mpi4py import MPI
    finally:
        rc.initialize, rc.finalize = usual
    if not MPI.Is_initialized():
        check_library(MPI.Get_library_version())
        os.environ.update(mpich_settings(MPI.Get_library_version()))
        level = rc.thread_level if rc.threads else "single"
        with warnings.catch_warnings():  # mpi4py's; `check_launcher` says once what is wrong
            warnings.filterwarnings("ignore", "suspicious MPI execution environment")
            MPI.Init_thread(getattr(MPI, f"THREAD_{level.upper()}"))
    return MPI


def ending_all(comm: Communicator, usual: ExceptionHook) -> ExceptionHook:
    """An exception hook that ends all ranks, so that none waits for one that failed."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        usual(kind, error, trace)
        comm.abort(error.exit_code if isinstance(error, TauslabError) else 1)

    return hook


class EarlyHook:
    """An exception hook that ends all ranks where one raises before its first call of tauslab.

    The others would wait for it in their calls. The hook starts MPI if necessary, as
    ``python -m mpi4py`` does; if the others never start it, it ends its own process after
    `_EARLY_SECONDS`. A process that a rank started is no rank: its errors are its own.
    """

    def __init__(self, usual: ExceptionHook) -> None:
        self.usual = usual
        self.process = os.getpid()

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Print the traceback, then end all ranks."""
        self.usual(kind, error, trace)
        if os.getpid() != self.process:
            return
        sys.stderr.flush()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends a process that waits within MPI
        signal.alarm(_EARLY_SECONDS)
        try:
            mpi = start_mpi()
        except (ImportError, RuntimeError, TauslabError):
            return
        if not mpi.Is_finalized():
            mpi.COMM_WORLD.Abort(error.exit_code if isinstance(error, TauslabError) else 1)


def end_all_of_launch() -> None:
    """Install an `EarlyHook`, where a launcher started several ranks; when tauslab is imported.

    A rank leaves its number in the environment: another Python that has it was started by a rank.
    """
    if launched_ranks() > 1 and os.environ.setdefault(_RANK, str(os.getpid())) == str(os.getpid()):
        sys.excepthook = EarlyHook(sys.excepthook)


def remove_early_hook() -> None:
    """Remove an `EarlyHook`: ranks that work alone do not wait for each other."""
    if isinstance(sys.excepthook, EarlyHook):
        sys.excepthook = sys.excepthook.usual


def gpu_index(count: int, gpu_rank: int, environment: Mapping[str, str] = os.environ) -> int:
    """Index of the GPU that a rank takes among the `count` that it sees.

    A launcher may show every rank a GPU of its own, which has index 0 everywhere, or with
    ``srun --gpus-per-task=2`` two of its own; where several ranks of a node see the same GPUs, each
    takes that of its place among them.

    >>> [gpu_index(4, rank, {}) for rank in range(4)], gpu_index(1, 3, {})
    ([0, 1, 2, 3], 0)
    >>> gpu_index(2, 3, {"SLURM_GPUS_PER_TASK": "h200:2"})
    0
    """
    own = environment.get("SLURM_GPUS_PER_TASK", "").rpartition(":")[2]
    return 0 if count <= 1 or own == str(count) else gpu_rank


def host_name() -> str:
    """Name of this node."""
    return socket.gethostname()
