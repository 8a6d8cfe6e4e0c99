"""A chain, alone and beside a lattice: bits, files, walls, forks, loops, genes, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from machine_bits import chain_digest

import tauslab as ts

BOND = 3.4e-9


def ring(device="cpu", **more):
    given = {"beads": 200, "bond": BOND, "diffusion": 1e-12, "ring": True, "stretch": 0.1,
             "persistence": 1.5e-8, "repulsion": 5.0, "seed": 4}  # fmt: skip
    return ts.Polymer("dna", device=device, **(given | more))


def box(side=24):
    return ts.Lattice("box", shape=(side,) * 3, spacing=4e-9)


BALL = ts.shapes.sphere(radius=4e-8)


def moved(device, steps):
    """A chain after all that can happen to it, with calls of so many steps."""
    chain = ring(device)
    chain.confine(box(), BALL)
    for k in range(3):
        for _ in range(120 // steps):
            chain.run(steps)
        assert chain.replicate(20, 30, origin=5) == (51 if k == 0 else 50)
        sites = chain.sites(box())
        assert BALL(box())["cytoplasm"][tuple(sites[sites[:, 0] >= 0].T)].all()
    chain.set_loops([[10, 100], [150, 250]])
    chain.advance(chain.time + 60 * chain.step)
    return chain


def test_bits_depend_on_neither_threads_nor_calls_nor_files(device, tmp_path):
    chain, other = moved(ts.CPU(threads=1), 120), moved(device if device != "cpu" else ts.CPU(3), 8)
    assert np.isfinite(chain.positions).all(axis=1).sum() == 200 + 151
    np.testing.assert_array_equal(chain.positions, other.positions)
    chain.save(tmp_path / "chain.h5")
    loaded = ts.Polymer.load(tmp_path / "chain.h5", device=device)
    assert loaded.time == chain.time
    for one in (chain, loaded):
        one.run(50)
        assert one.replicate(100, 3) == 49
        one.run(50)
    np.testing.assert_array_equal(chain.positions, loaded.positions)
    assert repr(loaded).startswith("<Polymer dna: ring of 200 beads at t = ")


def test_bits_are_those_of_every_machine():
    digest = "0b6bd5ad52627ae48f7c26938b9063fabadad2bc6f1d88b9a335ac268a04842f"
    assert chain_digest() == digest


def test_chains_of_other_names_have_other_noise():
    """Moves of free beads are not correlated: 4 of their standard deviations, of 6,000 numbers."""
    moves = []
    for name in ("one", "other"):
        free = {"beads": 1000, "bond": 1.0, "diffusion": 1e-3, "positions": np.zeros((1000, 3))}
        with ts.Polymer(name, seed=1, device="cpu", **free) as chain:
            chain.run(2)
            moves.append(chain.positions.reshape(-1))
    assert abs(np.corrcoef(moves)[0, 1]) < 4 / np.sqrt(3000)


def test_a_chain_follows_walls_that_move():
    chain = ring(repulsion=0.0)
    chain.confine(box(), BALL)
    smaller = ts.shapes.sphere(radius=2.5e-8)
    chain.confine(box(), smaller)
    mask = smaller(box())["cytoplasm"]
    outside = [(~mask[tuple(chain.sites(box()).T)]).sum()]
    for _ in range(20):
        chain.run(500)
        outside.append((~mask[tuple(chain.sites(box()).T)]).sum())
    assert outside == sorted(outside, reverse=True)
    assert outside[-1] == 0


def test_a_copy_begins_where_its_original_is():
    chain = ts.Polymer("line", beads=6, bond=1.0, diffusion=1.0, seed=1, device="cpu")
    assert chain.replicate(0, 1, origin=2) == 2
    now = chain.positions
    np.testing.assert_array_equal(now[8:10], now[2:4])
    assert np.isnan(now[[6, 7, 10, 11]]).all()
    assert chain.replicate(5, 5) == 4
    assert chain.replicate(1, 1) == 0


def test_hooks_may_ask_for_times_between_steps():
    chain = ring()
    for t, steps in ((0.6, 1), (0.7, 1), (1.5, 2), (1.5, 2), (2.6, 3)):
        chain.advance(t * chain.step)
        assert chain.time == steps * chain.step
    with pytest.raises(ts.ConfigError, match="a time from"):
        chain.advance(2.4 * chain.step)


def test_genes_follow_their_beads():
    lattice = box()
    lattice.add_species("gene", "other", "late")
    lattice.add_diffusion("other", 1e-13)
    lattice.place("gene", positions=[[12, 12, 12]])
    lattice.place("other", count=5)
    chain = ring()
    chain.confine(lattice, BALL)
    chain.replicate(1, 1)
    seen = []

    def follow(view):
        chain.advance(view.time / 1e3)
        chain.move_genes(view, {"gene": 17, "late": 217})
        own = np.argwhere((np.asarray(view.particles) == view.number("gene") + 1).any(axis=3))
        seen.append((own.tolist(), chain.sites(view)[17].tolist()))
        view.remove("late")

    ts.run(lattice, t_end=1e-2, hooks=[(20, follow)], seed=1, device="cpu", quiet=True)
    assert len(seen) > 3
    assert all(own == [site] for own, site in seen)
    sites = chain.sites(lattice)
    assert chain.mask(lattice).sum() == len(np.unique(sites[sites[:, 0] >= 0], axis=0))


def test_tracks_have_the_interface_of_chains(tmp_path):
    frames = np.arange(4)[:, None, None] * np.full((5, 3), 4e-9)
    np.save(tmp_path / "frames.npy", frames)
    tracks = [
        ts.BeadTrack("a", frames, every=2.0),
        ts.BeadTrack("b", tmp_path / "frames.npy", every=2.0),
        ts.BeadTrack("c", lambda t: frames[min(3, int(t // 2))]),
    ]
    for t, site in ((0.0, 0), (3.9, 1), (4.0, 2), (100.0, 3)):
        for track in tracks:
            track.advance(t)
            assert track.time == t
            assert (track.sites(box()) == site).all()
    often = ts.BeadTrack("often", frames, every=0.1)
    often.advance(0.3)  # 0.3 < 3 * 0.1
    assert (often.sites(box()) == 3).all()
    assert (ts.BeadTrack("still", frames[2]).sites(box()) == 2).all()
    with pytest.raises(ts.ConfigError, match="a time from 100 s on"):
        tracks[0].advance(1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"beads": 2}, "beads"),
        ({"bond": 0.0}, "bond=0 is not allowed: a number above 0"),
        ({"stretch": 0}, "stretch=0 is not allowed"),
        ({"diffusion": "fast"}, "diffusion"),
        ({"repulsion": -1.0}, "repulsion"),
        ({"stretch": None}, "give stretch= too"),
        ({"step": 1.0}, "a step is at most 0.5 of it"),
        ({"positions": np.zeros((3, 3))}, "for 200 beads"),
        ({"positions": [[1, 2]]}, r"not an array of \[1, 2\]"),
        ({"bond": 1e-300}, "no time step that is a number"),
        ({"diffusion": 1e300}, "no time step that is a number"),
        ({"seed": -1}, "seed=-1 is not allowed"),
        ({"seed": 1.5}, "seed=1.5 is not allowed"),
        ({"bonds": 1}, "did you mean bond=?"),
    ],
)
def test_refused_chains(given, words):
    with pytest.raises(ts.ConfigError, match=words):
        ring(**given)


def test_refused_calls(tmp_path):
    chain = ring()
    for call, words in (
        (lambda: chain.advance(-1.0), "a time from 0 s on"),
        (lambda: chain.advance("1"), "a time from 0 s on"),
        (lambda: chain.run(1.5), "steps"),
        (lambda: chain.confine(box(), np.ones((24, 24, 24), bool), radius=1), "no quantities"),
        (lambda: chain.set_loops([[1, 5], [1]]), "loops are pairs"),
        (lambda: chain.confine(box(), np.zeros((24, 24, 24), bool)), "some of them true"),
        (lambda: chain.confine(box(), np.ones((2, 2, 2), bool)), "a region is booleans"),
        (lambda: chain.set_loops([[1, 1]]), "two beads that exist"),
        (lambda: chain.set_loops([[1, 999]]), "from 0 to 199"),
        (lambda: chain.set_loops([[1, 9], [1, 20], [1, 30]]), "more than two others"),
        (lambda: chain.sites(box(1)), "are outside of the lattice"),
        (lambda: ts.BeadTrack("x", np.zeros((4, 2, 3))), "with every= above 0"),
        (lambda: ts.BeadTrack("x", np.zeros((4, 2, 3)), every="1"), "with every= above 0"),
        (lambda: ts.BeadTrack("x", lambda _: [[0, 0, 0]], every=1.0), "a function has the time"),
    ):
        with pytest.raises(ts.ConfigError, match=words):
            call()
    (tmp_path / "x.npy").write_text("no array")
    for read in (ts.Polymer.load, lambda path: ts.BeadTrack("x", path)):
        with pytest.raises(ts.InputFileError, match=r"x\.npy"):
            read(tmp_path / "x.npy")
