"""Brownian steps of bead chains: the kernel of csrc/polymer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, FloatArray, Int32Array, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid

BEAD = np.dtype([("position", np.float64, 3), ("next", np.int64)])
LINKS = 4  # beads to which a bead can be bound
NONE, ABSENT = -1, -2  # of links
_ENTRY = "polymer_steps"
_THREADS, _FEWEST = 128, 512  # of a GPU's block; beads of a CPU's thread
_WORK = 1 << 24  # steps of beads in a launch, a few seconds of a CPU's core
_SLACK = 1 + 2.0**-20  # of cells' edges, so that rounded cells of neighbours touch
_FAR = 2.0**50  # cells or sites from the origin
_UNIT = 2.0**-40  # of the range: pushes are whole multiples


@dataclass(frozen=True)
class Moves:
    """Sizes of the moves of a step.

    Attributes
    ----------
    spring, bend, push, noise
        k D dt / kT, kappa D dt / kT [m^2], 4 eps D dt / (kT range^2), sqrt(6 D dt) [m].
    rest, range, reach
        Length of a bond without force, how far beads push each other, and the largest coordinate
        that is allowed, in metres.
    """

    spring: float
    noise: float
    reach: float
    rest: float = 0.0
    bend: float = 0.0
    push: float = 0.0
    range: float = 0.0


@dataclass(frozen=True)
class Walls:
    """Where beads may be.

    Attributes
    ----------
    levels
        u8 ``[z, y, x]`` of sites: 0 inside, outside how many sites away that is, at most 255.
    spacing
        Edge of a site in metres.
    """

    levels: npt.NDArray[np.uint8]
    spacing: float


class PolymerEngine:
    """Beads on a device.

    Parameters
    ----------
    backend
        The device.
    positions
        float64 ``[bead, 3]``, z, y, x in metres; any number where a bead is absent.
    links
        int32 ``[bead, 4]``: the beads before and after, and two others to which it is bound; -1 for
        none, and -2 first for an absent bead.
    moves
        Sizes of moves.
    seed, step
        Of the draws, and the number of the next step.
    """

    def __init__(
        self, backend: Backend, positions: FloatArray, links: Int32Array, moves: Moves, *,
        seed: int, step: int = 0,
    ) -> None:  # fmt: skip
        self._backend, self._stream = backend, backend.stream(waited=True)
        self._program = backend.compile(KernelSource("polymer/steps.cc", (_ENTRY,)))
        self._moves, self.seed, self.step = moves, seed, step
        self._walls: Walls | None = None
        self._levels: Any = None
        self._heads: Any = None
        self._work = backend.empty((2,), np.uint64)
        self.change(positions, links)

    def change(self, positions: FloatArray, links: Int32Array) -> None:
        """Take other positions and links, of any number of beads."""
        beads = np.zeros(len(positions), BEAD)
        beads["position"] = positions
        up, words = self._backend.upload, beads.view(np.int64)
        self._buffers = [up(words.copy()), up(words.copy())]  # a CPU copies nothing
        self._links = up(np.array(links, np.int32))
        self.beads = len(positions)
        self._side = 1 << int(np.clip(np.ceil(np.log2(self.beads) / 3), 2, 7))
        self._heads = None

    def confine(self, walls: Walls | None) -> None:
        """Keep beads within walls from the next step on."""
        self._walls = walls
        self._levels = None if walls is None else self._backend.upload(walls.levels)

    def positions(self) -> FloatArray:
        """A copy of the positions ``[bead, 3]`` in metres."""
        buffer = self._buffers[0]
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, buffer.shape[0], self._stream)
        self._stream.record().wait()
        return np.array(np.asarray(mirror).reshape(-1).view(BEAD)["position"])

    def run(self, steps: int) -> int:
        """Take steps; return how many moves were no numbers, or went out of reach."""
        failed = 0
        while steps > 0 and not failed:
            now = min(steps, max(1, _WORK // self.beads))
            failed = self._launch(now)
            if now % 2:
                self._buffers.reverse()
            self.step += now
            steps -= now
        return failed

    def _launch(self, steps: int) -> int:
        backend, m, walls = self._backend, self._moves, self._walls
        backend.clear(self._work, self._stream)
        if m.push:
            if self._heads is None:
                self._heads = backend.empty((2 * self._side**3,), np.uint64)
            backend.clear(self._heads, self._stream)
        edge = m.range * _SLACK or m.reach
        spacing = m.reach if walls is None else walls.spacing
        unit = m.range * _UNIT
        nz, ny, nx = (0, 0, 0) if walls is None else walls.levels.shape
        blocks = self._blocks()
        arguments = self._program.arguments(
            _ENTRY, seed=self.seed, beads=self.beads, first_step=self.step, steps=steps,
            beads_of_even=self._buffers[0], beads_of_odd=self._buffers[1], links=self._links,
            heads=self._heads if m.push else None, side=self._side, spring=m.spring, rest=m.rest,
            bend=m.bend, push=m.push, range=m.range, noise=m.noise, per_edge=1.0 / edge,
            units=m.push / unit if m.push else 0.0, unit=unit,
            reach=min(m.reach, _FAR * edge, _FAR * spacing), levels=self._levels, nz=nz, ny=ny,
            nx=nx, spacing=spacing, work=self._work,
        )  # fmt: skip
        grid = LaunchGrid(blocks, _THREADS, together=True)
        self._program.launch_blocks(_ENTRY, grid, arguments, self._stream)
        mirror = backend.mirror(self._work)
        backend.download(self._work, mirror, 2, self._stream)
        self._stream.record().wait()
        return int(mirror[1])

    def _blocks(self) -> int:
        """Blocks that run at the same time, for so many beads."""
        each = _THREADS if self._backend.style.warp > 1 else _FEWEST
        resident = self._program.resident_blocks(_ENTRY, _THREADS)
        return max(1, min(resident, -(-self.beads // each)))


def links_of(
    beads: int, *, ring: bool, origin: int = 0, left: int = 0, right: int = -1,
    loops: IntArray | None = None,
) -> Int32Array:  # fmt: skip
    """Links ``[bead, 4]`` of a chain that is copied from `origin` to both sides, and of its loops.

    Without a copy (`right` < 0) there are as many rows as beads; else twice as many, and bead
    ``beads + i`` is the copy of bead i: `left` beads before the origin and `right` behind it have
    one, beside the origin's own. The ends of the copy are bound to the original behind each fork.

    Raises
    ------
    ValueError
        A bead would be bound to more than two others beside those before and after it.
    """
    row = np.arange(beads)
    before, after = row - 1, row + 1
    if ring:
        before, after = before % beads, after % beads
    after = np.where(after < beads, after, NONE)
    links = np.full((beads, LINKS), NONE, np.int32)
    links[:, 0], links[:, 1] = before, after
    pairs = [] if loops is None else [tuple(pair) for pair in np.asarray(loops).tolist()]
    if right >= 0:
        links, forks = _with_copy(links, beads, origin, left, right, ring=ring)
        pairs = [*forks, *pairs]
    for i, j in pairs:
        for one, other in ((i, j), (j, i)):
            if other in links[one]:
                continue
            free = 2 + np.flatnonzero(links[one, 2:] == NONE)
            if not len(free):
                raise ValueError(f"bead {one} is bound to more than two others beside its chain")
            links[one, free[0]] = other
    return links


def _with_copy(
    links: Int32Array, beads: int, origin: int, left: int, right: int, *, ring: bool
) -> tuple[Int32Array, list[tuple[int, int]]]:
    """Links of both copies, and the pairs that hold the copy's ends to the original."""
    whole = left + right + 1 >= beads
    copied = np.zeros(beads, bool)
    copied[np.arange(origin - left, origin + right + 1) % beads] = True
    copy = np.full((beads, LINKS), NONE, np.int32)
    for k in range(2):
        to = links[:, k]
        bound = (to >= 0) & copied & copied[np.maximum(to, 0)]
        copy[bound, k] = to[bound] + beads
    first, last = (origin - left) % beads, (origin + right) % beads
    forks = []
    if not whole:
        if ring or first > 0:
            forks.append((beads + first, (first - 1) % beads))
        if ring or last < beads - 1:
            forks.append((beads + last, (last + 1) % beads))
    copy[~copied, 0] = ABSENT
    return np.concatenate([links, copy]), forks


def present(links: Array) -> Array:
    """Which beads there are, bool ``[bead]``."""
    return np.asarray(links[:, 0] != ABSENT)
