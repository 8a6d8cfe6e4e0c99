"""Statistics of a launch on each device, and by emulated warps, against those of the host."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend

from tauslab.kernels.backends.compilers import find_compilers
from tauslab.kernels.ensemble.statistics import Statistics
from tauslab.kernels.ensemble.sums import POWERS
from tauslab.store.format.windows import add_reals, moments

compiler = pytest.mark.skipif(
    not any(c.name in ("g++", "clang++") for c in find_compilers()), reason="no g++ or clang++"
)
HARD = [0.0, -0.0, 5e-324, -(2.0**-1022), 2.0**-1022 - 5e-324, 1 - 2.0**-53, -1e-9,
        2.0**46 - 2.0**-6, 1e308, -1e308, np.inf, -np.inf, np.nan, 3e-310, -2.0**-1060]  # fmt: skip


def kinds() -> dict[str, np.ndarray]:
    """Values ``[row, time, quantity]`` of very unlike sizes."""
    rng = np.random.default_rng(11)
    shape = (600, 2, 3)
    bits = rng.integers(0, 2**63, shape).astype(np.uint64)
    return {
        "usual": rng.lognormal(0, 3, shape) * rng.choice([-1, 1], shape),
        "all exponents": np.copysign(bits.view(np.float64), rng.normal(size=shape)),
        "below 2^-1022": rng.integers(-(2**30), 2**30, shape) * 5e-324,
        "fewer bits still": rng.integers(-9, 9, shape) * 5e-324,
        "hard": np.where(rng.random(shape) < 0.4, rng.choice(HARD, shape), rng.normal(size=shape)),
        "times apart": rng.normal(size=shape) * np.array([1e-200, 1e200])[:, None],
        "zeros": np.zeros(shape),
    }


def device_sums(backend, values, per_point=0, offset=0):
    """Accumulators of real values without their prefix, a leading axis of points."""
    rows, times, quantities = values.shape
    statistics = Statistics(backend, (times, 0, quantities), {}, counts=True)
    points = -(-(offset + rows) // per_point) if per_point else 1
    actual = added(backend, statistics, None, values, points, per_point=per_point, offset=offset)
    return {k.removeprefix("obs_"): v for k, v in actual.items() if k.startswith("obs_")}


def added(backend, statistics, counts, values, points, **where):
    rows = len(values if counts is None else counts)
    into, stream = statistics.accumulators(points), backend.stream()
    given = [None if each is None else backend.upload(each) for each in (counts, values)]
    statistics.add(*given, rows, into, stream, **where)
    mirrors = {name: backend.mirror(buffer) for name, buffer in into.items()}
    for name, buffer in into.items():
        backend.download(buffer, mirrors[name], points, stream)
    stream.record().wait()
    return {name: mirror.copy() for name, mirror in mirrors.items()}


def host_sums(values, per_point=0, offset=0):
    inner = range(per_point - offset, len(values), per_point) if per_point else ()
    return add_reals(values, np.array([0, *inner]))


def check(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name


@pytest.mark.parametrize("name", kinds())
@pytest.mark.parametrize(("per_point", "offset"), [(0, 0), (1, 0), (257, 100), (5000, 4500)])
def test_a_device_adds_as_the_host(backend, name, per_point, offset):
    values = kinds()[name]
    check(device_sums(backend, values, per_point, offset), host_sums(values, per_point, offset))


@compiler
@pytest.mark.parametrize("order", [1, -1])
def test_warps_add_as_the_host(tmp_path, order):
    """In either order of the threads."""
    device = EmulatedBackend(tmp_path, 64, order)
    for values in kinds().values():
        check(device_sums(device, values, 60, 7), host_sums(values, 60, 7))


@pytest.mark.parametrize("most", [10, 2**18, 2**18 + 2**10, 2**31 - 1])
def test_powers_of_counts_are_exact(backend, most):
    counts = np.random.default_rng(6).integers(-1, most, (600, 2, 19)).astype(np.int32)
    counts[:300, 1] = most - 1
    actual = added(backend, Statistics(backend, (2, 19, 0), {}, counts=True), counts, None, 1)
    values = np.maximum(counts, 0).astype(object)
    for number, power in enumerate(POWERS, start=1):
        words = [
            actual[name][0].astype(object) << 32 * k for k, name in enumerate(power.words[:-1])
        ]
        assert (sum(words) == (values**number).sum(axis=0)).all(), number


def test_a_launch_of_small_numbers_has_a_window_of_its_own(backend):
    """Each point of a sweep, and each time, has its own: nothing of one is lost to another."""
    values = np.array([1e300, 1e-300]).repeat(40).reshape(80, 1, 1) * np.ones((1, 2, 1))
    values[:, 1] *= 1e-20
    sums = device_sums(backend, values, 40)
    mean, variance = moments(*(sums[k] for k in ("n", "top", "sum", "sq")))
    assert np.array_equal(mean, values[[0, 40]])
    assert not variance.any()


def test_bins_that_are_too_narrow_for_a_division(backend):
    """They have no finite reciprocal; a sanitizer sees what is cast to a whole number."""
    edges = np.linspace(0, 1e-310, 6)
    statistics = Statistics(backend, (1, 1, 0), {"X": (0, edges)}, counts=False)
    into, stream = statistics.accumulators(), backend.stream()
    counts = np.array([0, 0, 3, -1, 0], np.int32).reshape(5, 1, 1)
    statistics.add(backend.upload(counts), None, 5, into, stream)
    cells = into["histogram/X"]
    mirror = backend.mirror(cells)
    backend.download(cells, mirror, 1, stream)
    stream.record().wait()
    assert mirror.ravel().tolist() == [0, 3, 0, 0, 0, 0, 1]
