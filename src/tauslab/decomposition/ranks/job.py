"""The steps that every job takes on all its ranks, whatever it computes.

A job of any kind agrees on its task and its seed, opens the devices node by node, runs, and ends
on all ranks alike: `agreed_task`, `agreed_seed`, `devices`, `failing_together`. What it computes
stands in `runner.ensemble.run`, `runner.lattice.run` and `analysis.dbn.build`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from tauslab.base.errors import ConfigError
from tauslab.base.host import allowed_cores, cores_of_rank
from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.mpi import Communicator, gpu_index
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.together import agree, end_all_ranks, in_turn
from tauslab.kernels.backends import (
    Backend,
    BackendOptions,
    choose_backend,
    device_count,
    get_backend,
    on_cores,
    prepare_device,
)

_OVERSUBSCRIBED = {"OMPI_MCA_rmaps_base_oversubscribe", "PRTE_MCA_rmaps_default_mapping_policy"}


class HasModel(Protocol):
    """A task, which knows the hash of its model."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the model's normal form."""


T = TypeVar("T", bound=HasModel)


def agreed_seed(given: int | None, stored: Callable[[], int | None], comm: Communicator) -> int:
    """The seed that is given, that of the file to resume, or one drawn. Collective.

    Parameters
    ----------
    stored
        Asked on rank 0 where none is given: the seed of the file, or None.
    """

    def found() -> int:
        seed = stored()
        return secrets.randbits(64) if seed is None else seed

    return on_root(comm, found) if given is None else given


def seed_of(seed: int, name: str) -> int:
    """The seed of something with a name, of that of a job: others change nothing of it."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def agreed_task(prepare: Callable[[], T], comm: Communicator) -> T:
    """Call `prepare` on each rank; refuses ranks that have other models. Collective."""
    task = agree(comm, prepare)
    hashes = comm.allgather(task.sha256)
    if len(set(hashes)) > 1:
        other = next(rank for rank, value in enumerate(hashes) if value != hashes[0])
        raise ConfigError(f"rank {other} has another model than rank 0; all must run the same")
    return task


@contextmanager
def devices(
    device: str, threads: int, comm: Communicator, *, share: bool = False
) -> Iterator[Backend]:
    """The device of this rank, which is given back in the end. Collective."""
    prepare(device, comm, share=share)
    backend = in_turn(comm, lambda: open_backend(device, threads, comm, share=share))
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def failing_together(comm: Communicator) -> Iterator[None]:
    """Inside, what fails on one rank ends all, which may be waiting for it."""
    try:
        yield
    except BaseException as error:
        end_all_ranks(comm, error)
        raise


def prepare(device: str, comm: Communicator, *, share: bool = False) -> None:
    """Start what `open_backend` will wait for, beside what the caller does until then."""
    prepare_device(device, lambda count: _index(count, comm, share=share))


def _index(count: int, comm: Communicator, *, share: bool) -> int:
    """Index of the GPU that this rank takes; of ranks that work alone some may share one."""
    index = gpu_index(count, comm.gpu_rank)
    return index % count if (share or comm.size == 1) and count else index


def _warn_of_shared_cores(threads: int, comm: Communicator) -> None:
    """Warn if the threads of all ranks exceed the cores of the node.

    ``mpirun --oversubscribe`` of Open MPI requests this, so there is no warning then.
    """
    cores, sharers = allowed_cores(), comm.core_sharers
    if comm.size > 1 and threads * sharers > cores and not _OVERSUBSCRIBED & os.environ.keys():
        warn(
            f"{sharers} ranks share {cores} core{'s' * (cores > 1)} and compute with {threads} "
            f"thread{'s' * (threads > 1)} each, so they wait for each other: ranks times "
            f"{opt('threads')} should be at most the number of cores"
        )


def open_backend(device: str, threads: int, comm: Communicator, *, share: bool = False) -> Backend:
    """Open the device of this rank: the GPU of its node-local rank, or its share of the cores.

    With `share`, ranks beyond the GPUs there are begin again with the first.
    """
    prepare(device, comm, share=share)
    name = choose_backend(device)
    index = _index(device_count(name), comm, share=share)
    own = threads or cores_of_rank(comm.core_sharers)
    if on_cores(name) and comm.rank == 0:
        _warn_of_shared_cores(own, comm)
    return get_backend(name, BackendOptions(index=index, threads=own))
