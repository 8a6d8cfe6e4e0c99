"""Chains of beads as parts of hybrids: genes, forks, division, restarts."""

from __future__ import annotations

import numpy as np
import pytest
from chain_factory import BEADS, CPU, GENES, cell, chain

import tauslab as ts
from tauslab.analysis.hybrids.driver import HybridRun
from tauslab.base.errors import ConfigError


def run(hybrid, t_end=5.0, **given):
    return ts.run(hybrid, **{"t_end": t_end, "seed": 5, "pilot": 0, "device": CPU} | given)


def genes_at(running, row=0):
    """Sites of gene particles, and where they should be: the sites of their beads."""
    part, lattice = running.parts["dna"], running.parts["space"]
    cells = lattice.particles._motion._lattices.host_cells()[row]
    actual, wanted = {}, {}
    sites = part._chains[row].sites(lattice.grid)
    for key, bead in GENES.items():
        states = [key] if isinstance(key, str) else list(key)
        numbers = [list(lattice.grid.species).index(name) + 1 for name in states]
        at = np.argwhere(np.isin(cells, numbers))[:, :3]
        actual[key] = sorted(map(tuple, at.tolist()))
        own = sites[bead::BEADS]
        wanted[key] = sorted(map(tuple, own[own[:, 0] >= 0].tolist()))
    return actual, wanted


@pytest.mark.parametrize("objects", [False, True])
def test_genes_are_at_their_beads_of_mothers_and_daughters(objects):
    seen = []

    def look(running, _):
        actual, wanted = genes_at(running)
        region = running.parts["dna"]._inside(0)
        for key in GENES:
            assert len(actual[key]) == len(wanted[key])
            inside = [site for site in wanted[key] if region[site]]
            assert all(region[site] for site in actual[key])
            assert set(inside) <= set(actual[key])
            seen.append((len(actual[key]), len(inside) == len(wanted[key])))

    running = HybridRun(cell(objects), n=1, seed=5, t_end=5.0, splitting="strang", device=CPU)
    try:
        running.run(look)
        divisions = running.divider.divisions
    finally:
        running.close()
    assert {number for number, _ in seen} == {1, 2}
    assert np.mean([same for _, same in seen]) > 0.9
    assert len(divisions) == 1
    assert 4.0 <= divisions.time[0] < 5.0
    for name in ("A", "C"):
        mother, first, second = divisions.of(f"space.{name}")
        assert (mother, first, second) == (2, 1, 1)
    states = sum(np.array(divisions.of(f"space.{name}")) for name in ("B", "BX"))
    assert states.reshape(-1).tolist() == [2, 1, 1]
    mother, first, second = divisions.of("space.P")
    assert first + second == mother > 200


def test_beads_and_genes_are_counted():
    seen = []

    def look(view):
        inside = view.mask("space", "cytoplasm") | view.mask("space", "membrane")
        particles, own = view.particles("space", "P"), view.positions("dna")
        sites = tuple(np.floor(own.T / 1e-8).astype(int))
        assert view.values("dna.beads")[0] == len(own)
        assert view.values("space.P")[0] == particles.sum() == particles[inside].sum()
        assert view.particles("space", "A,C").sum() in (2, 3, 4)
        assert inside[sites].all()
        seen.append(view.time)

    result = run(cell(), hooks=[(1.5, look)])
    assert seen == [0.0, 1.5, 3.0, 4.5]
    short = {"t_end": 2.0, "hooks": [(1.0, lambda view: view.particles("space", "P"))]}
    assert run(cell(), **short).digest() == run(cell(), t_end=2.0).digest()
    beads, done = result.values("dna.beads")[0], result.values("net.done")[0]
    at = np.searchsorted(result.time("net"), result.time("dna"))
    assert (beads <= BEADS + done[at]).all()
    assert beads.max() == 2 * BEADS
    assert beads[-1] < 2 * BEADS
    a = result.values("space.A")[0]
    assert set(a.tolist()) == {1.0, 2.0}
    assert result.values("space.P")[0, -1] > 0
    assert any("confine dna: in space.cytoplasm, 3 genes" in line for line in result.links)


def test_where_objects_are():
    space = ts.Lattice("space", shape=(6, 6, 6), spacing=1e-8, step=0.1)
    for name in ("inside", "large"):
        space.add_site_type(name)
    space.add_species("R", "one")
    space.add_diffusion("R", 1e-16, within="inside")
    space.add_diffusion("one", 1e-17, within="inside")
    space.add_object("large", sites=1, follows="R", within="inside")
    space.add_object("point", sites=0, follows="one", obstacle=False)
    space.place("R", count=3, site_type="inside")
    space.place("one", count=2, site_type="inside")
    cells = ts.Hybrid("cells", tick=0.5)
    cells.add_part("space", space)
    moved = []

    def look(view):
        for number in range(2):
            at = view.positions("space", "large", cell=number)
            large = view.mask("space", "large", cell=number)
            assert large.sum() == 7 * len(at) == 21
            particles = np.zeros((6, 6, 6), int)
            np.add.at(particles, tuple(np.floor(at.T / 1e-8).astype(int)), 1)
            assert (particles == view.particles("space", "R", cell=number)).all()
            assert large[particles > 0].all()
            assert len(view.positions("space", cell=number)) == 5
        moved.append(view.positions("space", "large"))

    run(cells, t_end=2.0, n=2, hooks=[(1.0, look)])
    assert [len(moved), moved[0].shape] == [3, (3, 3)]
    assert not np.array_equal(moved[0], moved[2])


@pytest.mark.parametrize(
    ("every", "hook", "said"),
    [
        (0.75, print, "hooks: 0.75 is not a whole multiple of 0.5"),
        (0.5, None, "each is .seconds, function."),
        (0.5, lambda view: view.values("space.Q"), "'space.Q' is not a recorded quantity: part sp"),
        (0.5, lambda view: view.mask("space", "wall"), "no name matches 'wall'; known are outs"),
        (0.5, lambda view: view.particles("dna"), "part dna is not a lattice"),
        (0.5, lambda view: view.positions("space"), "part space is neither a polymer"),
        (0.5, lambda view: view.positions("rna"), "no part 'rna'; there are space, net, dna"),
    ],
)
def test_what_hooks_cannot_have_is_refused(every, hook, said):
    with pytest.raises(ConfigError, match=said):
        run(cell(), t_end=0.5, hooks=[(every, hook)])


def test_cells_that_are_stopped_go_on_with_the_same_bits(tmp_path):
    """Before and after a division, among cells of which a daughter replaces another."""

    class StopError(Exception):
        pass

    def of(path, **given):
        made = cell()
        made.dividing = made.dividing.__class__(
            **{**made.dividing.__dict__, "follow": "population"}
        )
        return run(made, n=2, output=str(path), **given)

    whole = of(tmp_path / "whole.h5")
    assert len(whole.divisions)
    ran, path = HybridRun.run, tmp_path / "stopped.h5"
    for stop in (1.5, 4.5):

        def until(self, kept, stop=stop):
            def keep(now, last):
                if min(now._reached) * now.tick / 2 >= stop:
                    kept(now, last)
                    raise StopError

            ran(self, keep)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HybridRun, "run", until)
            with pytest.raises(StopError):
                of(path, checkpoint_every=0, resume=stop > 1.5)
    assert of(path, resume=True).digest() == whole.digest()


def test_what_cannot_be_is_refused():
    made = cell()
    for words, act in {
        "confined twice": lambda: made.confine("dna", "space.cytoplasm"),
        "a chain and a lattice are expected": lambda: made.confine("net", "space.cytoplasm"),
        "no parameter": lambda: made.drive("dna.loops", "net.done"),
        "it takes every=": lambda: made.add_part("other", chain(), method="ssa"),
        "no species that reactions change": lambda: made.share("net.done", "dna.beads"),
    }.items():
        with pytest.raises(ConfigError, match=words):
            act()
    other = ts.Hybrid("other", tick=1.0)
    other.add_part("space", made.parts["space"].model)
    other.add_part("dna", chain())
    for genes, words in (
        ({"P": 3}, "pins"),
        ({"A": 60}, "at bead 60 of 60"),
        ({("A", "A"): 1}, "one gene"),
    ):
        with pytest.raises(ConfigError, match=words):
            other.confine("dna", "space.cytoplasm", genes=genes)
    early = cell()
    early.dividing = None
    early.divide("time >= 1", partition={"net.area": "share"})
    with pytest.raises(ConfigError, match="let the condition ask for dna"):
        run(early, t_end=2.0)
