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

// `result`, with the function's own value on the lanes `others`.
template <class Function>
DEVICE Real with_others(Real result, u32 others, const Function &function, Real k, Real mean) {
    NO_UNROLL for (; others; others &= others - 1) {
        const int lane = lowest_bit(others);
        put(result, lane, function(at<double>(k, lane), at<double>(mean, lane)));
    }
    return result;
}

// For means below 24: the first number whose cumulative probability reaches `unit` - 1, for the lanes `wanted`.
DEVICE Real poisson_inversion(Real mean, Real unit, u32 wanted) {
    const Mask here = lanes_of(wanted);
    const Real of = here ? mean : on_lanes(1.0);
    const Real inverse = 1.0 / of, limit = inversion_limit(of);
    Real t = here ? (unit - 1.0) * usual_exp(of) : Real{};
    Real ratio = {}, next = on_lanes(1.0), k = {};
    // Where t has fallen to 1 it stays below.
    for (;;) {
        const Mask on = (t > 1.0) & (next <= limit);
        if (!bits_of(on)) return k;
        k = on ? next : k;
        ratio += inverse;
        t = fused(t, ratio, -ratio);
        next += 1.0;
    }
}

// An attempt at numbers with means of 24 or more, for the lanes `wanted`; a bit for each on which it succeeds.
DEVICE u32 poisson_rejection(const LogColumns &table, Real mean, const DrawsOnLanes &draw,
                             u32 wanted, Real &result) {
    const Real of = lanes_of(wanted) ? mean : on_lanes(POISSON_REJECTION_MEAN);
    const Real u = draw.waiting - 1.5, v = 2.0 - draw.unit;
    const Real edge = 0.5 - absolute(u);
    const PoissonHat<Real> hat(square_root(of), 1.0 / edge);
    const Real k = (hat.number_at(u, of) + 0x1.8p52) - 0x1.8p52;
    result = k;
    const u32 possible = bits_of(edge >= LEAST_EDGE) & wanted;
    const u32 squeezed = bits_of((edge >= SQUEEZED_EDGE) & hat.squeezes(v)) & possible;
    const u32 looked = bits_of(k >= 0.0) & (possible ^ squeezed);
    if (!looked) return squeezed;
    const Real height = hat.height(v);
    const Real weight = probability_weight(k) * height * height;
    const Real difference = k - of;
    const Real ratio = difference / (k + of);
    const Real deviance = with_others(
        deviance_series(k, difference, ratio),
        bits_of(ratio * ratio > DEVIANCE_SERIES_REACH) & looked,
        [](double x, double m) { return poisson_deviance(x, m); }, k, of);
    const Real error = with_others(
        stirling_series(1.0 / k), bits_of(k < 16.0) & looked,
        [](double x, double) { return stirling_error(x); }, k, of);
    return squeezed |
           (bits_of(exponential_of(table, weight) >= 2.0 * (deviance + error)) & looked);
}
