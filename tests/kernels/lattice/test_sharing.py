"""Lattices that run at the same time have the bits of each alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from emulation import EmulatedLattices
from lattice_factory import binding, digest, engine_on, lowered, typed
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.plan import replicas_at_a_time
from tauslab.kernels.lattice.planes import teams_of
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.model.lattice.lattice import Lattice

REPLICAS = (0, 3, 4)
MARKS = (2, 67, 70)  # longer than a list of tiles is used


@pytest.fixture
def cpu(two_threads):
    return two_threads


def in_planes(backend, lattice, **options):
    engine = PlanesEngine(backend, lattice, seed=7, **options)
    engine.load_start()
    return engine


def engines(backend, lattice, made, **options):
    return [made(backend, lattice, replica=r, **options) for r in REPLICAS]


def same_as_alone(backend, alone, lattice, made, **options):
    """Whether counts, repeats with more room included, and states are those of single runs."""
    together = engines(backend, lattice, made, sharing=len(REPLICAS), **options)
    expected = engines(alone, lattice, made)
    assert len({digest(engine) for engine in expected}) == len(REPLICAS)
    for _ in range(2):  # the second batch goes on with what a repeat has changed
        started = together[0].start_beside(together[1:], MARKS)
        for engine, finish in zip(expected, started, strict=True):
            samples, wanted = finish(), engine.run_sampled(MARKS)
            assert np.array_equal(samples.by_type, wanted.by_type)
            assert np.array_equal(samples.fired, wanted.fired)
            assert np.array_equal(samples.spills, wanted.spills)
    assert [digest(e) for e in together] == [digest(e) for e in expected]


# Particles that wait, with too little room at first; types of sites.
MODELS = {
    "periodic": (lambda: binding((4, 21, 37), 1.6), {}),
    "crowded": (lambda: binding((3, 10, 33), 4.8, slots=8), {"capacity": 1}),
    "typed": (lambda: typed((4, 17, 19)), {}),
}


BOTH = (engine_on, in_planes)


@pytest.mark.parametrize(
    ("name", "made"),
    ordinary(itertools.product(MODELS, BOTH), ("typed", engine_on), ("crowded", in_planes)),
)
def test_threads_of_a_cpu(three_threads, name, made):
    model, options = MODELS[name]
    same_as_alone(three_threads, three_threads, model(), made, **options)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "made"), [*itertools.product(MODELS, BOTH)])
def test_shares_of_a_gpu(cpu, name, made):
    model, options = MODELS[name]
    backend = get_backend("cuda", BackendOptions())
    same_as_alone(backend, cpu, model(), made, **options)
    backend.close()


def test_lattices_in_planes_share_blocks_of_a_gpu(cpu, tmp_path):
    """Each has two blocks, which meet where particles have to wait."""
    lattice = binding((2, 16, 64), 7.6, slots=8)
    threads = teams_of(lattice, 2).threads
    blocks = EmulatedLattices(tmp_path, threads, 23, 4, counter=cpu)
    together, expected = (
        [in_planes(device, lattice, replica=r, sharing=many) for r in range(2)]
        for device, many in ((blocks, 2), (cpu, 1))
    )
    for marks in ((1,), (2, 2)):
        for finish, engine in zip(
            together[0].start_beside(together[1:], marks), expected, strict=True
        ):
            assert np.array_equal(finish().rows(), engine.run_sampled(marks).rows())
    assert [digest(e) for e in together] == [digest(e) for e in expected]


def test_lattices_in_lines_take_turns_where_they_find_no_room(cpu, tmp_path):
    """Of a GPU of 132 multiprocessors; those of few particles go another way."""
    gpu = EmulatedLattices(tmp_path, 128, 1, 132, counter=cpu)
    assert replicas_at_a_time(gpu, binding((64, 64, 64), 1.6), 8) == 1
    assert replicas_at_a_time(gpu, binding((32, 32, 32), 1.6), 8) == 8
    assert replicas_at_a_time(gpu, binding((64, 64, 64), 0.1), 8) == 8
    assert replicas_at_a_time(gpu, binding((64, 64, 65), 1.6), 8) == 1  # too large for more
    assert replicas_at_a_time(gpu, binding((64, 64, 40), 1.6), 8) == 8  # lists of tiles
    gpu.close()


def test_as_many_as_gain_and_find_room(cpu):
    lattice = binding((4, 21, 37), 1.6)
    assert replicas_at_a_time(cpu, lattice, 1) == 1
    assert replicas_at_a_time(cpu, lattice, 7) == 2  # a thread each
    model = Lattice("vast", shape=(2048, 2048, 2048), spacing=1e-8, step=1e-6)
    model.add_species("A")
    assert replicas_at_a_time(cpu, lowered(model), 2) == 1  # no machine has memory for two
