"""Binomial numbers: their law, the random bits they take, equal bits from all compilers."""

from __future__ import annotations

import hashlib
import math
import sys

import numpy as np
import pytest
from cuda_usage import NEWEST, OLDER, compile_usage, require_nvrtc
from places import TESTS
from quick_compiling import PLAIN
from scipy import stats

from tauslab.kernels.backends.cache import csrc_texts
from tauslab.kernels.backends.compilers import find_compilers
from tauslab.kernels.ensemble.launch import philox_keys

from .test_poisson import CpuProbe, CudaProbe

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX C++ compiler")

PROBE = TESTS / "support" / "kernels" / "csrc_binomial_probe.cc"
KERNELS = {"probe_binomial", "probe_binomial_spread", "probe_binomial_bits", "probe_log_binomial"}

MOST = 2**50
# Decades of trials; probabilities on both sides of 1/2; means on both sides of 24.
CASES = (
    (1, 0.3), (2, 0.5), (3, 1e-3), (5, 0.9), (10, 0.5), (10, 1e-4), (24, 0.97), (47, 0.5),
    (48, 0.5), (49, 0.5), (60, 0.4), (80, 0.31), (100, 0.01), (100, 0.239), (100, 0.241),
    (100, 0.5), (100, 0.77), (1000, 1e-3), (1000, 0.0239), (1000, 0.0241), (1000, 0.3),
    (10**4, 1e-5), (10**4, 0.5), (10**4, 0.999), (10**5, 2.39e-4), (10**5, 0.123), (10**6, 1e-6),
    (10**6, 0.7), (10**7, 1e-5), (10**8, 0.5), (10**9, 1e-9), (10**9, 0.01), (10**12, 3e-11),
    (10**12, 1e-10), (10**12, 0.5),
)  # fmt: skip
SEED = 21
FALSE_ALARM = 1e-6  # of every statistical check; there are 35 + 32: together 7e-5


def numbers(probe, trials, p, n, first=0):
    """`n` binomial numbers."""
    out = np.empty(n, dtype=np.int64)
    return probe.run("probe_binomial", out, philox_keys(SEED), int(trials), float(p), first, n)


def numbers_of_bits(probe, trials, p, u, v):
    """Binomial numbers of chosen uniform numbers, multiples of 2^-52: u in [0, 1), v in (0, 1]."""
    pairs = np.stack([u, 1.0 - np.asarray(v)], axis=1)
    fractions = np.rint(pairs * 2.0**52).astype(np.uint64) << np.uint64(12)
    words = np.stack([fractions >> np.uint64(32), fractions & np.uint64(0xFFFFFFFF)], axis=2)
    words = np.ascontiguousarray(words.reshape(len(pairs), 4), dtype=np.uint32)
    trials = np.broadcast_to(np.asarray(trials, dtype=np.int64), len(pairs)).copy()
    p = np.broadcast_to(np.asarray(p, dtype=np.float64), len(pairs)).copy()
    out = np.empty(len(pairs), dtype=np.int64)
    return probe.run("probe_binomial_bits", out, len(pairs), trials, p, words)


def whole(u):
    """As a multiple of 2^-52."""
    return np.floor(np.asarray(u) * 2**52) / 2**52


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    return CpuProbe(tmp_path_factory.mktemp("binomial"), source=PROBE)


@pytest.mark.parametrize(("trials", "p"), CASES)
def test_law(probe, trials, p) -> None:
    n = 500_000
    law = stats.binom(trials, p)
    edges = np.unique(law.ppf(np.linspace(0, 1, 101)[1:-1]))
    # Laws of few values: their tails too.
    tails = [1e-3, 1e-4, 2e-5]
    edges = np.unique(np.concatenate([edges, law.isf(tails), law.ppf(tails)]))
    edges = edges[edges < trials]
    expected = n * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    drawn = numbers(probe, trials, p, n)
    assert 0 <= drawn.min() <= drawn.max() <= trials
    actual = np.bincount(np.searchsorted(edges, drawn), minlength=len(expected))
    for _ in range(2):  # cells of few are joined with their neighbours, at both ends
        while expected[-1] < 5:
            expected = np.append(expected[:-2], expected[-2:].sum())
            actual = np.append(actual[:-2], actual[-2:].sum())
        expected, actual = expected[::-1], actual[::-1]
    assert len(expected) > 1
    chi_square = float(((actual - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(chi_square, len(expected) - 1) > FALSE_ALARM


@pytest.mark.parametrize(
    ("trials", "p"), [(40, 0.5), (100, 0.24), (100, 0.5), (1000, 0.9), (10**6, 0.5), (10**9, 1e-7)]
)
def test_tails(probe, trials, p) -> None:
    n = 1_000_000
    law = stats.binom(trials, p)
    drawn = numbers(probe, trials, p, n, first=1_000_000)
    for tail in (1e-3, 1e-4, 1e-5):
        high, low = law.isf(tail), law.ppf(tail)
        for count, probability in (
            (int((drawn > high).sum()), law.sf(high)),
            (int((drawn < low).sum()), law.cdf(low - 1)),
        ):
            assert stats.binomtest(count, n, probability).pvalue > FALSE_ALARM, tail
    # Nothing from where 1e-14 of the law is left: false-alarm rate 2e-8.
    assert law.ppf(1e-14) <= drawn.min() <= drawn.max() <= law.isf(1e-14)


@pytest.mark.parametrize(
    ("trials", "p"),
    [(1, 1e-9), (1, 0.5), (7, 0.3), (47, 0.5), (95, 0.25), (1000, 0.0239), (10**9, 2e-8),
     (10**15, 2.3e-14)],
)  # fmt: skip
def test_inversion_is_that_of_the_exact_law(probe, trials, p) -> None:
    u = np.random.default_rng(1).random(20_000)
    u = whole(np.concatenate([u, 10.0 ** np.linspace(-15, 0, 500, endpoint=False), 1 - u * 1e-6]))
    k = numbers_of_bits(probe, trials, p, u, np.ones_like(u))
    law = stats.binom(trials, p) if trials < 10**12 else stats.poisson(trials * p)
    assert np.all(law.cdf(k) >= u - 2e-14)
    assert np.all(law.cdf(k - 1) <= u + 2e-14)


def test_the_search_ends_for_every_uniform_number(probe) -> None:
    rng = np.random.default_rng(3)
    trials = np.floor(2.0 ** rng.uniform(0, 50, 100_000)).astype(np.int64)
    p = np.minimum(rng.random(100_000) * 24 / trials, 0.5)
    for left in (2.0**-52, 2.0**-51, 2.0**-45):
        u = np.full(len(trials), 1.0 - left)
        k = numbers_of_bits(probe, trials, p, u, np.ones_like(p))
        mean = trials * p
        assert np.all(k <= np.minimum(trials, np.minimum(8 * mean + 10, 3 * mean + 17)))
        assert np.all(stats.binom.sf(k, trials, p) <= left + 2e-14)


@pytest.mark.parametrize(
    ("trials", "p"),
    [(48, 0.5), (100, 0.3), (1000, 0.04), (10**6, 0.45), (10**12, 1e-9), (MOST, 0.5)],
)
def test_probability_that_the_rejection_compares_with(probe, trials, p) -> None:
    import mpmath

    mean, deviation = trials * p, math.sqrt(trials * p * (1 - p))
    away = np.concatenate([np.arange(-8, 8.5, 0.5), np.random.default_rng(2).normal(size=40)])
    k = np.floor(mean + away * deviation)
    k = np.unique(
        np.clip(np.append(k, [0, 1, trials - 1, trials] if trials < 200 else []), 0, trials)
    )
    arrays = (np.full(len(k), float(trials)), np.full(len(k), p), k)
    actual = probe.run("probe_log_binomial", np.empty(len(k)), len(k), *arrays)
    for value, number in zip(actual.tolist(), k.tolist(), strict=True):
        with mpmath.workdps(60):
            law = (
                mpmath.log(mpmath.binomial(trials, number)) if trials < 10**7
                else mpmath.loggamma(trials + 1) - mpmath.loggamma(number + 1)
                - mpmath.loggamma(trials - number + 1)
            )  # fmt: skip
            law += number * mpmath.log(p) + (trials - number) * mpmath.log(1 - mpmath.mpf(p))
            error = abs(float(value + 2 * law))
        # The law is that of a p which is off by two units in its last place at most.
        shifted = 2.0**-51 * abs(number - mean) / (1 - p)
        assert error <= 2e-15 * max(value, 50.0) + shifted, number


HATS = [
    (round(mean / p), p)
    for p in (1e-9, 1e-3, 0.03, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5)
    for mean in (24, 24.5, 26, 30, 37, 50, 80, 150, 300, 1e3, 1e4, 1e6, 1e9, 1e12)
    if round(mean / p) * p >= 24 and round(mean / p) <= MOST
]


def hat(trials, p, u):
    """The hat of the rejection over u, in units of a probability."""
    b = 1.15 + 2.53 * math.sqrt(trials * p * (1 - p))
    a = 0.0248 * b - 0.0873 + 0.01 * p
    return (1.1239 + 1.6 / b) / (a / (0.5 - abs(u - 0.5)) ** 2 + b)


@pytest.mark.validate
def test_hat_is_above_the_law(probe) -> None:
    # v = 1 is under the hat's edge: whatever is accepted there would be drawn too seldom. All
    # attempts fail, and the mean rounded down is what is left.
    u = whole((np.arange(4000) + 0.5) / 4000)
    for trials, p in HATS:
        k = numbers_of_bits(probe, trials, p, u, np.ones_like(u))
        assert np.all(k == math.floor(trials * p)), (trials, p)


@pytest.mark.parametrize(("trials", "p"), [case for case in HATS if case[0] * case[1] <= 100])
def test_a_number_is_accepted_in_proportion_to_its_probability(probe, trials, p) -> None:
    # Also where the squeeze decides without looking at the probability,
    # and most of all at its ends.
    end = 0.07 + np.linspace(1e-6, 1e-3, 500)
    u = whole(np.concatenate([np.linspace(0.01, 0.99, 4001), end, 1 - end]))
    k = numbers_of_bits(probe, trials, p, u, np.full(len(u), 2.0**-52))
    accepted = stats.binom.pmf(k, trials, p) / hat(trials, p, u)
    seen = (k != math.floor(trials * p)) & (accepted > 1e-9)  # a rejected one shows as the mean
    assert seen.sum() > 2000
    u, k, accepted = u[seen], k[seen], accepted[seen]
    assert accepted.max() < 1
    assert np.array_equal(numbers_of_bits(probe, trials, p, u, accepted * (1 - 1e-6)), k)
    rejected = numbers_of_bits(probe, trials, p, u, accepted * (1 + 1e-6))
    assert np.all(rejected == math.floor(trials * p))


def test_the_largest_and_smallest_bits_end(probe) -> None:
    ends = np.array([0.0, 2.0**-52, 0.5, 1 - 2.0**-52])
    for trials in (48, 10**9, MOST):
        k = numbers_of_bits(probe, trials, 0.5, ends, np.full(len(ends), 2.0**-52))
        assert k[[0, 1, 3]].tolist() == [trials // 2] * 3


def test_what_has_no_law_and_what_needs_no_draw(probe) -> None:
    for trials, p in (
        (-1, 0.5), (MOST + 1, 0.5), (3, -1e-9), (3, math.nextafter(1, 2)), (3, math.nan),
        (3, math.inf),
    ):  # fmt: skip
        assert numbers(probe, trials, p, 3).tolist() == [-1] * 3
    for trials in (0, 1, 50, MOST):
        for p in (0.0, -0.0, 5e-324, 1e-300):
            assert not numbers(probe, trials, p, 100).any()
        assert np.all(numbers(probe, trials, 1.0, 100) == trials)
    assert not numbers(probe, 0, 0.7, 100).any()
    largest = numbers(probe, MOST, 0.5, 1000)
    assert np.all(np.abs(largest - MOST / 2) < 3 * math.sqrt(MOST))  # false-alarm rate 2e-6


def test_trials_and_failures_mirror_each_other(probe) -> None:
    """From the same bits, p and 1 - p give numbers that add up to the trials."""
    for trials, p in ((10, 0.25), (1000, 0.375), (10**6, 2.0**-10)):
        few, many = (numbers(probe, trials, q, 1000) for q in (p, 1 - p))
        assert np.all(few + many == trials)


def digests(probe, n) -> dict[str, str]:
    """SHA-256 of `n` numbers a case, as little-endian int64; and of `n` cases all over."""
    drawn = {f"{trials}:{p:.17g}": numbers(probe, trials, p, n) for trials, p in CASES}
    out = np.empty(n, dtype=np.int64)
    drawn["spread"] = probe.run("probe_binomial_spread", out, philox_keys(SEED), 0, n)
    assert drawn["spread"].min() >= 0
    return {
        name: hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()
        for name, values in drawn.items()
    }


# Of 20,000 numbers a line.
DIGESTS = TESTS / "support" / "kernels" / "binomial_digests.txt"


def test_digests_are_those_of_every_device(probe) -> None:
    expected = dict(line.split() for line in DIGESTS.read_text().splitlines())
    assert digests(probe, 20_000) == expected


def test_compilers_give_the_same_bits(probe, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", PLAIN)
    others = [c for c in find_compilers() if c != probe.compiler]
    if not others:
        pytest.skip("only one C++ compiler here")
    expected = digests(probe, 20_000)
    for compiler in others:
        assert digests(CpuProbe(tmp_path, compiler, PROBE), 20_000) == expected, compiler.name


@pytest.mark.gpu
def test_cuda_gives_the_same_bits(probe) -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no CUDA device here")
    assert digests(CudaProbe(PROBE), 500_000) == digests(probe, 500_000)


@pytest.mark.parametrize("architecture", [*OLDER, NEWEST])
def test_kernels_need_few_registers(architecture) -> None:
    require_nvrtc(architecture)
    usage = compile_usage(PROBE.name, csrc_texts() | {PROBE.name: PROBE.read_text()}, architecture)
    assert set(usage) == KERNELS
    for name, (stack, stores, loads, registers) in usage.items():
        print(f"{name}: {registers} registers, {stack} bytes of local memory")
        assert max(stack, stores, loads) <= 32, name
        assert registers <= 128
