"""A lattice as a network: every propensity of a site, every hop, and none that is not there."""

from __future__ import annotations

import numpy as np
import pytest
from spatial_factory import SHAPE, cell

import tauslab as ts
from tauslab.base.errors import ModelError
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.model.expressions.host_math import evaluate

H, D = 1e-8, 1e-12


def line(boundary="reflecting", n=3):
    lattice = ts.Lattice("line", shape=(1, 1, n), spacing=H, step=1e-6)
    lattice.add_species("A", "B")
    lattice.add_diffusion("A", D)
    lattice.set_boundary("x", boundary)
    return lattice


def hops(network):
    return {
        (next(iter(r.reactants), None), next(iter(r.products), None)): evaluate(
            r.law, dict.fromkeys(network.species, 1.0)
        )
        for r in network.reactions
    }


def test_hops_to_neighbours():
    """D / h^2 = 1e4 each way; walls at the ends of y and z give nothing."""
    actual = hops(line().to_network(seed=1))
    names = [f"A_0_0_{i}" for i in range(3)]
    assert actual == pytest.approx(
        {(names[i], names[j]): 1e4 for i in range(3) for j in range(3) if abs(i - j) == 1}
    )


def test_faces():
    ring = hops(line("periodic").to_network(seed=1))
    assert (("A_0_0_2", "A_0_0_0") in ring, len(ring)) == (True, 6)
    sink = hops(line("absorbing").to_network(seed=1))
    assert (sink["A_0_0_0", None], sink["A_0_0_2", None], len(sink)) == pytest.approx((1e4, 1e4, 6))
    lattice = line()
    lattice.set_boundary("x+", "held", concentrations={"A": 1e-3})
    source = hops(lattice.to_network(seed=1))
    ghosts = 1e-3 * 6.02214076e26 * H**3
    assert source[None, "A_0_0_2"] == pytest.approx(1e4 * ghosts)
    assert source["A_0_0_2", None] == pytest.approx(1e4)


def test_reactions_stay_in_their_sites():
    """In the 96 sites of the cell, two reactions each, with the constants of a site."""
    lattice = cell()
    network = lattice.to_network(seed=3)
    network.validate()
    reactions = [r for r in network.reactions if r.name.startswith(("bind_", "free_"))]
    assert len(reactions) == 2 * 96
    one = next(r for r in reactions if r.name == "bind_2_1_2")
    counts = {"A_2_1_2": 3.0, "B_2_1_2": 4.0}
    rate = 1e6 / (6.02214076e26 * (32e-9) ** 3)
    assert evaluate(one.law, counts) == pytest.approx(12 * rate)
    assert one.products == {"C_2_1_2": 1}
    inner = 8 * 3 * 4
    faces = 2 * (7 * 12 + 2 * 32 + 3 * 24)
    assert len(network.reactions) == 2 * inner + 3 * faces


def test_the_start_is_that_of_a_lattice_run():
    lattice = cell()
    network = lattice.to_network(seed=3)
    particles = lower_lattice(lattice).particles(0, SHAPE[0], 3)
    amounts = network.initial_amounts()
    for site in np.ndindex(SHAPE):
        for number, name in enumerate("ABC", start=1):
            at = "_".join([name, *map(str, site)])
            assert amounts[at] == (particles[site] == number).sum()


def test_a_large_lattice_makes_no_network():
    lattice = ts.Lattice(shape=(64, 64, 64), spacing=H, step=1e-6)
    lattice.add_species("A")
    with pytest.raises(ModelError, match="a network of 262144 species"):
        lattice.to_network(seed=1)


@pytest.mark.parametrize(
    ("volume", "sites"), [("lattice", 420), ("cell", 96), (10 * (32e-9) ** 3, 10)]
)
def test_without_space(volume, sites):
    """Rates of a site times sites^(1 - order)."""
    lattice = cell()
    lattice.add_reaction("-> A", rate=5.0, volume="site", name="make")
    network = lattice.well_stirred(volume)
    assert network.initial_amounts() == {"A": 40, "B": 30, "C": 3}
    laws = {r.name: evaluate(r.law, {"A": 2.0, "B": 3.0, "C": 4.0}) for r in network.reactions}
    rate = 1e6 / (6.02214076e26 * (32e-9) ** 3)
    assert laws == pytest.approx({"bind": 6 * rate / sites, "free": 8.0, "make": 5.0 * sites})
    with pytest.raises(ModelError, match="not a site type"):
        lattice.well_stirred("nowhere")


def test_open_faces_that_a_network_without_space_has_not_are_named(recwarn):
    lattice = ts.Lattice("open", shape=(2, 2, 2), spacing=H, step=1e-6, boundary="periodic")
    lattice.add_species("A")
    lattice.set_boundary("z-", "held", concentrations={"A": 1e-6})
    lattice.set_boundary("z+", "absorbing")
    lattice.well_stirred()
    assert not recwarn  # nothing hops
    lattice.add_diffusion("A", D)
    for volume in ("lattice", "reachable"):
        with pytest.warns(UserWarning, match="no exchange of particles across the faces z-, z[+]"):
            lattice.well_stirred(volume)


def test_each_species_without_space_where_it_can_come():
    """B stays in 2 of 5 sites, A goes everywhere, C is made where both are and stays there."""
    lattice = ts.Lattice("halves", shape=(1, 1, 5), spacing=H, step=1e-6)
    lattice.add_site_type("out")
    lattice.add_site_type("in", np.arange(5).reshape(1, 1, 5) < 2)
    lattice.add_species("A", "B", "C")
    lattice.add_diffusion("A", D)
    lattice.place("A", count=6, site_type="out")
    lattice.place("B", count=4, site_type="in")
    lattice.add_reaction("A + B -> C", rate=10.0, volume="site", name="bind")
    lattice.add_reaction("A -> A + A", rate=3.0, site_types="in", name="grow")
    lattice.add_reaction("2 C -> A", rate=7.0, volume="site", name="free")
    lattice.add_reaction("C ->", rate=2.0, site_types="out", name="never")
    lattice.add_reaction("-> B", rate=5.0, volume="site", site_types="in", name="make")
    network = lattice.well_stirred("reachable")
    laws = {r.name: evaluate(r.law, {"A": 2.0, "B": 3.0, "C": 4.0}) for r in network.reactions}
    assert laws == pytest.approx(
        {
            "bind": 10 * 2 / (5 * 2) * 6,
            "grow": 3 * 2 / 5 * 2,
            "free": 7 * 2 / 2**2 * 6,
            "never": 0,
            "make": 5 * 2,
        }
    )


@pytest.mark.parametrize(("boundary", "room"), [("periodic", 4), ("reflecting", 3)])
def test_where_a_species_comes_by_hops_is_known_by_site(boundary, room):
    """A hops from water into gel but not within it; one face leads around, if it is periodic."""
    lattice = ts.Lattice("row", shape=(1, 1, 7), spacing=H, step=1e-6, boundary=boundary)
    lattice.add_site_type("gel")
    lattice.add_site_type("water", np.arange(7).reshape(1, 1, 7) < 2)
    lattice.add_species("A", "B")
    lattice.add_diffusion("A", D, within="water")
    lattice.add_diffusion("A", D, source="water", target="gel")
    lattice.place("A", positions=[[0, 0, 0]])
    lattice.place("B", count=3, site_type="gel")
    lattice.add_reaction("A + B -> B", rate=10.0, volume="site")
    with pytest.warns(UserWarning, match="row: A hops between (gel and water|water and gel) with"):
        (law,) = (r.law for r in lattice.well_stirred("reachable").reactions)
    assert evaluate(law, {"A": 1.0, "B": 1.0}) == pytest.approx(10 * (room - 2) / (room * 5))


def test_ends_of_a_row_between_which_nothing_hops_are_no_way(recwarn):
    lattice = ts.Lattice("row", shape=(1, 1, 3), spacing=H, step=1e-6)
    for name, x in (("gel", 0), ("mid", 1), ("water", 2)):
        lattice.add_site_type(name, np.arange(3).reshape(1, 1, 3) == x)
    lattice.add_species("A")
    lattice.add_diffusion("A", D)
    lattice.add_diffusion("A", 2 * D, source="gel", target="water")
    lattice.place("A", positions=[[0, 0, 0]])
    lattice.add_reaction("A ->", rate=1.0)
    lattice.well_stirred("reachable")
    assert not [one for one in recwarn if "for each direction" in str(one.message)]


def test_one_particle_walks_as_the_master_equation_says():
    """Ssa on the network against exp(t Q): counts in three sites, |z| < 5 (3e-6 in all)."""
    lattice = line("reflecting")
    lattice.place("A", positions=[[0, 0, 0]] * 16)
    network = lattice.to_network(seed=1)
    n, t = 400, 5e-5
    result = ts.run(network, n=n, times=[t], seed=2, device="cpu")
    q = 1e4 * t * np.array([[-1, 1, 0], [1, -2, 1], [0, 1, -1]])
    values, vectors = np.linalg.eigh(q)
    expected = (vectors * np.exp(values)) @ vectors.T
    for i in range(3):
        mean = float(result.mean(f"A_0_0_{i}")[0])
        p = expected[0, i]
        assert abs(mean / 16 - p) < 5 * (p * (1 - p) / (16 * n)) ** 0.5
