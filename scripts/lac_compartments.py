"""The lac cell without space, but with what cannot move kept where it is.

    python scripts/lac_compartments.py                 # 5 uM
    python scripts/lac_compartments.py --inducer 40uM --samples 1000

Compares one lattice run, as `figures_lattice.py` left it, with exact SSA of two networks: all
mixed (`lattice.well_stirred("reachable")`), and one with compartments: the site of the operator,
the membrane's sites beside the outside, those behind.  Repressors with inducer (IR2, I2R2), Y and
YI stay in theirs, and so does Iex that is made behind.  Rates are those of the model, by numbers of
sites; nothing is fitted.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from lattice_cases import INDUCER, LAC_SHOWN, lac_model

import tauslab as ts
from tauslab.kernels.lattice_lowering import LoweredLattice, lower_lattice
from tauslab.model.lattice import Lattice

FloatArray = npt.NDArray[np.float64]
FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
# Together they are a species of the lattice.
PARTS = {
    "R2": ("R2", "R2_o"), "IR2": ("IR2", "IR2_o"), "I2R2": ("I2R2", "I2R2_o"),
    "Y": ("Y", "Y_behind"), "YI": ("YI", "YI_behind"), "Iex": ("Iex", "Iex_behind"),
}  # fmt: skip
RETURNS = 1.516  # visits of a random walk on the cubic lattice to where it starts


@dataclass(frozen=True)
class Sites:
    """Numbers of sites, and free neighbours of a free site of the cytoplasm."""

    cytoplasm: float
    outside: float
    beside: float
    behind: float
    neighbours: float


def sites_of(cell: Lattice) -> Sites:
    """Count them."""
    types = cell.site_array()
    outside, membrane, cytoplasm = (
        types == cell.type_names.index(name) for name in ("extracellular", "membrane", "cytoplasm")
    )
    beside, free = np.zeros_like(outside), np.zeros(types.shape, int)
    for axis in range(3):
        for side in (-1, 1):
            beside |= np.roll(outside, side, axis) & membrane
            free += np.roll(cytoplasm, side, axis)
    return Sites(float(cytoplasm.sum()), float(outside.sum()), float(beside.sum()),
                 float((membrane & ~beside).sum()), float(free[cytoplasm].mean()))  # fmt: skip


class Compartments:
    """Builds the network."""

    def __init__(self, cell: Lattice, inducer: float) -> None:
        lowered: LoweredLattice = lower_lattice(cell, max_hop=0.26)
        self.sites, self.network = sites_of(cell), ts.Network("lac_compartments")
        self.rates = {
            f"{'+'.join(cell.species[i] for i in r.reactants)}>"
            f"{'+'.join(cell.species[i] for i in r.products)}": float(r.rates.max())
            for r in lowered.reactions
        }
        hops = lowered.hop * (lowered.diffusion_substeps / lowered.step)
        self.hop = float(hops[:, :, lowered.species.index("R2")].max())
        both = self.sites.beside + self.sites.behind
        self.start = {"R2": 9, "O": 1, "I": round(inducer), "Iex": round(inducer),
                      "Y": round(30 * self.sites.beside / both)}  # fmt: skip
        self.start["Y_behind"] = 30 - self.start["Y"]

    def build(self) -> ts.Network:
        """Species, then reactions."""
        whole = ("R2", "O", "R2O", "IR2", "IR2O", "I2R2", "I2R2O", "mY", "Y", "I", "Iex", "YI")
        for name in whole:
            for part in PARTS.get(name, (name,)):
                self.network.add_species(part, self.start.get(part, 0))
        self._operator()
        self._repressors()
        self._membrane()
        return self.network

    def _add(self, equation: str, rate: float) -> None:
        self.network.add_reaction(equation, rate=rate)

    def _rate(self, reaction: str) -> float:
        """Stochastic constant of a site; `reaction` with species in the model's order."""
        return self.rates[reaction]

    def _operator(self) -> None:
        """Only what is in its site meets it; only R2 comes and goes."""
        away = self.hop * self.sites.neighbours / RETURNS
        self._add("R2 -> R2_o", away / self.sites.cytoplasm)
        self._add("R2_o -> R2", away)
        for name in ("R2", "IR2", "I2R2"):
            binds = next(k for lhs, k in self._pairs(f"{name}O") if set(lhs) == {name, "O"})
            self._add(f"{name}_o + O -> {name}O", binds)
            self._add(f"{name}O -> {name}_o + O", self._single(f"{name}O", {name, "O"}))
        self._add("O -> O + mY", self._single("O", {"O", "mY"}))

    def _pairs(self, product: str) -> list[tuple[list[str], float]]:
        split = [(*key.split(">"), rate) for key, rate in self.rates.items()]
        return [(a.split("+"), rate) for a, b, rate in split if b == product and "+" in a]

    def _single(self, reactant: str, products: set[str]) -> float:
        for key, rate in self.rates.items():
            a, b = key.split(">")
            if a == reactant and set(filter(None, b.split("+"))) == products:
                return rate
        raise KeyError(reactant)

    def _repressors(self) -> None:
        """Inducer is mixed in cytoplasm and membrane."""
        room = self.sites.cytoplasm + self.sites.beside + self.sites.behind
        for bare, bound in (("R2", "IR2"), ("IR2", "I2R2")):
            for end in ("", "_o", "O"):
                suffix = "O" if end == "O" else ""
                takes = next(k for lhs, k in self._pairs(f"{bound}{suffix}")
                             if set(lhs) == {"I", f"{bare}{suffix}"})  # fmt: skip
                self._add(f"I + {bare}{end} -> {bound}{end}", takes / room)
                self._add(f"{bound}{end} -> I + {bare}{end}",
                          self._single(f"{bound}{suffix}", {"I", f"{bare}{suffix}"}))  # fmt: skip

    def _membrane(self) -> None:
        """Iex from outside comes to the sites beside it; Iex made behind stays where it is."""
        sites = self.sites
        room, outer = sites.cytoplasm + sites.beside + sites.behind, sites.outside + sites.beside
        share = (sites.beside + sites.behind) / room  # of mRNA and I
        enters, leaves = self._single("Iex", {"I"}), self._single("I", {"Iex"})
        makes, binds = self._single("mY", {"mY", "Y"}), self._pairs("YI")[0][1]
        self._add("mY ->", self._single("mY", set()))
        self._add("mY -> mY + Y", makes * share * sites.beside / (sites.beside + sites.behind))
        self._add("mY -> mY + Y_behind", makes * share * sites.behind
                  / (sites.beside + sites.behind))  # fmt: skip
        self._add("Iex -> I", enters * sites.beside / outer)
        self._add("Iex_behind -> I", enters)
        self._add("I -> Iex", leaves * sites.beside / room)
        self._add("I -> Iex_behind", leaves * sites.behind / room)
        self._add("Y + Iex -> YI", binds / outer)
        # Iex that is made in a site with Y cannot leave it, and is bound long before it is I again.
        self._add("Y_behind + I -> YI_behind", leaves / room)
        self._add("YI -> Y + Iex", self._single("YI", {"Y", "Iex"}))
        for end in ("", "_behind"):
            self._add(f"YI{end} -> Y{end} + I", self._single("YI", {"Y", "I"}))
            self._add(f"Y{end} ->", self._single("Y", set()))


def sampled(network: ts.Network, times: FloatArray, samples: int) -> dict[str, FloatArray]:
    """Species of the lattice ``[sample, time]``."""
    found = ts.run(network, method="ssa", n=samples, times=times, seed=2, device="cpu")
    parts = {name: [p for p in PARTS.get(name, (name,)) if p in found.species]
             for name in LAC_SHOWN}  # fmt: skip
    return {name: np.sum([found.counts(p) for p in ps], axis=0).astype(float)
            for name, ps in parts.items()}  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inducer", choices=("5uM", "40uM"), default="5uM")
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args()
    inducer = float(INDUCER[f"lac-{options.inducer}"])
    with tempfile.TemporaryDirectory() as folder:
        cell = lac_model(Path(folder))
        mixed = cell.well_stirred("reachable", {"inducer": inducer})
        parted = Compartments(cell, inducer).build()
    with np.load(FIGURES / f"lattice-lac-{options.inducer}.npz") as stored:
        times = stored["times"]
        lattice = {n: stored[f"{n}_runs"][0] for n in LAC_SHOWN if f"{n}_runs" in stored}
    networks = [sampled(n, times, options.samples) for n in (mixed, parted)]
    late = times >= times[-1] / 2
    for name in lattice:
        for label, pick in (("at the end", lambda x: x[..., -1]),
                            ("second half", lambda x: x[..., late].mean(axis=-1))):  # fmt: skip
            cells = [f"{pick(lattice[name]):.5g}"]
            for network in networks:
                values = pick(network[name])
                cells.append(f"{values.mean():.5g} ± {values.std(ddof=1):.3g}")
            print(f"| {name}, {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
