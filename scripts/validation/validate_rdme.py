"""Long runs of lattices compared with exact results.

The expected values hold for any time step, unless a row allows a bias. A row fails if its value differs from
the expected one by the bias plus more than 4.5 standard errors: a correct program fails once in 147,000 rows.
``--scale`` multiplies the work (1 suits a GPU; 0.02 a laptop). T8, 1e12 trials, is run from scale 0.1 on or
if named; T11, 240 s of model time, from scale 1 on, or with ``--minde`` from a stored run. Small boxes
lie side by side in one lattice with walls between them, and pairs of different species share a box, so
that a launch performs many runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from lattice_cases import Settings, exact_swings, minde, pooled_period, swings_of_planes
from outcome import Outcome, say, verdict
from rdme_hops import t1, t2, t9, t13
from rdme_laws import Row, Test, engine_of, model_of
from rdme_reacting import t3, t4, t5, t6_t7, t8, t12

from tauslab.kernels.backends import Backend, BackendOptions, choose_backend, get_backend
from tauslab.model.lattice.lattice import Lattice

Z_LIMIT = 4.5
HEADER = {
    "test": "number of the test",
    "quantity": "measured quantity",
    "value": "measured value",
    "expected": "exact value",
    "error": "standard error of the difference",
    "allowed_bias": "allowed error of the time step",
    "z": "standard errors beyond the allowed bias",
    "seconds": "since the start of the test",
    "verdict": "pass, or FAIL if z > 4.5",
}


def t10_t14(backend: Backend, scale: float) -> Iterator[Row]:
    """Particles are conserved at 60 % full with 8 slots, and results equal those of one CPU thread.

    Compared are a GPU, or a CPU with more threads.
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
    yield Row("T10", "waiting particles, compared with their count",
              float(len(engine.save().waiting)), float(samples.waiting[-1]), 0)  # fmt: skip
    on_cpu = backend.name == "cpu"
    counted = [2, 3, 5] if on_cpu else []
    others = [(f"{n} threads", get_backend("cpu", BackendOptions(threads=n))) for n in counted]
    reference = get_backend("cpu", BackendOptions(threads=1 if on_cpu else 0))
    one = state_after(reference, model, 200)
    for name, other in others or [(backend.describe(), backend)]:
        unequal = differences(one, state_after(other, model, 200))
        against = "one" if on_cpu else reference.describe()
        yield Row("T14", f"words that differ, {name} and {against}", float(unequal), 0, 0)
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
    """Oscillation of Min proteins, without the first minute, compared with stored runs of `exact_rdme.py`.

    `stored` is the output of `figures_lattice.py` of such a run. The period differs from that in the guide
    of Lattice Microbes, from which the constants are: see docs/validation/lattice-examples.md.
    """
    del scale
    if stored is None:
        outcome = minde(Settings(device=backend.name))
        times, bound = outcome.arrays["times"], outcome.arrays["bound"]
    else:
        with np.load(stored) as arrays:
            times, bound = arrays["times"], arrays["bound"]
    result, exact = swings_of_planes(times, bound), exact_swings()
    expected, error = pooled_period(exact)
    yield Row("T11", f"MinDE, period, s, {len(result.turns) - 1} half periods", result.period,
              expected, float(np.hypot(result.error, error)))  # fmt: skip
    share = float(np.mean([one.largest_share() for one in exact]))
    yield Row("T11", "MinDE, largest fraction of membrane MinD in one half", result.largest_share(),
              share, 0.02, 0.05)  # fmt: skip


TESTS: dict[str, Test] = {
    "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5, "T6": t6_t7, "T8": t8, "T9": t9,
    "T10": t10_t14, "T11": t11, "T12": t12, "T13": t13,
}  # fmt: skip


def run(given: Any) -> Outcome:
    """Run the tests: those named, else all that the scale allows."""
    scale = given.scale
    short = [t for t in TESTS if scale >= 1 or (t != "T11" and (t != "T8" or scale >= 0.1))]
    if unknown := sorted(set(given.cases) - set(TESTS)):
        raise SystemExit(f"{', '.join(unknown)}: tests are {', '.join(TESTS)}")
    backend = get_backend(choose_backend(given.device), BackendOptions(threads=given.threads))
    tests, rows = TESTS | {"T11": partial(t11, stored=given.minde)}, []
    for name in given.cases or short:
        began = time.perf_counter()
        for row in tests[name](backend, scale):
            numbers = (row.value, row.expected, row.error, row.bias, row.z)
            took = f"{time.perf_counter() - began:.1f}"
            rows.append([row.test, row.quantity, *(f"{x:.6g}" for x in numbers), took,
                         verdict(good=row.z <= Z_LIMIT)])  # fmt: skip
            say(*rows[-1])
    about = f"{backend.describe()}, scale {scale:g}."
    backend.close()
    return Outcome("Diffusion and reaction on lattices", about, HEADER, rows)
