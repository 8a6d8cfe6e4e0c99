"""Steps that look for the sites that hold particles give the bits of steps that go through all."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedLattices
from lattice_factory import (
    binding,
    coefficient,
    digest,
    empty_lattice,
    engine_on,
    lowered,
    state_of,
    typed,
)
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.codegen import is_sparse, sparse_threads


def walled():
    """Two site types, a wall between them, faces that reflect and that absorb."""
    model = empty_lattice((4, 17, 19), {"A": 0.2, "B": 0.1}, boundary="reflecting")
    _, y, x = np.indices((4, 17, 19))
    model.add_site_type("water")
    model.add_site_type("rock", (x * y) % 7 == 3)
    model.add_diffusion("*", 0, source="*", target="rock")
    model.set_boundary("z-", "absorbing")
    model.set_boundary("x+", "absorbing")
    model.add_reaction("2 A -> B", rate=3000, volume="site")
    model.add_reaction("B -> 2 A", rate=200)
    model.place("A", count=300, site_type="water")
    return lowered(model)


def many_species():
    """Particles of 16 bits."""
    names = {"A": 0.2, "B": 0.1} | {f"S{i}": 0.1 for i in range(260)}
    model = empty_lattice((2, 11, 17), names, slots=32)
    model.add_reaction("2 A -> S259", rate=3000, volume="site")
    model.add_reaction("S259 -> 2 B", rate=2000)
    model.place("A", count=250)
    return lowered(model)


# Planes that end within a tile; particles that wait; sites of 8, 32 and 64 bytes; one plane, which
# is its own neighbour; so many particles that memory of a warp has no room for a tile's.
MODELS = {
    "periodic": lambda: binding((5, 13, 21), 0.08),
    "crowded": lambda: binding((3, 18, 33), 4.8, slots=8),
    "halves": lambda: binding((2, 18, 33), 0.9),
    "thin": lambda: binding((1, 9, 20), 0.3, slots=32),
    "many species": many_species,
    "walled": walled,
}
CASES = [(name, (-1) ** i) for i, name in enumerate(MODELS)]


def same(engines, marks):
    """Counts, particles, waiting particles and reactions of all are those of the first."""
    counts = [engine.run_sampled(marks).by_type for engine in engines]
    for engine, found in zip(engines[1:], counts[1:], strict=True):
        assert np.array_equal(found, counts[0])
        assert digest(engine) == digest(engines[0])


@pytest.mark.parametrize(("name", "order"), ordinary(CASES, *CASES[::2]))
def test_warps_and_threads_give_the_bits_of_single_steps(cpu, three_threads, tmp_path, name, order):
    lattice = MODELS[name]()
    warps = EmulatedLattices(tmp_path, sparse_threads(lattice), order, counter=cpu)
    expected = engine_on(cpu, lattice, together=False)
    engines = [engine_on(each, lattice, sparse=True) for each in (three_threads, warps)]
    same([expected, *engines], [3, 8])
    assert expected.save().fired.all()
    assert (expected.save().spills > 0) == (name == "crowded")
    warps.close()


def test_steps_go_on_after_a_load_and_after_other_launches(cpu, three_threads):
    lattice = binding((6, 20, 37), 0.2)
    engines = [
        engine_on(cpu, lattice, together=False),
        engine_on(three_threads, lattice, sparse=True),
    ]
    same(engines, [1, 2, 7])
    other = np.roll(engines[0].save().particles, (1, 5, 3), (0, 1, 2))
    for engine in engines:
        engine.load(state_of(lattice, other))
    same(engines, [4])
    same(engines, [1, 5])


def test_an_empty_lattice_stays_empty(three_threads):
    lattice = binding((3, 8, 8), 0)
    engine = engine_on(three_threads, lattice)
    engine.run_sampled([3])
    assert not engine.save().particles.any()


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_gives_the_same_bits(cpu, name):
    lattice, gpu = MODELS[name](), get_backend("cuda", BackendOptions())
    expected = engine_on(cpu, lattice, together=False)
    same([expected, engine_on(gpu, lattice, sparse=True)], [3, 40])
    gpu.close()


def test_what_may_hold_few_particles():
    def held():
        model = empty_lattice((4, 4, 8), {"A": 0.2}, boundary="reflecting")
        model.set_boundary("z-", "held", concentrations={"A": 2e-5})
        return lowered(model)

    def positioned():
        model = empty_lattice((4, 8, 8), {"A": 0.2})
        model.place("A", positions=[(1, 2, 3)] * 5)
        return lowered(model)

    def inside():
        """Few on average, but many where they are."""
        model = empty_lattice((8, 8, 8), {"A": coefficient(0)})
        model.add_site_type("outside")
        model.add_site_type("inside", np.indices((8, 8, 8)).sum(axis=0) < 5)
        model.place("A", count=60, site_type="inside")
        return lowered(model)

    assert is_sparse(binding((4, 8, 8), 0.3))
    assert not is_sparse(binding((4, 8, 8), 0.5))
    assert is_sparse(binding((4, 8, 8), 0.5), wanted=True)
    assert not is_sparse(binding((4, 8, 8), 0.3), wanted=False)
    assert is_sparse(positioned())
    assert not is_sparse(inside())
    assert not is_sparse(held(), wanted=True)  # particles come in from nowhere
    assert not is_sparse(typed((4, 8, 8), fill=0.01), wanted=True)  # so they do here


def test_few_sites_on_a_cpu_are_counted_within_a_launch(cpu):
    """However many particles they hold: a launch takes longer than a step of all its sites."""
    engines = [engine_on(cpu, binding((4, 8, 8), 2.0), sparse=how) for how in (False, None)]
    assert [engine._sparse for engine in engines] == [False, True]
    assert not engine_on(cpu, binding((16, 16, 16), 2.0))._sparse
    launched = []
    stream = engines[1].stream
    put = stream.submit
    stream.submit = lambda work: (launched.append(work), put(work))
    same(engines, [*range(1, 41)])
    assert len(launched) < 20  # two for each count where they are launches
