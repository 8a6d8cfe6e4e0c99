"""Detection of an object that counts its draws in several processes, which would repeat them.

A fork copies it. A worker that imports the module which makes it makes it anew: workers that are
spawned, those of a fork server, of joblib, of Dask's nannies and of mpi4py.futures.
"""

from __future__ import annotations

import os
import sys
import uuid
from types import FrameType

_LIBRARIES = ("multiprocessing.process", "multiprocess.process")
_MPI_WORKER = "__worker__"
_PROGRAMS = ("__mp_main__", _MPI_WORKER)  # as which multiprocessing and mpi4py.futures import one
_MADE_ANEW = 0  # no process and no copy has this number


class Origin:
    """The process in which an object was made, and whether a module made it while it was imported.

    Parameters
    ----------
    repeats
        Whether one that is made anew draws the same: it does if its seed is given, and a copy that
        is counted does not.
    """

    def __init__(self, *, repeats: bool) -> None:
        self._process = os.getpid()
        self._imported = repeats and _is_importing()

    def others(self) -> tuple[int, ...]:
        """Numbers that part this process from others with the same object; none if it is alone."""
        process = os.getpid()
        if process != self._process:
            return (process,)
        worker = _worker() if self._imported else ()
        return (_MADE_ANEW, *worker) if worker else ()


def _is_importing() -> bool:
    """Return whether a module is being imported, or a worker imports its program."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as `warnings` looks at callers
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            held = frame.f_globals
            if held.get("__name__") in _PROGRAMS:
                return True
            if getattr(held.get("__spec__"), "_initializing", False):
                return True
        frame = frame.f_back
    return False


def _worker() -> tuple[int, ...]:
    """Number of this process among the workers of its program; none if it is no worker."""
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and module.parent_process() is not None:
            return tuple(module.current_process()._identity)  # noqa: SLF001 - has no other name
    return (os.getpid(), uuid.getnode()) if _MPI_WORKER in sys.modules else ()
