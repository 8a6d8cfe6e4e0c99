"""Small lattices for tests, built by hop probability instead of diffusion coefficient."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np

from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice.plan import LatticeRequests
from tauslab.kernels.lattice.state import WAITING, LatticeState
from tauslab.model.lattice.lattice import Lattice

SPACING, STEP = 32e-9, 1e-4


def coefficient(hop: float) -> float:
    """D in m^2/s whose hop probability to one side in a step is `hop`."""
    return hop * SPACING**2 / STEP


def empty_lattice(shape, hops, **options) -> Lattice:
    """Species by name with their hop probabilities everywhere; no reactions, no particles."""
    options = {"boundary": "periodic", **options}
    model = Lattice("test", shape=shape, spacing=SPACING, step=STEP, **options)
    for name, hop in hops.items():
        model.add_species(name)
        model.add_diffusion(name, coefficient(hop))
    return model


def binding(shape, fill, *, frequent=1.0, **options) -> LoweredLattice:
    """A + B <-> C: `fill` particles in a site, and reactions that happen within some steps."""
    model = empty_lattice(shape, {"A": 0.15, "B": 0.10, "C": 0.05}, **options)
    model.add_reaction("A + B -> C", rate=frequent * 780, volume="site")
    model.add_reaction("C -> A + B", rate=frequent * 1000)
    for name, share in (("A", 0.4), ("B", 0.4), ("C", 0.2)):
        model.place(name, count=round(fill * share * np.prod(shape)))
    return lowered(model)


def typed(shape, boundary="reflecting", slots=16, fill=1.5) -> LoweredLattice:
    """Three site types with unlike hops and reactions, a wall between two of them."""
    model = empty_lattice(shape, {"A": 0.2, "B": 0.1}, boundary=boundary, slots=slots)
    z, y, x = np.indices(shape)
    model.add_site_type("water")
    model.add_site_type("gel", (x + y) % 11 < 4)
    model.add_site_type("rock", (x * y + z) % 17 == 3)
    model.add_diffusion("A", coefficient(0.05), within="gel")
    model.add_diffusion("*", 0, source="*", target="rock")
    model.add_diffusion("A", coefficient(0.33), source="rock", target="water")
    model.add_reaction("2 A -> B", rate=300, volume="site", site_types="gel")
    model.add_reaction("B -> 2 A", rate=200)
    model.add_reaction("-> A", rate=5, volume="site", site_types="rock")
    model.add_reaction("A ->", rate=30)
    model.place("A", count=int(fill * np.prod(shape)), site_type="water")
    return lowered(model)


def lowered(model: Lattice, **options) -> LoweredLattice:
    """One pass of hops and of reactions in a step, whatever the probabilities are."""
    return lower_lattice(model, max_hop=0.4999999, reaction_substeps=1, **options)


def state_of(lattice: LoweredLattice, particles) -> LatticeState:
    """A start with these particles."""
    fired = np.zeros(len(lattice.reactions), np.int64)
    return LatticeState(np.asarray(particles, lattice.particle_type), np.zeros(0, WAITING), 0,
                        fired, 0)  # fmt: skip


def engine_on(backend, lattice, **options) -> LatticeEngine:
    """At the model's start, with a seed that tests share; some options are requests."""
    requests = {
        one.name: options.pop(one.name) for one in fields(LatticeRequests) if one.name in options
    }
    engine = LatticeEngine(
        backend, lattice, seed=5, requests=LatticeRequests(**requests), **options
    )
    engine.load_start()
    return engine


def digest(engine: LatticeEngine) -> str:
    """Of particles, waiting particles and reactions fired."""
    state = engine.save()
    sha = hashlib.sha256(state.particles.tobytes())
    sha.update(state.waiting.tobytes())
    sha.update(f"{state.step} {state.fired.tolist()} {state.spills}".encode())
    return sha.hexdigest()[:16]
