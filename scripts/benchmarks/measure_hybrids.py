"""Hybrids of the size of a cell of JCVI-syn3A, with drawn numbers: seconds of a biological second.

Sizes are those of a published model: 5,490 species and 3,660 reactions on a lattice of 64 x 64 x
128 sites with 85,000 particles, 1,139 reactions of transcription and charging, 148 equations of 175
reactions, and 455 genes whose translation is billed, once a second. All constants, lengths and
compositions are drawn, of the orders of magnitude of a cell.
"""

from __future__ import annotations

import os
import runpy
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import ROOT, Answer, Machine, seconds_of

import tauslab as ts
from tauslab.analysis.hybrids.parts import Part
from tauslab.analysis.hybrids.result import HybridResult
from tauslab.analysis.particles.store import StateCheckpoint

GENES, UNITS, FORMS = 455, 506, 8  # genes of proteins, units that are transcribed, other forms
OTHERS, PARTICLES = 28, 85_000
RIBOSOMES, DEGRADOSOMES, POLYMERASES, COPIES = 500, 120, 187, 200
TRNAS = [2 if i < 9 else 1 for i in range(20)]  # kinds for each amino acid
METABOLITES, STEPS, DRIVEN = 148, 175, 160
VOLUME = 3.35e-17  # litres
PER_MM = 6.022e20 * VOLUME  # molecules for 1 mM
SHAPE, SPACING, STEP, DIFFUSION = (128, 64, 64), 10e-9, 50e-6, 3e-13
NUCLEOTIDES = ("ATP", "GTP", "UTP", "CTP")
BIND_RIBOSOME, BIND_DEGRADOSOME = 5.9e4, 1.4e4  # per molar and second
RNG_SEED = 1
TIMED = 5  # biological seconds

Rows = list[tuple[str, str, float, bool]]  # name, equation, constant, whether per molar


class Drawn:
    """Numbers of the model, the same in every run."""

    def __init__(self) -> None:
        rng = np.random.default_rng(RNG_SEED)
        self.length = np.maximum(60, rng.lognormal(np.log(300), 0.5, GENES)).astype(int)
        self.residues = np.array([rng.multinomial(n, np.full(20, 0.05)) for n in self.length])
        self.bases = rng.multinomial(1050, np.full(4, 0.25), UNITS)
        numbers = rng.lognormal(0, 1.2, GENES)
        few = RIBOSOMES + DEGRADOSOMES + OTHERS * COPIES + 2 * GENES
        self.proteins = np.maximum(1, (PARTICLES - few) * numbers / numbers.sum()).astype(int)
        self.promoters = rng.uniform(0.5, 2.0, UNITS) * 1e-4
        self.turns = rng.uniform(0.01, 0.1, (GENES, FORMS))
        self.rng = rng


def of_space(drawn: Drawn) -> Rows:
    """Reactions of what is on the lattice: 8 for each gene, and 20."""
    rows: Rows = []
    for i in range(GENES):
        bind = f"M{i} + ribosome -> T{i}", f"M{i} + degradosome -> D{i}"
        rows += [
            (f"start_{i}", bind[0], BIND_RIBOSOME, True),
            (f"translate_{i}", f"T{i} -> M{i} + ribosome + P{i}", 12.0 / drawn.length[i], False),
            (f"catch_{i}", bind[1], BIND_DEGRADOSOME, True),
            (f"degrade_{i}", f"D{i} -> degradosome", 88.0 / (3 * drawn.length[i]), False),
        ]  # fmt: skip
        forms = [f"P{i}", *(f"X{i}_{k}" for k in range(FORMS))]
        ends = (0, 1, 0.01), (1, 2, 1.0), (2, 3, 1.0), (3, 0, 1.0)
        rows += [(f"turn_{i}_{a}", f"{forms[a]} -> {forms[b]}", drawn.turns[i, a] * slow, False)
                 for a, b, slow in ends]  # fmt: skip
    return rows + [(f"other_{i}", f"O{i} -> O{i + 1}", 0.1, False) for i in range(20)]


def start_of_space(drawn: Drawn) -> dict[str, int]:
    """Particles at the start by species, in the order of the species."""
    start = {"ribosome": RIBOSOMES, "degradosome": DEGRADOSOMES}
    start |= {f"O{i}": COPIES for i in range(OTHERS)}
    for i in range(GENES):
        start |= {f"P{i}": int(drawn.proteins[i]), f"M{i}": 2, f"T{i}": 0, f"D{i}": 0}
        start |= {f"X{i}_{k}": 0 for k in range(FORMS)}
    return start


def lattice(drawn: Drawn, part: float) -> ts.Lattice:
    """A ball of cytoplasm, a shell and a membrane, whose time runs slower: `part` of the steps."""
    made = ts.Lattice("space", shape=SHAPE, spacing=SPACING, step=STEP / part)
    z, y, x = np.indices(SHAPE)
    distance = (x - 32) ** 2 + (y - 32) ** 2 + (z - 64) ** 2
    made.add_site_type("outside")
    made.add_site_type("cytoplasm", distance <= 400)
    made.add_site_type("shell", (distance > 400) & (distance <= 441))
    made.add_site_type("membrane", (distance > 441) & (distance <= 484))
    start = start_of_space(drawn)
    made.add_species(*start)
    inside = ("cytoplasm", "shell")
    for where in ({"within": "cytoplasm"}, {"within": "shell"}, {"between": inside}):
        made.add_diffusion("*", DIFFUSION * part, **where)
    for name, equation, rate, molar in of_space(drawn):
        made.add_reaction(
            equation, rate=rate * part, site_types=list(inside), name=name,
            unit="M^-1 s^-1" if molar else None,
        )  # fmt: skip
    for name, count in start.items():
        if count:
            made.place(name, count=count, site_type="cytoplasm")
    return made


def well_mixed(drawn: Drawn) -> ts.Network:
    """The same species and reactions without a place."""
    net = ts.Network("space")
    for name, count in start_of_space(drawn).items():
        net.add_species(name, count)
    for name, equation, rate, molar in of_space(drawn):
        per = 6.022e23 * VOLUME if molar else 1.0
        net.add_reaction(equation, rate=rate / per, name=name)
    return net


def expression(drawn: Drawn) -> ts.Network:
    """Transcription, 1,012 reactions, and charging of tRNA, 127."""
    net = ts.Network("expression")
    net.add_parameter("elongation", 0.05)
    net.add_species("RNAP", POLYMERASES)
    for name in NUCLEOTIDES:
        net.add_species(name, round(2 * PER_MM))
    for name in ("AMP", "PPi"):
        net.add_species(name, 1000)
    for i in range(UNITS):
        net.add_species(f"G{i}", 1)
        net.add_species(f"B{i}", 0)
        net.add_reaction(f"G{i} + RNAP -> B{i}", rate=float(drawn.promoters[i]), name=f"load_{i}")
        net.add_reaction(f"B{i} -> G{i} + RNAP", rate="elongation", name=f"transcribe_{i}")
    for i, kinds in enumerate(TRNAS):
        for name, count in ((f"aa{i}", 20_000), (f"S{i}", 100), (f"Sa{i}", 0), (f"Sx{i}", 0),
                            (f"cost{i}", 0), (f"paid{i}", 0)):  # fmt: skip
            net.add_species(name, count)
        net.add_reaction(f"S{i} + ATP -> Sa{i}", rate=0.01, name=f"activate_{i}")
        net.add_reaction(f"Sa{i} + aa{i} -> Sx{i}", rate=0.01, name=f"join_{i}")
        for kind in range(kinds):
            end = f"{i}_{kind}"
            for name, count in ((f"tRNA{end}", COPIES), (f"St{end}", 0), (f"C{end}", 0)):
                net.add_species(name, count)
            net.add_reaction(f"Sx{i} + tRNA{end} -> St{end}", rate=0.1, name=f"hold_{end}")
            given = f"AMP + PPi + S{i} + C{end}"
            net.add_reaction(f"St{end} -> {given}", rate=30.0, name=f"charge_{end}")
            spent = f"cost{i} + C{end} -> tRNA{end} + paid{i}"
            net.add_reaction(spent, rate=1e3, name=f"spend_{end}")
    return net


def metabolism(drawn: Drawn) -> ts.Network:
    """Convenience kinetics of two metabolites to two, with enzymes that follow the proteins; mM."""
    net, rng = ts.Network("metabolism"), drawn.rng
    names = [*NUCLEOTIDES, *(f"aa{i}" for i in range(20))]
    names += [f"m{i}" for i in range(METABOLITES - len(names))]
    for name in names:
        net.add_species(name, 2.0 if name in NUCLEOTIDES else 1.0)
    for j in range(STEPS):
        net.add_parameter(f"enzyme_{j}", 0.005)
        # Each metabolite once at least, so that none stands alone.
        a, b, c, d = [j % METABOLITES, *rng.choice(METABOLITES, 3)]
        km = rng.lognormal(np.log(0.5), 0.5, 4)
        forth, back = rng.lognormal(np.log(20), 1.0, 2)
        s, t, p, q = (f"({names[k]} / {m:.6g})" for k, m in zip((a, b, c, d), km, strict=True))
        law = (f"enzyme_{j} * ({forth:.6g} * {s} * {t} - {back:.6g} * {p} * {q}) "
               f"/ ((1 + {s}) * (1 + {t}) + (1 + {p}) * (1 + {q}) - 1)")  # fmt: skip
        left, right = f"{names[a]} + {names[b]}", f"{names[c]} + {names[d]}"
        net.add_reaction(f"{left} -> {right}", law=law, name=f"step_{j}")
    return net


def cell(space: ts.Lattice | ts.Network, drawn: Drawn, networks: Any = None) -> ts.Hybrid:
    """Three parts, of which two are on the device `networks`, and their links."""
    made = ts.Hybrid("cell")
    made.add_part("space", space, every=1.0)
    made.add_part("expression", expression(drawn), every=1.0, device=networks)
    by_matrix = ts.ODE(solver="rosenbrock")
    made.add_part("metabolism", metabolism(drawn), method=by_matrix, every=1.0, device=networks)
    pools = [*NUCLEOTIDES, *(f"aa{i}" for i in range(20))]
    made.share("expression.{x}", "metabolism.{x}", volume=PER_MM, for_each={"x": pools})
    enzymes = {"j": list(range(DRIVEN))}
    made.drive("metabolism.enzyme_{j}", f"space.P{{j}} / {PER_MM:.9g}", for_each=enzymes)
    made.drive("expression.elongation", "0.05 * metabolism.ATP / (1 + metabolism.ATP)")
    for i in range(GENES):
        spent = {f"expression.cost{k}": int(n) for k, n in enumerate(drawn.residues[i])}
        made.bill(f"space.fired(translate_{i})", {"expression.GTP": int(2 * drawn.length[i])})
        made.credit(f"space.fired(translate_{i})", spent)
    genes = {"i": list(range(GENES))}
    made.credit("expression.fired(transcribe_{i})", {"space.M{i}": 1}, for_each=genes)
    bases = dict(zip((f"expression.{x}" for x in NUCLEOTIDES), drawn.bases.T, strict=True))
    # Units are counted in the order of the network.
    made.bill("expression.fired(transcribe_*)", {k: v.tolist() for k, v in bases.items()})
    return made


class Clock:
    """Seconds of a run: of parts while they advance, of rounds, and of writing the result."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.rounds: list[tuple[float, dict[str, float]]] = []  # when one was over, and the parts
        self.written = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Note what takes how long while hybrids run."""
    clock = Clock()
    keeping, saving = StateCheckpoint.save, HybridResult.save
    usual: list[tuple[Any, str, Any]] = [(StateCheckpoint, "save", keeping)]
    usual += [(HybridResult, "save", saving)]
    usual += [(kind, "advance", kind.advance) for kind in Part.__subclasses__()]

    def advancing(plain: Any) -> Any:
        def advance(self: Any, t: float) -> None:
            began = time.perf_counter()
            plain(self, t)
            self.alive.all()  # so that a device is done
            name = self.made.name
            clock.parts[name] = clock.parts.get(name, 0.0) + time.perf_counter() - began

        return advance

    def keep(self: Any, kept: Any, *, last: bool = False) -> None:
        keeping(self, kept, last=last)
        clock.rounds.append((time.perf_counter(), dict(clock.parts)))

    def save(self: Any, *given: Any, **options: Any) -> None:
        began = time.perf_counter()
        saving(self, *given, **options)
        clock.written += time.perf_counter() - began

    made = [keep, save, *(advancing(plain) for _, _, plain in usual[2:])]
    for (kind, name, _), own in zip(usual, made, strict=True):
        setattr(kind, name, own)
    try:
        yield clock
    finally:
        for kind, name, plain in usual:
            setattr(kind, name, plain)


def of_cells(machine: Machine, *, n: int, on_lattice: bool) -> Answer:
    """Seconds of a biological second of n cells with their output, of parts, glue and output.

    Rounds after the first are timed, and writing the result. At a scale below 1 the time of the
    lattice runs as much slower, so it takes fewer steps.
    """
    began = time.perf_counter()
    drawn = Drawn()
    space = lattice(drawn, machine.scale) if on_lattice else well_mixed(drawn)
    made = cell(space, drawn, ts.CPU(threads=1) if n == 1 else None)
    with tempfile.TemporaryDirectory() as folder, timed() as clock:
        ts.run(
            made, t_end=1.0 + TIMED, n=n, seed=1, device=machine.place(), pilot=0,
            output=Path(folder) / "cell.h5",
        )  # fmt: skip
    (first, few), (last, many) = clock.rounds[0], clock.rounds[-1]
    parts = {name: (many[name] - few[name]) / TIMED for name in many}
    rounds, output = (last - first) / TIMED, clock.written / (1 + TIMED)
    result = {"": rounds + output, **parts, "glue": rounds - sum(parts.values()), "output": output}
    if n > 1:
        result["of one cell"] = result[""] / n
    return {**result, "until the first second is over": first - began}


def galactose(machine: Machine, *, outside: float, parts: int) -> Answer:
    """Seconds of cells of the galactose switch to 60 minutes; once compiled.

    Of two parts with an exchange a second, or as one network. 2,000 cells on a GPU; for each thread
    of a CPU 128, or 8 as one network. At a scale below 1 they go less far.
    """
    example = runpy.run_path(str(ROOT / "examples" / "galactose_switch.py"))
    given: dict[str, Any] = {"pilot": 0}
    if parts == 1:
        given = {"method": ts.Partitioned(ode="transport_*", jump="*", pilot=0)}
    made = example["one_network" if parts == 1 else "switch"]
    each = (8 if parts == 1 else 128) * (machine.threads or os.cpu_count() or 1)
    given |= {"n": 2000 if machine.device == "cuda" else each, "device": machine.place()}
    took = 0.0
    for minutes in (1, machine.many(60)):
        given["t_end"] = 60.0 * minutes
        took = seconds_of(partial(ts.run, made(outside), seed=1, quiet=True, **given))
    return {"": took, "of one cell": took / given["n"]}
