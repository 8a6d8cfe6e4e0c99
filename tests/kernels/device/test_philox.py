"""Philox against Random123's published answers; the packing of counters; uniform numbers."""

from __future__ import annotations

import ctypes
import sys

import measure_math
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX C++ compiler")


@pytest.fixture(scope="module")
def probe():  # type: ignore[no-untyped-def]
    return measure_math.CpuProbe()


def philox(probe, rows: list[list[int]]) -> list[list[int]]:  # type: ignore[no-untyped-def]
    given = np.array(rows, dtype=np.uint32)
    out = np.empty((len(rows), 4), dtype=np.uint32)
    probe.call("probe_philox", len(rows), given, out)
    return out.tolist()


def draw(probe, seed, stream, trajectory, point, number) -> list[int]:  # type: ignore[no-untyped-def]
    out = np.empty(4, dtype=np.uint32)
    probe.call(
        "probe_draw",
        ctypes.c_ulonglong(seed),
        ctypes.c_uint(stream),
        ctypes.c_ulonglong(trajectory),
        ctypes.c_uint(point),
        ctypes.c_ulonglong(number),
        out,
    )
    return out.tolist()


def test_known_answers(probe) -> None:  # type: ignore[no-untyped-def]
    ones = 0xFFFFFFFF
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
    assert philox(probe, [[0] * 6, [ones] * 6, pi]) == [
        [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ]


def test_counter_packing(probe) -> None:  # type: ignore[no-untyped-def]
    seed, stream, trajectory = 0x0123456789ABCDEF, 0xBEEF, 0xAB_1234_5678
    point, number = 0xFEDCBA, 0x7654_89AB_CDEF
    counter = [0x89ABCDEF, 0xBEEF7654, 0x12345678, 0xFEDCBAAB]
    expected = philox(probe, [[*counter, 0x89ABCDEF, 0x01234567]])[0]
    assert draw(probe, seed, stream, trajectory, point, number) == expected


def test_addresses_do_not_share_draws(probe) -> None:  # type: ignore[no-untyped-def]
    base = (7, 1, 0, 0, 0)
    seen = {tuple(draw(probe, *base))}
    for place in range(5):
        for bit in (0, (63, 15, 39, 23, 47)[place]):
            address = list(base)
            address[place] ^= 1 << bit
            seen.add(tuple(draw(probe, *address)))
    assert len(seen) == 11


def test_uniform_numbers(probe) -> None:  # type: ignore[no-untyped-def]
    edges = [0, 0xFFF, 0x1000, 2**63, 2**64 - 1, 2**64 - 0x1000]
    bits = np.concatenate(
        [
            np.array(edges, dtype=np.uint64),
            np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64),
        ]
    )
    low, half = np.empty(len(bits)), np.empty(len(bits))
    probe.call("probe_unit", len(bits), bits, low, half)
    upper = (bits >> np.uint64(12)).astype(np.float64)  # below 2**52: exact
    assert np.array_equal(half, upper * 2.0**-52)
    assert np.array_equal(low, (2.0**52 - upper) * 2.0**-52)
    assert low[0] == 1.0
    assert half[4] == 1.0 - 2.0**-52
    assert low[4] == 2.0**-52


def test_a_scaled_uniform_number_stays_below_the_scale(probe) -> None:  # type: ignore[no-untyped-def]
    bits = np.full(1, 2**64 - 1, dtype=np.uint64)
    low, half = np.empty(1), np.empty(1)
    probe.call("probe_unit", 1, bits, low, half)
    rng = np.random.default_rng(2)
    scales = np.concatenate([2.0 ** rng.uniform(-900, 900, 100_000), 2.0 ** np.arange(-900, 900)])
    assert np.all(half[0] * scales < scales)
    assert np.all(half[0] * np.nextafter(scales, 0) < np.nextafter(scales, 0))
