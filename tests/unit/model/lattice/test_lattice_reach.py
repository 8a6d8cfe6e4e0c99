"""What `tauslab check` says of species that do not move and reactions that never happen."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.model.lattice.diagnosis.check import lattice_facts, lattice_report


def cell() -> ts.Lattice:
    """A is placed in the cytoplasm and should become M at the membrane; G makes A."""
    lattice = ts.Lattice("cell", shape=(4, 5, 6), spacing=1e-8, step=1e-6)
    lattice.add_site_type("outside")
    for name, plane in (("cytoplasm", 1), ("membrane", 2)):
        lattice.add_site_type(name, np.indices((4, 5, 6))[0] == plane)
    lattice.add_site_type("pore", np.zeros((4, 5, 6), bool))
    lattice.add_species("A", "M", "G", "X")
    lattice.add_diffusion("A", 1e-12, within="cytoplasm")
    lattice.add_diffusion("M", 1e-14, within="membrane")
    lattice.add_reaction("A -> M", rate=1, site_types="membrane", name="insert")
    lattice.add_reaction("G -> G + A", rate=1, site_types="cytoplasm", name="make")
    lattice.add_reaction("M + X ->", rate=1, volume="site", name="meet")
    lattice.add_reaction("A + X ->", rate=0, volume="site", name="off")
    lattice.place("G", count=1, site_type="cytoplasm")
    return lattice


def never(lattice):
    return lattice_facts(lattice)["never_happening"]


def test_a_forgotten_rule_shows():
    lattice = cell()
    assert never(lattice) == {
        "insert": "A does not come to membrane",
        "meet": "there is never any M",
    }
    assert lattice_facts(lattice)["at_rest"] == ["G"]
    report = lattice_report(lattice)
    assert "species that do not move: G" in report
    assert any("reaction insert never happens unless a hook" in line for line in report)
    lattice.add_diffusion("A", 1e-12, source="cytoplasm", target="membrane")
    assert list(never(lattice)) == ["meet"]


@pytest.mark.parametrize(("ghost_type", "comes"), [("cytoplasm", True), ("pore", False)])
def test_what_comes_over_a_held_face_is_there(ghost_type, comes):
    """X hops from a ghost of the cytoplasm to the membrane, and from no other."""
    lattice = cell()
    lattice.add_diffusion("A", 1e-12, between=("cytoplasm", "membrane"))
    lattice.add_diffusion("X", 1e-12, source="cytoplasm", target="membrane")
    lattice.set_boundary("x+", "held", concentrations={"X": 1e-6}, site_type=ghost_type)
    assert ("meet" not in never(lattice)) == comes
    assert lattice_facts(lattice)["at_rest"] == (["G", "X"] if comes else ["G"])


def test_particles_that_stay_apart_and_types_without_sites():
    lattice = cell()
    lattice.place("M", positions=[(2, 0, 0)])
    lattice.place("X", positions=[(0, 0, 0)])
    lattice.add_reaction("G ->", rate=1, site_types="pore", name="leave")
    actual = never(lattice)
    assert actual["meet"] == "its reactants do not come to a site type together"
    assert actual["leave"] == "no site has the type pore"


@pytest.mark.parametrize("obstacle", [False, True])
def test_reactions_in_objects_happen_where_particles_can_be(obstacle):
    lattice = ts.Lattice("cell", shape=(9, 9, 9), spacing=1e-8, step=5e-5)
    lattice.add_species("R", "M", "P")
    lattice.add_diffusion(["R", "M"], 1e-13)
    lattice.add_object("ribosome", sites=1, follows="R", within="default", obstacle=obstacle)
    lattice.add_reaction("R -> R + P", rate=1, site_types="ribosome", name="own")
    lattice.add_reaction("M -> P", rate=1, site_types="ribosome", name="inside")
    for name in ("R", "M"):
        lattice.place(name, count=8, site_type="default")
    assert never(lattice) == ({"inside": "M does not come to ribosome"} if obstacle else {})
    assert lattice_facts(lattice)["at_rest"] == ["P"]
