"""The lattice engine: memory of a slab on one device, and the steps of a plan.

A *step* is one pass of hops along x, y and z with the reactions that follow it; a step of the
model is `LoweredLattice.diffusion_substeps` of these. `docs/rdme.md` explains the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid
from tauslab.kernels.lattice.changing import SlotsChanging
from tauslab.kernels.lattice.codegen import may_be_sparse, site_header
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.memory import LatticeMemory
from tauslab.kernels.lattice.plan import (
    NO_REQUESTS,
    TALL_FROM,
    Filling,
    LatticeRequests,
    Share,
    crowded_by,
    filling_of,
    may_change,
    plan_of,
    requests_of,
)
from tauslab.kernels.lattice.state import LatticeState, Samples, Slab
from tauslab.kernels.lattice.steps import PlaneSteps, steps_of

_OF_LAUNCH = slice(7, 10)  # words of `work` that are zero when many steps are launched together
_MOST_TOGETHER = 1 << 30  # steps of a launch; lattice/sparse/sections.cc counts them in 32 bits


class LatticeEngine(LatticeMemory):
    """A slab of a lattice on one device.

    Parameters
    ----------
    seed, replica
        With the number of the step, the address of all draws.
    slab
        By default the whole lattice.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    sharing
        How many engines take steps at the same time, each on its share of the device.
    tall
        As of `tile_of`, the same for all slabs; by default by the size of a lattice that is whole.
    requests
        How steps are to be done; by default as the plan says.
    follows
        Whether the plan, where it is not asked for, is made again with the lattice's
        particles as they change.
    """

    def __init__(  # noqa: PLR0913
        self,
        backend: Backend,
        lattice: LoweredLattice,
        *,
        seed: int,
        replica: int = 0,
        slab: Slab | None = None,
        capacity: int | None = None,
        sharing: int = 1,
        tall: bool | None = None,
        requests: LatticeRequests = NO_REQUESTS,
        follows: bool = True,
    ) -> None:
        nz, ny, nx = lattice.shape
        whole = Slab(0, nz)
        slab = slab or whole
        sites = slab.planes * ny * nx
        tall = slab == whole and sites >= TALL_FROM if tall is None else tall
        self._share = Share(slab == whole, sites, sharing, tall)
        self._requests = requests_of(backend, self._share, requests)
        changes = may_change(backend, lattice, self._requests)
        self._follows = follows and changes and self._share.whole and requests.together is None
        self._density: float | None = lattice.start.density  # of the state, if it is known
        self._closest = lattice.start.crowding  # as of `LoweredLattice.crowding`, of the state
        self.filling = filling_of(lattice.start.density)
        plan = plan_of(backend, lattice, self._share, self._requests, self.filling)
        super().__init__(
            backend, lattice, plan, slab, seed=seed, replica=replica, capacity=capacity
        )
        self._compile()

    def _compile(self) -> None:
        """The programs of the plan's steps and of counting."""
        header = {"model.h": site_header(self.lattice)}
        counting = KernelSource("lattice/count.cc", ("rdme_count", "rdme_filled_tiles"), header)
        with ThreadPoolExecutor(1) as beside:
            counter = beside.submit(self.backend.compile, counting)
            self.steps = steps_of(self, self.plan)
            if not self.steps.fits:
                self._without_lines()
        self._counter = counter.result()
        self._counting = self._counter.resident_blocks("rdme_count", self.plan.tile.threads)

    def compile_all(self) -> None:
        """Compile the steps of every plan that `follow` may choose by the number of particles."""
        for filling in Filling if self._follows else ():
            self.steps = steps_of(
                self, plan_of(self.backend, self.lattice, self._share, self._requests, filling)
            )
        self.steps = steps_of(self, self.plan)

    def _without_lines(self) -> None:
        """Share out tiles, where blocks have no room for lines: the tiles are the same."""
        requests = replace(self._requests, lines=False)
        self.plan = plan_of(self.backend, self.lattice, self._share, requests, self.filling)
        self.tables.cut(self.plan.tile, closed=self.plan.lists_tiles)
        self.steps = steps_of(self, self.plan)

    @cached_property
    def changing(self) -> SlotsChanging:
        """Kernels that change particles between steps."""
        threads = self.plan.tile.threads
        return SlotsChanging(self.backend, self.lattice, self.plan.header, threads, self.stream)

    @property
    def in_planes(self) -> PlaneSteps:
        """Steps that go through planes, launch by launch."""
        assert isinstance(self.steps, PlaneSteps)
        return self.steps

    # ---------------------------------------------------------------- the state

    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""
        super().load_start()
        self._density, self._closest = self.lattice.start.density, self.lattice.start.crowding

    def _take_up_rest(self, state: LatticeState) -> None:
        super()._take_up_rest(state)
        self._density = None

    def mark_all(self) -> None:
        """Take every tile for filled: after particles were changed from outside."""
        self.steps.forget()
        super().mark_all()

    def follow(self) -> None:
        """Choose again how steps are done, by the particles that the lattice has now.

        A few numbers decide, which are counts of the state and so the same on every device; the
        choice changes no bit.
        """
        if not self._follows:
            return
        if self._density is None:
            self.count()
        density, filling = self._density or 0.0, self.filling
        if may_be_sparse(self.lattice, wanted=self._requests.sparse):
            filling = filling_of(density, filling)
        lattice = crowded_by(self.backend, self.lattice, self._closest)
        if filling == self.filling and lattice is self.lattice:
            return
        self.filling = filling
        plan = plan_of(self.backend, lattice, self._share, self._requests, filling)
        self.cut(plan, lattice)
        self._compile()
        self.mark_all()

    # ---------------------------------------------------------------- steps

    def run(self, steps: int) -> None:
        """Put steps on the stream. Ask `must_repeat` before the result is used."""
        if not self.plan.together:
            self.steps.launch(steps, [], None)
            return
        for done in range(0, steps, _MOST_TOGETHER):
            self._run_together(min(steps - done, _MOST_TOGETHER), [])

    def _run_together(
        self, steps: int, marks: Sequence[int], counts: DeviceArray | None = None
    ) -> None:
        if self.step >> 31 != (self.step + steps) >> 31:  # long before a tile's stamp comes round
            self.synchronize()
            self.mark_all()
        self.backend.clear(self.work[_OF_LAUNCH], self.stream)
        if not self.steps.ready():
            self._without_lines()
            self.mark_all()
        self.steps.launch(steps, marks, counts)
        self.step += steps

    def _counts_while(self, steps: int) -> bool:
        return self.steps.counts and steps <= _MOST_TOGETHER

    def _run_counting(self, marks: Sequence[int], rows: DeviceArray) -> None:
        self._run_together(marks[-1], marks, rows)

    def filled_tiles(self) -> IntArray:
        """Number of tiles of each of the slab's own planes that hold particles in slots."""
        own, (_, ny, nx) = self.particles[self.own], self.lattice.shape
        counts = self.backend.upload(np.zeros(len(own), np.uint64))
        threads = self.plan.tile.threads
        grid = LaunchGrid(min(-(-len(own) * self.plan.tiles // threads), self._counting), threads)
        arguments = self._counter.arguments(
            "rdme_filled_tiles", sites=own, planes=len(own), ny=ny, nx=nx,
            tile_y=self.plan.tile.y, tile_x=self.plan.tile.x, counts=counts,
        )  # fmt: skip
        self._counter.launch_blocks("rdme_filled_tiles", grid, arguments, self.stream)
        return self.host(counts).astype(np.int64)

    def _count(self, row: DeviceArray) -> None:
        slab = self.slab
        _, ny, nx = self.lattice.shape
        own = self.own
        sites = (slab.end - slab.begin) * ny * nx
        grid = LaunchGrid(
            min(-(-sites // self.plan.tile.threads), self._counting), self.plan.tile.threads
        )
        counted = {
            "sites": self.particles[own],
            "types": None if self.types is None else self.types[own], "n_sites": sites,
            "fired": self._fired, "waiting": self._waiting, "work": self.work,
            "capacity": self.capacity, "list": self.step & 1, "first_site": slab.begin * ny * nx,
            "counts": row,
        }  # fmt: skip
        arguments = self._counter.arguments(
            "rdme_count",
            lattice=counted,
            n_types=len(self.lattice.site_types),
            n_species=len(self.lattice.species),
            n_reactions=len(self.lattice.reactions),
        )
        self._counter.launch_blocks("rdme_count", grid, arguments, self.stream)

    def _samples(self, rows: Array) -> Samples:
        samples = Samples.of_rows(rows, self.lattice.sizes)
        self._density, self._closest = self._crowding(samples.by_type[-1].sum(axis=1))
        return samples

    def _crowding(self, held: IntArray) -> tuple[float, float]:
        """Particles a site, of particles ``[site type]``.

        On average where a particle is, and in the kind of site that holds most.
        """
        density = held / np.maximum(self.lattice.sites_of_type, 1)
        return float((held * density).sum() / max(1, held.sum())), float(density.max(initial=0.0))

    def restore(self, before: dict[str, Any]) -> None:
        """Go back to a snapshot, with more room for waiting particles."""
        self.steps.repeat()
        super().restore(before)
