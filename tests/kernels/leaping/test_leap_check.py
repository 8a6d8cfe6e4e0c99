"""What is checked after a leap, and what is kept of one that was rejected."""

from __future__ import annotations

import ctypes
import math
import subprocess

import numpy as np
import pytest
from places import TESTS

from tauslab.kernels.backends.base import Style
from tauslab.kernels.backends.cache import CSRC, csrc_texts
from tauslab.kernels.backends.compilers import STRICT, host_compiler
from tauslab.kernels.leaping import tau_leap
from tauslab.kernels.leaping.codegen import leap_header
from tauslab.model.network.network import Network

from .test_leap_codegen import lowered

PROBE = TESTS / "support" / "kernels" / "csrc_check_probe.cc"
EPSILON = 0.05
PUT, TAKE, PASS, REACH = range(4)


def network() -> Network:
    """A + B -> C and its reverse; B is made and lost as fast as a law says; nothing reads W."""
    net = Network("check")
    for name, initial in (("A", 100), ("B", 100), ("C", 100), ("W", 0)):
        net.add_species(name, initial)
    net.add_reaction("A + B -> C", rate=0.01)
    net.add_reaction("C -> A + B", rate=0.5)
    net.add_reaction("-> B", rate=3.0)
    net.add_reaction("B ->", law="5 * B ^ 2 / (400 + B ^ 2)")
    net.add_reaction("-> 2 W", rate=4.0)
    return net


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check")
    header = leap_header(lowered(network()), Style(branches=True), checked=True)
    (folder / "model.h").write_text(header)
    compiler, path = host_compiler(), folder / "probe.so"
    command = [*compiler.command, *compiler.flags(), *STRICT, f"-I{folder}", f"-I{CSRC}"]
    done = subprocess.run(
        [*command, str(PROBE), "-o", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(path))


def call(function, *arguments):
    function(
        *(
            ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray)
            else ctypes.c_double(a) if isinstance(a, float)
            else ctypes.c_longlong(a)
            for a in (0, 1, *arguments)
        )
    )  # fmt: skip


def law(b):
    return 5 * b**2 / (400 + b**2)


def may_change(x):
    """By how much A, B and C may change: the bound by which a leap is chosen."""
    a, b, c, _ = x
    order = max(2.0, b * (law(b + 1) - law(b)) / law(b) if law(b) else 1.0)
    return [max(EPSILON * a / 2, 1.0), max(EPSILON * b / order, 1.0), max(EPSILON * c, 1.0)]


def test_a_leap_holds_if_no_species_that_is_read_changed_by_more_than_planned(library):
    rng = np.random.default_rng(4)
    n = 4000
    x = rng.integers(0, 600, (n, 4)).astype(np.int32)
    fired = rng.poisson(rng.exponential(10, (n, 1)), (n, 5)).astype(np.int64)
    holds, all_of = np.empty(n, np.uint8), np.empty((n, 5))
    call(library.check_probe, x, n, EPSILON, fired, holds, all_of)
    made, back, born, gone, _ = fired.T
    change = np.abs(np.stack([back - made, back - made + born - gone, made - back], axis=1))
    expected = [np.all(d <= may_change(row)) for d, row in zip(change, x.tolist(), strict=True)]
    assert 0.1 < np.mean(expected) < 0.9
    assert holds.astype(bool).tolist() == expected
    a, b, c, _ = x.astype(float).T
    rates = [0.01 * a * b, 0.5 * c, np.full(n, 3.0), law(b), np.full(n, 4.0)]
    np.testing.assert_allclose(all_of, np.stack(rates, axis=1), rtol=1e-12)


def steps(library, *given):
    """Steps (kind, extent, number or u): extents or times, numbers of firings, segments."""
    n = len(given)
    kinds = np.array([kind for kind, _, _ in given], np.int64)
    extents = np.array([extent for _, extent, _ in given], float)
    numbers = np.array([value if k == PUT else 0 for k, _, value in given], np.int64)
    us = np.array([value if k == REACH else 1.0 for k, _, value in given], float)
    out, memory = np.empty((n, 3)), np.empty(tau_leap.ROWS_AHEAD * 5)
    call(library.ahead_probe, kinds, extents, numbers, us, n, memory, out)
    return out


def test_stretches_take_whole_segments_and_a_part_of_the_next(library):
    out = steps(
        library,
        (PUT, 4.0, 1000), (PUT, 2.0, 7), (PUT, 1.0, 3),
        (TAKE, 1.0, 0), (TAKE, 4.0, 0), (TAKE, 1.0, 0), (TAKE, 1.5, 0),
    )  # fmt: skip
    assert out[:3, 2].tolist() == [1, 2, 3]
    assert out[3].tolist() == [0, 3, 2]
    # Seven, and a binomial number of 1000 with p = 1/2: within 5 standard deviations.
    assert out[4, 0] == 0
    assert out[4, 2] == 1
    assert abs(out[4, 1] - 507) < 5 * math.sqrt(250)
    # What is left of the last segment, and half a unit beyond, of which nothing is known.
    assert out[5, 1] + out[6, 1] == 1007 - out[4, 1]
    assert out[6].tolist()[::2] == [0.5, 0]


def test_segments_without_firings_are_one(library):
    out = steps(library, (PUT, 1.0, 0), (PUT, 2.0, 0), (PUT, 0.0, 1), (PUT, 3.0, 0), (TAKE, 6.0, 0))
    assert out[:4, 2].tolist() == [1, 1, 2, 3]
    assert out[4].tolist() == [0, 1, 0]


def test_a_stretch_without_firings_ends_before_the_next(library):
    out = steps(
        library, (PUT, 0.0, 1), (PUT, 3.0, 0), (PASS, 2.0, 0), (PASS, 9.0, 0), (REACH, 0.0, 0.5)
    )
    assert out[:, 2].tolist() == [1, 2, 2, 1, 0]
    assert out[4, 0] == 0.0


def test_the_next_firing_is_the_least_of_uniform_numbers(library):
    u = 0.2
    out = steps(
        library,
        (PUT, 5.0, 3), (PUT, 1.5, 0), (REACH, 0.0, u), (REACH, 0.0, u), (REACH, 0.0, u),
        (REACH, 0.0, u),
    )  # fmt: skip
    first = 5.0 * (1 - u ** (1 / 3))
    second = (5.0 - first) * (1 - u ** (1 / 2))
    third = (5.0 - first - second) * (1 - u)
    rest = 5.0 - first - second - third
    expected = [1.5 + first, second, third, rest - math.log(u)]
    np.testing.assert_allclose(out[2:, 0], expected, rtol=1e-13)
    assert out[2:, 2].tolist() == [1, 1, 1, 0]


def test_the_memory_of_a_lane_has_the_rows_that_the_kernel_uses():
    text = csrc_texts()["leaping/known_firings.h"]
    assert "constexpr int SEGMENTS = 8," in text
    assert "LENGTH = (5 + 2 * SEGMENTS)" in text
    assert tau_leap.ROWS_AHEAD == 5 + 2 * 8
