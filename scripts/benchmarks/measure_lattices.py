"""Lattices: seconds of a step, of placing, of output, and of many small ones side by side."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from lattice_cases import lattice_of
from machine import ROOT, Answer, Machine, seconds_of

import tauslab as ts
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice.plan import LatticeRequests, replicas_at_a_time
from tauslab.kernels.lattice.planes import LatticeEngineName, engine_of
from tauslab.kernels.lattice.planes_engine import PlanesEngine, planes_at_a_time
from tauslab.kernels.lattice.planes_replicas import replicas_of
from tauslab.kernels.lattice.state import WAITING, LatticeState

SPACING, STEP = 32e-9, 1e-4
CUBE = (256, 256, 256)
HOPS = {"A": 0.15, "B": 0.10, "C": 0.05}
SHARES = {"A": 0.4, "B": 0.4, "C": 0.2}
PAIR, UNBIND = 7.8e-4, 1e-3  # probabilities in a step
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Site:
    """A lattice: A + B <-> C, a cell of 300 species, or an example's."""

    shape: Shape = CUBE
    slots: int = 16
    fill: float = 0.10
    reactions: float = 1.0  # in the frequent case's probabilities
    cell: bool = False
    example: str = ""  # its file, in place of A + B <-> C

    def model(self) -> ts.Lattice:
        """The lattice."""
        if self.example:
            return lattice_of(self.example)
        return self._cell() if self.cell else self._pairs()

    def lowered(self) -> LoweredLattice:
        """Lower a lattice with one pass of hops and of reactions in a step."""
        return lower_lattice(self.model(), reaction_substeps=1)

    def _pairs(self) -> ts.Lattice:
        model = ts.Lattice("pairs", shape=self.shape, spacing=SPACING, step=STEP,
                           slots=self.slots, boundary="periodic")  # fmt: skip
        places = int(np.prod(self.shape)) * self.slots * self.fill
        for name, hop in HOPS.items():
            model.add_species(name)
            model.add_diffusion(name, hop * SPACING**2 / STEP)
            model.place(name, count=round(places * SHARES[name]))
        if self.reactions:
            bind, unbind = (-np.log1p(-p * self.reactions) / STEP for p in (PAIR, UNBIND))
            model.add_reaction("A + B -> C", rate=bind, volume="site")
            model.add_reaction("C -> A + B", rate=unbind)
        return model

    def _cell(self) -> ts.Lattice:
        """300 species in an ellipsoid that fills 6.4 % of the box; nothing leaves it."""
        model = ts.Lattice("cell", shape=self.shape, spacing=SPACING, step=STEP, slots=self.slots)
        model.add_site_type("medium")
        model.add_site_type("cell", ellipsoid(self.shape))
        names = [f"S{i}" for i in range(300)]
        model.add_species(*names)
        model.add_diffusion("*", 0.1 * SPACING**2 / STEP, within="cell")
        inside = int((model.site_array() == 1).sum())
        for i, name in enumerate(names):
            model.place(name, count=round(inside * self.slots * self.fill / 300), site_type="cell")
            after = names[(i + 1) % 300]
            model.add_reaction(f"{name} -> {after}", rate=1e-3 / STEP, site_types="cell")
        return model


def ellipsoid(shape: Shape) -> npt.NDArray[np.bool_]:
    """Sites inside."""
    radii = np.array(shape) / 2 * (0.064 * 6 / np.pi) ** (1 / 3)
    grids = np.ogrid[tuple(slice(0, n) for n in shape)]
    squares = [
        ((grid - (n - 1) / 2) / r) ** 2 for grid, n, r in zip(grids, shape, radii, strict=True)
    ]
    return np.asarray(squares[0] + squares[1] + squares[2] <= 1)


SITES = {
    "256-frequent": Site(), "256-rare": Site(reactions=0.01), "256-none": Site(reactions=0),
    "256-fill2": Site(fill=0.02), "256-fill20": Site(fill=0.20), "256-fill30": Site(fill=0.30),
    "256-slots8": Site(slots=8), "128x128x256": Site(shape=(256, 128, 128)),
    "cell": Site(shape=(128, 64, 64), cell=True), "64": Site(shape=(64, 64, 64)),
    "64x128x128": Site(shape=(64, 128, 128)), "minde": Site(example="minde.toml"),
    "cube": Site(example="michaelis_menten_cube.toml"),
    "ball": Site(example="isomerisation_ball.toml"), "lac": Site(example="lac_two_state.py"),
    "64-fill1": Site(shape=(64, 64, 64), fill=0.01), "64-fill2": Site(shape=(64, 64, 64), fill=0.02),
    "64-fill3": Site(shape=(64, 64, 64), fill=0.03),
    "128-few": Site(shape=(128, 128, 128), fill=0.003), "256-few": Site(fill=0.003),
}  # fmt: skip
EDGES, DENSITIES = (16, 32, 48, 64), (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # particles a site
SITES |= {f"{edge}-{density}": Site(shape=(edge,) * 3, fill=density / 16)
          for edge, density in product(EDGES, DENSITIES)}  # fmt: skip


def scaled(machine: Machine, site: Site) -> Site:
    """A cube of fewer sites where little is to be done."""
    if site.example or machine.scale >= 1:
        return site
    edge = machine.scale ** (1 / 3)
    z, y, x = (max(8, round(n * edge) // 8 * 8) for n in site.shape)
    return replace(site, shape=(z, y, x))


def step(
    machine: Machine, name: str, warm: int, steps: int, replicas: int = 1, engine: str = "",
    **how: Any,
) -> float:  # fmt: skip
    """Seconds of a step and replica; `how` are `LatticeRequests` of slots, such as ``sparse=True``.

    Without any, and without `engine`, it is the engine of a run. As many of `replicas` as in a run
    share the device.
    """
    backend, lattice = machine.backend(), scaled(machine, SITES[name]).lowered()
    made: Any = partial(LatticeEngine, requests=LatticeRequests(**how))
    at_a_time = replicas_at_a_time
    if not how and (engine or engine_of(lattice)) == LatticeEngineName.PLANES:
        made, at_a_time = PlanesEngine, planes_at_a_time
    replicas = at_a_time(backend, lattice, replicas)
    engines = [
        made(backend, lattice, seed=1, replica=number, sharing=replicas)
        for number in range(replicas)
    ]
    for one in engines:
        one.load_start()
        one.run_sampled([warm])
    steps, seconds = machine.many(steps), list[float]()
    for _ in range(3):
        for one in engines:
            one.synchronize()
        began = time.perf_counter()
        if replicas > 1:
            for finish in engines[0].start_beside(engines[1:], [steps]):
                finish()
        else:
            engines[0].run(steps)
            engines[0].synchronize()
        seconds.append((time.perf_counter() - began) / steps / replicas)
    del engines, one
    backend.close()
    return statistics.median(seconds)


def by_run(
    machine: Machine, replicas: int, t_end: float,
    engine: Literal["auto", "planes", "slots"] = "auto",
) -> float:  # fmt: skip
    """Steps a second of the Min proteins by `ts.run`, from the first to the last, of all replicas."""
    lattice = ts.read(ROOT / "examples" / "minde.toml")
    assert isinstance(lattice, ts.Lattice)
    result = ts.run(lattice, t_end=t_end * machine.scale, seed=1, replicas=replicas, engine=engine,
                    device=machine.place(), quiet=True)  # fmt: skip
    return float(sum(row["steps"] / row["wall"] for row in result.profile))


def placing(machine: Machine, size: int, fill: float) -> Answer:
    """Seconds until the particles stand on the device: placed there, and placed by the host."""
    backend = machine.backend()
    lattice = scaled(machine, Site(shape=(size, size, size), fill=fill)).lowered()
    engine = LatticeEngine(backend, lattice, seed=1)
    engine.load_start()  # compiles

    def by_host() -> None:
        particles = lattice.particles(0, lattice.shape[0], 1)
        fired = np.zeros(len(lattice.reactions), np.int64)
        engine.load(LatticeState(particles, np.zeros(0, WAITING), 0, fired, 0))

    host = seconds_of(by_host)
    placed = engine.host(engine.particles)
    result = {"": seconds_of(engine.load_start), "by the host": host}
    assert np.array_equal(placed, engine.host(engine.particles))
    backend.close()
    return result


def output_cost(machine: Machine, steps: int = 10_000) -> Answer:
    """256³ with counts every 10 and a frame every 1,000 steps, as a share of the time without."""
    steps = max(2, round(steps * machine.scale / 1000)) * 1000
    model = scaled(machine, SITES["256-frequent"]).model()
    whole, each = {}, {}
    for kind in ("none", "output"):
        calls: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            ts.run(
                model, t_end=steps * STEP, seed=1, device=machine.place(), quiet=True,
                count_every=10 if kind == "output" else steps,
                frame_every=1000 if kind == "output" else 0,
                hooks=[(1000, lambda _, calls=calls: calls.append(time.perf_counter()))],
                output=Path(folder) / "out.h5",
            ).close()  # fmt: skip
            ended = time.perf_counter()
        each[kind] = (calls[-1] - calls[0]) / (len(calls) - 1)
        whole[kind] = each[kind] * steps / 1000 + ended - calls[-1]
    return {"": whole["output"] / whole["none"] - 1, "of steps": each["output"] / each["none"] - 1}


def side_by_side(machine: Machine, edge: int, many: int, engine: str, each: int = 200) -> Answer:
    """Seconds of a look and lattice, after `each` steps: small ones at once, and one by one."""
    backend, lattice = machine.backend(), Site((edge,) * 3, fill=0.1 / 16).lowered()
    many, looks = machine.many(many), machine.many(200 / each)
    result, counts = {}, []
    for name in ("", "one after another"):
        both = replicas_of(backend, lattice, LatticeEngineName(engine))
        both.begin([(lattice, number) for number in range(many)], 1)
        with patch.object(both, "_of_a_launch", lambda _: 0) if name else nullcontext():
            for seed in (0, 1):  # the first compiles
                began = time.perf_counter()
                for _ in range(looks):
                    found = both.run_sampled([each], range(many), seed=seed)
        counts.append(found)
        result[name] = (time.perf_counter() - began) / (many * looks)
    assert (counts[0] == counts[1]).all()
    backend.close()
    return result
