"""The steps of one slab, and messages that travel while they are computed.

With one plane from each neighbour a step is, on the *main* stream (left) and the *edge* stream::

    hops along x, y in own planes  |  wait for the neighbours' planes, take them in
             |                     |  hops along x, y in those
             +-------------------->|  finish the edge planes
    finish the planes between      |  send the edge planes
             |<--------------------+  (finished, not sent)

so a message has from the middle of a step to the middle of the next. Where the hops of a step last
longer than a message, all planes are finished by one launch, which is less work, and then the edge
planes are sent. With d planes a message serves d steps; the planes beside the slab are computed
too, one less on each side in each step, and particles that wait for room there travel with the
message.

A particle that hops over the edge of a slab is not sent: both ranks decide its hop with the same
draws (csrc/lattice/site/hop.h), one takes it out and the other puts it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.errors import DecompositionError
from tauslab.decomposition.halo.depth import WAYS, overlaps_hops, slab_planes
from tauslab.decomposition.halo.links import open_halo
from tauslab.decomposition.halo.messages import Halo, Ranks
from tauslab.decomposition.slab import neighbours, slab_of
from tauslab.kernels.backends.base import Backend, Event, Graph, Stream
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.halo_messages import HaloKernels
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.plan import TALL_FROM
from tauslab.kernels.lattice.state import FULL, MESSAGE_FULL, Samples

_LEAST_ROOM = 1024
_SITES_PER_ENTRY = 16  # room at first for waiting particles in a message
_GROWTH = 4
_RECORDED_STEPS = 8  # at least; launches of so many steps are recorded once


@dataclass(frozen=True)
class HaloOptions:
    """Options of the halo exchange; no choice changes a result.

    Attributes
    ----------
    transport
        See `tauslab.decomposition.halo.links.open_halo`.
    depth
        Planes that travel at once, for that many steps.
    early
        Whether the edge planes are finished and sent before those between, with a depth of 1; by
        default as `tauslab.decomposition.halo.depth.overlaps_hops` says.
    record
        Whether launches may be recorded and replayed where host and device both can.
    capacity, room
        Particles that can wait for a slot, in the slab and in a message, before a batch of steps
        is done again with more room; by default in proportion to the sites.
    alone
        Whether no rank of another lattice may have the device of one of these ranks.
    """

    transport: str = "auto"
    depth: int = 1
    early: bool | None = None
    record: bool = True
    capacity: int | None = None
    room: int | None = None
    alone: bool = True


USUAL_HALO = HaloOptions()


class SlabEngine:
    """The slab of one rank; all ranks call the same methods with the same steps.

    Its `engine` holds the slab's memory and loads, saves and counts the slab's own planes.  Sums
    over ranks are the caller's.  So is to let all ranks change particles at the same step.  Results
    do not depend on the number of ranks, the cut, the transport, the depth, or whether launches are
    recorded.

    Parameters
    ----------
    comm
        An mpi4py communicator of the ranks that share the lattice, in the order of slabs; None for
        one rank.
    bounds
        Planes at which slabs begin, and nz: see `tauslab.decomposition.slab.cut_planes`.
    options
        See `HaloOptions`.
    sharing
        As of `LatticeEngine`, for one rank.

    Raises
    ------
    DecompositionError
        The ranks do not fit the cut, a slab is thinner than `depth`, or the transport is not
        possible.
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
        depth, capacity = options.depth, options.capacity
        check_cut(bounds, size, lattice.shape[0], depth)
        periodic = lattice.boundary[0] == "periodic"
        slab = slab_of(bounds, rank, periodic=periodic, depth=depth)
        self.engine = LatticeEngine(
            backend, lattice, seed=seed, replica=replica, slab=slab, capacity=capacity,
            sharing=sharing, tall=int(np.prod(lattice.shape)) // size >= TALL_FROM,
        )  # fmt: skip
        self.depth, self._options, self._comm = depth, options, comm
        self._neighbours = neighbours(rank, size, periodic=periodic)
        self.edge_stream: Stream = backend.stream(urgent=True)
        self.trace: list[tuple[str, int, Event]] | None = None
        self._graphs: dict[int, tuple[list[Any], Graph]] = {}
        self.halo: Halo | None = None
        if comm is not None and size > 1:
            sites = depth * lattice.shape[1] * lattice.shape[2]
            space = options.room or max(_LEAST_ROOM, sites // _SITES_PER_ENTRY)
            self._open_halo(comm, 0 if depth == 1 else space)
        self._early = self._has_early_edges()

    def _open_halo(self, comm: Ranks, room: int) -> None:
        self.kernels = HaloKernels(self.engine, self.depth, room)
        backend, transport = self.engine.backend, self._options.transport
        self.halo = open_halo(self.kernels, backend, comm, self._neighbours, transport)

    def _has_early_edges(self) -> bool:
        """Return whether edge planes are finished and sent before those between."""
        if self._options.early is not None or self.halo is None or not self.halo.on_device:
            return self._options.early is not False
        engine, slab = self.engine, self.engine.slab
        planes = slab_planes(engine.backend, engine.lattice, slab.end - slab.begin)
        ways = [WAYS[name] for name in self.transports if name is not None]
        return not all(overlaps_hops(planes, way) for way in ways)

    @property
    def transports(self) -> tuple[str | None, str | None]:
        """Transports to the slabs below and above; ``self`` for a lattice that is not cut."""
        return ("self", "self") if self.halo is None else self.halo.transports

    def close(self) -> None:
        """Give memory and requests of messages back; collective."""
        self.engine.synchronize()
        if self.halo is not None:
            self.halo.close()

    # ---------------------------------------------------------------- steps

    def run(self, steps: int) -> None:
        """Put steps on the streams; collective. The neighbours' planes are asked for at first."""
        if self.halo is None:
            self.engine.run(steps)
            return
        if steps <= 0:
            return
        self.edge_stream.wait_for(self.engine.stream.record())
        self.halo.send(self.edge_stream)
        if self.depth > 1:
            self._wait_for_message()
        left = self._replay(self.halo, steps)
        for index in range(left):
            self._step(self.halo, index % self.depth, last=index == left - 1)
        self.engine.stream.wait_for(self.edge_stream.record())

    def run_sampled(self, marks: Sequence[int]) -> Samples:
        """Run as `LatticeEngine.run_sampled`, for the slab's own planes; collective."""
        return self.engine.run_sampled(marks, None if self.halo is None else self)

    def _step(self, halo: Halo, turn: int, *, last: bool) -> None:
        """Step `turn` after a message came; the next message is sent unless it is the last."""
        engine, main, edge = self.engine, self.engine.stream, self.edge_stream
        slab = engine.slab
        own = (slab.below, slab.below + slab.end - slab.begin)
        # Planes whose state is known, and after the step.
        known = self._with_neighbours(own, self.depth - turn)
        finished = self._with_neighbours(own, self.depth - turn - 1)
        sends = turn == self.depth - 1 and not last

        self._mark("plane", 0)
        if turn == 0:
            engine.in_planes.hop_in_planes(*own)
            hopped = main.record()
            self._mark("plane", 1)
            halo.wait(edge)
            self._mark("arrived", 1, edge)
            engine.in_planes.hop_in_planes(*known, own, opens=False, stream=edge)
        else:
            engine.in_planes.hop_in_planes(*known)
            hopped = main.record()
            self._mark("plane", 1)
        between = (own[0] + self.depth, own[1] - self.depth)
        early = self._early or self.depth > 1
        if not sends or not early or between[0] >= between[1]:
            main.wait_for(edge.record())
            self._mark("column", 0)
            engine.in_planes.finish_planes(*finished)
            self._mark("column", 1)
            edge.wait_for(main.record())
            engine.step += 1
            if sends:
                halo.send(edge)
                if self.depth > 1:
                    self._wait_for_message()
            return
        edge.wait_for(hopped)
        self._mark("edges", 0, edge)
        engine.in_planes.finish_planes(*finished, between, stream=edge)
        self._mark("edges", 1, edge)
        self._mark("column", 0)
        engine.in_planes.finish_planes(*between)
        self._mark("column", 1)
        finished_edges = edge.record()
        engine.step += 1
        halo.send(edge)
        self._mark("sent", 1, edge)
        if self.depth == 1:
            main.wait_for(finished_edges)
        else:
            self._wait_for_message()

    def _wait_for_message(self) -> None:
        """Let no particle come to wait in the next step while those that wait are packed."""
        self.engine.stream.wait_for(self.edge_stream.record())

    def _with_neighbours(self, own: tuple[int, int], planes: int) -> tuple[int, int]:
        """`own` and as many planes on either side, where a neighbour is."""
        below, above = min(planes, self.engine.slab.below), min(planes, self.engine.slab.above)
        return own[0] - below, own[1] + above

    # ---------------------------------------------------------------- recorded launches

    def _replay(self, halo: Halo, steps: int) -> int:
        """Run most steps by launches that were recorded once; returns how many are left.

        Recorded launches keep their arguments: numbers of steps and messages count from words in
        device memory. The places of messages take turns, so a recording begins with an odd or an
        even message, and holds an even number of them.
        """
        engine, main = self.engine, self.engine.stream
        messages = 2 * -(-_RECORDED_STEPS // (2 * self.depth))
        length = messages * self.depth
        usable = self._options.record and self.trace is None and halo.on_device
        if not usable or steps <= length + self.depth:
            return steps
        if not self._graphs:  # no kernel is launched for the first time while it is recorded
            for turn in range(self.depth):
                self._step(halo, turn, last=False)
            steps -= self.depth
        recorded = self._recorded(halo, length)
        if recorded is None:
            return steps
        odd = halo.number & 1
        base_step, base_message = engine.step, halo.number - odd
        main.wait_for(self.edge_stream.record())
        self.kernels.advance(base_step, base_message, main)
        while steps > length:
            recorded.launch(main)
            steps -= length
            engine.step += length
            halo.number += messages
        self.kernels.advance(-engine.step, -(halo.number - odd), main)
        self.edge_stream.wait_for(main.record())
        return steps

    def _recorded(self, halo: Halo, length: int) -> Graph | None:
        """A recording of `length` steps, which take in and send an even number of messages."""
        engine, main = self.engine, self.engine.stream
        odd = halo.number & 1
        arguments = engine.arguments().values()
        buffers = [x for x in arguments if hasattr(x, "shape") and x.shape]
        if odd in self._graphs:
            before, graph = self._graphs[odd]
            if len(before) == len(buffers) and all(map(_same, before, buffers)):
                return graph
        step, number = engine.step, halo.number
        engine.step, halo.number = 0, odd

        def launch_all() -> None:
            self.edge_stream.wait_for(main.record())
            for index in range(length):
                self._step(halo, index % self.depth, last=False)
            main.wait_for(self.edge_stream.record())
            self.kernels.advance(length, length // self.depth, main)

        recorded = engine.backend.record_launches(launch_all, main)
        engine.step, halo.number = step, number
        if recorded is not None:
            self._graphs[odd] = (buffers, recorded)
        return recorded

    def forget_recordings(self) -> None:
        """Record launches anew: after `halo` was changed."""
        self._graphs.clear()

    # ---------------------------------------------------------------- doing a batch again

    def must_repeat(self) -> bool:
        """Return whether any rank's list was full, or had no room in a message; collective."""
        if self._comm is None or self.halo is None:
            return self.engine.must_repeat()
        work = self.engine.host(self.engine.work)
        reported = self._comm.allgather((bool(work[FULL]), bool(work[MESSAGE_FULL])))
        if any(message for _, message in reported):
            self.engine.synchronize()
            self.halo.close()
            self.forget_recordings()
            self._open_halo(self._comm, _GROWTH * self.kernels.room)
        return any(full or message for full, message in reported)

    # ---------------------------------------------------------------- what took how long

    def _mark(self, name: str, end: int, stream: Stream | None = None) -> None:
        """Note when `name` began (0) or ended (1), if `trace` is a list."""
        if self.trace is not None:
            self.trace.append((name, end, (stream or self.engine.stream).record()))


def _same(a: Any, b: Any) -> bool:
    return a is b


def check_cut(bounds: Sequence[int], size: int, nz: int, depth: int) -> None:
    """Refuse a cut that is not one, or too thin for planes that travel at once."""
    planes = np.diff(np.asarray(bounds))
    if len(planes) != size or bounds[0] != 0 or bounds[-1] != nz or (planes < 1).any():
        raise DecompositionError(
            f"slabs that begin at planes {list(bounds[:-1])} and end at {bounds[-1]} do not share "
            f"{nz} planes among {size} rank(s)"
        )
    if size > 1 and planes.min() < depth:
        raise DecompositionError(
            f"a slab of {planes.min()} plane(s) is thinner than the halo, which is {depth} deep: "
            f"use at most {max(1, nz // depth)} rank(s), or a halo of {planes.min()}"
        )
