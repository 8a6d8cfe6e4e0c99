#!/usr/bin/env python3
"""Long runs of the lattice engine against exact laws: value, expectation, sampling error, z.

    python scripts/validate_rdme.py --device cuda -o docs/validation/rdme-cuda.csv

writes the table and a summary beside it (rdme-cuda.md), and exits 1 if a row is off.  Every law
holds for any time step unless its row allows a bias.  A row is off where its value is more than 4.5
standard errors, beyond that bias, from the expectation: once in 100,000 rows.  ``--scale``
multiplies the work (1 suits a GPU; 0.02 a laptop).  T11 is one run of 240 s of model time, done
from scale 1 or when asked for by name.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
from rdme_laws import (
    STEP,
    Row,
    Test,
    engine_of,
    model_of,
    t1,
    t2,
    t3,
    t4,
    t6_t7,
    t9,
)

import tauslab as ts
from tauslab.kernels.backends import Backend, BackendOptions, choose_backend, get_backend
from tauslab.kernels.lattice_lowering import lower_lattice
from tauslab.kernels.rdme import LatticeEngine
from tauslab.model.lattice import Lattice

MINDE = Path(__file__).parents[1] / "examples" / "minde.toml"
Z_LIMIT = 4.5
HEADER = ("test", "quantity", "value", "expected", "error", "allowed_bias", "z")
FloatArray = npt.NDArray[np.float64]


def t5(backend: Backend, scale: float) -> Iterator[Row]:
    """A <-> B is binomial, in total and for a site type; 0 -> X -> 0 is Poisson."""
    shape = (6, 6, 8)
    model = model_of(shape, {"A": 0.2, "B": 0.1, "X": 0.2})
    model.add_site_type("left")
    model.add_site_type("right", np.indices(shape)[2] >= 4)
    rate, apart = 0.005 / STEP, 400
    model.add_reaction("A -> B", rate=rate)
    model.add_reaction("B -> A", rate=3 * rate)
    model.add_reaction("-> X", rate=rate * 200, volume="lattice")
    model.add_reaction("X ->", rate=rate)
    for side in ("left", "right"):
        model.place("A", count=200, site_type=side)
    engine = engine_of(backend, model)
    engine.run_sampled([5 * apart])
    n = max(100, round(10_000 * scale))
    samples = engine.run_sampled(list(range(apart, apart * n + 1, apart)))
    laws = (
        ("B", samples.counts[:, 1], 100.0, 75.0),
        ("B in left", samples.by_type[:, 0, 1], 50.0, 43.75),
        ("X", samples.counts[:, 2], 200.0, 200.0),
    )
    for name, found, mean, variance in laws:
        # a0 tau of a site is 0.008: reactions are too slow by 0.4 %, and their ratios by less.
        yield Row("T5", f"mean of {name}", found.mean(), mean, 1.2 * np.sqrt(variance / n),
                  0.004 * mean)  # fmt: skip
        yield Row("T5", f"variance of {name}", found.var(), variance,
                  1.1 * variance * np.sqrt(2 / n), 0.004 * variance)  # fmt: skip


def t10_t14(backend: Backend, scale: float) -> Iterator[Row]:
    """Nothing is lost at 60 % full with 8 slots; the bits are those of one CPU thread.

    A GPU is compared with it; a CPU with more threads.
    """
    side = max(16, round(64 * scale ** (1 / 3)))
    model = model_of((side, side + 3, side + 5), {"A": 0.15, "B": 0.1, "C": 0.05}, slots=8)
    model.add_reaction("A + B -> C", rate=78.0, volume="site")
    model.add_reaction("C -> A + B", rate=100.0)
    for name in "AB":
        model.place(name, count=round(2.4 * side * (side + 3) * (side + 5)))
    engine = engine_of(backend, model)
    samples = engine.run_sampled(list(range(10, 201, 10)))
    total = samples.counts @ (1, 1, 2)
    yield Row("T10", "particles lost", float(np.abs(total - total[0]).max()), 0, 0)
    yield Row("T10", "particles that wait, against the count",
              float(len(engine.save().waiting)), float(samples.waiting[-1]), 0)  # fmt: skip
    counted = [] if backend.name == "cuda" else [2, 3, 5]
    others = [(f"{n} threads", get_backend("cpu", BackendOptions(threads=n))) for n in counted]
    reference = get_backend("cpu", BackendOptions(threads=1))
    one = state_after(reference, model, 200)
    for name, other in others or [(backend.describe(), backend)]:
        unequal = differences(one, state_after(other, model, 200))
        yield Row("T14", f"words that differ, {name} against one", float(unequal), 0, 0)
    for _, other in others:
        other.close()
    reference.close()


def state_after(backend: Backend, model: Lattice, steps: int) -> list[npt.NDArray[np.generic]]:
    """Particles, waiting particles, reactions fired."""
    engine = engine_of(backend, model)
    engine.run_sampled([steps])
    state = engine.save()
    return [state.particles, state.waiting, state.fired]


def differences(one: list[npt.NDArray[np.generic]], other: list[npt.NDArray[np.generic]]) -> int:
    """Elements that differ; of arrays of unequal length, all."""
    return sum(
        int((a != b).sum()) if a.shape == b.shape else max(len(a), len(b))
        for a, b in zip(one, other, strict=True)
    )


def t11(backend: Backend, scale: float) -> Iterator[Row]:
    """Min proteins swing from pole to pole, about once a minute; the first minute is left out.

    No exact law: the period is known to be close to a minute (Lattice Microbes instruction guide).
    """
    del scale
    model = ts.read(MINDE)
    assert isinstance(model, Lattice)
    lattice = lower_lattice(model)
    engine = LatticeEngine(backend, lattice, seed=1)
    engine.load_start()
    number, lower = lattice.species.index("minDm") + 1, lattice.shape[0] // 2
    seconds, apart = 240, round(1 / lattice.step)
    sides = np.zeros((seconds, 2))
    for second in range(seconds):
        engine.run_sampled([apart * lattice.diffusion_substeps])
        bound = engine.save().particles == number
        sides[second] = bound[:lower].sum(), bound[lower:].sum()
    bias = (sides[:, 0] - sides[:, 1]) / sides.sum(axis=1)
    smooth = np.convolve(bias, np.ones(9) / 9, "valid")[60:]
    turns = np.flatnonzero((smooth[:-1] < 0) != (smooth[1:] < 0))
    halves = np.diff(turns)  # seconds between changes of sides
    period, error = 0.0, 0.0
    if len(halves) > 1:
        period, error = 2 * halves.mean(), 2 * halves.std() / np.sqrt(len(halves))
    yield Row("T11", f"MinDE, seconds a period, {len(halves)} swings", period, 60.0, error, 20.0)
    yield Row("T11", "MinDE, greatest share of membrane MinD on one side",
              0.5 + np.abs(smooth).max() / 2, 1.0, 0.05, 0.2)  # fmt: skip


def bound_pairs() -> Lattice:
    """A + B <-> C on 8^3 periodic sites; a hop and a pair have 0.02 in a step."""
    made = Lattice("box", shape=(8, 8, 8), spacing=1.0, step=0.02, boundary="periodic", slots=8)
    made.add_species("A", "B", "C")
    made.add_diffusion("*", 1.0)
    made.add_reaction("A + B -> C", rate=1.0, volume="site")
    made.add_reaction("C -> A + B", rate=0.1)
    return made


def t12(backend: Backend, scale: float) -> Iterator[Row]:
    """Counts over time against `ssa` of the lattice as a network: its exact master equation."""
    spread, model = bound_pairs(), bound_pairs()
    for name in "AB":
        spread.place(name, count=60)
    particles = lower_lattice(spread).particles(0, 8, seed=1)
    for number, name in enumerate("AB", start=1):
        model.place(name, positions=np.argwhere(particles == number)[:, :3])
    n, times = max(60, round(3000 * scale)), [1, 2, 3, 4]
    exact = ts.run(model.to_network(seed=1), n=n, times=times, seed=9, device=backend.name)
    expected = sum(exact.counts(name) for name in exact.species if name.startswith("C_"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "box.h5"
        ts.run(model, t_end=4.0, count_every=50, replicas=n, seed=5, device=backend.name,
               output=path).close()  # fmt: skip
        with h5py.File(path) as file:
            found = file["counts"][:, 1:, 2]
    for t, one, other in zip(times, found.T, np.asarray(expected).T, strict=True):
        both = np.concatenate([one, other])
        yield Row("T12", f"mean of C at {t}, {n} runs of each", one.mean(), other.mean(),
                  float(np.sqrt(2 * both.var() / n)), 0.1)  # fmt: skip
        edges = np.unique(np.quantile(both, np.linspace(0, 1, 9)[1:-1]))
        table = np.stack([np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
                          for x in (one, other)])  # fmt: skip
        mean = table.sum(axis=0) / 2
        chi = ((table - mean) ** 2 / np.maximum(mean, 1)).sum()
        yield Row("T12", f"chi-square of C at {t}", chi, len(edges), np.sqrt(2 * len(edges)))


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
        found = (state.particles > 0).sum(axis=(0, 1, 3)).astype(float)
        np.add.at(found, state.waiting["site"].astype(int) % n, 1)
        if steps < 100:
            law, of = np.linalg.matrix_power(chain(n, hop), steps)[first], "powers of its matrix"
        else:  # the exponential of the generator times the time
            values, vectors = np.linalg.eigh(chain(n, hop) - np.eye(n))
            law, of = (vectors * np.exp(steps * values)) @ vectors[first], "real time"
        enough = law * found.sum() > 5
        chi = ((found - law * found.sum()) ** 2 / (law * found.sum()))[enough].sum()
        freedom = enough.sum() - 1
        yield Row("T13", f"chi-square of a chain of {n}, q={hop:.3g}, {of}", chi, freedom,
                  np.sqrt(2 * freedom), 0.2 * freedom if steps > 100 else 0.0)  # fmt: skip


TESTS: dict[str, Test] = {
    "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5, "T6": t6_t7, "T9": t9, "T10": t10_t14,
    "T11": t11, "T12": t12, "T13": t13,
}  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row of the table."""
    numbers = (row.value, row.expected, row.error, row.bias, row.z)
    return [row.test, row.quantity, *(f"{x:.6g}" for x in numbers)]


def write(rows: list[Row], head: str, path: Path) -> None:
    """The table as CSV, and with verdicts as Markdown."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *map(cells, rows)])
    lines = [
        "# Particles on a lattice against exact laws", "",
        f"Made by `scripts/validate_rdme.py`, which states the rule: {head}.", "",
        f"| {' | '.join((*HEADER, 'verdict'))} |", f"|{'---|' * (len(HEADER) + 1)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join([*cells(r), 'FAIL' if r.z > Z_LIMIT else 'pass'])} |" for r in rows]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Run the tests that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--test", action="append", choices=list(TESTS),
                        help="T6 with T7, T10 with T14")  # fmt: skip
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="CSV; a .md is written beside it")
    options = parser.parse_args()
    backend = get_backend(choose_backend(options.device), BackendOptions(threads=options.threads))
    head = f"{backend.describe()}, scale {options.scale:g}"
    print(f"# {head}", flush=True)
    out, rows = csv.writer(sys.stdout, lineterminator="\n"), []
    out.writerow(HEADER)
    for name in options.test or [t for t in TESTS if t != "T11" or options.scale >= 1]:
        for row in TESTS[name](backend, options.scale):
            rows.append(row)
            out.writerow(cells(row))
            sys.stdout.flush()
            if options.output:  # after each row: a run that is stopped leaves what it has
                write(rows, head, options.output)
    backend.close()
    return int(any(row.z > Z_LIMIT for row in rows))


if __name__ == "__main__":
    sys.exit(main())
