// Poisson numbers over arrays, for tests.
#include "random/poisson.h"

// Draws `first` to `first + n - 1` with one mean: reaction i of leap 0, 2^26 reactions a leap.
KERNEL(probe_poisson, const PhiloxKeys *round_keys, double mean, i64 first, i64 n, i64 *out) {
    const PhiloxKeys keys = *round_keys;
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const PhiloxSeries series = leap_series(keys, 7, 1, (u32)((first + i) >> 26));
        out[i] = poisson(mean, LeapBits{series, keys, (u32)(first + i) & LARGEST_LEAP_REACTION});
    }
}

// As `probe_poisson`, with a mean for every draw: 2^-10 .. 2^50, its logarithm uniform.
KERNEL(probe_poisson_means, const PhiloxKeys *round_keys, i64 first, i64 n, i64 *out) {
    const PhiloxKeys keys = *round_keys;
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const PhiloxSeries means = draw_series(keys, STREAM_PILOT, 7, 1, 0);
        const Philox4 x = philox_draw(means, keys, (u32)(first + i));
        const double fraction = from_fraction(x.x0, x.x1) * power_of_two((i32)(x.x2 % 60) - 10);
        const PhiloxSeries series = leap_series(keys, 7, 1, (u32)((first + i) >> 26));
        out[i] =
            poisson(fraction, LeapBits{series, keys, (u32)(first + i) & LARGEST_LEAP_REACTION});
    }
}

// Poisson numbers of chosen random bits: words x0 .. x3 of every attempt.
KERNEL(probe_poisson_bits, i64 n, const double *means, const u32 *words, i64 *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const u32 *w = words + 4 * i;
        const Philox4 same = {w[0], w[1], w[2], w[3]};
        out[i] = poisson(means[i], [&](u32) { return same; });
    }
}

// 128 bits of one attempt, as four words.
KERNEL(probe_leap_bits, const PhiloxKeys *round_keys, u64 trajectory, u32 point, u32 leap,
       u32 reaction, u32 attempt, u32 *out) {
    const PhiloxKeys keys = *round_keys;
    const PhiloxSeries series = leap_series(keys, trajectory, point, leap);
    const Philox4 x = LeapBits{series, keys, reaction}(attempt);
    if (GLOBAL_ID == 0)
        out[0] = (u32)x.x0, out[1] = (u32)x.x1, out[2] = (u32)x.x2, out[3] = (u32)x.x3;
}

// -2 log(probability of k) as the rejection sees it.
KERNEL(probe_log_probability, i64 n, const double *means, const double *k, double *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const double miss = poisson_deviance(k[i], means[i]) + stirling_error(k[i]);
        out[i] = FMA(2.0, miss, tl_log(probability_weight(k[i])));
    }
}

// What estimates in single precision make of chosen random bits, and what double precision makes of them:
// out [n, 2], numbers, FAILED or OPEN.
KERNEL(probe_estimates, i64 n, const double *means, const u32 *words, i64 *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const u32 *w = words + 4 * i;
        const Philox4 bits = {w[0], w[1], w[2], w[3]};
        i64 number = FAILED;
        if (means[i] < POISSON_REJECTION_MEAN) {
            out[2 * i] = estimated_inversion(means[i], bits);
            number = poisson_inversion(means[i], bits);
        } else {
            out[2 * i] = estimated_rejection(means[i], bits);
            if (!poisson_rejection(means[i], bits, number)) number = FAILED;
        }
        out[2 * i + 1] = number;
    }
}
