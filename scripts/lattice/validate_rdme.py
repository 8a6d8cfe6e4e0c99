#!/usr/bin/env python3
"""Long runs of the lattice engine against exact laws: value, expectation, sampling error, z.

    python scripts/lattice/validate_rdme.py --device cuda -o docs/validation/rdme-cuda.csv
    python scripts/lattice/validate_rdme.py --device cuda -o part.csv T3 T8  # some tests
    python scripts/lattice/validate_rdme.py --merge part.csv other.csv -o docs/validation/rdme-cuda.csv

writes the table and a summary beside it (rdme-cuda.md), and exits 1 if a row is off.  Every law
holds for any time step unless its row allows a bias.  A row is off where its value is more than 4.5
standard errors, beyond that bias, from the expectation: once in 100,000 rows.  ``--scale``
multiplies the work (1 suits a GPU; 0.02 a laptop).  T8, 1e12 trials, is done from scale 0.1 or when
asked for by name; T11, 240 s of model time, from scale 1, with ``--minde`` from a run that there
is.  Small boxes lie side by side in one lattice with walls between them, and pairs of species of
their own share a box, so that a launch does many runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from lattice_cases import Settings, minde
from rdme_hops import t1, t2, t9, t13
from rdme_laws import Row, Test, engine_of, model_of
from rdme_period import exact_swings, pooled_period, swings_of_planes
from rdme_reacting import t3, t4, t5, t6_t7, t8, t12

from tauslab.kernels.backends import Backend, BackendOptions, choose_backend, get_backend
from tauslab.model.lattice.lattice import Lattice

Z_LIMIT = 4.5
HEADER = ("test", "quantity", "value", "expected", "error", "allowed_bias", "z", "seconds", "by")


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
    samples = engine.run_sampled(list(range(1, 201)))
    total = samples.counts @ (1, 1, 2)
    yield Row("T10", "particles lost", float(np.abs(total - total[0]).max()), 0, 0)
    yield Row("T10", "particles that wait, against the count",
              float(len(engine.save().waiting)), float(samples.waiting[-1]), 0)  # fmt: skip
    on_cpu = backend.name == "cpu"
    counted = [2, 3, 5] if on_cpu else []
    others = [(f"{n} threads", get_backend("cpu", BackendOptions(threads=n))) for n in counted]
    reference = get_backend("cpu", BackendOptions(threads=1 if on_cpu else 0))
    one = state_after(reference, model, 200)
    for name, other in others or [(backend.describe(), backend)]:
        unequal = differences(one, state_after(other, model, 200))
        against = "one" if on_cpu else reference.describe()
        yield Row("T14", f"words that differ, {name} against {against}", float(unequal), 0, 0)
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


def t11(backend: Backend, scale: float, stored: Path | None = None) -> Iterator[Row]:
    """Min proteins swing from pole to pole; the first minute is left out.

    Against the same model by the exact program (`exact_rdme.py`), whose runs are stored: that is
    what the lattice must give.  The guide that the constants are from tells of a swing of about a
    minute; docs/lattice-examples.md says why these constants do not give that.
    `stored`: what `figures_lattice.py` left of such a run.
    """
    del scale
    if stored is None:
        outcome = minde(Settings(device=backend.name))
        times, bound = outcome.arrays["times"], outcome.arrays["bound"]
    else:
        with np.load(stored) as arrays:
            times, bound = arrays["times"], arrays["bound"]
    found, exact = swings_of_planes(times, bound), exact_swings()
    expected, error = pooled_period(exact)
    yield Row("T11", f"MinDE, seconds a period, {len(found.turns) - 1} halves", found.period,
              expected, float(np.hypot(found.error, error)))  # fmt: skip
    share = float(np.mean([one.largest_share() for one in exact]))
    yield Row("T11", "MinDE, greatest share of membrane MinD on one side", found.largest_share(),
              share, 0.02, 0.05)  # fmt: skip


TESTS: dict[str, Test] = {
    "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5, "T6": t6_t7, "T8": t8, "T9": t9,
    "T10": t10_t14, "T11": t11, "T12": t12, "T13": t13,
}  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row of the table."""
    numbers = (row.value, row.expected, row.error, row.bias, row.z)
    return [row.test, row.quantity, *(f"{x:.6g}" for x in numbers)]


def merged(paths: list[Path], rows: list[list[str]]) -> list[list[str]]:
    """Rows of other tables and these, in the order of tests; of a test, the last table's."""
    tables = [list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:] for path in paths]
    found: dict[str, list[list[str]]] = {}
    for table in [*tables, rows]:
        found |= {name: [row for row in table if row[0] == name] for name in {r[0] for r in table}}
    return [row for name in sorted(found, key=lambda name: int(name[1:])) for row in found[name]]


def write(rows: list[list[str]], path: Path) -> None:
    """The table as CSV, and with verdicts as Markdown."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    heads = sorted({row[-1] for row in rows})
    lines = [
        "# Particles on a lattice against exact laws", "",
        f"Made by `scripts/lattice/validate_rdme.py`, which states the rule: {'; '.join(heads)}.", "",
        f"| {' | '.join((*HEADER[:-1], 'verdict'))} |", f"|{'---|' * len(HEADER)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join(row[:-1])} | {'FAIL' if off(row) else 'pass'} |" for row in rows]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def off(row: list[str]) -> bool:
    """Whether a row of the table is too far from its law."""
    return float(row[HEADER.index("z")]) > Z_LIMIT


def made_by(minde: Path) -> str:
    """The device of a stored run of the Min proteins."""
    return (
        f"{json.loads(minde.with_suffix('.json').read_text(encoding='utf-8'))['device']}, scale 1"
    )


def chosen(options: argparse.Namespace) -> list[str]:
    """Tests to run: those named, else all that the scale allows; none where tables are joined."""
    scale = options.scale
    short = [t for t in TESTS if scale >= 1 or (t != "T11" and (t != "T8" or scale >= 0.1))]
    return options.test or ([] if options.merge else short)


def main() -> int:
    """Run the tests that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("test", nargs="*", help="T6 with T7, T10 with T14; by default all")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--minde", type=Path, help="lattice-minde.npz of figures_lattice.py, for T11"
    )
    parser.add_argument("--merge", type=Path, nargs="+", default=[],
                        help="tables of other runs to take in")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, help="CSV; a .md is written beside it")
    options = parser.parse_args()
    if unknown := sorted(set(options.test) - set(TESTS)):
        parser.error(f"{', '.join(unknown)}: tests are {', '.join(TESTS)}")
    backend = get_backend(choose_backend(options.device), BackendOptions(threads=options.threads))
    head = f"{backend.describe()}, scale {options.scale:g}"
    out, rows = csv.writer(sys.stdout, lineterminator="\n"), merged(options.merge, [])
    out.writerow(HEADER)
    tests = TESTS | {"T11": partial(t11, stored=options.minde)}
    for name in chosen(options):
        began = time.perf_counter()
        for row in tests[name](backend, options.scale):
            took = time.perf_counter() - began
            by = made_by(options.minde) if name == "T11" and options.minde else head
            rows = [*rows, [*cells(row), f"{took:.1f}", by]]
            out.writerow(rows[-1][:-1])
            sys.stdout.flush()
            if options.output:  # after each row: a run that is stopped leaves what it has
                write(merged([], rows), options.output)
    if options.output:
        write(merged([], rows), options.output)
    backend.close()
    return int(any(map(off, rows)))


if __name__ == "__main__":
    sys.exit(main())
