"""Ranks, devices and lattices for `benchmark_halo.py`: what its parts share."""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tauslab.decomposition.halo.mpi import mpi_takes_device_memory
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice.state import LatticeState
from tauslab.kernels.lattice.waiting import WAITING
from tauslab.model.errors import DecompositionError
from tauslab.model.lattice.lattice import Lattice
from tauslab.runner.ranks.job import open_backend
from tauslab.runner.ranks.mpi import Communicator, world

SPACING, STEP = 32e-9, 1e-4
HOPS = {"A": 0.15, "B": 0.10, "C": 0.05}
PAIR, UNBIND = 7.8e-4, 1e-3  # probabilities in a step
TRANSPORTS = ("peer", "shared", "host")
_PATTERN = 8  # planes of particles that are made; a slab repeats them
_WARM_STEPS = 18

Row = dict[str, Any]
Shape = tuple[int, int, int]


def pairs(shape: Shape, slots: int) -> LoweredLattice:
    """A + B <-> C everywhere, periodic, without particles."""
    model = Lattice("pairs", shape=shape, spacing=SPACING, step=STEP, slots=slots,
                    boundary="periodic")  # fmt: skip
    for name, hop in HOPS.items():
        model.add_species(name)
        model.add_diffusion(name, hop * SPACING**2 / STEP)
    model.add_reaction("A + B -> C", rate=-np.log1p(-PAIR) / STEP, volume="site")
    model.add_reaction("C -> A + B", rate=-np.log1p(-UNBIND) / STEP)
    return lower_lattice(model, reaction_substeps=1)


def fill(engine: LatticeEngine, share: float) -> None:
    """Fill a share of all slots at random."""
    lattice, slab = engine.lattice, engine.slab
    _, ny, nx = lattice.shape
    planes = slab.end - slab.begin
    rng = np.random.default_rng(slab.begin)
    shape = (min(planes, _PATTERN), ny, nx)
    held = rng.binomial(lattice.slots, share, shape).astype(np.uint8)
    kinds = rng.choice(np.array([1, 1, 2, 2, 3], np.uint8), (*shape, lattice.slots))
    kinds[np.arange(lattice.slots) >= held[..., None]] = 0
    particles = np.concatenate([kinds] * -(-planes // len(kinds)))[:planes]
    fired = np.zeros(len(lattice.reactions), np.int64)
    engine.load(LatticeState(particles, np.zeros(0, WAITING), 0, fired, 0))
    engine.follow()  # the lattice began empty, and kernels are chosen by what it holds


class Bench:
    """What the parts share: ranks, device, options, rows found."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.world: Communicator = world()
        self.options = options
        self.backend = open_backend(options.device, options.threads, self.world, share=True)
        self.rows: list[Row] = []
        self._told: set[str] = set()
        self.began = time.perf_counter()

    def transports(self) -> tuple[str, ...]:
        """Those asked for, or all that there may be between these ranks."""
        if self.world.size == 1:
            return ()
        given: list[str] | None = self.options.transports
        return (*TRANSPORTS, "mpi")[: 3 + mpi_takes_device_memory()] if not given else tuple(given)

    def some(self, ranks: int) -> Communicator | None:
        """A communicator of the first `ranks` ranks; None on the others."""
        comm = self.world.split(int(self.world.rank >= ranks))
        return comm if self.world.rank < ranks else None

    @contextmanager
    def slab(
        self, comm: Communicator, shape: Shape, options: HaloOptions, kind: Row | None = None
    ) -> Iterator[SlabEngine | None]:
        """Filled, on the ranks of `comm`, by `kind`: slots and fill; None if it cannot be."""
        kind = self.kind() if kind is None else kind
        lattice, bounds = pairs(shape, kind["slots"]), cut_planes(shape[0], comm.size)
        try:
            slab = SlabEngine(self.backend, lattice, comm.native, bounds, seed=1, options=options)
        except DecompositionError as error:  # on all ranks alike
            if comm.rank == 0 and str(error) not in self._told:
                print(error, file=sys.stderr, flush=True)
                self._told.add(str(error))
            yield None
            return
        fill(slab.engine, kind["fill"])
        yield slab
        slab.close()
        del slab  # its memory goes now
        gc.collect()

    def kind(self) -> Row:
        """Slots of a site, and the share of them that is filled."""
        return {"slots": self.options.slots, "fill": self.options.fill}

    def keep(self, row: Row) -> None:
        """Rank 0 keeps a row and shows it."""
        if self.world.rank == 0:
            self.rows.append(row)
            shown = " ".join(f"{k}={_short(v)}" for k, v in row.items() if k != "spans")
            print(f"{time.perf_counter() - self.began:5.0f} s: {shown}", file=sys.stderr,
                  flush=True)  # fmt: skip

    def slowest(self, comm: Communicator, slab: SlabEngine, steps: int) -> float:
        """Seconds a step, median of some runs, each that of the slowest rank."""
        found = []
        for _ in range(self.options.repeat):
            slab.engine.synchronize()
            comm.barrier()
            began = time.perf_counter()
            slab.run(steps)
            slab.engine.synchronize()
            found.append(max(comm.allgather(time.perf_counter() - began)) / steps)
        return float(statistics.median(found))

    def steps_for(self, comm: Communicator, slab: SlabEngine) -> int:
        """As many steps as take about `seconds` a run: a multiple of 48, and so of most depths."""
        slab.run(_WARM_STEPS)  # launches are recorded here
        pace = self.slowest(comm, slab, _WARM_STEPS)
        steps = round(float(self.options.seconds) / pace / 48) * 48  # alike: of all ranks' times
        return max(48, min(9600, steps))


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
