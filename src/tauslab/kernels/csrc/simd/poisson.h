// Poisson numbers on SIMD lanes: the same as those of random/poisson.h, as doubles.
#pragma once

#include "simd/draws.h"
#include "random/poisson.h"

// exp(x) of usual x.
DEVICE Real usual_exp(Real x) {
    const ScaledPair<Real> parts = exp_parts(x);
    return (parts.sum.hi + parts.sum.lo) *
           from_bits((as_bits(parts.shifted) + (Words{} + 1023ull)) << 52);
}

DEVICE Real magnitude_of(Real x) {
    return from_bits(as_bits(x) & 0x7fffffffffffffffull);
}

// `result`, with the function's own value on the lanes `others`.
template <class Function>
DEVICE Real with_others(Real result, u32 others, const Function &function, Real k, Real mean) {
    NO_UNROLL for (; others; others &= others - 1) {
        const int lane = lowest_bit(others);
        put(result, lane, function(at<double>(k, lane), at<double>(mean, lane)));
    }
    return result;
}

// For means below 24: the first numbers whose cumulative probability reaches `units` - 1, for COUNT vectors and their
// lanes `wanted`.
template <int COUNT>
DEVICE void poisson_inversion(const Real *means, const Real *units, const u32 *wanted,
                              Real *numbers) {
    // Set to nothing, or g++ 12 warns.
    Real inverse[COUNT] = {}, limit[COUNT] = {}, t[COUNT] = {}, ratio[COUNT] = {};
    Real next = on_lanes(1.0);
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Mask here = lanes_of(wanted[i]);
        const Real mean = here ? means[i] : on_lanes(1.0);
        inverse[i] = 1.0 / mean, limit[i] = inversion_limit(mean);
        t[i] = here ? (units[i] - 1.0) * usual_exp(mean) : Real{};
        ratio[i] = numbers[i] = Real{};
    }
    // Where t has fallen to 1 it stays below.
    for (;;) {
        Mask on[COUNT] = {};
        u32 any = 0;
        UNROLL for (int i = 0; i < COUNT; ++i) {
            on[i] = (t[i] > 1.0) & (next <= limit[i]);
            any |= bits_of(on[i]);
        }
        if (!any) return;
        UNROLL for (int i = 0; i < COUNT; ++i) {
            numbers[i] = on[i] ? next : numbers[i];
            ratio[i] += inverse[i];
            t[i] = fused(t[i], ratio[i], -ratio[i]);
        }
        next += 1.0;
    }
}

// An attempt at numbers with means of 24 or more, for COUNT vectors and their lanes `wanted`; `found` gets a bit for each
// on which it succeeds. Vectors go side by side, step by step: one alone waits for its own results most of the time.
template <int COUNT>
DEVICE void poisson_rejection(const LogColumns &table, const Real *means, const DrawsOnLanes *draws,
                              const u32 *wanted, Real *numbers, u32 *found) {
    Real mean[COUNT] = {}, edge[COUNT] = {}, weight[COUNT] = {};
    Real deviance[COUNT] = {}, error[COUNT] = {};
    u32 looked[COUNT] = {}, distant[COUNT] = {};
    UNROLL for (int i = 0; i < COUNT; ++i) {
        mean[i] = lanes_of(wanted[i]) ? means[i] : on_lanes(POISSON_REJECTION_MEAN);
        edge[i] = 0.5 - magnitude_of(draws[i].waiting - 1.5);
    }
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Real u = draws[i].waiting - 1.5, v = 2.0 - draws[i].unit;
        const PoissonHat<Real> hat(square_root(mean[i]), 1.0 / edge[i]);
        numbers[i] = (hat.number_at(u, mean[i]) + 0x1.8p52) - 0x1.8p52;
        const u32 possible = bits_of(edge[i] >= LEAST_EDGE) & wanted[i];
        found[i] = bits_of((edge[i] >= SQUEEZED_EDGE) & hat.squeezes(v)) & possible;
        looked[i] = bits_of(numbers[i] >= 0.0) & (possible ^ found[i]);
        const Real height = hat.height(v);
        weight[i] = probability_weight(numbers[i]) * height * height;
    }
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Real difference = numbers[i] - mean[i], ratio = difference / (numbers[i] + mean[i]);
        deviance[i] = deviance_series(numbers[i], difference, ratio);
        distant[i] = bits_of(ratio * ratio > DEVIANCE_SERIES_REACH) & looked[i];
    }
    UNROLL for (int i = 0; i < COUNT; ++i) error[i] = stirling_series(1.0 / numbers[i]);
    UNROLL for (int i = 0; i < COUNT; ++i) weight[i] = exponential_of(table, weight[i]);
    UNROLL for (int i = 0; i < COUNT; ++i) {
        deviance[i] = with_others(
            deviance[i], distant[i], [](double k, double m) { return poisson_deviance(k, m); },
            numbers[i], mean[i]);
        error[i] = with_others(
            error[i], bits_of(numbers[i] < 16.0) & looked[i],
            [](double k, double) { return stirling_error(k); }, numbers[i], mean[i]);
        found[i] |= bits_of(weight[i] >= 2.0 * (deviance[i] + error[i])) & looked[i];
    }
}
