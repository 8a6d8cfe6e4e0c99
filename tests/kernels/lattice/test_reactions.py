"""Many reactions of a site in a pass: means and numbers are those of continuous time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import validate_lattice_reactions
from lattice_factory import STEP, empty_lattice, engine_on, lowered

SHAPE, SITES, STEPS = (8, 8, 8), 512, 5
GROWS, TURNS, DIES, COMES, MEETS = 0.3, 100.0, 2.0, 0.8, 1.5  # in a pass


def busy_lattice():
    """Kinds that know nothing of each other; of each the mean is known in closed form."""
    model = empty_lattice(SHAPE, dict.fromkeys(("G", "Q", "R", "D", "P"), 0.1), slots=32)
    model.add_species("X", "Y")  # a pair in each site, which stays there
    model.add_reaction("G -> 2 G", rate=GROWS / STEP)
    model.add_reaction("Q -> R", rate=TURNS / STEP)
    model.add_reaction("R -> Q", rate=TURNS / STEP)
    model.add_reaction("D ->", rate=0.0)
    model.add_reaction("-> P", rate=COMES / STEP, volume="site")
    model.add_reaction("X + Y ->", rate=MEETS / STEP, volume="site")
    for name in "GQD":
        model.place(name, count=SITES)
    for name in "XY":
        model.place(name, positions=np.argwhere(np.ones(SHAPE, bool)))
    return lowered(model)


def test_means_are_exact_whatever_happens_in_a_pass(backend):
    """A site has more than 64 reactions in a pass, and a rate is raised between two steps."""
    lattice = busy_lattice()
    engine = engine_on(backend, lattice)
    engine.run_sampled([1])
    engine.set_rate(3, [DIES / STEP])
    samples = engine.run_sampled([STEPS - 1])
    counts = dict(zip(lattice.species, samples.counts[-1].tolist(), strict=True))
    grown, left = math.exp(GROWS * STEPS), math.exp(-DIES * (STEPS - 1))
    apart = math.exp(-MEETS * STEPS)
    turned, made = 2 * SITES * TURNS / 2 * STEPS, SITES * COMES * STEPS
    actual = {
        "G": (counts["G"], SITES * grown, SITES * grown * (grown - 1)),
        "D": (counts["D"], SITES * left, SITES * left * (1 - left)),
        "P": (counts["P"], made, made),
        "X": (counts["X"], SITES * apart, SITES * apart * (1 - apart)),
        "turned": (int(samples.fired[-1, 1:3].sum()), turned, turned),
        "Q": (counts["Q"], SITES / 2, SITES / 4),
    }
    for name, (number, mean, variance) in actual.items():
        assert abs(number - mean) < 4 * math.sqrt(variance), name
    assert (samples.spills[-1], samples.truncated[-1]) == (0, 0)


@pytest.mark.validate
@pytest.mark.filterwarnings("ignore:.*its particles do not move there")
@pytest.mark.parametrize("case", validate_lattice_reactions.CASES, ids=lambda case: case.__name__)
def test_means_of_runs_with_every_default(case):
    assert validate_lattice_reactions.measure(case(), 40, 3).good
