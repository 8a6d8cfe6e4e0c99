// Poisson numbers, for tau-leaping: the same from every compiler and on every device. What is exact
// and to which digit, the sources and the speed are in docs/developers/poisson.md.
//
// `bits(attempt)` gives the 128 random bits of attempt 0, 1, ...: a function of the attempt alone
// and of what the caller captured, so that a draw has an address and not a history.
#pragma once

#include "math/math.h"
#include "random/poisson_estimates.h"
#include "random/streams.h"

// Means are 0 to this, so that every result is a whole double and fits any 64-bit sum.
constexpr double POISSON_LARGEST_MEAN = 0x1p50;
// The result for a mean that is negative, too large or NaN.
constexpr i64 POISSON_UNDEFINED = -1;
// From here on rejection; below, inversion. A CPU would change at 12, a warp, which waits for its
// slowest thread, later.
constexpr double POISSON_REJECTION_MEAN = 24.0;
// One attempt fails with probability 0.23 at most: all 64 do with 2^-135.
constexpr u32 POISSON_ATTEMPTS = 64;

// The draws of one reaction in one leap, in a block of counters of their own. Stream and draw
// together have 64 bits:
//     c0           attempt, bits 0..5 | reaction << 6          attempt: 6 bits, reaction: 26 bits
//     c1           leap, bits 0..15 | stream << 16             leap: 30 bits
// with stream LEAP_STREAMS + (leap >> 16), so that 2^14 streams are taken.
constexpr u32 LEAP_STREAMS = 0x4000;
constexpr u32 LARGEST_LEAP = (1u << 30) - 1;
constexpr u32 LARGEST_LEAP_REACTION = (1u << 26) - 1;

// The part of the address that all reactions of leap number `leap` share.
DEVICE PhiloxSeries leap_series(const PhiloxKeys &keys, u64 trajectory, u32 point, u32 leap) {
    return draw_series(keys, LEAP_STREAMS + (leap >> 16), trajectory, point, (u64)leap << 32);
}

struct LeapBits {
    const PhiloxSeries &series;
    const PhiloxKeys &keys;
    u32 reaction;

    DEVICE_MEMBER Philox4 operator()(u32 attempt) const {
        return philox_draw(series, keys, reaction * POISSON_ATTEMPTS + attempt);
    }
};

// 1/1188, -1/1680, 1/1260, -1/360, 1/12
TABLE double STIRLING_SERIES[5] = {
    0x1.b951e2b18ff23p-11, -0x1.3813813813814p-11, 0x1.a01a01a01a01ap-11,
    -0x1.6c16c16c16c17p-9, 0x1.5555555555555p-4,
};

// `stirling_error` of a large k = 1 / inverse. Templates over `Real` are for one number, and for one on each lane of a vector.
template <class Real>
DEVICE Real stirling_series(Real inverse) {
    const Real square = inverse * inverse;
    Real series = fused(square, number<Real>(STIRLING_SERIES[0]), number<Real>(STIRLING_SERIES[1]));
    series = horner(square, series, STIRLING_SERIES[2]);
    series = horner(square, series, STIRLING_SERIES[3]);
    series = horner(square, series, STIRLING_SERIES[4]);
    return inverse * series;
}

// log(k!) - (k log(k) - k + log(2 pi k) / 2), the error of Stirling's formula; 0 for k = 0, for
// which `probability_weight` leaves nothing to correct.
DEVICE double stirling_error(double k) {
    static const double table[16] = {
        0.0,
        0x1.4c071bcda0a5bp-4,
        0x1.52a9b923ea649p-5,
        0x1.c579a268d80b3p-6,
        0x1.54a2662fd78a9p-6,
        0x1.10b4e513fcbedp-6,
        0x1.c6b167bebdf36p-7,
        0x1.85d4d612e4a86p-7,
        0x1.552805e7b3076p-7,
        0x1.2f4871b12ab64p-7,
        0x1.10f9d4c0743a7p-7,
        0x1.f0593088014f8p-8,
        0x1.c7018733aa9c6p-8,
        0x1.a40514700f36cp-8,
        0x1.86076c002d4a7p-8,
        0x1.6c08f6f194a10p-8,
    };
    return k < 16.0 ? table[(i32)k] : stirling_series(quotient(1.0, k));
}

// (atanh(v) - v) / v^3 in v^2, for |v| <= 1/4.
TABLE double DEVIANCE_SERIES[8] = {
    0x1.2ee9067223649p-4, 0x1.0a7d576db63a5p-4, 0x1.3b6ea68ef74a0p-4, 0x1.745a64c7673abp-4,
    0x1.c71c7cd802968p-4, 0x1.2492491974ed8p-3, 0x1.99999999a2166p-3, 0x1.555555555554dp-2,
};

constexpr double DEVIANCE_SERIES_REACH = 0x1p-4;  // of v^2

// `poisson_deviance` where v is small.
template <class Real>
DEVICE Real deviance_series(Real k, Real difference, Real v) {
    const Real square = v * v;
    Real series = fused(square, number<Real>(DEVIANCE_SERIES[0]), number<Real>(DEVIANCE_SERIES[1]));
    UNROLL for (int i = 2; i < 8; ++i) series = horner(square, series, DEVIANCE_SERIES[i]);
    return fused(difference, v, 2.0 * k * v * (square * series));
}

// k log(k / mean) + mean - k: what log(mean^k exp(-mean)) misses from its largest value, without
// the difference of two large numbers. With v = (k - mean) / (k + mean) it is
// (k - mean) v + 2 k (atanh(v) - v).
DEVICE double poisson_deviance(double k, double mean) {
    const double difference = k - mean;
    const double v = quotient(difference, k + mean);
    if (v * v > DEVIANCE_SERIES_REACH) {
        const double ratio = quotient(k, mean);
        return k > 0.0 ? FMA(k, -tl_exponential(ratio), -difference) : mean;
    }
    return deviance_series(k, difference, v);
}

// 1 / the square of the probability of k is this times exp(2 deviance + 2 stirling_error).
template <class Real>
DEVICE Real probability_weight(Real k) {
    return k > 0.0 ? 0x1.921fb54442d18p+2 * k : number<Real>(1.0);
}

// Above this, less than 2^-53 of the law is left for inversion, whose t is then made of rounding errors.
template <class Real>
DEVICE Real inversion_limit(Real mean) {
    const Real steep = fused(number<Real>(8.0), mean, number<Real>(10.0));
    const Real flat = fused(number<Real>(3.0), mean, number<Real>(17.0));
    return steep < flat ? steep : flat;
}

// For means below 24: the first k whose cumulative probability reaches u. `t` is what is left of u
// in units of the probability of k, `ratio` is k / mean: a step is three double operations.
DEVICE i64 poisson_inversion(double mean, const Philox4 &bits) {
    const double inverse = quotient(1.0, mean);
    const i32 limit = (i32)inversion_limit(mean);
    double t = unit_half_open(bits.x0, bits.x1) * tl_exp(mean);
    double ratio = 0.0;
    i32 k = 0;
    while (t > 1.0 && k < limit) {
        ratio += inverse;
        t = FMA(t, ratio, -ratio);
        ++k;
    }
    return k;
}

// The hat of an attempt at a number with a mean of 24 or more: transformed rejection with a squeeze (Hörmann
// 1993, PTRS). Where 1.2 and 3.75 stand, 1.1328 and 3.6224 are usual: with these the hat is up to 0.6 %
// below the law in places and the squeeze up to 0.3 % above it.
template <class Real>
struct PoissonHat {
    Real a, b, inverse;

    // `root` is that of the mean, and 1 / `inverse` the distance of u from the edge.
    DEVICE_MEMBER PoissonHat(Real root, Real inverse_) : inverse(inverse_) {
        b = fused(number<Real>(2.53), root, number<Real>(0.931));
        a = fused(number<Real>(0.02483), b, number<Real>(-0.059));
    }
    // The number at u in [-1/2, 1/2), before it is rounded.
    DEVICE_MEMBER Real number_at(Real u, Real mean) const {
        return fused(fused(2.0 * a, inverse, b), u, mean - 0.07);
    }
    // Whether it is accepted with v in (0, 1] without a look at the law, where u is not close to the edge.
    DEVICE_MEMBER auto squeezes(Real v) const { return (0.9277 - v) * (b - 2.0) >= 3.75; }
    // The height of v under the hat.
    DEVICE_MEMBER Real height(Real v) const {
        const Real b_hat = b - 3.4;
        const Real hat = fused(a * inverse, inverse, b) * b_hat;
        return quotient(v * fused(number<Real>(1.1239), b_hat, number<Real>(1.2)), hat);
    }
};

constexpr double SQUEEZED_EDGE = 0.07;  // from here on the squeeze holds
// Closer to the edge k is 29 standard deviations away: no 52-bit v is small enough for it.
constexpr double LEAST_EDGE = 0x1p-9;

// An attempt with a mean of 24 or more.
DEVICE bool poisson_rejection(double mean, const Philox4 &words, i64 &number) {
    const double u = unit_one_to_two(words.x0, words.x1) - 1.5;
    const double v = unit_open_low(words.x2, words.x3);
    const double edge = 0.5 - tl_abs(u);
    if (edge < LEAST_EDGE) return false;
    const PoissonHat<double> hat(SQRT(mean), quotient(1.0, edge));
    i32 low_bits;
    const double k = nearest(hat.number_at(u, mean), low_bits);
    number = (i64)k;
    if (edge >= SQUEEZED_EDGE && hat.squeezes(v)) return true;
    if (k < 0.0) return false;
    const double height = hat.height(v);
    const double weight = probability_weight(k) * height * height;
    return tl_exponential(weight) >= 2.0 * (poisson_deviance(k, mean) + stirling_error(k));
}

// What estimates leave open.
DEVICE_SELDOM i64 poisson_inversion_apart(double mean, Philox4 words) {
    return poisson_inversion(mean, words);
}

DEVICE_SELDOM i64 poisson_rejection_apart(double mean, Philox4 words) {
    i64 number;
    return poisson_rejection(mean, words, number) ? number : FAILED;
}

// A Poisson number with a mean below 24.
DEVICE i64 poisson_below(double mean, const Philox4 &words) {
    if constexpr (ESTIMATES_FIRST) {
        const int number = estimated_inversion(mean, words);
        return LIKELY(number >= 0) ? number : poisson_inversion_apart(mean, words);
    }
    return poisson_inversion(mean, words);
}

// An attempt at one with a mean of 24 or more: the number, or FAILED.
DEVICE i64 poisson_above(double mean, const Philox4 &words) {
    if constexpr (ESTIMATES_FIRST) {
        const int number = estimated_rejection(mean, words);
        return LIKELY(number != OPEN) ? number : poisson_rejection_apart(mean, words);
    }
    i64 number;
    return poisson_rejection(mean, words, number) ? number : FAILED;
}

// A Poisson number with this mean, 0 .. 2^50; POISSON_UNDEFINED for any other mean.
template <class Bits>
DEVICE i64 poisson(double mean, const Bits &bits) {
    if (!(mean >= 0.0 && mean <= POISSON_LARGEST_MEAN)) return POISSON_UNDEFINED;
    if (mean < POISSON_REJECTION_MEAN) return poisson_below(mean, bits(0));
    for (u32 attempt = 0; attempt < POISSON_ATTEMPTS; ++attempt) {
        const i64 number = poisson_above(mean, bits(attempt));
        if (number != FAILED) return number;
    }
    return (i64)mean;
}
