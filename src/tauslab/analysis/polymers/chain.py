"""A chain of beads on a device: its bonds, forks, loops and walls, and what of it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.polymers.beads import Beads, require_later
from tauslab.base.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.polymer.engine import Moves, PolymerEngine, Walls, links_of, present
from tauslab.model.geometry.shapes import Grid, Mask
from tauslab.options.values.checks import within
from tauslab.store.state import State

MOST_STEPS = 1 << 47
_FARTHEST = 255  # levels of walls
REACH = 2.0**30  # bonds: coordinates that are allowed


class Chain(Beads):
    """Beads with bonds, forks, loops and walls.

    Parameters
    ----------
    numbers
        ``bond, diffusion, stretch, persistence, repulsion, diameter, step`` of `tauslab.Polymer`, 0
        for what is left out.
    start
        Positions ``[bead, 3]`` in metres.
    key
        Key of the noise. Chains with different keys have independent noise.
    drawn
        Whether the start is a random walk, which `confine` may fold.
    """

    def __init__(
        self, backend: Backend, name: str, numbers: Mapping[str, float], start: FloatArray, *,
        ring: bool, key: int, drawn: bool,
    ) -> None:  # fmt: skip
        self.name, self.numbers, self.ring, self.beads = name, dict(numbers), ring, len(start)
        self.loops: IntArray = np.zeros((0, 2), np.int64)
        self._forks: tuple[int, int, int] | None = None  # origin, beads copied left and right of it
        self._walls: Walls | None = None
        self.drawn = drawn
        self._links = self._linked(None, self.loops)
        self._engine = PolymerEngine(
            backend, start, self._links, _moves(self.numbers), seed=key
        )  # fmt: skip

    def again(self, backend: Backend, key: int) -> Self:
        """The chain as it is, without walls, with noise of its own from step 0 on."""
        places = self._engine.positions()
        made = type(self)(
            backend, self.name, self.numbers, places[: self.beads], ring=self.ring, key=key,
            drawn=self.fresh,
        )  # fmt: skip
        made._forks, made.loops = self._forks, self.loops  # noqa: SLF001 - of its own kind
        made._set(places, self._links)  # noqa: SLF001
        return made

    # ---------------------------------------------------------------- moving

    @property
    def key(self) -> int:
        """Of the noise."""
        return self._engine.seed

    @key.setter
    def key(self, key: int) -> None:
        self._engine.seed = key

    @property
    def steps(self) -> int:
        """Steps that were taken."""
        return self._engine.step

    @property
    def time(self) -> float:
        """As of `Beads`, a whole number of steps."""
        return self._engine.step * self.numbers["step"]

    @property
    def positions(self) -> FloatArray:
        """As of `Beads`; row ``beads + i`` is the copy of bead i."""
        positions = self._engine.positions()
        positions[~present(self._links)] = np.nan
        return positions

    def advance(self, t: float) -> None:
        """Make the number of steps that ends nearest to time `t` in seconds."""
        require_later(self.name, t, 0.0)
        steps = round(t / self.numbers["step"]) - self._engine.step
        if steps < 0:
            require_later(self.name, t, self.time)
        self.run(steps)

    def run(self, steps: int) -> None:
        """Take `steps` steps; a `ConfigError` if beads have left the range of numbers."""
        within("steps", steps, 0, MOST_STEPS)
        if self._engine.run(int(steps)):
            step = self.numbers["step"]
            raise ConfigError(f"{self.name}: beads flew apart: take a shorter step={step:g}")

    def start(self, grid: Grid, mask: Mask) -> FloatArray:
        """Positions ``[bead, 3]`` when the chain begins inside of a mask: a walk is folded."""
        places = self._engine.positions()
        return _folded(places, mask, grid.spacing) if self.fresh else places

    @property
    def fresh(self) -> bool:
        """Whether it is a random walk that nothing has changed."""
        return self.drawn and not self._engine.step and self._walls is None

    def confine(self, grid: Grid, mask: Mask) -> None:
        """Keep beads inside of a mask from the next step on: see `tauslab.Polymer.confine`."""
        if mask.dtype != np.bool_ or mask.shape != tuple(grid.shape) or not mask.any():
            raise ConfigError(
                f"{self.name}: a region is booleans {list(grid.shape)}, some of them true"
            )
        if self.fresh:
            self._set(self.start(grid, mask), self._links)
        sites = self.sites(grid)
        levels = _levels(mask, sites[sites[:, 0] >= 0])
        self._walls = Walls(levels, float(grid.spacing))
        self._engine.confine(self._walls)

    # ---------------------------------------------------------------- copies and loops

    @property
    def copied(self) -> int:
        """Beads that have a copy."""
        return int(self.exist[self.beads :].sum())

    def copy(self, beads: int) -> None:
        """Move both forks on, by as much if no end stops one, until so many beads are copied."""
        more = min(beads, self.beads) - 1  # beside the origin
        if more < self.copied:
            return
        origin, left, right = self._forks or (0, 0, 0)
        most = (more, more) if self.ring else (origin, self.beads - 1 - origin)
        to_left = max(min(max(left, more // 2), most[0]), more - most[1])
        to_left = min(to_left, more - right)
        self.replicate(to_left - left, more - to_left - right)

    def replicate(self, left: int, right: int, origin: int = 0) -> int:
        """Move two forks on, and return how many beads were copied."""
        start, l_before, r_before = self._forks or (origin, 0, -1)
        n = self.beads
        new_right = min(max(r_before, 0) + right, n - 1 - (l_before if self.ring else start))
        new_left = min(l_before + left, n - 1 - new_right if self.ring else start)
        forks = start, new_left, new_right
        links = self._linked(forks, self.loops)
        before, exists, positions = present(self._links), present(links), self._engine.positions()
        places = np.concatenate([positions[:n], positions[:n]])
        places[: len(positions)][before] = positions[before]
        self._forks = forks
        self._set(places, links)
        return int(exists.sum() - before.sum())

    def bind(self, loops: IntArray) -> None:
        """Bind pairs of beads ``[loop, 2]`` that exist, in place of earlier loops."""
        links = self._linked(self._forks, loops)
        self.loops = loops
        self._set(self._engine.positions(), links)

    @property
    def exist(self) -> BoolArray:
        """Which beads there are."""
        return np.asarray(present(self._links))

    def halve(self, copy: int, axis: int, plane: float, *, beyond: bool) -> None:
        """Keep the original (0) or the copy (1) of a whole chain, on one side of a plane.

        Beads on the other side are mirrored at the plane, which makes no bond longer. What is left
        out are forks, and loops of beads of both.

        Parameters
        ----------
        plane
            Metres along the axis.
        beyond
            Whether beads stay beyond the plane, or before it.
        """
        n = self.beads
        places = self._engine.positions()[copy * n : (copy + 1) * n]
        along = places[:, axis]
        other = along < plane if beyond else along > plane
        along[other] = 2 * plane - along[other]
        self.loops = self.loops[(self.loops // n == copy).all(axis=1)] - copy * n
        self._forks = None
        self._set(places, self._linked(None, self.loops))

    def move(self, axis: int, by: float) -> None:
        """Move all beads by metres along an axis."""
        places = self._engine.positions()
        places[:, axis] += by
        self._set(places, self._links)

    # ---------------------------------------------------------------- keeping

    def stored(self) -> dict[str, Array]:
        """What changes, as arrays by name; `steps` do too."""
        return {
            "positions": self._engine.positions(), "loops": self.loops,
            "forks": np.array(self._forks or (), np.int64),
        }  # fmt: skip

    @property
    def walls(self) -> dict[str, npt.ArrayLike]:
        """Walls by name, if there are any."""
        if self._walls is None:
            return {}
        return {"levels": self._walls.levels, "spacing": np.float64(self._walls.spacing)}

    def take_up(self, state: State, steps: int) -> None:
        """Go on from what `stored`, and `walls`, gave.

        Raises
        ------
        InputFileError
            It does not belong together.
        """
        positions = state.take("positions", np.float64, None, 3)
        loops = state.take("loops", np.int64, None, 2)
        forks = state.take("forks", np.int64, None, low=-1, high=self.beads).tolist()
        self._forks = (forks[0], forks[1], forks[2]) if len(forks) == 3 else None
        if len(positions) != self.beads * (1 if self._forks is None else 2):
            raise state.damaged("its arrays do not belong together")
        if loops.size and not 0 <= loops.min() <= loops.max() < len(positions):
            raise state.damaged("its loops bind beads that it does not have")
        self.loops, self._engine.step = loops, steps
        self._set(positions, self._linked(self._forks, loops))
        if "levels" in state:
            levels = state.take("levels", np.uint8, None, None, None)
            self._walls = Walls(levels, state.real("spacing", 1e-300))
            self._engine.confine(self._walls)

    # ---------------------------------------------------------------- inside

    def _set(self, places: FloatArray, links: Int32Array) -> None:
        self._links = links
        self._engine.change(places, links)

    def _linked(self, forks: tuple[int, int, int] | None, loops: IntArray) -> Int32Array:
        origin, left, right = forks or (0, 0, -1)
        try:
            return links_of(
                self.beads, ring=self.ring, origin=origin, left=left, right=right, loops=loops
            )
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from None


def _moves(g: Mapping[str, float]) -> Moves:
    of_step, bond, diameter = g["diffusion"] * g["step"], g["bond"], g["diameter"]
    return Moves(
        spring=spring_of(g) * of_step,
        noise=math.sqrt(6.0 * of_step),
        rest=bond if g["stretch"] else 0.0,
        bend=g["persistence"] / bond * of_step,
        reach=REACH * bond,
        push=4.0 * g["repulsion"] * of_step / (diameter * diameter),
        range=diameter if g["repulsion"] else 0.0,
    )


def spring_of(given: Mapping[str, float]) -> float:
    """Spring constant over kT, in m^-2."""
    sd = given["stretch"] * given["bond"]
    return 1.0 / (sd * sd) if sd else 3.0 / (given["bond"] * given["bond"])


def random_walk(beads: int, bond: float, key: int, *, ring: bool) -> FloatArray:
    """A random walk of steps with a mean square of bond^2; closed for a ring."""
    words = np.random.Philox(key=key).random_raw(3 * beads).reshape(-1, 3)
    moves = ((words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0) * bond
    walk = np.add.accumulate(moves)
    if ring:
        walk -= walk[-1] * (np.arange(1, beads + 1) / beads)[:, None]
        return walk
    start: FloatArray = walk - walk[0]
    return start


def _levels(mask: Mask, sites: IntArray) -> npt.NDArray[np.uint8]:
    """0 inside of a mask, and outside how many sites away it is, as far as some bead is."""
    levels = np.where(mask, 0, _FARTHEST).astype(np.uint8)
    reached: BoolArray = mask.copy()
    at = tuple(sites.T)
    for level in range(1, _FARTHEST):
        if reached[at].all():
            break
        wider = _with_neighbours(reached)
        levels[wider & ~reached] = level
        reached = wider
    return levels


def _with_neighbours(mask: BoolArray) -> BoolArray:
    wider = mask.copy()
    for axis in range(3):
        low, high = [slice(None)] * 3, [slice(None)] * 3
        low[axis], high[axis] = slice(None, -1), slice(1, None)
        wider[tuple(low)] |= mask[tuple(high)]
        wider[tuple(high)] |= mask[tuple(low)]
    return wider


def _folded(positions: FloatArray, mask: Mask, spacing: float) -> FloatArray:
    """Positions in the middle of a mask, and folded into a cube there if they do not fit.

    Folds are mirrors, which make no bond longer.
    """
    depth, inner = 0, np.pad(mask, 1)
    while inner.any():
        deepest, inner = inner, ~_with_neighbours(~inner)
        depth += 1
    site = np.argwhere(deepest)[0] - 1
    middle = (positions.max(axis=0) + positions.min(axis=0)) / 2
    moved = positions - middle
    radius = 0.4 * max(1, depth - 1) * spacing  # (depth - 1) / sqrt(3) sites are inside
    if (moved**2).sum(axis=1).max() > radius * radius:
        half = 0.3 * max(1, depth - 1) * spacing  # and all within (depth - 1) / 3 along each axis
        moved = half - np.abs((moved + half) % (4 * half) - 2 * half)
    inside: FloatArray = moved + (site + 0.5) * spacing
    return inside
