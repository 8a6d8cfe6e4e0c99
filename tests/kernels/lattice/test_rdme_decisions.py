"""T8: rare events happen as rarely as they should: 64 bits decide, not 32."""

from __future__ import annotations

import ctypes
import math
import subprocess

import numpy as np
import pytest
from lattice_factory import binding, digest, empty_lattice, lowered, state_of
from places import TESTS

from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.compilers import STRICT, host_compiler
from tauslab.kernels.lattice.codegen import (
    chances,
    lattice_header,
    poisson_thresholds,
    reaction_tables,
)
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.rates import RateBounds

PROBE = TESTS / "support" / "kernels" / "csrc_rdme_probe.cc"


@pytest.fixture(scope="module")
def happens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probe")
    lattice = binding((4, 4, 4), 1)
    tables = reaction_tables(lattice.reactions, len(lattice.species))
    (folder / "model.h").write_text(lattice_header(lattice, tables))
    compiler, library = host_compiler(), folder / "probe.so"
    command = [*compiler.command, *compiler.flags(), *STRICT, "-Wno-unused-function", f"-I{folder}",
               f"-I{CSRC}", str(PROBE), "-o", str(library)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(library)).probe_happens

    def call(bits, x):
        bits = np.ascontiguousarray(bits, np.uint64)
        out = np.zeros(len(bits), np.uint8)
        function(
            ctypes.c_longlong(0), ctypes.c_longlong(1), ctypes.c_longlong(len(bits)),
            ctypes.c_double(x), ctypes.c_void_p(bits.ctypes.data),
            ctypes.c_void_p(out.ctypes.data),
        )  # fmt: skip
        return out.astype(bool)

    return call


@pytest.mark.parametrize("p", [2.7e-10, 1e-15, 1e-5, 0.02, 0.7])
def test_the_threshold_is_exact(happens, p):
    x = -math.log1p(-p)
    threshold = int(-math.expm1(-x) * 2.0**64)
    around = [0, threshold * (1 - 1e-15), threshold * (1 + 1e-15) + 4096, 2**64 - 1]
    assert happens([int(u) for u in around], x).tolist() == [True, True, False, False]


def test_a_rare_event_over_many_trials(happens):
    """Of 2^64 numbers only those below 2^33 can decide: 1e6 of these stand for 2e15 trials.

    A 32-bit threshold would be off by 72 % or 14 %; this sees 0.5 %. False alarms 1e-6.
    """
    p = 2.7e-10
    n = 1_000_000
    bits = np.random.default_rng(1).integers(0, 2**33, n, dtype=np.uint64)
    fired = happens(bits, -math.log1p(-p)).sum()
    expected = p * 2.0**31  # of the numbers below 2^33
    assert abs(fired / n - expected) < 4.9 * math.sqrt(expected * (1 - expected) / n)


@pytest.mark.validate
def test_rare_hops_between_the_sixteen_bits(backend):
    """Q = 1.1e-5 lies below 16 bits, 1.5e-5 across a step of theirs; z-tests at 1e-5."""
    for q in (1.1e-5, 1.55e-5):
        model = empty_lattice((16, 16, 16), {"A": q, "B": 0.0})
        start = np.zeros((16, 16, 16, 32), np.uint8)
        start[::2, ::2, ::2] = 1
        model.slots = 32
        engine = LatticeEngine(backend, lowered(model, step=1e-4), seed=9)
        steps, n = 600, start.astype(bool).sum()
        engine.load(state_of(engine.lattice, start))
        engine.run_sampled([steps])
        stayed = (engine.save().particles[::2, ::2, ::2] > 0).sum()
        expected = n * (1 - 6 * q) ** steps
        assert abs(stayed - expected) < 4.5 * math.sqrt(n - expected) + 6


def test_the_bound_that_ends_most_sites_changes_nothing(backend):
    lattice = binding((6, 9, 11), 3.0, frequent=3)
    actual = []
    for bounded in (True, False):
        engine = LatticeEngine(backend, lattice, seed=2)
        engine.load_start()
        if not bounded:
            engine.tables._bounds = backend.upload(np.full(8, 2**32 - 1, np.uint32))
        engine.run_sampled([40])
        actual.append(digest(engine))
    assert actual[0] == actual[1]


def test_bounds_hold_for_every_content():
    model = empty_lattice((4, 4, 4), dict.fromkeys("ABC", 0.1))
    model.add_reaction("A + B -> C", rate=400, volume="site")
    model.add_reaction("A + B -> A", rate=900, volume="site")
    model.add_reaction("2 A -> C", rate=2000, volume="site")
    model.add_reaction("C ->", rate=300)
    model.add_reaction("-> B", rate=50, volume="site")
    lattice = lowered(model)
    chance = chances(lattice, np.array([r.rates for r in lattice.reactions]))
    bounds = RateBounds(lattice)
    bounds.update(chance)
    table = bounds.table[0].astype(float)
    rng = np.random.default_rng(4)
    for _ in range(200):
        a, b, c = rng.integers(0, 6, 3)
        n = a + b + c
        combinations = np.array([a * b, a * b, a * (a - 1) / 2, c, 1])
        exact = chance[:, 0] @ combinations * 2.0**32
        bound = table[0, 0] + (table[1:, 0] + (n - 1) * table[1:, 1]) @ (a, b, c)
        assert exact <= bound


@pytest.mark.parametrize("mean", [1e-4, 0.3, 4.0, 60.0])
def test_poisson_thresholds(mean):
    words = poisson_thresholds(mean)
    assert words == sorted(words)
    assert words[-1] == 2**64 - 1
    law = np.diff([0, *words]) / 2.0**64
    assert law @ np.arange(len(law)) == pytest.approx(mean, rel=1e-12)
    assert law[0] == pytest.approx(math.exp(-mean), rel=1e-12)
