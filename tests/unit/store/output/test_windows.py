"""Sums of real numbers as digits: exact, and the same in whatever order and pieces they come."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_job import Shared, ThreadComm

from tauslab.store.format import windows
from tauslab.store.format.statistics import add_accumulators, add_groups, sum_over_ranks

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-1022 - 5e-324, 1.0, -1.0, 1 - 2.0**-53, 1e-9,
        1e16, 2.0**23, 2.0**46 - 2.0**-6, 1e308, -1e308, np.finfo(float).max]  # fmt: skip
ONE = np.zeros(1, np.intp)


def sums_of(values):
    """Accumulators of values ``[row]``, with one time and one quantity."""
    rows = np.array(values, np.float64).reshape(-1, 1, 1)
    return {f"obs_{name}": part[0] for name, part in windows.add_reals(rows, ONE).items()}


def nothing():
    shapes = {"n": (), "infinite": (), "top": (), "low": (), "sum": (4,), "sq": (7,)}
    return {f"obs_{name}": np.zeros((1, 1, *digits), np.uint64) for name, digits in shapes.items()}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def exact(sums):
    """The two sums that the digits stand for, as fractions."""
    low = int(windows.exponents(sums["obs_top"])[0, 0])
    total, squares = (
        sum(int(d) << 23 * k for k, d in enumerate(digits))
        for digits in (sums["obs_sum"][0, 0].view(np.int64), sums["obs_sq"][0, 0])
    )
    return total * Fraction(2) ** low, squares * Fraction(2) ** (2 * low + 23)


def moments_of(sums):
    names = ("n", "top", "sum", "sq")
    return (float(v[0, 0]) for v in windows.moments(*(sums[f"obs_{k}"] for k in names)))


@settings(deadline=None, max_examples=80)
@given(st.lists(FINITE | st.sampled_from(HARD), min_size=1, max_size=40), st.randoms())
def test_neither_order_nor_pieces_matter(values, random):
    whole = sums_of(values)
    shuffled = random.sample(values, len(values))
    assert same(sums_of(shuffled), whole)
    pieces = []
    while shuffled:
        size = random.randint(1, len(shuffled))
        pieces, shuffled = [*pieces, sums_of(shuffled[:size])], shuffled[size:]
    while len(pieces) > 1:  # a random tree
        one, other = (pieces.pop(random.randrange(len(pieces))) for _ in range(2))
        add_accumulators(one, other)
        pieces.append(one)
    assert same(pieces[0], whole)


@settings(deadline=None, max_examples=80)
@given(st.lists(FINITE | st.sampled_from(HARD), min_size=1, max_size=30))
def test_what_is_lost_is_bounded(values):
    """A number loses less than 2^-69 of the largest, a square less than 2^-115 of its square."""
    sums, largest = sums_of(values), max(abs(Fraction(v)) for v in values)
    total, squares = exact(sums)
    n = len(values)
    assert abs(total - sum(map(Fraction, values))) <= n * largest / 2**69
    assert 0 <= sum(Fraction(v) ** 2 for v in values) - squares <= n * largest**2 / 2**115
    if not windows.loses(sums["obs_top"], sums["obs_low"])[0, 0]:
        assert total == sum(map(Fraction, values))


@settings(deadline=None, max_examples=80)
@given(st.lists(FINITE | st.sampled_from(HARD), min_size=2, max_size=30))
def test_moments_are_those_of_fractions(values):
    """But for rounding: to n 2^-67 of the mean's standard error, n 2^-66 of the variance."""
    n, numbers = len(values), [Fraction(v) for v in values]
    mean = sum(numbers) / n
    variance = sum((v - mean) ** 2 for v in numbers) / (n - 1)
    found_mean, found_variance = moments_of(sums_of(values))
    tiny = Fraction(2) ** -1074
    # Squares, since fractions have no roots.
    off = max(abs(Fraction(found_mean) - mean) - abs(mean) / 2**53 - tiny, Fraction(0))
    assert off**2 <= Fraction(n, 2**67) ** 2 * variance / n
    if variance > Fraction(np.finfo(float).max):
        assert found_variance == math.inf or found_variance == np.finfo(float).max
    else:
        off = abs(Fraction(found_variance) - variance)
        assert off <= variance * (Fraction(1, 2**52) + Fraction(n, 2**66)) + tiny


def test_the_mean_of_equal_numbers_is_that_number_and_they_do_not_vary():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 0x7FE0_0000_0000_0000, 300).astype(np.uint64)
    for value in [*bits.view(np.float64).tolist(), *HARD]:
        assert list(moments_of(sums_of([value] * 7))) == [value, 0.0]


def test_sums_that_are_not_lost_agree_with_fsum():
    rng = np.random.default_rng(2)
    for _ in range(50):
        values = rng.normal(rng.normal(0, 10), 1, rng.integers(1, 300)).tolist()
        assert float(exact(sums_of(values))[0]) == math.fsum(values)


def test_a_large_number_after_small_ones_leaves_what_one_run_leaves():
    """Small numbers carry into higher places: what leaves the window takes all of that along."""
    small = [1.0 - 2.0**-30] * 5000
    total = sums_of(small)
    add_accumulators(total, sums_of([2.0**200]))
    assert same(total, sums_of([*small, 2.0**200]))
    assert exact(total)[0] == 2**200


def test_zeros_and_signs():
    sums = sums_of([0.0, -0.0, 0.0])
    assert not sums["obs_top"].any()
    assert list(moments_of(sums)) == [0.0, 0.0]
    sums = sums_of([1e308, -1e308])
    assert list(moments_of(sums)) == [0.0, math.inf]
    sums = sums_of([5e-324, -5e-324, 5e-324, 5e-324])
    assert exact(sums)[0] == 2 * Fraction(2) ** -1074


def test_what_is_not_finite_is_counted():
    sums = sums_of([1.0, math.nan, math.inf, -math.inf, 3.0])
    assert (int(sums["obs_n"][0, 0]), int(sums["obs_infinite"][0, 0])) == (2, 2)
    assert list(moments_of(sums)) == [2.0, 2.0]


def test_digits_of_the_most_trajectories_fit():
    """2^40 of the numbers with the largest digits, added by doubling."""
    value = float(2**53 - 1) * 2.0**-7
    sums = sums_of([-value])
    for _ in range(40):
        add_accumulators(sums, {name: part.copy() for name, part in sums.items()})
    assert int(sums["obs_n"][0, 0]) == 2**40
    assert exact(sums) == (-(2**40) * Fraction(value), 2**40 * Fraction(value) ** 2)
    assert list(moments_of(sums)) == [-value, 0.0]


def test_groups_and_ranks_are_added_in_one_window():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(6, 50)) * 10.0 ** rng.integers(-40, 40, (6, 1))
    parts = [sums_of(row) for row in values]
    expected = sums_of(values.ravel())
    groups = {name: np.stack([part[name] for part in parts]) for name in expected}
    total = nothing()
    add_groups(total, groups)
    assert same(total, expected)
    shared = Shared(len(parts))
    actual = [{} for _ in parts]

    def be(rank):
        actual[rank] = sum_over_ranks(ThreadComm(shared, rank), parts[rank])

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(one, expected) for one in actual)


def test_numbers_that_lose_bits_are_reported():
    def lost(values):
        sums = sums_of(values)
        return bool(windows.loses(sums["obs_top"], sums["obs_low"])[0, 0])

    assert lost([1e308, -1e308, 1.0])
    assert not lost([1e3, 0.1])
    assert not lost([0.0])
