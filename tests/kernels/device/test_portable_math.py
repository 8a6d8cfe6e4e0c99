"""The portable functions: errors against mpmath, special values, equal bits from all compilers."""

from __future__ import annotations

import math
import struct

import measure_math
import numpy as np
import pytest
from places import TESTS
from quick_compiling import PLAIN

from tauslab.kernels.backends.compilers import find_compilers
from tauslab.model.expressions.expression import call
from tauslab.model.expressions.host_math import evaluate

INF, NAN = math.inf, math.nan

# The bound per function in docs/developers/portable-math.md, in units of the last place.
BOUNDS = {"exponential": 0.85, "log": 0.75, "exp": 0.75, "pow": 0.6, "sin": 0.75, "cos": 0.75,
          "tan": 0.9}  # fmt: skip
OTHER_BOUND = 0.55


@pytest.fixture(scope="module")
def probe():
    return measure_math.CpuProbe()


def bits(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


@pytest.mark.parametrize("domain", measure_math.DOMAINS, ids=lambda d: f"{d.name}-{d.low:.3g}")
def test_error(probe, domain) -> None:
    bound = BOUNDS.get(domain.name, OTHER_BOUND)
    assert measure_math.max_ulp(probe, domain, 1000, seed=2) <= bound


def test_logarithm_at_the_edges_of_its_table(probe) -> None:
    edges = 1.0 + np.concatenate([np.arange(-16, 0) / 64, np.arange(1, 16) / 64 - 1 / 128])
    near = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, 2)])
    values = probe.values("log", near)
    assert np.allclose(values, np.log(near), rtol=3e-16, atol=0)
    assert np.allclose(probe.values("exponential", near), -np.log(near), rtol=3e-16, atol=0)


SPECIAL = (0.0, -0.0, INF, -INF, NAN, 5e-324, -5e-324, 2.0**-1022, 0.25, 1.0, -1.0, 1.5, -2.0, 3.0,
           -3.0, 0.5, -0.5, 2.0**52 - 0.5, 2.0**53, -(2.0**53) - 2, 709.78, 709.79, -745.13,
           -745.14, 710.47, 1e22, 2.0**30, 1e300, 1.7976931348623157e308, -1e308)  # fmt: skip
ON_HOST = ("log", "log10", "exp", "pow", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
           "sinh", "cosh", "tanh", "floor", "ceil", "abs", "min", "max", "sqrt")  # fmt: skip


@pytest.mark.parametrize("function", ON_HOST)
def test_special_values_agree_with_the_host(probe, function: str) -> None:
    two = function in ("pow", "min", "max")
    pairs = [(x, y) for x in SPECIAL for y in (SPECIAL if two else (0.0,))]
    x, y = np.array(pairs).T
    for value, pair in zip(probe.values(function, x, y).tolist(), pairs, strict=True):
        expected = evaluate(call(function, *pair[: 2 if two else 1]), {})
        if math.isnan(expected):
            assert bits(value) == 0x7FF8000000000000, pair
        elif math.isinf(expected) or expected == 0:
            assert bits(value) == bits(expected), pair
        else:
            assert abs(value - expected) <= math.ulp(expected), pair


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        ("log1p", -1.0, -INF), ("log1p", -2.0, NAN), ("log1p", -0.0, -0.0), ("log1p", INF, INF),
        ("log1p", NAN, NAN), ("expm1", -0.0, -0.0), ("expm1", -INF, -1.0), ("expm1", INF, INF),
        ("expm1", NAN, NAN), ("log", 1.0, 0.0), ("exponential", 1.0, 0.0),
        ("log10", 1e-300, -300.0), ("cbrt", 1e300, 1e100), ("tan", 1e-310, 1e-310),
    ],
)  # fmt: skip
def test_value(probe, function: str, x: float, expected: float) -> None:
    assert bits(probe.values(function, np.array([x]))[0]) == bits(expected)


def test_exponential_has_mean_one(probe) -> None:
    # Mean and second moment of a million variates, each within 5 standard errors: false-alarm
    # rate about 1e-6.
    x = probe.random_values("exponential", 0, 1_000_000)
    assert abs(x.mean() - 1) < 5e-3
    assert abs((x * x).mean() - 2) < 5 * math.sqrt(20) * 1e-3
    assert x.min() >= 0


def test_compilers_give_the_same_bits(probe, monkeypatch) -> None:
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", PLAIN)
    others = [c for c in find_compilers() if c != probe.compiler]
    if not others:
        pytest.skip("only one C++ compiler here")
    for compiler in others:
        other = measure_math.CpuProbe(compiler)
        for name in measure_math.NAMES:
            expected = measure_math.digest(probe, name, 20_000)
            assert measure_math.digest(other, name, 20_000) == expected, (compiler.name, name)


# Of 100,000 arguments a function; CUDA devices gave the same.
DIGESTS = TESTS / "support" / "kernels" / "portable_math_digests.txt"


def test_digests_are_those_of_every_device(probe) -> None:
    expected = dict(line.split() for line in DIGESTS.read_text().splitlines())
    actual = {name: measure_math.digest(probe, name, 100_000) for name in measure_math.NAMES}
    assert actual == expected


@pytest.mark.gpu
def test_cuda_gives_the_same_bits(probe) -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no CUDA device here")
    cuda = measure_math.CudaProbe()
    for name in measure_math.NAMES:
        assert measure_math.digest(cuda, name, 1_000_000) == measure_math.digest(
            probe, name, 1_000_000
        )
