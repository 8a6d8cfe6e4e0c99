"""What ``tauslab check`` says about a lattice, against numbers that were computed elsewhere."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from spatial_factory import cell

import tauslab as ts
from tauslab.cli.main import main
from tauslab.model.lattice.diagnosis.check import lattice_facts, poisson_tail
from tauslab.model.lattice.diagnosis.occupancy import (
    critical_spacings,
    expected_occupancy,
    reached_types,
)
from tauslab.model.lattice.diagnosis.time_step import choose_time_step, pair_error, splitting_of
from tauslab.model.lattice.values import lattice_values


@pytest.mark.parametrize(
    ("mean", "most", "tail"),
    [
        (1, 8, 1e-6),
        (2, 8, 2.4e-4),
        (4, 8, 2.1e-2),
        (2, 16, 5.6e-11),
        (4, 16, 1.1e-6),
        (6, 16, 1.7e-4),
    ],
)
def test_poisson_tails(mean, most, tail):
    assert poisson_tail(mean, most) == pytest.approx(tail, rel=0.13)
    assert poisson_tail(mean, most) == pytest.approx(stats.poisson.sf(most, mean), rel=1e-10)


def test_poisson_tails_far_out():
    assert poisson_tail(0.0, 8) == 0
    assert poisson_tail(40.0, 8) == pytest.approx(stats.poisson.sf(8, 40.0), rel=1e-12)
    assert poisson_tail(1e-3, 8) == pytest.approx(stats.poisson.sf(8, 1e-3), rel=1e-9)


def mean_times(hops, x, sites=5):
    """Until two particles on a ring react, in passes, from everywhere: by turns, and exactly.

    Solved from the chain of all pairs of places, without the formula of a torus.
    """
    place = np.arange(sites)
    turn = np.zeros((sites, sites))
    turn[place, (place + 1) % sites] = turn[(place + 1) % sites, place] = 1
    walks = [np.eye(sites) * (1 - 2 * q) + q * turn for q in hops]
    both = np.kron(*walks)
    together = np.equal.outer(place, place).reshape(-1)
    last = 1 / x - 1 / math.expm1(x)  # when in its pass it happens
    # After hops: what is together reacts, or all goes on.
    goes_on = np.where(together, math.exp(-x), 1.0)
    spent = np.where(together, -math.expm1(-x) * last + math.exp(-x), 1.0)
    by_turns = np.linalg.solve(np.eye(sites**2) - both * goes_on, both @ spent)
    rates = [q * (turn - 2 * np.eye(sites)) for q in hops]
    leaves = np.kron(rates[0], np.eye(sites)) + np.kron(np.eye(sites), rates[1])
    exact = np.linalg.solve(np.diag(x * together) - leaves, np.ones(sites**2))
    return by_turns.mean(), exact.mean()


@pytest.mark.parametrize("hops", [(1 / 6, 0.0), (0.1, 0.05)])
@pytest.mark.parametrize("x", [0.02, 0.3])
def test_the_error_by_turns_is_that_of_the_chain_of_all_places(hops, x):
    by_turns, exact = mean_times(hops, x)
    assert pair_error(x, *hops, (5,)) == pytest.approx(abs(by_turns / exact - 1), rel=1e-9)


def test_what_competes_with_no_hop_has_no_error():
    """A particle that reacts at one rate everywhere; a pair that stands still."""
    hop, sites = np.full((1, 1, 2), 0.1), np.array([1000])
    for reactants in ([0], []):
        assert splitting_of(hop, [reactants], np.array([[1e4]]), 1e-4, (10,) * 3, sites).error == 0
    actual = splitting_of(0 * hop, [[0, 1]], np.array([[1e4]]), 1e-4, (10,) * 3, sites)
    assert actual.error == 0
    actual = splitting_of(hop, [[0], [0, 1]], np.ones((2, 1)), 1.0, (10,) * 3, sites)
    assert (actual.reaction, actual.error) == (1, pair_error(1.0, 0.1, 0.1, (10,) * 3))


def test_a_rate_in_some_sites_competes_with_hops_out_of_them():
    """In a plane, as a wall of one site; in a few sites, as in one of three dimensions."""
    hop, rates = np.full((2, 2, 1), 1 / 6), np.array([[0.0, 0.1]])
    for sites, sides in ((np.array([900, 100]), (10,)), (np.array([999, 1]), (10, 10, 10))):
        actual = splitting_of(hop, [[0]], rates, 1.0, (10,) * 3, sites)
        assert (actual.site_type, actual.error) == (1, pair_error(0.1, 1 / 6, 0.0, sides))


def pairs(rate=1e-18, **diffusion):
    """A + B with a rate in m^3/s, both moving with 1 um^2/s unless told."""
    lattice = ts.Lattice(shape=(10, 10, 10), spacing=20e-9, step=1e-5)
    lattice.add_species("A", "B")
    for name in ("A", "B"):
        lattice.add_diffusion(name, diffusion.get(name, 1e-12))
    lattice.add_reaction("A + B ->", rate=rate, volume=1.0, name="meet")
    return lattice


def spacings(lattice):
    values = lattice_values(lattice)
    return critical_spacings(lattice, values, reached_types(lattice, values))


def test_the_critical_spacing():
    """h_crit = 0.2527 k / (D_A + D_B): for 1e-18 m^3/s and 2e-12 m^2/s it is 126 nm."""
    lattice = pairs()
    [pair] = spacings(lattice)
    assert (pair.reaction, pair.site_type) == ("meet", "default")
    assert pair.ratio == pytest.approx(20e-9 / (0.2527 * 1e-18 / 2e-12))
    still = pairs(A=0.0, B=0.0)
    assert spacings(still)[0].ratio == 0


def test_occupancy_at_the_start_and_spread():
    """40 + 30 + 3 particles in 96 of the sites: nothing leaves the cell."""
    lattice = cell()
    start, spread = expected_occupancy(lattice, lattice_values(lattice))
    for state in (start, spread):
        assert state[1] == pytest.approx([40 / 96, 30 / 96, 3 / 96])
        assert state[0].tolist() == [0, 0, 0]
    lattice.add_diffusion("A", 1e-12, source="cell", target="outside")
    assert expected_occupancy(lattice, lattice_values(lattice))[1][:, 0] == pytest.approx(40 / 420)


def test_the_report(tmp_path, capsys):
    """A -> 0 at 10 particles a site, k tau = 0.01; a pair with k tau = 1.25."""
    lattice = pairs()
    lattice.add_reaction("A ->", rate=1000.0, name="die")
    lattice.place("A", count=10_000)
    facts = lattice_facts(lattice)
    assert facts["reactions_per_site_and_pass"]["die"] == pytest.approx(0.1)
    error = pair_error(1e-23 / 8e-24, 0.025, 0.025, (10,) * 3)
    assert facts["splitting"]["error"] == pytest.approx(error, rel=1e-9)
    assert (facts["splitting"]["reaction"], facts["splitting"]["site_type"]) == ("meet", "default")
    assert facts["largest_hop"] == pytest.approx(0.025)
    assert facts["bytes"] == {"particles": 16_000, "sites": 1000}
    path = lattice.write(tmp_path / "pairs.h5")
    assert main(["check", str(path)]) == 0
    text = capsys.readouterr().out
    assert (
        f"until a reaction happens is off by {100 * error:.2g} % at most (meet in default)" in text
    )
    assert f"warning: {facts['splitting']['warning'].replace('max_hop=', '--max-hop ')}" in text
    assert "warning: reaction meet in default: its particles meet too seldom" in text
    assert "h/h_crit: meet 0.158 (default)" in text
    assert "10 particles per site, P(more than its 16 slots hold) = 0.027 (27 sites)" in text
    assert main(["check", "--json", str(path)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["splitting"]["error"] == pytest.approx(error, rel=1e-9)
    assert again["pairs"] == facts["pairs"]


def test_what_a_warning_advises_keeps_the_error():
    lattice = pairs(rate=1e-20)
    actual = choose_time_step(lattice, lattice_values(lattice))
    assert actual.splitting.error < 0.005
    lattice.step = 1e-4  # four passes
    lattice.add_reaction("A + B -> A", rate=1e-19, volume=1.0)
    worse = choose_time_step(lattice, lattice_values(lattice))
    assert worse.splitting.error > 0.005
    hop = worse.hop * 0.005 / worse.splitting.error
    better = choose_time_step(lattice, lattice_values(lattice), max_hop=hop)
    assert better.splitting.error == pytest.approx(0.005, rel=0.4)


@pytest.mark.parametrize("equation", ["G -> M", "G -> G + M"])
def test_a_fast_gene_needs_one_pass_of_reactions(equation):
    """K tau = 0.34: a pass takes as many reactions as its length has."""
    lattice = ts.Lattice("gene", shape=(12, 12, 12), spacing=32e-9)
    lattice.add_species("G", "M")
    lattice.add_diffusion("M", 1e-14)
    lattice.add_reaction(equation, rate=20)
    lattice.place("G", positions=[(6, 6, 6)])
    chosen = choose_time_step(lattice, lattice_values(lattice))
    assert (chosen.reaction_substeps, chosen.splitting.error) == (1, 0)


def test_a_held_face_fills_what_it_leads_to():
    """A ligand at two particles a ghost site, in a lattice that begins empty."""
    lattice = ts.Lattice("held", shape=(4, 4, 4), spacing=1e-7, step=1e-5)
    lattice.add_site_type("water")
    lattice.add_site_type("wall", np.indices((4, 4, 4))[0] == 3)
    lattice.add_species("L")
    lattice.add_diffusion("L", 1e-12, within="water")
    lattice.add_reaction("L ->", rate=4000)
    per_site = 2 / (6.02214076e23 * 1e-18)
    lattice.set_boundary("z-", "held", concentrations={"L": per_site})
    start, spread = expected_occupancy(lattice, lattice_values(lattice))
    assert (start[:, 0].tolist(), spread[:, 0]) == ([0, 0], pytest.approx([2, 0]))


def test_particles_that_neither_move_nor_react_where_they_are_placed():
    """But not those that rest everywhere, nor those that react."""
    model = ts.Lattice("trapped", shape=(2, 4, 4), spacing=1e-8, step=1e-6)
    half = np.arange(32).reshape(2, 4, 4) < 16
    model.add_site_type("membrane", half)
    model.add_site_type("inside", ~half)
    for name in ("A", "B", "rests"):
        model.add_species(name)
        model.place(name, count=3, site_type="membrane")
        model.place(name, count=3, site_type="inside")
    model.add_diffusion("A", 1e-12, within="membrane")
    model.add_diffusion("B", 1e-12, within="membrane")
    model.add_reaction("B ->", rate=1.0, site_types=["inside"])
    assert lattice_facts(model)["trapped"] == [("A", "inside")]
    sentence = "A in inside neither moves nor reacts there"
    assert sentence in str(model.check())
    with pytest.warns(UserWarning, match=sentence):
        ts.run(model, t_end=1e-5, seed=1, device="cpu", quiet=True).close()
