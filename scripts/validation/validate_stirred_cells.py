"""Cells of examples/minimal_cell.py without space: doubling times, and translations per mRNA compared with theory.

One well-stirred volume, which grows with the surface area, replaces the lattice; a gene counts twice once
the replication fork has passed it. An mRNA is translated on average `bind R / (catch D)` times before a
degradosome (D of them) catches it, with R free ribosomes; integrals of both rates, after the first
60 exchanges, give the theoretical number. It must agree within five standard errors of Poisson counts plus
2 %. tRNA must be conserved exactly, and pools may owe at most 1 % of their bills.
"""

from __future__ import annotations

import sys
import time
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
from outcome import FAIL, Outcome, cells

import tauslab as ts

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from minimal_cell import (  # type: ignore[import-not-found]
    BASES,
    LIPIDS,
    OUTER,
    PER_PROTEIN,
    SMALL,
    Cell,
    Size,
)

_COUNTED = {"transcripts": "transcribe_*", "translations": "start_*", "decays": "catch_*"}
_SAMPLES = 60  # exchanges between two samples
_OWED = 0.01  # of bills: pools pay what cells take
_COLUMNS = {
    "quantity": "measured in each cell",
    "median": "over cells",
    "quartile_1": "lower quartile",
    "quartile_3": "upper quartile",
    "theory": "expected value, if the quantity is a criterion",
    "verdict": "empty, or FAIL",
}


def stirred(cell: Cell) -> ts.Hybrid:
    """Parts and links without a lattice, in nm."""
    size, genes, area = cell.size, cell.genes, 4 * pi * cell.size.radius**2
    space, expression = cell.space(), cell.expression()
    net = space.well_stirred(cell.volume * 1e-27)
    for name in _COUNTED:
        expression.add_species(name, 0)
    for gene in genes:  # which the chromosome puts on the lattice
        net.species[f"G{gene}"] = 1
    made = ts.Hybrid("stirred cell", tick=size.every)
    sample = _SAMPLES * size.every
    made.add_part("space", net, record=["ribosome", "degradosome"])
    made.add_part("expression", expression, sample=sample)
    made.add_part("metabolism", cell.metabolism(), method=ts.ODE(solver="rosenbrock"), sample=sample,
                  record=[*BASES])  # fmt: skip
    made.add_part("size", lambda *_: {}, values={
        "area": area, "volume": cell.volume, "mRNA": size.genes, "ribosomes": size.ribosomes,
        "proteins": cell.proteins.sum()})  # fmt: skip
    for name, formula in (("mRNA", "space.sum(M*)"), ("ribosomes", "space.sum(ribosome, T*)"),
                          ("proteins", "space.sum(P*, B*)")):  # fmt: skip
        made.drive(f"size.{name}", formula, over="end")
    lipids = " + ".join(f"{each} * metabolism.{name}" for name, each in LIPIDS.items())
    formula = f"({OUTER} * ({lipids}) + {PER_PROTEIN} * space.sum(B*))"
    made.drive("size.area", formula, over="end")
    ball = f"{4 / 3 * pi} * ({formula} / {4 * pi}) ^ 1.5"
    made.drive("size.volume", f"min({ball}, {2 * cell.volume})", over="end")
    thinner = f"k * {cell.volume} / size.volume"
    sites = np.bincount(space.sites.planes(0, space.shape[0]).reshape(-1))
    kinds = dict(zip(space.type_names, sites.tolist(), strict=False))
    inside = kinds["membrane"] / (kinds["membrane"] + kinds["cytoplasm"])
    made.set_rate("space.start_*,catch_*", thinner)
    made.set_rate("space.insert_*", f"k * {inside}")
    kilobases = [at * size.genome / size.beads for at in cell.place]
    made.set_rate("space.load_{gene}", thinner + " * (1 + (expression.done > {at}))",
                  for_each={"gene": genes, "at": kilobases})  # fmt: skip
    made.share("expression.{x}", "metabolism.{x}", volume="1e-24 * size.volume", unit="mM",
               for_each={"x": cell.pools})  # fmt: skip
    steps = [f"{x}{end}" for x in cell.products for end in ("_1", "_2", "_3", "")]
    who = cell.rng.integers(size.in_membrane, size.genes, len(steps))
    made.drive("metabolism.enzyme_{step}", "space.P{gene} / {usual}", for_each={
        "step": steps, "gene": [genes[i] for i in who], "usual": cell.proteins[who].tolist()})  # fmt: skip
    for name, events in _COUNTED.items():
        made.credit(f"space.fired({events})", {f"expression.{name}": 1})
    for gene, n, bases, residues in zip(genes, cell.length.tolist(), cell.bases.tolist(),
                                        cell.residues.tolist(), strict=True):  # fmt: skip
        ntps = {f"expression.{x}": k for x, k in zip(BASES, bases, strict=True)}
        made.bill(f"space.fired(transcribe_{gene})", ntps)
        charged, free = ({f"expression.{x}{a}": k for a, k in enumerate(residues)}
                         for x in ("charged", "tRNA"))  # fmt: skip
        made.bill(f"space.fired(translate_{gene})", {"expression.GTP": 2 * n, **charged})
        made.credit(f"space.fired(translate_{gene})", free)
    return made


def _reached(times: Any, values: Any, goal: float) -> Any:
    """When each cell ``[cell, time]`` first has so much; NaN: never."""
    there = values >= goal
    return np.where(there.any(axis=1), times[there.argmax(axis=1)], np.nan)


def _integral(values: Any) -> float:
    """Of all cells ``[cell, time]``, in exchanges, by trapezoids."""
    return float((values[:, 1:] + values[:, :-1]).sum() / 2)


def run(given: Any) -> Outcome:
    """Run cells, and compare."""
    cell = Cell(SMALL if given.cases == ["small"] else Size())
    size, t_end = cell.size, given.t_end or 1.25 * cell.size.cycle
    rounds = max(2, round(t_end / (_SAMPLES * size.every)))
    device: ts.CPU | ts.GPU = ts.CPU(threads=given.threads or 1)
    if given.device == "cuda":
        device = ts.GPU()
    made = stirred(cell)
    began, before = time.perf_counter(), time.process_time()
    result = ts.run(made, t_end=rounds * _SAMPLES * size.every, n=given.n, seed=given.seed,
                    pilot=0, device=device, quiet=True)  # fmt: skip
    took, busy = time.perf_counter() - began, time.process_time() - before
    rows = []

    def row(name: str, values: Any, theory: float | None = None, *, wrong: bool = False) -> None:
        some = np.isfinite(values).any()
        quartiles = np.nanpercentile(values, [50, 25, 75]).tolist() if some else [np.nan] * 3
        rows.append([name, *cells(quartiles, 5), "" if theory is None else f"{theory:.5g}",
                     FAIL if wrong else ""])  # fmt: skip

    at, of = result.time("size"), result.values
    doubled = _reached(at, of("size.area"), 2 * cell.area)
    row("area doubled (s)", doubled)
    row("volume doubled (s)", _reached(at, of("size.volume"), 1.999 * cell.volume))
    copied = _reached(result.time("expression"), of("expression.done"), size.genome)
    row("chromosome copied (s)", copied)
    then = np.arange(given.n), np.searchsorted(at, np.where(np.isfinite(doubled), doubled, at[-1]))
    for name in ("ribosomes", "proteins"):
        numbers = of(f"size.{name}")
        row(f"{name}, then, divided by the number at birth", numbers[then] / numbers[:, 0])
    free = of("space.ribosome")[then]
    row("fraction of ribosomes that translate, then", 1 - free / of("size.ribosomes")[then])
    begun, caught = (
        _integral((of("size.mRNA") * of(f"space.{who}"))[:, _SAMPLES:]) * rate
        for who, rate in (("ribosome", size.bind), ("degradosome", size.catch))
    )
    translations, decays = (
        of(f"expression.{name}")[:, -1] - of(f"expression.{name}")[:, 1]
        for name in ("translations", "decays")
    )
    ratio, theory = translations.sum() / decays.sum(), begun / caught
    error = theory * (5 * np.sqrt(1 / translations.sum() + 1 / decays.sum()) + 0.02)
    row("translations per mRNA", translations / decays, theory, wrong=abs(ratio - theory) > error)
    row("transcripts", of("expression.transcripts")[:, -1])
    billed = [f"expression.{x}" for x in (*BASES, *(f"charged{i}" for i in range(20)))]
    owed = [
        result.debt(one)[:, -1] / (result.paid(one) + result.debt(one))[:, -1] for one in billed
    ]
    row("fraction of bills unpaid at the end", np.max(owed, axis=0), 0.0,
        wrong=bool(np.median(np.max(owed, axis=0)) > _OWED))  # fmt: skip
    for number in range(20):
        names = f"expression.charged{number}", f"expression.tRNA{number}"
        charged, free = (of(name) for name in names)
        lost = charged + free - result.debt(names[0]) - charged[:, :1]
        if lost.any():
            row(f"tRNA {number} lost", lost[:, -1], 0.0, wrong=True)
    ran = rounds * _SAMPLES * size.every
    cycles = 3600 * given.n * ran / size.cycle
    about = (
        f"{given.n} cells for {ran:g} s, {given.device}, seed {given.seed}: {took:.1f} s with compilation, or "
        f"{cycles / took:.0f} cell cycles of {size.cycle:g} s per hour; {busy:.1f} s of CPU time without compilation. "
        "`then`: when the surface area has doubled."
    )
    return Outcome("Minimal cells without space", about, _COLUMNS, rows)
