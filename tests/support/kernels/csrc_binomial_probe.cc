// Binomial numbers over arrays, for tests.
#include "random/binomial.h"

DEVICE u32 split_of(i64 i) {
    return ((u32)i & (SPLITS - 1)) | SPLITS;
}

// Draws `first` to `first + n - 1` of `trials` with one probability: channel i of leap 0, 2^25 a leap.
KERNEL(probe_binomial, const PhiloxKeys *round_keys, i64 trials, double p, i64 first, i64 n,
       i64 *out) {
    const PhiloxKeys keys = *round_keys;
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const PhiloxSeries series = leap_series(keys, 7, 1, (u32)((first + i) >> 25));
        out[i] = binomial(trials, p, LeapBits{series, keys, split_of(first + i)});
    }
}

// As `probe_binomial`, with trials and a probability for every draw: 1 .. 2^50, and 2^-30 .. 1 from
// either side, their logarithms uniform.
KERNEL(probe_binomial_spread, const PhiloxKeys *round_keys, i64 first, i64 n, i64 *out) {
    const PhiloxKeys keys = *round_keys;
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const PhiloxSeries spread = draw_series(keys, STREAM_PILOT, 7, 1, 0);
        const Philox4 x = philox_draw(spread, keys, (u32)(first + i));
        const i64 trials = (i64)(from_fraction(x.x0, x.x1) * power_of_two((i32)(x.x2 % 50)));
        const double p = from_fraction(x.x1, x.x0) * power_of_two(-1 - (i32)(x.x3 % 30));
        const PhiloxSeries series = leap_series(keys, 7, 1, (u32)((first + i) >> 25));
        const bool high = x.x3 & 0x100;
        out[i] = binomial(trials, high ? 1.0 - p : p, LeapBits{series, keys, split_of(first + i)});
    }
}

// Binomial numbers of chosen random bits: words x0 .. x3 of every attempt.
KERNEL(probe_binomial_bits, i64 n, const i64 *trials, const double *p, const u32 *words, i64 *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const u32 *w = words + 4 * i;
        const Philox4 same = {w[0], w[1], w[2], w[3]};
        out[i] = binomial(trials[i], p[i], [&](u32) { return same; });
    }
}

// -2 log(probability of k) as the rejection sees it.
KERNEL(probe_log_binomial, i64 n, const double *trials, const double *p, const double *k,
       double *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE)
        out[i] = FMA(2.0, binomial_miss(trials[i], p[i], k[i]),
                     tl_log(binomial_weight(trials[i], k[i])));
}
