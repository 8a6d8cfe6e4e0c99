"""Weights on the device have the bits of those that the host computes, however a row is cut."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from emulation import AnyGrid, EmulatedBackend

from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.particles import weights as on_host
from tauslab.analysis.particles.sums import fixed_sums
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.compilers import find_compilers
from tauslab.kernels.particles.weights import DeviceWeights

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))
NOISES = {
    "normal(sd=2.5)": 14.5, "lognormal(sigma=0.4)": 9.0, "poisson(scale=0.7, background=0.5)": 8.0,
    "poisson(scale=1.5)": 0.0, "negative_binomial(size=3.5, scale=0.8)": 11.0,
    "negative_binomial(size=2, scale=0.8)": 0.0, "binomial(p=0.35)": 4.0, "binomial(p=1)": 9.0,
    "lognormal(sigma=2)": 0.25, "student_t(degrees=3.5, scale=2)": 7.0,
}  # fmt: skip


@pytest.fixture(params=DEVICES)
def backend(request):
    made = get_backend(request.param, BackendOptions(threads=2))
    yield made
    made.close()


def logs_of(rows, n, seed, *, spread=30.0, lost=0.0):
    draw = np.random.default_rng(seed)
    logs = -spread * draw.random((rows, n)) ** 3
    logs[draw.random((rows, n)) < lost] = -np.inf
    logs[:, n // 2] = 0.25
    return logs


@pytest.mark.parametrize(
    ("rows", "n"), [(1, 1), (3, 2), (5, 31), (2, 32), (4, 33), (2, 1000), (1, 40_000)]
)
@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_sums_and_moments(backend, rows, n, lost):
    logs = logs_of(rows, n, seed=n, lost=lost)
    made = DeviceWeights(backend, rows, n)
    made.put(logs.reshape(-1))
    shares = on_host.shares_of(logs, logs.max(axis=1, keepdims=True))
    assert made.shares().tobytes() == shares.tobytes()
    assert made.largest.tolist() == logs.max(axis=1).tolist()
    assert made.totals.tobytes() == fixed_sums(shares).tobytes()
    assert made.squares.tobytes() == fixed_sums(shares * shares).tobytes()
    counts = np.random.default_rng(1).poisson(20, (rows * n, 3)).astype(np.int32)
    means, variances = made.moments(backend.upload(counts))()()
    for row in range(rows):
        held = shares[row] > 0
        weights = (shares[row] / made.totals[row])[held]
        x = counts.reshape(rows, n, 3)[row][held].T.astype(np.float64)
        mean = fixed_sums(weights * x)
        assert means[:, row].tobytes() == mean.tobytes()
        around = x - mean[:, None]
        assert variances[:, row].tobytes() == fixed_sums(weights * (around * around)).tobytes()


@pytest.mark.parametrize(("rows", "n"), [(1, 1), (3, 2), (4, 33), (2, 1000)])
@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_quantiles(backend, rows, n, lost):
    made = DeviceWeights(backend, rows, n)
    made.put(logs_of(rows, n, seed=n, lost=lost).reshape(-1))
    shares = made.shares().reshape(rows, n)
    counts = np.random.default_rng(1).poisson(20, (rows * n, 3)).astype(np.int32)
    probabilities = (0.0501, 0.9507)
    for x in (counts, -np.sqrt(counts + 0.5)):
        actual = made.quantiles(backend.upload(x), probabilities)
        for row in range(rows):
            expected = [
                np.quantile(each, probabilities, weights=shares[row], method="inverted_cdf")
                for each in x.reshape(rows, n, 3)[row].T
            ]
            assert (expected == actual[:, :, row].T).all()


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("scheme", ["systematic", "stratified"])
@pytest.mark.parametrize(
    ("rows", "n", "spread", "lost"),
    [
        (1, 1, 1.0, 0.0),
        (3, 100, 20.0, 0.2),
        (2, 5000, 0.1, 0.0),
        (1, 70_000, 600.0, 0.9),
        (2, 300_000, 0.5, 0.1),
    ],
)
def test_ancestors(backend, rows, n, spread, lost, scheme, in_pieces):
    logs = logs_of(rows, n, seed=n + 1, spread=spread, lost=lost)
    made = DeviceWeights(backend, rows, n, in_pieces=in_pieces)
    made.put(logs.reshape(-1))
    chosen, numbers = np.arange(rows) != 1, np.arange(rows) + 3
    seed = 2**64 - 5
    actual = made.ancestors(
        chosen, numbers, seed=seed, purpose=on_host.RESAMPLING, group=7,
        stratified=scheme == "stratified",
    )  # fmt: skip
    actual = made._host(actual).reshape(rows, n)
    shares = made.shares().reshape(rows, n)
    for row in range(rows):
        own = np.arange(n)
        if chosen[row]:
            own = on_host.ancestors_of(shares[row], scheme, seed, int(numbers[row]), 7 + row)
        assert (actual[row] == row * n + own).all()


@pytest.mark.parametrize("kind", ["any", "equal", "one"])
@pytest.mark.parametrize("n", [1, 37, 1000])
def test_systematic_resampling_is_residual_resampling(n, kind):
    """By fractions: as many copies as whole parts say, and of the rests by systematic resampling.

    So a scheme `residual` would be another name: docs/decisions/filters.md.
    """
    shares = np.random.default_rng(n).integers(1, 1000, n).astype(np.float64)
    shares[:] = {"any": shares, "equal": 3.0, "one": np.arange(n) == n // 2}[kind]
    actual = np.bincount(on_host.ancestors_of(shares, "systematic", 5, 2, 1), minlength=n)
    uniform = Fraction(float(on_host.uniform(5, on_host.RESAMPLING, 2, 1, 1)[0]))
    rest, copies = Fraction(0), []
    for share in shares.astype(int).tolist():
        expected = Fraction(share * n, int(shares.sum()))
        before, rest = rest, rest + expected % 1
        copies.append(expected // 1 + math.ceil(rest - uniform) - math.ceil(before - uniform))
    assert actual.tolist() == copies


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("n", [1, 300, 70_000])
def test_ancestors_where_nothing_weighs_are_the_particles_themselves(backend, n, in_pieces):
    """Such copies are launched before the host knows the weights; nobody takes them."""
    made = DeviceWeights(backend, 2, n, in_pieces=in_pieces)
    made.put(np.repeat([-np.inf, 0.0], n))
    for stratified in (False, True):
        actual = made.ancestors(
            np.ones(2, bool), np.zeros(2), seed=1, purpose=2, group=0, stratified=stratified
        )  # fmt: skip
        assert (made._host(actual) == np.arange(2 * n)).all()


def test_weights_that_lie_between_two_sums(backend):
    """Half a unit of the sum: which way it is rounded depends on what came before."""
    draw, n = np.random.default_rng(1), 80_000
    shares = np.where(draw.random(n) < 0.5, 2.0**-45, 3 * 2.0**-45) * draw.integers(1, 6, n)
    shares[0] = 1.0
    shares[1:300] = 1.0
    for in_pieces in (False, True):
        made = DeviceWeights(backend, 1, n, in_pieces=in_pieces)
        made.put(np.zeros(n))  # now, as equal weights would be written over those below
        made._shares = backend.upload(shares.copy())  # a CPU takes the array itself
        made.ancestors(
            np.ones(1, bool), np.zeros(1), seed=1, purpose=2, group=0, stratified=False
        )  # fmt: skip
        ladder = made._host(made._spare["ladder"])
        assert ladder.tobytes() == np.add.accumulate(shares).tobytes()


class Warps(EmulatedBackend):
    """Warps of threads in step, and memory of their own, as a GPU has."""

    def compile(self, source):
        made = super().compile(source)
        made.__class__ = AnyGrid
        return made

    def upload(self, array, stream=None):
        return np.array(super().upload(array, stream))


@pytest.mark.skipif(
    not any(c.name in ("g++", "clang++") for c in find_compilers()), reason="no g++ or clang++"
)
def test_warps(tmp_path):
    """Sums and ancestors on emulated warps, in rows that need several rounds."""
    device = Warps(tmp_path, 64, order=-1)
    test_sums_and_moments(device, 2, 1100, 0.4)
    test_weights_that_lie_between_two_sums(device)
    test_ancestors(device, 3, 5000, 20.0, 0.2, "systematic", in_pieces=None)
    device.close()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("of_each", [False, True])
def test_densities(backend, noise, of_each):
    n, y = 500, NOISES[noise]
    name, _, inside = noise.partition("(")
    parts = dict(part.split("=") for part in inside[:-1].replace(" ", "").split(","))
    constants = {key: np.full(n, float(value)) for key, value in parts.items()}
    if of_each:  # parameters of the model, which each particle has
        constants = {k: v * np.linspace(0.5, 1, n) for k, v in constants.items()}
        noise = f"{name}({', '.join(f'{key}={key}' for key in parts)})"
    counts = np.random.default_rng(2).poisson(6, (n, 2)).astype(np.int32)
    data = Observations({"time": [1.0], "a": [y], "b": [y]}, {"a": ("X", noise), "b": ("Z", noise)})
    values = {"X": counts[:, 1].astype(np.float64), "Z": np.linspace(-3.0, 30.0, n)}
    values["Z"][7] = np.nan
    expected = data.log_density(0, values.__getitem__, constants, n)
    made = DeviceWeights(backend, 1, n)
    made.put(np.zeros(n))
    status = np.zeros(n, np.uint8)
    status[3] = 2
    seen = data.seen_of(0, ("Y", "X"), values.__getitem__, constants)
    assert made.weigh(status, backend.upload(counts), seen)
    expected[3] = -np.inf
    assert made.logs().tobytes() == expected.tobytes()
