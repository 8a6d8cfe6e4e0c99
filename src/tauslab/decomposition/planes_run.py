"""The steps of one slab of a lattice in bit planes.

A step is three passes: along x, y and z. What hops over a cut along z is the message, and the next
pass takes it in; nothing is computed twice::

    z arrives, reactions, x leaves | x arrives, y leaves | y arrives, z leaves | z arrives, ...

The pass in which z leaves begins with the edges of the slab and writes the message.
"""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.decomposition.halo.links import open_halo
from tauslab.decomposition.halo.messages import Halo, Ranks
from tauslab.decomposition.slab import neighbours, slab_of
from tauslab.decomposition.slab_run import USUAL_HALO, HaloOptions, check_cut
from tauslab.kernels.backends.base import Backend, Event
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.planes_messages import PlanesMessages
from tauslab.kernels.lattice.state import Samples


class PlanesSlab:
    """The slab of one rank, in bit planes; all ranks call the same methods with the same steps.

    Its `engine` holds the slab's memory and loads, saves and counts the slab's own planes. Sums
    over ranks are the caller's. Results do not depend on the number of ranks, the cut or the
    transport.

    Parameters
    ----------
    comm
        An mpi4py communicator of the ranks that share the lattice, in the order of slabs; None for
        one rank.
    bounds
        Planes at which slabs begin, and nz: see `tauslab.decomposition.slab.cut_planes`.
    options
        Transport and capacity; what hops is always sent after each step.
    sharing
        As of `PlanesEngine`, for one rank.

    Raises
    ------
    DecompositionError
        The ranks do not fit the cut, or the transport is not possible.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        comm: Ranks | None,
        bounds: Sequence[int],
        *,
        seed: int,
        replica: int = 0,
        options: HaloOptions = USUAL_HALO,
        sharing: int = 1,
    ) -> None:
        rank, size = (0, 1) if comm is None else (comm.rank, comm.size)
        check_cut(bounds, size, lattice.shape[0], 1)
        periodic = lattice.boundary[0] == "periodic"
        slab = slab_of(bounds, rank, periodic=periodic, depth=1)
        self.engine = PlanesEngine(
            backend, lattice, seed=seed, replica=replica, slab=slab, capacity=options.capacity,
            sharing=sharing,
        )  # fmt: skip
        self.trace: list[tuple[str, int, Event]] | None = None
        self._comm = comm
        self._halo: Halo | None = None
        self._together = False
        if comm is not None and size > 1:
            self._messages = PlanesMessages(self.engine, self._mark)
            around = neighbours(rank, size, periodic=periodic)
            self._halo = open_halo(self._messages, backend, comm, around, options.transport)
            self._together = kernels_may_wait(backend, comm, on_device=self._halo.on_device,
                                          alone=options.alone)  # fmt: skip

    @property
    def transports(self) -> tuple[str | None, str | None]:
        """Transports to the slabs below and above; ``self`` for a lattice that is not cut."""
        return ("self", "self") if self._halo is None else self._halo.transports

    def close(self) -> None:
        """Give memory and requests of messages back; collective."""
        self.engine.synchronize()
        if self._halo is not None:
            self._halo.close()

    def run(self, steps: int) -> None:
        """Put steps on the stream; collective."""
        if self._halo is None:
            self.engine.run(steps)
            return
        if steps <= 0:
            return
        if self._together and self.trace is None:
            self._messages.start_steps(steps, self._halo.ends(0), self._halo.number + 1)
            self._halo.number += steps
            return
        messages, engine, stream = self._messages, self.engine, self.engine.stream
        messages.start_pass(-1, 0)
        for left in reversed(range(steps)):
            if not engine.axes_together:
                messages.start_pass(0, 1)
            self._halo.send(stream)
            messages.departs = 0 if left else -1
            self._halo.wait(stream)
            engine.step += 1

    def _mark(self, end: int) -> None:
        """Note when a pass began (0) or ended (1), if `trace` is a list."""
        if self.trace is not None:
            self.trace.append(("pass", end, self.engine.stream.record()))

    def run_sampled(self, marks: Sequence[int]) -> Samples:
        """Run as `PlanesEngine.run_sampled` does, for the slab's own planes; collective."""
        return self.engine.run_sampled(marks, None if self._halo is None else self)

    def must_repeat(self) -> bool:
        """Return whether any rank's list was full; collective."""
        full = self.engine.must_repeat()
        return full if self._comm is None else any(self._comm.allgather(full))


def kernels_may_wait(backend: Backend, comm: Ranks, *, on_device: bool, alone: bool) -> bool:
    """Return whether kernels of all ranks may wait for each other; collective.

    Each needs a device of its own, which runs no kernel of another lattice that waits so too.
    """
    own = backend.identity() if alone and on_device and backend.style.warp > 1 else ""
    devices = comm.allgather(own)
    return all(devices) and len({*devices}) == len(devices)
