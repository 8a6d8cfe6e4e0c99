"""Hooks: what they see, change and paint, and how a run goes on with them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from lattice_factory import empty_lattice
from lattice_run_factory import GIVEN, digest, meddling, run
from sampling import ordinary

from tauslab.base.errors import ConfigError, OutputError


@pytest.fixture(autouse=True, params=ordinary(["slots", "planes"], "slots"))
def _engine(request, monkeypatch):
    """All of them with either storage; an ordinary run has planes in `test_hook_verbs.py`."""
    monkeypatch.setitem(GIVEN, "engine", request.param)


def test_hooks_see_and_change_the_lattice():
    seen = []

    def hook(view):
        seen.append((view.step, view.count("A"), view.count("A", "gel")))
        assert view.particles.shape == (4, 6, 7, 8)
        if view.step == 20:
            view.set_rate("bind", 0.0)
            view.set_rate("unbind", 0.0)
            assert view.relabel("B", "C") > 0
            assert (view.particles == view.number("B") + 1).sum() == 0  # but some may wait
        if view.step == 40:
            before = view.count("A")
            mask = np.zeros((4, 6, 7), bool)
            mask[:2] = True
            gone = view.remove("A", where=mask)
            view.add("A", [(0, 0, 0)] * 11 + [(3, 5, 6)])  # more than a site holds
            assert view.count("A") == before - gone + 12
            assert (view.particles[:2][..., 1:] > 0).sum() > 0
            full = (view.particles > 0).astype(int)
            assert (np.diff(full, axis=-1) <= 0).all()

    with run(hooks=[(20, hook)], frame_every=0, count_every=20) as result:
        assert [step for step, _, _ in seen] == [20, 40, 60]
        assert result.counts("B")[3] == result.counts("B")[2] < 10
        total = sum(result.counts(name) for name in "ABC")
        assert (total[2] == total[1]) or len(total) == 4
        with h5py.File(result.path) as file:
            assert np.array_equal(file["reactions_fired"][2], file["reactions_fired"][3])


def test_a_rate_that_a_hook_raises_is_judged():
    """One sentence when pairs become so fast that hops should come between; none when slower."""

    def hook(view):
        view.set_rate("bind", {20: 5.0, 40: 5e4, 60: 4e4}[view.step])

    with pytest.warns(UserWarning, match="reaction bind in water is so fast") as message:
        run(hooks=[(20, hook)], frame_every=0, count_every=20).close()
    assert len(message) == 1


def test_a_run_goes_on_from_a_frame_whose_hooks_were_not_called(tmp_path, monkeypatch):
    """It ends in the hook itself: the last frame shows the lattice before the hook."""
    unbroken, path = tmp_path / "unbroken.h5", tmp_path / "broken.h5"
    run(unbroken, hooks=[(10, meddling)]).close()

    def failing(view):
        if view.step == 30:
            raise OutputError("the disk is full")
        meddling(view)

    with pytest.raises(OutputError):
        run(path, hooks=[(10, failing)])
    run(path, hooks=[(10, meddling)], resume=True).close()
    assert digest(path) == digest(unbroken)


def test_particles_that_hooks_add_to_a_full_site_all_wait():
    """Twice in a hook: each has its own place in the order of those that wait."""

    def hook(view):
        before = view.count("C")
        view.add("C", [(0, 0, 0)] * 12)
        view.add("C", [(0, 0, 0)] * 7)
        assert view.count("C") == before + 19

    with run(hooks=[(20, hook)], frame_every=0, count_every=1) as result:
        total = result.counts("A") + result.counts("B") + 2 * result.counts("C")
        assert (np.diff(total)[[20, 40]] == 38).all()
        assert (np.delete(np.diff(total), [20, 40]) == 0).all()


def test_hooks_paint_sites():
    """Particles are born where nothing was, by a reaction of the new site type."""
    lattice = empty_lattice((9, 40, 50), {"A": 0.0}, slots=8)
    lattice.add_site_type("water")
    lattice.add_site_type("source", np.zeros((9, 40, 50), bool))
    lattice.add_reaction("-> A", rate=2000, volume="site", site_types="source")
    where = np.zeros((9, 40, 50), bool)
    where[7, 33:36, 41:44] = True

    def hook(view):
        if view.step == 20:
            assert view.paint("source", where=where) == 9
            assert view.paint("source", where=where) == 0
        elif view.step == 40:
            assert view.paint("water") == 9
            view.particles[0, 0, 0, 0] = 1  # by hand, where nothing was

    with run(lattice=lattice, hooks=[(20, hook)], frame_every=10, count_every=10) as result:
        counts = result.counts("A")
        assert (counts[:3] == 0).all()
        assert counts[3] > 0
        assert counts[4] > counts[3]
        assert (counts[5:] == counts[4] + 1).all()
        assert (result.counts("A", "source")[:5] == counts[:5]).all()
        assert (result.counts("A", "source")[5:] == 0).all()
        painted = [(result.sites(frame) == 1) for frame in range(7)]
        assert [bool(p.any()) for p in painted] == [False] * 3 + [True] * 2 + [False] * 2
        assert np.array_equal(painted[3], where)
        assert ((result.density("A", 4) > 0) <= where).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda v: v.remove("A", where=np.ones((3, 6, 7), bool)),
            r"mask of \[3, 6, 7\] is neither",
        ),
        (lambda v: v.remove("A", where=np.full((4, 6, 7), np.nan)), "float64 is no mask"),
        (lambda v: v.paint("gel", where=np.ones((4, 6, 7), int)), "int64 is no mask"),
        (lambda v: v.relabel("A", "B", where=[(0, 0, 0)]), "list is no mask"),
        (lambda v: v.add("A", [(1.7, 2.0, 3.0)]), r"positions are float64 \[1, 3\]"),
        (lambda v: v.add("A", [(1, 2, -3)]), r"\[1, 2, -3\] is outside"),
        (lambda v: v.add("A", [1, 2, 3, 1, 2, 3]), r"positions are int64 \[1, 6\]"),
        (lambda v: v.add("X", [(1, 2, 3)]), "'X' is not a species"),
        (lambda v: v.set_rate("bind", np.nan), "nan.*finite"),
        (lambda v: v.set_rate("bind", -1.0), "-1.*0 or more"),
        (lambda v: v.set_rate("bind", 1.0, "fat"), "'fat' is not a site type"),
        (lambda v: v.particles.fill(4), r"\d+ hold no species.*up to 3"),
        (lambda v: v.particles[0, 0, 0].__setitem__(-1, 1), "1 come after an empty one"),
        (lambda v: v.memory.__setitem__(3, 1), r"memory\[3\]"),
        (lambda v: v.memory.update(seen={1, 2}), r"memory\['seen'\].*cannot be stored"),
    ],
)
def test_what_a_hook_may_not_do_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        run(hooks=[(20, change)])


def test_a_hook_notes_what_a_resumed_run_reads():
    seen = []

    def hook(view):
        seen.append(view.memory.get("place"))
        view.memory["place"] = (1, 2)
        view.add("A", [])
        view.add("A", (0, 0, 0))

    run(hooks=[(20, hook)]).close()
    assert seen == [None, [1, 2], [1, 2]]
