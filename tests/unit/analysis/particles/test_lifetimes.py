"""Ensembles, filters and samplers end with their last reference: no cycle keeps device memory."""

import gc
import threading
import time
from collections import Counter

import numpy as np
import pytest

import tauslab as ts
from tauslab.kernels.backends.cpu import idle_threads

DATA = {"time": [1.0, 2.0, 3.0], "X": [12.0, np.nan, 15.0]}
ROUNDS = 3


def immigration():
    net = ts.Network("immigration")
    net.add_species("X", 10)
    net.add_parameter("k", 4.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.2)
    return net


def cube():
    model = ts.Lattice("cube", shape=(4, 4, 4), spacing=32e-9, boundary="periodic", step=1e-4)
    model.add_species("X")
    model.add_parameter("k", 30.0)
    model.add_diffusion("X", 1e-12)
    model.add_reaction("X ->", rate="k")
    model.place("X", count=100)
    return model


def ensemble(model, ends, **options):
    particles = ts.Ensemble(model, 8, seed=1, set={"k": np.linspace(10, 50, 8)}, **options)
    for end in ends:
        particles.advance(end)
        particles.weigh(-0.01 * particles.values("X"))
        particles.resample()
    return particles


def log_density(values, row, _):
    return -0.5 * (values("X") - row["X"]) ** 2


FILTER = {"observe": {"X": "normal(sd=2)"}, "n": 40, "seed": 1}
SAMPLER = {"priors": {"k": "uniform(2, 8)"}, "seed": 1}
WORK = {
    "ensemble": lambda device: ensemble(immigration(), (1.0, 2.0), device=device),
    "ensemble, closed": lambda device: ensemble(immigration(), (1.0, 2.0), device=device).close(),
    "equations": lambda device: ensemble(immigration(), (1.0, 2.0), device=device, method="ode"),
    "lattices": lambda device: ensemble(cube(), (0.001, 0.002), device=device),
    "lattice": lambda device: ts.run(cube(), t_end=0.002, seed=1, device=device),
    "filter": lambda device: ts.particle_filter(immigration(), DATA, device=device, **FILTER),
    "filter by a function": lambda device: ts.particle_filter(
        immigration(), {"time": [1.0, 2.0], "X": [12.0, 13.0]}, device=device,
        **FILTER | {"observe": log_density},
    ),
    "filters": lambda device: ts.particle_filters(
        immigration(), DATA, set={"k": [3.0, 4.0]}, device=device, **FILTER
    ),
    "pmmh": lambda device: ts.pmmh(
        immigration(), DATA, steps=2, warm_up=2, device=device, **FILTER | SAMPLER
    ),
    "abc_smc": lambda device: ts.abc_smc(
        immigration(), {"time": [1.0, 2.0], "X": [12.0, 13.0]}, n=50, generations=2, device=device,
        **SAMPLER,
    ),
}  # fmt: skip


def living():
    """Objects of the package and threads, by type and name; idle threads are ended before."""
    idle_threads.end()
    kinds = (type(one) for one in gc.get_objects())
    living = Counter(
        kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("tauslab")
    )
    return living + Counter(one.name.partition("_")[0] for one in threading.enumerate())


@pytest.mark.parametrize("work", WORK)
def test_nothing_outlives_what_uses_it(work, device):
    for _ in range(2):
        WORK[work](device)
    gc.collect()
    gc.disable()
    try:
        before = living()
        for _ in range(ROUNDS):
            WORK[work](device)
        # A thread that has just ended its work may hold a stream for a moment.
        deadline = time.monotonic() + 5
        while (added := living() - before) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        gc.enable()
    assert not added
