"""The lattice engine against an independent program for the master equation in space.

First that program against `ssa` on the lattice as a network, then recruitment and binding at a
membrane, as the Min proteins do, in many small cells at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from places import SCRIPTS
from scipy import stats

import tauslab as ts
from tauslab.kernels.lattice.lowering import lower_lattice

CELLS, HIGH, WIDE, LONG = 180, 5, 6, 6  # a cell is 5 x 6 x 6 sites, with a wall above it
TIMES = (0.01, 0.03)
FALSE_ALARM = 1e-6  # of each test of two samples


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)


def check_same_law(one, other):
    """Two samples of counts: chi-square in up to six bins, and their means."""
    both = np.concatenate([one, other])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, 7)[1:-1]))
    table = np.array([np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1)
                      for x in (one, other)])  # fmt: skip
    assert stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue > FALSE_ALARM
    error = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    assert abs(one.mean() - other.mean()) < 4.9 * error, (one.mean(), other.mean(), error)


def of_all_kinds() -> ts.Lattice:
    """Reactions of order 0, 1 and 2, of two kinds and of one, hops between two site types."""
    made = ts.Lattice("kinds", shape=(2, 3, 4), spacing=1.0, step=0.02, boundary="reflecting")
    made.set_boundary("x", "periodic")
    made.add_site_type("water")
    made.add_site_type("gel", np.indices(made.shape)[2] < 2)
    made.add_species("A", "B", "C")
    made.add_diffusion("*", 1.0)
    made.add_diffusion("A", 0.25, source="gel", target="water")
    made.add_diffusion("C", 0, between=("gel", "water"))
    made.add_reaction("-> A", rate=0.3, volume="site", site_types="gel")
    made.add_reaction("A + B -> C", rate=2.0, volume="site", site_types="gel")
    made.add_reaction("2 A -> B", rate=0.5, volume="site")
    made.add_reaction("C -> A + B", rate=0.5)
    made.add_reaction("A ->", rate=0.2, site_types="water")
    made.place("A", positions=[(0, 0, 0)] * 8)
    made.place("B", positions=[(1, 2, 3)] * 6)
    return made


@pytest.mark.validate
def test_the_exact_program_does_what_ssa_does_on_the_network_of_the_lattice():
    """Three species at two times, 400 runs each: six pairs of samples, two tests a pair."""
    from exact_rdme import run_exact

    model, times, runs = of_all_kinds(), [0.5, 2.0], 400
    exact = ts.run(model.to_network(seed=1), n=runs, times=times, seed=3, device="cpu")
    lattice = lower_lattice(model)
    actual = np.array([run_exact(lattice, times, seed).counts for seed in range(runs)])
    for number, name in enumerate(model.species):
        sites = [species for species in exact.species if species.startswith(f"{name}_")]
        expected = np.sum([exact.counts(site) for site in sites], axis=0)
        for k in range(len(times)):
            check_same_law(actual[:, k, number], expected[:, k])


@pytest.mark.validate
def test_events_are_counted_and_faces_checked():
    from exact_rdme import run_exact

    run = run_exact(lower_lattice(of_all_kinds()), [0.0, 1.0], 7)
    assert run.counts[0].tolist() == [8, 6, 0]
    made, bound, joined, freed, lost = run.fired.tolist()
    change = (made - bound - 2 * joined + freed - lost, joined - bound + freed, bound - freed)
    assert (run.counts[1] - run.counts[0]).tolist() == list(change)
    held = ts.Lattice("held", shape=(2, 2, 2), spacing=1.0, step=0.02, boundary="absorbing")
    held.add_species("A")
    held.add_diffusion("A", 1.0)
    with pytest.raises(ValueError, match="held: exact runs have no absorbing faces"):
        run_exact(lower_lattice(held), [1.0], 1)


def cells_with_a_membrane() -> ts.Lattice:
    """Cells that start alike: constants of a site, hops and step are those of the Min proteins."""
    shape = (CELLS * (HIGH + 1), WIDE, LONG)
    made = ts.Lattice("cells", shape=shape, spacing=32e-9, step=5e-5, boundary="reflecting")
    z, _, x = np.indices(shape)
    made.add_site_type("wall")
    made.add_site_type("cytoplasm", (z % (HIGH + 1) < HIGH) & (x >= 2))
    made.add_site_type("membrane", (z % (HIGH + 1) < HIGH) & (x < 2))
    made.add_species("D", "Dm", "E", "DEm")
    for name in ("D", "E"):
        made.add_diffusion(name, 2.5e-12, within="cytoplasm")
        made.add_diffusion(name, 2.5e-12, within="membrane")
        made.add_diffusion(name, 2.5e-12, between=("cytoplasm", "membrane"))
    for name in ("Dm", "DEm"):
        made.add_diffusion(name, 1e-14, within="membrane")
    made.add_reaction("D + Dm -> 2 Dm", rate=623.9, volume="site", site_types="membrane")
    made.add_reaction("Dm + E -> DEm", rate=3854.0, volume="site", site_types="membrane")
    made.add_reaction("DEm -> E + D", rate=0.7, site_types="membrane")
    random = np.random.default_rng(4)
    for name, count, first, end in (("D", 14, 2, LONG), ("E", 6, 2, LONG), ("Dm", 5, 0, 2)):
        places = random.integers((0, 0, first), (HIGH, WIDE, end), size=(count, 3))
        every = np.arange(CELLS)[:, None, None] * (HIGH + 1, 0, 0)
        made.place(name, positions=(places + every).reshape(-1, 3))
    return made


def check_cells(one, other):
    """Particles ``[time, species, plane]`` of two runs, summed by cell: all pairs of samples."""
    for of_one, of_other in zip(one, other, strict=True):
        for planes in zip(of_one, of_other, strict=True):
            check_same_law(*(each.reshape(CELLS, -1).sum(axis=1) for each in planes))


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:cells. reaction R2 in membrane is so fast")
def test_recruitment_and_binding_at_a_membrane_follow_the_master_equation(device, tmp_path):
    """D in solution, D that is bound, E, both: two times, eight pairs of samples."""
    from exact_rdme import run_exact

    model = cells_with_a_membrane()
    exact = run_exact(lower_lattice(model), TIMES, 2).planes
    every = round(TIMES[0] / 5e-5)
    path = tmp_path / "cells.h5"
    with ts.run(model, t_end=TIMES[1], count_every=every, frame_every=every, seed=5,
                device=device, output=path) as result:  # fmt: skip
        planes = [result.kymograph(name, "z")[[1, 3]] for name in model.species]
    check_cells(np.stack(planes, axis=1), exact)


@pytest.mark.validate
@pytest.mark.parametrize("reaction", [0, 1])
def test_half_a_constant_is_seen(reaction):
    """What the test above can tell: recruitment or binding at half its rate fails it."""
    from exact_rdme import run_exact

    lattice = lower_lattice(cells_with_a_membrane())
    changed = list(lattice.reactions)
    changed[reaction] = replace(changed[reaction], rates=changed[reaction].rates / 2)
    slow = replace(lattice, reactions=tuple(changed))
    runs = [run_exact(one, TIMES, seed).planes for one, seed in ((lattice, 2), (slow, 3))]
    with pytest.raises(AssertionError):
        check_cells(*runs)
