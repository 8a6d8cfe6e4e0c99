"""Steps that rank 0 takes for all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tauslab.base.errors import OutputError, TauslabError

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

T = TypeVar("T")


def on_root(comm: Communicator, action: Callable[[], T]) -> T:
    """Run `action` on rank 0; every rank returns its value or raises its error. Collective."""
    outcome: tuple[T | None, TauslabError | None] = (None, None)
    if comm.rank == 0:
        try:
            outcome = (action(), None)
        except TauslabError as error:
            outcome = (None, error)
        except OSError as error:
            outcome = (None, OutputError(str(error)))
    value: T
    value, failure = comm.bcast(outcome)
    if failure is not None:
        failure.raised_by = comm.size
        raise failure
    return value
