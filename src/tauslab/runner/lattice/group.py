"""The ranks that share a lattice: each has a slab; a group sums numbers of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tauslab.base.arrays import Array, IntArray
from tauslab.decomposition.halo.links import best_depth
from tauslab.decomposition.planes_run import PlanesSlab
from tauslab.decomposition.ranks.mpi import Communicator, Parcel
from tauslab.decomposition.slab import RankGrid, cut_planes, neighbours
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.halo_messages import HaloKernels
from tauslab.kernels.lattice.plan import TALL_FROM
from tauslab.kernels.lattice.planes import LatticeEngineName
from tauslab.kernels.lattice.planes_engine import PlanesEngine, planes_program
from tauslab.kernels.lattice.state import SINCE_START, WAITING, LatticeState, Samples, Slab
from tauslab.options.lattice import LatticeTask
from tauslab.runner.lattice.balance import balanced, filled_share, plane_costs, traced_seconds
from tauslab.store.lattice.parts import HookState, Piece

T = TypeVar("T")


def compile_kernels(
    backend: Backend, task: LatticeTask, slabs: int, *, sharing: int = 1, starts: bool = False
) -> None:
    """Put the kernels into the cache, so that other ranks of the node find them there.

    Of `sharing` lattices that run at the same time. With `starts` also those that place particles
    at the start, and of a whole lattice those that take over as it fills or empties.
    """
    if task.engine is LatticeEngineName.PLANES:
        planes_program(backend, task.lattice, cut=slabs > 1, sharing=sharing)
        return
    if slabs == 1:
        engine = LatticeEngine(backend, task.lattice, seed=0, sharing=sharing)
        if starts:
            engine.load_start()
            engine.compile_all()
        return
    tall = int(np.prod(task.lattice.shape)) // slabs >= TALL_FROM
    engine = LatticeEngine(backend, task.lattice, seed=0, slab=Slab(0, 1), tall=tall)
    HaloKernels(engine, 1, 0)


class RankSlab:
    """A rank's slab of one run at a time, and its share in what all slabs do together.

    `task` has the lattice of the point of that run. Every method but `piece`'s result is collective
    over the group.

    Parameters
    ----------
    world
        All ranks; those of a group follow each other.
    sharing
        How many lattices the rank runs at the same time.
    """

    def __init__(
        self, task: LatticeTask, backend: Backend, world: Communicator, grid: RankGrid, *,
        sharing: int = 1,
    ) -> None:  # fmt: skip
        self.task, self.backend, self.grid = task, backend, grid
        self._sharing = sharing
        self.index, self.rank = grid.place(world.rank)
        self.comm = world.split(self.index)
        self.depth = task.options.halo_depth or self._best_depth()
        self.bounds = cut_planes(task.lattice.shape[0], grid.slabs, least=self.depth)
        self._cuts, self._seconds = 0, 0.0
        self._sites_changed = self._rates_changed = False  # by hooks
        self.run = self.index
        self._prepared = -1  # a run whose engine has not begun
        self._placed = False  # whether its particles stand there
        self._slab_engine: SlabEngine | PlanesSlab | None = None

    def _best_depth(self) -> int:
        """Planes that travel at once, by the size of a slab and the slowest way between slabs."""
        lattice, slabs = self.task.lattice, self.comm.size
        if slabs == 1 or self.task.engine is LatticeEngineName.PLANES:
            return 1
        around = neighbours(self.rank, slabs, periodic=lattice.boundary[0] == "periodic")
        halo = self.task.options.halo
        return best_depth(self.backend, lattice, self.comm.native, around, halo)

    def describe(self) -> str:
        """Describe how planes travel, for people."""
        ways = {way for way in self._steps.transports if way is not None}
        planes = "plane" if self.depth == 1 else "planes"
        return f"{self.depth} {planes} at a time by {' and '.join(sorted(ways))}"

    @property
    def engine(self) -> LatticeEngine | PlanesEngine:
        """The memory of this rank's slab."""
        return self._steps.engine

    @property
    def _steps(self) -> SlabEngine | PlanesSlab:
        """Engine of this rank's slab."""
        assert self._slab_engine is not None
        return self._slab_engine

    def prepare(self, *, anew: bool) -> None:
        """Make the first run's engine, before anything is written: what cannot be, shows.

        With `anew` the run begins at t = 0, and its particles are placed too.

        Raises
        ------
        DecompositionError
            Planes cannot travel as was asked.
        ModelError
            Particles have no room.
        """
        self._make(self.index)
        if anew:
            self.engine.load_start()
        self._prepared, self._placed = self.index, anew

    def close(self) -> None:
        """Give back what the group holds."""
        self._close_engine()
        self.comm.free()

    # ---------------------------------------------------------------- states

    def begin(
        self, run: int, read: Callable[[int, int], tuple[LatticeState, HookState]] | None
    ) -> tuple[Mapping[str, Any], IntArray]:
        """Start a run, or go on with what `read` gives for some planes.

        Returns
        -------
        What hooks noted, and the firings at their last look.
        """
        if run != self._prepared:
            self._make(run)
            self._placed = False
        placed, self._prepared, self._placed = self._placed, -1, False
        memory: Mapping[str, Any] = {}
        looked = np.zeros(len(self.task.lattice.reactions), np.int64)
        if read is None:
            if not placed:
                self.engine.load_start()
        else:
            slab = self.engine.slab
            state, hooks = read(slab.begin, slab.end)
            # The sums are of the whole lattice: the first slab goes on with them, others with none.
            if self.rank:
                nothing: dict[str, Any] = dict.fromkeys(SINCE_START, 0)
                state = replace(state, fired=np.zeros_like(state.fired), **nothing)
            self.engine.load(state)
            self._set_rates(hooks.rates)
            self._set_sites(hooks.sites)
            memory, looked = hooks.memory, hooks.looked
        self._cut_by_costs()
        return memory, looked

    def _make(self, run: int) -> None:
        if self._takes_over(run):
            self.run, self.engine.replica = run, self.task.number_of(run)
            return
        self._close_engine()  # its memory goes first
        self._sites_changed = self._rates_changed = False
        self.run, self.task = run, self.task.of_run(run)
        options, point = self.task.options, self.task.place(run)[0]
        made = PlanesSlab if self.task.engine is LatticeEngineName.PLANES else SlabEngine
        self._slab_engine = made(
            self.backend,
            self.task.lattice,
            self.comm.native if self.comm.size > 1 else None,
            self.bounds,
            seed=self.task.seed_of(point),
            replica=self.task.number_of(run),
            options=HaloOptions(
                "auto" if self.comm.size == 1 else options.halo,
                self.depth,
                alone=not options.share_gpu,
            ),
            sharing=self._sharing,
        )

    def _takes_over(self, run: int) -> bool:
        """Return whether the last run's engine does the next one: a whole lattice of one point.

        To make another takes 5 ms, which is more than a small lattice needs for its steps.
        """
        task = self.task
        return (
            self._slab_engine is not None
            and self.comm.size == 1
            and not (task.hooked or self._rates_changed or self._sites_changed)
            and task.place(run)[0] == task.place(self.run)[0]
        )

    def _close_engine(self) -> None:
        if self._slab_engine is not None:
            self._slab_engine.close()
        self._slab_engine = None

    def _set_rates(self, rates: Array) -> None:
        for reaction in np.flatnonzero((self.engine.rates != rates).any(axis=1)).tolist():
            self.engine.set_rate(reaction, rates[reaction])
            self._rates_changed = True

    def _set_sites(self, sites: Array | None) -> None:
        """Give the slab's planes the site types that hooks set; None: the model's."""
        if sites is not None:
            self.engine.types[self.engine.own] = self.backend.upload(sites)
            self.share_sites()

    def share_sites(self, *, known: bool = False) -> None:
        """Inform the neighbours of site types that were changed in the engine's memory.

        Not where they are `known` to all slabs.
        """
        self._sites_changed = True
        if known:
            return
        engine, sites = self.engine, self._host_sites(whole=True)
        slab, depth = engine.slab, self.depth
        periodic = self.task.lattice.boundary[0] == "periodic"
        below, above = neighbours(self.rank, self.comm.size, periodic=periodic)
        own = sites[engine.own]
        parcels = []
        # Two ranks may be both neighbours to each other: what goes down comes from above.
        if below is not None:
            parcels.append(Parcel(below, own[:depth], sent=True))
        if above is not None:
            parcels.append(Parcel(above, own[-depth:], sent=True))
            parcels.append(Parcel(above, sites[slab.planes - depth :], sent=False))
        if below is not None:
            parcels.append(Parcel(below, sites[:depth], sent=False))
        self.comm.exchange(parcels)
        engine.set_types(self.backend.upload(sites))

    def _host_sites(self, *, whole: bool = False) -> Array:
        """Site types of the slab's own planes, or of all in memory, on the host."""
        sites = self.engine.host(self.engine.types)
        return sites if whole else sites[self.engine.own]

    def piece(
        self, number: int, place: int, memory: Mapping[str, Any], looked: IntArray
    ) -> Callable[[], Piece]:
        """The rank's planes of a frame or checkpoint, as `LatticeEngine.save_later` gives them."""
        engine = self.engine
        slab, run = engine.slab, self.run
        totals = self.count()
        state = engine.save_later(place)
        counted: dict[str, Any] = {name: int(getattr(totals, name)[0]) for name in SINCE_START}
        sites = self._host_sites() if self._sites_changed else None
        hooks = HookState(engine.rates.copy(), looked, memory, sites)

        def get() -> Piece:
            own = replace(state(), fired=totals.fired[0], **counted)
            return Piece(run, number, slab.begin, slab.end, own, hooks)

        return get

    # ---------------------------------------------------------------- steps and sums

    def run_sampled(self, marks: Sequence[int]) -> Samples:
        """Call `LatticeEngine.run_sampled`, and sum over the whole lattice."""
        return self._summed(self._steps.run_sampled(marks))

    def count(self) -> Samples:
        """Call `LatticeEngine.count`, and sum over the whole lattice."""
        return self._summed(self.engine.count())

    def _summed(self, own: Samples) -> Samples:
        if self.comm.size == 1:
            return own
        total = self.comm.sum_uint64(own.rows().astype(np.uint64))
        return Samples.of_rows(total, self.engine.lattice.sizes)

    def sum(self, values: IntArray) -> IntArray:
        """Sums of counts over all slabs."""
        return np.asarray(sum(self.comm.allgather(values))) if self.comm.size > 1 else values

    def gather(self, *own: Array) -> list[tuple[Array, ...]]:
        """Arrays of all slabs, in their order."""
        return self.comm.allgather(own)

    def profile(self) -> dict[str, Any]:
        """Columns of `/profile` of this rank."""
        below, above = (None, None) if self._slab_engine is None else self._slab_engine.transports
        return {
            "device": self.backend.describe(),
            "group": self.index,
            "begin": self.bounds[self.rank],
            "end": self.bounds[self.rank + 1],
            "below": below or "none",
            "above": above or "none",
            "halo_depth": self.depth,
            "cuts": self._cuts,
        }

    # ---------------------------------------------------------------- new cuts

    def timed(self, work: Callable[[], T]) -> T:
        """Do some steps, noting how long this rank's device computes for `balance`."""
        steps = self._steps
        steps.trace = []
        done = work()
        self._seconds, steps.trace = traced_seconds(steps.trace), None
        return done

    def balance(self) -> None:
        """Cut anew by what the slabs took in `timed` steps, where that gains enough."""
        if self.comm.size > 1:
            self._use(self.comm.allgather(self._seconds), self._costs())

    def _cut_by_costs(self) -> None:
        """Cut by what the planes are estimated to cost, where that gains enough."""
        if self.comm.size == 1 and isinstance(self.engine, PlanesEngine):
            return
        costs = self._costs()
        self._use(np.add.reduceat(costs, np.array(self.bounds[:-1])).tolist(), costs)

    def _costs(self) -> list[int]:
        return [c for part in self.comm.allgather(plane_costs(self.engine).tolist()) for c in part]

    def _use(self, seconds: list[float], costs: list[int]) -> None:
        bounds = balanced(self.bounds, seconds, costs, self.depth)
        if bounds != self.bounds:
            self.recut(bounds)
        begin, end = self.bounds[self.rank : self.rank + 2]
        if isinstance(self.engine, LatticeEngine):
            self.engine.filled = filled_share(costs[begin:end], self.engine.plan.tiles)

    def recut(self, bounds: Sequence[int]) -> None:
        """Hand planes over so that slabs begin at other planes; no number changes."""
        old, state = self.bounds, self.engine.save()
        rates = self.engine.rates.copy()
        sites = self._host_sites() if self._sites_changed else None
        self.bounds = tuple(bounds)
        particles = self._hand_planes(old, state.particles)
        sites = None if sites is None else self._hand_planes(old, sites)
        waiting = self._hand_over(state.waiting)
        self._make(self.run)
        self.engine.load(replace(state, particles=particles, waiting=waiting))
        self._set_rates(rates)
        self._set_sites(sites)
        self._cuts += 1

    def _hand_planes(self, old: Sequence[int], planes: Array) -> Array:
        """Send planes of the old slab to the ranks that have them now; returns those of the new."""
        mine = np.zeros(
            (self.bounds[self.rank + 1] - self.bounds[self.rank], *planes.shape[1:]), planes.dtype
        )
        parcels = []
        for other in range(self.comm.size):
            out = planes[_overlap(old, self.rank, self.bounds, other)]
            come = mine[_overlap(self.bounds, self.rank, old, other)]
            if other == self.rank:
                come[...] = out
                continue
            parcels += [Parcel(other, out, sent=True)] if len(out) else []
            parcels += [Parcel(other, come, sent=False)] if len(come) else []
        self.comm.exchange(parcels)
        return mine

    def _hand_over(self, waiting: Array) -> Array:
        """Send waiting particles to the slabs that have their sites now; returns ours."""
        _, ny, nx = self.task.lattice.shape
        plane = (waiting["site"] // np.uint64(ny * nx)).astype(np.int64)
        owner = np.searchsorted(self.bounds, plane, "right") - 1
        outgoing = [np.ascontiguousarray(waiting[owner == r]) for r in range(self.comm.size)]
        lengths = self.comm.allgather([len(part) for part in outgoing])
        incoming = [np.zeros(row[self.rank], WAITING) for row in lengths]
        incoming[self.rank] = outgoing[self.rank]
        others = [r for r in range(self.comm.size) if r != self.rank]
        parcels = [Parcel(r, outgoing[r], sent=True) for r in others if len(outgoing[r])]
        parcels += [Parcel(r, incoming[r], sent=False) for r in others if len(incoming[r])]
        self.comm.exchange(parcels)
        return np.concatenate(incoming)  # slabs ascend, and so do sites


def _overlap(mine: Sequence[int], rank: int, others: Sequence[int], other: int) -> slice:
    """Planes that a slab of one cut shares with one of another, counted from the first's begin."""
    begin, end = max(mine[rank], others[other]), min(mine[rank + 1], others[other + 1])
    return slice(begin - mine[rank], max(begin, end) - mine[rank])
