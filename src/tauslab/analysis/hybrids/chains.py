"""Chains of beads as parts of a hybrid: inside of lattices, with genes at their beads."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from tauslab.analysis.hybrids.links import Confinement
from tauslab.analysis.hybrids.parts import EnsemblePart, Part, PartModel, Reading, Watch
from tauslab.analysis.particles.shares import Shares
from tauslab.analysis.polymers.polymer import Polymer, chain_of
from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.all_ranks import ranks_of
from tauslab.decomposition.ranks.job import open_backend, seed_of
from tauslab.kernels.lattice.halving import Plane
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import Placement
from tauslab.options.places import device_settings
from tauslab.store.state import State

_SLACK = 1e-9  # beads: a number so close below a whole one is it
_NO_FORKS = -2


class ChainPart(Part):
    """A chain for each cell, on the rank of its lattice.

    Parameters
    ----------
    link, lattice
        Where chains are confined, if they are.
    """

    def __init__(
        self, made: PartModel, n: int, watch: Watch, *, seed: int, device: Any, comm: Any,
        link: Confinement | None, lattice: EnsemblePart | None,
    ) -> None:  # fmt: skip
        super().__init__(made, n, watch)
        assert isinstance(made.model, Polymer)
        like, comm = chain_of(made.model), ranks_of(comm, f"part {made.name}", seed=seed)
        self._link, self._lattice, self.beads = link, lattice, like.beads
        self._shares = Shares(n, comm) if lattice is None else lattice.particles.shares
        self._own = range(self._shares.own.start, self._shares.own.stop)
        self._copied = np.full(n, like.copied, np.int64)
        self._wanted = self._copied.astype(np.float64)
        self._t = 0.0
        self._take_genes()
        places = device_settings(device)
        self._backend = open_backend(places["device"], places["threads"], comm)
        try:
            self._chains = [like.again(self._backend, seed_of(seed, f"{i}")) for i in self._own]
            if lattice is not None:
                for row in range(len(self._own)):
                    self._confine(row)
                    self._at[row] = self._sites(row)
        except BaseException:
            self.close()
            raise

    def _take_genes(self) -> None:
        """Note genes of the link, and refuse particles of them that are elsewhere."""
        genes = () if self._link is None else self._link.genes
        self._gene_beads = np.array([bead for _, bead in genes], np.int64)
        self._names = tuple(name for states, _ in genes for name in states)
        self._at = np.full((len(self._own), 2, len(genes)), -1)  # sites of both copies
        self._lifted: dict[int, IntArray] = {}  # copy, gene and particle, by row
        if not genes:
            return
        assert self._lattice is not None
        lattice = self._lattice
        assert isinstance(lattice.made.model, Lattice)
        numbers = {name: at + 1 for at, name in enumerate(lattice.made.model.species)}
        self._first = np.array([numbers[states[0]] for states, _ in genes], np.int64)
        self._gene_of = np.full(len(numbers) + 1, -1)
        for gene, (states, _) in enumerate(genes):
            self._gene_of[[numbers[name] for name in states]] = gene
        if both := sorted(set(self._names) & set(lattice.watch.shared)):
            raise ConfigError(
                f"confine: {lattice.made.name}.{both[0]} is in a pool, and has a place on "
                f"chain {self.made.name}"
            )

    # ---------------------------------------------------------------- values

    @property
    def home(self) -> str | None:
        """As of `Part`."""
        return None if self._link is None else self._link.lattice

    @property
    def alive(self) -> BoolArray:
        """All."""
        return np.ones(self.n, bool)

    def values(self, names: tuple[str, ...]) -> FloatArray:
        """As of `Part`: the beads that there are."""
        beads = (self.beads + self._copied).astype(np.float64)
        return np.repeat(beads[:, None], len(names), axis=1)

    def read(self) -> Reading:
        """As of `Part`."""
        return Reading(self.values(self.watch.read), None, np.zeros((self.n, 0)))

    def put(self, shared: FloatArray | None, driven: FloatArray | None) -> None:
        """As of `Part`."""
        del shared
        if driven is not None:
            self._wanted = driven[:, 0].copy()

    def give(self, rows: IntArray, names: tuple[str, ...], values: FloatArray) -> None:
        """As of `Part`; no amounts are divided."""

    # ---------------------------------------------------------------- moving

    def advance(self, t: float) -> None:
        """As of `Part`: forks first, then steps of the beads, then genes."""
        wanted = np.clip(np.floor(self._wanted + _SLACK), 0, self.beads).astype(np.int64)
        self._copied = np.maximum(self._copied, wanted)
        for row, cell in enumerate(self._own):
            chain = self._chains[row]
            chain.copy(int(self._copied[cell]))
            if self._lattice is not None:
                self._confine(row)
            chain.advance(t)
        self._t = t
        self._move_genes()

    def _confine(self, row: int) -> None:
        assert self._lattice is not None
        self._chains[row].confine(self._lattice.grid, self._inside(row))

    def _inside(self, row: int) -> BoolArray:
        assert self._lattice is not None
        assert self._link is not None
        types = self._lattice.grid.type_names
        numbers = [types.index(name) for name in self._link.site_types]
        return np.isin(self._lattice.particles.types_of(row), numbers)

    def _move_genes(self) -> None:
        """Let genes follow their beads; those whose bead was copied come anew."""
        if self._lattice is None or not self._names:
            return
        rows, sites, particles = self._lattice.particles.lift(range(len(self._own)), self._names)
        genes = self._gene_of[particles]
        copies = self._copies(rows, sites, genes)
        now = (
            np.stack([self._sites(row) for row in range(len(self._own))])
            if len(self._own)
            else self._at
        )
        new = np.argwhere((now >= 0) & (self._at < 0))
        fresh = [new[:, 0], now[tuple(new.T)], self._first[new[:, 2]]]
        moved = [rows, now[rows, copies, genes], particles]
        self._lattice.particles.lay(np.concatenate([moved, fresh], axis=1))
        self._at = now

    def _copies(self, rows: IntArray, sites: IntArray, genes: IntArray) -> IntArray:
        """Which copy of its gene each particle is at; of two at one site half is at each.

        A particle that a new shape of the lattice moved is that of the copy that has none.
        """
        first, second = self._at[rows, 0, genes], self._at[rows, 1, genes]
        keys = rows * len(self._gene_beads) + genes
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        begin = np.searchsorted(ranked, ranked)
        late = np.empty(len(keys), bool)
        late[order] = (
            2 * (np.arange(len(keys)) - begin)
            >= np.searchsorted(ranked, ranked, side="right") - begin
        )
        at = [sites == first, (sites == second) & (sites != first)]
        has = np.zeros((2, len(self._own) * len(self._gene_beads)), bool)
        for number, there in enumerate(at):
            has[number, keys[there]] = True
        stray = ~(at[0] | at[1]) & (second >= 0)
        other = np.where(has[0, keys] == has[1, keys], late, has[0, keys])
        result = np.where(first == second, late, np.where(stray, other, at[1]))
        return result.astype(np.int64)

    def _sites(self, row: int) -> IntArray:
        """Sites of genes ``[copy, gene]`` of a cell."""
        assert self._lattice is not None
        places, beads = self._chains[row].positions, self._gene_beads
        both = np.full((2, len(beads), 3), np.nan)
        for number in range(len(places) // self.beads):
            both[number] = places[number * self.beads + beads]
        return _sites_inside(both, self._lattice.grid, self._inside(row))

    # ---------------------------------------------------------------- dividing

    def require_whole(self, cells: IntArray) -> None:
        """Refuse cells that divide before all beads are copied."""
        short = cells[self._copied[cells] < self.beads]
        if self._lattice is None:
            raise ConfigError(f"divide: chain {self.made.name} is in no lattice: use confine")
        if len(short):
            raise ConfigError(
                f"divide: cell {short[0]} divides when {self._copied[short[0]]} of the "
                f"{self.beads} beads of {self.made.name} are copied: let the condition ask for "
                f"{self.made.name}.beads >= {2 * self.beads}"
            )

    def lift(self, mothers: IntArray, axis: int) -> IntArray:
        """Take genes off lattices of cells that divide, and keep which copy has them. Collective.

        Returns
        -------
        int64 ``[mother, daughter, species]`` of the lattice.
        """
        assert self._lattice is not None
        local = [cell - self._own.start for cell in mothers.tolist() if cell in self._own]
        counts = np.zeros((len(self._own), 2, len(self._lattice.made.states)), np.int64)
        if self._names:
            rows, sites, particles = self._lattice.particles.lift(local, self._names)
            genes = self._gene_of[particles]
            held = np.stack([self._copies(rows, sites, genes), genes, particles])
            for row in local:
                self._lifted[row] = held[:, rows == row]
                sides = np.array(self._sides(row, axis))[self._lifted[row][0]]
                np.add.at(counts[row], (sides, self._lifted[row][2] - 1), 1)
        result: IntArray = np.asarray(self._shares.joined(counts))[mothers]
        return result

    def _sides(self, row: int, axis: int) -> tuple[int, int]:
        """Daughters, 0 or 1, that get the original and the copy."""
        along = self._chains[row].positions[:, axis]
        swapped = along[self.beads :].sum() < along[: self.beads].sum()
        return (1, 0) if swapped else (0, 1)

    def split(self, rows: IntArray, sides: IntArray, moved: IntArray, plane: Plane) -> None:
        """Let cells keep one daughter's chain, which moves with her lattice."""
        assert self._lattice is not None
        grid = self._lattice.grid
        at = grid.shape[plane.axis] * grid.spacing / 2 if plane.at is None else plane.at
        for cell, side, by in zip(rows.tolist(), sides.tolist(), moved.tolist(), strict=True):
            if cell in self._own:
                row = cell - self._own.start
                copy = self._sides(row, plane.axis).index(side - 1)
                self._chains[row].halve(copy, plane.axis, at, beyond=side == 2)
                self._chains[row].move(plane.axis, by * grid.spacing)
                if row in self._lifted:
                    held = self._lifted[row]
                    self._lifted[row] = held[:, held[0] == copy]
        self._copied[rows] = 0

    def settle(self, rows: IntArray, step: int) -> None:
        """Put genes of daughters at their beads, in their new shapes. Collective."""
        del step
        assert self._lattice is not None
        laid = [np.zeros((3, 0), np.int64)]
        for cell in rows.tolist():
            if cell in self._own:
                row = cell - self._own.start
                self._confine(row)
                self._at[row] = self._sites(row)
                if row in self._lifted:
                    _, genes, particles = self._lifted[row]
                    laid.append(
                        np.stack([np.full_like(genes, row), self._at[row, 0, genes], particles])
                    )
        self._lattice.particles.lay(np.concatenate(laid, axis=1))
        self._lifted.clear()

    def take(self, index: IntArray) -> None:
        """As of `Part`."""
        moved = np.flatnonzero(index != np.arange(self.n)).tolist()
        from_cells = sorted({int(index[cell]) for cell in moved} & set(self._own))
        mine = {cell: self._packed(cell - self._own.start) for cell in from_cells}
        pool = {cell: one for part in self._shares.all_of(mine) for cell, one in part.items()}
        for cell in (one for one in moved if one in self._own):
            self._unpack(cell - self._own.start, pool[int(index[cell])])
        self._copied, self._wanted = self._copied[index], self._wanted[index]

    def _packed(self, row: int) -> Mapping[str, Any]:
        return {
            **self._chains[row].stored(), "at": self._at[row].copy(), "held": self._lifted.get(row),
        }  # fmt: skip

    def _unpack(self, row: int, packed: Mapping[str, Any]) -> None:
        chain, own = self._chains[row], dict(packed)
        self._at[row], held = own.pop("at"), own.pop("held")
        self._lifted.pop(row, None)
        if held is not None:
            self._lifted[row] = held
        chain.take_up(State(arrays=own), chain.steps)

    # ---------------------------------------------------------------- keeping

    def stored(self) -> dict[str, Any]:
        """As of `Part`."""
        own, joined = [chain.stored() for chain in self._chains], self._shares.joined
        places = np.zeros((len(own), 2 * self.beads, 3))
        forks = np.full((len(own), 3), _NO_FORKS)
        for row, one in enumerate(own):
            places[row, : len(one["positions"])] = one["positions"]
            forks[row, : len(one["forks"])] = one["forks"]
        loops = [np.zeros((0, 2), np.int64), *(one["loops"] for one in own)]
        return {
            "time": np.array(self._t), "copied": self._copied, "asked": self._wanted,
            "positions": joined(places), "forks": joined(forks), "at": joined(self._at),
            "loops/lengths": joined(np.array([len(one) for one in loops[1:]], np.int64)),
            "loops/pairs": self._shares.gathered(np.concatenate(loops)),
        }  # fmt: skip

    def take_up(self, state: State) -> None:
        """As of `Part`."""
        n, beads = self.n, self.beads
        self._t = state.real("time", 0.0)
        self._copied = state.take("copied", np.int64, n, low=0, high=beads)
        self._wanted = state.take("asked", np.float64, n)
        places = state.take("positions", np.float64, n, 2 * beads, 3)
        forks = state.take("forks", np.int64, n, 3, low=_NO_FORKS, high=beads)
        lengths = state.take("loops/lengths", np.int64, n, low=0)
        pairs = state.take("loops/pairs", np.int64, int(lengths.sum()), 2)
        loops = np.split(pairs, np.cumsum(lengths)[:-1])
        at = state.take("at", np.int64, n, 2, len(self._gene_beads), low=-1)
        self._at = at[self._own.start : self._own.stop].copy()
        for row, cell in enumerate(self._own):
            some = forks[cell][0] != _NO_FORKS
            arrays: dict[str, Array] = {
                "positions": places[cell, : 2 * beads if some else beads],
                "forks": forks[cell] if some else forks[cell, :0], "loops": loops[cell],
            }  # fmt: skip
            chain = self._chains[row]
            step = chain.numbers["step"]
            chain.take_up(State(state.path, {}, arrays), round(self._t / step))

    def close(self) -> None:
        """As of `Part`."""
        self._backend.close()


def _sites_inside(places: FloatArray, grid: Lattice, inside: BoolArray) -> IntArray:
    """Sites of positions ``[..., 3]``, or the nearest ones inside; -1 where there is none."""
    at = places.reshape(-1, 3) / grid.spacing
    result, allowed = np.full(len(at), -1), np.zeros((0, 3), np.int64)
    for number in np.flatnonzero(np.isfinite(at[:, 0])).tolist():
        site = np.clip(np.floor(at[number]).astype(np.int64), 0, np.array(grid.shape) - 1)
        if not inside[tuple(site)]:
            allowed = allowed if len(allowed) else np.argwhere(inside)
            site = allowed[((allowed + 0.5 - at[number]) ** 2).sum(axis=1).argmin()]
        result[number] = np.ravel_multi_index(tuple(site), grid.shape)
    return result.reshape(places.shape[:-1])


def with_genes(lattice: Lattice, link: Confinement, polymer: Polymer) -> Lattice:
    """A copy of a lattice with the genes of a chain at their beads.

    Raises
    ------
    ConfigError
        There are particles of genes elsewhere.
    """
    names = {name for states, _ in link.genes for name in states}
    if placed := [one.species for one in lattice.placements if one.species in names]:
        raise ConfigError(
            f"confine: part {link.lattice} places {placed[0]}, and chain {link.chain} puts it at "
            "its bead"
        )
    own, chain = copy(lattice), chain_of(polymer)
    types = np.isin(lattice.type_names, link.site_types)
    inside = types[lattice.sites.planes(0, lattice.shape[0])]
    places = chain.start(lattice, inside)
    exist = np.concatenate([chain.exist, np.zeros(chain.beads, bool)])
    own.placements = list(lattice.placements)
    for states, bead in link.genes:
        beads = [one for one in (bead, chain.beads + bead) if exist[one]]
        sites = _sites_inside(places[beads], lattice, inside)
        at = np.stack(np.unravel_index(sites, lattice.shape), axis=1)
        own.placements.append(Placement(states[0], positions=at))
    return own
