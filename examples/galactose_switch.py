"""The galactose switch of yeast: genes by exact steps, transport by equations, once a second.

Genes, mRNA and regulators are 65 discrete reactions. Transport of galactose and its
phosphorylation are nine fast reactions among six species, as equations. Both change the same
enzymes and the same galactose, so these are shared.
"""

import argparse
from pathlib import Path

import tauslab as ts

PER_MM = 1 / 4.65e-8  # molecules in the cell for 1 mM
SHARED = ["GAI", "G1", "G2", "G1GAI", "G2GAE", "G2GAI"]


def transport(outside: float) -> ts.Network:
    """Facilitated diffusion by Gal2, and the kinase Gal1."""
    net = ts.Network("transport")
    for name, initial in {
        "GAI": 0,
        "G1": 132,
        "G2": 1156,
        "G1GAI": 0,
        "G2GAE": 0,
        "G2GAI": 0,
    }.items():
        net.add_species(name, initial)
    net.add_parameter("GAE", outside * PER_MM)
    net.add_reaction("G2 -> G2GAE", rate="5.2255e-6 * GAE")
    net.add_reaction("G2GAE -> G2", rate=39.875)
    net.add_reaction("G2GAE -> G2GAI", rate=72.5)
    net.add_reaction("G2GAI -> G2GAE", rate=72.5)
    net.add_reaction("G2GAI -> G2 + GAI", rate=39.875)
    net.add_reaction("G2 + GAI -> G2GAI", rate=5.2255e-6)
    net.add_reaction("G1 + GAI -> G1GAI", rate=6.7071666666666665e-6)
    net.add_reaction("G1GAI -> G1 + GAI", rate=30.708333333333332)
    net.add_reaction("G1GAI -> G1", rate=55.833333333333336)
    return net


def switch(outside: float = 11.1, every: float = 1.0, sample: float = 60.0) -> ts.Hybrid:
    """A cell that is put into galactose."""
    genes = ts.read(Path(__file__).with_name("galactose_switch.toml"))
    cell = ts.Hybrid("galactose_switch")
    stiff = ts.ODE(solver="rosenbrock")  # Gal2 binds 1,250 times a second at 11.1 mM
    cell.add_part("transport", transport(outside), method=stiff, every=every, sample=sample)
    # After transport, so that genes make one step of a second, and transport two of half a second.
    cell.add_part("genes", genes, method="ssa", every=every, sample=sample)
    cell.share("transport.{name}", "genes.{name}", for_each={"name": SHARED})
    return cell


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--outside", type=float, default=11.1, help="mM")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    cell = switch(given.outside)
    print("\n".join(cell.check()))
    result = ts.run(cell, t_end=60 * given.minutes, n=given.cells, seed=given.seed)
    inner = result.mean("transport.GAI")[-1] / PER_MM
    membrane = sum(result.mean(f"transport.{name}")[-1] for name in ("G2", "G2GAE", "G2GAI"))
    print(f"after {given.minutes} min: {inner:.3f} mM inside, {membrane:.0f} Gal2")
    for name in ("G3i", "G80G3i", "reporter"):
        print(f"{name}: {result.mean(f'genes.{name}')[-1]:.1f}")
