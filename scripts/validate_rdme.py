#!/usr/bin/env python3
"""Long runs of the lattice engine against exact laws: value, expectation, sampling error, z.

Every law holds for any time step unless its row says otherwise. ``--scale`` multiplies the work
(1 suits a GPU; 0.02 a laptop). The answer is a CSV table; the exit code is 1 if a row is off.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import Backend, BackendOptions, choose_backend, get_backend
from tauslab.kernels.lattice_lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice_state import LatticeState
from tauslab.kernels.rdme import LatticeEngine
from tauslab.kernels.waiting import WAITING
from tauslab.model.lattice import Lattice

SPACING, STEP = 32e-9, 1e-4
Z_LIMIT = 4.5
Particles = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Row:
    """One number against its law; `bias` is what the row's remark allows beyond sampling."""

    test: str
    quantity: str
    value: float
    expected: float
    error: float
    bias: float = 0.0

    @property
    def z(self) -> float:
        """Standard errors between value and law, beyond the allowed bias."""
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
    return lower_lattice(model, max_hop=0.4999, reaction_substeps=1)


def engine_of(backend: Backend, model: Lattice, start: Particles | None = None, seed: int = 1
              ) -> LatticeEngine:  # fmt: skip
    """An engine with the model's start, or with these particles."""
    lattice = lowered(model)
    engine = LatticeEngine(backend, lattice, seed=seed)
    if start is None:
        engine.load_start()
    else:
        fired = np.zeros(len(lattice.reactions), np.int64)
        engine.load(LatticeState(start, np.zeros(0, WAITING), 0, fired, 0))
    return engine


def t1(backend: Backend, scale: float) -> Iterator[Row]:
    """<r^2> = 6 q n, and the kurtosis (1/(2q) - 3)/n of each axis."""
    size, n = 128, 100
    for hop in (1 / 60, 1 / 12, 1 / 6, 1 / 4):
        displaced = []
        for seed in range(max(1, round(100 * scale))):
            kinds = 250
            start = np.zeros((size, size, size, 16), np.uint8)
            sites = np.random.default_rng(seed).choice(size**3, kinds, replace=False)
            start.reshape(-1, 16)[sites] = np.arange(1, kinds + 1)[:, None]
            model = model_of((size,) * 3, {f"S{i}": hop for i in range(kinds)})
            engine = engine_of(backend, model, start, seed)
            engine.run_sampled([n])
            particles = engine.save().particles
            where = np.argwhere(particles > 0)
            kind = particles[tuple(where.T)].astype(int) - 1
            origin = np.stack(np.unravel_index(sites[kind], (size,) * 3), axis=1)
            displaced.append((where[:, :3] - origin + size // 2) % size - size // 2)
        squares = np.concatenate(displaced).astype(float) ** 2
        variance, kurtosis = 2 * hop * n, (1 / (2 * hop) - 3) / n
        spread = variance * np.sqrt((2 + kurtosis) / squares.size)
        yield Row("T1", f"<r^2>/3, q={hop:.4g}", squares.mean(), variance, spread)
        found = (squares**2).mean() / squares.mean() ** 2 - 3
        yield Row("T1", f"kurtosis, q={hop:.4g}", found, kurtosis, np.sqrt(24 / squares.size))


def t2(backend: Backend, scale: float) -> Iterator[Row]:
    """A mode of a reflecting box decays by 1 - 2q(1 - cos(pi/L)) a step."""
    size, hop, n = 64, 1 / 6, 1000
    wide = max(4, round(64 * scale**0.5))
    model = model_of((size, wide, wide), {"A": hop}, boundary="reflecting")
    start = np.zeros((size, wide, wide, 16), np.uint8)
    start[: size // 2, ..., :4] = 1
    engine = engine_of(backend, model, start)
    engine.run_sampled([n])
    planes = (engine.save().particles > 0).sum(axis=(1, 2, 3))
    mode = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    factor = 1 - 2 * hop * (1 - np.cos(np.pi / size))
    value = (mode * planes).sum() / planes.sum()
    expected = mode[: size // 2].mean() * factor**n
    yield Row("T2", "decay of a mode", value, expected, np.sqrt(0.5 / planes.sum()))


def meeting_steps(size: int, hops: tuple[float, float], p: float) -> float:
    """Mean number of steps to react of one pair, time step included."""
    angles = 2 * np.pi * np.arange(size) / size
    phi = np.ones((size,) * 3)
    for hop in hops:
        one = 1 - 2 * hop * (1 - np.cos(angles))
        phi = phi * one[:, None, None] * one[None, :, None] * one
    return float(1 + (1 / (1 - phi.reshape(-1)[1:])).sum() + (1 / p - 1) * size**3)


def t3(backend: Backend, scale: float) -> Iterator[Row]:
    """Mean steps to react of a pair in a periodic box."""
    for size, p, hops in ((8, 0.1, (1 / 6, 1 / 6)), (8, 1.0, (1 / 6, 1 / 6)),
                          (16, 0.05, (1 / 6, 1 / 6)), (16, 1.0, (1 / 6, 0.0)),
                          (16, 0.05, (0.488, 0.488))):  # fmt: skip
        pairs = 100
        model = model_of((size,) * 3, {})
        rate = 1e12 if p == 1 else -np.log1p(-p) / STEP
        for i in range(pairs):
            for side, hop in zip("AB", hops, strict=True):
                model.add_species(f"{side}{i}")
                model.add_diffusion(f"{side}{i}", hop * SPACING**2 / STEP)
                model.place(f"{side}{i}", count=1)
            model.add_reaction(f"A{i} + B{i} ->", rate=rate, volume="site")
        expected = meeting_steps(size, hops, p)
        every = max(1, int(expected / 200))
        marks = list(range(every, int(3 * expected), every))
        events, at_risk = 0, 0.0
        for seed in range(max(1, round(40 * scale))):
            engine = engine_of(backend, model, seed=seed)
            fired = engine.run_sampled(marks).fired.sum(axis=1)
            new = np.diff(np.concatenate([[0], fired]))
            at_risk += every * (
                new @ (np.arange(len(fired)) + 0.5) + (pairs - fired[-1]) * len(fired)
            )
            events += int(fired[-1])
        value = at_risk / events
        # The law is not quite exponential: pairs that start in one site may react at once.
        yield Row("T3", f"steps, L={size}, p={p:g}, q={hops[0]:.3g}/{hops[1]:.3g}", value, expected,
                  expected / np.sqrt(events), 3 * expected / size**3)  # fmt: skip


def t4(backend: Backend, scale: float) -> Iterator[Row]:
    """A + B <-> C, mixed fast: mean and variance of C as the time step goes to 0 (three steps)."""
    for slower in (1, 4, 16):
        model = model_of((4, 4, 4), dict.fromkeys("ABC", 0.25))
        model.add_reaction("A + B -> C", rate=20.0 / slower, volume="lattice")
        model.add_reaction("C -> A + B", rate=200.0 / slower)
        model.place("A", count=50)
        model.place("B", count=40)
        engine = engine_of(backend, model)
        every = 25 * slower
        engine.run_sampled([20 * every])
        samples = max(100, round(20_000 * scale))
        c = engine.run_sampled(list(range(every, every * samples + 1, every))).counts[:, 2]
        for name, value, expected, error in (
            ("mean", c.mean(), 27.7786, np.sqrt(6.2115 / len(c))),
            ("variance", c.var(), 6.2115, 6.2115 * np.sqrt(2 / len(c))),
        ):
            # Both reactions are slower by up to half of a0 tau of a site; samples know each other.
            bias = (0.6 if name == "mean" else 0.3) / slower
            yield Row("T4", f"{name} of C, a0 tau {0.06 / slower:.2g}", value, expected,
                      1.6 * error, bias)  # fmt: skip


def t6_t7(backend: Backend, scale: float) -> Iterator[Row]:
    """Pairs of one kind, and two reactions of the same pair."""
    side = max(16, round(128 * scale ** (1 / 3)))
    for n in (2, 3, 8):
        model = model_of((side,) * 3, {"A": 0.0, "B": 0.0})
        model.add_reaction("2 A -> B", rate=0.02 / STEP, volume="site")
        start = np.zeros((side, side, side, 16), np.uint8)
        start[..., :n] = 1
        fired = engine_of(backend, model, start).run_sampled([1]).fired[0, 0] / side**3
        p = -np.expm1(-0.02 * n * (n - 1) / 2)
        yield Row("T6", f"2 A, {n} in a site", fired, p, np.sqrt(p * (1 - p) / side**3))
    model = model_of((side,) * 3, dict.fromkeys("ABCD", 0.1))
    model.add_reaction("A + B -> C", rate=0.25 / STEP, volume="site")
    model.add_reaction("A + B -> D", rate=0.75 / STEP, volume="site")
    for name in "AB":
        model.place(name, count=side**3)
    fired = engine_of(backend, model).run_sampled([200]).fired[0]
    total = fired.sum()
    yield Row("T7", "share of A+B->C", fired[0] / total, 0.25, np.sqrt(0.1875 / total))


def t9(backend: Backend, scale: float) -> Iterator[Row]:
    """Between faces held at c0 and 0 the profile is c0 (1 - (z + 1)/(N + 1))."""
    n, wide, ghosts = 15, max(16, round(128 * scale**0.5)), 2.0
    model = model_of((n, wide, wide), {"A": 1 / 6})
    molar = ghosts / 6.02214076e23 / (SPACING**3 * 1000)
    model.set_boundary("z-", "held", concentrations={"A": molar})
    model.set_boundary("z+", "held")
    profile = ghosts * (1 - (np.arange(n) + 1) / (n + 1))
    filled = np.random.default_rng(1).poisson(profile[:, None, None], (n, wide, wide))
    start = (np.arange(16) < np.minimum(filled, 16)[..., None]).astype(np.uint8)
    engine = engine_of(backend, model, start)
    engine.run_sampled([3000])
    samples, planes = 40, np.zeros(n)
    for _ in range(samples):
        engine.run_sampled([300])
        planes += (engine.save().particles > 0).sum(axis=(1, 2, 3))
    planes /= samples * wide**2
    for z in (0, n // 2, n - 1):
        error = np.sqrt(profile[z] / (samples * wide**2)) * 1.5
        yield Row("T9", f"particles in a site of plane {z}", planes[z], profile[z], error)


def t10_t14(backend: Backend, scale: float) -> Iterator[Row]:
    """Nothing is lost at 60 % full with 8 slots; the digest is that of one CPU thread."""
    side = max(16, round(64 * scale ** (1 / 3)))
    model = model_of((side, side + 3, side + 5), {"A": 0.15, "B": 0.1, "C": 0.05}, slots=8)
    model.add_reaction("A + B -> C", rate=78.0, volume="site")
    model.add_reaction("C -> A + B", rate=100.0)
    sites = side * (side + 3) * (side + 5)
    for name in "AB":
        model.place(name, count=round(2.4 * sites))
    engine = engine_of(backend, model)
    samples = engine.run_sampled(list(range(10, 201, 10)))
    total = samples.counts @ (1, 1, 2)
    yield Row("T10", "particles lost", float(np.abs(total - total[0]).max()), 0, 0)
    reference = get_backend("cpu", BackendOptions(threads=1))
    again = engine_of(reference, model)
    again.run_sampled([200])
    one, other = engine.save(), again.save()
    differ = (one.particles != other.particles).sum() + (one.fired != other.fired).sum()
    differ += len(one.waiting) != len(other.waiting) or (one.waiting != other.waiting).sum()
    yield Row("T14", "slots that differ from one CPU thread", float(differ), 0, 0)
    reference.close()


TESTS: dict[str, Test] = {"T1": t1, "T2": t2, "T3": t3, "T4": t4, "T6": t6_t7, "T9": t9,
                          "T10": t10_t14}  # fmt: skip


def main() -> int:
    """Run the tests that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test", action="append", choices=list(TESTS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    backend = get_backend(choose_backend(options.device), BackendOptions(threads=options.threads))
    print(f"# {backend.describe()}, scale {options.scale:g}")
    out = csv.writer(sys.stdout)
    out.writerow(["test", "quantity", "value", "expected", "error", "allowed_bias", "z"])
    worst = 0.0
    for name in options.test or TESTS:
        for row in TESTS[name](backend, options.scale):
            numbers = (row.value, row.expected, row.error, row.bias, row.z)
            out.writerow([row.test, row.quantity, *(f"{x:.7g}" for x in numbers)])
            sys.stdout.flush()
            worst = max(worst, row.z)
    backend.close()
    return int(worst > Z_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
