"""What ``tauslab check`` says about a lattice, against numbers that were computed elsewhere."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from spatial_factory import cell

import tauslab as ts
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report, poisson_tail
from tauslab.model.lattice.diagnosis.occupancy import expected_occupancy
from tauslab.model.lattice.diagnosis.pairs import critical_spacings
from tauslab.model.lattice.diagnosis.reach import reached_types
from tauslab.model.lattice.diagnosis.time_step import choose_time_step, lost_fraction
from tauslab.model.lattice.values import lattice_values
from tauslab.runner.cli.main import main


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


@pytest.mark.parametrize(("x", "per_cent"), [(0.02, 1.0), (0.1, 4.8), (0.5, 21)])
def test_lost_reactions(x, per_cent):
    assert 100 * lost_fraction(x) == pytest.approx(per_cent, rel=0.02)
    assert lost_fraction(x) == pytest.approx(1 - (1 - math.exp(-x)) / x)


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
    """X of a site: k n of A -> 0 at 10 particles a site, k tau = 0.01, and no sub-steps."""
    lattice = pairs()
    lattice.add_reaction("A ->", rate=1000.0, name="die")
    lattice.place("A", count=10_000)
    lattice.reaction_substeps = 1
    facts = lattice_facts(lattice)
    assert facts["reaction_per_pass"] == pytest.approx(0.1)
    assert facts["reactions_per_site_and_pass"]["die"] == pytest.approx(0.1)
    assert facts["one_set_per_step"] == pytest.approx({"meet": 1e-23 / 8e-24, "die": 0.01})
    assert facts["largest_hop"] == pytest.approx(0.025)
    assert facts["bytes"] == {"particles": 16_000, "sites": 1000}
    path = lattice.write(tmp_path / "pairs.h5")
    assert main(["check", str(path)]) == 0
    text = capsys.readouterr().out
    assert "warning: x = a0 tau of a site is expected to reach 0.1 in a pass of reactions" in text
    assert "reaction_substeps = 5, or a step of 2e-06 s, keeps the loss within 1 %" in text
    assert "warning: reaction meet in default: its particles meet too seldom" in text
    assert "h/h_crit: meet 0.158 (default)" in text
    assert "10 particles a site, 16 slots, above them P = 0.027 (27 sites)" in text
    assert main(["check", "--json", str(path)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["lost_reactions"] == pytest.approx(facts["lost_reactions"])
    assert again["pairs"] == facts["pairs"]


def test_a_rare_gene_gets_passes_for_what_it_makes_alone():
    """One gene in 1728 sites with k tau = 0.34; a reaction that uses it up needs no more passes."""
    lattice = ts.Lattice("gene", shape=(12, 12, 12), spacing=32e-9)
    lattice.add_species("G", "M")
    lattice.add_diffusion("M", 1e-14)
    lattice.add_reaction("G -> M", rate=20)
    lattice.place("G", positions=[(6, 6, 6)])
    assert choose_time_step(lattice, lattice_values(lattice)).reaction_substeps == 1
    lattice.add_reaction("G -> G + M", rate=20)
    chosen = choose_time_step(lattice, lattice_values(lattice))
    x = 20 * (32e-9) ** 2 / (6 * 1e-14)
    assert chosen.reaction_substeps == math.ceil(x / 0.02) == 18
    assert chosen.reaction == pytest.approx(x / 18)
    lattice.reaction_substeps = 1
    assert lattice_facts(lattice)["lost_reactions"] == pytest.approx(lost_fraction(x))
    assert any("reaction_substeps = 18" in line for line in lattice_report(lattice))


def test_a_held_face_fills_what_it_leads_to():
    """A ligand at two particles a ghost site, in a lattice that begins empty: x = 2 k tau."""
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
    chosen = choose_time_step(lattice, lattice_values(lattice))
    assert chosen.reaction_substeps == 4
