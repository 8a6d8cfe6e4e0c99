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


def add_transport(net: ts.Network, outside: float) -> None:
    """Facilitated diffusion by Gal2, and the kinase Gal1."""
    net.add_parameter("GAE", outside * PER_MM)
    for k, (equation, rate) in enumerate(
        (
            ("G2 -> G2GAE", "5.2255e-6 * GAE"),
            ("G2GAE -> G2", 39.875),
            ("G2GAE -> G2GAI", 72.5),
            ("G2GAI -> G2GAE", 72.5),
            ("G2GAI -> G2 + GAI", 39.875),
            ("G2 + GAI -> G2GAI", 5.2255e-6),
            ("G1 + GAI -> G1GAI", 6.7071666666666665e-6),
            ("G1GAI -> G1 + GAI", 30.708333333333332),
            ("G1GAI -> G1", 55.833333333333336),
        )
    ):
        net.add_reaction(equation, rate=rate, name=f"transport_{k + 1}")


def transport(outside: float) -> ts.Network:
    """Transport alone, of the species that it shares with the genes."""
    net = ts.Network("transport")
    for name, initial in zip(SHARED, (0, 132, 1156, 0, 0, 0), strict=True):
        net.add_species(name, initial)
    add_transport(net, outside)
    return net


def one_network(outside: float = 11.1) -> ts.Network:
    """Genes and transport in one network, for `ts.Partitioned(ode="transport_*", jump="*")`."""
    net = ts.read(Path(__file__).with_name("galactose_switch.toml"))
    add_transport(net, outside)
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
