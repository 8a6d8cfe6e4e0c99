"""Final states without exact times have the bits of `ssa`, which runs the rows that are listed."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import compiler, lowered
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.exact.ssa import Ends, UnrolledSsa
from tauslab.kernels.network.codegen import unrolled_header

ROWS = 3000


def predators():
    net = ts.Network("predators")
    net.add_species("x1", 50)
    net.add_species("x2", 100)
    net.add_reaction("x1 -> 2 x1", rate=1.0)
    net.add_reaction("x1 + x2 -> 2 x2", rate=0.005)
    net.add_reaction("x2 ->", rate=0.6)
    return net


def decay():
    net = ts.Network("decay")
    net.add_species("x1", 40)
    net.add_species("x2", 0)
    net.add_reaction("x1 -> x2", rate=1.0)
    net.add_reaction("x2 ->", rate=2.0)
    return net


def full():
    """So near the largest count that 8192 firings could pass it."""
    net = ts.Network("full")
    net.add_species("x1", 2**31 - 1 - 3000)
    net.add_reaction("-> x1", rate=50.0)
    return net


def infinite():
    """A total propensity that is no double."""
    net = ts.Network("infinite")
    net.add_species("x1", 100)
    net.add_species("x2", 20)
    net.add_reaction("x1 + x2 -> x1", rate=1e307)
    return net


# Span, steps, and rows from and to that are listed. Of 330 firings in 2^18 intervals, one in 800
# rows has one that is as near the end as the last interval.
CASES = {
    "sure": (predators, 2.0, 2**40, 1, ROWS // 100), "ended": (decay, 60.0, 2**40, 0, 3),
    "full": (full, 2.0, 2**40, ROWS, ROWS), "infinite": (infinite, 5.0, 2**40, ROWS, ROWS),
    "no span": (predators, 0.0, 2**40, ROWS, ROWS), "few steps": (predators, 2.0, 300, 1000, ROWS),
}  # fmt: skip


@compiler
@pytest.mark.parametrize("case", ordinary(CASES, "sure", "full", "infinite"))
def test_final_states_have_the_bits_of_ssa(case):
    model, span, steps, least, most = CASES[case]
    backend = get_backend("cpu", BackendOptions(threads=2))
    network, initial = lowered(model())
    engine, stream = UnrolledSsa(backend, network, [0.0]), backend.stream()
    ends = Ends(backend, unrolled_header(network, CudaBackend.style, literals=8))
    actual = []
    for listed in (False, True):
        buffers = SampleBuffers.of(
            backend, ROWS, final_counts=backend.empty((ROWS, len(network.species)), np.int32)
        )
        launch = Launch(
            3, ROWS, backend.upload(initial), backend.upload(np.zeros((1, 1))), seed=11,
            times=backend.upload(np.array([span])), max_steps=steps,
        )  # fmt: skip
        engine._ends = ends if listed else None
        ends.fits = lambda *_: True
        engine.start(launch, buffers, stream)
        stream.record().wait()
        actual.append((buffers.final_counts, buffers.status, buffers.work[:1]))
    for one, other in zip(*actual, strict=True):
        assert np.array_equal(one, other)
    assert least <= ends.listed["listed"][0] <= most
    backend.close()


@pytest.mark.gpu
def test_a_gpu_has_the_bits_of_a_cpu():
    actual = []
    for device in ("cpu", "cuda"):
        with ts.Ensemble(predators(), 1 << 16, seed=5, device=device) as particles:
            for t in (0.25, 0.5):
                particles.advance(t)
            actual.append(particles.counts)
            if device == "cuda":
                assert particles._motion._engine._ends.listed
    assert np.array_equal(*actual)
