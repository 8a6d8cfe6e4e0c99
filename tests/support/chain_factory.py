"""A small cell with a chain of beads, which copies its chain, grows and divides."""

from __future__ import annotations

import math

import tauslab as ts

RADIUS = 60.0  # nm
AREA, VOLUME = 4 * math.pi * RADIUS**2, 4 / 3 * math.pi * RADIUS**3
BEADS = 60
CPU = ts.CPU(threads=1)
GENES = {"A": 3, ("B", "BX"): 20, "C": 21}
FORKS = {"todo": BEADS, "done": 0}


def chain(**more):
    given = {"beads": BEADS, "bond": 8e-9, "diffusion": 4e-16, "ring": True, "repulsion": 2.0,
             "seed": 4, "device": "cpu"}  # fmt: skip
    return ts.Polymer("dna", **(given | more))


def cell(objects=False, **dna):
    """A cell that copies its chain in 3 s, and doubles its area in 4 s."""
    space = ts.Lattice("space", shape=(28, 16, 16), spacing=1e-8, step=0.01)
    shape = ts.shapes.sphere(radius=RADIUS * 1e-9, shells={"membrane": 1})
    for name, mask in {"outside": None, **shape(space)}.items():
        space.add_site_type(name, mask)
    space.add_species("A", "B", "BX", "C", "P", "R")
    space.add_diffusion("P", 1e-15, within="cytoplasm")
    space.pin(["A", "B", "BX", "C"])
    space.add_reaction("A -> A + P", rate=8.0, name="make")
    space.add_reaction("B -> BX", rate=1.0, name="bind")
    space.add_reaction("BX -> B", rate=1.0, name="loose")
    space.place("P", count=200, site_type="cytoplasm")
    if objects:
        space.add_diffusion("R", 1e-16, within="cytoplasm")
        space.add_object("big", sites=1, follows="R", within="cytoplasm")
        space.place("R", count=3, site_type="cytoplasm")
    net = ts.Network("net")
    for name, count in FORKS.items():
        net.add_species(name, count)
    net.add_species("area", AREA)
    net.add_rate("area", f"{math.log(2) / 4:.6g} * area")
    net.add_reaction("todo -> done", law=f"{BEADS / 3} * min(todo, 1)", name="copy")
    made = ts.Hybrid("cell", tick=0.25)
    made.add_part("space", space)
    made.add_part("net", net)
    made.add_part("dna", chain(**dna), every=0.5)
    made.confine("dna", "space.cytoplasm", genes=GENES)
    made.drive("dna.copied", "net.done")
    shells = {"membrane": 1}
    made.shape("space", ts.shapes.dividing_sphere(
        area="1e-18 * net.area", volume=2e-27 * VOLUME, shells=shells), every=0.5)  # fmt: skip
    made.divide(f"net.area >= {2 * AREA} and dna.beads == {2 * BEADS}", partition={
        "net.area": "share", "net.todo": "initial", "net.done": "initial"})  # fmt: skip
    return made
