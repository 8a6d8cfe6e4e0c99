"""Rows, models and boxes of long runs of the lattice engine against exact results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice.state import WAITING, LatticeState
from tauslab.model.lattice.lattice import Lattice

SPACING, STEP = 32e-9, 1e-4
Particles = npt.NDArray[np.unsignedinteger]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """A measured value and its expected value; `bias` is the error of the time step that is allowed."""

    test: str
    quantity: str
    value: float
    expected: float
    error: float
    bias: float = 0.0

    @property
    def z(self) -> float:
        """Difference in standard errors, beyond the allowed bias."""
        off = max(0.0, abs(self.value - self.expected) - self.bias)
        return off / self.error if self.error > 0 else (0.0 if off == 0 else np.inf)


Test = Callable[[Backend, float], Iterator[Row]]


def model_of(shape: tuple[int, int, int], hops: dict[str, float], **options: object) -> Lattice:
    """Species by hop probability."""
    boundary, slots = str(options.get("boundary", "periodic")), int(str(options.get("slots", 16)))
    model = Lattice("law", shape=shape, spacing=SPACING, step=STEP, boundary=boundary, slots=slots)
    for name, hop in hops.items():
        model.add_species(name)
        model.add_diffusion(name, hop * SPACING**2 / STEP)
    return model


def lowered(model: Lattice) -> LoweredLattice:
    """One pass of hops and one of reactions in a step."""
    return lower_lattice(model, max_hop=0.49995, reaction_substeps=1)


def engine_of(backend: Backend, model: Lattice, start: Particles | None = None, seed: int = 1
              ) -> LatticeEngine:  # fmt: skip
    """An engine with the model's start, or with these particles."""
    engine = LatticeEngine(backend, lowered(model), seed=seed)
    if start is None:
        engine.load_start()
    else:
        begin(engine, start, seed)
    return engine


def begin(engine: LatticeEngine, start: Particles, seed: int) -> None:
    """Start an engine again, from particles ``[z, y, x, slot]`` and with another seed."""
    engine.seed = seed
    fired = np.zeros(len(engine.lattice.reactions), np.int64)
    kinds = start.astype(engine.lattice.particle_type, copy=False)
    engine.load(LatticeState(kinds, np.zeros(0, WAITING), 0, fired, 0))


def filled(shape: tuple[int, int, int], sites: IntArray, kinds: IntArray, slots: int = 16
           ) -> Particles:  # fmt: skip
    """Particles ``[z, y, x, slot]`` of given kinds (1: the first species) at numbered sites."""
    order = np.argsort(sites, kind="stable")
    where = sites[order]
    rank = np.arange(len(where)) - np.searchsorted(where, where)
    if len(rank) and rank.max() >= slots:
        raise ValueError(f"a site would hold {rank.max() + 1} particles and has {slots} slots")
    kept = np.zeros((*shape, slots), np.uint8 if kinds.max() < 256 else np.uint16)
    kept.reshape(-1, slots)[where, rank] = kinds[order]
    return kept


@dataclass(frozen=True)
class Boxes:
    """Small boxes with walls between them in one lattice: independent runs of one launch.

    Attributes
    ----------
    inner
        Sites of a box along z, y and x; one more is a wall.
    count
        Boxes along z, y and x.
    """

    inner: tuple[int, int, int]
    count: tuple[int, int, int]

    def scaled(self, scale: float) -> Boxes:
        """Fewer boxes for less work, two along each axis at least."""
        z, y, x = (max(2, round(n * min(1.0, scale) ** (1 / 3))) for n in self.count)
        return Boxes(self.inner, (z, y, x))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites of the lattice."""
        z, y, x = ((n + 1) * c for n, c in zip(self.inner, self.count, strict=True))
        return z, y, x

    @property
    def number(self) -> int:
        """Number of boxes."""
        return int(np.prod(self.count))

    def model(self, hops: dict[str, float], parts: int = 1) -> Lattice:
        """Species by hop probability; `parts` site types share each box along x."""
        model = Lattice("law", shape=self.shape, spacing=SPACING, step=STEP, boundary="reflecting")
        model.add_site_type("wall")
        names = [f"part{i}" for i in range(parts)]
        inside = self.inside()
        x = np.indices(self.shape, sparse=True)[2] % (self.inner[2] + 1)
        for i, name in enumerate(names):
            model.add_site_type(name, inside & (x * parts // self.inner[2] == i))
        for name, hop in hops.items():
            model.add_species(name)
            for i, one in enumerate(names):
                model.add_diffusion(name, hop * SPACING**2 / STEP, within=one)
                if i:
                    model.add_diffusion(name, hop * SPACING**2 / STEP, between=(names[i - 1], one))
        return model

    def inside(self) -> BoolArray:
        """Sites that are no wall."""
        z, y, x = np.indices(self.shape, sparse=True)
        a, b, c = self.inner
        inside: BoolArray = (z % (a + 1) < a) & (y % (b + 1) < b) & (x % (c + 1) < c)
        return inside

    def start(self, kinds: Sequence[int], places: IntArray) -> Particles:
        """Particles of these kinds in each box, at sites ``[box, particle]`` of it."""
        within = np.stack(np.unravel_index(places, self.inner))
        which = np.stack(np.unravel_index(np.arange(self.number), self.count))
        steps = np.array(self.inner)[:, None, None] + 1
        sites = np.ravel_multi_index(tuple(which[:, :, None] * steps + within), self.shape)
        return filled(self.shape, sites.ravel(), np.tile(kinds, self.number))

    def random_start(self, counts: Sequence[int], seed: int) -> Particles:
        """Place so many particles of each species in each box, anywhere in it."""
        kinds = np.repeat(np.arange(1, len(counts) + 1), counts)
        random = np.random.default_rng(seed)
        places = random.integers(np.prod(self.inner), size=(self.number, len(kinds)))
        return self.start(kinds.tolist(), places)

    def counted(self, engine: LatticeEngine, species: int, half: int = 1) -> IntArray:
        """Particles of a species in each box; with `half` 2, in its lower half along x."""
        particles = engine.save().particles == species + 1
        (a, b, c), (na, nb, nc) = self.inner, self.count
        split = particles.reshape(na, a + 1, nb, b + 1, nc, c + 1, -1)
        own = split[:, :a, :, :b, :, : c // half]
        return np.asarray(own.sum(axis=(1, 3, 5, 6)).ravel(), np.int64)
