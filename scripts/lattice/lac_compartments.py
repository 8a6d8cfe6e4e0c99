"""The lac cell without space, but with what cannot move kept where it is.

    python scripts/lattice/lac_compartments.py docs/figures/lac-5uM-2.npz -o docs/figures/lac-5uM.png
    python scripts/lattice/lac_compartments.py --inducer 40uM docs/figures/lac-40uM-2.npz

Compares runs of the lattice (seed 1, as `figures_lattice.py` left it, and files of
`lattice_trials.py`) with exact SSA of two networks: all mixed, the ``reachable`` one of the model,
and one with compartments: the site of the operator, the membrane's sites beside the outside, those
behind.  Repressors with inducer (IR2, I2R2), Y and YI stay in theirs, and so does Iex that is made
behind.  Rates are those of the model, by numbers of sites; how many Y lie beside, and how many ways
lead to the operator, is counted in the run's own start.  Nothing is fitted.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from lattice_cases import INDUCER, LAC_SHOWN, lac_model

import tauslab as ts
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.model.lattice.lattice import Lattice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]
Curves = dict[str, npt.NDArray[Any]]
SPECIES = ("R2", "O", "R2O", "IR2", "IR2O", "I2R2", "I2R2O", "mY", "Y", "I", "Iex", "YI")
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
# Together they are a species of the lattice.
PARTS = {
    "R2": ("R2", "R2_o"), "IR2": ("IR2", "IR2_o"), "I2R2": ("I2R2", "I2R2_o"),
    "Y": ("Y", "Y_behind"), "YI": ("YI", "YI_behind"), "Iex": ("Iex", "Iex_behind"),
}  # fmt: skip
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
RETURNS = 1.516  # visits of a random walk on the cubic lattice to where it starts


@dataclass(frozen=True)
class Sites:
    """Numbers of sites; of a start, Y beside the outside and free neighbours of the operator."""

    cytoplasm: float
    outside: float
    beside: float
    behind: float
    y_beside: int
    ways: int


def sites_of(cell: Lattice, lattice: LoweredLattice, seed: int) -> Sites:
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
    particles = lattice.particles(0, lattice.shape[0], seed)
    y, operator = (
        (particles == lattice.species.index(name) + 1).sum(axis=3) for name in ("Y", "O")
    )
    return Sites(float(cytoplasm.sum()), float(outside.sum()), float(beside.sum()),
                 float((membrane & ~beside).sum()), int(y[beside].sum()),
                 int(free[operator > 0][0]))  # fmt: skip


class Compartments:
    """Builds the network."""

    def __init__(self, cell: Lattice, inducer: float, seed: int) -> None:
        lattice = lower_lattice(cell, max_hop=0.26, parameters={"inducer": inducer})
        self.sites = sites_of(cell, lattice, seed)
        self.network = ts.Network("lac_compartments")
        self.rates = {
            tuple("+".join(sorted(lattice.species[i] for i in side))
                  for side in (r.reactants, r.products)): float(r.rates.max())
            for r in lattice.reactions
        }  # fmt: skip
        hops = lattice.hop * (lattice.diffusion_substeps / lattice.step)
        self.hop = float(hops[:, :, lattice.species.index("R2")].max())
        self.start = {"R2": 9, "O": 1, "I": round(inducer), "Iex": round(inducer),
                      "Y": self.sites.y_beside, "Y_behind": 30 - self.sites.y_beside}  # fmt: skip

    def build(self) -> ts.Network:
        """Species, then reactions."""
        for name in SPECIES:
            for part in PARTS.get(name, (name,)):
                self.network.add_species(part, self.start.get(part, 0))
        self._operator()
        self._repressors()
        self._membrane()
        return self.network

    def _add(self, equation: str, rate: float) -> None:
        self.network.add_reaction(equation, rate=rate)

    def _k(self, reactants: str, products: str = "") -> float:
        """Stochastic constant of a site; species of a side as ``A+B``, by the alphabet."""
        return self.rates[reactants, products]

    def _operator(self) -> None:
        """Only what is in its site meets it; only R2 comes and goes."""
        away = self.hop * self.sites.ways / RETURNS
        self._add("R2 -> R2_o", away / self.sites.cytoplasm)
        self._add("R2_o -> R2", away)
        for name in ("R2", "IR2", "I2R2"):
            both = "+".join(sorted((name, "O")))
            self._add(f"{name}_o + O -> {name}O", self._k(both, f"{name}O"))
            self._add(f"{name}O -> {name}_o + O", self._k(f"{name}O", both))
        self._add("O -> O + mY", self._k("O", "O+mY"))

    def _repressors(self) -> None:
        """Inducer is mixed in cytoplasm and membrane."""
        space = self.sites.cytoplasm + self.sites.beside + self.sites.behind
        for bare, bound in (("R2", "IR2"), ("IR2", "I2R2")):
            for end in ("", "_o", "O"):
                one, two = (name + end.removeprefix("_o") for name in (bare, bound))
                self._add(f"I + {bare}{end} -> {bound}{end}", self._k(f"I+{one}", two) / space)
                self._add(f"{bound}{end} -> I + {bare}{end}", self._k(two, f"I+{one}"))

    def _membrane(self) -> None:
        """Iex from outside comes to the sites beside it; Iex made behind stays where it is."""
        sites = self.sites
        space, outer = sites.cytoplasm + sites.beside + sites.behind, sites.outside + sites.beside
        leaves, makes = self._k("I", "Iex"), self._k("mY", "Y+mY")
        self._add("mY ->", self._k("mY"))
        self._add("mY -> mY + Y", makes * sites.beside / space)
        self._add("mY -> mY + Y_behind", makes * sites.behind / space)
        self._add("Iex -> I", self._k("Iex", "I") * sites.beside / outer)
        self._add("Iex_behind -> I", self._k("Iex", "I"))
        self._add("I -> Iex", leaves * sites.beside / space)
        self._add("I -> Iex_behind", leaves * sites.behind / space)
        self._add("Y + Iex -> YI", self._k("Iex+Y", "YI") / outer)
        # Iex that is made in a site with Y cannot leave it, and is bound long before it is I again.
        self._add("Y_behind + I -> YI_behind", leaves / space)
        self._add("YI -> Y + Iex", self._k("YI", "Iex+Y"))
        for end in ("", "_behind"):
            self._add(f"YI{end} -> Y{end} + I", self._k("YI", "I+Y"))
            self._add(f"Y{end} ->", self._k("Y"))


def sampled(network: ts.Network, times: FloatArray, samples: int) -> Curves:
    """Species of the lattice ``[sample, time]``."""
    result = ts.run(network, method="ssa", n=samples, times=times, seed=2, device="cpu")
    parts = {name: [p for p in PARTS.get(name, (name,)) if p in result.species]
             for name in LAC_SHOWN}  # fmt: skip
    return {name: np.sum([result.counts(p) for p in ps], axis=0).astype(float)
            for name, ps in parts.items()}  # fmt: skip


def lattice_runs(paths: list[Path], first: Path | None
                 ) -> Iterator[tuple[int, FloatArray, Curves]]:  # fmt: skip
    """Seed, times and counts ``[time]`` of the `first` run, with seed 1, then of the files'."""
    if first:
        with np.load(first) as stored:
            yield 1, stored["times"], {n: stored[f"{n}_runs"][0] for n in LAC_SHOWN
                                       if f"{n}_runs" in stored}  # fmt: skip
    for path in paths:
        with np.load(path) as stored:
            for seed, counts in zip(stored["seed"], stored["counts"], strict=True):
                yield int(seed), stored["times"], {n: counts[:, SPECIES.index(n)]
                                                   for n in LAC_SHOWN}  # fmt: skip


@dataclass
class Compared:
    """A number of lattice runs, and by run mean and deviation of it in the two networks."""

    values: list[float]
    expected: list[list[tuple[float, float]]]

    def row(self, label: str) -> str:
        """Means over the runs; after each network's z, with the deviation of such a mean."""
        cells, n = [f"{np.mean(self.values):.5g}"], len(self.values)
        for moments in np.array(self.expected).transpose(1, 0, 2):
            mean, error = moments[:, 0].mean(), np.sqrt((moments[:, 1] ** 2).sum()) / n
            z = (np.mean(self.values) - mean) / max(error, 1e-9)
            cells += [f"{mean:.5g} ± {error:.3g}", f"{z:+.1f}"]
        return f"| {label} | {' | '.join(cells)} |"


def compare(times: FloatArray, lattice: Curves, networks: list[Curves],
            found: dict[str, Compared]) -> None:  # fmt: skip
    """Note each species of a run at the end, and its mean over the second half."""
    late = times >= times[-1] / 2
    for name, counts in lattice.items():
        ends = (f"{name} at the end", counts[-1], [n[name][:, -1] for n in networks])
        means = (f"{name}, mean of the second half", counts[late].mean(),
                 [n[name][:, late].mean(axis=1) for n in networks])  # fmt: skip
        for label, value, samples in (ends, means):
            one = found.setdefault(label, Compared([], []))
            one.values.append(float(value))
            one.expected.append([(float(x.mean()), float(x.std(ddof=1))) for x in samples])


def draw(path: Path, runs: list[tuple[FloatArray, Curves, list[Curves]]], title: str) -> None:
    """I and mRNA over time: runs of the lattice over the middle 95 % of the networks."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(7.6, 3.1), layout="constrained")
    for axes, name in zip(panels, ("I", "mY"), strict=True):
        _band(axes, runs[0][0], runs[0][2][0][name], GREEN, "all mixed")
        for number, (times, lattice, networks) in enumerate(runs):
            first = number == 0
            _band(axes, times, networks[1][name], ORANGE, "compartments" if first else None)
            axes.plot(times, lattice[name], color=BLUE, linewidth=0.8,
                      label="lattice" if first else None)  # fmt: skip
        axes.set(xlabel="time (s)", ylabel=name)
    panels[0].legend(fontsize="small")
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _band(axes: Axes, times: FloatArray, counts: FloatArray, colour: str, label: str | None
          ) -> None:  # fmt: skip
    low, high = np.quantile(counts, (0.025, 0.975), axis=0)
    axes.fill_between(times, low, high, color=colour, alpha=0.4, linewidth=0, label=label)


def main() -> None:
    """Print the table, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path, help="files of lattice_trials.py")
    parser.add_argument("--inducer", choices=("5uM", "40uM"), default="5uM")
    parser.add_argument("--mixing", action="store_true", help="the files' runs alone, made with it")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("-o", "--output", type=Path, help="a picture")
    options = parser.parse_args()
    inducer = float(INDUCER[f"lac-{options.inducer}"])
    with tempfile.TemporaryDirectory() as folder:
        cell = lac_model(Path(folder))
        cell.site_array()  # read now: the folder will be gone
        mixed = cell.well_stirred("reachable", {"inducer": inducer})
    result: dict[str, Compared] = {}
    runs = []
    first = None if options.mixing else FIGURES / f"lattice-lac-{options.inducer}.npz"
    for seed, times, lattice in lattice_runs(options.runs, first):
        parts = Compartments(cell, inducer, seed)
        print(f"seed {seed}: {parts.sites}", flush=True)
        networks = [sampled(n, times, options.samples) for n in (mixed, parts.build())]
        compare(times, lattice, networks, result)
        runs.append((times, lattice, networks))
    for label, compared in result.items():
        print(compared.row(label))
    if options.output:
        draw(options.output, runs, f"lac switch, {options.inducer[:-2]} µM inducer")


if __name__ == "__main__":
    main()
