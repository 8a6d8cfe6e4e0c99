"""Hops on lattices compared with exact results: T1, T2, T9 and T13 of `validate_rdme.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from rdme_laws import SPACING, STEP, Row, begin, engine_of, model_of

from tauslab.kernels.backends import Backend

FloatArray = npt.NDArray[np.float64]
MOLECULES_PER_MOL = 6.02214076e23


def t1(backend: Backend, scale: float) -> Iterator[Row]:
    """<r^2> = 6 q n, and the kurtosis (1/(2q) - 3)/n of each axis.

    A species of 16 particles starts in every sixth site along each axis, so that all know where
    they came from.
    """
    size, apart, n = 96, 6, 100
    z, y, x = np.indices((size // apart,) * 3) * apart
    origins = np.stack([z, y, x], axis=-1).reshape(-1, 3)
    start = np.zeros((size, size, size, 16), np.uint16)
    start[tuple(origins.T)] = np.arange(1, len(origins) + 1)[:, None]
    runs = max(1, round(16 * scale))
    for number, hop in enumerate((1 / 60, 1 / 12, 1 / 6, 1 / 4)):
        model = model_of((size,) * 3, {f"S{i}": hop for i in range(len(origins))})
        engine = engine_of(backend, model, start)
        second, fourth, count = 0.0, 0.0, 0
        for seed in range(number * runs, (number + 1) * runs):  # draws of their own
            begin(engine, start, seed)
            engine.run_sampled([n])
            particles = engine.save().particles.reshape(-1)
            slots = np.flatnonzero(particles)
            where = np.stack(np.unravel_index(slots // 16, (size,) * 3), axis=1)
            moved = where - origins[particles[slots].astype(int) - 1]
            squares = ((moved + size // 2) % size - size // 2).astype(float) ** 2
            second, fourth = second + squares.sum(), fourth + (squares**2).sum()
            count += squares.size
        second, fourth = second / count, fourth / count
        variance, kurtosis = 2 * hop * n, (1 / (2 * hop) - 3) / n
        spread = variance * np.sqrt((2 + kurtosis) / count)
        yield Row("T1", f"<r^2>/3, q={hop:.4g}", second, variance, spread)
        yield Row("T1", f"kurtosis, q={hop:.4g}", fourth / second**2 - 3, kurtosis,
                  kurtosis_error(hop, n, count))  # fmt: skip


def kurtosis_error(hop: float, n: int, count: int) -> float:
    """Standard error of the kurtosis of `count` sums of n steps, from their cumulants."""
    square = 2 * hop  # of one step
    a = (1 / square - 3) / n
    b = (1 / square**2 - 15 / square + 30) / n**2
    m4, m6, m8 = 3 + a, 15 + 15 * a + b, 105 + 210 * a + 28 * b + 35 * a**2
    return float(np.sqrt((m8 - 4 * m4 * m6 + 4 * m4**3 - m4**2) / count))


def t2(backend: Backend, scale: float) -> Iterator[Row]:
    """A mode of a reflecting box decays by 1 - 2q(1 - cos(pi/L)) a step.

    What is even stays even; across a border the ratio is that of the hops in and out.
    """
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
    yield Row("T2", f"a mode after {n} steps", value, expected, np.sqrt(0.5 / planes.sum()))
    start[...] = 0
    start[..., :2] = 1
    begin(engine, start, 2)
    engine.run_sampled([n])
    planes = (engine.save().particles > 0).sum(axis=(1, 2, 3))
    mean = 2 * wide**2
    chi = ((planes - mean) ** 2 / mean).sum()
    yield Row("T2", f"chi-square of {size} planes, even at first", chi, size - 1,
              float(np.sqrt(2 * size - 2)))  # fmt: skip
    yield from partition(backend, wide)


def partition(backend: Backend, wide: int) -> Iterator[Row]:
    """Across a border between site types, particles share out as q_in / q_out."""
    shape = (8, wide, wide)
    model = model_of(shape, {})
    model.add_site_type("out")
    model.add_site_type("in", np.indices(shape)[0] >= 4)
    model.add_species("A")
    square = SPACING**2 / STEP
    for within in ("out", "in"):
        model.add_diffusion("A", 0.15 * square, within=within)
    into, back = 0.12, 0.04
    model.add_diffusion("A", into * square, source="out", target="in")
    model.add_diffusion("A", back * square, source="in", target="out")
    start = np.zeros((*shape, 16), np.uint8)
    start[..., :2] = 1
    engine = engine_of(backend, model, start)
    engine.run_sampled([2000])
    result = engine.count().by_type[0, :, 0]
    share, expected = result[1] / result.sum(), into / (into + back)
    yield Row("T2", f"share beyond a border, q {into:g} in and {back:g} out", share, expected,
              float(np.sqrt(expected * (1 - expected) / result.sum())))  # fmt: skip


def t9(backend: Backend, scale: float) -> Iterator[Row]:
    """Between faces held at c0 and 0 the profile is c0 (1 - (z + 1)/(N + 1)), the flux D c0 / L."""
    n, wide, ghosts, hop = 15, max(16, round(128 * scale**0.5)), 2.0, 1 / 6
    model = model_of((n, wide, wide), {"A": hop})
    molar = ghosts / MOLECULES_PER_MOL / (SPACING**3 * 1000)
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
    # Samples know each other a little: 300 steps are half of what the slowest mode needs.
    errors = 1.5 * np.sqrt(profile / (samples * wide**2))
    for z in (0, n // 2, n - 1):
        yield Row("T9", f"particles in a site of plane {z}", planes[z], profile[z], errors[z])
    flux = hop * (planes[0] - planes[-1]) / (n - 1)
    yield Row("T9", "flux, particles a site and step", flux, hop * ghosts / (n + 1),
              hop * float(np.hypot(errors[0], errors[-1])) / (n - 1))  # fmt: skip


def chain(n: int, hop: float) -> FloatArray:
    """Hop matrix of a reflecting chain of n sites."""
    matrix = np.diag(np.full(n, 1 - 2 * hop)) + np.diag(np.full(n - 1, hop), 1)
    matrix += np.diag(np.full(n - 1, hop), -1)
    matrix[0, 0] = matrix[-1, -1] = 1 - hop
    return matrix


def t13(backend: Backend, scale: float) -> Iterator[Row]:
    """A chain follows the powers of its hop matrix; with small hops, diffusion in real time."""
    wide = max(8, round(64 * scale**0.5))
    for n, first, hop, steps in ((12, 3, 1 / 6, 15), (64, 32, 0.005, 1953)):
        model = model_of((wide, wide, n), {"A": hop}, boundary="reflecting")
        start = np.zeros((wide, wide, n, 16), np.uint8)
        start[..., first, :12] = 1
        engine = engine_of(backend, model, start)
        engine.run_sampled([steps])
        state = engine.save()
        result = (state.particles > 0).sum(axis=(0, 1, 3)).astype(float)
        np.add.at(result, state.waiting["site"].astype(int) % n, 1)
        if steps < 100:
            law, of = np.linalg.matrix_power(chain(n, hop), steps)[first], "powers of its matrix"
        else:  # the exponential of the generator times the time
            values, vectors = np.linalg.eigh(chain(n, hop) - np.eye(n))
            law, of = (vectors * np.exp(steps * values)) @ vectors[first], "real time"
        enough = law * result.sum() > 5
        chi = ((result - law * result.sum()) ** 2 / (law * result.sum()))[enough].sum()
        freedom = enough.sum() - 1
        yield Row("T13", f"chi-square of a chain of {n}, q={hop:.3g}, {of}", chi, freedom,
                  np.sqrt(2 * freedom), 0.2 * freedom if steps > 100 else 0.0)  # fmt: skip
