"""A rank of a job in which one rank has a fault; started by tests/mpi/test_mpio.py.

    fault_child.py FAULT MOMENT RANK run model.toml ...

FAULT is ``kill`` (kill -9) or ``full`` (no space is left) at change number MOMENT of a file, or
``device`` (an error) at copy number MOMENT from the device.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Any

from tauslab.api.api import ranks
from tauslab.cli.main import main as command_line
from tauslab.decomposition.ranks import job
from tauslab.kernels.backends import cpu
from tauslab.store.hdf5.disk import Disk
from tauslab.store.writers.mpio import MpioWriter


class Fault:
    """Counts what happens, and strikes when the moment has come."""

    def __init__(self, kind: str, moment: int) -> None:
        self.kind, self.left = kind, moment

    def pass_by(self) -> None:
        """One more change or copy."""
        self.left -= 1
        if self.left >= 0:
            return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise RuntimeError("an illegal memory access was encountered")

    def before(self, method: Any) -> Any:
        """The method, with the fault in its way."""

        def instead(*arguments: Any, **options: Any) -> Any:
            self.pass_by()
            return method(*arguments, **options)

        return instead


class Failing:
    """A backend with a fault in its copies to the host."""

    def __init__(self, backend: Any, fault: Fault) -> None:
        self.backend = backend
        self.download = fault.before(backend.download)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the backend's."""
        return getattr(self.backend, name)


def main() -> None:
    """Put the fault in place and run the command."""
    kind, moment, victim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fault = Fault(kind, moment)
    cpu.LEAST_EVENTS = 0.0  # small launches: many writes, so that a fault has its moment
    if ranks().rank == victim and kind == "device":
        real: Any = job.open_backend
        job.open_backend = lambda *given, **more: Failing(real(*given, **more), fault)
    elif ranks().rank == victim:
        changes: tuple[tuple[Any, str], ...] = (
            (Disk, "write"), (Disk, "replace"), (MpioWriter, "_write"),
        )  # fmt: skip
        for owner, name in changes:
            setattr(owner, name, fault.before(getattr(owner, name)))
    sys.exit(command_line(sys.argv[4:]))


if __name__ == "__main__":
    main()
