"""Verbs of hooks that act on many species, reactions and sites at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.lattice import changing
from tauslab.store.results.digest import digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines

SHAPE = (6, 7, 9)
GIVEN = {"device": "cpu", "seed": 3, "quiet": True}


@pytest.fixture(autouse=True, params=ordinary(["slots", "planes"], "planes"))
def engine(request, monkeypatch) -> str:
    """All of them with either storage."""
    monkeypatch.setitem(GIVEN, "engine", request.param)
    return request.param


IN_SLOTS = pytest.mark.parametrize("engine", ["slots"], indirect=True)


def cell(slots=8, **numbers):
    """A turns into B where it can be, in the upper half."""
    made = ts.Lattice("cell", shape=SHAPE, spacing=3e-8, slots=slots, step=1e-4)
    made.add_site_type("out")
    made.add_site_type("in", np.indices(SHAPE)[0] > 2)
    made.add_species("A", "B", "C")
    made.add_diffusion("*", 1e-12, within="in")
    made.add_reaction("A -> B", rate=100.0, name="turn")
    made.add_reaction("B -> A", rate=40.0, name="back")
    for name, count in (numbers or {"A": 300, "C": 40}).items():
        made.place(name, count=count, site_type="in")
    return made


def run(hook, model=None, steps=20, every=10, **given):
    return ts.run(model or cell(), t_end=steps * 1e-4, hooks=[(every, hook)], **GIVEN | given)


def seen(look, **given):
    """What `look` of a view gives, at the start."""
    actual = []
    run(lambda v: actual.append(look(v)), every=99, at_start=True, **given).close()
    return actual[0]


def test_all_counts_and_firings():
    actual = []

    def hook(view):
        counts = view.counts()
        assert counts.tolist() == [view.count(name) for name in view.species]
        by_type = view.counts(by="site_type")
        assert by_type.shape == (2, 3)
        assert (by_type.sum(axis=0) == counts).all()
        fired = view.fired()
        assert (view.fired() == 0).all()
        counts[:] = -1  # a copy
        actual.append((view.step, view.count("A"), view.count("B"), *fired.tolist()))

    with run(hook, steps=40, at_start=True, count_every=10) as result:
        assert [row[0] for row in actual] == [0, 10, 20, 30, 40]
        assert actual[0] == (0, 300, 0, 0, 0)
        for (_, _, before, *_), (_, _, after, turned, back) in itertools.pairwise(actual):
            assert after - before == turned - back
        assert result.counts("A").tolist() == [row[1] for row in actual]
    assert seen(lambda v: v.reaction_names) == ("turn", "back")


def test_counts_are_made_once_between_changes(monkeypatch):
    kept, made = [], []
    inner = CpuBackend.download

    def counted(self, *args):
        made.append(1)
        return inner(self, *args)

    def look(view):
        monkeypatch.setattr(CpuBackend, "download", counted)
        for name in "ABC" * 5:
            view.count(name)
        view.fired()
        kept.append(len(made))
        view.particles[3, 0, 0, :] = [1] * 8
        before = view.count("A")
        view.particles[3, 0, 0, 0] = 2
        monkeypatch.setattr(CpuBackend, "download", inner)
        return before - view.count("A")

    assert seen(look) == 1
    assert kept == [1]


def test_species_swap_and_keep_their_order(engine):
    """In planes the order of species is that of their numbers."""
    swapped = [2, 2, 1, 3] if engine == "slots" else [1, 2, 2, 3]

    def look(view):
        view.add({"A": [(0, 0, 0), (0, 0, 0)], "B": [(0, 0, 0)], "C": [(0, 0, 0)]})
        assert view.particles[0, 0, 0].tolist() == [1, 1, 2, 3, 0, 0, 0, 0]
        before = view.counts()
        assert view.relabel({"A": "B", "B": "A"}) == {"A": before[0], "B": before[1]}
        assert view.particles[0, 0, 0].tolist() == [*swapped, 0, 0, 0, 0]
        assert view.counts().tolist() == before[[1, 0, 2]].tolist()
        where = np.zeros(SHAPE, bool)
        where[0, 0, 0] = True
        assert view.remove(["A", "B"], where=where) == {"A": 1, "B": 2}
        assert view.particles[0, 0, 0].tolist() == [3, 0, 0, 0, 0, 0, 0, 0]
        assert view.remove("C") == before[2]
        assert view.counts().sum() == before.sum() - before[2] - 3
        full = np.asarray(view.particles > 0).astype(int)
        assert (np.diff(full, axis=-1) <= 0).all()

    seen(look)


def test_numbers_are_taken_at_random():
    """Of 300 and 40 particles; the share of the lower half within 4.5 sd, 7e-6 of false alarms."""
    left = []

    def look(view):
        before = view.counts()
        assert view.remove({"A": 250, "C": 1000}) == {"A": 250, "C": 40}
        assert view.counts().tolist() == [before[0] - 250, 0, 0]
        assert view.remove({"A": 0, "B": 3}) == {"A": 0, "B": 0}
        left.append(np.argwhere(np.asarray(view.particles) == 1)[:, 2].mean())

    for seed in range(12):
        seen(look, seed=seed)
    middle, sd = (SHAPE[2] - 1) / 2, np.sqrt((SHAPE[2] ** 2 - 1) / 12)
    assert abs(np.mean(left) - middle) < 4.5 * sd / np.sqrt(12 * 50)


def test_particles_are_chosen_alike_where_lists_have_to_grow(monkeypatch):
    crowded = cell(A=900, B=2, C=40)

    def look(view):
        gone = [view.remove({"A": count, "B": 3, "C": 1}) for count in (3, 1, 400)]
        return gone, np.asarray(view.particles).copy()

    gone, particles = seen(look, model=crowded)
    assert [one["B"] for one in gone] == [2, 0, 0]
    monkeypatch.setattr(changing, "_ROOM", 16)
    same, others = seen(look, model=crowded)
    assert same == gone
    assert (others == particles).all()


def test_particles_are_placed_in_sites_of_a_type():
    def look(view):
        view.place({"B": 500, "C": 3}, "in")
        counts = view.counts(by="site_type")
        assert counts.tolist() == [[0, 0, 0], [300, 500, 43]]
        first = np.asarray(view.particles == 2).sum(axis=-1)
        assert first.max() <= 8
        view.place({"B": 500}, "in")
        again = np.asarray(view.particles == 2).sum(axis=-1) - first
        assert (again != first).any()
        view.paint("in")
        view.place({"A": 4000}, "in")
        assert view.counts(by="site_type")[1, 0] == 4300  # of 3024 slots, so that some wait
        assert (np.asarray(view.particles[0]) == 1).any()
        view.place({"A": 10})
        assert view.count("A") == 4310

    seen(look)


def test_those_that_wait_are_kept_where_some_have_entered():
    """Particles that hooks put at the same full site after steps 0 and 1."""
    model = ts.Lattice("one", shape=(1, 1, 2), spacing=3e-8, slots=8, step=1e-4)
    model.add_species("A", "B")
    model.add_reaction("B ->", rate=3e3)
    held = []

    def hook(view):
        held.append(view.count("A"))
        if view.step == 0:
            view.add({"B": [(0, 0, 0)] * 4, "A": [(0, 0, 0)] * 14})
        if view.step == 1:
            assert view.count("B") < 4
            view.add("A", [(0, 0, 0)] * 4)

    run(hook, model, steps=5, every=1, at_start=True).close()
    assert held == [0, 14, 18, 18, 18, 18]


def test_rates_of_several_reactions():
    def hook(view):
        view.set_rates({"turn": 0.0, "back": 0.0}, "in")
        view.set_rates({})

    with run(hook, steps=40, count_every=10) as result:
        assert result.counts("A")[1] < 300
        assert (result.counts("A")[1:] == result.counts("A")[1]).all()


def test_a_rate_is_set_where_the_model_has_the_reaction():
    """Also where its rate is 0, and elsewhere only in the site type that is named."""

    def inside(model, rate):
        model.add_reaction("C -> B", rate=rate, name="here", site_types="in")

    def outside(rate, *site_type):
        """C that are left of 40 out, after 40 in have reacted."""
        model = cell(C=40)
        inside(model, 0.0)
        model.place("C", count=40, site_type="out")
        with run(lambda v: v.set_rate("here", rate, *site_type), model, at_start=True) as result:
            return result.counts("C")[-1]

    assert outside(1e5) == 40
    assert outside(1e5, "out") == 40
    assert outside(0.0) == 80


@IN_SLOTS
def test_a_start_is_called_once(tmp_path):
    """A run that is stopped goes on, and does not call it again."""
    steps = []

    def hook(view):
        steps.append(view.step)
        view.place({"C": 5}, "in")

    with run(hook, steps=30, at_start=True, count_every=10) as whole:
        assert steps == [0, 10, 20, 30]
        assert whole.counts("C").tolist() == [40, 45, 50, 55]
    requested = iter([False, True])
    path = tmp_path / "a.h5"
    with pytest.raises(ts.StoppedEarly):
        run(
            hook, steps=30, at_start=True, count_every=10, output=path, stop=lambda: next(requested)
        )
    with run(hook, steps=30, at_start=True, count_every=10, output=path, resume=True) as result:
        assert result.counts("C").tolist() == [40, 45, 50, 55]
    assert steps[4:] == [0, 10, 20, 30]


@IN_SLOTS
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.counts(by="species"), "by='species'"),
        (lambda v: v.relabel("A"), "the new species is missing"),
        (lambda v: v.relabel({"A": "X"}), "'X' is not a species"),
        (lambda v: v.relabel({"A": "", "B": "A"}), "'' is not a species"),
        (lambda v: v.relabel({"A": None}), "a new name is None"),
        (lambda v: v.relabel({"A": "B"}, "C"), "leave out 'C'"),
        (lambda v: v.remove({"A": 1.5}), r"remove\('A'\): 1.5 is no number"),
        (lambda v: v.remove({"A": 1 << 70}), "is no number of particles"),
        (lambda v: v.place({"A": 1 << 40}), "is no number of particles"),
        (lambda v: v.remove({"A": 1}, where=np.ones(SHAPE, bool)), "goes with all particles"),
        (lambda v: v.place({"A": -1}), r"place\('A'\): -1"),
        (lambda v: v.place({"A": 1}, "fat"), "'fat' is not a site type"),
        (lambda v: (v.paint("in"), v.place({"A": 1}, "out")), "no site is of type 'out'"),
        (lambda v: v.set_rates({"turn": 1.0, "gone": 1.0}), "'gone' is not a reaction"),
        (lambda v: v.set_rates({"turn": 1.0, "back": np.inf}), r"set_rate\('back', inf\)"),
        (lambda v: v.set_rate("turn", float("nan")), r"set_rate\('turn', nan\)"),
        (lambda v: v.set_rate("turn", -1), r"set_rate\('turn', -1\)"),
        (lambda v: v.set_rate("turn", "fast"), r"set_rate\('turn', 'fast'\)"),
        (lambda v: v.set_rate("turn", None), r"set_rate\('turn', None\)"),
        (lambda v: v.set_rate("turn", [1.0, 2.0]), r"set_rate\('turn', \[1.0, 2.0\]\)"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        seen(change)


def all_verbs(view):
    view.relabel({"A": "B", "C": "A"}, where=np.indices(SHAPE)[2] > 4)
    taken = view.remove({"A": 60, "B": 7})
    view.place({"C": taken["A"], "B": 9}, "in")
    view.add({"A": [(4, 3, 3)] * 5, "C": [(4, 3, 3)] * 7})
    view.set_rates({"turn": 10.0 + view.fired().sum() % 7, "back": 3.0})
    view.remove(["C"], where=np.indices(SHAPE)[1] > 3)


def test_what_is_removed_does_not_depend_on_what_is_listed(monkeypatch):
    """By the host (first three), and by a device, whose lists are long enough or too short."""
    actual, listed, refused, crowded = set(), [], [], cell(A=900, B=2, C=40)
    first_of, take = changing.first_of, changing.Changing._take_of_lists

    def counted(candidates, *given):
        listed[-1].append(len(candidates))
        return first_of(candidates, *given)

    def taken(*given, **at):
        counts, flag = take(*given, **at)
        refused[-1].append(flag)
        return counts, flag

    monkeypatch.setattr(changing, "first_of", counted)
    monkeypatch.setattr(changing.Changing, "_take_of_lists", taken)
    # All; some; too few, and then all.
    for most, beside in ((0, 10**6), (0, 9), (0, -2), (256, 9), (256, -6)):
        listed.append([])
        refused.append([])
        monkeypatch.setattr(changing, "_MOST_COMPARED", most)
        monkeypatch.setattr(changing, "_BESIDE", beside)
        with run(lambda view: view.remove({"A": 60, "C": 3}), crowded, steps=90) as result:
            actual.add(digest_total(lattice_digest_lines(result.path)))
    assert len(actual) == 1
    every, some, twice, *_ = listed
    assert some[0] == every[0] > 2 * some[1]
    assert len(twice) > len(every)
    assert refused[:3] == [[], [], []]
    assert refused[3].count(False) == 9
    assert refused[4].count(True) > refused[3].count(True) > 0


@pytest.mark.gpu
def test_devices_agree():
    actual = []
    for device in ("cpu", "cuda"):
        with run(all_verbs, steps=40, at_start=True, frame_every=5, device=device) as result:
            actual.append(digest_total(lattice_digest_lines(result.path)))
    assert actual[0] == actual[1]


def test_keywords_that_a_verb_does_not_have():
    with pytest.raises(ConfigError, match=r"count= is no option of ts\.LatticeView\.add"):
        run(lambda view: view.add("A", count=5))
    with pytest.raises(ConfigError, match="turn is a reaction: make its rate a parameter"):
        run(lambda view: None, set={"turn": 5.0})
