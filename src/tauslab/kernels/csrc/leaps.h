// Small pieces that the generated part of a leap is made of.
#pragma once

#include "prelude.h"

DEVICE double larger(double a, double b) {
    return b > a ? b : a;
}

// Without the sign, also that of a zero: the propensity of 2 X is -0 where there is no X.
DEVICE double magnitude(double a) {
    return from_bits(as_bits(a) & 0x7fffffffffffffffull);
}

// Order of a law that is not mass action in one species: by how many per cent the propensity grows
// if the count grows by one per cent, from one molecule more.
DEVICE double law_order(double count, double now, double with_one_more) {
    return now > 0 ? count * magnitude(with_one_more - now) / now : 1.0;
}

// What is known before a leap. The limit is a fraction, so that only the least is divided.
struct Plan {
    double a0, critical;  // total propensity, and that of critical reactions
    double top, bottom;
    DEVICE_MEMBER double limit() const { return top / bottom; }
};

// The propensity to leap with: that of a reaction which is not critical.
DEVICE double share(double propensity, bool critical, Plan &plan) {
    plan.a0 += propensity;
    if (critical) plan.critical += propensity;
    return critical ? 0.0 : propensity;
}

// The limit by a species that may change by `change`: the lesser of change / |mean| and
// change^2 / variance, with the mean and variance of its change in a unit of time.
DEVICE void bound(double change, double mean, double variance, Plan &plan) {
    const double top = change * change;
    const double bottom = larger(magnitude(mean) * change, variance);
    if (top * plan.bottom < plan.top * bottom) plan.top = top, plan.bottom = bottom;
}

// Numbers of firings stand where the means were, as whole numbers in the bits of a double.
DEVICE i64 number_of(double cell) {
    return (i64)as_bits(cell);
}

DEVICE double cell_of(i64 number) {
    return from_bits((u64)number);
}

// A channel is a set of reactions that change the same. Channels with a smaller mean draw one number
// together, and then which of them fires. In networks with few, every channel draws for itself.
constexpr double SMALL_MEAN = 0.5;
constexpr int FEW_CHANNELS = 10;
constexpr int PICKS = 4;  // firings that are placed at a time

// A cell with a small mean counts firings in its last 12 bits: the mean has 41 bits. (Not 16 bits:
// g++ 12 forgets to clear the last 16 bits of a double that is chosen by a condition.)
constexpr u64 FIRINGS_OF_SMALL = 0xfffull;
constexpr i64 MOST_PICKS = 0xfff;

DEVICE double small_cell(double mean) {
    return from_bits(as_bits(mean) & ~FIRINGS_OF_SMALL);
}

DEVICE void choose(int channel, double propensity, double target, double &sum, int &chosen) {
    if (propensity > 0 && (chosen < 0 || sum <= target)) chosen = channel;
    sum += propensity;
}

// What `apply_firings` found, as bits.
constexpr int FITS = 0, FELL_BELOW_ZERO = 1, TOO_LARGE = 2;

DEVICE void add(i32 &count, i64 change, i64 direction, int &outcome) {
    const i64 sum = count + change * direction;
    if (sum < 0) outcome |= FELL_BELOW_ZERO;
    if (sum > 2147483647) outcome |= TOO_LARGE;
    count = (i32)(u32)(u64)sum;
}
