// Binomial numbers, for Poisson numbers of a part of an interval whose number is known: the same from
// every compiler and on every device. What is exact and to which digit, the sources and the speed are
// in docs/developers/binomial.md.
//
// `bits(attempt)` is that of random/poisson.h.
#pragma once

#include "random/poisson.h"

// Trials are 0 to this, so that every result is a whole double.
constexpr i64 BINOMIAL_MOST_TRIALS = 1ll << 50;
// The result for trials or a probability outside of their range, or NaN.
constexpr i64 BINOMIAL_UNDEFINED = -1;
// From this mean on rejection; below, inversion.
constexpr double BINOMIAL_REJECTION_MEAN = 24.0;
// All of them fail with 2^-130 at most.
constexpr u32 BINOMIAL_ATTEMPTS = POISSON_ATTEMPTS;

// The binomial number of a channel in a leap: its bits are those of a Poisson number of reaction
// SPLITS + channel. (A channel draws at most one in an attempt at a leap.)
constexpr u32 SPLITS = 1u << 25;

// For n p < 24 and p <= 1/2: the first k whose cumulative probability reaches u. `t` is what is left
// of u in units of the probability of k.
DEVICE i64 binomial_inversion(i64 n, double p, double mean, const Philox4 &bits) {
    const double trials = (double)n;
    const double odds = quotient(1.0 - p, p);
    // Above this, less than 2^-53 is left, as of the Poisson law, whose tail is heavier.
    const i32 limit = (i32)tl_min(trials, tl_min(FMA(8.0, mean, 10.0), FMA(3.0, mean, 17.0)));
    double t = unit_half_open(bits.x0, bits.x1) * tl_exp(-trials * tl_log1p(-p));
    i32 k = 0;
    while (t > 1.0 && k < limit) {
        const double ratio = quotient(k + 1.0, trials - k) * odds;
        t = FMA(t, ratio, -ratio);
        ++k;
    }
    return k;
}

// -log(probability of k) less what `binomial_weight` holds: deviances of successes and failures, and
// errors of Stirling's formula.
DEVICE double binomial_miss(double n, double p, double k) {
    const double deviance = poisson_deviance(k, n * p) + poisson_deviance(n - k, n * (1.0 - p));
    return deviance + (stirling_error(k) + stirling_error(n - k)) - stirling_error(n);
}

// 1 / the square of the probability of k is this times exp(2 binomial_miss).
DEVICE double binomial_weight(double n, double k) {
    return quotient(probability_weight(k) * probability_weight(n - k), probability_weight(n));
}

// An attempt for n p >= 24 and p <= 1/2: transformed rejection with a squeeze (Hörmann 1993, BTRS).
// The hat and the squeeze have constants of our own: docs/developers/binomial.md.
DEVICE bool binomial_rejection(i64 n, double p, const Philox4 &words, i64 &number) {
    const double trials = (double)n, mean = trials * p;
    const double b = FMA(2.53, SQRT(mean * (1.0 - p)), 1.15);
    const double a = FMA(0.0248, b, FMA(0.01, p, -0.0873));
    const double u = unit_one_to_two(words.x0, words.x1) - 1.5;
    const double v = unit_open_low(words.x2, words.x3);
    const double edge = 0.5 - tl_abs(u);
    // Closer to the edge k is too far away for any 52-bit v.
    if (edge < 0x1p-9) return false;
    const double inverse = quotient(1.0, edge);
    i32 low_bits;
    const double k = nearest(FMA(FMA(2.0 * a, inverse, b), u, mean), low_bits);
    number = (i64)k;
    if (edge >= 0.07 && (0.92 - v) * b >= 3.95) return true;
    if (k < 0.0 || k > trials) return false;
    const double hat = FMA(a * inverse, inverse, b) * b;
    const double height = quotient(v * FMA(1.1239, b, 1.6), hat);
    const double weight = binomial_weight(trials, k) * height * height;
    return tl_exponential(weight) >= 2.0 * binomial_miss(trials, p, k);
}

// For p <= 1/2.
template <class Bits>
DEVICE i64 binomial_of_half(i64 n, double p, const Bits &bits) {
    const double mean = (double)n * p;
    if (mean < 0x1p-60) return 0;
    if (mean < BINOMIAL_REJECTION_MEAN) return binomial_inversion(n, p, mean, bits(0));
    for (u32 attempt = 0; attempt < BINOMIAL_ATTEMPTS; ++attempt) {
        i64 number = 0;
        if (binomial_rejection(n, p, bits(attempt), number)) return number;
    }
    return (i64)mean;
}

// Successes in n trials, 0 .. 2^50, each with probability p, 0 .. 1; BINOMIAL_UNDEFINED otherwise.
template <class Bits>
DEVICE i64 binomial(i64 n, double p, const Bits &bits) {
    if (!(n >= 0 && n <= BINOMIAL_MOST_TRIALS && p >= 0.0 && p <= 1.0)) return BINOMIAL_UNDEFINED;
    const bool many = p > 0.5;
    const i64 number = binomial_of_half(n, many ? 1.0 - p : p, bits);
    return many ? n - number : number;
}
