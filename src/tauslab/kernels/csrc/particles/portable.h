// Logarithm, exponential and log-gamma with the bits of model/portable.py: one IEEE operation after the other, none
// fused but in `divided`. Weights of filters are made of these, on the host and on devices.
#pragma once

#include "math/basic.h"

constexpr double HOST_LN2_HIGH = 0x1.62e42fee00000p-1, HOST_LN2_LOW = 0x1.a39ef35793c76p-33;
constexpr double HALF_LOG_2PI = 0x1.d67f1c864beb5p-1, HALF_LOG_PI = 0x1.250d048e7a1bdp-1;

// Of a normal or subnormal positive number: log(part 2^power).
DEVICE double host_log_of(double x) {
    const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
    const u64 bits = as_bits(scaled);
    double power = (double)((i32)(bits >> 52) - 1022) - (x < 0x1p-1022 ? 54.0 : 0.0);
    double part = from_bits((bits & 0x000fffffffffffffull) | 0x3fe0000000000000ull);
    const bool low = part < 0x1.6a09e667f3bcdp-1;
    part = low ? 2.0 * part : part;
    power = low ? power - 1.0 : power;
    const double f = (part - 1.0) / (part + 1.0);
    const double square = f * f;
    double total = 0.0;
    UNROLL for (int k = 12; k > 0; --k) {
        total += 1.0 / (2 * k + 1);
        total *= square;
    }
    return power * HOST_LN2_HIGH + (2.0 * f * (1.0 + total) + power * HOST_LN2_LOW);
}

DEVICE double host_log(double x) {
    const bool usual = x > 0.0 && x < tl_infinity();
    const double value = host_log_of(usual ? x : 1.0);
    return usual ? value : x > 0.0 ? x : x == 0.0 ? -tl_infinity() : tl_nan();
}

// x / by, rounded as a division is, where `one_over` is 1 / by rounded: one step behind a product that is within a unit
// in the last place (Markstein, IBM Journal of Research and Development 34, 1990). A division takes many times as long.
DEVICE double divided(double x, double by, double one_over) {
    const double about = x * one_over;
    return FMA(FMA(-by, about, x), one_over, about);
}

// The same for any `by`, where no number is tiny: a first step brings the product within a unit in the last place.
DEVICE double divided_by_any(double x, double by, double one_over) {
    const double about = divided(x, by, one_over);
    return FMA(FMA(-by, about, x), one_over, about);
}

// exp(x) for x in (-700, 0].
DEVICE double host_exp(double x) {
    constexpr double LN2 = HOST_LN2_HIGH + HOST_LN2_LOW;
    i32 whole;
    const double power = nearest(divided(x, LN2, 1.0 / LN2), whole);
    const double rest = (x - power * HOST_LN2_HIGH) - power * HOST_LN2_LOW;
    double total = 1.0;
    UNROLL for (int k = 14; k > 0; --k) {
        total *= rest;
        total = divided(total, k, 1.0 / k);
        total += 1.0;
    }
    return total * power_of_two(whole);
}

// Of positive numbers, by Stirling's series.
DEVICE_SELDOM double host_log_gamma(double x) {
    const bool small = x < 16.0;
    double product = 1.0;
    for (int step = 0; step < 16; ++step) product = small ? product * (x + step) : product;
    const double z = small ? x + 16.0 : x;
    const double square = 1.0 / (z * z);
    const double terms[6] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360};
    double series = 0.0;
    UNROLL for (int k = 5; k >= 0; --k) series = series * square + terms[k];
    const double value = (z - 0.5) * host_log(z) - z + HALF_LOG_2PI + series / z;
    return value - host_log(product);
}
