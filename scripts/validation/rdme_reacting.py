"""Reactions on lattices compared with exact results: T3 to T8 and T12 of `validate_rdme.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rdme_laws import STEP, Boxes, Row, begin, engine_of, filled, lowered, model_of

import tauslab as ts
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.model.lattice.lattice import Lattice

SIXTH = 1 / 6
# Size, probability of a pair to react in a step, hops of A and B, and means of its time waited for.
PAIRS: tuple[tuple[int, float, tuple[float, float], float], ...] = (
    (8, 0.1, (SIXTH, SIXTH), 1.0),
    (8, 1.0, (SIXTH, SIXTH), 1.0),
    (16, 0.05, (SIXTH, SIXTH), 1.0),
    (16, 1.0, (SIXTH, SIXTH), 1.0),
    (16, 1.0, (SIXTH, 0.0), 1.0),
    (16, 0.05, (0.488, 0.488), 1.0),
    (16, 0.05, (0.4999, 0.4999), 1.0),
    (32, 0.01, (SIXTH, SIXTH), 0.1),
)
PAIR_EVENTS = 6000


def meeting_steps(size: int, hops: tuple[float, float], p: float) -> float:
    """Mean number of steps to react of one pair, time step included."""
    angles = 2 * np.pi * np.arange(size) / size
    phi = np.ones((size,) * 3)
    for hop in hops:
        one = 1 - 2 * hop * (1 - np.cos(angles))
        phi = phi * one[:, None, None] * one[None, :, None] * one
    return float(1 + (1 / (1 - phi.reshape(-1)[1:])).sum() + (1 / p - 1) * size**3)


def t3(backend: Backend, scale: float) -> Iterator[Row]:
    """Mean steps to react of a pair in a periodic box.

    As many pairs as half the sites, each of species of its own, share a box: two that meet in the
    same site in the same step, one of which must wait, are too few to show.
    """
    for size, p, hops, longest in PAIRS:
        if size == 32 and scale < 0.5:
            continue
        pairs = size**3 // 2
        model = model_of((size,) * 3, {})
        rate = 1e12 if p == 1 else -np.log1p(-p) / STEP
        for i in range(pairs):
            for side, hop in zip("AB", hops, strict=True):
                model.add_species(f"{side}{i}")
                model.add_diffusion(f"{side}{i}", hop * model.spacing**2 / STEP)
            model.add_reaction(f"A{i} + B{i} ->", rate=rate, volume="site")
        expected, means = meeting_steps(size, hops, p), min(longest, max(0.1, scale))
        wanted = PAIR_EVENTS * scale / (4 if size == 32 else 1)
        runs = max(1, round(wanted / (pairs * -np.expm1(-means))))
        at_risk, events = waited(LatticeEngine(backend, lowered(model), seed=1), pairs, runs,
                                 int(means * expected))  # fmt: skip
        # The decay is not quite exponential: pairs that start in one site may react at once.
        yield Row("T3", f"steps, L={size}, p={p:g}, q={hops[0]:.4g}/{hops[1]:.4g}",
                  at_risk / events, expected, expected / np.sqrt(events),
                  3 * expected / size**3)  # fmt: skip


def waited(engine: LatticeEngine, pairs: int, runs: int, steps: int) -> tuple[float, int]:
    """Steps that all pairs waited, and how many reacted, in some runs."""
    every = max(1, steps // 100)
    marks = list(range(every, steps + 1, every))
    shape, events, at_risk = engine.lattice.shape, 0, 0.0
    kinds = np.arange(1, 2 * pairs + 1)
    for seed in range(runs):
        places = np.random.default_rng(seed).integers(np.prod(shape), size=2 * pairs)
        begin(engine, filled(shape, places, kinds), seed)
        fired = engine.run_sampled(marks).fired.sum(axis=1)
        new = np.diff(np.concatenate([[0], fired]))
        at_risk += every * (new @ (np.arange(len(fired)) + 0.5) + (pairs - fired[-1]) * len(fired))
        events += int(fired[-1])
    return at_risk, max(1, events)


def t4(backend: Backend, scale: float) -> Iterator[Row]:
    """A + B <-> C: mean and variance of C as the time step goes to 0 (three steps)."""
    boxes = Boxes((4, 4, 4), (12, 12, 12)).scaled(scale)
    law = (50, 40, 27.7786, 6.2115)
    for slower in (1, 4, 16):
        rates = (20.0 / slower, 200.0 / slower)
        bias = (0.6 / slower, 0.3 / slower)  # both are slower by up to half of a0 tau of a site
        runs = bound(backend, boxes, law, rates, (500 * slower, 25 * slower, 20_000 * scale))
        for name, value, expected, error in runs:
            yield Row("T4", f"{name} of C, 50/40, a0 tau {0.06 / slower:.2g}", value, expected,
                      error, bias[name != "mean"])  # fmt: skip
    if scale >= 0.1:
        # 0.002 events in a site and step; what is off goes in 160 steps.
        large = Boxes((10, 10, 10), (6, 6, 6)).scaled(scale)
        rates = (1.78e-4 * 100, 0.351 * 100)  # the expected values know their ratio only
        law = (1000, 1000, 270.186, 155.272)
        for name, value, expected, error in bound(backend, large, law, rates,
                                                  (3000, 600, 5000 * scale)):  # fmt: skip
            yield Row("T4", f"{name} of C, 1000/1000", value, expected, error, 0.002 * expected)


def bound(
    backend: Backend, boxes: Boxes, law: tuple[int, int, float, float], rates: tuple[float, float],
    steps: tuple[int, int, float],
) -> list[tuple[str, float, float, float]]:  # fmt: skip
    """Mean and variance of C, their expected values and sampling errors; rates are of a box."""
    model = boxes.model(dict.fromkeys("ABC", 0.25))
    inside = float(np.prod(boxes.inner))
    model.add_reaction("A + B -> C", rate=rates[0] * inside, volume="site", site_types="part0")
    model.add_reaction("C -> A + B", rate=rates[1], site_types="part0")
    n_a, n_b, mean, variance = law
    engine = engine_of(backend, model, boxes.random_start((n_a, n_b), 1))
    first, every, wanted = steps
    engine.run_sampled([first])
    result = []
    for _ in range(max(2, round(wanted / boxes.number))):
        engine.run_sampled([every])
        result.append(boxes.counted(engine, 2))
    c = np.array(result)
    # Samples of a box know each other.
    errors = 1.6 * np.sqrt(variance / c.size), 1.6 * variance * np.sqrt(2 / c.size)
    return [("mean", c.mean(), mean, errors[0]), ("variance", c.var(), variance, errors[1])]


def t5(backend: Backend, scale: float) -> Iterator[Row]:
    """A <-> B is binomial, in total and for a site type; 0 -> X -> 0 is Poisson."""
    boxes = Boxes((6, 6, 8), (9, 9, 7)).scaled(scale)
    model = boxes.model({"A": 0.2, "B": 0.1, "X": 0.2}, parts=2)
    rate, sides, sites = 0.005 / STEP, ("part0", "part1"), float(np.prod(boxes.inner))
    model.add_reaction("A -> B", rate=rate, site_types=sides)
    model.add_reaction("B -> A", rate=3 * rate, site_types=sides)
    model.add_reaction("-> X", rate=rate * 200 / sites, volume="site", site_types=sides)
    model.add_reaction("X ->", rate=rate, site_types=sides)
    engine = engine_of(backend, model, boxes.random_start((400, 0, 0), 1))
    engine.run_sampled([2000])
    result: list[list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = [[], [], []]
    for _ in range(max(2, round(10_000 * scale / boxes.number))):
        engine.run_sampled([400])
        for kept, species, half in ((result[0], 1, 1), (result[1], 1, 2), (result[2], 2, 1)):
            kept.append(boxes.counted(engine, species, half))
    laws = (("B", 100.0, 75.0), ("B in left", 50.0, 43.75), ("X", 200.0, 200.0))
    for (name, mean, variance), kept in zip(laws, result, strict=True):
        values = np.array(kept)
        yield Row("T5", f"mean of {name}", values.mean(), mean,
                  1.2 * np.sqrt(variance / values.size))  # fmt: skip
        yield Row("T5", f"variance of {name}", values.var(), variance,
                  1.1 * variance * np.sqrt(2 / values.size))  # fmt: skip


def t6_t7(backend: Backend, scale: float) -> Iterator[Row]:
    """Pairs of one kind, by all engines, and two reactions of the same pair."""
    side = max(16, round(128 * scale ** (1 / 3)))
    for n in (2, 3, 8):
        model = model_of((side,) * 3, {"A": 0.0, "B": 0.0})
        model.add_reaction("2 A -> B", rate=0.02 / STEP, volume="site")
        start = np.zeros((side, side, side, 16), np.uint8)
        start[..., :n] = 1
        engine = engine_of(backend, model, start)
        engine.run_sampled([1])
        reacted = (engine.save().particles == 2).any(axis=-1).mean()
        p = -np.expm1(-0.02 * n * (n - 1) / 2)
        yield Row("T6", f"2 A, {n} in a site", reacted, p, np.sqrt(p * (1 - p) / side**3))
    runs = max(1000, round(1e5 * scale))
    method: Any
    device: Any = backend.name
    for method in ("ssa", "tau"):
        network = ts.Network("pairs")
        network.add_species("A", 8)
        network.add_species("B", 0)
        network.add_reaction("2 A -> B", rate=0.02)
        ended = ts.run(network, n=runs, times=[1.0], method=method, seed=6,
                       device=device)  # fmt: skip
        value = (ended.counts("B") > 0).mean()
        yield Row("T6", f"2 A, 8 of them, {method}", value, p, np.sqrt(p * (1 - p) / runs))
    model = model_of((side,) * 3, dict.fromkeys("ABCD", 0.1))
    model.add_reaction("A + B -> C", rate=0.25 / STEP, volume="site")
    model.add_reaction("A + B -> D", rate=0.75 / STEP, volume="site")
    for name in "AB":
        model.place(name, count=side**3)
    fired = engine_of(backend, model).run_sampled([200]).fired[0]
    total = fired.sum()
    yield Row("T7", "share of A+B->C", fired[0] / total, 0.25, np.sqrt(0.1875 / total))


def t8(backend: Backend, scale: float) -> Iterator[Row]:
    """A reaction with p = 2.7e-10 in a step fires at that rate over 1e12 trials."""
    p, side = 2.7e-10, 256 if scale >= 0.1 else 64
    model = model_of((side,) * 3, {"A": 0.0, "B": 0.0}, slots=8)
    model.add_reaction("A -> B", rate=-np.log1p(-p) / STEP)
    start = np.zeros((side, side, side, 8), np.uint8)
    start[..., 0] = 1
    engine = engine_of(backend, model, start)
    steps = max(1, round(1e12 * scale / side**3))
    apart = 2000
    for _ in range(steps // apart):
        engine.run_sampled([apart])
    engine.run_sampled([steps % apart or 1])
    trials = engine.step * side**3
    fired = float(engine.save().fired[0])
    yield Row("T8", f"reactions in {trials:.3g} trials of p = {p:g}", fired, p * trials,
              float(np.sqrt(p * trials)))  # fmt: skip


INNER = (8, 8, 8)
SECONDS = 0.005  # of a step of T12: so much is the probability of a hop, and of a pair to react


def one_box(positions: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Lattice:
    """A + B <-> C on 8^3 sites with walls around, particles ``[A or B, particle, z y x]``."""
    made = Lattice("box", shape=INNER, spacing=1.0, step=SECONDS, boundary="reflecting")
    made.add_species("A", "B", "C")
    made.add_diffusion("*", 1.0)
    made.add_reaction("A + B -> C", rate=1.0, volume="site")
    made.add_reaction("C -> A + B", rate=0.1)
    for name, placed in zip("AB", positions, strict=True):
        made.place(name, positions=placed)
    return made


def t12(backend: Backend, scale: float) -> Iterator[Row]:
    """Counts over time against `ssa` of the lattice as a network: its exact master equation."""
    boxes = Boxes(INNER, (7, 7, 7)).scaled(scale)
    places = np.random.default_rng(1).integers(512, size=120)
    where = np.stack(np.unravel_index(places, INNER), axis=1).reshape(2, 60, 3)
    runs, times = max(2, round(10_000 * scale / boxes.number)), [1, 2, 3, 4]
    n = runs * boxes.number
    device: Any = backend.name
    exact = ts.run(one_box(where).to_network(seed=1), n=n, times=times, seed=9, device=device)
    expected = np.asarray(sum(exact.counts(name) for name in exact.species if name[:2] == "C_"))
    model = boxes.model(dict.fromkeys("ABC", SECONDS))
    model.add_reaction("A + B -> C", rate=SECONDS / STEP, volume="site", site_types="part0")
    model.add_reaction("C -> A + B", rate=0.1 * SECONDS / STEP, site_types="part0")
    start = boxes.start([1] * 60 + [2] * 60, np.tile(places, (boxes.number, 1)))
    engine, result = engine_of(backend, model, start), np.zeros((n, 4))
    for seed in range(runs):
        begin(engine, start, seed)
        for column in range(4):
            engine.run_sampled([round(1 / SECONDS)])
            rows = slice(seed * boxes.number, (seed + 1) * boxes.number)
            result[rows, column] = boxes.counted(engine, 2)
    for t, one, other in zip(times, result.T, expected.T, strict=True):
        both = np.concatenate([one, other])
        yield Row("T12", f"mean of C at {t}, {n} runs of each", one.mean(), other.mean(),
                  float(np.sqrt(2 * both.var() / n)), 0.03)  # fmt: skip
        edges = np.unique(np.quantile(both, np.linspace(0, 1, 9)[1:-1]))
        table = np.stack([np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
                          for x in (one, other)])  # fmt: skip
        mean = table.sum(axis=0) / 2
        chi = ((table - mean) ** 2 / np.maximum(mean, 1)).sum()
        yield Row("T12", f"chi-square of C at {t}", chi, len(edges), np.sqrt(2 * len(edges)))
