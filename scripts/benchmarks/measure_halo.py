"""One lattice over several ranks: steps, messages, and the slab of one rank alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from machine import Machine
from measure_lattices import Shape, Site, scaled

from tauslab.base.errors import DecompositionError
from tauslab.decomposition.halo.messages import Halo, Link, Ranks
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator, world
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.halo_messages import HaloKernels
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.planes_messages import PlanesMessages
from tauslab.kernels.lattice.state import WAITING, LatticeState, Slab

EDGES = (32, 64, 128, 256, 512, 1024)  # of the planes of messages
EXCHANGES = 64
WARM_STEPS = 18
SECONDS = 0.1  # of a timed run
PATTERN = 8  # planes of particles that are made; a slab repeats them


def fill(engine: LatticeEngine, share: float) -> None:
    """Fill a share of all slots at random."""
    lattice, slab = engine.lattice, engine.slab
    planes = slab.end - slab.begin
    rng, shape = np.random.default_rng(slab.begin), (min(planes, PATTERN), *lattice.shape[1:])
    held = rng.binomial(lattice.slots, share, shape).astype(np.uint8)
    kinds = rng.choice(np.array([1, 1, 2, 2, 3], np.uint8), (*shape, lattice.slots))
    kinds[np.arange(lattice.slots) >= held[..., None]] = 0
    particles = np.concatenate([kinds] * -(-planes // len(kinds)))[:planes]
    fired = np.zeros(len(lattice.reactions), np.int64)
    engine.load(LatticeState(particles, np.zeros(0, WAITING), 0, fired, 0))
    engine.follow()  # the lattice began empty, and kernels are chosen by what it holds


class Loopback(Link):
    """A link that goes nowhere: all that is done for a message to a device but to send it."""

    name = "peer"

    def __init__(self, backend: Backend, words: int) -> None:
        self._memory = [backend.shareable(words) for _ in range(2)]
        self._cell = backend.shareable(1)

    def target(self, number: int) -> tuple[Any, Any]:
        """Its own memory."""
        return self._memory[number & 1], self._cell

    source = target


@dataclass(frozen=True)
class OneOfMany:
    """A communicator's rank and size; there are no others to talk to."""

    rank: int
    size: int


class LonelySlab(SlabEngine):
    """A slab whose messages stay on its device."""

    def _open_halo(self, comm: Ranks, room: int) -> None:  # noqa: ARG002 - as of the base
        self.kernels = HaloKernels(self.engine, self.depth, room)
        links = [Loopback(self.engine.backend, self.kernels.message_words) for _ in range(2)]
        self.halo = Halo(self.kernels, links)


class LoopedSlab:
    """A periodic lattice in bit planes on one GPU as a slab that is its own neighbour.

    It has the kernel and the messages of slabs, and the bits of the whole lattice.
    """

    def __init__(self, backend: Backend, lattice: LoweredLattice, *, seed: int) -> None:
        slab = Slab(0, lattice.shape[0], below=1, above=1)
        self.engine = PlanesEngine(backend, lattice, seed=seed, slab=slab)
        self._messages = PlanesMessages(self.engine, lambda _end: None)
        self._sent, words = 0, 2 * self._messages.message_words
        (down, went_down), (up, went_up) = (
            (backend.shareable(words), backend.shareable(1)) for _ in range(2)
        )
        self._ends = ((down, up), (went_down, went_up), (up, down), (went_up, went_down))

    def run(self, steps: int) -> None:
        """Put steps on the stream."""
        self._messages.start_steps(steps, self._ends, self._sent + 1)
        self._sent += steps

    def close(self) -> None:
        """Wait for the steps."""
        self.engine.synchronize()


def pace(comm: Communicator, slab: SlabEngine, seconds: float) -> float:
    """Seconds a step, median of five runs of about `seconds`, each that of the slowest rank."""

    def of(steps: int) -> float:
        slab.engine.synchronize()
        comm.barrier()
        began = time.perf_counter()
        slab.run(steps)
        slab.engine.synchronize()
        return float(max(comm.allgather(time.perf_counter() - began))) / steps

    slab.run(WARM_STEPS)  # launches are recorded here
    steps = max(48, min(9600, round(seconds / of(WARM_STEPS) / 48) * 48))
    return statistics.median(of(steps) for _ in range(5))


@contextmanager
def filled(
    machine: Machine, backend: Backend, site: Site, comm: Any, options: HaloOptions,
    kind: type[SlabEngine] = SlabEngine,
) -> Iterator[SlabEngine]:  # fmt: skip
    """A slab of a lattice over the ranks of `comm`."""
    site = scaled(machine, site)
    lattice = replace(site, fill=0.0).lowered()
    slab = kind(
        backend, lattice, comm, cut_planes(site.shape[0], comm.size), seed=1, options=options
    )
    fill(slab.engine, site.fill)
    try:
        yield slab
    finally:
        slab.close()


def site_of(text: str) -> Site:
    """``ZxYxX``, ``:8`` for slots of 8, which are 4 % full."""
    shape, _, slots = text.partition(":")
    z, y, x = map(int, shape.split("x"))
    return Site(shape=(z, y, x), slots=8, fill=0.04) if slots else Site(shape=(z, y, x))


def alone(machine: Machine, text: str, ranks: int, depth: int = 1, planes: int = 0) -> float:
    """Seconds a step of a slab from the middle of a lattice, whose messages stay on the device.

    `planes`: through how many a block marches; 0 chooses.
    """
    backend, comm = machine.backend(), cast("Ranks", OneOfMany(ranks // 2, ranks))
    options = HaloOptions(depth=depth)
    with filled(machine, backend, site_of(text), comm, options, LonelySlab) as slab:
        slab.engine.planes_each = planes
        result = pace(world(), slab, SECONDS * machine.scale)
    backend.close()
    return result


def steps(
    machine: Machine, folder: Path, text: str, transport: str, depth: str = "1"
) -> dict[str, float]:
    """Seconds a step over all ranks, and with messages that stay on their device."""
    del folder
    comm, seconds = world(), SECONDS * machine.scale
    backend = open_backend(machine.device, machine.threads, comm, share=True)
    options = HaloOptions(transport, int(depth))
    try:
        with filled(machine, backend, site_of(text), comm.native or comm, options) as slab:
            result = {"": pace(comm, slab, seconds)}
            if slab.halo is not None:
                kernels = slab.halo.kernels
                links: list[Link | None] = [
                    Loopback(backend, kernels.message_words) if link else None
                    for link in slab.halo.links
                ]
                slab.engine.synchronize()
                sent, slab.halo = slab.halo, Halo(kernels, links)
                slab.forget_recordings()
                result["without sending"] = pace(comm, slab, seconds)
                slab.forget_recordings()
                slab.halo = sent
    except DecompositionError:  # on all ranks alike: a way that is not open between them
        result = {}
    backend.close()
    return result


def links(machine: Machine, folder: Path, transport: str) -> dict[str, float]:
    """Seconds of a message to both neighbours and back, by its bytes, with nothing else to do."""
    del folder
    comm, result = world(), dict[str, float]()
    backend = open_backend(machine.device, machine.threads, comm, share=True)
    for edge in EDGES if machine.scale >= 1 else EDGES[:1]:
        shape: Shape = (2 * comm.size, edge, edge)
        site = Site(shape=shape)
        try:
            with filled(Machine(machine.device), backend, site, comm.native or comm,
                        HaloOptions(transport)) as slab:  # fmt: skip
                assert slab.halo is not None
                size = 8 * slab.halo.kernels.message_words
                result[f"{size} bytes"] = _message(comm, slab, slab.halo)
        except DecompositionError:
            break
    backend.close()
    return result


def _message(comm: Communicator, slab: SlabEngine, halo: Halo) -> float:
    """Median seconds of the slowest rank; recorded where the device can send by itself."""
    stream, kernels = slab.edge_stream, slab.kernels
    odd = halo.number & 1
    before = halo.number - odd

    def all_of_them() -> None:
        for _ in range(EXCHANGES):
            halo.send(stream)
            halo.wait(stream)

    def and_again() -> None:
        all_of_them()
        kernels.advance(0, EXCHANGES, stream)

    recorded = None
    if halo.on_device:
        halo.number = odd
        recorded = slab.engine.backend.record_launches(and_again, stream)
        halo.number = before + odd
    if recorded is not None:
        kernels.advance(0, before, stream)
    result: list[float] = []
    for _ in range(6):
        stream.record().wait()
        comm.barrier()
        began = time.perf_counter()
        if recorded is None:
            all_of_them()
        else:
            recorded.launch(stream)
            halo.number += EXCHANGES
        stream.record().wait()
        result.append(max(comm.allgather(time.perf_counter() - began)) / EXCHANGES)
    if recorded is not None:
        kernels.advance(0, odd - halo.number, stream)
    return statistics.median(result[1:])  # a recording goes to the device with its first launch
