"""Random programs of a hook's verbs, beside a plain array of counts of the same lattice."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts

SHAPE = (3, 4, 37)  # rows that are no whole words of bit planes
SPECIES = ("A", "B", "C")
SLOTS, TYPES, VERBS = 8, ("out", "in"), 12


def cell():
    """A and B hop in sites of the inside, C stands."""
    made = ts.Lattice("cell", shape=SHAPE, spacing=3e-8, slots=SLOTS, step=1e-4)
    made.add_site_type("out")
    made.add_site_type("in", np.indices(SHAPE)[2] % 5 > 1)
    made.add_species(*SPECIES)
    made.add_diffusion("A", 1e-12, within="in")
    made.add_diffusion("B", 1e-12, within="in")
    made.add_reaction("A -> B", rate=100.0)
    made.add_reaction("B -> C", rate=400.0)
    made.place("A", count=300, site_type="in")
    return made


class Program:
    """Verbs of a view, and what they do to counts ``[z, y, x, species]`` in sites and waiting."""

    def __init__(self, view, rng):
        self.view, self.rng = view, rng
        self.types = np.array(view.sites)
        self.held = self.seen()
        self.waiting = view.counts(by="site_type") - self.in_types(self.held)

    def seen(self):
        cells = np.asarray(self.view.particles)
        return np.stack([(cells == k + 1).sum(axis=-1) for k in range(len(SPECIES))], axis=-1)

    def in_types(self, held):
        return np.stack([held[self.types == k].sum(axis=0) for k in range(len(TYPES))])

    def run(self):
        for _ in range(VERBS):
            verb = ("add", "become", "remove", "place", "take", "by_hand", "paint", "reshape")
            getattr(self, verb[self.rng.integers(len(verb))])()
            counts = self.view.counts(by="site_type")
            assert (counts == self.in_types(self.held) + self.waiting).all()
            assert (self.view.counts() == counts.sum(axis=0)).all()
            if self.rng.random() < 0.7:  # else the next verb works on what kernels hold
                assert (self.seen() == self.held).all()

    def mask(self):
        share = self.rng.choice([0, 0.05, 0.5, 1])
        return None if share == 1 else self.rng.random(SHAPE) < share

    def some(self):
        names = self.rng.choice(SPECIES, 2, replace=False).tolist()
        return {name: int(self.rng.integers(60)) for name in names}

    def look(self):
        """Take over which particles have a slot, and how many wait in sites of each type."""
        self.held = self.seen()
        self.waiting = self.view.counts(by="site_type") - self.in_types(self.held)
        assert (self.waiting >= 0).all()

    def add(self):
        places = np.stack([self.rng.integers(0, k, 30) for k in SHAPE], axis=1)
        places = places[self.rng.integers(0, self.rng.choice([1, 30]), 30)]
        number = int(self.rng.integers(len(SPECIES)))
        self.view.add(SPECIES[number], places)
        for site in map(tuple, places.tolist()):
            if self.held[site].sum() < SLOTS:
                self.held[site][number] += 1
            else:
                self.waiting[self.types[site], number] += 1

    def become(self):
        where = self.mask()
        names = dict(zip(SPECIES, self.rng.choice(SPECIES, 3).tolist(), strict=True))
        actual = self.view.relabel(names, where=where)
        before = self.held * (1 if where is None else where[..., None])
        for old, new in names.items():
            moved = before[..., SPECIES.index(old)]
            self.held[..., SPECIES.index(old)] -= moved
            self.held[..., SPECIES.index(new)] += moved
            assert actual[old] == (0 if old == new else moved.sum())

    def remove(self):
        where, number = self.mask(), int(self.rng.integers(len(SPECIES)))
        gone = self.held[..., number] * (1 if where is None else where)
        assert self.view.remove(SPECIES[number], where=where) == gone.sum()
        self.held[..., number] -= gone

    def place(self):
        numbers, kind = self.some(), int(self.rng.integers(len(TYPES)))
        if (self.types == kind).any():
            self.view.place(numbers, TYPES[kind])
            before = self.held
            self.look()
            come = self.held - before
            assert (come >= 0).all()
            assert not come[self.types != kind].any()
            late = [numbers.get(name, 0) for name in SPECIES] - come.sum(axis=(0, 1, 2))
            assert (late >= 0).all()
            assert not late.any() or (self.held[self.types == kind].sum(axis=-1) == SLOTS).any()

    def take(self):
        numbers, before = self.some(), self.held + 0
        actual = self.view.remove(numbers)
        self.held = self.seen()
        gone = before - self.held
        assert (gone >= 0).all()
        for k, name in enumerate(SPECIES):
            wanted = min(numbers.get(name, 0), before[..., k].sum())
            assert gone[..., k].sum() == actual.get(name, 0) == wanted

    def by_hand(self):
        site = tuple(int(self.rng.integers(k)) for k in SHAPE)
        row = self.rng.integers(1, len(SPECIES) + 1, self.rng.integers(SLOTS + 1)).tolist()
        self.view.particles[site] = row + [0] * (SLOTS - len(row))
        self.held[site] = [row.count(k + 1) for k in range(len(SPECIES))]

    def paint(self):
        where, kind = self.mask(), int(self.rng.integers(len(TYPES)))
        chosen = np.ones(SHAPE, bool) if where is None else where
        changed = (chosen & (self.types != kind)).sum()
        assert self.view.paint(TYPES[kind], where=where) == changed
        self.types[chosen] = kind
        total = self.waiting.sum(axis=0)
        self.look()
        assert (self.waiting.sum(axis=0) == total).all()

    def reshape(self):
        types = (self.rng.random(SHAPE) < self.rng.choice([0.1, 0.9])).astype(np.uint8)
        before, total = self.types, self.view.counts()
        assert self.view.reshape(types).sites == (types != before).sum()
        assert (np.asarray(self.view.sites) == types).all()
        new, self.types = (types == 0) & (before == 1), types
        assert not self.seen()[new][:, :2].any(), "they hop inside alone"
        self.look()
        assert (self.view.counts() == total).all()


@pytest.mark.filterwarnings("ignore:.*particles waited")
@pytest.mark.parametrize("engine", ["slots", "planes"])
@pytest.mark.parametrize("seed", ordinary(range(6), 0))
def test_verbs_do_what_they_do_to_an_array(engine, seed):
    rng = np.random.default_rng(seed)
    ts.run(
        cell(), t_end=12e-4, hooks=[(3, lambda view: Program(view, rng).run())], engine=engine,
        at_start=True, device="cpu", seed=seed, quiet=True,
    ).close()  # fmt: skip
