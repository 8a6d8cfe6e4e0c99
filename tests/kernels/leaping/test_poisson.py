"""Poisson numbers: their law, the random bits they take, equal bits from all compilers."""

from __future__ import annotations

import ctypes
import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_usage import NEWEST, OLDER, compile_usage, require_nvrtc
from places import TESTS
from quick_compiling import PLAIN
from scipy import stats

from tauslab.kernels.backends.cache import CSRC, csrc_texts
from tauslab.kernels.backends.compilers import STRICT, Compiler, find_compilers, host_compiler
from tauslab.kernels.backends.nvrtc import nvrtc_flags
from tauslab.kernels.ensemble.launch import philox_keys

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX C++ compiler")

PROBE = TESTS / "support" / "kernels" / "csrc_poisson_probe.cc"
KERNELS = {"probe_poisson", "probe_poisson_means", "probe_poisson_bits", "probe_leap_bits",
           "probe_log_probability", "probe_estimates"}  # fmt: skip

REJECTION = 24.0  # POISSON_REJECTION_MEAN
BELOW = math.nextafter(REJECTION, 0)
LARGEST = 2.0**50
ATTEMPTS = 64

# Both sides of the boundary between the methods, and of the larger tables and series.
MEANS = (1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 7.3, 12.0, BELOW, REJECTION, 24.5, 28.3, 35.0, 40.5, 100.0,
         300.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)  # fmt: skip
SEED = 20
FALSE_ALARM = 1e-6  # of every statistical check; there are 59: together 6e-5


class CpuProbe:
    """The probe on the CPU, as one thread."""

    def __init__(
        self, folder: Path, compiler: Compiler | None = None, source: Path = PROBE
    ) -> None:
        self.compiler = compiler or host_compiler()
        library = folder / f"{self.compiler.name}.so"
        flags = (*self.compiler.flags(), *STRICT, f"-I{CSRC}")
        command = (*self.compiler.command, *flags, str(source), "-o", str(library))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(library))

    def run(self, kernel, out, *arguments):
        words = [
            ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray)
            else ctypes.c_double(value) if isinstance(value, float)
            else ctypes.c_longlong(value)
            for value in (0, 1, *arguments, out)
        ]  # fmt: skip
        getattr(self.library, kernel)(*words)
        return out


class CudaProbe:
    """The probe on the first GPU."""

    def __init__(self, source: Path = PROBE) -> None:
        import cupy

        self.cupy = cupy
        flags = nvrtc_flags("sm_90", 128)
        options = tuple(f for f in flags if not f.startswith(("--gpu-arch", "--ptxas")))
        self.module = cupy.RawModule(code=source.read_text(), options=(*options, f"-I{CSRC}"))

    def run(self, kernel, out, *arguments):
        on_device = [
            self.cupy.asarray(value) if isinstance(value, np.ndarray)
            else np.float64(value) if isinstance(value, float)
            else np.int64(value)
            for value in (*arguments, out)
        ]  # fmt: skip
        self.module.get_function(kernel)((1024,), (128,), tuple(on_device))
        return self.cupy.asnumpy(on_device[-1])


def numbers(probe, mean, n, first=0, seed=SEED):
    """`n` Poisson numbers."""
    out = np.empty(n, dtype=np.int64)
    return probe.run("probe_poisson", out, philox_keys(seed), float(mean), first, n)


def numbers_of_bits(probe, means, u, v):
    """Poisson numbers of chosen uniform numbers, multiples of 2^-52: u in [0, 1), v in (0, 1]."""
    pairs = np.stack([u, 1.0 - np.asarray(v)], axis=1)
    fractions = np.rint(pairs * 2.0**52).astype(np.uint64) << np.uint64(12)
    words = np.stack([fractions >> np.uint64(32), fractions & np.uint64(0xFFFFFFFF)], axis=2)
    words = np.ascontiguousarray(words.reshape(len(pairs), 4), dtype=np.uint32)
    means = np.broadcast_to(np.asarray(means, dtype=np.float64), len(pairs)).copy()
    out = np.empty(len(pairs), dtype=np.int64)
    return probe.run("probe_poisson_bits", out, len(pairs), means, words)


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    return CpuProbe(tmp_path_factory.mktemp("poisson"))


@pytest.mark.parametrize("mean", MEANS)
def test_law(probe, mean) -> None:
    n = 1_000_000
    law = stats.poisson(mean)
    edges = np.unique(law.ppf(np.linspace(0, 1, 101)[1:-1]))
    # Small means have few values: their tail too, down to an expected count of 10.
    edges = np.unique(np.append(edges, law.isf([1e-3, 1e-4, 1e-5])))
    expected = n * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    actual = np.bincount(np.searchsorted(edges, numbers(probe, mean, n)), minlength=len(expected))
    while expected[-1] < 5:
        expected = np.append(expected[:-2], expected[-2:].sum())
        actual = np.append(actual[:-2], actual[-2:].sum())
    assert len(expected) > 1
    chi_square = float(((actual - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(chi_square, len(expected) - 1) > FALSE_ALARM


@pytest.mark.parametrize("mean", [0.01, 1.0, BELOW, REJECTION, 100.0, 1e4, 1e9])
def test_tails(probe, mean) -> None:
    n = 2_000_000
    law = stats.poisson(mean)
    drawn = numbers(probe, mean, n, first=1_000_000)
    for tail in (1e-3, 1e-4, 1e-5):
        high = law.isf(tail)
        checks = [(int((drawn > high).sum()), law.sf(high))]
        low = law.ppf(tail)
        if low > 0:
            checks.append((int((drawn < low).sum()), law.cdf(low - 1)))
        for count, probability in checks:
            assert stats.binomtest(count, n, probability).pvalue > FALSE_ALARM, (mean, tail)
    # Nothing from where 1e-14 of the law is left: false-alarm rate 2e-8.
    assert law.isf(1e-14) >= drawn.max()


@pytest.mark.parametrize("mean", [1e-12, 1e-3, 0.2, 1.0, 4.5, 9.99, BELOW])
def test_inversion_is_that_of_the_exact_law(probe, mean) -> None:
    u = np.random.default_rng(1).random(20_000)
    u = np.concatenate([u, 10.0 ** np.linspace(-15, 0, 500, endpoint=False), 1 - u[:500] * 1e-6])
    u = np.floor(u * 2**52) / 2**52
    k = numbers_of_bits(probe, mean, u, np.ones_like(u))
    law = stats.poisson(mean)
    assert np.all(law.cdf(k) >= u - 1e-14)
    assert np.all(law.cdf(k - 1) <= u + 1e-14)


def test_the_search_ends_for_every_uniform_number(probe) -> None:
    means = np.concatenate([np.linspace(0, BELOW, 100_000), [1e-300, 5e-324]])
    for left in (2.0**-52, 2.0**-51, 2.0**-50, 2.0**-45):
        u = np.full(len(means), 1.0 - left)
        k = numbers_of_bits(probe, means, u, np.ones_like(means))
        # At most the search's limit, and not below the quantile.
        assert np.all(k <= np.minimum(8 * means + 10, 3 * means + 17))
        assert np.all(stats.poisson.sf(k, means) <= left + 1e-14)


@pytest.mark.parametrize("mean", [24.0, 28.3, 50.0, 999.5, 1e5, 123456789.25, 1e9, 2.0**50])
def test_probability_that_the_rejection_compares_with(probe, mean) -> None:
    import mpmath

    away = np.concatenate([np.arange(-10, 10.5, 0.5), np.random.default_rng(2).normal(size=60)])
    k = np.unique(np.maximum(np.floor(mean + away * math.sqrt(mean)), 0.0))
    k = np.unique(np.append(k, [0.0, 1.0, 2.0, 15.0, 16.0, 17.0] if mean < 50 else []))
    means = np.full(len(k), mean)
    actual = probe.run("probe_log_probability", np.empty(len(k)), len(k), means, k)
    for value, number in zip(actual.tolist(), k.tolist(), strict=True):
        with mpmath.workdps(60):
            law = number * mpmath.log(mean) - mean - mpmath.loggamma(number + 1)
            error = abs(float(value + 2 * law))
        assert error <= 1e-15 * max(value, 50.0), (mean, number)


HATS = np.concatenate([[24.0], 10.0 ** np.linspace(1.39, 3, 60), 10.0 ** np.arange(4, 16, 2)])


def test_hat_is_above_the_law(probe) -> None:
    # v = 1 is under the hat's edge: whatever is accepted there would be drawn too seldom.  All
    # attempts fail, and the mean rounded down is what is left.
    u = (np.arange(4000) + 0.5) / 4000
    u = np.floor(u * 2**52) / 2**52
    for mean in HATS:
        k = numbers_of_bits(probe, mean, u, np.ones_like(u))
        assert np.all(k == math.floor(mean)), mean


@pytest.mark.parametrize("mean", HATS[HATS <= 100])
def test_a_number_is_accepted_in_proportion_to_its_probability(probe, mean) -> None:
    # Also where the squeeze decides without looking at the probability,
    # and most of all at its ends.
    end = 0.07 + np.linspace(1e-6, 1e-3, 500)
    u = np.concatenate([np.linspace(0.01, 0.99, 4001), end, 1 - end])
    u = np.floor(u * 2**52) / 2**52
    k = numbers_of_bits(probe, mean, u, np.full(len(u), 2.0**-52))
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = 0.02483 * b - 0.059
    hat = (1.1239 + 1.2 / (b - 3.4)) / (a / (0.5 - abs(u - 0.5)) ** 2 + b)
    accepted = stats.poisson.pmf(k, mean) / hat
    seen = (k != math.floor(mean)) & (accepted > 1e-9)  # a rejected number shows as the mean
    assert seen.sum() > 2000
    u, k, accepted = u[seen], k[seen], accepted[seen]
    assert accepted.max() < 1
    assert np.array_equal(numbers_of_bits(probe, mean, u, accepted * (1 - 1e-6)), k)
    rejected = numbers_of_bits(probe, mean, u, accepted * (1 + 1e-6))
    assert np.all(rejected == math.floor(mean))


def test_the_largest_and_smallest_bits_end(probe) -> None:
    ends = np.array([0.0, 2.0**-52, 2.0**-9, 0.5, 1 - 2.0**-9, 1 - 2.0**-52])
    for mean in (REJECTION, 1e9, LARGEST):
        k = numbers_of_bits(probe, mean, ends, np.full(len(ends), 2.0**-52))
        expected = [math.floor(mean)] * len(ends)
        assert k[[0, 1, 4, 5]].tolist() == [expected[i] for i in (0, 1, 4, 5)]


def test_means_without_a_law(probe) -> None:
    for mean in (-1.0, -5e-324, math.nan, math.inf, -math.inf, math.nextafter(LARGEST, math.inf)):
        assert numbers(probe, mean, 3).tolist() == [-1] * 3
    for mean in (0.0, -0.0, 5e-324, 1e-300, 2.0**-60):
        assert not numbers(probe, mean, 1000).any()
    largest = numbers(probe, LARGEST, 1000)
    assert np.all(np.abs(largest - LARGEST) < 6 * math.sqrt(LARGEST))  # false-alarm rate 2e-6


def philox4x32_10(counter: list[int], seed: int) -> list[int]:
    c0, c1, c2, c3 = counter
    k0, k1 = seed % 2**32, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 % 2**32, (p0 >> 32) ^ c3 ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


@pytest.mark.parametrize(
    ("leap", "reaction", "attempt"),
    [(0, 0, 0), (5, 3, 2), (2**16 - 1, 2**26 - 1, 63), (2**16, 1, 0), (2**30 - 1, 2**26 - 1, 63)],
)
def test_address_of_the_bits(probe, leap, reaction, attempt) -> None:
    trajectory, point, seed = 2**40 - 3, 2**24 - 5, 2**63 + 11
    out = np.empty(4, dtype=np.uint32)
    arguments = (philox_keys(seed), trajectory, point, leap, reaction, attempt)
    probe.run("probe_leap_bits", out, *arguments)
    draw = (leap % 2**16) * 2**32 + reaction * ATTEMPTS + attempt
    stream = 0x4000 + leap // 2**16
    counter = draw | stream << 48 | trajectory << 64 | point << 104
    words = [counter >> 32 * i & 0xFFFFFFFF for i in range(4)]
    assert out.tolist() == philox4x32_10(words, seed)


def digests(probe, n) -> dict[str, str]:
    """SHA-256 of `n` numbers a mean, as little-endian int64; and of `n` means all over."""
    drawn = {f"{mean:.17g}": numbers(probe, mean, n) for mean in MEANS}
    out = np.empty(n, dtype=np.int64)
    drawn["spread"] = probe.run("probe_poisson_means", out, philox_keys(SEED), 0, n)
    return {
        name: hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()
        for name, values in drawn.items()
    }


FAILED, OPEN = -1, -2  # in place of a number
ESTIMATED = (1e-300, 1e-6, 0.01, 0.5, 1.0, 2.7, 5.0, 8.0, 12.0, 16.5, 20.0, BELOW, REJECTION, 26.0,
             31.4, 40.0, 50.0, 64.7, 100.0, 300.0, 1e3, 2500.0, 4095.0)  # fmt: skip


def hard_words(mean, n):
    """Random bits, and between them such as make u or v small, or u close to 1."""
    random = np.random.default_rng(round(1e3 * mean) % 2**32)
    words = random.integers(0, 2**32, (n, 4), dtype=np.uint32)
    small = words[:, 3] >> random.integers(0, 32, n).astype(np.uint32)
    kind = np.arange(n) % 16
    words[kind == 1, 0] = small[kind == 1]
    words[kind == 2, 0] = ~small[kind == 2]
    words[kind == 3, 2] = small[kind == 3]
    words[kind == 4, 2] = ~small[kind == 4]
    return words, kind > 4


def estimates(probe, mean, words):
    """By single and by double precision, of n random bits."""
    n = len(words)
    out = np.empty((n, 2), dtype=np.int64)
    return probe.run("probe_estimates", out, n, np.full(n, float(mean)), words.reshape(-1)).T


def check_estimates(probe, n):
    """What is not open is what double precision makes of it, and little is open."""
    for mean in ESTIMATED:
        words, usual = hard_words(mean, n)
        actual, exact = estimates(probe, mean, words)
        wrong = (actual != OPEN) & (actual != exact)
        assert not wrong.any(), (mean, words[wrong][:3], actual[wrong][:3], exact[wrong][:3])
        if mean > 1e-30:  # its reciprocal is too large
            assert np.mean(actual[usual] == OPEN) < (0.008 if mean < 2000 else 0.03), mean


def test_estimates_are_right_or_open(probe) -> None:
    check_estimates(probe, 100_000)


def test_means_beyond_estimates_are_open(probe) -> None:
    for mean in (4096.5, 1e6, 2.0**50, 2.0**60):
        actual, exact = estimates(probe, mean, hard_words(mean, 5000)[0])
        assert np.all((actual == OPEN) | (exact == FAILED))


# Of 20,000 numbers a line.
DIGESTS = TESTS / "support" / "kernels" / "poisson_digests.txt"


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
        assert digests(CpuProbe(tmp_path, compiler), 20_000) == expected, compiler.name


@pytest.mark.gpu
def test_cuda_gives_the_same_bits(probe) -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no CUDA device here")
    assert digests(CudaProbe(), 500_000) == digests(probe, 500_000)


@pytest.mark.gpu
def test_estimates_of_a_gpu_are_right_or_open() -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no CUDA device here")
    check_estimates(CudaProbe(), 4_000_000)


@pytest.mark.parametrize("architecture", [*OLDER, NEWEST])
def test_kernels_need_few_registers(architecture) -> None:
    require_nvrtc(architecture)
    texts = csrc_texts() | {PROBE.name: PROBE.read_text()}
    usage = compile_usage(PROBE.name, texts, architecture)
    assert set(usage) == KERNELS
    for name, (stack, stores, loads, registers) in usage.items():
        print(f"{name}: {registers} registers, {stack} bytes of local memory")
        # No array lies in local memory. For sm_90 ptxas spills a few values to keep more warps:
        # far from a thread's 255 registers.
        assert max(stack, stores, loads) <= 32, name
        assert registers <= 96
