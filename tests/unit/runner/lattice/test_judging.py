"""Every kind of run of a lattice says what its result suffers from, and says it once."""

from __future__ import annotations

import warnings

import pytest

import tauslab as ts
from tauslab.model.lattice.diagnosis.check import lattice_report, waiting_part
from tauslab.options.lattice import LatticeOptions, prepare_lattice

STEP = 1e-3


def boxes(count):
    """Eight sites of eight slots; particles are made so seldom that none is."""
    lattice = ts.Lattice("boxes", shape=(2, 2, 2), spacing=1e-7, step=STEP, slots=8)
    lattice.add_species("A")
    lattice.add_diffusion("A", 1e-12)
    lattice.add_reaction("-> A", rate=1e-9, volume="site")
    lattice.place("A", count=count)
    return lattice


def by_run(lattice):
    ts.run(lattice, t_end=4 * STEP, seed=1, replicas=2, device="cpu").close()


def by_ensemble(lattice):
    with ts.Ensemble(lattice, 2, seed=1, device="cpu") as particles:
        particles.advance(2 * STEP)
        particles.advance(4 * STEP)


def by_weighted_ensemble(lattice):
    ts.weighted_ensemble(
        lattice, target="A > 1000", t_end=4 * STEP, rounds=2, walkers=2, runs=2, bins=1, seed=1,
        device="cpu", quiet=True,
    )  # fmt: skip


@pytest.mark.parametrize("run", [by_run, by_ensemble, by_weighted_ensemble])
@pytest.mark.parametrize("count", [16, 60])
def test_particles_that_wait_are_told_once(run, count):
    """Of 60 particles in 64 slots some wait as soon as they hop; of 16 none, or nearly so."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(boxes(count))
    message = [str(one.message) for one in seen if "slots" in str(one.message)]
    assert len(message) == (count == 60)
    if message:
        name, share = message[0].split()[:2]
        assert name == "boxes:"
        assert 1 < float(share) < 30


def test_check_expects_what_a_run_counts():
    """A Poisson number of mean 5 exceeds 8 by 0.12211 on average: summed term by term."""
    assert waiting_part(5.0, 8) == pytest.approx(0.12210929 / 5)
    assert any(line.startswith("warning") and "slot" in line for line in lattice_report(boxes(40)))
    assert not any("wait for a slot" in line for line in lattice_report(boxes(16)))


def still(diffuses=False, count=5, shape=(4, 4, 4)):
    """A and B, which meet in a site alone unless something diffuses."""
    lattice = ts.Lattice("still", shape=shape, spacing=1e-8, step=1e-6)
    lattice.add_species("A", "B")
    lattice.add_reaction("A + B ->", rate=1e5, unit="M^-1 s^-1", name="meet")
    lattice.place("A", count=5)
    lattice.place("B", count=count)
    if diffuses:
        lattice.add_diffusion("A", 1e-12)
    return lattice


def said_of(lattice, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        prepare_lattice(lattice, LatticeOptions(t_end=1e-4, seed=1, **options))
    return [str(one.message) for one in seen]


def test_a_run_says_what_check_says_of_its_model():
    (message,) = said_of(still())
    assert "no diffusion is given of A and B" in message
    assert f"warning: {message.removeprefix('still: ')}" in lattice_report(still())
    (never,) = said_of(still(diffuses=True, count=0))
    assert "meet never happens" in never
    assert said_of(still(diffuses=True)) == said_of(still(shape=(1, 1, 1))) == []
    assert said_of(still(diffuses=True), set={"B": 0.0}) == []  # as was asked for
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ts.Ensemble(still(), 1, seed=1, device="cpu").close()
    assert [str(one.message) for one in seen] == [message]


def test_a_hook_that_is_never_called_is_reported():
    def feed(view):
        view.add("A", [(0, 0, 0)])

    (message,) = said_of(still(diffuses=True), hooks=[(101, feed), (100, feed)])
    assert "hooks=[(101, feed)]" in message
    assert "100 steps" in message
