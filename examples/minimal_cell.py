"""A minimal cell of the size of JCVI-syn3A, which grows, replicates its chromosome and divides.

    python examples/minimal_cell.py --small  # or --t-end 60, of 6,300 s, on a GPU

Numbers of [1] Thornburg et al., Cell 185, 345 (2022), and [2] Cell (2026); others are drawn.
"""
# fmt: off

import argparse
from dataclasses import dataclass
from math import log, pi

import numpy as np

import tauslab as ts

TRNAS = [2] * 9 + [1] * 11  # kinds for each amino acid: 29 [2]
BASES = ("ATP", "GTP", "UTP", "CTP")
LIPIDS = {"cholesterol": 0.35, "cardiolipin": 0.4, "SM": 0.45, "DAG": 0.5, "PA": 0.5,
          "CDPDAG": 0.5, "PC": 0.55, "PG": 0.6, "GalfDAG": 0.6}  # nm^2 [2]
OUTER, PER_PROTEIN = 0.513, 28.0  # part of lipids outside; nm^2 of a protein in the membrane [2]


@dataclass(frozen=True)
class Size:
    """Sizes of a cell."""

    genes: int = 455  # of proteins [1]
    in_membrane: int = 93  # of them [2]
    proteins: int = 78_000  # [2]
    ribosomes: int = 500  # [1]
    degradosomes: int = 120  # [1]
    polymerases: int = 187  # [2]
    trnas: int = 200  # of each kind [2]
    radius: float = 200.0  # nm, at birth [1]
    cycle: float = 6300.0  # s in which the area doubles [1]
    genome: int = 543  # kb [1]
    beads: int = 54_300  # of the chromosome, of 10 base pairs [2]
    bead: float = 6.6e-17  # m^2/s: steps of 0.4 ms, 10,000 between shapes [2]
    fork: float = 0.19  # kb/s of both forks: 46 min in all [1]
    shape: tuple[int, int, int] = (128, 64, 64)  # sites of 10 nm [2]
    step: float = 50e-6  # s [2]
    every: float = 1.0  # s between exchanges, and 4 s between shapes [2]
    diffusion: tuple[float, float] = (3e-13, 1e-15)  # m^2/s, of ribosomes [2]
    bind: float = 5.9e4  # /M/s, mRNA to a ribosome [2]
    catch: float = 1.4e4  # /M/s, mRNA to a degradosome [2]
    insert: float = 50.0  # residues/s, into the membrane [2]


SMALL = Size(genes=12, in_membrane=3, proteins=900, ribosomes=9, degradosomes=4, polymerases=450,
             trnas=30, radius=55.0, cycle=24.0, genome=30, beads=600, bead=6.6e-18, fork=2.0,
             shape=(30, 20, 20), step=5e-3, every=0.05, diffusion=(2e-15, 2e-15 / 30), bind=3e4,
             catch=1e3, insert=200.0)


class Cell:
    """The model; what is drawn is the same in every run."""

    def __init__(self, size: Size) -> None:
        self.size, self.rng = size, np.random.default_rng(1)
        n, membrane, rng = size.genes, size.in_membrane, self.rng
        self.fast = 6300.0 / size.cycle  # a small cell does all as much faster
        self.genes = [f"{i:03d}" for i in range(n)]
        self.length = np.maximum(60, rng.lognormal(log(310), 0.5, n)).astype(int)  # mean 350 [2]
        self.residues = np.array([rng.multinomial(k, np.full(20, 0.05)) for k in self.length])
        self.bases = np.array([rng.multinomial(3 * k, np.full(4, 0.25)) for k in self.length])
        self.place = rng.integers(0, size.beads, n).tolist()  # beads from the origin
        share = rng.lognormal(0.0, 1.0, n)
        share[:membrane] *= 0.054 / share[:membrane].sum()  # 4,183 [2]
        share[membrane:] *= 0.946 / share[membrane:].sum()
        self.proteins = np.maximum(1, size.proteins * share).astype(int)
        self.area, self.volume = 4 * pi * size.radius**2, 4 / 3 * pi * size.radius**3  # in nm
        self.pools = [*BASES, *(f"aa{i}" for i in range(20))]
        self.products = [*self.pools, *(f"d{x}" for x in BASES), *(f"for_{x}" for x in LIPIDS)]

    def space(self) -> ts.Lattice:
        """Genes G, loaded L; mRNAs M, in translation T, degraded D; proteins P, in membranes B."""
        size, genes = self.size, self.genes
        made = ts.Lattice("space", shape=size.shape, spacing=10e-9, step=size.step)
        ball = ts.shapes.dividing_sphere(shells={"membrane": 1})
        masks = ball(made, area=1e-18 * self.area, volume=2e-27 * self.volume)
        for name, mask in {"outside": None, **masks}.items():
            made.add_site_type(name, mask)
        g, l_, m, t, d, p, b = ([f"{kind}{gene}" for gene in genes] for kind in "GLMTDPB")
        inserts, b = p[: size.in_membrane], b[: size.in_membrane]
        made.add_species("ribosome", "degradosome", "RNAP", *g, *l_, *m, *t, *d, *p, *b)
        made.pin([*g, *l_])
        fast, slow = size.diffusion
        made.add_diffusion([*m, *p, "RNAP"], fast, within="cytoplasm")
        made.add_diffusion([*m, *inserts], fast, between=("cytoplasm", "membrane"))
        made.add_diffusion(["degradosome", *d, *b], slow, surface="membrane")
        made.add_diffusion(["ribosome", *t], slow, within="cytoplasm")
        made.add_object("complex", sites=1, follows=["ribosome", *t], within="cytoplasm")
        made.add_diffusion(m, fast, between=("cytoplasm", "complex"))
        made.add_diffusion(m, fast, within="complex")

        def add(name: str, equation: str, rate: float, where: str, unit: str | None = None) -> None:
            made.add_reaction(equation, rate=rate, name=name, site_types=where, unit=unit)
        for gene, n, proteins in zip(genes, self.length.tolist(), self.proteins, strict=True):
            m_, t_, d_, unit, per = f"M{gene}", f"T{gene}", f"D{gene}", "M^-1 s^-1", self.fast / n
            load = 0.6022 * self.volume * proteins / (8 * size.cycle * size.polymerases)  # [1]
            add(f"load_{gene}", f"G{gene} + RNAP -> L{gene}", load, "cytoplasm", unit)
            add(f"transcribe_{gene}", f"L{gene} -> G{gene} + RNAP + {m_}", 50 / 3 * per, "cytoplasm")
            add(f"start_{gene}", f"{m_} + ribosome -> {t_}", size.bind, "complex", unit)
            add(f"translate_{gene}", f"{t_} -> {m_} + ribosome + P{gene}", 12 * per, "complex")  # [1]
            add(f"catch_{gene}", f"{m_} + degradosome -> {d_}", size.catch, "membrane", unit)
            add(f"degrade_{gene}", f"{d_} -> degradosome", 88 / 3 * per, "membrane")  # 88 nt/s [2]
            if gene in genes[: size.in_membrane]:
                add(f"insert_{gene}", f"P{gene} -> B{gene}", size.insert / n, "membrane")
        start = dict(zip([*b, *p[len(b):]], self.proteins.tolist(), strict=True))
        start |= {"ribosome": size.ribosomes, "RNAP": size.polymerases, "degradosome": size.degradosomes}
        where = {name: "membrane" if name in {*b, "degradosome"} else "cytoplasm" for name in start}
        for name, by in (("ribosome", p[-1]), ("RNAP", p[-1]), ("degradosome", b[0])):  # double in a cycle
            add(f"assemble_{name}", f"{by} -> {by} + {name}", start[name] / (size.cycle * start[by]), where[name])
        for name, count in {**start, **dict.fromkeys(m, 1)}.items():
            made.place(name, count=count, site_type=where.get(name, "cytoplasm"))
        return made

    def expression(self) -> ts.Network:
        """Charging of tRNA, replication."""
        net, size = ts.Network("expression"), self.size
        pools = {x: round((1 + (x in BASES)) * 6.022e-4 * self.volume) for x in self.pools}  # 2, 1 mM
        for name, count in {"to_do": size.genome, "done": 0, **pools}.items():
            net.add_species(name, count)
        net.add_reaction("to_do -> done", law=f"{size.fork} * min(to_do, 1)", name="replicate")
        for i, kinds in enumerate(TRNAS):
            net.add_species(f"tRNA{i}", 0)
            net.add_species(f"charged{i}", kinds * size.trnas)
            law = f"{5 * self.fast:.6g} * tRNA{i} * min(aa{i}, 1) * min(ATP, 1)"
            net.add_reaction(f"tRNA{i} + aa{i} + ATP -> charged{i}", law=law, name=f"charge_{i}")
        return net

    def metabolism(self) -> ts.Network:
        """37 pathways of 4 steps from the medium, by convenience kinetics in mM; and lipids."""
        net, rng = ts.Network("metabolism"), self.rng
        for product in self.products:
            before = "5.0"  # mM in the medium
            for name in (*(f"{product}_{k}" for k in range(1, 4)), product):
                net.add_species(name, 0.0 if name in self.pools else 1.0)  # mM
                net.add_parameter(f"enzyme_{name}", 1.0)
                usual = 2.0 if product in BASES[:2] else 0.3  # ATP, GTP: what translation takes
                fast, ks, kp = rng.lognormal(np.log([usual, 0.5, 0.5]), 0.4)  # mM/s, mM, mM
                s, p = f"{before} / {ks:.4g}", f"{name} / {kp:.4g}"
                law = f"enzyme_{name} * {fast * self.fast:.4g} * ({s} - {p}) / (1 + {s} + {p})"
                net.add_reaction(f"{before if before != '5.0' else ''} -> {name}", law=law)
                before = name
        free = self.area - PER_PROTEIN * self.proteins[: self.size.in_membrane].sum()
        parts, rate = rng.dirichlet(np.full(len(LIPIDS), 8.0)), 1.1 * log(2) / self.size.cycle
        for (name, each), part in zip(LIPIDS.items(), parts, strict=True):
            net.add_species(name, part * free / (OUTER * each))  # molecules
            net.add_rate(name, f"{rate:.6g} * {name} * for_{name} / (0.1 + for_{name})")
        return net

    def hybrid(self) -> ts.Hybrid:
        """Parts, links and division."""
        size, genes = self.size, self.genes
        made = ts.Hybrid("cell", tick=size.every)
        made.add_part("space", self.space())
        made.add_part("expression", self.expression())
        made.add_part("metabolism", self.metabolism(), method=ts.ODE(solver="rosenbrock"))
        dna = ts.Polymer("dna", beads=size.beads, bond=3.4e-9, diffusion=size.bead, ring=True,
                         repulsion=2.0, seed=1)
        made.add_part("dna", dna, every=4 * size.every)
        made.confine("dna", "space.cytoplasm", genes={
            (f"G{gene}", f"L{gene}"): at for gene, at in zip(genes, self.place, strict=True)})
        made.drive("dna.copied", f"expression.done * {size.beads / size.genome}")
        made.add_part("size", lambda *_: {}, values={"area": 0.0, "volume": 0.0})
        volume = "(space.volume(cytoplasm) + space.volume(complex))"  # litres
        lipids = " + ".join(f"{each} * metabolism.{name}" for name, each in LIPIDS.items())
        area = f"({OUTER} * ({lipids}) + {PER_PROTEIN} * space.sum(B*_in_membrane))"  # nm^2
        made.drive("size.{x}", "{formula}", over="end", for_each={"x": ["area", "volume"], "formula": [area, volume]})
        made.share("expression.{x}", "metabolism.{x}", volume=volume, unit="mM", for_each={"x": self.pools})
        steps = [f"{x}{end}" for x in self.products for end in ("_1", "_2", "_3", "")]
        who = self.rng.integers(size.in_membrane, size.genes, len(steps))
        made.drive("metabolism.enzyme_{step}", "space.P{gene} / {usual}", for_each={
            "step": steps, "gene": [genes[i] for i in who], "usual": self.proteins[who].tolist()})
        for gene, n, bases, residues in zip(genes, self.length.tolist(), self.bases.tolist(),
                                            self.residues.tolist(), strict=True):
            ntps = {f"expression.{x}": k for x, k in zip(BASES, bases, strict=True)}
            made.bill(f"space.fired(transcribe_{gene})", ntps)
            charged, free = ({f"expression.{x}{a}": k for a, k in enumerate(residues)}
                             for x in ("charged", "tRNA"))
            made.bill(f"space.fired(translate_{gene})", {"expression.GTP": 2 * n, **charged})  # [2]
            made.credit(f"space.fired(translate_{gene})", free)
        made.shape("space", ts.shapes.dividing_sphere(area=f"1e-18 * {area}",
                   volume=2e-27 * self.volume, shells={"membrane": 1}), every=4 * size.every)
        made.divide(f"{area} >= {2 * self.area:.9g} and dna.beads == {2 * size.beads}", partition={
            "metabolism.*": "copy", **{f"metabolism.{x}": "share" for x in LIPIDS},
            "expression.to_do": "initial", "expression.done": "initial"})
        return made


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--small", action="store_true")
    asked.add_argument("--t-end", type=float, default=36.0)
    given = asked.parse_args()
    result = ts.run(Cell(SMALL if given.small else Size()).hybrid(), t_end=given.t_end, seed=1,
                    pilot=0, output=ts.Output("minimal_cell.h5", overwrite=True))
    print(result, "divisions at", result.divisions.time)
