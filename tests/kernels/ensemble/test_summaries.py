"""Summaries of known traces, on each device: what the definitions of docs/run.md give."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tauslab.kernels.ensemble.summaries import KINDS, Summaries, Summary

TIMES = np.linspace(0.0, 100.0, 1001)
PERIOD = 8.0
SINE = np.sin(2 * math.pi * TIMES / PERIOD)

# Amplitude: half the distance from peak to trough; the period of the first and where there is none.
WAVES = {
    "sine": (1000 + 400 * SINE, 400.0, PERIOD),
    "square": (1000 + 400 * np.sign(SINE + 1e-9), 400.0, PERIOD),
    "spikes": (1000 + 400 * (np.mod(TIMES, PERIOD) < 0.05 * PERIOD), 200.0, PERIOD),
    "sawtooth": (1000 + 50 * np.mod(TIMES + 3, PERIOD), 197.5, PERIOD),
    "constant": (np.full(1001, 1000.0), 0.0, None),
    "ramp": (1000 + 10 * TIMES, 0.0, None),
    "decay": (1000 * np.exp(-TIMES / 5), 0.0, None),
    # The autocorrelation of e^(-t / 2) sin(2 pi t / 8) has a first peak of e^-4.
    "damped": (1000 + 900 * np.exp(-TIMES / 2) * SINE, 0.0, None),
}


def run(
    backend, traces: Any, summaries: Sequence[Summary], times=TIMES, *, columns: int = 1
) -> list[np.ndarray]:
    """Each summary ``[row]`` of traces ``[row, time]``, put between other columns."""
    rows = np.asarray(traces)
    real = rows.dtype.kind == "f"
    buffer = np.full((*rows.shape, columns), 7, np.float64 if real else np.int32)
    buffer[..., -1] = rows
    named = {str(index): summary for index, summary in enumerate(summaries)}
    kernels = Summaries(backend, times, (columns, columns), named)
    stream, into = backend.stream(), kernels.buffers(len(rows))
    samples = backend.upload(buffer)
    kernels.compute(*((None, samples) if real else (samples, None)), len(rows), into, stream)
    mirrors = {name: backend.mirror(numbers) for name, numbers in into.items()}
    for name, numbers in into.items():
        backend.download(numbers, mirrors[name], len(rows), stream)
    stream.record().wait()
    return [mirrors[name].copy() for name in named]


def one(backend, trace, kind, *, times=TIMES, **more) -> float:
    trace = np.asarray(trace)
    settings = {"column": 0, "real": trace.dtype.kind == "f", "begin": 0, "end": len(trace)}
    return float(run(backend, [trace], [Summary(kind, **{**settings, **more})], times)[0][0])


@pytest.mark.parametrize("name", WAVES)
@pytest.mark.parametrize("whole", [True, False])
def test_waves(backend, name, whole):
    trace, amplitude, period = WAVES[name]
    trace = np.rint(trace).astype(np.int32) if whole else trace
    # Turning points are samples, so they miss the top by what a wave does in half a step.
    assert one(backend, trace, "amplitude") == pytest.approx(amplitude, rel=0.006)
    actual = one(backend, trace, "period")
    assert math.isnan(actual) if period is None else actual == pytest.approx(period, rel=0.004)


def test_noise_on_a_wave_makes_no_turning_points(backend):
    """A noise of sd 40 on an amplitude of 400 raises peaks by its own extremes, no more."""
    rng = np.random.default_rng(5)
    noisy = np.rint(1000 + 400 * SINE + rng.normal(0, 40, TIMES.size)).astype(np.int32)
    assert 400 < one(backend, noisy, "amplitude") < 480
    assert one(backend, noisy, "period") == pytest.approx(PERIOD, rel=0.01)


def test_noise_alone_does_not_oscillate(backend):
    """White noise, and noise with a memory: of 300 traces each, none has a first peak of 0.3.

    The highest of some 40 values around a first peak of white noise has a standard deviation of
    0.03, so 0.3 is ten of them; the noise with a memory of 5 samples stays below 0.3 too but for
    about 1 in 1,000 traces.
    """
    rng = np.random.default_rng(11)
    white = rng.normal(0, 100, (300, TIMES.size))
    red = white.copy()
    for k in range(1, TIMES.size):
        red[:, k] += math.exp(-1 / 5) * red[:, k - 1]
    traces = np.rint(np.concatenate([white, red]) + 5000).astype(np.int32)
    (actual,) = run(backend, traces, [Summary("amplitude", 0, False, 0, TIMES.size)])
    assert (actual[:300] == 0).all()
    assert (actual[300:] == 0).sum() >= 296


def test_the_period_of_a_noisy_oscillator(backend):
    """An oscillator driven by noise: the highest lagged correlation near its period, 50 samples.

    `numpy.correlate` gives the function; between half and one and a half periods lies one peak.
    """
    rng = np.random.default_rng(21)
    x = np.zeros((20, 1001))
    for k in range(2, 1001):
        x[:, k] = 1.96 * x[:, k - 1] - 0.976 * x[:, k - 2] + rng.normal(0, 10, 20)
    traces = np.rint(50000 + 20 * x).astype(np.int32)
    period, amplitude = run(
        backend, traces, [Summary(k, 0, False, 0, 1001) for k in ("period", "amplitude")]
    )
    for row, trace in enumerate(traces):
        c = trace - trace.mean()
        pairs = np.arange(1001, 0, -1)
        r = np.correlate(c, c, "full")[1000:] / pairs / c.var()
        lag = 25 + int(r[25:76].argmax())
        if r[lag] < 0.3:
            assert amplitude[row] == 0
            assert math.isnan(period[row])
        else:
            assert abs(period[row] / 0.1 - lag) <= 0.5
            assert 1 < amplitude[row] / trace.std() < 3
    assert np.isfinite(period).sum() >= 10


def test_a_window_leaves_out_what_was_before(backend):
    trace = np.rint(np.where(TIMES < 40, 5000, 1000 + 400 * SINE)).astype(np.int32)
    assert one(backend, trace, "amplitude", begin=400) == pytest.approx(400, rel=0.006)
    assert one(backend, trace, "maximum") == 5000
    assert one(backend, trace, "maximum", begin=400) == 1400
    assert one(backend, trace, "minimum", begin=400, end=405) == trace[400:405].min()
    assert one(backend, trace, "mean", end=400) == 5000


def test_the_mean_is_exact_for_counts(backend):
    trace = np.random.default_rng(1).integers(0, 2**31 - 1, TIMES.size).astype(np.int32)
    assert one(backend, trace, "mean") == int(trace.astype(object).sum()) / TIMES.size


@pytest.mark.parametrize(
    ("trace", "level", "direction", "expected"),
    [
        ([1, 3, 5, 4, 5], 5, 0, 2.0),
        ([1, 3, 5, 4, 5], 4.5, 0, 2.0),
        ([9, 7, 5, 6, 1], 6, 0, 2.0),
        ([5, 7, 5, 6, 1], 5, 0, 0.0),
        ([9, 1, 5, 9, 1], 5, 1, 0.0),
        ([1, 4, 5, 9, 1], 1, -1, 0.0),
        ([9, 4, 5, 3, 1], 3, -1, 4.0),
        ([1, 2, 3, 4, 5], 6, 0, math.nan),
        ([1, 5, -1, -1, -1], 5, 0, 0.5),
        ([1, 2, -1, -1, -1], 5, 0, math.nan),
        ([-1, -1, -1, -1, -1], 5, -1, math.nan),
    ],
)
def test_first_passage(backend, trace, level, direction, expected):
    times = np.array([0.0, 0.5, 2.0, 4.0, 4.5])
    counts = np.array(trace, np.int32)
    actual = one(backend, counts, "first-passage", times=times, level=level, direction=direction)
    np.testing.assert_equal(actual, expected)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ([3, 0, 0, 0], 1.0),
        ([3, 0, 1, 0], 4.0),
        ([0, 0, 0, 0], 0.0),
        ([3, 0, 0, 1], math.nan),
        ([3, 0, -1, -1], math.nan),
    ],
)
def test_extinction(backend, trace, expected):
    times = np.array([0.0, 1.0, 2.0, 4.0])
    actual = one(backend, np.array(trace, np.int32), "extinction", times=times)
    np.testing.assert_equal(actual, expected)


def test_time_above_counts_the_state_until_the_next_sample(backend):
    times = np.array([0.0, 1.0, 3.0, 6.0, 10.0])
    trace = np.array([5, 4, 5, 6, 9], np.int32)
    assert one(backend, trace, "time-above", times=times, level=4) == 1 + 3 + 4
    assert one(backend, trace, "time-above", times=times, level=5) == 4
    assert one(backend, trace, "time-above", times=times, level=4, begin=1, end=4) == 3
    assert one(backend, trace, "time-above", times=times, level=9) == 0


def test_samples_that_are_missing_make_a_summary_missing(backend):
    counts = np.rint(1000 + 400 * SINE).astype(np.int32)
    counts[900:] = -1
    reals = np.where(counts < 0, np.nan, counts.astype(np.float64))
    endless = np.where(counts < 0, np.inf, counts.astype(np.float64))
    for kind in set(KINDS) - {"first-passage"}:
        for trace in (counts, reals, endless):
            actual = one(backend, trace, kind, level=10)
            assert np.array(actual).view(np.uint64) == 0x7FF8000000000000, "the canonical NaN"
    assert one(backend, counts, "amplitude", end=900) == pytest.approx(400, rel=0.006)


def test_columns_and_rows_do_not_mix(backend):
    waves = [np.rint(trace).astype(np.int32) for trace, _, _ in WAVES.values()]
    summaries = [Summary(kind, 2, False, 5, 990, 1010.0) for kind in KINDS]
    together = run(backend, waves, summaries, columns=3)
    for row, wave in enumerate(waves):
        alone = [one(backend, wave, kind, begin=5, end=990, level=1010.0) for kind in KINDS]
        np.testing.assert_array_equal([actual[row] for actual in together], alone)


def test_the_bits_are_those_of_every_machine(backend):
    """SHA-256 of all summaries of noisy waves, as the CPU gave it."""
    rng = np.random.default_rng(3)
    triangle = np.abs(np.arange(TIMES.size) % 80 - 40) * 20
    traces = 1000 + triangle + rng.integers(0, 2**16, (64, TIMES.size)) / 2**9
    windows = [(0, 1001), (100, 700), (13, 60)]
    sha = hashlib.sha256()
    for rows in (np.rint(traces).astype(np.int32), traces):
        real = rows.dtype.kind == "f"
        wanted = [Summary(k, 1, real, b, e, 1100.0) for k in KINDS for b, e in windows]
        for actual in run(backend, rows, wanted, columns=2):
            sha.update(actual.astype("<f8").tobytes())
    assert sha.hexdigest()[:16] == "0fba0c0ad4e48847"
